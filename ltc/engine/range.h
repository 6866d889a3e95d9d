// Range: one LSM-tree: memtables, log and tables; puts, gets, deletions and scans on it, and its background
// work.
//
// It is a conductor: it makes the parts (ltc/engine/range_context.h lists them), hands each request to one of
// them, and holds none of their state. A put goes through WritePath, a get through Reader, a scan through
// Scanner. Flusher and Compactor make tables of written entries, and VersionSet is the one way the tables
// change.
//
// Thread safety: requests on the executor they name, which they never make wait; background work on threads
//   that may wait.
// Ownership: shared_ptr; asynchronous operations keep the range alive. All keys are stored keys.
// Errors: outcomes. After the epoch is fenced every operation ends with kNotOwner, or with kUnknown if its
//   record was posted.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/range_log.h"
#include "common/log/recovered_logs.h"
#include "ltc/engine/checkpoints.h"
#include "ltc/engine/compactor.h"
#include "ltc/engine/flushed_load.h"
#include "ltc/engine/flusher.h"
#include "ltc/engine/manifest.h"
#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/reader.h"
#include "ltc/engine/rebuilder.h"
#include "ltc/engine/scanner.h"
#include "ltc/engine/version_set.h"
#include "ltc/engine/write_path.h"
#include "ltc/engine/written_load.h"

namespace nova {

class RecoveredEntries;

class Range : public std::enable_shared_from_this<Range> {
 public:
  // Rebuilds the tree from a manifest's edits (none: a new range), flushes the entries of the logs (shown
  // stays, R4), and starts the manifest of this epoch. The compare-and-set to OPEN is the caller's; after it
  // comes Activate. Waits. `keep` owns services and storage, which work under way needs after all others have
  // let go of them; null: they outlive the range.
  static StatusOr<std::shared_ptr<Range>> Recover(const RangeSpec& spec, const RangeOptions& options,
                                                  const RangeServices* services, ManifestStorage* storage,
                                                  const std::vector<VersionEdit>& edits,
                                                  RecoveredLogs entries,
                                                  std::shared_ptr<const void> keep = nullptr);
  ~Range();
  // Call after OPEN, once; requests before it end with kNotOwner.
  void Activate(std::unique_ptr<RangeLog> log);

  // --- request path, on `on`

