// GroupLog: one log of one exchange thread, of which each member of a group has a copy or two: an in-memory
// StoC file with overflow segments, one file on its disk, or both, as the group's media say.
//
// Append numbers and encodes a record; PostUnposted, at the end of a turn, sends all that waits as one WRITE
// and one AppendLog per member. A record is acknowledged when every copy of every member has it (write-all,
// L3), in lsn order (one writer, L2). What was sent and not delivered is sent again: the same bytes to the
// same place, so that it does not matter what of the first try landed or lands yet.
//
// A copy that fails, or is late, makes its member suspected (deadline, L5): logc/log_client.h has the table.
// Until the ping is answered the log posts nothing more, or lsn order would not hold. When a member is to be
// replaced the log closes for good, and its owner takes the pending records to a log of the next group
// (group change, L4).
//
//   a log is    since                              it
//   opening     it was made, or its segment is     keeps records; asks members for room (opening_)
//               full
//   open        every member has given room        posts what waits at the end of each turn
//   refusing    a member has had no memory for    keeps what was sent and may be in a log; the rest ends
//               its next segment for a while       with kBusy, and its owner takes no more
//   suspicious  a copy has failed: a ping is on    posts nothing more, also where it has room; what is under
//               its way (suspected_ above 0)       way may be delivered, and is acknowledged
//   closed      a member is to be replaced, or     does nothing more; TakePending is the owner's
//               the epoch is over
//   freed       its round is flushed               closed, and its copies are freed at the members
//
// Thread safety: OnXchg of its thread.
// Ownership:     what is under way holds the log and its owner; Services outlive it. Staging memory is held
//                until every copy has reported (exposed memory, F4).
// Errors:        the owner is told: Fence, MemberFailed. A closed log calls nobody.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/metrics.h"
#include "common/rdma/xchg.h"
#include "logc/log_options.h"
#include "logc/log_record.h"
#include "logc/member_probe.h"
#include "logc/memory_shortage.h"
#include "stoc/stoc_client.h"

namespace nova {

// Registered memory in which encoded records wait until they are delivered. Batches that were posted from it
// share it.
struct Staging {
  explicit Staging(Buffer b) : buffer(std::move(b)) {}
  Buffer buffer;    // of the LTC's pool of staging memory; goes back to it with the last holder
  size_t used = 0;  // bytes of it that records have
};

// A record that is not acknowledged.
struct PendingRecord {
  std::byte* data() const { return staging->buffer.data() + offset; }
  std::shared_ptr<Staging> staging;        // where its bytes are
  size_t offset = 0;                       // in the staging buffer
  size_t bytes = 0;                        // its length, encoded
  bool sync = false;                       // see LogRecord::sync
  bool sent = false;                       // to some copy, of this log or of one that was given up
  absl::AnyInvocable<void(Outcome)> done;  // of RangeLog::Append
};

// Why a log group is replaced: a member did not answer a ping; it answered, and failed twice all the same, or
// its disk had no room; it refused to open the log, for it had no memory for one, say; or no member failed
// (ReplicatedLog::RequestGroupChange).
enum class ChangeCause { kDead, kSlow, kRefused, kAsked };

class GroupLog : public std::enable_shared_from_this<GroupLog> {
 public:
  // What the logs of an LTC share.
  struct Services {
    Services(StocClient* stocs, MemberProbe* probe, MemoryShortage* shortage, const LogOptions& options,
             Metrics* metrics);
    StocClient* const stocs;
    MemberProbe* const probe;
    MemoryShortage* const shortage;
    const LogOptions options;
    // Metrics.
    Counter* const writes;      // WRITEs to segments
    Counter* const appends;     // AppendLogs to files
    Counter* const reposts;     // of both, those that went out again
    Counter* const suspicions;  // members that were asked whether they are there
  };
  // Whoever opened the log.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual bool fenced() const = 0;  // the epoch is over
    // A StoC refuses the epoch.
    virtual void Fence() = 0;
    // The log has closed because of that member.
    virtual void MemberFailed(const LogGroup& group, StocId member, ChangeCause cause) = 0;
    // A member of `group` that answers pings may be replaced now (deadline, L5). If so it is to be.
    virtual bool MayReplaceLiving(GroupId group) = 0;
    // Whether one that refused to open a log may be.
    virtual bool MayReplaceRefusing(GroupId group) = 0;
    // Calls PostUnposted at the end of the turn.
    virtual void FlushSoon() = 0;
    // A member's disk is full, and records wait for it.
    virtual void WaitsForSpace() = 0;
    // A record of so many bytes is acknowledged.
    virtual void RecordEnded(size_t bytes) = 0;
    // One of so many bytes ended with kBusy, sent nowhere.
    virtual void RecordRefused(size_t bytes) = 0;
  };

