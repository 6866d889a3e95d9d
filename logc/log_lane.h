// LogLane: the logs of one range on one exchange thread: for each round the one where appends go, those of
// former groups that still hold records of it, and a spare one, opened ahead for the next round.
//
// A lane is what one request thread has of something that all share: lane i is xchg i's.
//
// Thread safety: OnXchg of its thread; in_flight_bytes from any.
// Ownership:     Services, staging memory, RangeGroups, FullDisks and Host outlive it. What is under way in
//                its logs holds it by Host::Hold.
// Errors:        of Append, as RangeLog's. A fenced lane ends every record with kNotOwner.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "logc/full_disks.h"
#include "logc/group_log.h"
#include "logc/range_groups.h"

namespace nova {

class LogLane : public GroupLog::Owner {
 public:
  // The range's log, of all lanes.
  class Host {
   public:
    virtual ~Host() = default;
    virtual bool fenced() const = 0;  // the epoch is over; from any thread
    // From any thread: the epoch is over, for whatever reason.
    virtual void Fence() = 0;
    // Has the group replaced; every lane is moved then, each on its thread, so that for a while some append
    // to the new group and some to the old one. The old one is needed until the last has moved (RangeGroups).
    virtual void ReplaceGroup(const LogGroup& current, StocId failed, ChangeCause cause) = 0;
    // Calls Flush of the lane at the end of the turn.
    virtual void FlushSoon(size_t lane) = 0;
    // The lane, for as long as something under way needs it.
    virtual std::shared_ptr<LogLane> Hold(size_t lane) = 0;
  };

  LogLane(const GroupLog::Services* services, BufferPool* staging, RangeGroups* groups, FullDisks* full_disks,
          Host* host, Xchg* xchg, RangeId range, Epoch epoch, const LogGroup& first);

  // As RangeLog's.
  Outcome Append(const LogRecord& record, absl::AnyInvocable<void(Outcome)> done);
  // The hook at the end of a turn: what was appended in it goes out. Opens the spare log, where it is time.
  void Flush();
  // New logs are opened in `group`; every log where appends go gets a successor there, with what was not
  // acknowledged (group change, L4).
  void MoveTo(const LogGroup& group);
  // All members of `group` answer, and its change is still under way: each of its logs that has lost a
  // member, or was refused by one, gets a successor in the group itself, with what was not acknowledged.
  void StayIn(GroupId group);
  // Gives back the log that was opened ahead.
  void FreeSpare();
  // The round's logs are freed. None of its records is pending (pin, L6).
  void DeleteRound(RoundNumber round);
  // The epoch is over: every pending record ends with kNotOwner.
  void Fail();
  // Of records appended and not ended; bounded by LogOptions::lane_in_flight_bytes.
  size_t in_flight_bytes() const { return in_flight_bytes_.load(std::memory_order_relaxed); }

  // GroupLog::Owner
  bool fenced() const override { return host_->fenced(); }
  void Fence() override { host_->Fence(); }
  void MemberFailed(const LogGroup& group, StocId member, ChangeCause cause) override;
  bool MayReplaceLiving(GroupId group) override { return groups_->MayReplaceLiving(group); }
  bool MayReplaceRefusing(GroupId group) override { return groups_->MayReplaceRefusing(group); }
  void FlushSoon() override;  // once a turn, however many logs ask for it
  void RecordEnded(size_t bytes) override {
    in_flight_bytes_ -= bytes;
    full_disks_->Acknowledged();
  }
  void RecordRefused(size_t bytes) override { in_flight_bytes_ -= bytes; }
  void WaitsForSpace() override { full_disks_->Told(); }

 private:
  size_t index() const { return xchg_->options().index; }
  // Room for a record in staging memory. False: none for now. `beyond`: also beyond its bound.
  bool Stage(size_t bytes, bool beyond, PendingRecord* pending);
  // A new log in group_, of no round yet: one round trip until it has room.
  std::shared_ptr<GroupLog> OpenLog();
  // The log where appends of the round go from now on.
  std::shared_ptr<GroupLog> NewLog(RoundNumber round);
  // These rounds get another log, with what was not acknowledged in the one they have.
  void ReplaceLogs(const std::vector<RoundNumber>& rounds);
  // Copies the record into `to`. What is in flight may be there twice, for as long as WRITEs to the old group
  // last: its second copy does not count against the bound of staging memory. Where the system itself gives
  // no memory the record ends with kNotOwner, and the range is lost and recovered from its logs.
  void MoveRecord(PendingRecord record, GroupLog* to);
  // Ends a record with kNotOwner.
  void FailRecord(PendingRecord* record);
  // Has the log's copies freed at its members; its group needs it no longer.
  void FreeLog(GroupLog* log);

  const GroupLog::Services* const services_;  // of the LTC
  BufferPool* const staging_pool_;            // of the LTC: registered memory for encoded records
  RangeGroups* const groups_;                 // of the range, as the next two
  FullDisks* const full_disks_;
  Host* const host_;
  Xchg* const xchg_;
  const RangeId range_;
  const Epoch epoch_;

  LogGroup group_;                                            // of new logs
  std::map<RoundNumber, std::shared_ptr<GroupLog>> current_;  // where appends of a round go
  // Logs that hold records of a round and were replaced, most with their group, until the round is deleted.
  std::map<RoundNumber, std::vector<std::shared_ptr<GroupLog>>> older_;
  // Opened ahead for the next round, once the log of this one is open. Null also where memory is short.
  std::shared_ptr<GroupLog> spare_;
  // Logs that a slow member has closed go on in their group again at that time, and then after a pause that
  // doubles, until the group is replaced.
  Nanos slow_again_ns_ = 0;
  Nanos slow_pause_ns_ = 0;
  std::shared_ptr<Staging> staging_;        // the chunk being filled
  std::atomic<size_t> in_flight_bytes_{0};  // see in_flight_bytes()
  bool flush_due_ = false;                  // Flush will be called at the end of this turn
};

}  // namespace nova
