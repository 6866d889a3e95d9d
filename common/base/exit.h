// ExitWithError: the end of a program on bad flags, bad input, or without a thing it cannot start without:
// one line on stderr and exit code 2. For files with a main; libraries return a Status.
//
// Thread safety: any thread; it ends the process.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string_view>

namespace nova {

// Exit code for bad flags and bad input.
inline constexpr int kExitBadInput = 2;

// Ends the process at once; nothing is torn down, so it may be called while threads run.
[[noreturn]] inline void ExitWithError(std::string_view text) {
  std::fprintf(stderr, "error: %.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(nullptr);
  _exit(kExitBadInput);
}

}  // namespace nova
