// ClusterMirror: ClusterState, kept true to the ConfigStore: znodes are read and become its events. With it
// what routing has changed since, so that configurations travel as deltas.
//
// Thread safety: all; the Load calls and ReadDirty wait for the store.
//                Lock order: its own, then the Election's.
// Ownership:     the ZnodeSession and the Election outlive it.
// Errors:        of the Load calls: the store's. A record that is malformed is left out, loudly.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/mutex.h"
#include "coordinator/change_log.h"
#include "coordinator/cluster_state.h"
#include "coordinator/election.h"
#include "coordinator/znode_session.h"

namespace nova {

class ClusterMirror {
 public:
  // What a Looker sees, under the lock.
  struct View {
    const ClusterState& state;
    uint64_t config_version;  // high half: the coord_epoch
    // Which routes and nodes changed, by version of the configuration.
    const ChangeLog<RangeId>& range_changes;
    const ChangeLog<std::string>& node_changes;
  };
  using Looker = absl::FunctionRef<void(const View&)>;

  ClusterMirror(const ClusterOptions& options, ZnodeSession* session, const Election* election)
      : options_(options), session_(session), election_(election) {}

  // --- reading the ConfigStore
  // A term of ours begins: nothing is known yet.
  void Begin(const Term& term);
  // Reads znodes, each into the event that says what is there, or that it is gone; sets watches first.
  Status LoadAll();
  Status LoadNode(const std::string& name);
  Status LoadRange(RangeId id);
  Status LoadStoc(StocId id);
  Status LoadSettings();
  // What cannot be read is marked dirty again; returns the first error.
  Status ReadDirty(const std::set<std::string>& paths);

  // --- events
  // `wall_ms`: the wall clock. No answer is among the decisions.
  ClusterDecisions Tick(Nanos authority_until_ns, Nanos deaf_ns, int64_t wall_ms);
  // While we lead: grants no longer than our authority lasts.
  StatusOr<HeartbeatAnswer> Heartbeat(const HeartbeatEvent& event, CoordEpoch* coord_epoch);
  // Of a term that is over it says nothing.
  void MoveDone(CoordEpoch term, const AssignDoneEvent& event);
  void StocChangeDone(CoordEpoch term, const StocChangeDoneEvent& event);
  // Records that a request has written: ranges that are new, or one that was changed.
  void RangesWritten(CoordEpoch term, const std::vector<RangeRecord>& records);
  void RangeWritten(RangeRecord record);

  // --- looking at it
  void Look(Looker fn) const;  // whoever leads
  // NotLeadingError; checked under the lock: `fn` sees the state of the term that leads.
  Status LookAsLeader(Looker fn) const;
  // When the leases that earlier leaders granted are over, with time to spare.
  Nanos EarlierLeasesOver() const;

 private:
  // Reads a folder: what is gone, and what is new there.
  Status LoadChildren(const std::string& path);
  // The names in a folder, as far as they are known.
  std::set<std::string> KnownNamesLocked(const std::string& folder) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The store of the latest term.
  StatusOr<std::shared_ptr<ConfigStore>> Store() const;
  // One event into the state; debug builds check the invariants after each.
  ClusterDecisions Step(const ClusterEvent& event);
  ClusterDecisions StepLocked(const ClusterEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What the state says has changed for routing gets the next version of the configuration.
  void NoteChangesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ClusterOptions options_;
  ZnodeSession* const session_;
  const Election* const election_;

  mutable Mutex mu_;
  ClusterState state_ ABSL_GUARDED_BY(mu_);
  uint64_t config_version_ ABSL_GUARDED_BY(mu_) = 0;  // see View
  ChangeLog<RangeId> range_changes_ ABSL_GUARDED_BY(mu_);
  ChangeLog<std::string> node_changes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
