#include "ltc/engine/write_path.h"

#include <algorithm>
#include <utility>

#include "common/base/coding.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/write_batch.h"

namespace nova {
namespace {

constexpr uint64_t kRecycledEntries = 256;  // the context of a larger batch is not kept

// Entries of a batch, beyond which the places of its keys are noted: walks past younger versions of one key
// grow with the square.
constexpr size_t kLeastNotedBatch = 64;

bool IsRangeDelete(const WriteEntry& e) { return e.type == ValueType::kDeleteRange; }

}  // namespace

// A write between its number and its answer; recycled by its lane, so that a put allocates nothing.
struct WritePath::WriteContext {
  struct Prepared {
    MemTable* memtable = nullptr;
    MemTable::Entry* entry = nullptr;  // null: a range deletion
  };
  WritePath* path = nullptr;
  std::shared_ptr<const void> range;  // kept
  Executor* on = nullptr;
  Round* round = nullptr;       // pinned
  SequenceNumber sequence = 0;  // of its first entry
  uint64_t count = 0;
  Prepared first;
  std::vector<Prepared> rest;         // of a batch
  std::vector<LogEntry> log_entries;  // of a batch, while its record is made
  std::vector<RangeTombstoneRef> tombstones;

  Prepared Prepare(const WriteEntry& e, SequenceNumber seq);
  // Links one entry. The lookup index (K5) knows of it before anybody can see it.
  void Link(const Prepared& e, MemTable::Linked* batch);
  void Link();     // REQUIRES: no range deletion is among its entries
  void Abandon();  // instead: none of it will be seen
  WriteDone done;
};

// A write that waits has copies of its own.
struct WritePath::ParkedWrite {
  // now_ms: when the entries with a time to live were taken; 0: they have their expiry (K7).
  explicit ParkedWrite(const WriteOp& from, int64_t now_ms = 0) : op(from) {
    size_t size = 0;
    for (const WriteEntry& e : from.entries) size += e.key.size() + e.value.size() + kExpiryBytes;
    bytes.reserve(size);
    entries.reserve(from.entries.size());
    for (const WriteEntry& e : from.entries) {
      const std::string_view key = Copy(e.key);
      const size_t at = bytes.size();
      if (now_ms != 0 && e.type == ValueType::kPutTtl)
        PutFixed64(&bytes, static_cast<uint64_t>(now_ms + e.ttl_ms));
      bytes.append(e.value);
      entries.push_back({e.type, key, std::string_view(bytes).substr(at)});
    }
    op.entries = entries;
  }
  ParkedWrite(const ParkedWrite&) = delete;
  ParkedWrite& operator=(const ParkedWrite&) = delete;
  std::string_view Copy(std::string_view part) {
    bytes.append(part);
    return std::string_view(bytes).substr(bytes.size() - part.size());
  }

