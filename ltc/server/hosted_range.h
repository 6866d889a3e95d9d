// HostedRange: a range that this LTC owns in a cluster: the engine's Range, the range's record in the store,
// and its manifest on StoCs.
//
// Open is the one path from seal (R1) to free (R6), for failover, migration and start. The coordinator has
// made the record SEALING at a new epoch and named this LTC its owner. Open fences the StoCs, reads manifest
// and logs, writes the logs' entries to tables, waits for the old owner's lease to end, and makes the record
// OPEN.
//
// The steps of Open, each of which may end it with an error:
//
//   1. fence (R2): every listed StoC refuses lower epochs; one good member of each group is enough to go on
//   2. read (R3): the manifest from all members that answer, then the logs
//   3. recover the Range: write the logs' entries to tables (shown stays, R4), start this epoch's manifest
//   4. choose a log group of members that answer a ping; one that dies during the wait is replaced (group
//      change, L4) by the first write that misses it. A listed group that nothing was written to has no logs:
//      its members say so, and a recovery takes that for an empty group
//   5. wait (R5) until the old owner's lease has ended for sure
//   6. compare-and-set the record: OPEN, the new manifest, the new log group
//   7. activate the range with its log; requests find it when the caller has put it into its map. If it was
//      excluded between 6 and 7 it is abandoned at once, and given back. Free (R6) the old logs and manifest
//      in the background, once: what a StoC does not free now its own collection finds (collection, N4)
//
// An exclusion is noticed after 2, 3 and 5. An Open that failed leaves tables, and perhaps a manifest file,
// of its epoch. The next try, at that epoch again, numbers its jobs from 1; files are told apart by uuid, so
// the leftovers are files of jobs that have ended and that nothing references (collection, N4).
//
// Thread safety: all methods but the constructor. Methods that return a Status wait for StoCs or the store;
//   call them on open, release or control threads, never on an xchg thread.
// Locks: that of what Maintain has counted and audits have found, a leaf: nobody waits for a StoC or the
//   store under it. RecordKeeper's and StocBackend's are theirs.
// Ownership: the LTC's services outlive it. Work under way keeps the parts of it that it uses (StocBackend).
// Errors: FailedPrecondition: the epoch is no longer ours. Unavailable: not now, try again. DataLoss: records
//   that were acknowledged are missing in every copy that answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "logc/log_recovery.h"
#include "ltc/server/host_services.h"
#include "ltc/server/log_group_chooser.h"
#include "ltc/server/stoc_backend.h"
#include "ltc/server/unreadable_seen.h"

namespace nova {

class HostedRange : public std::enable_shared_from_this<HostedRange> {
 public:
  // `settings`: what an operator has set for all LTCs so far, in the place of the options; see Configure.
  HostedRange(const HostServices* services, const HostedRangeOptions& options,
              const RangeAssignment& assignment, const LtcSettings& settings);
  ~HostedRange();

  // Opens the range, once (fence, R2, to free, R6). On an error nothing is served; the caller calls Abandon
  // and later GiveBack.
  Status Open();
  // Release (R5), in this order: no writes, everything flushed, no reads, then the record; the next owner
  // then finds no logs and waits for no lease. The store must answer before it begins. OK: released. On an
  // error look at abandoned(): if set, the range is lost or may be; if not, it is served here as before. A
  // second call while one is under way is Unavailable.
  Status Release(Nanos deadline_ns);
  // The range is lost: it answers nothing more, and an Open under way ends with an error. Does not wait.
  void Abandon();
  // Abandon was called, or Release ended with the range given away or lost.
  bool abandoned() const { return abandoned_.load(); }
  // After Abandon: if the record is still OPEN and names this incarnation, it is changed to name nobody, so
  // that the coordinator moves the range. The logs stay listed in it. Unavailable: try again.
  Status GiveBack();

  RangeId id() const { return id_; }
  Epoch epoch() const { return epoch_; }
  // Null before Open has recovered it. Open sets it once, by no lock. REQUIRES: the caller is a part of Open,
  // or got the handle from RangeLedger, whose lock Open's thread has taken since; Abandon, which comes from
  // any thread, looks at opened_ first.
  const std::shared_ptr<Range>& range() const { return range_; }
  // The record as this LTC last knew it.
  RangeRecord record() const;

  // What an operator has set for all LTCs, in the place of the options, from now on. Heartbeats tell it again
  // and again. REQUIRES: the range is held, as for range().
  void Configure(const LtcSettings& settings);

