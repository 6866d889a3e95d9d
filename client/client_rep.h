// ClientRep: what the operations of a Client share: exchange threads, routes, and the tries of one deadline
// (no write twice, A1).
//
// An operation is an Op: `send` makes one try at the range that holds its key now, and calls Finish,
// RetryLater or Try; `end` gives the caller the result. Reads are tried again whatever became of a try; a
// write only where it was definitely not applied.
//
// A try ends with the answer, at its deadline, or soon after the configuration names a later epoch of the
// range: whoever was asked serves it no more, and may stand still for minutes. So that it is learnt while
// nothing else asks, a try that is not answered soon has the configuration refreshed.
//
// Thread safety: Start, StartOn's Submit, Current and WantRefresh from any thread; the rest of an Op on its
//                lane's thread.
// Ownership:     closures own what they need; the client waits for the operations under way before the lanes
//                stop.
// Errors:        Result, once per operation.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "common/base/keys.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/rdma/xchg.h"
#include "coordinator/coordinator_client.h"
#include "ltc/wire/ltc_client.h"

namespace nova {

// One of a client's exchange threads.
struct ClientLane {
  std::unique_ptr<Xchg> xchg;
  std::unique_ptr<LtcClient> ltc;
  std::shared_ptr<const Configuration> configuration;
  Random random;
  bool watching = false;    // for requests that are late,
  Nanos look_after_ns = 0;  // and when next
};

// Where a try goes.
struct Target {
  RangeId range;
  Epoch epoch;
  std::string address;
  std::string lower;
  std::string upper;
  uint64_t snapshot = 0;  // of the operation's ClientSnapshot

  bool Contains(std::string_view key) const { return key >= lower && (upper.empty() || key < upper); }
};

struct Op {
  const char* name = "";
  std::string key;     // stored; the range that holds it is asked
  bool below = false;  // or the one that holds the keys just below it
  std::shared_ptr<const ClientSnapshot> snapshot;
  std::function<void(const Target&, const std::shared_ptr<Op>&)> send;
  std::function<void(Result)> end;
  uint64_t request_number = 0;

  ClientLane* lane = nullptr;
  Nanos deadline_ns = 0;
  Nanos backoff_ns = 0;
  Outcome last = Outcome::kUnavailable;  // of the try before
  std::string last_where;
};
using OpRef = std::shared_ptr<Op>;

// A moment of one range that an operation takes for itself when its answer does not fit into one reply.
struct PageSnapshot {
  RangeId range;
  Epoch epoch;
  std::string address;
  uint64_t id = 0;  // 0: none
};

// How a snapshot finds its client, as long as there is one.
struct ClientLink {
  Mutex mu;
  ClientRep* client ABSL_GUARDED_BY(mu) = nullptr;
};

// Of a ClientSnapshot. All but `ended` is set before anybody else sees it.
struct SnapshotState {
  struct Part {
    Target target;  // with the snapshot's id
    std::atomic<bool> ended{false};
  };
  std::shared_ptr<ClientLink> link;
  ClientLane* lane = nullptr;                          // of the client's; renews and drops
  std::map<std::string, std::unique_ptr<Part>> parts;  // by lower bound
};

struct ClientRep {
  // of one try of a read: a stopped server must not eat the whole deadline
  static constexpr Nanos kReadTry = 2 * kSecond;

  ClientOptions options;
  const std::shared_ptr<ClientLink> link = std::make_shared<ClientLink>();
  std::string key_prefix;    // the keyspace
  std::string keyspace_end;  // the first stored key behind it
  uint64_t client_id = 0;
  std::unique_ptr<CoordinatorClient> coordinator;
  std::unique_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<ClientLane>> lanes;
  std::atomic<uint64_t> next_lane{0};
  std::atomic<uint64_t> next_request{1};
  std::atomic<uint64_t> retries{0};
  std::atomic<int64_t> under_way{0};

  Mutex mu;
  CondVar wanted;
  bool refresh_wanted ABSL_GUARDED_BY(mu) = false;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  std::shared_ptr<const Configuration> configuration ABSL_GUARDED_BY(mu);
  std::unique_ptr<Thread> refresher;

  // --- configuration
  void Refresh();  // the body of thread client.refresh
  void Install(ClientLane* lane, std::shared_ptr<const Configuration> fresh);
  void EndSuperseded(ClientLane* lane);
  std::shared_ptr<const Configuration> Current();
  void WantRefresh();

  // --- any operation
  OpRef NewOp(const char* name, std::string key) const;
  void Start(OpRef op);  // on the next lane
  void StartOn(ClientLane* lane, OpRef op);
  void Try(OpRef op);
  void RetryLater(OpRef op);
  void Finish(Op* op, Outcome o);
  void Watch(ClientLane* lane);
  Nanos ReadDeadline(const Op& op) const { return std::min(op.deadline_ns, Now() + kReadTry); }
  void EndWrite(const OpRef& op, Outcome o);
  bool RetriesRead(const OpRef& op, Outcome o);  // true: it will be tried again
  // and tries again; *page lives as long as the op
  void TakePageSnapshot(const OpRef& op, const Target& target, PageSnapshot* page);
  void DropPageSnapshot(ClientLane* lane, PageSnapshot* page);

  // --- snapshots
  void TakeSnapshot(std::function<void(SnapshotResult)> done);
  void RenewLater(ClientLane* lane, std::weak_ptr<SnapshotState> weak);
  void DropParts(std::shared_ptr<SnapshotState> state);  // from any thread

  // --- checkpoints: asks every range
  struct CheckpointAnswer {
    Result result;  // of the first that failed
    std::map<std::string, CheckpointSummary> checkpoints;
    uint64_t ranges = 0;
    uint64_t not_found = 0;  // ranges that answered so
    std::string exists;      // the first range that has one of the name, as it said
  };
  void Checkpoint(CheckpointVerb verb, const std::string& name, std::function<void(CheckpointAnswer)> done);
  CheckpointAnswer CheckpointAndWait(CheckpointVerb verb, const std::string& name);
  void CheckpointOf(const Target& target, const OpRef& op, CheckpointVerb verb, const std::string& name,
                    CheckpointAnswer* all);

  // it is this client's, or null
  Result CheckSnapshot(const std::shared_ptr<const ClientSnapshot>& snapshot);

  Result CheckValue(std::string_view value);  // InvalidArgument before anything is sent
  static Result CheckKey(std::string_view key);
  static Result CheckKeyRange(std::string_view begin, std::string_view end);  // either may be empty
  std::string Stored(std::string_view key) const { return key_prefix + std::string(key); }
  std::string StoredEnd(std::string_view end) const { return end.empty() ? keyspace_end : Stored(end); }

 private:
  bool FindTarget(const Op& op, Target* target, std::string* why_not, bool* snapshot_ended);
  void GiveUp(const OpRef& op);
};

}  // namespace nova