  // Opens the log at every member of the group.
  static std::shared_ptr<GroupLog> Open(const Services* services, Xchg* xchg, RangeId range, Epoch epoch,
                                        const LogGroup& group, const std::shared_ptr<Owner>& owner);

  const LogGroup& group() const { return group_; }  // whose members have its copies
  const Uuid& uuid() const { return uuid_; }        // names it at its members, and is in each record's crc
  RoundNumber round() const { return round_; }      // whose records it holds; 0: a spare log, of none yet
  void set_round(RoundNumber round) { round_ = round; }
  bool opened() const { return opened_; }  // every member has given its first room

  // Encodes the record into the staging memory that `pending` has for it.
  void Append(const LogRecord& record, PendingRecord pending);
  // The same of a record that was encoded for another log.
  void Adopt(PendingRecord pending);
  // Sends as many records as there is room for, each contiguous stretch of staging memory as one post per
  // copy; asks for a further segment when there is none.
  void PostUnposted();
  // Some record is not acknowledged.
  bool has_pending() const { return !posted_.empty() || !unposted_.empty(); }
  // For good: nothing more is posted or acknowledged.
  void Close() { closed_ = true; }
  bool closed() const { return closed_; }
  // For a while there has been no member with memory for its next segment: no further record is to join.
  bool refuses() const { return refuses_; }
  // Why it has closed, for a member that is to be replaced. What was the matter may be over: while the group
  // is not replaced, a successor may lie in the group itself.
  std::optional<ChangeCause> lost_by() const { return lost_by_; }
  // What is not acknowledged, in lsn order. A WRITE under way may still read its memory.
  std::vector<PendingRecord> TakePending();
  // Closes the log and has its copies freed.
  void Free();

 private:
  // A copy of the log: a member of the group and one of its media, as a number: kMediums * member + medium.
  enum Medium : size_t { kMemory = 0, kFile = 1 };
  static constexpr size_t kMediums = 2;
  class Copy {
   public:
    Copy(size_t member, Medium medium) : index_(kMediums * member + medium) {}
    explicit Copy(size_t index) : index_(index) {}
    size_t index() const { return index_; }              // of it among all copies of the group
    size_t member() const { return index_ / kMediums; }  // its place in LogGroup::members
    Medium medium() const { return static_cast<Medium>(index_ % kMediums); }

   private:
    size_t index_;
  };
  // Which copies lack something that was sent to all of them.
  struct Delivery {
    Nanos since_ns = 0;        // when it was sent first
    size_t waiting = 0;        // copies that do not have it yet
    std::vector<bool> lacks;   // by copy: it was not delivered yet
    std::vector<bool> failed;  // by copy: the try ended, not delivered
  };
  // Records that went out together: one WRITE, one AppendLog per member.
  struct Batch {
    std::string_view view() const {
      return {reinterpret_cast<const char*>(staging->buffer.data()) + offset, bytes};
    }
    std::vector<PendingRecord> records;  // in lsn order
    std::shared_ptr<Staging> staging;    // their bytes: [offset, offset + bytes)
    size_t offset = 0;
    size_t bytes = 0;
    size_t segment = 0;         // where they go: of the log's segments
    uint64_t at = 0;            // and where in it
    uint64_t file_at = 0;       // where they go in the log's file
    bool sync = false;          // there: some record asks for it
    uint64_t acknowledged = 0;  // of the log, when this was posted: an lsn
    uint32_t crc = 0;           // of the bytes, where they go to a file
    Delivery delivery;          // which copies have them
  };
  // Memory of the same size at every member, where the log's records lie one after another.
  struct Segment {
    std::vector<RemoteBuffer> memory;  // by member of the group
    uint64_t size = 0;                 // bytes
  };
  // A segment, and of a new log its file, that members were asked for and have not all given.
  struct Opening {
    Segment segment;
    Delivery delivery;                    // of the requests to open
    Nanos ask_again = 50 * kMillisecond;  // after that long a member that refused it; doubles
  };
  // What is known of a member, beside its copies.
  struct Member {
    bool suspected = false;                // a ping is on its way
    bool near = false;                     // on this host
    std::array<int, kMediums> failures{};  // in a row
  };
  // Keeps the log, and the owner that it calls, while something is under way.
  struct Held {
    std::shared_ptr<Owner> owner;
    std::shared_ptr<GroupLog> log;
    GroupLog* operator->() const { return log.get(); }
  };