  // What is asked for again and again, and queued once at a time. Claim, true: the caller queues it, and
  // calls Ended when it was run, or was not.
  enum class Chore : uint8_t { kMaintain = 1, kCollectOrphans = 2, kRelease = 4 };
  bool Claim(Chore c) { return (chores_.fetch_or(static_cast<uint8_t>(c)) & static_cast<uint8_t>(c)) == 0; }
  void Ended(Chore c) { chores_.fetch_and(static_cast<uint8_t>(~static_cast<uint8_t>(c))); }

  // Housekeeping, called every second on a control thread. Takes log groups that nothing needs out of the
  // record, returns the log to R members (L4) and the manifest to M (manifest, M1), leaves draining and
  // emptied StoCs and damaged copies, counts the copies of tables and looks for those that are to be made
  // (rebuild, S5). Does nothing if another thread is in it.
  void Maintain();
  TableCopies table_copies() const;  // as Maintain last counted them
  // The most endangered log group (L4): of the replaced groups that un-flushed rounds still need, the members
  // left of the one with the fewest. nullopt: no round needs a replaced group.
  std::optional<size_t> Exposure() const;
  // StoCs lack memory for logs: the spare ones go back. Any thread, cheap.
  void FreeSpareLogs();
  // Since when the range has had writes in logs that a flush would free; nullopt: it has none, or some are on
  // their way and hold their round (pin, L6).
  std::optional<Nanos> LogsHeldSince() const;
  // Collection (N4) on every StoC that answers: drops the references to files (shared table, M4) that nothing
  // needs there. Of older epochs these are files older than `grace_ms`; of this epoch files of jobs that had
  // ended before the StoC listed them, whatever their age. What the StoC lacks that it should have, or has
  // damaged by its own word (scrub, S6), is made good: tables are told as damaged, the manifest and the log's
  // group are left to Maintain. Waits. Errors of single StoCs are logged.
  void CollectOrphans(uint64_t grace_ms);

 private:
  // Pauses between attempts to return to R or M members. The pause doubles while the return does not last.
  static constexpr Nanos kFirstGrowthPause = kSecond;
  static constexpr Nanos kLongestGrowthPause = 60 * kSecond;

  // The steps of Release. FailedPrecondition: the range is lost, or may be. Any other error: it is served as
  // before.
  Status TryRelease(Nanos deadline_ns);
  // Flushes what is in memory now, while writes go on: the pause of a release is the flush of what comes
  // meanwhile. Waits.
  Status FlushBeforeRelease(Nanos deadline_ns);
  // Reads the manifest's copies on fenced members and returns the edits of the valid prefix (M1). Waits for
  // silent members only while the copies read so far do not suffice. Empty if the range was never opened.
  // Unavailable: no copy was read. DataLoss: every copy that was read is damaged.
  StatusOr<std::vector<VersionEdit>> ReadManifest(const RangeRecord& record, const RangeFences& fences,
                                                  Nanos deadline_ns);
  // For people: the id, and the name if it is known.
  std::string NameOf(StocId stoc) const;
  // CollectOrphans on one StoC, page by page. `tables`: the files that were referenced before.
  Status CollectOrphansOf(StocId stoc, const NamedFiles& tables, uint64_t grace_ms);
  // Tells the StoC which of its unreadable files the range does not need. Called by CollectOrphans.
  Status DropUnreadableOf(const NodeInfo& stoc);
  // What a StoC is to have.
  struct Inventory {
    const NamedFiles& tables;     // of the version, of checkpoints, of readers
    ManifestGroup manifest = {};  // the file in use
    uint64_t manifest_bytes = 0;  // at least, of each copy of it
  };
  // What it says it has.
  struct Listed {
    std::set<StocFileId> whole;    // as far as it knows
    std::set<StocFileId> damaged;  // of this epoch and of no job: manifests and logs, and parts of tables
  };
  // Has made good what the StoC has not whole of what was `expected` before it listed its files, and is still
  // expected.
  void TellMissing(StocId stoc, const Inventory& expected, const Listed& listed);
  // Renews the manifest, and asks for another log group, where TellMissing has found a damaged copy. One that
  // is not left by this is told of again. Called by Maintain.
  void LeaveDamaged(const ManifestGroup& manifest);
  // Moves everything off StoCs that drain, or are emptied for their disks: the log by a new group, the
  // manifest by a renewal; tables go by rebuilds. Called by Maintain.
  void LeaveStocs();
  // Replaces `current`, of which `failed` (0: none) does not answer (group change, L4), and lists the new
  // group in the record. `answer` gets the new group, or FailedPrecondition when the range is lost. Other
  // errors are no answer: it tries again every 50 ms, for ever, without holding the thread. `asked_ns` is the
  // time of the first try; 5 s later `failed` may be chosen again if it lives. Runs on a change thread.
  void ChangeLogGroup(const LogGroup& current, StocId failed, Nanos asked_ns,
                      const std::function<void(StatusOr<LogGroup>)>& answer);
  // Asks for a new log group if `current` has fewer than R members left and could have more. Called by
  // Maintain.
  void ReturnToR(const LogGroup& current);
  // Renews the manifest if it has had fewer than M living members for 5 s and could have more (renewal, M1).
  // Called by Maintain.
  void ReturnToM(const ManifestGroup& current);
  // OK if the store answers a read of the record; else Unavailable; waits.
  Status StoreAnswers() const;
  // Moves the manifest to other members (M1), and logs the outcome; `why` is for the log. Waits.
  void RenewManifest(const char* why);
  // Counts the copies of tables by the StoCs that live now, and has the rebuilder look for those that are
  // missing, unless nothing has changed since. Called by Maintain.
  void LookAtCopies();

