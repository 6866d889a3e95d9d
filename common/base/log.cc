#include "common/base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace nova {
namespace {

void StderrOutput(LogSeverity severity, const char* file, int line, std::string_view text) {
  if (severity < LogSeverity::kWarning) return;
  std::fprintf(stderr, "%c %s:%d] %.*s\n", "IWEF"[static_cast<int>(severity)], file, line,
               static_cast<int>(text.size()), text.data());
}

std::atomic<LogOutput> g_output{&StderrOutput};

}  // namespace

void SetLogOutput(LogOutput output) { g_output.store(output); }

LogMessage::~LogMessage() {
  g_output.load()(severity_, file_, line_, stream_.str());
  if (severity_ == LogSeverity::kFatal) std::abort();
}

}  // namespace nova
