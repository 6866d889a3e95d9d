// CoordinatorService: one coordinator: campaigns for leadership, keeps ClusterState true to the ConfigStore,
// carries out its decisions, and answers the methods of coordinator.proto, bytes in, bytes out, so that every
// transport shares it.
//
// Leadership: the one who creates the ephemeral /coord_leader and, in the same multi, raises coord_epoch in
// /coord, leads. Every change it makes is a multi with check(/coord) (authority, C1). It answers and grants
// only while its session is known to live: until the send time of its last answered request + session timeout
// (1 - rho) (lease, C3); then it steps down and campaigns anew.
//
// Thread safety: all methods from any thread; Handle may wait for the ConfigStore (not for Heartbeat and
//                GetConfiguration).
// Ownership:     the destructor steps down in order; transports that call Handle end before it.
// Errors:        Handle: NotLeadingError (leader_channel.h), else the method's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "common/config/config_store.h"
#include "coordinator/change_log.h"
#include "coordinator/cluster_state.h"
#include "coordinator/redundancy.h"
#include "coordinator/znodes.h"

namespace nova {

struct CoordinatorOptions {
  std::string name;     // of this coordinator: a node name (znodes.h)
  std::string address;  // where others reach it
  ClusterOptions cluster;
  uint32_t max_value_bytes = 1 << 20;             // told to clients
  Nanos tick_ns = 100 * kMillisecond;             // between decisions
  Nanos authority_check_ns = 250 * kMillisecond;  // between proofs that the session lives and /coord is ours
  Nanos reread_ns = 10 * kSecond;                 // all znodes, should a watch have been missed
  uint32_t movers = 4;                            // threads that carry out moves
};

class CoordinatorService {
 public:
  // Opens a new session; called again when one has expired.
  using OpenStore = std::function<StatusOr<std::unique_ptr<ConfigStore>>()>;

  // Makes the cluster (/cluster and the folders) when it is the first. FailedPrecondition: a cluster of a
  // later format.
  static StatusOr<std::unique_ptr<CoordinatorService>> Start(CoordinatorOptions options, OpenStore open_store,
                                                             Metrics* metrics);
  ~CoordinatorService();

  StatusOr<std::string> Handle(const std::string& method, const std::string& request);

  bool leading() const;
  CoordEpoch coord_epoch() const;  // of its latest term
  std::string StatusText() const;  // also when not leading: says who does

 private:
  // One time of leading.
  struct Term {
    std::shared_ptr<ConfigStore> store;
    CoordEpoch coord_epoch;
    int64_t coord_version = 0;  // of /coord
    Nanos max_lease_ns = 0;     // as in /coord
    Uuid nonce;
  };
  struct Move {
    CoordEpoch term;
    RangeMove move;
  };

  CoordinatorService(CoordinatorOptions options, OpenStore open_store, Metrics* metrics);

  // coord.main
  void Run();
  Status Bootstrap(ConfigStore* store);
  StatusOr<Term> Campaign(const std::shared_ptr<ConfigStore>& store);
  StatusOr<Term> SettleElection(const std::shared_ptr<ConfigStore>& store, const CoordRecord& mine,
                                int64_t version_before);
  void WaitForVacancy(ConfigStore* store);
  void Vacate(ConfigStore* store);
  void Lead(Term term);
  Status LoadAll();
  Status LoadNode(const std::string& name);
  Status LoadRange(RangeId id);
  Status LoadChildren(const std::string& path);
  Status ReadDirty(const std::set<std::string>& paths);
  Status ProveAuthority();
  void LowerLongestLease();
  void WatchOnce(const std::string& path);
  void MarkDirty(const std::string& path);

  // coord.mover.n
  void RunMover();
  void CarryOut(const Move& move);
  // Replaces exactly the version `move.before` has; settles a lost reply (row 38). Aborted: somebody was
  // first, or we no longer lead.
  StatusOr<RangeRecord> WriteMove(const Term& term, const RangeMove& move);

  StatusOr<std::string> HandleHeartbeat(const std::string& request);
  StatusOr<std::string> HandleGetConfiguration(const std::string& request);
  StatusOr<std::string> HandleCreateRanges(const std::string& request);
  StatusOr<std::string> HandleGetStatus();
  StatusOr<std::string> HandleDrain(const std::string& request);
  StatusOr<std::string> HandleForceOpen(const std::string& request);

  ClusterDecisions StepLocked(const ClusterEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteChangesLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Nanos AuthorityUntilLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Status CheckLeadingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StatusOr<Term> CurrentTerm() const;
  FabricCounters FabricOfNodes() const;
  Redundancy RedundancyNow() const;

  const CoordinatorOptions options_;
  const OpenStore open_store_;
  Counter* const heartbeats_;
  Counter* const moves_;
  Counter* const failed_moves_;
  Counter* const elections_;
  Counter* const step_downs_;

  mutable Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<ConfigStore> store_ ABSL_GUARDED_BY(mu_);
  Uuid cluster_ ABSL_GUARDED_BY(mu_);
  bool leading_ ABSL_GUARDED_BY(mu_) = false;
  Term term_ ABSL_GUARDED_BY(mu_);
  std::string leader_name_ ABSL_GUARDED_BY(mu_);
  std::string leader_address_ ABSL_GUARDED_BY(mu_);  // of another one, as far as known
  ClusterState state_ ABSL_GUARDED_BY(mu_);
  uint64_t config_version_ ABSL_GUARDED_BY(mu_) = 0;
  ChangeLog<RangeId> range_changes_ ABSL_GUARDED_BY(mu_);
  ChangeLog<std::string> node_changes_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> dirty_ ABSL_GUARDED_BY(mu_);    // paths to read again
  std::set<std::string> watched_ ABSL_GUARDED_BY(mu_);  // paths with a watch set
  uint64_t watch_session_ ABSL_GUARDED_BY(mu_) = 0;     // counts stores: a watch of an old one is no watch

  BoundedQueue<Move> queue_;
  std::vector<std::unique_ptr<Thread>> movers_;
  std::unique_ptr<Thread> main_;
};

}  // namespace nova
