// ClientRep: the state that the operations of a Client share: exchange threads, the configuration (which
// range is where), and the tries of one operation within one deadline (no write twice, A1).
//
// An operation is an Op. Its `send` makes one try at the range that holds its key now, and calls Finish,
// RetryLater or Try; its `end` gives the caller the result. A read is tried again where that may help, a
// write only where the try was besides definitely not applied.
//
// A try ends with the answer, at its deadline, or soon after the configuration names a later epoch of the
// range, for the LTC that was asked serves it no more and may stand still for minutes. A try that is not
// answered within 0.5 s has the configuration refreshed, so that the later epoch is learnt while nothing else
// asks for it.
//
//   outcome of a try                 a read       a write
//   kOk, kNotFound, mismatch         ends         ends
//   kNotOwner, kUnavailable          tried again  tried again, both with a newer configuration
//   kBusy, kNoSpace                  tried again  tried again
//   kUnknown: sent, not answered     tried again  ends as unknown: it is never sent twice
//   kSnapshotEnded                   ends; of an iterator's page, perhaps tried again
//   others                           ends         ends
//
// Thread safety: Start, StartOn, Current, WantRefresh, NewOp, the checks, TakeSnapshot and DropParts from any
//   thread. Try, RetryLater, Finish and all else that takes an Op or a lane runs on the lane's thread.
// Locks: the configuration's (ClientRep::mu), a leaf. ClientLink's is held while a snapshot's parts are
//   dropped, which only submits, and while a client that ends is taken off it: a snapshot may outlive that.
// Ownership: closures own their state. The client waits for the operations under way before the lanes
//   stop.
// Errors: one Result for each operation, through Op::end.
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

struct ScanRun;  // client/client_scan.h

// One of a client's exchange threads, and the state that only it touches.
struct ClientLane {
  std::unique_ptr<Xchg> xchg;
  std::unique_ptr<LtcClient> ltc;                      // the requests of this lane, over xchg
  std::shared_ptr<const Configuration> configuration;  // as last installed on this lane
  Random random;                                       // spreads retries
  bool watching = false;                               // Watch is scheduled
  Nanos look_after_ns = 0;                             // pause before Watch looks for late requests again
};

// The range at which a try is aimed, as the configuration or a snapshot knows it.
struct Target {
  RangeId range;
  Epoch epoch;
  std::string address;    // of the LTC
  std::string lower;      // first stored key of the range
  std::string upper;      // first stored key behind it; empty: to the end
  uint64_t snapshot = 0;  // id of the operation's snapshot at this range; 0: now

  bool Contains(std::string_view key) const { return key >= lower && (upper.empty() || key < upper); }
};

// One operation of a caller, from Start to `end`.
struct Op {
  const char* name = "";  // of the operation, for messages
  std::string key;        // a stored key; the range that holds it is asked
  bool below = false;     // the range that holds the keys just below `key` is asked instead
  std::shared_ptr<const ClientSnapshot> snapshot;  // the caller's, to read at; null: now
  // The operation's own, of one range, where its answer does not fit into one reply, so that all pages are of
  // one moment (K4). It goes before `snapshot`.
  std::shared_ptr<const ClientSnapshot> page_snapshot;
  std::function<void()> restart;  // page_snapshot has ended: forgets what was read at it
  // Makes one try, on the lane's thread, and ends it with Finish, RetryLater or Try.
  std::function<void(const Target&, const std::shared_ptr<Op>&)> send;
  std::function<void(Result)> end;  // called once, with the result, on the lane's thread
  uint64_t request_number = 0;      // rises in one client; log records carry it (A1)

  ClientLane* lane = nullptr;  // set by StartOn
  Nanos deadline_ns = 0;       // of the operation; 0 before StartOn: the client's timeout
  Nanos backoff_ns = 0;        // the next pause is half to one and a half of it; doubles up to 100 ms
  Outcome last = Outcome::kUnavailable;  // of the last try
  // The range, epoch and address of the last try, or why there was none; for messages.
  std::string last_where;
  std::string why;  // what an LTC last said of a read that failed there; empty: nothing
};
using OpRef = std::shared_ptr<Op>;

