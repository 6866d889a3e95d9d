// Range: one LSM-tree: memtables, log, tables; puts, gets, deletes and scans on it, and its background work.
//
// It is a conductor: it makes the parts (range_context.h lists them), hands each request to one, and holds
// none of their state. A put goes through WritePath, a get through Reader, a scan through Scanner; Flusher
// and Compactor make tables of what was written, and VersionSet is the one way the tables change.
//
// Thread safety: requests on the executor they name; background work on threads that may wait.
// Ownership:     shared_ptr; asynchronous operations keep the range alive.  Keys are stored keys.
// Errors:        outcomes. After the epoch is fenced every operation ends with kNotOwner, or kUnknown where
//                it was logged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/log/range_log.h"
#include "common/log/recovered_logs.h"
#include "ltc/engine/checkpoints.h"
#include "ltc/engine/compactor.h"
#include "ltc/engine/flusher.h"
#include "ltc/engine/manifest.h"
#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/reader.h"
#include "ltc/engine/scanner.h"
#include "ltc/engine/version_set.h"
#include "ltc/engine/write_path.h"

namespace nova {

class RecoveredEntries;

class Range : public std::enable_shared_from_this<Range> {
 public:
  // Rebuilds the tree from a manifest's edits (none: a new range), flushes what the logs held (shown stays,
  // R4), and starts the manifest of this epoch: all but the OPEN compare-and-set and `log`, which come with
  // Activate. Waits. `keep` owns services and storage, which work under way needs after everybody else has
  // let go of them; null: they outlive it.
  static StatusOr<std::shared_ptr<Range>> Recover(const RangeSpec& spec, const RangeOptions& options,
                                                  const RangeServices* services, ManifestStorage* storage,
                                                  const std::vector<VersionEdit>& edits,
                                                  RecoveredLogs entries,
                                                  std::shared_ptr<const void> keep = nullptr);
  ~Range();
  void Activate(std::unique_ptr<RangeLog> log);  // after OPEN; operations before it end with kNotOwner

