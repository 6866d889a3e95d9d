// Doctor: looks at what a node of a cluster needs of its machine, and says what to change: `nova doctor`.
//
// RDMA devices, ports, links, MTU here and at the far end, addresses (GIDs), lockable memory against what a
// process will register, huge pages, the clock, the address to serve at, a StoC's directory, ZooKeeper and
// coordinators. A line a finding: "good", "warning" or "ERROR", and its fix.
//
// Thread safety: one caller.   Errors: findings.
#pragma once

#include <string>
#include <vector>

namespace nova {

struct DoctorOptions {
  std::string fabric = "auto";  // verbs: what lacks for it is an error, not a warning
  std::string rdma_device;
  std::string address;    // host:port that a node is to serve at; empty: none
  std::string data;       // directory that a StoC is to have; empty: none
  std::string zookeeper;  // host:port,...; empty: not asked
  std::vector<std::string> coordinators;
  uint64_t lock_bytes = uint64_t{1280} << 20;  // memory that the node will register
  // T1-T6 (docs/rdma.md): "here": both ends on this device; host:port: against a node that serves.
  std::string fence_test;
  bool fence_serve = false;  // serve one at `address`, nothing else
};

// A line of the doctor's.
struct Finding {
  enum class Level { kGood, kWarning, kError } level = Level::kGood;
  std::string what;
  std::string fix;  // empty when good
};

// Looks; waits for what it asks, some seconds at most.
std::vector<Finding> Examine(const DoctorOptions& options);
// Prints them, or serves a fence test; exit code 0: all good, 1: warnings, 2: errors.
int RunDoctor(const DoctorOptions& options);

}  // namespace nova
