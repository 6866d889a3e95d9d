// How a main reads its flags. A bad flag ends the program with one line that names it and its bounds, and
// exit code 2.
//
//   ParseFlags("a storage component of a Nova cluster", &argc, &argv);
//   RefuseArguments(argc, argv);
//   CheckFlagRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
//
// For files with a main (tidy_test checks that); libraries are given options.
//
// Thread safety: main's thread, before any other is started.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/check_between.h"
#include "common/base/exit.h"

namespace nova {

// Parses the flags; other arguments stay in argv. --help prints `usage`.
void ParseFlags(const std::string& usage, int* argc, char*** argv);
void RefuseArguments(int argc, char** argv);  // ends the program if arguments are left

template <typename T>
void CheckFlagRange(const char* flag, T value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  if (const Status s = CheckBetween(flag, value, low, high); !s.ok())
    ExitWithError(StrCat("--", s.message()));
}
// Ends the program unless the value is one of `allowed`.
void CheckFlagOneOf(const char* flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed);
// Ends the program unless it is "host:port", the host a name or an IPv4 address.
void CheckFlagHostPort(const char* flag, const std::string& value);
bool IsFlagGiven(const char* flag);  // it stood on the command line
// Ends the program if the flag is empty; `form` shows what it takes: "host:port,...".
void CheckFlagGiven(const char* flag, const std::string& value, const char* form);

}  // namespace nova