// The way from a ClientSnapshot to its client, as long as that lives.
struct ClientLink {
  Mutex mu;
  ClientRep* client ABSL_GUARDED_BY(mu) = nullptr;  // null once the client is gone
};

// The state of a ClientSnapshot. It is complete before anybody else sees it; only `ended` changes after that.
struct SnapshotState {
  // The snapshot of one range.
  struct Part {
    Target target;                   // with the id of the snapshot there
    std::atomic<bool> ended{false};  // its lease is over or a later epoch of the range is known
  };
  std::shared_ptr<ClientLink> link;
  ClientLane* lane = nullptr;                          // a lane of the client; renews and drops the parts
  std::map<std::string, std::unique_ptr<Part>> parts;  // by lower bound
};

// See the head of this file. The fields down to `under_way` but the atomic ones are set before the lanes
// start.
struct ClientRep {
  // The deadline of one try of a read. A server that stands still must not eat the deadline of the whole
  // operation.
  static constexpr Nanos kReadTry = 2 * kSecond;

  ClientOptions options;
  const std::shared_ptr<ClientLink> link = std::make_shared<ClientLink>();
  std::string key_prefix;    // the keyspace as stored keys begin with it
  std::string keyspace_end;  // the first stored key behind the keyspace
  uint64_t client_id = 0;    // random; log records carry it (A1)
  std::unique_ptr<CoordinatorClient> coordinator;
  std::unique_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<ClientLane>> lanes;
  std::atomic<uint64_t> next_lane{0};     // round robin of operations
  std::atomic<uint64_t> next_request{1};  // numbers of operations
  std::atomic<uint64_t> retries{0};       // tries after the first, of all operations; a metric
  std::atomic<int64_t> under_way{0};      // operations between StartOn and Finish

  Mutex mu;
  CondVar wanted;                                   // signalled with refresh_wanted and stopping; with mu
  bool refresh_wanted ABSL_GUARDED_BY(mu) = false;  // somebody found the configuration wrong
  bool stopping ABSL_GUARDED_BY(mu) = false;        // ends the refresher
  std::shared_ptr<const Configuration> configuration ABSL_GUARDED_BY(mu);  // the newest one
  std::unique_ptr<Thread> refresher;                                       // thread client.refresh.0

  // --- configuration
  void Refresh();  // the body of thread client.refresh: one fetch at a time, when one is wanted
  // Gives the lane a configuration. If it names later epochs of ranges with requests under way, EndSuperseded
  // follows 0.1 s later: answers of an owner that let go in order may be on their way. OnXchg.
  void Install(ClientLane* lane, std::shared_ptr<const Configuration> fresh);
  // Ends the requests whose range has a later epoch now, as at their deadline (A1). OnXchg.
  void EndSuperseded(ClientLane* lane);
  std::shared_ptr<const Configuration> Current();  // the newest configuration
  // Has the configuration fetched soon. Does not wait.
  void WantRefresh();

  // --- any operation

  // `key` is a stored key; the caller sets `send` and `end`.
  OpRef NewOp(const char* name, std::string key) const;
  void Start(OpRef op);  // on the next lane
  // Numbers the operation, sets its deadline, and queues its first try.
  void StartOn(ClientLane* lane, OpRef op);
  // Makes a try if the configuration has a target for it; else as RetryLater. After the deadline as GiveUp.
  void Try(OpRef op);
  // Try after a pause with jitter; ends the operation if that is after its deadline. Has the configuration
  // refreshed, except after kBusy and kNoSpace, which say nothing about it. REQUIRES: op->last is the outcome
  // of the try, and no outcome after which the operation may not be sent again.
  void RetryLater(OpRef op);
  // Ends the operation: calls `end`, once.
  void Finish(Op* op, Outcome o);
  // Looks for late requests, and has the configuration refreshed if there is one; repeats itself while
  // operations are under way, every 0.25 to 2 s. OnXchg.
  void Watch(ClientLane* lane);
  // A page has arrived: the rest of the operation has the client's timeout again.
  void ExtendDeadline(Op* op) const { op->deadline_ns = Now() + options.timeout_ms * kMillisecond; }
  // Of one try of a read.
  Nanos ReadDeadline(const Op& op) const { return std::min(op.deadline_ns, Now() + kReadTry); }
  // Ends a try of a write: tries again if it was definitely not applied (A1).
  void EndWrite(const OpRef& op, Outcome o);
  // True: the read will be tried again; false: `o` is the result. `why`, what the LTC says of a failure, goes
  // into the result's message.
  bool RetriesRead(const OpRef& op, Outcome o, std::string_view why = {});
  // Takes the page snapshot of `op`, at `target`, and tries `op` again.
  void TakePageSnapshot(const OpRef& op, const Target& target);

