#include "ltc/engine/range.h"

#include <algorithm>
#include <cmath>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "ltc/engine/range_view.h"

namespace nova {
namespace {

constexpr double kInexact = 1e-6;           // sums of shares
constexpr uint64_t kRecycledEntries = 256;  // the context of a larger batch is not kept

}  // namespace

Range::Range(const RangeSpec& spec, const RangeOptions& options, const RangeServices* services,
             ManifestStorage* storage, SequenceNumber last_sequence)
    : id_(spec.id),
      epoch_(spec.epoch),
      lower_(spec.lower),
      upper_(spec.upper),
      options_(options),
      services_(services),
      sequences_(last_sequence),
      lanes_(services->executors.size()),
      manifest_storage_(storage),
      manifest_(storage) {
  MutexLock lock(&mu_);
  auto view = std::make_shared<View>();
  view->version = std::make_shared<Version>();
  view->active = NewRound(last_sequence + 1, /*scanned=*/false);
  view_ = std::move(view);
}

Range::~Range() = default;

void Range::Activate(std::unique_ptr<RangeLog> log) {
  log_ = std::move(log);
  sync_matters_ = log_->sync_matters();
  state_.store(State::kActive);
}

ManifestGroup Range::manifest_group() const {
  MutexLock lock(&manifest_mu_);
  return manifest_.group();
}

// --- views

std::shared_ptr<Range::Round> Range::NewRound(RoundNumber number, bool scanned) {
  auto round = std::make_shared<Round>();
  round->number = number;
  for (int i = 0; i < options_.active_memtables; ++i) {
    // The epoch in the id makes ids of one range unique and rising over its owners (M3's low-water mark).
    const MemTableId id((epoch_.value() << 32) + next_memtable_.fetch_add(1));
    round->siblings.push_back(
        std::make_unique<MemTable>(id, services_->arenas, options_.memtable_size_bytes, scanned));
  }
  round->sources.push_back({number, {}});
  for (const auto& m : round->siblings) round->sources[0].memtables.push_back(m->id());
  return round;
}

const Range::View& Range::LaneView(Executor* on) {
  NOVA_DCHECK(on->IsCurrentThread());
  Lane& lane = lanes_[on->index()];
  if (lane.view == nullptr || lane.view->generation != view_generation_.load(std::memory_order_acquire)) {
    lane.view = CurrentView();
  }
  return *lane.view;
}

void Range::RefreshView(Executor* on) { LaneView(on); }

std::shared_ptr<const Range::View> Range::CurrentView() const {
  MutexLock lock(&mu_);
  return view_;
}

void Range::PublishLocked(std::shared_ptr<const View> view) {
  NOVA_DCHECK(view->generation == view_->generation + 1);
  view_ = std::move(view);
  view_generation_.store(view_->generation, std::memory_order_seq_cst);
}

void Range::RefreshLanes() {
  for (Executor* on : services_->executors) {
    on->Submit([self = shared_from_this(), on] { self->RefreshView(on); });
  }
}

// --- writes

// A write that waits has copies of its own.
struct Range::ParkedWrite {
  // now_ms: when the entries with a time to live were taken; 0: they are stamped already (K7).
  ParkedWrite(const WriteOp& from, WriteDone d, int64_t now_ms = 0) : op(from), done(std::move(d)) {
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
};

void Range::Write(Executor* on, const WriteOp& op, WriteDone done) {
  uint64_t bytes = 0, range_deletes = 0;
  bool ttl = false;
  for (const WriteEntry& e : op.entries) {
    bytes += e.key.size() + e.value.size();
    ttl |= e.type == ValueType::kPutTtl;
    range_deletes += e.type == ValueType::kDeleteRange;
  }
  if (!IsValid(op, bytes, range_deletes)) return done(Outcome::kInvalidArgument);
  if (range_deletes > 0 && !HasRoomForTombstones(on, range_deletes)) return done(Outcome::kBusy);
  if (Level0LacksSpace()) return done(Outcome::kNoSpace);
  const Nanos wait = Admit(on, bytes);
  if (ttl) {
    const ParkedWrite stamped(op, {}, NowMs());
    return wait > 0 ? ParkWrite(on, wait, stamped.op, std::move(done))
                    : AdmittedWrite(on, stamped.op, std::move(done));
  }
  if (wait > 0) return ParkWrite(on, wait, op, std::move(done));
  AdmittedWrite(on, op, std::move(done));
}

Nanos Range::Admit(Executor* on, uint64_t bytes) {
  if (!controller_.pressed()) return 0;
  const View& view = LaneView(on);
  // a round is opened whole, or not yet
  const double rounds = std::floor(options_.max_rounds - view.sealed_share + kInexact);
  return controller_.Admit(
      bytes, rounds - static_cast<double>(view.active->bytes()) / static_cast<double>(RoundBytes()), Now());
}

// Writers are slowed down for the sake of a compaction that the disk has no room for: they would wait for
// nothing, at the least rate.
bool Range::Level0LacksSpace() const {
  return controller_.pressed() && compaction_failure_.outcome() == Outcome::kNoSpace &&
         CurrentView()->version->Level0Runs() >= options_.level0_slow_runs;
}

// K6: a batch across ranges is refused.
bool Range::IsValid(const WriteOp& op, uint64_t bytes, uint64_t range_deletes) const {
  for (const WriteEntry& e : op.entries) {
    if (e.key.empty() || e.value.size() > options_.max_value_bytes || e.ttl_ms < 0 || e.ttl_ms > kMaxTtlMs)
      return false;
  }
  const auto deletes_of_here = [this](const WriteEntry& e) {
    return e.type != ValueType::kDeleteRange ||
           (e.key < e.value && Contains(e.key) && (upper_.empty() || e.value <= upper_));
  };
  if (range_deletes > options_.round_range_tombstones ||
      !std::all_of(op.entries.begin(), op.entries.end(), deletes_of_here))
    return false;
  if (op.entries.size() == 1) return true;
  return !op.entries.empty() && op.entries.size() <= options_.max_batch_entries &&
         bytes <= options_.max_batch_bytes &&
         std::all_of(op.entries.begin(), op.entries.end(),
                     [this](const WriteEntry& e) { return Contains(e.key); });
}

void Range::ParkWrite(Executor* on, Nanos wait_ns, const WriteOp& op, WriteDone done,
                      std::shared_ptr<SwapState> swap) {
  const Nanos when = Now() + wait_ns;
  if (when >= op.deadline_ns) {
    for (const Outcome why : {flush_failure_.outcome(), compaction_failure_.outcome()}) {
      if (why != Outcome::kOk) return done(why);
    }
    return done(Outcome::kBusy);
  }
  on->RunAt(when, [self = shared_from_this(), on, swap = std::move(swap),
                   parked = std::make_unique<ParkedWrite>(op, std::move(done))] {
    self->AdmittedWrite(on, parked->op, std::move(parked->done), swap);
  });
}

struct Range::SwapState {
  std::shared_ptr<Range> range;
  Executor* on = nullptr;
  size_t stripe = 0;
  CompareAndSwapOp op;
  WriteDone done;
  uint64_t range_deletes = 0;  // range_deletes_numbered_ before the comparison
};

Range::WriteContext::Prepared Range::WriteContext::Prepare(const WriteEntry& e, SequenceNumber seq) {
  MemTable* const memtable = round->SiblingOf(e.key);
  if (e.type != ValueType::kDeleteRange) return {memtable, memtable->Prepare(e.key, seq, e.type, e.value)};
  tombstones.push_back(
      std::make_shared<const RangeTombstone>(RangeTombstone{std::string(e.key), std::string(e.value), seq}));
  return {memtable, nullptr};
}

void Range::WriteContext::Link() {
  // The youngest first: no get sees what the batch itself hides.
  for (auto e = rest.rbegin(); e != rest.rend(); ++e) e->memtable->Link(e->entry);
  first.memtable->Link(first.entry);
}

// The youngest first: so the memory of each is the latest that was taken.
void Range::WriteContext::Abandon() {
  const auto abandon = [](const Prepared& e) {
    if (e.entry != nullptr) e.memtable->Abandon(e.entry);
  };
  std::for_each(rest.rbegin(), rest.rend(), abandon);
  abandon(first);
}

void Range::AdmittedWrite(Executor* on, const WriteOp& op, WriteDone done, std::shared_ptr<SwapState> swap) {
  if (const Outcome why = log_refusals_.Why(); why != Outcome::kOk) return done(why);
  const uint64_t count = op.entries.size();
  const bool range_delete = std::any_of(op.entries.begin(), op.entries.end(), [](const WriteEntry& e) {
    return e.type == ValueType::kDeleteRange;
  });
  Round* round;
  SequenceNumber seq;
  for (;;) {
    if (state_.load(std::memory_order_acquire) != State::kActive) return done(Outcome::kNotOwner);
    round = LaneView(on).active.get();
    if (round->IsFull(options_) && !SealIfActive(round)) round = nullptr;
    if (round == nullptr) {  // every round is full: wait for a flush
      const Outcome why = flush_failure_.outcome();
      if (why == Outcome::kNoSpace) return done(why);
      // no other disk will take the flush
      if (services_->one_disk && !LastingFlushFailure(0).ok()) return done(why);
      return ParkWrite(on, kMillisecond, op, std::move(done), std::move(swap));
    }
    round->pins.fetch_add(1, std::memory_order_seq_cst);
    // StopWrites may have seen no pin: nothing more may be posted
    if (state_.load(std::memory_order_seq_cst) != State::kActive) {
      Unpin(round);
      return done(Outcome::kNotOwner);
    }
    if (!round->sealing.load(std::memory_order_seq_cst)) {
      if (range_delete) range_deletes_begun_.fetch_add(1, std::memory_order_seq_cst);
      seq = sequences_.Take(count);
      if (range_delete) range_deletes_numbered_.fetch_add(1, std::memory_order_seq_cst);
      if (seq == 0) {
        Unpin(round);
        return done(Outcome::kBusy);
      }
      size_t stripe = KeyLatches::kStripes;
      // K6: a range deletion may have come between the comparison and this number
      bool compared_too_early = false;
      if (!round->sealing.load(std::memory_order_seq_cst)) {  // K3a: the round's boundary will be >= seq
        if (swap != nullptr) {
          compared_too_early = range_deletes_begun_.load(std::memory_order_seq_cst) != swap->range_deletes;
          if (!compared_too_early) break;
        } else {
          if (!latches_.any_held()) break;
          stripe = HeldStripeOf(op);
          if (stripe == KeyLatches::kStripes) break;
        }
      }
      sequences_.Finish(seq, count);  // abandoned: it was never posted (K4)
      if (stripe != KeyLatches::kStripes) {
        Unpin(round);
        return WaitForLatch(on, stripe, op, std::move(done));
      }
      if (compared_too_early) {
        Unpin(round);
        return LockedSwap(swap);
      }
    }
    Unpin(round);
  }
  Lane& lane = lanes_[on->index()];
  if (lane.free_contexts.empty()) lane.free_contexts.push_back(std::make_unique<WriteContext>());
  WriteContext* context = lane.free_contexts.back().release();
  lane.free_contexts.pop_back();
  context->range = shared_from_this();
  context->lane = &lane;
  context->round = round;
  context->sequence = seq;
  context->count = count;
  context->done = std::move(done);
  if (!op.sync && sync_matters_ && !round->unsynced.load(std::memory_order_relaxed))
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
  if (!log_->Append(on, record, [context](Outcome o) { context->range->Logged(context, o); }))
    Logged(context, Outcome::kBusy);
}

void Range::Logged(WriteContext* context, Outcome outcome) {
  WriteDone done = std::move(context->done);
  const std::shared_ptr<Range> self = std::move(context->range);
  if (outcome == Outcome::kNotOwner) {
    // Posted and not delivered: the number stays unfinished and the round pinned until a new owner has fenced
    // us (K4, L6).
    Lose(ToStatus(outcome, "log append"));
    outcome = Outcome::kUnknown;
    delete context;  // the log ends what is pending on whatever thread fenced it: not the lane's
  } else {
    if (outcome == Outcome::kOk) {
      log_refusals_.OnTaken();
      context->tombstones.empty() ? context->Link() : LinkWithTombstones(context);
    } else {
      // Not in the log. Perhaps in a local one: it may come back after a crash, with its number, as an
      // unknown write may.
      if (outcome != Outcome::kBusy) log_refusals_.OnRefused(outcome);
      context->Abandon();
    }
    sequences_.Finish(context->sequence, context->count);
    Unpin(context->round);
    writes_.fetch_add(context->count, std::memory_order_relaxed);
    context->rest.clear();
    context->tombstones.clear();
    std::unique_ptr<WriteContext> ended(context);
    if (ended->count <= kRecycledEntries) context->lane->free_contexts.push_back(std::move(ended));
  }
  done(outcome);
}

// --- compare and swap (K6)

size_t Range::HeldStripeOf(const WriteOp& op) const {
  for (const WriteEntry& e : op.entries) {
    if (e.type == ValueType::kDeleteRange) continue;  // a swap that it came between compares again
    const size_t stripe = KeyLatches::StripeOf(FilterHash(e.key));
    if (latches_.held(stripe)) return stripe;
  }
  return KeyLatches::kStripes;
}

// REQUIRES: the write holds nothing: neither pin nor number nor stripe.
void Range::WaitForLatch(Executor* on, size_t stripe, const WriteOp& op, WriteDone done) {
  auto parked = std::make_shared<ParkedWrite>(op, std::move(done));
  const auto again = [self = shared_from_this(), on, parked](KeyLatches::Turn turn) {
    on->Submit([self, on, parked, turn = std::move(turn)]() mutable {
      if (Now() >= parked->op.deadline_ns) return parked->done(Outcome::kBusy);
      self->AdmittedWrite(on, parked->op, std::move(parked->done));
      turn = nullptr;
    });
  };
  if (!latches_.WaitWhileHeld(stripe, again)) again(nullptr);
}

void Range::CompareAndSwap(Executor* on, CompareAndSwapOp op, WriteDone done) {
  if (op.key.empty() || (op.desired && op.desired->size() > options_.max_value_bytes))
    return done(Outcome::kInvalidArgument);
  auto swap = std::make_shared<SwapState>();
  swap->range = shared_from_this();
  swap->on = on;
  swap->stripe = KeyLatches::StripeOf(FilterHash(op.key));
  swap->op = std::move(op);
  swap->done = std::move(done);
  const auto lock = [swap] {
    const auto go_on = [swap] { swap->on->Submit([swap] { swap->range->LockedSwap(swap); }); };
    if (swap->range->latches_.Lock(swap->stripe, go_on)) swap->range->LockedSwap(swap);
  };
  if (Level0LacksSpace()) return swap->done(Outcome::kNoSpace);
  const Nanos wait = Admit(on, swap->op.key.size() + (swap->op.desired ? swap->op.desired->size() : 0));
  if (wait == 0) return lock();
  if (Now() + wait >= swap->op.deadline_ns) return swap->done(Outcome::kBusy);
  on->RunAt(Now() + wait, lock);
}

// The stripe is held: a writer of it that took its number before sees no latch and is waited for; a later one
// waits for us.
void Range::LockedSwap(const std::shared_ptr<SwapState>& swap) {
  // before the number that the comparison waits for
  swap->range_deletes = range_deletes_numbered_.load(std::memory_order_seq_cst);
  WhenStable(swap->on, sequences_.last(), [swap] { swap->range->CompareForSwap(swap); });
}

void Range::CompareForSwap(const std::shared_ptr<SwapState>& swap) {
  if (Now() >= swap->op.deadline_ns) return EndSwap(swap.get(), Outcome::kDeadlineExceeded);
  Get(swap->on, swap->op.key, swap->op.deadline_ns, [this, swap](Outcome o, std::string_view value) {
    if (o != Outcome::kOk && o != Outcome::kNotFound) return EndSwap(swap.get(), o);
    const CompareAndSwapOp& op = swap->op;
    const bool as_expected = o == Outcome::kOk ? op.expected && *op.expected == value : !op.expected;
    if (!as_expected) return EndSwap(swap.get(), Outcome::kConditionFailed);
    const WriteEntry entry{op.desired ? ValueType::kPut : ValueType::kDelete, op.key,
                           op.desired ? std::string_view(*op.desired) : ""};
    AdmittedWrite(
        swap->on, {{&entry, 1}, op.client_id, op.request_number, op.deadline_ns, op.sync},
        [this, swap](Outcome written) { EndSwap(swap.get(), written); }, swap);
  });
}

void Range::EndSwap(SwapState* swap, Outcome outcome) {
  latches_.Unlock(swap->stripe);
  swap->done(outcome);
}

void Range::Unpin(Round* round) {
  if (round->pins.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      round->sealing.load(std::memory_order_seq_cst)) {
    services_->work(id_);
  }
}

SequenceNumber Range::BeginFlush() {
  MutexLock lock(&mu_);
  return flush_asked_ = ReplaceNoneLocked();
}

// Of what is written by now, and is not in tables yet.
SequenceNumber Range::ReplaceNoneLocked() {
  // LookForYounger, under mu_ too, knows of this, or of nothing that is written from now on
  const SequenceNumber upto = sequences_.last();
  whole_upto_.insert(upto);
  return upto;
}

void Range::FlushHeld() {
  MutexLock lock(&mu_);
  if (!view_->sealed.empty()) flush_asked_ = std::max(flush_asked_, view_->sealed.front()->boundary);
}

bool Range::SealUpTo(SequenceNumber seq) {
  const auto view = CurrentView();
  return view->active->number > seq || SealIfActive(view->active.get());
}

bool Range::SealActive() { return SealIfActive(CurrentView()->active.get()); }

bool Range::SealIfActive(const Round* round) {
  {
    MutexLock lock(&mu_);
    if (view_->active.get() != round) return true;  // somebody else did
    if (!SealLocked()) return false;
  }
  ForgetReplacedRounds();
  UpdatePressure();
  return true;
}

void Range::ForgetReplacedRounds() {
  std::vector<RoundNumber> replaced;
  {
    MutexLock lock(&mu_);
    replaced.swap(replaced_);
  }
  if (replaced.empty()) return;
  for (const RoundNumber number : replaced) log_->DeleteRound(number);
  RefreshLanes();  // which still hold their memory
}

bool Range::HasRoomFor(double rounds) const {
  return view_->sealed_share + merging_share_ + 1 + rounds <= options_.max_rounds + kInexact;
}

// A round that is full of what its log refused, and holds nothing, is replaced: no flush has to make room for
// another.
bool Range::SealLocked() {
  const std::shared_ptr<Round> old = view_->active;
  const auto empty = [&old] { return old->pins.load(std::memory_order_seq_cst) == 0 && old->entries() == 0; };
  const bool was_empty = empty();
  if (was_empty && !old->IsFull(options_)) return true;
  if (!was_empty && !HasRoomFor(1)) return false;
  old->sealing.store(true, std::memory_order_seq_cst);
  // no: a writer has pinned it meanwhile, and may still bring something
  const bool replace = was_empty && empty();
  if (!replace && !HasRoomFor(1)) {
    old->sealing.store(false, std::memory_order_seq_cst);
    return false;
  }
  old->boundary = sequences_.last();  // K3a: read after sealing was set, before the successor opens
  old->sealed_ns = Now();
  fill_ns_ = old->sealed_ns - old->opened_ns;
  auto view = std::make_shared<View>(*view_);
  view->generation++;
  if (replace) {
    replaced_.push_back(old->number);
  } else {
    view->sealed.insert(view->sealed.begin(), old);
    view->CountSealed();
  }
  const bool scanned =
      std::any_of(old->siblings.begin(), old->siblings.end(), [](const auto& m) { return m->scanned(); });
  view->active = NewRound(old->boundary + 1, scanned);
  PublishLocked(std::move(view));
  services_->work(id_);
  return true;
}

double Range::Level0Excess(const View& view) const {
  const double band = std::max(1, options_.level0_stop_runs - options_.level0_slow_runs);
  return (view.version->Level0Runs() - level0_credit_.load() - options_.level0_slow_runs) / band;
}

void Range::UpdatePressure() {
  MutexLock lock(&pressure_mu_);  // the last to say so says what is so
  const auto view = CurrentView();
  WritePressure p;
  p.memtables = view->sealed_share / std::max(1, options_.max_rounds - 1);
  p.held = MayHold() && std::none_of(view->sealed.begin(), view->sealed.end(),
                                     [](const auto& round) { return round->flushing.load(); });
  p.level0 = Level0Excess(*view) * 0.5 + 0.5;
  p.memory = static_cast<double>(services_->arenas->bytes_used()) /
                 static_cast<double>(services_->memtable_limit_bytes) -
             0.25;
  controller_.SetPressure(p, Now());
}

void Range::StopWrites() {
  for (State from : {State::kActive, State::kRestoring}) {
    if (state_.compare_exchange_strong(from, State::kReadOnly)) return;
  }
}

bool Range::BeginRelease() {
  State from = State::kActive;
  return state_.compare_exchange_strong(from, State::kReadOnly);
}

void Range::StopReads() {
  State from = State::kReadOnly;
  state_.compare_exchange_strong(from, State::kSilent);
}

void Range::CancelRelease() {
  for (State from : {State::kReadOnly, State::kSilent}) {
    if (state_.compare_exchange_strong(from, State::kActive)) break;
  }
  services_->work(id_);
}

void Range::Abandon() {
  if (state_.exchange(State::kLost) != State::kOpening && log_ != nullptr) log_->Fence();
  sequences_.Close();
}

void Range::Lose(const Status& why) {
  if (state_.exchange(State::kLost) == State::kLost) return;
  if (log_ != nullptr) log_->Fence();
  sequences_.Close();
  services_->lost(id_, why);
}

// --- any thread

RangeStats Range::stats() const {
  const auto view = CurrentView();
  RangeStats s;
  s.writes = writes_.load(std::memory_order_relaxed);
  s.reads = reads_.load(std::memory_order_relaxed);
  s.bytes = view->version->TotalBytes();
  s.level0_runs = view->version->Level0Runs();
  s.rounds = static_cast<int>(view->sealed.size()) + 1;
  s.tables = view->version->TableCount();
  s.range_tombstones = view->tombstones == nullptr ? 0 : view->tombstones->size();
  s.memtable_bytes = view->active->bytes();
  for (const auto& r : view->sealed) s.memtable_bytes += r->bytes();
  s.merges = merges_.load(std::memory_order_relaxed);
  s.stalled_ns = controller_.stalled_ns();
  s.paused_ns = disk_turns_.paused_ns();
  s.pressure = controller_.pressure();
  return s;
}

size_t Range::active_bytes() const { return CurrentView()->active->bytes(); }

std::optional<TableInfo> Range::FindTable(const Uuid& table) const {
  const TableRef found = CurrentView()->version->FindHandle(table);
  return found == nullptr ? std::nullopt : std::optional(found->info());
}

void Range::ForEachTable(const std::function<void(const TableInfo&)>& fn) const {
  const auto view = CurrentView();
  std::set<const TableHandle*> seen;
  view->version->ForEachTable([&](const Run&, const TableRef& t) {
    if (seen.insert(t.get()).second) fn(t->info());
  });
}

std::set<StocFileId> Range::ReferencedFiles() const {
  std::set<StocFileId> files;
  const auto add = [&files](const TableInfo& table) {
    for (uint32_t i = 0; i < table.fragments.size(); ++i) files.insert({table.uuid, i});
    files.insert({table.uuid, kMetadataPart});
  };
  {
    MutexLock lock(&manifest_mu_);
    for (const TableInfo& t : given_up_) add(t);
  }
  std::vector<TableRef> read;  // let go of outside the lock: the last reference may be ours
  std::shared_ptr<const View> view;
  {
    MutexLock lock(&mu_);
    view = view_;
    for (const auto& weak : dropped_) {
      if (TableRef t = weak.lock()) read.push_back(std::move(t));
    }
  }
  for (const TableRef& t : read) add(t->info());
  view->version->ForEachTable([&](const Run&, const TableRef& t) { add(t->info()); });
  files.insert({manifest_group().file, 0});
  return files;
}

uint64_t Range::FirstUnfinishedJob() const {
  MutexLock lock(&picker_mu_);
  return jobs_.empty() ? next_job_ : *jobs_.begin();
}

}  // namespace nova
