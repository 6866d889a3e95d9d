// Range: one LSM-tree: memtables, log, tables; puts, gets, deletes and scans on it, and its background work.
//
// A put, on the request thread: admit (write control) -> pin the active round -> sequence number -> re-check
// sealing (K3a) -> copy into the memtable's arena -> log record -> [delivered at all members] -> link, finish
// the number, unpin, done.
// A get: active round, sealed rounds from young to old, runs from young to old; the first hit is the newest
// (K3). Only a block that is not in the cache leaves the thread, and comes back to it.
//
// A DeleteRange goes the way of a put, but ends in the list of range tombstones (K7): once logged, a view
// with it is published; a flush moves it into the manifest with its round; compactions drop what it hides; it
// goes when no table holds such any more.
//
// Views: {rounds, version, range tombstones} are published as one immutable snapshot; each request thread
// keeps the latest it has seen, so that the request path takes no lock and touches no shared counter but the
// pin.
//
// Thread safety: Write, Get and Scan on the executor they name; background work (Flush..., Compact...) on
//                threads that may wait.
// Ownership:     shared_ptr; asynchronous operations keep the range alive.  Keys are stored keys.
// Errors:        outcomes. After the epoch is fenced every operation ends with kNotOwner, or kUnknown where
//                it was logged.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/executor.h"
#include "common/base/log_throttle.h"
#include "common/base/metrics.h"
#include "common/base/outcome.h"
#include "common/base/refusals.h"
#include "common/base/write_batch.h"
#include "common/log/range_log.h"
#include "common/log/recovered_logs.h"
#include "common/sstable/table_store.h"
#include "ltc/engine/block_cache.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/disk_turns.h"
#include "ltc/engine/key_latches.h"
#include "ltc/engine/manifest.h"
#include "ltc/engine/memtable.h"
#include "ltc/engine/sequence_tracker.h"
#include "ltc/engine/snapshot.h"
#include "ltc/engine/version.h"
#include "ltc/engine/work_failure.h"
#include "ltc/engine/write_controller.h"

