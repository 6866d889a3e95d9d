// Fence tests: which way of taking a writer's rights away really works (protocol.md section 2, T1-T6).
//
// A writer and a target are connected without a connection manager; the target takes the rights away, then
// the writer WRITEs once more. Both lie on one device of this process, or the target is another node's that
// serves the tests. `nova doctor --fence_test` prints it; what Revoke() stands on is T2. A WRITE is as long
// as the largest MTU, so that a path that carries less is found out.
//
// The two nodes talk over TCP (verbs_fence_peer.h), unauthenticated: for as long as a test takes, on a
// network that is one's own.
//
// Thread safety: one caller.   Errors: the device, its queue pairs or the other node cannot be had: one line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

enum class Fences { kYes, kNo, kUnsupported };

struct FenceResult {
  std::string name;     // "T2"
  std::string what;     // done at the target before the stale WRITE
  std::string outcome;  // "refused: remote access error", "landed", "no completion in 2 s", "not supported"
  Fences fences = Fences::kUnsupported;
  double micros = 0;  // what taking the rights away took
};

struct FenceReport {
  std::vector<FenceResult> results;
  int mtu_here = 0;  // bytes, of the ports
  int mtu_there = 0;
};

struct FenceOptions {
  std::string device;   // as VerbsFabricOptions
  std::string address;  // host of the device here; empty: the first that is up
};

// Both ends on one device.
StatusOr<std::vector<FenceResult>> RunFenceTests(const std::string& address);
// The target is at "host:port", where ServeFenceTests runs.
StatusOr<FenceReport> RunFenceTestsAgainst(const std::string& target, const FenceOptions& options);
// Is the target of one RunFenceTestsAgainst, at `port` of the options' address; returns when it is over.
// `listening` runs once others may come. DeadlineExceeded: nobody came.
Status ServeFenceTests(const FenceOptions& options, uint16_t port, Nanos patience,
                       const std::function<void(const std::string&)>& listening);

}  // namespace nova
