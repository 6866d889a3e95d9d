// HostedRange: a range that this LTC owns in a cluster: the engine's Range, its record in ZooKeeper, its
// manifest on StoCs.
//
// Opening is the one path from seal (R1) to free (R6), for failover, migration and start: the coordinator has
// made the record SEALING at a new epoch with us as owner; Open fences, reads manifest and logs, flushes what
// the logs held, waits for the old lease, and makes it OPEN.
//
// Thread safety: all but the constructor; calls that return a Status wait (control, flush and compaction
//                threads).
// Errors: FailedPrecondition: the epoch is no longer ours. Unavailable: not now, try again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/rules_off.h"
#include "coordinator/coordinator_client.h"
#include "logc/log_client.h"
#include "logc/log_recovery.h"
#include "ltc/engine/range.h"
#include "ltc/server/placement.h"
#include "stoc/stoc_client.h"

namespace nova {

// kAuto: memory and files where all StoCs share one host, which one loss of power takes, else memory; as each
// group is chosen.
enum class LogMode { kNone, kMemory, kPersistent, kMemoryAndPersistent, kAuto };

struct HostedRangeOptions {
  RangeOptions range;
  PlacementOptions placement;
  LogMode log_mode = LogMode::kMemory;
  int log_replicas = 3;  // R
  // Group change (L4): with fewer, writes wait; R: the strict choice; 0: max(2, R - 1), and never above R
  int min_replicas = 0;
  int manifest_replicas = 3;                // M
  Nanos request_deadline_ns = 2 * kSecond;  // of one request to a StoC
  RulesOff off = {};                        // tests only

  CopiesKept CopiesKeptOfEach() const;  // told to the coordinator
};

// What an LTC shares among its ranges in a cluster; outlives them.
struct HostServices {
  RangeServices range;  // host and garbage are each HostedRange's own
  std::function<void(const TableInfo&, const Creator& holder)> garbage;  // takes tables that a range dropped
  StocClient* stocs = nullptr;
  LogClient* logs = nullptr;
  std::function<std::shared_ptr<NodeSession>()> session;   // null while there is none
  std::function<void(std::function<void()>)> run_control;  // on a control thread, which may wait
  std::function<void(std::function<void()>)> run_change;   // the same, on one that only replaces log groups
  std::function<void(std::function<void()>)> run_reader;   // the same, on one that loads metadata of tables
  std::function<void(RangeId)> work_due;                   // something to flush or compact
  std::function<void(RangeId, const Status&)> fenced;      // the range's epoch is over: let it go
};

// The record of an owned range: changed by compare-and-set under our epoch, one change at a time.
class RecordKeeper {
 public:
  RecordKeeper(const HostServices* services, RangeRecord record)
      : services_(services), record_(std::move(record)) {}
  RangeRecord Get() const;
  // `change` edits a copy, or refuses; it may run again, on the record as it is. Unavailable: it may have
  // been written or not.
  Status Update(const std::function<Status(RangeRecord*)>& change);
  // The same for a change during which something stands still, from `before` on: requests of a range that is
  // given away (release, R5), edits of a manifest (M1). In doubt for long it is cancelled; while another
  // change is under way it waits no longer. Cancelled: it was not made, and never will be. Any other error:
  // it may have been made, or somebody else was first.
  Status UpdateOrCancel(const std::function<void()>& before, const std::function<void(RangeRecord*)>& change);

 private:
  static constexpr Nanos kMostDoubt = kSecond;
  class Turn;  // of the one change under way
  Status TakeLateUpdate(NodeSession* session, RangeId id);

  const HostServices* const services_;
  mutable Mutex mu_;
  bool changing_ ABSL_GUARDED_BY(mu_) = false;  // over the compare-and-set
  CondVar change_ended_;                        // with mu_
  RangeRecord record_ ABSL_GUARDED_BY(mu_);
};

class HostedRange : public std::enable_shared_from_this<HostedRange> {
 public:
  HostedRange(const HostServices* services, const HostedRangeOptions& options,
              const RangeAssignment& assignment);
  ~HostedRange();

