// Measurement: what a process and its clients did between two moments, and the memory that it had at most.
//
// Thread safety: one thread.   Ownership: none taken.   Errors: as process.h's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "experiments/peers/client.h"
#include "experiments/peers/figures.h"

namespace nova {

class Measurement {
 public:
  // `own_bytes`: memory of the clients themselves, which is no engine's.
  explicit Measurement(uint64_t own_bytes = 0) : own_bytes_(own_bytes) {}
  // Waits, and looks now and then how much memory is in use that is no file's.
  void WaitUntil(Nanos until);
  void Begin(const Clients& clients);
  // Ends the clients. Operations a second, CPU, bytes of the device and of files an operation, p99.9, the
  // longest operation, and how many stalled.
  Report End(const Clients& clients);
  // Since construction, without own_bytes.
  uint64_t peak_anonymous_bytes() const {
    return peak_anonymous_bytes_ - std::min(own_bytes_, peak_anonymous_bytes_);
  }

 private:
  struct Counts {
    Nanos at = 0;
    double cpu_seconds = 0;
    uint64_t operations = 0;
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
  };
  static Counts CountsOf(const Clients& clients);

  const uint64_t own_bytes_;
  Counts from_;
  uint64_t peak_anonymous_bytes_ = 0;
};

}  // namespace nova
