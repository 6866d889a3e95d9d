#include "common/base/glog_output.h"

#include <glog/logging.h>

#include "common/base/log.h"

namespace nova {
namespace {

void WriteToGlog(LogSeverity severity, const char* file, int line, std::string_view text) {
  static constexpr google::LogSeverity kSeverities[] = {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR,
                                                        google::GLOG_FATAL};
  google::LogMessage(file, line, kSeverities[static_cast<int>(severity)]).stream() << text;
}

}  // namespace

void InstallGlog(const char* program) {
  if (FLAGS_log_dir.empty()) FLAGS_logtostderr = true;
  google::InitGoogleLogging(program);
  SetLogOutput(&WriteToGlog);
}

}  // namespace nova