  Status Open();
  // R5 (release), in this order: no writes, everything flushed, no reads, then the record (R1-R5 then need no
  // logs and no lease wait). OK: released. Else, if abandoned(): the range is lost, or may be; if not: it is
  // served here as before. A second call meanwhile is Unavailable.
  Status Release(Nanos deadline_ns);
  void Abandon();  // lost: answer nothing more; ends Open too
  bool abandoned() const { return abandoned_.load(); }
  // After Abandon: a record that is OPEN and names us gives the range to nobody, so that the coordinator
  // moves it. Its logs stay listed. Unavailable: try again.
  Status GiveBack();

  RangeId id() const { return id_; }
  Epoch epoch() const { return epoch_; }
  const std::shared_ptr<Range>& range() const { return range_; }
  RangeRecord record() const;

  // Housekeeping: drops log groups that nothing needs, returns the log to R members (L4) and the manifest to
  // M (M1), counts copies of tables.
  void MaintainLog();
  TableCopies table_copies() const;  // as MaintainLog last counted them
  // L4: members left of the log group whose loss is nearest, of those that un-flushed rounds still need after
  // it was replaced; nullopt: none does.
  std::optional<size_t> Exposure() const;
  // Collection (N4): drops references (shared table, M4; most are the only one of a file) that nothing needs:
  // of older epochs those older than `grace_ms`; of this one tables whose job had ended when they were
  // listed, whatever their age. The StoCs are those that answer now.
  void CollectOrphans(uint64_t grace_ms);

 private:
  class Ground;
  // between attempts to return to R; doubles while they do not last
  static constexpr Nanos kFirstGrowthPause = kSecond;
  static constexpr Nanos kLongestGrowthPause = 60 * kSecond;

  Status TryRelease(Nanos deadline_ns);
  StatusOr<std::vector<VersionEdit>> ReadManifest(const RangeRecord& record, const RangeFences& fences,
                                                  Nanos deadline_ns);
  std::string NameOf(StocId stoc) const;
  Status CollectOrphansOf(StocId stoc, uint64_t grace_ms);
  size_t LeastLogMembers() const;
  LogMedia MediaOf(const std::vector<NodeInfo>& live) const;
  void LeaveDraining();
  StatusOr<LogGroup> PickLogGroup(const std::vector<LogMember>& keep, const LogMember& without, GroupId id,
                                  const std::set<StocId>& silent);
  bool Answers(const LogMember& member) const;
  // The same of StoCs that answer just now.
  StatusOr<LogGroup> PickAnsweringGroup(std::vector<LogMember> keep, const LogMember& without, GroupId id);
  void ChangeLogGroup(const LogGroup& current, StocId failed, Nanos asked_ns,
                      const std::function<void(StatusOr<LogGroup>)>& answer);
  size_t MembersLeft(const LogGroup& group) const;
  bool CanGrow(const LogGroup& current) const;
  void ReturnToR(const LogGroup& current);
  void ReturnToM(const ManifestGroup& current);
  Status StoreAnswers() const;
  void RenewManifest(const char* why);
  void CountTableCopies();

  const RangeId id_;
  const Epoch epoch_;
  const HostServices* const services_;
  const HostedRangeOptions options_;
  const Nanos old_lease_ends_ns_;
  const std::shared_ptr<Ground> ground_;
  std::shared_ptr<Range> range_;
  ReplicatedLog* log_ = nullptr;  // range_ owns it; set before range_ is active; null: mode none
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> opened_{false};  // range_ stands and is active
  std::atomic<bool> releasing_{false};
  std::atomic<bool> released_{false};
  std::atomic<bool> maintaining_{false};  // by one thread at a time, which the next three belong to
  // Attempts to return to as many members as are configured; one that brought nothing, or did not last, is
  // not repeated soon.
  struct Growth {
    Nanos pause_ns = kFirstGrowthPause;
    Nanos next_ns = 0;
    bool Due(Nanos now);  // and takes it that an attempt follows
    void Whole(Nanos now);
  };
  Growth log_growth_;
  Growth manifest_growth_;
  Nanos manifest_short_since_ns_ = 0;  // it has fewer than M living members; 0: it has M
  mutable Mutex copies_mu_;
  TableCopies table_copies_ ABSL_GUARDED_BY(copies_mu_);
};

}  // namespace nova
