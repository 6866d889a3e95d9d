// How a main reads its flags: a bad one ends the program with one line that names it and what is allowed, and
// exit code 2.
//
//   ParseFlags("a storage component of a Nova cluster", &argc, &argv);
//   RefuseArguments(argc, argv);
//   CheckFlagRange("xchg_threads", FLAGS_xchg_threads, 1, 64);
//
// For files with a main (tidy_test sees to it): libraries are given options.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/check_between.h"
#include "common/base/exit.h"

namespace nova {

// arguments that are no flags stay in argv
void ParseFlags(const std::string& usage, int* argc, char*** argv);
void RefuseArguments(int argc, char** argv);

template <typename T>
void CheckFlagRange(const char* flag, T value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  if (const Status s = CheckBetween(flag, value, low, high); !s.ok())
    ExitWithError(StrCat("--", s.message()));
}
void CheckFlagOneOf(const char* flag, const std::string& value,
                    std::initializer_list<std::string_view> allowed);
void CheckFlagHostPort(const char* flag, const std::string& value);
bool IsFlagGiven(const char* flag);                                                 // on the command line
void CheckFlagGiven(const char* flag, const std::string& value, const char* form);  // form: "host:port,..."

}  // namespace nova
