// RangeContext: what the parts of one range share and none of them owns: which range it is, its options, what
// the process gives it, its state, and its life.
//
// The parts, each with a header: ReadPoints, RoundLog, RoundSet, Pacer, TableAccess, Reader, Scanner,
// JobBook, VersionSet, Flusher, RoundMerger, Compactor, WritePath, Checkpoints. A part is given those it
// asks, which stand before it in this list; none asks back. Range makes them, in this order, and forwards.
//
// Lock order, where two are held: flush commits (Flusher) or none > edits (VersionSet) > rounds (RoundSet);
// picks (Compactor) > jobs (JobBook); pressure (Pacer) > rounds.
//
// Thread safety: all. What is not atomic is set before the range is given to anybody.
// Ownership:     Range owns it and all parts. An asynchronous operation holds KeepAlive() until it has ended.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "common/base/outcome.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/range_services.h"

namespace nova {

// What a range does now. kOpening until OPEN; kReadOnly, then kSilent while it is let go (release, R5);
// kRestoring while a checkpoint is brought back; kLost: its epoch is over.
class ServingState {
 public:
  enum Value { kOpening, kActive, kRestoring, kReadOnly, kSilent, kLost };

  Value Get() const { return value_.load(std::memory_order_seq_cst); }
  bool Is(Value v) const { return Get() == v; }
  bool Move(Value from, Value to) { return value_.compare_exchange_strong(from, to); }
  Value Set(Value v) { return value_.exchange(v); }  // what it was
  bool serves_reads() const {
    const Value v = value_.load(std::memory_order_acquire);
    return v == kActive || v == kReadOnly;
  }

 private:
  std::atomic<Value> value_{kOpening};
};

struct RangeContext {
  RangeContext(const RangeSpec& s, const RangeOptions& o, const RangeServices* given)
      : spec(s), options(o), services(given) {}
  RangeContext(const RangeContext&) = delete;
  RangeContext& operator=(const RangeContext&) = delete;

  const RangeSpec spec;
  const RangeOptions options;
  const RangeServices* const services;
  ServingState state;
  std::weak_ptr<const void> self;           // the range
  std::function<void(const Status&)> lose;  // the epoch is fenced: ends the range, once

  std::shared_ptr<const void> KeepAlive() const { return self.lock(); }
  bool Contains(std::string_view key) const {
    return key >= spec.lower && (spec.upper.empty() || key < spec.upper);
  }
  size_t RoundBytes() const {  // of memory that a full round has
    return options.memtable_size_bytes * static_cast<size_t>(options.active_memtables);
  }
  void WorkDue() const { services->host->WorkDue(spec.id); }
  // Once the range is let go or lost, its next owner may have deleted what a read was looking for (R5).
  Outcome OutcomeOfRead(const Status& failure) const {
    return state.serves_reads() ? ToOutcome(failure) : Outcome::kNotOwner;
  }
};

}  // namespace nova
