// Measurement: what a process and its clients did between two moments, and the memory that it had at most.
//
// Thread safety: one thread.   Ownership: none taken.   Errors: as process.h's.
#pragma once

#include <cstdint>

#include "experiments/peers/client.h"
#include "experiments/peers/figures.h"

namespace nova {

class Measurement {
 public:
  // Waits, and looks now and then how much memory is in use that is no file's.
  void WaitUntil(Nanos until);
  void Begin(const Clients& clients);
  // Ends the clients. Operations a second, CPU, bytes of the device and of files an operation, p99.9, the
  // longest operation, and how many stalled.
  Report End(const Clients& clients);
  uint64_t peak_anonymous_bytes() const { return peak_anonymous_bytes_; }  // since construction

 private:
  struct Counts {
    Nanos at = 0;
    double cpu_seconds = 0;
    uint64_t operations = 0;
    uint64_t read_bytes = 0;
    uint64_t written_bytes = 0;
  };
  static Counts CountsOf(const Clients& clients);

  Counts from_;
  uint64_t peak_anonymous_bytes_ = 0;
};

}  // namespace nova