  // See WritePath.
  void Write(Executor* on, const WriteOp& op, WriteDone done) { writes_.Write(on, op, std::move(done)); }
  // kConditionFailed: the key has another value. No write of the key comes between the comparison and the
  // swap.
  void CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done) {
    writes_.CompareAndSwap(on, std::move(op), std::move(done));
  }
  // The newest version. See Reader.
  void Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done) {
    reader_.Get(on, key, deadline_ns, std::move(done));
  }
  // A get at a snapshot that this range made. kSnapshotEnded: it is not live any more; also of MultiGet and
  // Scan.
  void GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns, GetDone done) {
    reader_.GetAt(on, snapshot, key, deadline_ns, std::move(done));
  }
  // All at one moment (K4): the snapshot's, or now if that is null.
  void MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                Nanos deadline_ns, MultiGetDone done) {
    reader_.MultiGet(on, std::move(keys), std::move(snapshot), deadline_ns, std::move(done));
  }
  // A snapshot (K4) sees every write acknowledged before the call, and every batch whole or not at all. It is
  // live until it is let go, or until `expires_ns`.
  void TakeSnapshot(Executor* on, Nanos expires_ns, SnapshotDone done);
  // See Scanner.
  void Scan(Executor* on, ScanOp op, ScanDone done) { scanner_.Scan(on, std::move(op), std::move(done)); }

  // --- background, on threads that may wait

  // Flushes the oldest sealed rounds that are not claimed, or merges some. False: nothing to do now, or it
  // failed.
  bool FlushOne() { return flusher_.FlushOne(); }
  // Merges sealed rounds that hold the same keys again and again. False: there are none, or no room. FlushOne
  // does it where it is due; this, for tests, at once.
  bool MergeSealed() { return merger_.MergeOne(); }
  // Runs one compaction, or a part of one that another thread has begun. False: nothing to do now, or it
  // failed.
  bool CompactOne() { return compactor_.CompactOne(); }
  // Does not wait; true may mean that the work is claimed already.
  bool NeedsFlush() const { return flusher_.NeedsFlush(); }
  // As NeedsFlush, for compactions.
  bool NeedsCompaction() { return compactor_.NeedsCompaction(); }
  // For a range that was just opened; both end when `stop` is true. See TableAccess.
  void LoadReaders(const std::function<bool()>& stop) { tables_.LoadReaders(rounds_.Current(), stop); }
  void WarmTables(const std::function<bool()>& stop) { tables_.Warm(rounds_.Current(), stop); }

  // --- into tables
  bool SealActive();  // seals the active round if it holds anything; false: no room for another
  // The same, if the round may hold a number at or below `seq`.
  bool SealUpTo(SequenceNumber seq);
  // Returns seq. Once FlushedUpTo(seq), every write acknowledged before this call is in a table, even if it
  // was overwritten since.
  SequenceNumber BeginFlush() { return rounds_.BeginFlush(); }
  bool FlushedUpTo(SequenceNumber seq) const { return rounds_.FlushedUpTo(seq); }
  // theta and alpha, in the place of their options. Dranges, 1 to DrangeMap::kMostDranges: from the next
  // flush on (FlushedLoad). Memtables of a round, 1 to 64: from the next round on; the memory that the range
  // may have is max_rounds of such rounds.
  void Configure(int dranges, int active_memtables);
  // Flushes now instead of waiting to form a larger group.
  void FlushHeld() { rounds_.FlushHeld(); }
  // Flushes until nothing is in memory. REQUIRES: StopWrites or BeginRelease. `give_up`: returns the error
  // once flushes have failed for a while.
  Status FlushAll(Nanos deadline_ns, bool give_up = false) { return flusher_.FlushAll(deadline_ns, give_up); }

  // --- letting go
  void StopWrites();  // later writes end with kNotOwner
  // Until those that were begun before are answered. REQUIRES: StopWrites. DeadlineExceeded.
  Status AwaitWrites(Nanos deadline_ns);
  // Release (R5): a range that is let go stops in two steps, and may be taken back after each. Every request
  // that arrives after StopReads ends with kNotOwner.
  bool BeginRelease();  // stops writes; false: the range does not serve, or is being restored
  void StopReads();     // REQUIRES: BeginRelease was true
  // Serves on, unless the range was lost meanwhile.
  void CancelRelease();
  // The epoch is lost: no writes, no reads, the log is fenced; does not wait.
  void Abandon();
  bool serves_reads() const { return context_.state.serves_reads(); }
  // Open, and neither restored nor let go.
  bool active() const { return context_.state.Is(ServingState::kActive); }

  // --- any thread: its parts, as far as others may ask them
  VersionSet& versions() { return versions_; }          // to renew its manifest (M1), to settle doubt; waits
  const Pacer& pacer() const { return pacer_; }         // what ails background work
  const ReadPoints& points() const { return points_; }  // numbers, snapshots, the published clock
  JobBook& jobs() { return jobs_; }                     // for whoever else writes files of the range
  Checkpoints& checkpoints() { return checkpoints_; }   // on threads that may wait
  Compactor& compactor() { return compactor_; }
  Rebuilder& rebuilder() { return rebuilder_; }

  // --- any thread
  RangeId id() const { return context_.spec.id; }
  const RangeSpec& spec() const { return context_.spec; }  // bounds, epoch
  bool Contains(std::string_view key) const { return context_.Contains(key); }
  RangeLog* log() const { return log_.get(); }  // null before Activate
  // Counters; from any thread, takes the locks of views and of the parts for a moment each.
  RangeStats stats() const;
  // Its content now; takes a lock for a moment.
  std::shared_ptr<const RangeView> view() const { return rounds_.Current(); }

 private:
  Range(const RangeSpec& spec, const RangeOptions& options, const RangeServices* services,
        ManifestStorage* storage, SequenceNumber last_sequence, std::shared_ptr<const void> keep);

  // Writes recovered entries as one run of Level0 (R4) and returns the edit.
  StatusOr<VersionEdit> WriteRecovered(const RecoveredEntries& recovered, const DropRules& rules);
  // The epoch is fenced: ends the range, once, and tells the services.
  void Lose(const Status& why);

  const std::shared_ptr<const void> keep_;  // see Recover
  RangeContext context_;
  // The parts, each behind those that it asks.
  Level0Toll toll_;
  FlushedLoad load_;
  WrittenLoad written_;
  ReadPoints points_;
  RoundLog log_;
  RoundSet rounds_;
  Pacer pacer_;
  TableAccess tables_;
  Reader reader_;
  Scanner scanner_;
  JobBook jobs_;
  VersionSet versions_;
  Rebuilder rebuilder_;
  RoundMerger merger_;
  Flusher flusher_;
  Compactor compactor_;
  WritePath writes_;
  Checkpoints checkpoints_;
};

}  // namespace nova
