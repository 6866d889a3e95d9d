// FaultRounds: a cluster of processes under load that meets one fault after another, drawn from a seed.
//
// Three judges watch: nova_checker (every acknowledged write of keys with one writer), nova_linear (keys with
// several writers), and a reader that nothing tells of moved ranges, after each step of each round
// (RangeProbe). Before the first round and after the last, what could grow from round to round is counted:
// descriptors, threads and memory of each process, log segments and files of StoCs, nodes in ZooKeeper.
//
// Thread safety: one thread.   Ownership: the cluster outlives it.   Errors: GoogleTest failures.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/cluster/kill_rounds.h"
#include "tests/cluster/range_probe.h"
#include "tests/cluster/writers.h"

namespace nova {

class FaultRounds {
 public:
  static ProcessClusterOptions ClusterOptions();

  FaultRounds(ProcessCluster* cluster, uint64_t seed);
  // All of it: the rounds, the verdicts, the counts; `cluster` is stopped in order at the end.
  void Run(int rounds);

 private:
  struct Fault {
    const char* name;
    int cards;  // of a deck that is dealt to its end before it is shuffled again
    void (FaultRounds::*meet)();
  };
  static const std::vector<Fault>& Faults();

  // What is counted, by name: of processes the most of one role, else the sum.
  using Counts = std::map<std::string, int64_t>;
  Counts CountNow() const;
  static Counts Bounds(const Counts& before);
  // Waits until nothing is above its bound, which garbage that is old enough may take.
  void ExpectWithin(const Counts& bounds);
  void ExpectFullCopies();
  void ExpectAllEndInOrder();

  const Fault& Deal();
  std::string Any(const std::string& role);
  std::string Leader();
  Nanos Between(Nanos least, Nanos most);
  void Serves(const std::string& after);
  void KillThem(const std::vector<std::string>& victims);
  void StandStill(const std::string& victim, Nanos for_ns);
  void EndInOrder(const std::string& victim);
  void Drain(const std::string& victim);

  void LtcKilled();
  void StocKilled();
  void LeaderKilled();
  void ZookeeperKilled();
  void LtcStandsStill();
  void LtcSleepsPastItsLease();
  void StocStandsStill();
  void LeaderStandsStill();
  void ZookeeperStandsStill();
  void LtcEnds();
  void StocEnds();
  void CoordinatorEnds();
  void LtcDrained();
  void StocDrained();
  void LtcAndStocKilled();
  void LtcKilledWhileAStocStandsStill();
  void LtcAndLeaderKilled();
  void EverythingKilled();

  ProcessCluster* const cluster_;
  Random random_;
  std::vector<const Fault*> deck_;
  RegisterHistory history_;
  std::unique_ptr<Checker> checker_;
  std::unique_ptr<Writers> writers_;
  std::unique_ptr<RangeProbe> probe_;
  std::string told_;  // of the round: who met it, and how long the ranges took
  Nanos longest_ns_ = 0;
};

}  // namespace nova
