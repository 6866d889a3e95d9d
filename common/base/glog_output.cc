#include "common/base/glog_output.h"

#include <glog/logging.h>

#include "common/base/log.h"

namespace nova {
namespace {

void WriteToGlog(LogSeverity severity, const char* file, int line, std::string_view text) {
  static constexpr google::LogSeverity kSeverities[] = {google::GLOG_INFO, google::GLOG_WARNING,
                                                        google::GLOG_ERROR, google::GLOG_FATAL};
  google::LogMessage(file, line, kSeverities[static_cast<int>(severity)]).stream() << text;
}

// glog's own: INFO lines are kept back for 30 s, which a killed process takes with it.
bool KeepsLinesBackByDefault() { return FLAGS_logbuflevel == 0 && FLAGS_logbufsecs == 30; }

}  // namespace

void InstallGlog(const char* program) {
  if (FLAGS_log_dir.empty()) FLAGS_logtostderr = true;
  if (KeepsLinesBackByDefault()) FLAGS_logbuflevel = -1;
  if (!google::IsGoogleLoggingInitialized()) google::InitGoogleLogging(program);
  SetLogOutput(&WriteToGlog);
}

}  // namespace nova