namespace nova {

class RecoveredEntries;

// Sealed rounds stay in memory as long as it lasts, and are merged there where they hold the same keys again
// and again (docs/engine.md).
enum class MergeRounds {
  kNever,
  kAuto,    // where flushes wait for one disk and there is no log, which would stay for as long as they do
  kAlways,  // of use where the log is on another disk, and has room
};

struct RangeOptions {
  size_t memtable_size_bytes = 4 << 20;  // tau
  int active_memtables = 2;              // alpha: siblings of the active round, chosen by key hash
  int max_rounds = 6;                    // delta / alpha: rounds in memory, the active one included
  int level0_slow_runs = 8;              // writers slow down from here ...
  int level0_stop_runs = 20;             // ... to half the drain rate here
  // so much later a flush takes what was held back, and what younger rounds replace again and again; 0: at
  // once
  Nanos table_lag_ns = 60 * kSecond;
  MergeRounds merge_rounds = MergeRounds::kAuto;
  uint32_t max_value_bytes = 1 << 20;
  // of a write batch; all of it is in flight at once (SequenceTracker::kWindow)
  uint32_t max_batch_entries = 10'000;
  uint64_t max_batch_bytes = 16 << 20;       // keys and values of a write batch
  uint32_t max_range_tombstones = 4096;      // K7: more wait until older ones hide nothing any more
  uint32_t round_range_tombstones = 256;     // a round with as many is sealed; a batch has at most as many
  uint64_t scan_page_bytes = 1 << 20;        // a scan answers in pages of about this
  Nanos scan_budget_ns = 50 * kMicrosecond;  // then it lets other requests run
  CompactionOptions compaction;
  TableOptions table;  // but for the compression:
  // of the tables written to Level0, Level1, ...; the last holds for deeper ones; empty: none
  std::vector<Compression> compression = {};
  Status Check() const;  // InvalidArgument: an option out of range, by name
};

// What the LTC gives to each of its ranges; outlives them.
struct RangeServices {
  TableStore* store = nullptr;
  BlockCache* cache = nullptr;
  ArenaPool* arenas = nullptr;
  size_t memtable_limit_bytes = SIZE_MAX;  // of the process, all ranges together
  // all tables lie on it: flushes that wait for it gain nothing side by side
  bool one_disk = false;
  std::vector<Executor*> executors;  // the request threads, by index
  std::function<StatusOr<Placement>(uint64_t table_bytes)> place;
  GarbageSink garbage;                                      // takes dropped tables; deletes them later
  std::function<void(RangeId)> work;                        // background work may be due
  std::function<void(RangeId, Status)> lost;                // the epoch is fenced: stop using the range
  std::function<void(std::function<void()>)> run_blocking;  // runs a closure on a thread that may wait
};

struct WriteEntry {
  ValueType type = ValueType::kPut;
  std::string_view key;    // of kDeleteRange: the first key deleted
  std::string_view value;  // of kDeleteRange: the key behind the last one
  int64_t ttl_ms = 0;      // of kPutTtl: from when the range takes it (K7)
};
// One entry, or a batch (K6): one log record, consecutive numbers, visible together to scans and snapshots. A
// later entry of a key hides an earlier one.
struct WriteOp {
  std::span<const WriteEntry> entries;  // at least one; they and what they view are valid during Write
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;  // LogRecord::sync
};
using WriteDone = absl::AnyInvocable<void(Outcome)>;
// the view is valid during the call
using GetDone = absl::AnyInvocable<void(Outcome, std::string_view value)>;

// Writes `desired` if the key's value is `expected`; null: that there is none (K6).
struct CompareAndSwapOp {
  std::string key;
  std::optional<std::string> expected;
  std::optional<std::string> desired;
  uint64_t client_id = 0;
  uint64_t request_number = 0;
  Nanos deadline_ns = kNever;
  bool sync = false;
};

using SnapshotDone = absl::AnyInvocable<void(Outcome, std::shared_ptr<Snapshot>)>;
// one a key, in their order
using MultiGetDone = absl::AnyInvocable<void(Outcome, std::vector<std::optional<std::string>>)>;

struct ScanOp {
  std::string from;  // first key wanted
  std::string to;    // keys below it; empty: to the end of the range
  uint32_t limit = 0;
  Nanos deadline_ns = kNever;
  std::shared_ptr<const Snapshot> snapshot = nullptr;  // null: now
  bool reverse = false;                                // from the largest key below `to` down to `from`
};
struct ScanPage {
  std::string entries;  // n x (varint key size, key, varint value size, value)
  uint32_t count = 0;
  bool more = false;  // the page is full; go on after the last key, in reverse below it
};
using ScanDone = absl::AnyInvocable<void(Outcome, ScanPage)>;

struct RangeStats {
  uint64_t writes = 0;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  int level0_runs = 0;
  int rounds = 0;
  size_t tables = 0;
  size_t range_tombstones = 0;
  size_t memtable_bytes = 0;
  uint64_t merges = 0;   // of rounds, in memory
  Nanos stalled_ns = 0;  // of writers
  Nanos paused_ns = 0;   // of background work, for reads that wait for the disk
  double pressure = 0;
};

// Which range, and by what right: what Recover needs of the range's record.
struct RangeSpec {
  RangeId id;
  Epoch epoch;
  std::string lower = {};  // stored keys, [lower, upper); an empty upper is the end
  std::string upper = {};
};

class Range : public std::enable_shared_from_this<Range> {
 public:
  // Rebuilds the tree from a manifest's edits (none: a new range), flushes what the logs held (R4), and
  // starts the manifest of this epoch: all but the OPEN compare-and-set and `log`, which come with Activate.
  // Waits. `keep` owns services and storage, which work under way needs after everybody else has let go of
  // them; null: they outlive it.
  static StatusOr<std::shared_ptr<Range>> Recover(const RangeSpec& spec, const RangeOptions& options,
                                                  const RangeServices* services, ManifestStorage* storage,
                                                  const std::vector<VersionEdit>& edits,
                                                  RecoveredLogs entries,
                                                  std::shared_ptr<const void> keep = nullptr);
  ~Range();
  ManifestGroup manifest_group() const;
  void Activate(std::unique_ptr<RangeLog> log);  // after OPEN; operations before it end with kNotOwner

