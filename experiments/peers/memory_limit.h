// MemoryLimit: how much memory one process may use, the pages of files that it reads included.
//
// By a control group of its own (version 1: beneath the caller's group; version 2: beside it, or beneath the
// root's). Where none can be made: another process locks the rest of the machine's memory, which holds for
// every process of the machine then.
//
// Thread safety: one thread.   Ownership: the destructor removes the group, or lets go of the memory.
// Errors: FailedPrecondition: what cannot be had, and why.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace nova {

enum class LimitBy { kAny, kGroup, kLockedMemory };

class MemoryLimit {
 public:
  static StatusOr<std::unique_ptr<MemoryLimit>> Make(uint64_t bytes, LimitBy by);
  virtual ~MemoryLimit() = default;
  virtual std::string Describe() const = 0;               // what it is: "a control group of version 1"
  virtual void Enter() = 0;                               // by the process it is for, as its only thread
  virtual std::optional<uint64_t> PeakBytes() const = 0;  // none: it is not counted
};

}  // namespace nova
