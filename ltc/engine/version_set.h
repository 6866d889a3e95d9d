// VersionSet: the tables of a range, the only way they change, and the manifest that records the changes.
//
// An edit becomes durable (manifest, M1), then visible (RoundSet::Publish); then the tables that it dropped
// are let go of (edit first, M2). Edits go one after another. Checkpoints are durable pins in the version,
// made by the edit of the flush that brings the last of their content into tables.
//
// The steps of an edit (CommitLocked), under the lock:
//
//   1. apply it to the current version; add the pins of checkpoints that wait for the flushed round
//   2. drop the tombstones of range deletions (K7) that hide nothing any more
//   3. publish the clock, reserve sequence numbers (K1) if they run short
//   4. append it to the manifest, synced on all members; from here on it counts. If that fails, or the file
//      has grown, the manifest rolls: a new file with the whole version, installed in the range's record. All
//      other edits of the range, and whoever asks for its files, wait meanwhile, for requests' deadlines (2 s
//      each)
//   5. let go of outputs of earlier edits that failed; mark the tables that it dropped: the current view
//      holds them until step 6, so that no mark deletes a file before the new view is there
//   6. publish the view: the new version, without the flushed rounds; answer checkpoints
//
// Thread safety: all. Methods that return a Status wait for the manifest, and so do manifest_group and
//   ReferencedFiles, for an edit under way.
// Locks: its own, held while an edit is written, taken before RoundSet's.
// Ownership: the storage outlives it.
// Errors: FailedPrecondition: the epoch is fenced and the range lost. Any other error of an edit: nothing of
//   it is visible, and until a later edit counts it may be durable all the same.
#pragma once

#include <functional>
#include <map>
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

// A checkpoint that was asked for. Guarded by VersionSet's lock, but for the constants.
struct PendingCheckpoint {
  explicit PendingCheckpoint(std::string n) : name(std::move(n)) {}
  const std::string name;                  // empty: not durable
  const int64_t created_ms = WallNowMs();  // wall clock, for people
  bool attached = false;                   // a round's flush will make it
  bool tried = false;                      // an edit with it was written, or may have been
  Status status;                           // an error: it will not be made
  CheckpointRef made;                      // set once it is made
};

// Files, and the StoCs on which they are named.
class NamedFiles {
 public:
  void Add(const StocFileId& file, StocId stoc) { files_[file].insert(stoc); }
  void AddAnywhere(const StocFileId& file) { files_[file]; }  // wherever it may be
  void Add(const TableInfo& table);                           // all files of its copies
  bool contains(const StocFileId& file) const { return files_.contains(file); }
  // The file is named on that StoC, or anywhere.
  bool NamedOn(StocId stoc, const StocFileId& file) const {
    const auto at = files_.find(file);
    return at != files_.end() && (at->second.empty() || at->second.contains(stoc));
  }
  // The StoCs of each file; none: anywhere.
  const std::map<StocFileId, std::set<StocId>>& files() const& { return files_; }
  void files() && = delete;

 private:
  std::map<StocFileId, std::set<StocId>> files_;  // see files()
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

  // Starts the manifest of this epoch with `version`, the result of recovery, and publishes it. `last`: the
  // last sequence number in use.
  Status Start(std::shared_ptr<const Version> version, SequenceNumber last);
  // The manifest's file in use and its members; *bytes: what each member has of it. Waits for an edit under
  // way.
  ManifestGroup manifest_group(uint64_t* bytes = nullptr) const;
  // The version of the current view.
  std::shared_ptr<const Version> current() const { return rounds_->Current()->version; }

