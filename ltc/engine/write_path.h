// WritePath: writes of a range, in stages: admit (Pacer) -> pin the active round -> sequence number ->
// re-check sealing (K3a, seal before the boundary) -> prepare: copy into the memtable's arena -> log record
// -> [delivered at all members] -> link, finish the number, unpin, done.
//
// A range deletion goes the same way, but ends in the list of range deletions (K7): once logged, a view with
// it is published. A compare and swap (K6) holds its key's latch from the comparison to the insert, and is a
// write like others from there.
//
// Thread safety: each call on the executor it names.
// Ownership:     entries are copied before Write returns, or before it waits.
// Errors:        outcomes: kInvalidArgument; kBusy, kNoSpace, kUnavailable: nothing was written; kNotOwner:
//                nothing was written, and the range is not served here; kUnknown.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "ltc/engine/key_latches.h"
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

  void Write(Executor* on, const WriteOp& op, WriteDone done);
  // kConditionFailed: another value was there. No write of the key comes between the comparison and the swap.
  void CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done);
  bool any_swap_under_way() const { return latches_.any_held(); }
  uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }

 private:
  struct WriteContext;
  struct ParkedWrite;
  struct Swap;
  struct alignas(64) Lane {
    std::vector<std::unique_ptr<WriteContext>> free_contexts;
  };
  // What AdmittedWrite holds once it may go on: a pinned round and numbers. No round: the write was answered,
  // or waits.
  struct Place {
    Round* round = nullptr;
    SequenceNumber first = 0;
  };

  bool IsValid(const WriteOp& op, uint64_t bytes, uint64_t range_deletes) const;
  bool HasRoomForTombstones(Executor* on, uint64_t count);
  // Tries again after a while, or ends where that is past the deadline.
  void Park(Executor* on, Nanos wait_ns, const WriteOp& op, WriteDone done,
            std::shared_ptr<Swap> swap = nullptr);
  void AdmittedWrite(Executor* on, const WriteOp& op, WriteDone done, std::shared_ptr<Swap> swap = nullptr);
  // Pins the active round and takes numbers in it (K3a, K6).
  Place TakePlace(Executor* on, const WriteOp& op, WriteDone* done, const std::shared_ptr<Swap>& swap);
  // The log's answer for a record.
  void Logged(WriteContext* context, Outcome outcome);
  void LinkWithTombstones(WriteContext* context);
  void Unpin(Round* round);

  // A latch that a swap holds on a key of `op`; KeyLatches::kStripes: none.
  size_t HeldStripeOf(const WriteOp& op) const;
  // REQUIRES: the write holds nothing: neither pin nor number nor stripe.
  void WaitForLatch(Executor* on, size_t stripe, const WriteOp& op, WriteDone done);
  // Of a swap that holds its latch: waits for the writers before it, compares, writes, ends.
  void LockedSwap(const std::shared_ptr<Swap>& swap);
  void CompareForSwap(const std::shared_ptr<Swap>& swap);
  void EndSwap(Swap* swap, Outcome outcome);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundLog* const log_;
  RoundSet* const rounds_;
  Pacer* const pacer_;
  Reader* const reader_;
  KeyLatches latches_;
  std::vector<Lane> lanes_;  // [i] belongs to executor i
  std::atomic<uint64_t> writes_{0};
  // K6: a range deletion tells swaps of itself before it takes its number ...
  std::atomic<uint64_t> range_deletes_begun_{0};
  std::atomic<uint64_t> range_deletes_numbered_{0};  // ... and that it has taken it
};

}  // namespace nova