  WriteOp op;
  std::string bytes;
  std::vector<WriteEntry> entries;
  WriteDone done;
  std::shared_ptr<Swap> swap;  // as Attempt's
  bool had_turn = false;       // it was the first of Lane::without_room once, and is the first again
};

struct WritePath::Attempt {
  WriteOp op;
  WriteDone done;
  std::shared_ptr<Swap> swap = {};           // the write is its second half; null: it is of none
  std::unique_ptr<ParkedWrite> parked = {};  // has what `op` views; null: the caller has
};

std::unique_ptr<WritePath::ParkedWrite> WritePath::Keep(Attempt attempt) {
  std::unique_ptr<ParkedWrite> parked = std::move(attempt.parked);
  if (parked == nullptr) parked = std::make_unique<ParkedWrite>(attempt.op);
  parked->done = std::move(attempt.done);
  parked->swap = std::move(attempt.swap);
  return parked;
}

WritePath::Attempt WritePath::Again(std::unique_ptr<ParkedWrite> parked) {
  ParkedWrite* const p = parked.get();
  return {p->op, std::move(p->done), std::move(p->swap), std::move(parked)};
}

struct WritePath::Swap {
  std::shared_ptr<const void> range;  // kept
  Executor* on = nullptr;
  size_t stripe = 0;
  CompareAndSwapOp op;
  WriteDone done;
  uint64_t range_deletes = 0;  // range_deletes_numbered_ before the comparison
};

WritePath::WritePath(const RangeContext* context, ReadPoints* points, RoundLog* log, RoundSet* rounds,
                     Pacer* pacer, Reader* reader)
    : context_(context),
      points_(points),
      log_(log),
      rounds_(rounds),
      pacer_(pacer),
      reader_(reader),
      lanes_(context->services->executors.size()),
      counts_(context->services->executors.size()) {}

WritePath::~WritePath() = default;

void WritePath::Write(Executor* on, const WriteOp& op, WriteDone done) {
  uint64_t bytes = 0, range_deletes = 0;
  bool ttl = false;
  for (const WriteEntry& e : op.entries) {
    bytes += e.key.size() + e.value.size();
    ttl |= e.type == ValueType::kPutTtl;
    range_deletes += IsRangeDelete(e);
  }
  if (!IsValid(op, bytes, range_deletes)) return done(Outcome::kInvalidArgument);
  if (range_deletes > 0 && !HasRoomForTombstones(on, range_deletes)) return done(Outcome::kBusy);
  if (pacer_->Level0LacksSpace()) return done(Outcome::kNoSpace);
  const Nanos wait = pacer_->Admit(on, bytes);
  Attempt attempt{op, std::move(done)};
  if (ttl) {
    attempt.parked = std::make_unique<ParkedWrite>(op, points_->NowMs());
    attempt.op = attempt.parked->op;
  }
  wait > 0 ? Park(on, wait, std::move(attempt)) : AdmittedWrite(on, std::move(attempt));
}

// Atomicity (K6): a batch across ranges is refused.
bool WritePath::IsValid(const WriteOp& op, uint64_t bytes, uint64_t range_deletes) const {
  for (const WriteEntry& e : op.entries) {
    if (e.key.empty() || e.value.size() > context_->options.max_value_bytes || e.ttl_ms < 0 ||
        e.ttl_ms > kMaxTtlMs)
      return false;
  }
  const auto deletes_of_here = [this](const WriteEntry& e) {
    return !IsRangeDelete(e) || (e.key < e.value && context_->Contains(e.key) &&
                                 (context_->spec.upper.empty() || e.value <= context_->spec.upper));
  };
  if (range_deletes > context_->options.round_range_tombstones ||
      !std::all_of(op.entries.begin(), op.entries.end(), deletes_of_here))
    return false;
  if (op.entries.size() == 1) return true;
  return !op.entries.empty() && op.entries.size() <= context_->options.max_batch_entries &&
         bytes <= context_->options.max_batch_bytes &&
         std::all_of(op.entries.begin(), op.entries.end(),
                     [this](const WriteEntry& e) { return context_->Contains(e.key); });
}

bool WritePath::HasRoomForTombstones(Executor* on, uint64_t count) {
  const RangeTombstones* list = rounds_->ViewOf(on)->tombstones.get();
  return (list == nullptr ? 0 : list->size()) + count <= context_->options.max_range_tombstones;
}

void WritePath::EndOverdue(WriteDone* done) {
  const Outcome why = pacer_->WhyWorkFails();
  (*done)(why != Outcome::kOk ? why : Outcome::kBusy);
}

void WritePath::Park(Executor* on, Nanos wait_ns, Attempt attempt) {
  const Nanos when = Now() + wait_ns;
  if (when >= attempt.op.deadline_ns) return EndOverdue(&attempt.done);
  on->RunAt(when, [this, keep = context_->KeepAlive(), on, parked = Keep(std::move(attempt))]() mutable {
    AdmittedWrite(on, Again(std::move(parked)));
  });
}

void WritePath::WaitForRoom(Executor* on, Attempt attempt) {
  if (Now() + kRoomPoll >= attempt.op.deadline_ns) return EndOverdue(&attempt.done);
  Lane& lane = lanes_[on->index()];
  std::unique_ptr<ParkedWrite> parked = Keep(std::move(attempt));
  const bool in_front = parked->had_turn;
  lane.without_room.insert(in_front ? lane.without_room.begin() : lane.without_room.end(), std::move(parked));
  LookForRoomLater(on);
}

void WritePath::LookForRoomLater(Executor* on) {
  Lane& lane = lanes_[on->index()];
  if (lane.without_room.empty() || std::exchange(lane.will_look_for_room, true)) return;
  pacer_->OnNoRoom(kRoomPoll * static_cast<Nanos>(lane.without_room.size()));
  on->RunAt(Now() + kRoomPoll, [this, keep = context_->KeepAlive(), on] {
    lanes_[on->index()].will_look_for_room = false;
    LookForRoom(on);
  });
}

// Answers may begin writes of this lane.
void WritePath::LookForRoom(Executor* on) {
  auto& waiting = lanes_[on->index()].without_room;
  const Nanos next = Now() + kRoomPoll;
  const auto overdue = std::stable_partition(waiting.begin(), waiting.end(),
                                             [next](const auto& w) { return next < w->op.deadline_ns; });
  const std::vector<std::unique_ptr<ParkedWrite>> ended(std::make_move_iterator(overdue),
                                                        std::make_move_iterator(waiting.end()));
  waiting.erase(overdue, waiting.end());
  for (const auto& w : ended) EndOverdue(&w->done);
  while (!waiting.empty()) {
    std::unique_ptr<ParkedWrite> first = std::move(waiting.front());
    waiting.pop_front();
    first->had_turn = true;
    AdmittedWrite(on, Again(std::move(first)));
    if (!waiting.empty() && waiting.front()->had_turn) break;  // it has found none
  }
  LookForRoomLater(on);
}

WritePath::WriteContext::Prepared WritePath::WriteContext::Prepare(const WriteEntry& e, SequenceNumber seq) {
  // One turn for all entries of a batch: those of one key are linked in one memtable, the youngest first
  // (K6).
  MemTable* const memtable = round->SiblingFor(e.key, sequence);
  if (!IsRangeDelete(e)) return {memtable, memtable->Prepare(e.key, seq, e.type, e.value)};
  tombstones.push_back(
      std::make_shared<const RangeTombstone>(RangeTombstone{std::string(e.key), std::string(e.value), seq}));
  return {memtable, nullptr};
}

void WritePath::WriteContext::Link(const Prepared& e, MemTable::Linked* batch) {
  LookupIndex* const index = path->rounds_->lookup_index();
  if (index != nullptr && e.entry->brings_node) index->Insert(e.entry->node->hash, round->ordinal);
  e.memtable->Link(e.entry, batch);
}

void WritePath::WriteContext::Link() {
  // The youngest first: no get sees what the batch itself hides.
  MemTable::Linked linked;
  MemTable::Linked* const batch = rest.size() < kLeastNotedBatch ? nullptr : &linked;
  for (auto e = rest.rbegin(); e != rest.rend(); ++e) Link(*e, batch);
  Link(first, batch);
}

// The youngest first: so the memory of each is the latest that was taken.
void WritePath::WriteContext::Abandon() {
  const auto abandon = [](const Prepared& e) {
    if (e.entry != nullptr) e.memtable->Abandon(e.entry);
  };
  std::for_each(rest.rbegin(), rest.rend(), abandon);
  abandon(first);
}

WritePath::Place WritePath::TakePlace(Executor* on, Attempt* attempt) {
  const auto end = [attempt](Outcome why) {
    attempt->done(why);
    return Place();
  };
  const WriteOp& op = attempt->op;
  Swap* const swap = attempt->swap.get();
  const uint64_t count = op.entries.size();
  const bool range_delete = std::any_of(op.entries.begin(), op.entries.end(), IsRangeDelete);
  for (;;) {
    if (!context_->state.Is(ServingState::kActive)) return end(Outcome::kNotOwner);
    Round* round = rounds_->ViewOf(on)->active.get();
    if (round->IsFull(context_->options)) {
      if (!rounds_->Seal(round)) {  // every round is full: wait for a flush
        const Outcome why = pacer_->flush_failure();
        if (why == Outcome::kNoSpace) return end(why);
        // no other disk will take the flush
        if (context_->services->one_disk && !pacer_->LastingFlushFailure(0).ok()) return end(why);
        WaitForRoom(on, std::move(*attempt));
        return {};
      }
      pacer_->UpdatePressure();
    }
    round->pins.fetch_add(1, std::memory_order_seq_cst);
    // StopWrites may have seen no pin: nothing more may be posted
    if (!context_->state.Is(ServingState::kActive)) {
      Unpin(round);
      return end(Outcome::kNotOwner);
    }
    if (!round->sealing.load(std::memory_order_seq_cst)) {
      NOVA_FP_VOID("write.pinned");
      if (range_delete) range_deletes_begun_.fetch_add(1, std::memory_order_seq_cst);
      const SequenceNumber seq = points_->sequences().Take(count);
      if (range_delete) range_deletes_numbered_.fetch_add(1, std::memory_order_seq_cst);
      if (seq == 0) {
        Unpin(round);
        return end(Outcome::kBusy);
      }
      size_t stripe = KeyLatches::kStripes;
      // K6 (swaps): a range deletion may have come between the comparison and this number
      bool compared_too_early = false;
      // sealing (K3a): the round's boundary will be >= seq
      if (!round->sealing.load(std::memory_order_seq_cst)) {
        if (swap != nullptr) {
          compared_too_early = range_deletes_begun_.load(std::memory_order_seq_cst) != swap->range_deletes;
          if (!compared_too_early) return {round, seq};
        } else {
          if (!latches_.any_held()) return {round, seq};
          stripe = HeldStripeOf(op);
          if (stripe == KeyLatches::kStripes) return {round, seq};
        }
      }
      points_->sequences().Finish(seq, count);  // stable number (K4): it was never posted
      if (stripe != KeyLatches::kStripes) {
        Unpin(round);
        WaitForLatch(on, stripe, std::move(*attempt));
        return {};
      }
      if (compared_too_early) {
        Unpin(round);
        LockedSwap(attempt->swap);
        return {};
      }
    }
    Unpin(round);
    rounds_->Current();  // waits for the one who seals the round: the successor is there then
  }
}

void WritePath::AdmittedWrite(Executor* on, Attempt attempt) {
  if (const Outcome why = log_->refusals().Why(); why != Outcome::kOk) return attempt.done(why);
  Lane& lane = lanes_[on->index()];
  const bool has_turn = attempt.parked != nullptr && attempt.parked->had_turn;
  if (!lane.without_room.empty() && !has_turn) return WaitForRoom(on, std::move(attempt));
  const Place place = TakePlace(on, &attempt);
  if (place.round == nullptr) return;
  Round* const round = place.round;
  SequenceNumber seq = place.first;
  const WriteOp& op = attempt.op;
  const uint64_t count = op.entries.size();
  if (lane.free_contexts.empty()) lane.free_contexts.push_back(std::make_unique<WriteContext>());
  WriteContext* context = lane.free_contexts.back().release();
  lane.free_contexts.pop_back();
  context->path = this;
  context->range = context_->KeepAlive();
  context->on = on;
  context->round = round;
  context->sequence = seq;
  context->count = count;
  context->done = std::move(attempt.done);
  if (!op.sync && log_->sync_matters() && !round->unsynced.load(std::memory_order_relaxed))
    round->unsynced.store(true, std::memory_order_relaxed);
  const WriteEntry& first = op.entries[0];
  context->first = context->Prepare(first, seq);
  const LogEntry log_entry{context->first.memtable->id(), first.type, first.key, first.value};
  LogRecord record{round->number, seq, op.client_id, op.request_number, op.sync, {&log_entry, 1}};
  if (count > 1) {
    // K6: one record. The memtables it touches are siblings: the pin of their round is a pin of each, and
    // keeps the round's logs.
    context->log_entries.assign(1, log_entry);
    for (const WriteEntry& e : op.entries.subspan(1)) {
      context->rest.push_back(context->Prepare(e, ++seq));
      context->log_entries.push_back({context->rest.back().memtable->id(), e.type, e.key, e.value});
    }
    record.entries = context->log_entries;
  }
  const Outcome taken = log_->Append(on, record, [context](Outcome o) { context->path->Logged(context, o); });
  if (taken != Outcome::kOk) Logged(context, taken);
}

void WritePath::Logged(WriteContext* context, Outcome outcome) {
  WriteDone done = std::move(context->done);
  const std::shared_ptr<const void> keep = std::move(context->range);
  if (outcome == Outcome::kNotOwner) {
    // Posted and not delivered: the number stays unfinished and the round pinned until a new owner has fenced
    // us (stable number K4, pin L6).
    context_->lose(ToStatus(outcome, "log append"));
    outcome = Outcome::kUnknown;
    delete context;  // nothing more will be written here
  } else {
    if (outcome == Outcome::kOk) {
      log_->refusals().OnTaken();
      context->tombstones.empty() ? context->Link() : LinkWithTombstones(context);
    } else {
      // Not in the log. Perhaps in a local one: it may come back after a crash, with its number, as an
      // unknown write may.
      if (outcome != Outcome::kBusy) log_->refusals().OnRefused(outcome);
      context->Abandon();
    }
    points_->sequences().Finish(context->sequence, context->count);
    Unpin(context->round);
    counts_.Of(context->on).Add(kWrites, context->count);
    context->rest.clear();
    context->tombstones.clear();
    std::unique_ptr<WriteContext> ended(context);
    if (ended->count <= kRecycledEntries)
      lanes_[ended->on->index()].free_contexts.push_back(std::move(ended));
  }
  done(outcome);
}

// A logged write with range deletions. What one of them hides of its own batch is not linked at all, as if it
// had been written and deleted; then the rest of the batch is linked, the youngest first, then its deletions
// all at once: no get sees what the batch itself hides. All of it before the numbers are finished: who waits
// for them finds it (K4).
void WritePath::LinkWithTombstones(WriteContext* context) {
  const RangeTombstonesRef own = RangeTombstones::Of(context->tombstones);
  MemTable::Linked linked;
  const auto link = [&](const WriteContext::Prepared& e, SequenceNumber seq) {
    if (e.entry == nullptr || own->Covering(MemTable::KeyOf(e.entry), kMaxSequenceNumber) > seq) return;
    context->Link(e, context->rest.size() < kLeastNotedBatch ? nullptr : &linked);
  };
  for (size_t i = context->rest.size(); i > 0; --i) link(context->rest[i - 1], context->sequence + i);
  link(context->first, context->sequence);
  context->round->tombstones.fetch_add(own->size(), std::memory_order_relaxed);
  const auto with_own = [&own](const RangeTombstonesRef& before) {
    std::vector<RangeTombstoneRef> all = own->all();
    if (before != nullptr) all.insert(all.end(), before->all().begin(), before->all().end());
    return RangeTombstones::Of(std::move(all));
  };
  // A list of thousands takes milliseconds to make, which readers who want a view are not to wait for.
  const RangeTombstonesRef before = rounds_->Current()->tombstones, after = with_own(before);
  rounds_->Publish([&](RangeView* view) {
    view->tombstones = view->tombstones == before ? after : with_own(view->tombstones);
  });
}

void WritePath::Unpin(Round* round) {
  if (round->pins.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      round->sealing.load(std::memory_order_seq_cst)) {
    context_->WorkDue();
  }
}

// --- compare and swap (K6)

size_t WritePath::HeldStripeOf(const WriteOp& op) const {
  for (const WriteEntry& e : op.entries) {
    if (IsRangeDelete(e)) continue;  // a swap that it came between compares again
    const size_t stripe = KeyLatches::StripeOf(FilterHash(e.key));
    if (latches_.held(stripe)) return stripe;
  }
  return KeyLatches::kStripes;
}

void WritePath::WaitForLatch(Executor* on, size_t stripe, Attempt attempt) {
  const auto kept = std::make_shared<std::unique_ptr<ParkedWrite>>(Keep(std::move(attempt)));
  const auto again = [this, keep = context_->KeepAlive(), on, kept](KeyLatches::Turn turn) {
    on->Submit([this, keep, on, kept, turn = std::move(turn)]() mutable {
      std::unique_ptr<ParkedWrite> parked = std::move(*kept);
      if (Now() >= parked->op.deadline_ns) return parked->done(Outcome::kBusy);
      AdmittedWrite(on, Again(std::move(parked)));
      turn = nullptr;
    });
  };
  if (!latches_.WaitWhileHeld(stripe, again)) again(nullptr);
}

void WritePath::CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done) {
  if (op.key.empty() || (op.desired && op.desired->size() > context_->options.max_value_bytes))
    return done(Outcome::kInvalidArgument);
  auto swap = std::make_shared<Swap>();
  swap->range = context_->KeepAlive();
  swap->on = on;
  swap->stripe = KeyLatches::StripeOf(FilterHash(op.key));
  swap->op = std::move(op);
  swap->done = std::move(done);
  const auto lock = [this, swap] {
    const auto go_on = [this, swap] { swap->on->Submit([this, swap] { LockedSwap(swap); }); };
    if (latches_.Lock(swap->stripe, go_on)) LockedSwap(swap);
  };
  if (pacer_->Level0LacksSpace()) return swap->done(Outcome::kNoSpace);
  const Nanos wait =
      pacer_->Admit(on, swap->op.key.size() + (swap->op.desired ? swap->op.desired->size() : 0));
  if (wait == 0) return lock();
  if (Now() + wait >= swap->op.deadline_ns) return swap->done(Outcome::kBusy);
  on->RunAt(Now() + wait, lock);
}

