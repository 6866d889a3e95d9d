// RunFenceTests: which way of taking a writer's rights away really works on a device (protocol.md section 2, T1-T6).
//
// Two queue pairs of the device that has the address, connected to each other; one is the target, the other the stale writer.
// `nova doctor --fence-test` prints it; what Revoke() stands on is T2.
//
// Thread safety: one caller.   Errors: the device or its queue pairs cannot be had.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace nova {

enum class Fences { kYes, kNo, kUnsupported };

struct FenceResult {
  std::string name;     // "T2"
  std::string what;     // done at the target before the stale WRITE
  std::string outcome;  // "refused: remote access error", "landed", "no completion in 2 s", "not supported"
  Fences fences = Fences::kUnsupported;
  double micros = 0;    // what taking the rights away took
};

// `address`: of the device here; empty: the first that is up.
StatusOr<std::vector<FenceResult>> RunFenceTests(const std::string& address);

}  // namespace nova
