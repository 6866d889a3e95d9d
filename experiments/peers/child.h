// A run in a process of its own: what one run leaves behind, in the heap or in what the kernel counts, is not
// the next one's.
//
// The child is a copy of this process; it ends when this one does.
//
// Thread safety: the caller is the only thread of its process.   Errors: a child that fails has said why in
// one line: this process ends too, with exit code 2. So it does when a child is killed, and says by what.
#pragma once

#include <sys/types.h>

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "experiments/peers/figures.h"

namespace nova {

std::string TextInChild(const std::function<std::string()>& body);  // what `body` returned there
Report ReportInChild(const std::function<Report()>& body);
void RunInChild(const std::function<void()>& body);
// `body` kills its process (SIGKILL); ends the program if it returns.
void RunUntilKilled(const std::function<void()>& body);
// A child that keeps what `hold` took, until EndHolder. `error`: what `hold` returned; empty: it has it.
pid_t StartHolder(const std::function<std::string()>& hold, std::string* error);
void EndHolder(pid_t holder);

template <typename T>
T ValueInChild(const std::function<T()>& body) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::string bytes = TextInChild([&] {
    const T value = body();
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  });
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace nova