  // --- request path, on `on`
  void Write(Executor* on, const WriteOp& op, WriteDone done) { writes_.Write(on, op, std::move(done)); }
  // kConditionFailed: another value was there. No write of the key comes between the comparison and the swap.
  void CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done) {
    writes_.CompareAndSwap(on, std::move(op), std::move(done));
  }
  void Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done) {  // the newest
    reader_.Get(on, key, deadline_ns, std::move(done));
  }
  // As of the snapshot, which this range made. kSnapshotEnded: it is not live any more; so with the others.
  void GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns, GetDone done) {
    reader_.GetAt(on, snapshot, key, deadline_ns, std::move(done));
  }
  // All of one moment: the snapshot's, or (null) now: a moment (K4).
  void MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                Nanos deadline_ns, MultiGetDone done) {
    reader_.MultiGet(on, std::move(keys), std::move(snapshot), deadline_ns, std::move(done));
  }
  // K4: sees every write that was acknowledged before, and every batch whole or not at all. Live until let
  // go, or `expires_ns`.
  void TakeSnapshot(Executor* on, Nanos expires_ns, SnapshotDone done);
  void Scan(Executor* on, ScanOp op, ScanDone done) { scanner_.Scan(on, std::move(op), std::move(done)); }
  void RefreshView(Executor* on) { rounds_.ViewOf(on); }  // lets go of what an idle thread still holds

  // --- background, on threads that may wait
  // The oldest sealed rounds that nobody flushes, or a merge of some; false: nothing to do now.
  bool FlushOne() { return flusher_.FlushOne(); }
  // Sealed rounds that hold the same keys again and again, in memory; false: there are none, or no room.
  bool MergeSealed() { return merger_.MergeOne(); }
  // One compaction, or a part of one that another thread began; false: nothing to do now.
  bool CompactOne() { return compactor_.CompactOne(); }
  bool NeedsFlush() const { return flusher_.NeedsFlush(); }
  bool NeedsCompaction() { return compactor_.NeedsCompaction(); }
  // Of a range that was just opened, until `stop` says so.
  void LoadReaders(const std::function<bool()>& stop) { tables_.LoadReaders(rounds_.Current(), stop); }
  void WarmTables(const std::function<bool()>& stop) { tables_.Warm(rounds_.Current(), stop); }

  // --- into tables
  bool SealActive();  // makes the active round immutable if it holds anything; false: no room for another
  bool SealUpTo(SequenceNumber seq);  // the same, where the round may hold such a number
  // Returns seq. Once FlushedUpTo(seq), every write acknowledged before this call is in a table, even if it
  // was overwritten since.
  SequenceNumber BeginFlush() { return rounds_.BeginFlush(); }
  bool FlushedUpTo(SequenceNumber seq) const { return rounds_.FlushedUpTo(seq); }
  void FlushHeld() { rounds_.FlushHeld(); }  // flushes now instead of waiting to form a larger group
  // REQUIRES: StopWrites. `give_up`: as soon as flushes fail for longer than a moment.
  Status FlushAll(Nanos deadline_ns, bool give_up = false) { return flusher_.FlushAll(deadline_ns, give_up); }
  // Why flushes, or compactions, have failed for a while, and again since then; Ok: they have not.
  Status LastingFlushFailure(Nanos since_ns) const { return pacer_.LastingFlushFailure(since_ns); }
  Status LastingCompactionFailure(Nanos since_ns) const { return pacer_.LastingCompactionFailure(since_ns); }

  // --- letting go
  void StopWrites();  // later writes end with kNotOwner
  // R5 (release): a range that is let go stops in two steps, and may be taken back between them and after.
  // Every request that arrives after StopReads ends with kNotOwner.
  bool BeginRelease();   // stops writes; false: the range does not serve, or is being restored
  void StopReads();      // REQUIRES: BeginRelease was true
  void CancelRelease();  // serves on, unless the range was lost meanwhile
  void Abandon();        // the epoch is lost: as StopWrites, and no reads either
  bool serves_reads() const { return context_.state.serves_reads(); }
  bool active() const { return context_.state.Is(ServingState::kActive); }

  // --- files
  ManifestGroup manifest_group() const { return versions_.manifest_group(); }
  // M1 (renewal), N4 (collection): as VersionSet.
  Status RenewManifest(const std::function<Status()>& may_go_on) {
    return versions_.RenewManifest(may_go_on);
  }
  std::set<StocFileId> ReferencedFiles() const { return versions_.ReferencedFiles(); }
  // N4: every job of this epoch below it has ended: what it placed is referenced, or will never be.
  uint64_t FirstUnfinishedJob() const { return jobs_.FirstUnfinished(); }
  // StoCs that must hold nothing of this range any more: CompactOne writes their tables anew elsewhere.
  // `place` knows them before.
  void LeaveStocs(const std::vector<StocId>& stocs) { jobs_.LeaveStocs(stocs); }
  uint64_t TablesLeft(StocId stoc) const { return compactor_.TablesLeft(stoc); }
  std::optional<TableInfo> FindTable(const Uuid& table) const;  // in the current version
  bool InVersion(const Uuid& table) const;                      // in the current version's runs
  // Each table of the version and of its checkpoints, once.
  void ForEachTable(const std::function<void(const TableInfo&)>& fn) const;

  // --- checkpoints (M2; docs/engine.md), on threads that may wait A durable pin of what the range holds: all
  // that was acknowledged before. AlreadyExists; ResourceExhausted: kMaxCheckpoints; DeadlineExceeded,
  // Unavailable: it was not made. Unknown, of these three calls: perhaps it is done, perhaps a later owner
  // finds it done; to ask again unseen could do it twice (no write twice, A1).
  Status CreateCheckpoint(const std::string& name, Nanos deadline_ns) {
    return checkpoints_.Create(name, deadline_ns);
  }
  Status DeleteCheckpoint(const std::string& name) { return versions_.DeleteCheckpoint(name); }
  Status RestoreCheckpoint(const std::string& name, Nanos deadline_ns) {
    return checkpoints_.Restore(name, deadline_ns);
  }
  // A checkpoint without a name, and not durable: its tables stay for as long as it is kept.
  StatusOr<CheckpointRef> Freeze(Nanos deadline_ns) { return checkpoints_.Freeze(deadline_ns); }
  // by name
  std::vector<CheckpointRef> ListCheckpoints() const { return versions_.current()->checkpoints(); }

  // --- any thread
  RangeId id() const { return context_.spec.id; }
  Epoch epoch() const { return context_.spec.epoch; }
  const std::string& lower() const { return context_.spec.lower; }
  const std::string& upper() const { return context_.spec.upper; }
  bool Contains(std::string_view key) const { return context_.Contains(key); }
  RangeLog* log() const { return log_.get(); }
  RangeStats stats() const;
  size_t active_bytes() const { return rounds_.Current()->active->bytes(); }
  // expiry (K7): what had expired by then may be gone
  int64_t now_ms() const { return points_.published_now_ms(); }
  bool MadeSnapshot(const Snapshot& snapshot) const { return points_.snapshots().Made(snapshot); }
  SequenceNumber last_sequence() const { return points_.sequences().last(); }

 private:
  Range(const RangeSpec& spec, const RangeOptions& options, const RangeServices* services,
        ManifestStorage* storage, SequenceNumber last_sequence, std::shared_ptr<const void> keep);

  // What recovered logs held, as one run of Level0 (R4).
  StatusOr<VersionEdit> WriteRecovered(const RecoveredEntries& recovered, const DropRules& rules);
  void Lose(const Status& why);  // the epoch is fenced

  const std::shared_ptr<const void> keep_;
  RangeContext context_;
  ReadPoints points_;
  RoundLog log_;
  RoundSet rounds_;
  Pacer pacer_;
  TableAccess tables_;
  Reader reader_;
  Scanner scanner_;
  JobBook jobs_;
  VersionSet versions_;
  RoundMerger merger_;
  Flusher flusher_;
  Compactor compactor_;
  WritePath writes_;
  Checkpoints checkpoints_;
};

}  // namespace nova
