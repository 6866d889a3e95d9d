// Bare: the least that a device or socket takes for what a fabric does: no connections to look up, no keys,
// no queues of ours.
//
// Thread safety: one thread.   Ownership: ends what it started.   Errors: Open's; later ones abort the
//                program.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace nova {

enum class BenchOp { kWrite, kRead, kSend };

class Bare {
 public:
  virtual ~Bare() = default;
  // `count` operations one after another; each one's time goes to `micros`. Sleeping or spinning while it
  // waits.
  virtual void PingPong(BenchOp op, size_t bytes, bool spin, int count, double* micros) = 0;
  // `count` operations, up to `depth` under way. REQUIRES: a multiple of it.
  virtual void Stream(BenchOp op, size_t bytes, bool spin, int depth, int count) = 0;
};

inline constexpr size_t kBenchBytes = 1 << 20;  // the largest operation

StatusOr<std::unique_ptr<Bare>> NewBareTcp();  // two threads and a connection over loopback
StatusOr<std::unique_ptr<Bare>> NewBareVerbs(const std::string& address);  // two queue pairs of the device

}  // namespace nova
