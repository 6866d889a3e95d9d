// WritePath: writes of a range, in stages: admit (Pacer) -> pin the active round (pin, L6) -> sequence number
// (K1) -> look again whether the round seals (rounds, sealing, K3a) -> prepare: copy into the memtable's
// arena -> log record -> [all members have it] -> link, finish the number, unpin, answer.
//
// The order of the steps makes it safe:
//
//   1. pin the active round, so that it is not flushed meanwhile
//   2. look whether the range still takes writes: else unpin and end, for whoever stops writes waits only for
//      pins that it sees; then whether the round is sealing: then unpin, and take the successor
//   3. take the number
//   4. look again: if it is sealing now, the number may lie above its boundary; finish the number, start anew
//   5. copy into the memtable (invisible), append the record
//   6. when the log answers: link, so gets see it; finish the number, so snapshots see it; unpin; answer
//
// A range deletion goes the same way, but ends in the list of range deletions (K7): once it is logged, a view
// with it is published. A compare and swap (K6) holds its key's latch from the comparison to the insert, and
// from there on is a write like others.
//
// Thread safety: each call on the executor it names. `done` runs there too.
// Ownership: entries are copied before Write returns.
// Errors: outcomes. kInvalidArgument, kBusy, kNoSpace, kUnavailable, kConditionFailed, kDeadlineExceeded (of
//   a swap): nothing was written. kNotOwner: nothing was written, and the range is not served here. kUnknown:
//   it may be found later; so it is where the log says kNotOwner of a record it took. kCorruption (of a
//   swap): the key could not be read, and nothing was written.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ltc/engine/key_latches.h"
#include "ltc/engine/lane_counts.h"
#include "ltc/engine/operations.h"
#include "ltc/engine/pacer.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/reader.h"
#include "ltc/engine/round_log.h"
#include "ltc/engine/round_set.h"

namespace nova {

class WritePath {
 public:
  WritePath(const RangeContext* context, ReadPoints* points, RoundLog* log, RoundSet* rounds, Pacer* pacer,
            Reader* reader);
  ~WritePath();

  // Writes one entry or a batch (atomicity, K6); calls `done` once.
  void Write(Executor* on, const WriteOp& op, WriteDone done);
  // kConditionFailed: the key has another value. No write of the key comes between the comparison and the
  // swap.
  void CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done);
  bool any_swap_under_way() const { return latches_.any_held(); }  // some key's latch is held
  uint64_t writes() const { return counts_.Sum(kWrites); }         // entries answered; a metric

 private:
  struct WriteContext;  // a write between its number and its answer
  struct Attempt;       // a write that is admitted: it is not asked again whether it has to wait
  struct ParkedWrite;   // a write that waits, with copies of its entries
  struct Swap;          // a compare and swap under way
  enum Count { kWrites, kCounts };
  struct alignas(64) Lane {
    // Used again, so that a put allocates nothing.
    std::vector<std::unique_ptr<WriteContext>> free_contexts;
    // Writes for which no round has room, in the order in which they came.
    std::deque<std::unique_ptr<ParkedWrite>> without_room;
    bool will_look_for_room = false;  // for them, within kRoomPoll
  };
  static constexpr Nanos kRoomPoll = kMillisecond;  // writes that wait for room look for it so often
  // A pinned round and the first of the write's numbers. No round: the write was answered, or waits.
  struct Place {
    Round* round = nullptr;    // pinned
    SequenceNumber first = 0;  // of as many as the write has entries
  };

  // The entries are within the options' bounds; a batch and range deletions lie within the range.
  bool IsValid(const WriteOp& op, uint64_t bytes, uint64_t range_deletes) const;
  // So many more range deletions (K7) fit into the list.
  bool HasRoomForTombstones(Executor* on, uint64_t count);
  // The write with copies of its own, made unless it has some: however often it waits it is copied once.
  static std::unique_ptr<ParkedWrite> Keep(Attempt attempt);
  static Attempt Again(std::unique_ptr<ParkedWrite> parked);  // the write goes on
  // Has the write go on with AdmittedWrite after `wait_ns`, or ends it now if that is past its deadline.
  void Park(Executor* on, Nanos wait_ns, Attempt attempt);
  // Answers a write whose deadline comes while it waits: with the failure of background work if there is one,
  // else kBusy.
  void EndOverdue(WriteDone* done);
  // The stages from the pin to the log. Behind writes of its lane that wait for room it waits too.
  void AdmittedWrite(Executor* on, Attempt attempt);
  // Pins the active round and takes numbers in it (K3a, K6). Seals full rounds. Where it cannot, it answers
  // the write or has it wait: then *attempt is used up.
  Place TakePlace(Executor* on, Attempt* attempt);
  // The write goes on once there is a round with room for it, or ends at its deadline.
  void WaitForRoom(Executor* on, Attempt attempt);
  void LookForRoomLater(Executor* on);  // if any write of the lane waits for room
  // Ends those whose deadline has come, and lets the others go on, in their order, until one finds no room.
  void LookForRoom(Executor* on);
  // The log's answer: links the entries or abandons them, and answers the write. kNotOwner: the epoch
  // is over, and the record was perhaps posted and not delivered, so the number stays unfinished and the
  // round pinned (L6), the range is lost, and the outcome is kUnknown.
  void Logged(WriteContext* context, Outcome outcome);
  // Links a batch that has range deletions: entries that the batch itself hides are left out.
  void LinkWithTombstones(WriteContext* context);
  // Work may be due with the last pin of a sealed round.
  void Unpin(Round* round);

  // The stripe of a key of `op` that a swap holds now; KeyLatches::kStripes: none.
  size_t HeldStripeOf(const WriteOp& op) const;
  // Tries the write again once the stripe is free. REQUIRES: the write holds nothing: neither pin nor number
  // nor stripe.
  void WaitForLatch(Executor* on, size_t stripe, Attempt attempt);
  // Goes on with a swap that holds its latch: waits until all earlier numbers are stable, then compares.
  void LockedSwap(const std::shared_ptr<Swap>& swap);
  // Reads the key and writes, or ends the swap.
  void CompareForSwap(const std::shared_ptr<Swap>& swap);
  void EndSwap(Swap* swap, Outcome outcome);  // unlocks the latch and answers

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundLog* const log_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  Reader* const reader_;
  KeyLatches latches_;        // of swaps (K6)
  std::vector<Lane> lanes_;   // [i] belongs to executor i
  LaneCounts<Count> counts_;  // see writes()
  // Range deletions tell swaps of themselves (K6): before each takes its number ...
  std::atomic<uint64_t> range_deletes_begun_{0};
  std::atomic<uint64_t> range_deletes_numbered_{0};  // ... and after it has taken it
};

}  // namespace nova
