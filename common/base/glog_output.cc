#include "common/base/glog_output.h"

#include <glog/logging.h>

#include <cstdlib>
#include <string>

#include "common/base/flags.h"
#include "common/base/log.h"

namespace nova {
namespace {

void WriteToGlog(LogSeverity severity, const char* file, int line, std::string_view text) {
  static constexpr google::LogSeverity kSeverities[] = {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR,
                                                        google::GLOG_FATAL};
  google::LogMessage(file, line, kSeverities[static_cast<int>(severity)]).stream() << text;
}

// On the command line or in the environment, which glog's defaults come from.
bool IsSet(const std::string& flag) {
  return IsFlagGiven(flag.c_str()) || std::getenv(("GLOG_" + flag).c_str()) != nullptr;
}

}  // namespace

void InstallGlog(const char* program) {
  if (FLAGS_log_dir.empty()) FLAGS_logtostderr = true;
  // glog keeps INFO lines back for 30 s, which a killed process takes with it.
  if (!IsSet("logbuflevel") && !IsSet("logbufsecs")) FLAGS_logbuflevel = -1;
  google::InitGoogleLogging(program);
  SetLogOutput(&WriteToGlog);
}

}  // namespace nova