// The stripe is held: a writer of it that took its number before sees no latch and is waited for; a later one
// waits for us.
void WritePath::LockedSwap(const std::shared_ptr<Swap>& swap) {
  // before the number that the comparison waits for
  swap->range_deletes = range_deletes_numbered_.load(std::memory_order_seq_cst);
  points_->WhenStable(swap->on, points_->sequences().last(), [this, swap] { CompareForSwap(swap); });
}

void WritePath::CompareForSwap(const std::shared_ptr<Swap>& swap) {
  if (Now() >= swap->op.deadline_ns) return EndSwap(swap.get(), Outcome::kDeadlineExceeded);
  reader_->Get(swap->on, swap->op.key, swap->op.deadline_ns, [this, swap](Outcome o, std::string_view value) {
    if (o != Outcome::kOk && o != Outcome::kNotFound) return EndSwap(swap.get(), o);
    const CompareAndSwapOp& op = swap->op;
    const bool as_expected = o == Outcome::kOk ? op.expected && *op.expected == value : !op.expected;
    if (!as_expected) return EndSwap(swap.get(), Outcome::kConditionFailed);
    const WriteEntry entry{op.desired ? ValueType::kPut : ValueType::kDelete, op.key,
                           op.desired ? std::string_view(*op.desired) : ""};
    AdmittedWrite(swap->on, {{{&entry, 1}, op.client_id, op.request_number, op.deadline_ns, op.sync},
                             [this, swap](Outcome written) { EndSwap(swap.get(), written); },
                             swap});
  });
}

void WritePath::EndSwap(Swap* swap, Outcome outcome) {
  latches_.Unlock(swap->stripe);
  swap->done(outcome);
}

}  // namespace nova