  // Makes an edit durable, then visible. `flushed`: the oldest rounds, whose tables the edit adds; they leave
  // memory with it.
  Status Commit(VersionEdit edit, const RoundGroup* flushed = nullptr);
  // Copies of the table have been made (rebuild, S5): it is read from there from now on. Aborted: the table,
  // or one of its places, is not what it was at `before`; nothing changed. After any other error the edit may
  // be durable, and the copies count as named until a later one counts.
  Status CommitCopies(const TableInfo& before, const std::vector<PartCopy>& copies);
  // Keeps the outputs of a job whose edit failed: that edit may be durable, so they may go only after a later
  // one counts.
  void KeepUntilNextEdit(const std::vector<TableInfo>& outputs);
  // Moves the manifest to fresh members while edits go on, but for a moment (renewal, M1). It begins, and
  // later stops edits, only if `may_go_on` is OK at that time. After an error the manifest is where it was,
  // unless the outcome of the last step is in doubt.
  Status RenewManifest(const std::function<Status()>& may_go_on);
  // Edits that failed are in doubt no longer: an empty one counts in their place, if there are any.
  Status SettleDoubt();
  // The files that the version, a checkpoint, a reader or an edit that failed may name, and on which StoCs
  // they may name them (collection, N4). Waits for an edit under way.
  NamedFiles ReferencedFiles() const;

  // Attaches the checkpoint to the youngest round and waits until its flush has made it. AlreadyExists.
  // ResourceExhausted: the range has kMaxCheckpoints. DeadlineExceeded, Unavailable, or the error of flushes:
  // it was not made. Unknown: perhaps it was (no write twice, A1).
  StatusOr<CheckpointRef> MakeCheckpoint(const std::shared_ptr<PendingCheckpoint>& request,
                                         Nanos deadline_ns);
  // NotFound; Unavailable: nothing changed; Unknown: perhaps.
  Status DeleteCheckpoint(const std::string& name);
  // Makes the version the checkpoint's content. Errors as DeleteCheckpoint's. REQUIRES: the range is
  // kRestoring, and nothing is in memory.
  Status RestoreCheckpoint(const std::string& name);

 private:
  // Commit under the lock. The caller calls Committed, or refreshes lanes, after it has let go of the lock.
  Status CommitLocked(VersionEdit edit, const RoundGroup* flushed = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // CommitLocked for a request that its caller must not repeat unseen (A1). Once the edit may have been
  // written a failure is Unknown.
  Status CommitRequestLocked(VersionEdit edit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Refreshes lanes and pressure; without the lock.
  void Committed();
  // The edit that makes `version` from nothing: the first record of a file. `done_below`: see VersionEdit.
  VersionEdit AsOneEdit(const Version& version, MemTableId done_below) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // An edit counts now: outputs kept for its predecessors go.
  void DropMaybeCommittedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Attaches a request to a round, or makes it at once where nothing is in memory.
  Status AttachLocked(const std::shared_ptr<PendingCheckpoint>& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds the pins of the checkpoints that wait for `flushed` to the edit whose version is `next`.
  void PinFlushedLocked(const Round& flushed, const Version& next, VersionEdit* edit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The edit with these pins is published: sets `made` of the requests of `flushed` and wakes them.
  void AnswerCheckpointsLocked(Round* flushed, const Version& published) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  ManifestStorage* const storage_;
  mutable Mutex mu_;         // one edit at a time: appended and published under it
  CondVar checkpoint_made_;  // signalled when a request has an answer; with mu_
  Manifest manifest_ ABSL_GUARDED_BY(mu_);
  // Outputs of edits that failed; deleted once a later edit counts.
  std::vector<TableInfo> maybe_committed_outputs_ ABSL_GUARDED_BY(mu_);
  // Copies that edits which failed may name on their new StoCs; nothing once a later edit counts.
  std::vector<std::pair<StocFileId, StocId>> maybe_committed_copies_ ABSL_GUARDED_BY(mu_);
  // Tables that an edit dropped, or put a successor in the place of, and that are perhaps still being read.
  std::vector<std::weak_ptr<TableHandle>> dropped_ ABSL_GUARDED_BY(mu_);
  // Sequence numbers (K1) up to here may be handed out, by the last edit that said so.
  SequenceNumber seq_reserved_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace nova
