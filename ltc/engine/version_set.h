// VersionSet: the tables of a range, the only way they change, and the manifest that says so.
//
// An edit becomes durable (the manifest, M1), then visible (RoundSet::Publish), then what it dropped is let
// go of (edit first, M2). Edits go one after another. Checkpoints are durable pins in the version:
// made by the edit of the flush that brings the last of what they hold into tables.
//
// Thread safety: all; they wait, but the const ones.   Lock: its own, taken before RoundSet's.
// Ownership:     the storage outlives it.
// Errors:        FailedPrecondition: the epoch is fenced, the range is lost. Any other error of an edit:
//                nothing is visible of it, and it may be durable all the same, until a later edit is.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "ltc/engine/manifest.h"
#include "ltc/engine/pacer.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/round_set.h"

namespace nova {

// A checkpoint that was asked for. Guarded by VersionSet's lock, but for what does not change.
struct PendingCheckpoint {
  explicit PendingCheckpoint(std::string n) : name(std::move(n)) {}
  const std::string name;  // empty: not durable
  const int64_t created_ms = WallNowMs();
  bool attached = false;  // to a round
  bool tried = false;     // an edit with it was written, or may have been
  Status status;
  CheckpointRef made;
};

class VersionSet {
 public:
  VersionSet(const RangeContext* context, ReadPoints* points, RoundSet* rounds, Pacer* pacer,
             ManifestStorage* storage)
      : context_(context),
        points_(points),
        rounds_(rounds),
        pacer_(pacer),
        storage_(storage),
        manifest_(storage) {}

  // The manifest of this epoch, with `version`: what recovery has found. `last`: the last number used.
  Status Start(std::shared_ptr<const Version> version, SequenceNumber last);
  ManifestGroup manifest_group() const;
  std::shared_ptr<const Version> current() const { return rounds_->Current()->version; }

  // `flushed`: the oldest rounds, whose tables the edit adds: they leave memory with it.
  Status Commit(VersionEdit edit, const RoundGroup* flushed = nullptr);
  // The contents of table `moved` are in `outputs` now: wherever it was named, they are.
  Status CommitMove(const Uuid& moved, std::vector<VersionEdit::Add> outputs);
  // The outputs of a job whose edit failed: they may be referenced until a later edit counts.
  void KeepUntilNextEdit(const std::vector<TableInfo>& outputs);
  // M1 (renewal): the manifest to fresh members, while edits go on but for a moment. It begins, and edits
  // stop, only where `may_go_on` is true then. After an error the manifest is where it was.
  Status RenewManifest(const std::function<Status()>& may_go_on);
  // N4 (collection): what the version, a checkpoint, a reader or an edit that failed names. Waits for an edit
  // that is under way.
  std::set<StocFileId> ReferencedFiles() const;

  // Waits for the flush that makes it. AlreadyExists; ResourceExhausted: kMaxCheckpoints; DeadlineExceeded,
  // Unavailable: it was not made; Unknown: perhaps (no write twice, A1).
  StatusOr<CheckpointRef> MakeCheckpoint(const std::shared_ptr<PendingCheckpoint>& request,
                                         Nanos deadline_ns);
  Status DeleteCheckpoint(const std::string& name);  // NotFound; Unavailable: nothing changed; Unknown
  // The version becomes what the checkpoint holds. REQUIRES: the range is kRestoring, and nothing is in
  // memory.
  Status RestoreCheckpoint(const std::string& name);

 private:
  // The caller refreshes lanes and pressure when it has let go of the lock.
  Status CommitLocked(VersionEdit edit, const RoundGroup* flushed = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What a caller asked for and must not ask for again unseen (A1): once the edit may have been written, its
  // failure decides nothing.
  Status CommitRequestLocked(VersionEdit edit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Committed();  // without the lock
  VersionEdit SnapshotOf(const Version& version, MemTableId done_below) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropMaybeCommittedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of a request: to a round, or made at once where nothing is in memory.
  Status AttachLocked(const std::shared_ptr<PendingCheckpoint>& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The pins of the checkpoints that wait for `flushed`, into the edit that makes `next`.
  void PinFlushedLocked(const Round& flushed, const Version& next, VersionEdit* edit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AnswerCheckpointsLocked(Round* flushed, const Version& published) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  ManifestStorage* const storage_;
  mutable Mutex mu_;         // edits are appended and published in one order
  CondVar checkpoint_made_;  // with mu_
  Manifest manifest_ ABSL_GUARDED_BY(mu_);
  // Outputs of edits that failed; theirs no more once a later one counts.
  std::vector<TableInfo> maybe_committed_outputs_ ABSL_GUARDED_BY(mu_);
  // Tables that an edit dropped, and that are perhaps still read.
  std::vector<std::weak_ptr<TableHandle>> dropped_ ABSL_GUARDED_BY(mu_);
  SequenceNumber seq_reserved_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
