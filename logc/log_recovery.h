// Log recovery (fence R2, read R3): fence the members of a range's log groups, read their sealed segments by
// READ or their files, parse.
//
// At least one listed member of every group, with the listed incarnation where the group has segments, or on
// the listed store where it has files (incarnation, N1), has to be fenced and read: acknowledgement was
// write-all, so each such member holds every acknowledged record of its group, and the fenced one keeps
// whatever the old owner still sends to the others from being acknowledged. The others are fenced too, but
// nobody waits for one that is silent longer than kStragglers: it may stand still for minutes. Segments
// before files; StoCs and logs in parallel. Of a log's segments one member's are read; of its files all that
// answer, where no segments were read, or those that were lack something; where those too lack a record that
// was acknowledged (log_copies.h), every other copy too, and then even the silent are waited for, up to
// kWaitForCopies.
//
// A member that was started since, and has files of which nobody can tell whether they are a log of the
// group, is not such a member: what is missing there would pass for a log that never was.
//
// Thread safety: waits; threads that open ranges.
// Ownership: none taken; what it returns is the caller's.
// Errors: Unavailable: no member of some group answers or still has its memory or store (the text lists them:
//         force-open's report), or those that do have files whose headers cannot be read;
//         DataLoss: a record that was acknowledged is damaged in every copy that answers, or one must not be
//         skipped;
//         FailedPrecondition: a later epoch has fenced us.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/rules_off.h"
#include "logc/log_copies.h"
#include "stoc/stoc_client.h"

namespace nova {

// The StoCs that a range's record lists, for its logs or its manifest, as they are fenced for record.epoch,
// the new owner's (R2): all at once, each anew until it is, or kFenceFor is over, whether somebody waits for
// it or not.
//
// Thread safety: all.   Ownership: shared by the requests under way; the StocClient outlives its xchgs.
// Locks: its own, held while `enough` is asked, which takes none.
class RangeFences : public std::enable_shared_from_this<RangeFences> {
 public:
  static constexpr Nanos kStragglers = kSecond;          // from Start: so long the silent are waited for
  static constexpr Nanos kWaitForCopies = 10 * kSecond;  // for members whose copies are needed
  static constexpr Nanos kFenceFor = 60 * kSecond;

  // Which StoCs are fenced by now. Each asked one is in one of the three.
  struct Members {
    std::map<StocId, FenceReply> fenced;  // with the segments and log files that they have of the range
    std::set<StocId> silent;              // asked, and neither answered nor failed so far
    std::set<StocId> failed;              // asked again later
    Status lost;                          // FailedPrecondition: a later epoch was there before
  };

  // Asks all that the record lists; does not wait.
  static std::shared_ptr<RangeFences> Start(StocClient* stocs, const RangeRecord& record);
  // Returns what is known when `enough` of it is, or the deadline has passed.
  Members WaitUntil(const std::function<bool(const Members&)>& enough, Nanos deadline_ns) const;
  // The same, then on for those that are silent: until kStragglers is over.
  Members WaitForMost(const std::function<bool(const Members&)>& enough, Nanos deadline_ns) const;

 private:
  struct Request;  // one question under way
  RangeFences(StocClient* stocs, RangeId range, Epoch epoch)
      : stocs_(stocs), range_(range), epoch_(epoch), started_ns_(Now()) {}
  // Sends FENCE to a StoC at that time.
  void Ask(StocId stoc, Nanos start_ns);
  // Notes the answer, and asks again soon after a failure, until kFenceFor is over.
  void Answered(StocId stoc, StatusOr<FenceReply> reply);

  StocClient* const stocs_;
  const RangeId range_;
  const Epoch epoch_;       // the new owner's
  const Nanos started_ns_;  // of Start
  mutable Mutex mu_;
  mutable CondVar changed_;  // signalled when members_ changes; with mu_
  Members members_ ABSL_GUARDED_BY(mu_);
};

// Reads the logs of all groups that the record lists, once members of each are fenced; entries of memtables
// for which `done`, by the range's manifest, are left out (done memtables, M3).
StatusOr<RecoveredLogs> RecoverLogs(StocClient* stocs, const RangeRecord& record, const RangeFences& fences,
                                    const MemTableDone& done, Nanos deadline_ns, const RulesOff& off = {});
// The same, with fences of its own.
StatusOr<RecoveredLogs> RecoverLogs(StocClient* stocs, const RangeRecord& record, const MemTableDone& done,
                                    Nanos deadline_ns);

}  // namespace nova
