// RangeContext: the things that the parts of one range share and none of them owns: which range it is, its
// options, the services of the process, its state, and its life.
//
// The parts, each with a header: Level0Toll, FlushedLoad, WrittenLoad, ReadPoints, RoundLog, RoundSet,
// Pacer, TableAccess, Reader, Scanner, JobBook, VersionSet, Rebuilder, RoundMerger, Flusher, Compactor,
// WritePath, Checkpoints. A part is given those it asks, which stand before it here; none asks back. Range
// makes them and forwards.
//
// Lock order: a table in docs/architecture.md.
//
// Thread safety: all. Fields that are not atomic are set before the range is given to anybody.
// Ownership: Range owns it and all parts. An asynchronous operation holds KeepAlive() until it has ended.
// Errors: none.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/outcome.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/range_services.h"

namespace nova {

// The state of a range. kOpening until it is OPEN; kActive: serves all; kReadOnly, then kSilent: it is being
// let go (release, R5); kRestoring: a checkpoint is being brought back, and nothing is served; kLost: its
// epoch is over, for ever.
//
//   kOpening -> kActive                  Activate
//   kActive -> kReadOnly                 BeginRelease, StopWrites
//   kReadOnly -> kSilent                 StopReads
//   kReadOnly, kSilent -> kActive        CancelRelease
//   kActive -> kRestoring -> kActive     a checkpoint is restored
//   kRestoring -> kReadOnly              StopWrites
//   any -> kLost                         Abandon, or a fence was met
class ServingState {
 public:
  enum Value { kOpening, kActive, kRestoring, kReadOnly, kSilent, kLost };

  Value Get() const { return value_.load(std::memory_order_seq_cst); }
  bool Is(Value v) const { return Get() == v; }
  // False: the state was not `from`, and is unchanged.
  bool Move(Value from, Value to) { return value_.compare_exchange_strong(from, to); }
  Value Set(Value v) { return value_.exchange(v); }  // returns the state before
  // May answer reads.
  bool serves_reads() const {
    const Value v = value_.load(std::memory_order_acquire);
    return v == kActive || v == kReadOnly;
  }

 private:
  std::atomic<Value> value_{kOpening};
};

// See the head of this file.
struct RangeContext {
  RangeContext(const RangeSpec& s, const RangeOptions& o, const RangeServices* given)
      : spec(s), options(o), active_memtables(o.active_memtables), services(given) {}
  RangeContext(const RangeContext&) = delete;
  RangeContext& operator=(const RangeContext&) = delete;

  const RangeSpec spec;                     // which range, at which epoch
  const RangeOptions options;               // checked
  std::atomic<int> active_memtables;        // alpha: siblings of the next round; Range sets it
  const RangeServices* const services;      // of the process
  ServingState state;                       // what is answered now
  std::weak_ptr<const void> self;           // the Range, as long as somebody holds it
  std::function<void(const Status&)> lose;  // ends the range, once, for its epoch is fenced; does not wait

  // Keeps the range and its parts while it is held.
  std::shared_ptr<const void> KeepAlive() const { return self.lock(); }
  // The stored key belongs to this range.
  bool Contains(std::string_view key) const {
    return key >= spec.lower && (spec.upper.empty() || key < spec.upper);
  }
  size_t RoundBytes() const {  // bytes of memory of a full round
    return options.memtable_size_bytes *
           static_cast<size_t>(active_memtables.load(std::memory_order_relaxed));
  }
  // Tells the process that background work may be due; may be called under the RoundSet's lock.
  void WorkDue() const { services->host->WorkDue(spec.id); }
  // The outcome of a read that failed. Once the range is let go or lost it is kNotOwner, for the next owner
  // may have deleted the files that the read was looking for (R5).
  Outcome OutcomeOfRead(const Status& failure) const {
    return state.serves_reads() ? ToOutcome(failure) : Outcome::kNotOwner;
  }
};

}  // namespace nova
