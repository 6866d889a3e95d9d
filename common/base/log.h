// Logging and checks, without a dependency: applications that link libnova_client get no glog.
//
// NOVA_LOG(WARNING) << "stoc-2: " << status;   one line to the output; programs install glog's, the
//                                               default is stderr for WARNING and above
// NOVA_CHECK(x) << "why";                       a bug: prints and aborts, in every build; never for input,
//                                               network, disk
// NOVA_DCHECK(x)                                the same, in debug and simulation builds only
//
// Thread safety: all. The output must not log.
// Errors: none.
#pragma once

#include <sstream>
#include <string_view>

namespace nova {

enum class LogSeverity { kInfo = 0, kWarning = 1, kError = 2, kFatal = 3 };
// Takes one line; called from any thread.
using LogOutput = void (*)(LogSeverity severity, const char* file, int line, std::string_view text);

void SetLogOutput(LogOutput output);  // call before other threads start

// One line under construction; NOVA_LOG makes it.
class LogMessage {
 public:
  LogMessage(LogSeverity severity, const char* file, int line)
      : severity_(severity), file_(file), line_(line) {}
  ~LogMessage();  // writes the line; kFatal: aborts
  std::ostream& stream() { return stream_; }

 private:
  LogSeverity severity_;
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

// Makes both arms of NOVA_CHECK void.
struct LogVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace nova

#define NOVA_SEVERITY_INFO ::nova::LogSeverity::kInfo
#define NOVA_SEVERITY_WARNING ::nova::LogSeverity::kWarning
#define NOVA_SEVERITY_ERROR ::nova::LogSeverity::kError
#define NOVA_LOG(severity) ::nova::LogMessage(NOVA_SEVERITY_##severity, __FILE__, __LINE__).stream()
#define NOVA_CHECK(cond)                                                                                    \
  __builtin_expect(static_cast<bool>(cond), 1)                                                              \
      ? (void)0                                                                                             \
      : ::nova::LogVoidify() & ::nova::LogMessage(::nova::LogSeverity::kFatal, __FILE__, __LINE__).stream() \
                                   << "CHECK failed: " #cond " "
#ifdef NDEBUG
#define NOVA_DCHECK(cond) NOVA_CHECK(true || (cond))
#else
#define NOVA_DCHECK(cond) NOVA_CHECK(cond)
#endif
