// Fence tests: find out which way of taking a writer's rights away really works (docs/protocol.md, "Measured
// facts about RDMA devices", T1 to T6b).
//
// A writer and a target are connected without a connection manager; the target takes the rights away, then
// the writer WRITEs once more. Both are on one device of this process, or the target is on another node that
// serves the tests. `nova doctor --fence_test` prints the results; Revoke() stands on T2. A WRITE is as long
// as the largest MTU, so that a path that carries less is found out.
//
// The two nodes talk over TCP (verbs_fence_peer.h) without authentication, as long as a test takes: use a
// network of your own.
//
// Thread safety: one caller.
// Errors: one line: the device, its queue pairs or the other node cannot be had.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

enum class Fences { kYes, kNo, kUnsupported };  // kYes: the stale WRITE did not land

// The result of one test.
struct FenceResult {
  std::string name;     // "T2"
  std::string what;     // the step at the target before the stale WRITE
  std::string outcome;  // "refused: remote access error", "landed", "no completion in 2 s", "not supported"
  Fences fences = Fences::kUnsupported;
  double micros = 0;  // time that taking the rights away took
};

// All results, and the paths' MTUs.
struct FenceReport {
  std::vector<FenceResult> results;
  int mtu_here = 0;   // bytes, of the port here
  int mtu_there = 0;  // of the other node's
};

struct FenceOptions {
  std::string device;   // as VerbsFabricOptions::device
  std::string address;  // host of the device here; empty: the first that is up
};

// Runs all tests with both ends on one device.
StatusOr<std::vector<FenceResult>> RunFenceTests(const std::string& address);
// Runs all tests against the target at "host:port", where ServeFenceTests runs.
StatusOr<FenceReport> RunFenceTestsAgainst(const std::string& target, const FenceOptions& options);
// Serves as the target of one RunFenceTestsAgainst, at `port` of the options' address, and returns when that
// is over. Calls `listening` with the address once others may come. DeadlineExceeded: nobody came within
// `patience`.
Status ServeFenceTests(const FenceOptions& options, uint16_t port, Nanos patience,
                       const std::function<void(const std::string&)>& listening);

}  // namespace nova