  // --- scans

  // Runs a scan, at the caller's snapshot or now. `page_snapshot`: of the range where it begins, from the run
  // before it; null: none. Calls `end` once, on a lane's thread, with the snapshot for the run that goes on
  // in the same range.
  using ScanEnd = std::function<void(Result, std::shared_ptr<const ClientSnapshot> page_snapshot)>;
  void StartScan(std::shared_ptr<ScanRun> run, std::shared_ptr<const ClientSnapshot> snapshot,
                 std::shared_ptr<const ClientSnapshot> page_snapshot, ScanEnd end);

  // --- snapshots

  // Calls `done` once, on a lane's thread; takes a part at every range.
  void TakeSnapshot(std::function<void(SnapshotResult)> done);
  // The handle of a snapshot of one range, `id`, that the LTC at `target` has made for the client. OnXchg.
  std::shared_ptr<const ClientSnapshot> Keep(ClientLane* lane, const Target& target, uint64_t id);
  // Renews the parts of a snapshot until it is dropped. OnXchg.
  void RenewLater(ClientLane* lane, std::weak_ptr<SnapshotState> weak);
  // Drops the parts at the LTCs; does not wait; from any thread.
  void DropParts(std::shared_ptr<SnapshotState> state);

  // --- checkpoints: every range is asked
  struct CheckpointAnswer {
    Result result;                                         // of the first range that failed
    std::map<std::string, CheckpointSummary> checkpoints;  // by name, of all ranges
    uint64_t ranges = 0;                                   // ranges that were asked
    uint64_t done = 0;                                     // ranges that answered Ok
    uint64_t not_found = 0;                                // ranges that have no checkpoint of the name
    std::string exists;  // the first range that has a checkpoint of the name already, in words
  };
  // Asks every range in the configuration. Calls `done` once, on a lane's thread.
  void Checkpoint(CheckpointVerb verb, const std::string& name, std::function<void(CheckpointAnswer)> done);
  // Waits; not on a lane's thread.
  CheckpointAnswer CheckpointAndWait(CheckpointVerb verb, const std::string& name);
  // One range's part of Checkpoint: sends and adds the answer to *all.
  void CheckpointOf(const Target& target, const OpRef& op, CheckpointVerb verb, const std::string& name,
                    CheckpointAnswer* all);

  // InvalidArgument if it is another client's snapshot; null is fine.
  Result CheckSnapshot(const std::shared_ptr<const ClientSnapshot>& snapshot);

  // InvalidArgument if the value is too long, by the configuration's limit.
  Result CheckValue(std::string_view value);
  // InvalidArgument if it is empty or too long.
  static Result CheckKey(std::string_view key);
  static Result CheckKeyRange(std::string_view begin, std::string_view end);  // either may be empty
  // The stored key of a user key.
  std::string Stored(std::string_view key) const { return key_prefix + std::string(key); }
  // The stored key of the end of a scan; empty: the end of the keyspace.
  std::string StoredEnd(std::string_view end) const { return end.empty() ? keyspace_end : Stored(end); }

 private:
  // Sets *target to the range that the operation is to ask now. False: there is none, *why_not says why; with
  // *snapshot_ended the operation can never succeed.
  bool FindTarget(const Op& op, Target* target, std::string* why_not, bool* snapshot_ended);
  // Has a read begin anew whose page snapshot has ended.
  static void Restart(Op* op);
  // Ends an operation whose deadline passed between two tries. The last try was not applied, so neither is
  // the operation; a read of which nothing is known ends as kUnavailable.
  void GiveUp(const OpRef& op);
};

}  // namespace nova
