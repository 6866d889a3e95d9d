// Scenarios over a SimCluster that tests share: a load that is checked as it goes, and logging that a person
// may turn on.
//
// NOVA_SIM_SEED=n runs that seed only; NOVA_SIM_LOG=1 prints warnings and the driver's trace, with virtual
// time.
//
// Thread safety: fibers of one Simulation.   Ownership: cluster, clients and history outlive a Load.
// Errors:        a violation is reported once, by EXPECT, and ends the load.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cluster_sim/history.h"
#include "tests/cluster_sim/sim_cluster.h"

namespace nova {

std::optional<uint64_t> SeedFromEnvironment();
// Warnings of the nodes under test are not the test's: printed only where NOVA_SIM_LOG asks for them.
void SetUpSimLog(Simulation* sim, uint64_t seed = 0);  // `seed` is named when a process aborts

void Simulate(uint64_t seed, const std::function<void()>& body);

// Split keys so that keys of KeyOf spread over `ranges` ranges.
std::vector<std::string> SplitKeys(int ranges);
std::string KeyOf(int i);  // i of 0 .. 999

// A cluster with one open range, or a few, and a client.
struct OneRange {
  explicit OneRange(const SimClusterOptions& options, int ranges = 1);
  RangeRecord Record() { return cluster.Records().begin()->second; }
  bool WaitFor(Nanos within, const std::function<bool(const RangeRecord&)>& wanted);
  bool WaitForOtherOwner(const std::string& than);
  std::string StocOf(StocId id);  // that runs; empty: none
  // A loss of power of all StoCs and LTCs: disks keep what was synced, and torn parts of the rest.
  void LosePower();
  void Restart();  // what does not run of them
  SimCluster cluster;
  std::unique_ptr<Client> client;
};

// The n-th of a few keys that lie behind all of a load that has those before `first_key`, and before the next
// load's: whatever a load deletes, it is not among them.
std::string KeyBetween(int first_key, int n);

struct LoadOptions {
  int keys = 40;  // this client's own, which it alone writes
  int first_key = 0;
  size_t value_bytes = 400;
  int64_t pause_max_us = 4000;   // between operations
  size_t large_value_bytes = 0;  // of one put in 40; 0: none
  // Also what needs more than gets, puts, deletions and scans: compare and swap, batches, snapshots, times to
  // live, multi-gets.
  bool all_kinds = false;
  // Gets of anybody's keys and nothing else: no refused write tells this client that a range has moved.
  bool reads_only = false;
  // Puts of these keys, which lie outside of anybody's own, and nothing else: no refused read tells it.
  std::vector<std::string> puts_only = {};
};

// Keys that the loads of a scenario share: written by all of them.
struct SharedKeys {
  std::map<std::string, SharedRegister> keys;
  uint64_t writes = 0;  // for values that differ
  std::string CheckAll() const;
};
using Counts = std::map<std::string, uint64_t>;  // of steps, by kind

// One client's operations, one after another, each checked against the history.
class Load {
 public:
  Load(Client* client, History* history, const LoadOptions& options, std::string* violation,
       SharedKeys* shared = nullptr, Counts* counts = nullptr);
  void Step();
  // Every key of the history by get, and all by scan, which must succeed.
  void Verify();
  bool Violated() const { return !violation_->empty(); }

 private:
  std::string OwnKey(int i) const;  // ascending
  std::string BeyondOwnKeys() const;
  void Write(const std::string& key, bool remove);
  void DeleteRange(int from, int to);  // of own keys
  bool Read(const std::string& key, const char* how);
  // Neither a value nor its absence. Of damage no client is told while another copy is good.
  bool Failed(const Result& r);
  bool Scan(const std::string& from, size_t limit, const char* how);
  ScanResult Iterate(const std::string& from, size_t limit);  // as Client::Scan, with an iterator
  void Violation(const std::string& text);
  void Count(const std::string& what) {
    if (counts_ != nullptr) ++(*counts_)["op: " + what];
  }
  // all_kinds; of own keys from the i-th on
  void StepOfAnyKind(int i);
  void CompareAndSwap(const std::string& key);
  void Batch(int i);
  void WritePair(int i);  // two keys, of which a multi-get finds one value
  void ReadPair(int i);
  void MultiGet();
  void Snapshot(int i);
  void TimeToLive(int i);
  void Shared();

  Client* const client_;
  History* const history_;
  const LoadOptions options_;
  std::string* const violation_;  // shared by the loads of a scenario
  SharedKeys* const shared_;
  Counts* const counts_;
  std::map<std::string, uint64_t> pairs_;  // the last value each was given
  Random random_;
};

}  // namespace nova
