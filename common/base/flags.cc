#include "common/base/flags.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/base/version.h"

namespace google {
extern void (*gflags_exitfunc)(int);  // what gflags calls when it does not like a flag
}

DECLARE_bool(helpshort);

namespace nova {
namespace {

// What gflags looks for is a source file with the program's name; ours are called main.cc.
[[noreturn]] void ShowOwnFlags(const std::string& usage) {
  std::printf("%s: %s\n", google::ProgramInvocationShortName(), usage.c_str());
  std::vector<google::CommandLineFlagInfo> flags;
  google::GetAllFlags(&flags);
  for (const google::CommandLineFlagInfo& flag : flags) {
    const std::string_view file = flag.filename;
    if (file.ends_with("main.cc") || file.ends_with("_flags.cc"))
      std::fputs(google::DescribeOneFlag(flag).c_str(), stdout);
  }
  google::gflags_exitfunc(0);
  std::abort();
}

}  // namespace

void ParseFlags(const std::string& usage, int* argc, char*** argv) {
  google::gflags_exitfunc = [](int code) {  // also at the end of --help, which may be longer than a buffer
    std::fflush(nullptr);
    _exit(code == 0 ? 0 : kExitBadInput);
  };
  google::SetUsageMessage(usage);
  google::SetVersionString(VersionText());
  google::ParseCommandLineNonHelpFlags(argc, argv, true);
  if (FLAGS_helpshort) ShowOwnFlags(usage);
  google::HandleCommandLineHelpFlags();
}

void RefuseArguments(int argc, char** argv) {
  if (argc > 1) ExitWithError(StrCat("unexpected argument '", argv[1], "'"));
}

void CheckFlagOneOf(const char* flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  ExitWithError(StrCat("--", flag, " = ", value, ": must be one of ",
                       absl::StrJoin(allowed, ", ", [](std::string* out, std::string_view v) {
                         out->append(v.empty() ? "\"\"" : v);
                       })));
}

void CheckFlagHostPort(const char* flag, const std::string& value) {
  const size_t colon = value.rfind(':');
  const std::string port = colon == std::string::npos ? "" : value.substr(colon + 1);
  const bool good = colon != 0 && !port.empty() && port.size() <= 5 &&
                    port.find_first_not_of("0123456789") == std::string::npos && std::stoi(port) <= 65535;
  if (!good) ExitWithError(StrCat("--", flag, " = ", value, ": must be host:port"));
  if (value.find(':') != colon)
    ExitWithError(StrCat("--", flag, " = ", value, ": IPv6 is not served, only hosts with an IPv4 address"));
}

bool IsFlagGiven(const char* flag) { return !google::GetCommandLineFlagInfoOrDie(flag).is_default; }

void CheckFlagGiven(const char* flag, const std::string& value, const char* form) {
  if (value.empty()) ExitWithError(StrCat("--", flag, "=", form, " is needed"));
}

}  // namespace nova