  // --- request path, on `on`
  void Write(Executor* on, const WriteOp& op, WriteDone done);
  // kConditionFailed: another value was there. No write of the key comes between the comparison and the swap.
  void CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done);
  void Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done);  // the newest
  // As of the snapshot, which this range made. kSnapshotEnded: it is not live any more; so with the others.
  void GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns, GetDone done);
  // All of one moment: the snapshot's, or (null) now (K4).
  void MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                Nanos deadline_ns, MultiGetDone done);
  // K4: sees every write that was acknowledged before, and every batch whole or not at all. Live until let
  // go, or `expires_ns`.
  void TakeSnapshot(Executor* on, Nanos expires_ns, SnapshotDone done);
  void Scan(Executor* on, ScanOp op, ScanDone done);
  void RefreshView(Executor* on);  // lets go of what an idle thread still holds
  // Of a range that was just opened, until `stop` says so. Waits.
  void LoadReaders(const std::function<bool()>& stop);  // reads the index and the filter of each table
  // and mapped tables as a whole, one after another, at the disk's rate
  void WarmTables(const std::function<bool()>& stop);

  // --- background, on threads that may wait
  // the oldest sealed rounds that nobody flushes, or a merge of some; false: nothing to do now
  bool FlushOne();
  // sealed rounds that hold the same keys again and again, in memory; false: there are none, or no room
  bool MergeSealed();
  bool CompactOne();  // one compaction, or a part of one that another thread began; false: nothing to do now
  bool SealActive();  // makes the active round immutable if it holds anything; false: no room for another
  // All that is written by now will be in tables by the time of FlushedUpTo(the number returned), also what
  // is replaced until then.
  SequenceNumber BeginFlush();
  void FlushHeld();  // rounds that are sealed by now wait no longer for others to go with them
  bool SealUpTo(SequenceNumber seq);  // what SealActive does, where the round may hold such a number
  // REQUIRES: StopWrites. `give_up`: as soon as flushes fail for longer than a moment.
  Status FlushAll(Nanos deadline_ns, bool give_up = false);
  // Why flushes, or compactions, have failed for a while, and again since then; Ok: they have not.
  Status LastingFlushFailure(Nanos since_ns) const { return flush_failure_.Lasting(since_ns); }
  Status LastingCompactionFailure(Nanos since_ns) const { return compaction_failure_.Lasting(since_ns); }
  void StopWrites();  // later writes end with kNotOwner
  // R5 (release): a range that is let go stops in two steps, and may be taken back between them and after.
  // Every request that arrives after StopReads ends with kNotOwner.
  bool BeginRelease();   // stops writes; false: the range does not serve, or is being restored
  void StopReads();      // REQUIRES: BeginRelease was true
  void CancelRelease();  // serves on, unless the range was lost meanwhile
  bool serves_reads() const {
    const State state = state_.load(std::memory_order_acquire);
    return state == State::kActive || state == State::kReadOnly;
  }
  void Abandon();  // the epoch is lost: as StopWrites, and no reads either
  bool NeedsFlush() const;
  bool NeedsCompaction();
  bool FlushedUpTo(SequenceNumber seq) const;  // no memtable holds a number at or below it
  // StoCs that must hold nothing of this range any more: CompactOne writes their tables anew elsewhere.
  // `place` knows them before.
  void LeaveStocs(const std::vector<StocId>& stocs);
  // there now, and jobs under way that were placed before LeaveStocs named it
  uint64_t TablesLeft(StocId stoc);
  // M1 (renewal): the manifest to fresh members, while edits go on but for a moment. It begins, and edits
  // stop, only where `may_go_on` is true then. After an error the manifest is where it was.
  Status RenewManifest(const std::function<Status()>& may_go_on);

  // --- checkpoints (M2; docs/engine.md), on threads that may wait A durable pin of what the range holds: all
  // that was acknowledged before. AlreadyExists; ResourceExhausted: kMaxCheckpoints; DeadlineExceeded,
  // Unavailable: it was not made. Unknown, of these three calls: perhaps it is done, perhaps a later owner
  // finds it done; to ask again unseen could do it twice (A1).
  Status CreateCheckpoint(const std::string& name, Nanos deadline_ns);
  // The same without a name, and not durable: its tables stay for as long as it is kept.
  StatusOr<CheckpointRef> Freeze(Nanos deadline_ns);
  Status DeleteCheckpoint(const std::string& name);  // NotFound; Unavailable: nothing changed; Unknown
  // The range holds what it held at the checkpoint, in one step; what was written since is gone, snapshots
  // end. Requests are refused (kNotOwner) meanwhile. NotFound; Unavailable, DeadlineExceeded: nothing
  // changed; Unknown.
  Status RestoreCheckpoint(const std::string& name, Nanos deadline_ns);

  // --- any thread
  RangeId id() const { return id_; }
  Epoch epoch() const { return epoch_; }
  const std::string& lower() const { return lower_; }
  const std::string& upper() const { return upper_; }
  bool Contains(std::string_view key) const { return key >= lower_ && (upper_.empty() || key < upper_); }
  bool active() const { return state_.load() == State::kActive; }
  RangeLog* log() const { return log_.get(); }
  RangeStats stats() const;
  size_t active_bytes() const;
  std::optional<TableInfo> FindTable(const Uuid& table) const;  // in the current version
  // N4: what the current version, a checkpoint, a reader or an edit that failed names. Waits for an edit that
  // is under way.
  std::set<StocFileId> ReferencedFiles() const;
  // N4: every job of this epoch below it has ended: what it placed is referenced, or will never be. Jobs
  // count from 1.
  uint64_t FirstUnfinishedJob() const;
  std::vector<CheckpointRef> Checkpoints() const;  // by name
  bool InVersion(const Uuid& table) const;         // in the current version's runs
  // Each table of the version and of its checkpoints, once.
  void ForEachTable(const std::function<void(const TableInfo&)>& fn) const;
  int64_t now_ms() const { return published_now_ms_.load(); }  // K7: what had expired by then may be gone
  bool MadeSnapshot(const Snapshot& snapshot) const { return snapshots_.Made(snapshot); }
  SequenceNumber last_sequence() const { return sequences_.last(); }

 private:
  enum class State { kOpening, kActive, kRestoring, kReadOnly, kSilent, kLost };  // kSilent: after StopReads
  struct Round;
  using RoundGroup = std::vector<std::shared_ptr<Round>>;  // that follow one another, the oldest first
  struct CheckpointRequest;
  struct View;
  struct WriteContext;
  struct ParkedWrite;
  struct alignas(64) Lane {
    std::shared_ptr<const View> view;
    std::vector<std::unique_ptr<WriteContext>> free_contexts;
  };
  struct Moment;
  struct TablePosition;
  struct GetState;
  struct MultiGetState;
  struct SwapState;
  struct DropRules;
  class Younger;
  struct ScanState;
  class LevelIterator;
  class JobStorage;
  class Job;
  struct PlanRun;

  Range(const RangeSpec& spec, const RangeOptions& options, const RangeServices* services,
        ManifestStorage* storage, SequenceNumber last_sequence);

  const View& LaneView(Executor* on);
  std::shared_ptr<const View> CurrentView() const;
  std::shared_ptr<Round> NewRound(RoundNumber number, bool scanned);
  void PublishLocked(std::shared_ptr<const View> view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RefreshLanes();
  size_t RoundBytes() const {
    return options_.memtable_size_bytes * static_cast<size_t>(options_.active_memtables);
  }
  Nanos Admit(Executor* on, uint64_t bytes);  // how long a write has to wait
  bool Level0LacksSpace() const;
  bool HasRoomFor(double rounds) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // beside those there are
  double Level0Excess(const View& view) const;  // 0: as many runs as slow writers down; 1: at the stop limit
  void UpdatePressure();
  bool SealIfActive(const Round* round);  // false: no room for another round
  bool SealLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetReplacedRounds();
  bool IsValid(const WriteOp& op, uint64_t bytes, uint64_t range_deletes) const;
  bool HasRoomForTombstones(Executor* on, uint64_t count);
  void AdmittedWrite(Executor* on, const WriteOp& op, WriteDone done,
                     std::shared_ptr<SwapState> swap = nullptr);
  void LinkWithTombstones(WriteContext* context);
  size_t HeldStripeOf(const WriteOp& op) const;
  void WaitForLatch(Executor* on, size_t stripe, const WriteOp& op, WriteDone done);
  void LockedSwap(const std::shared_ptr<SwapState>& swap);
  void CompareForSwap(const std::shared_ptr<SwapState>& swap);
  void EndSwap(SwapState* swap, Outcome outcome);
  void Logged(WriteContext* context, Outcome outcome);
  void ParkWrite(Executor* on, Nanos wait_ns, const WriteOp& op, WriteDone done,
                 std::shared_ptr<SwapState> swap = nullptr);
  void Unpin(Round* round);
  void Lose(const Status& why);

  // K7
  int64_t NowMs() const { return std::max(WallNowMs(), published_now_ms_.load(std::memory_order_relaxed)); }
  bool Shows(ValueType type, std::string_view* value) const;
  Moment MomentOf(Executor* on);
  void WithMoment(Executor* on, absl::AnyInvocable<void(Moment)> fn);
  void WhenStable(Executor* on, SequenceNumber seq, absl::AnyInvocable<void()> fn);
  void Search(Executor* on, const std::shared_ptr<const View>& view, SequenceNumber at, std::string_view key,
              Nanos deadline_ns, GetDone done);
  void SearchAll(const std::shared_ptr<MultiGetState>& get);
  bool IsNewest(const View& view, std::string_view key, SequenceNumber at, SequenceNumber sequence) const;
  enum class TableAnswer { kFound, kAbsent, kCorrupt, kNeedsReader, kNeedsBlock };
  TableAnswer SearchTables(const View& view, SequenceNumber at, std::string_view key, TablePosition* position,
                           TableReader::Hit* hit) const;
  void ContinueGet(std::unique_ptr<GetState> get);
  void Fetch(TableAnswer missing, std::unique_ptr<GetState> get);
  void Answer(const View& view, std::string_view key, SequenceNumber at, MemTable::Hit hit,
              GetDone* done) const;
  Outcome OutcomeOfRead(const Status& failure) const;
  void FetchBlock(Executor* on, const TableReader& table, const BlockHandle& handle, Nanos deadline_ns,
                  absl::AnyInvocable<void(StatusOr<BlockRef>)> done);
  void ForEachTableNow(const std::function<bool()>& stop, const std::function<void(const TableReader&)>& fn);
  void LoadReader(Executor* on, TableRef table, absl::AnyInvocable<void(Status)> done);
  StatusOr<std::shared_ptr<const TableReader>> LoadReaderBlocking(TableHandle* table);
  StatusOr<std::shared_ptr<const TableReader>> OpenReader(const TableInfo& info, std::string_view metadata,
                                                          bool cold);

  void StartScan(std::shared_ptr<ScanState> scan);
  void ContinueScan(const std::shared_ptr<ScanState>& scan);
  bool StepScan(const std::shared_ptr<ScanState>& scan);
  bool ResumeScan(ScanState* scan);
  void AppendEntry(ScanState* scan, std::string_view stored_key, SequenceNumber sequence, ValueType type,
                   std::string_view value) const;
  void AppendLast(ScanState* scan) const;
  static bool EndScan(ScanState* scan, Outcome outcome, ScanPage page);

  StatusOr<TableInfo> StoreTable(TableBuilder::Output output, const Creator& creator,
                                 std::shared_ptr<const TableReader>* reader);
  DropRules RulesOf(const View& view);
  DropRules RulesOfFlush(const RoundGroup& rounds);
  void LookForYounger(const RoundGroup& rounds, Younger* younger);
  using FlushProgress = std::function<void(uint64_t entries, uint64_t kept_bytes)>;  // since the last call
  StatusOr<VersionEdit> WriteLevel0(uint64_t job, Iterator* sorted, RoundNumber order, const DropRules& rules,
                                    Younger* younger, const FlushProgress& progress);
  StatusOr<VersionEdit> WriteRecovered(const RecoveredEntries& recovered, const DropRules& rules);
  MemTableId DoneBelow(const View& view, const RoundGroup* flushed) const;
  VersionEdit SnapshotOf(const Version& version, MemTableId done_below) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  Status CommitEdit(VersionEdit edit, const RoundGroup* flushed = nullptr);
  Status CommitEditLocked(VersionEdit edit, const RoundGroup* flushed = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  Status CommitRequestLocked(VersionEdit edit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  StatusOr<CheckpointRef> MakeCheckpoint(const std::shared_ptr<CheckpointRequest>& request,
                                         Nanos deadline_ns);
  Status AttachLocked(const std::shared_ptr<CheckpointRequest>& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  void PinFlushedLocked(const Round& flushed, const Version& next, VersionEdit* edit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  void AnswerCheckpointsLocked(Round* flushed, const Version& published)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  Status RestoreStopped(const std::string& name, Nanos deadline_ns);
  void DropGivenUpLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(manifest_mu_);
  Status CommitMove(const Uuid& moved, std::vector<VersionEdit::Add> outputs);
  bool HoldsHidden(const View& view);
  SequenceNumber ReplaceNoneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  RoundGroup ClaimRounds();
  bool FlushLater(RoundGroup::const_reverse_iterator first, double waiting, bool memory_lasts) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool RoundsShareKeys() const;
  bool CommitFlushes();
  bool MayHold() const;
  bool MemoryLasts(double rounds) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  RoundGroup ClaimMerge(double* share);
  std::shared_ptr<Round> MergedRound(const RoundGroup& rounds, double most_share);
  bool PublishMerged(const RoundGroup& rounds, std::shared_ptr<Round> merged);
  bool FlushIsBehind() const;
  void GrantCompaction(uint64_t flushed_bytes);
  void CreditLevel0(const PlanRun& run);
  void LetFlushGoFirst(uint64_t bytes);
  void LetReadsHaveTurns();
  TableOptions TableOptionsAt(int level) const;
  void GiveUp(PlanRun* run);
  void BackgroundFailed(const char* what, const Status& s, WorkFailure* failure);
  Status RunPlan(uint64_t job_id, const std::shared_ptr<PlanRun>& run);
  Status PlanParts(uint64_t job_id, const DropRules& rules, PlanRun* run);
  bool RunParts(PlanRun* run);

  const RangeId id_;
  const Epoch epoch_;
  const std::string lower_;
  const std::string upper_;
  const RangeOptions options_;
  std::shared_ptr<const void> keep_;  // set once by Recover
  const RangeServices* const services_;
  std::unique_ptr<RangeLog> log_;  // set once by Activate, before state_ becomes kActive
  bool sync_matters_ = false;      // log_->sync_matters()
  std::atomic<State> state_{State::kOpening};

  SequenceTracker sequences_;
  KeyLatches latches_;
  SnapshotList snapshots_;
  std::atomic<int64_t> published_now_ms_{0};  // the latest now_ms of an edit; set under manifest_mu_
  WriteController controller_;
  LogThrottle background_errors_;
  // of records, which are not tried again and again while the log cannot be written
  Refusals log_refusals_{100 * kMillisecond};
  WorkFailure flush_failure_;       // told to writes that no memtable has room for
  WorkFailure compaction_failure_;  // told to writes that are slowed down for the want of it
  // that it had stored: one that stores more does not fail of that
  std::atomic<size_t> tables_at_failure_{0};
  std::atomic<uint64_t> writes_{0};
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> next_memtable_{1};
  // K6: each tells a swap of itself before it takes its number ...
  std::atomic<uint64_t> range_deletes_begun_{0};
  std::atomic<uint64_t> range_deletes_numbered_{0};  // ... and that it has taken it

  mutable Mutex mu_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mu_);
  // by an edit, and perhaps still read
  std::vector<std::weak_ptr<TableHandle>> dropped_ ABSL_GUARDED_BY(mu_);
  // rounds that held nothing acknowledged, and whose logs may go
  std::vector<RoundNumber> replaced_ ABSL_GUARDED_BY(mu_);
  // what tables hold when rounds up to here are flushed nothing younger replaces
  std::set<SequenceNumber> whole_upto_ ABSL_GUARDED_BY(mu_);
  // rounds that may hold a number up to here are flushed at once
  SequenceNumber flush_asked_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<uint64_t> view_generation_{0};
  std::vector<Lane> lanes_;  // [i] belongs to executor i

  std::atomic<double> level0_credit_{0};      // runs that the Level0 job under way is done with
  std::atomic<int64_t> compaction_grant_{0};  // bytes that compactions may move while a flush is behind
  // of the entries of the last flush, the part that none of its own replaced
  std::atomic<double> flush_kept_{1};
  // of what the last flushes kept, the part that younger rounds had replaced
  std::atomic<double> flush_replaced_{0};
  // the next flush from here on puts all that is written by then into tables
  std::atomic<Nanos> whole_again_ns_{Now() + options_.table_lag_ns};
  double merging_share_ ABSL_GUARDED_BY(mu_) = 0;  // of a round's memory, kept for a merge under way
  Nanos fill_ns_ ABSL_GUARDED_BY(mu_) = 0;         // that writers took to fill the last round
  std::atomic<uint64_t> merges_{0};
  std::atomic<bool> flush_waits_{false};  // flushes wait for one disk, most of the time
  std::atomic<bool> flush_alone_{false};  // and leave out what younger rounds have replaced
  std::atomic<Nanos> flush_round_ns_{0};  // that the last flush took for a round's memory
  DiskTurns disk_turns_;
  Mutex pressure_mu_;  // held while the controller is told of the view
  Mutex flush_mu_;     // held while flushed rounds are committed, one after another
  mutable Mutex picker_mu_;
  CompactionState compaction_state_ ABSL_GUARDED_BY(picker_mu_);
  // with parts that nobody has taken
  std::vector<std::shared_ptr<PlanRun>> open_runs_ ABSL_GUARDED_BY(picker_mu_);
  uint64_t next_job_ ABSL_GUARDED_BY(picker_mu_) = 1;
  std::set<uint64_t> jobs_ ABSL_GUARDED_BY(picker_mu_);             // that place tables now
  std::map<StocId, uint64_t> leaving_ ABSL_GUARDED_BY(picker_mu_);  // and the first job placed elsewhere
  bool compactions_paused_ ABSL_GUARDED_BY(picker_mu_) = false;     // while the range is restored
  ManifestStorage* const manifest_storage_;
  mutable Mutex manifest_mu_;  // edits are appended and published in one order
  CondVar checkpoint_made_;    // with manifest_mu_
  Manifest manifest_ ABSL_GUARDED_BY(manifest_mu_);
  // of edits that failed; theirs no more once a later one counts
  std::vector<TableInfo> given_up_ ABSL_GUARDED_BY(manifest_mu_);
  SequenceNumber seq_reserved_ ABSL_GUARDED_BY(manifest_mu_) = 0;
};

}  // namespace nova
