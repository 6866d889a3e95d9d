// Nemesis: what does harm to a SimCluster in the chaos, at random moments: kills, pauses and cuts off its
// nodes, loses their disks and makes them ill, runs clocks and networks wrong.
//
// Each Run* is the body of a fiber and does faults of one kind, one at a time; kinds overlap. What a fault
// of one kind has to know of the others is in Broken: so no log group loses all members, no table its copies.
//
// Thread safety: fibers of one Simulation; StopHere and HoldHere on those of nodes.
// Ownership:     all that it is given outlives it.   Errors: none.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "tests/cluster_sim/chaos.h"

namespace nova {

// What faults of all kinds know of each other.
struct Broken {
  std::string lost_stoc;          // whose disk is gone
  std::set<std::string> handled;  // nodes that one kind of faults ends and starts again just now
  std::string ill_stoc;           // whose disk fails reads: one in a run, or two copies might fail at once
  Nanos reads_fail_until_ns = 0;  // no other copy of what it has may go before
  bool losing = false;            // a disk, just now
  std::string slow_to_let_go;     // an LTC
  std::string slow_to_drop;       // a StoC
};

class Nemesis {
 public:
  Nemesis(SimCluster* cluster, const ChaosOptions* options, Notification* stop, Counts* counts,
          Broken* broken)
      : cluster_(cluster), options_(options), stop_(stop), counts_(counts), broken_(broken) {}

  // Each of these until `stop`: StoCs, LTCs or coordinators are killed, stopped, paused, cut off.
  void RunStocs();
  void RunLtcs();
  void RunCoordinators();
  // The network loses and delays, WRITEs come late.
  void RunNetwork();
  // Wall clocks jump by an hour. Not those of LTCs, by which times to live end.
  void RunClocks();
  // Disks of StoCs fail, are full, slow, or hang.
  void RunDisks();
  // A client that does not reach an LTC which others do, and one that reads none of its answers for a while.
  void RunClients();
  // Faults of several nodes at one moment, which leave some members of a group with what others never get. An
  // LTC is cut from some StoCs, as by a cable that works at times; then it dies, StoCs start anew and others
  // stand still.
  void RunDisasters();
  // A process stands still between a check and its act; or, where that is `or_one_thread`, the thread alone,
  // while nobody tells the others of what it did. On a thread of the process'.
  Status StopHere(const char* where, uint64_t one_in, bool or_one_thread = false);
  // A thread of a process' waits between a look and its act, while all the others go on.
  Status HoldHere(const char* where, uint64_t one_in);
  // An operator changes what is set for all LTCs.
  void RunOperator();
  // An order of faults each.
  void RunScenes();
  // Threads of processes that StopHere and HoldHere hold just now.
  int standing_still() const { return standing_still_; }
  uint64_t faults() const { return faults_; }

 private:
  static constexpr char kSilentClient[] = "client-silent";
  static constexpr int64_t kHourMs = 3'600'000;

  // True: it is over.
  bool Sleep(Nanos ns) { return stop_->WaitUntil(Now() + ns); }
  // At random; and one of the names at random.
  Nanos Between(uint64_t least_ms, uint64_t most_ms);
  const std::string& Pick(const std::vector<std::string>& names);
  void Count(const std::string& what);                 // a fault of that kind
  static std::string KindOf(const std::string& node);  // for Count

  // One disk in a run, if it may be lost for ever just now. False: it may not.
  bool LoseDiskOf(const std::string& stoc, bool for_good);
  // For good; or its StoC is back with an empty one; and then perhaps with the old one, which says what was
  // true long ago.
  // REQUIRES: it is handled here, and may be lost for ever.
  void LoseDisk(const std::string& stoc, bool for_good);

  // Reads of the disk of one StoC fail, or return what was never written. A table's only where its other copy
  // is good: then no client may be told of it.
  void FailReads(const std::vector<std::string>& stocs);
  // A file that was made under a temporary name, owner.part.n.tmp, may still be open under that.
  static std::string FinalName(const std::string& path);
  // What the coordinators that lead take disks for.
  void LookAtDisks();
  // Reads of tables that went on to another copy.
  double ReadElsewhere() const { return cluster_->Metric("ltc", "nova_table_reads_from_other_copy_total"); }

  // --- scenes

  // An LTC that a range's record names, if there is one.
  std::string PickOwner();
  // What these clients know of owners stays as it is.
  void KeepInTheDark(bool cut);
  // One method a Scene, in their order.
  void LoseSightOf(const std::string& ltc);
  void ReplaceLeader();
  void ReleaseSlowly(const std::string& ltc);

  void LoseOneAfterTheOther();
  void ExchangeDisk();

  // False: another kind of faults handles it.
  bool Handle(const std::string& node) { return broken_->handled.insert(node).second; }
  void LetGo(const std::string& node) { broken_->handled.erase(node); }

  // StoCs that each log group can do without, together with all that are handled just now. To look takes
  // time, so they are taken first: of two who look at once, both see both.
  bool HandleStocs(const std::vector<std::string>& stocs);
  bool MayLoseWhatIsHandled();  // all StoCs that are handled just now, together

  // REQUIRES, of this and the next: they are handled here. Lets go of them.
  void KillAndRestart(const std::vector<std::string>& nodes, Nanos down_ns);
  // A StoC dies and is there again with an empty memory.
  void StartAnew(const std::vector<std::string>& stocs);
  void StartAgain(const std::string& node);  // as often as it takes
  // In order; half of them drained first, so that nothing is left on it.
  void StopAndRestart(const std::string& node, const std::string& kind, Nanos down_ns);
  // The same; it stays handled.
  void DrainAndStop(const std::string& node, const std::string& kind, Nanos down_ns);
  // A drained node that may not go.
  void KillNothing(const std::string& node);
  // A StoC's mark outlives its process (N5).
  void Undrain(const std::string& node);
  // A fault of that node for so long, where the options allow it.
  void PauseFor(const std::string& node, Nanos ns);
  void HangFor(const std::string& node, Nanos ns);
  void CutFor(const std::string& node, Nanos ns);
  void PartitionFor(const std::string& node, Nanos ns);

  SimCluster* const cluster_;
  const ChaosOptions* const options_;
  Notification* const stop_;
  Counts* const counts_;
  Broken* const broken_;  // of all kinds of faults
  Random random_;
  int standing_still_ = 0;  // threads in StopHere and HoldHere
  uint64_t faults_ = 0;     // counted
};

}  // namespace nova