  GroupLog(const Services* services, Xchg* xchg, RangeId range, Epoch epoch, const LogGroup& group,
           const std::shared_ptr<Owner>& owner);
  // For what is under way from now on.
  Held Hold() { return {owner_life_.lock(), shared_from_this()}; }
  // Nothing more is to be done for this log.
  bool IsOver() const { return closed_ || owner_->fenced(); }
  // All copies that the group's media make.
  std::vector<Copy> Copies() const;
  // Something is sent to `copies` now.
  Delivery StartDelivery(const std::vector<Copy>& copies) const;

  // Asks every member for a segment of `size` bytes, and of a new log for its file.
  void OpenSegment(uint64_t size);
  // Asks for one copy of what is being opened, for the first time or again.
  void OpenAt(Copy c);
  // A member's answer to OpenAt. When all have come the log has room.
  void Opened(Copy c, Outcome o, const RemoteBuffer& memory);
  // Ends with kBusy what was sent nowhere: whoever wrote it may try again, and its round can be flushed to
  // make room (pin, L6).
  void RefuseUnsent();
  // Room now, without another segment.
  bool HasRoom(size_t bytes) const;

  // Takes as many unposted records as go out together, at least one.
  std::shared_ptr<Batch> NextBatch();
  // Sends the batch to one copy, for the first time or again.
  void Post(const std::shared_ptr<Batch>& batch, Copy c);
  // The end of a Post. Acknowledges, in lsn order, all batches that every copy has by now.
  void Delivered(const std::shared_ptr<Batch>& batch, Copy c, Outcome o);
  // `batch` is in every copy, as is all before it.
  void AdvanceMarks(const Batch& batch);

  // L5: how long a WRITE to that member may take.
  Nanos WriteDeadline(const Member& member) const;
  // The same of the member that has the shortest.
  Nanos ShortestWriteDeadline() const;
  // Has the member asked whether it is there, because of that copy.
  void Suspect(Copy c);
  // The answer to Suspect.
  void MemberAnswered(Copy c, bool alive);
  // Sends the member again what it lacks, and goes on.
  void Trust(size_t member);
  // Has Look called while something is under way.
  void Watch();
  // Has Look called then.
  void LookAt(Nanos when);
  // Has every member asked that took longer than a WRITE may, for anything.
  void Look();
  // Closes the log and tells the owner.
  void MemberFailed(size_t member, ChangeCause cause);
  // Has the log's copies of that member freed. Until the StoC has heard of it, it is asked again after
  // `pause` and ever longer ones, for as long as the epoch lasts: from then on it frees them by itself (free,
  // R6).
  void FreeAt(size_t member, Nanos pause = kSecond);

  const Services* const services_;
  Xchg* const xchg_;  // whose thread alone posts to the log (L2)
  const RangeId range_;
  const Epoch epoch_;  // under which members take its records
  const LogGroup group_;
  // There while a method runs: the owner calls it, or what is under way holds both.
  Owner* const owner_;
  const std::weak_ptr<Owner> owner_life_;  // of *owner_; locked by Hold
  const Uuid uuid_;                        // drawn when the log is made
  RoundNumber round_ = 0;                  // see round()
  std::vector<Member> members_;            // as the group's
  size_t suspected_ = 0;                   // of them
  uint64_t next_lsn_ = 1;                  // of the record that is built next
  LogMarks marks_;                         // the same
  std::vector<Segment> segments_;          // all are there; the last one is filled now
  uint64_t used_ = 0;                      // of the last segment
  bool opened_ = false;                    // its first segment and its file are there
  uint64_t file_end_ = 0;                  // bytes of the log's file that records have; posted or not
  std::unique_ptr<Opening> opening_;       // null: none
  bool watched_ = false;                   // a call of Look is due
  std::optional<ChangeCause> lost_by_;     // see lost_by()
  bool closed_ = false;                    // see Close
  bool refuses_ = false;                   // see refuses()
  bool freed_ = false;                     // see Free; a file that a member opens after it is freed at once
  std::deque<PendingRecord> unposted_;     // in lsn order, behind all that is posted
  std::deque<std::shared_ptr<Batch>> posted_;  // acknowledged from the front
};

}  // namespace nova