  // The range's options, with what is set in their place.
  RangeOptions OptionsWith(const LtcSettings& settings) const;

  const RangeId id_;
  const Epoch epoch_;
  const HostServices* const services_;
  const HostedRangeOptions options_;
  const Nanos old_lease_ends_ns_;  // when the earlier owner's last lease has ended for sure (wait, R5)
  const std::shared_ptr<StocBackend> backend_;
  const LogGroupChooser groups_;
  std::shared_ptr<Range> range_;        // see range()
  ReplicatedLog* log_ = nullptr;        // the log that range_ owns; set and read as range_; null in mode none
  std::atomic<bool> abandoned_{false};  // see Abandon; never reset
  std::atomic<bool> opened_{false};     // range_ stands and is active; never reset
  std::atomic<bool> releasing_{false};  // a Release is under way
  std::atomic<bool> released_{false};   // a Release succeeded; a repeated one is OK at once
  std::atomic<uint8_t> chores_{0};      // that are claimed
  // A thread is in Maintain; it alone uses the growths, manifest_short_since_ns_ and looked_at_.
  std::atomic<bool> maintaining_{false};
  // When an attempt to return to the configured number of members is due. One that brought nothing, or did
  // not last, is not repeated soon.
  struct Growth {
    Nanos pause_ns = kFirstGrowthPause;  // until the attempt after the next; doubles with each attempt
    Nanos next_ns = 0;                   // no attempt before this time
    // True: the caller makes an attempt now, and the next one is put off.
    bool Due(Nanos now);
    // Nothing is missing; after a quiet time the pause is short again.
    void Whole(Nanos now);
  };
  UnreadableSeen unreadable_;  // of DropUnreadableOf alone
  Growth log_growth_;          // to R members (L4)
  Growth manifest_growth_;     // to M members (M1)
  Growth log_leaving_;         // of members on StoCs that are emptied
  Growth manifest_leaving_;    // likewise
  // The members of a log group or manifest are to be exchanged, now: one drains; or some are on StoCs that
  // are emptied, others could take their places, and an attempt is due.
  bool IsToLeave(const std::vector<StocId>& members, int wanted, Growth* leaving) const;
  Nanos manifest_short_since_ns_ = 0;  // since when it has fewer than M living members; 0: it has M
  // What the last LookAtCopies that did not return at once has looked at.
  struct LookedAt {
    std::weak_ptr<const Version> version;
    StocStates stocs;
  };
  LookedAt looked_at_;
  mutable Mutex copies_mu_;
  TableCopies table_copies_ ABSL_GUARDED_BY(copies_mu_);  // see table_copies()
  // What audits have found of manifest and logs, for LeaveDamaged.
  struct DamagedCopies {
    Uuid manifest;           // a file of which a member lacks a good copy; nil: none
    bool leave_log = false;  // a member has a damaged log, found since
    std::set<Uuid> logs;     // that were found damaged: each is left once, for then it is flushed
  };
  DamagedCopies damaged_ ABSL_GUARDED_BY(copies_mu_);
};

}  // namespace nova
