#include "ltc/engine/round_set.h"

#include <algorithm>

#include "common/base/log.h"
#include "ltc/engine/level0_depth.h"

namespace nova {
namespace {

constexpr double kInexact = 1e-6;  // sums of shares

std::unique_ptr<LookupIndex> NewLookupIndex(const RangeContext& context) {
  if (!context.options.lookup_index) return nullptr;
  const size_t memtables = context.RoundBytes() * static_cast<size_t>(context.options.max_rounds);
  return std::make_unique<LookupIndex>(LookupIndex::BytesFor(memtables), context.services->arenas);
}

}  // namespace

RoundSet::RoundSet(const RangeContext* context, ReadPoints* points, RoundLog* log, const WrittenLoad* written)
    : context_(context),
      points_(points),
      log_(log),
      written_(written),
      lookup_index_(NewLookupIndex(*context)),
      lanes_(context->services->executors.size()) {
  MutexLock lock(&mu_);
  auto view = std::make_shared<RangeView>();
  view->version = std::make_shared<Version>();
  view->active = NewRound(points->sequences().last() + 1, /*scanned=*/false);
  view_ = std::move(view);
}

RoundSet::~RoundSet() { CountFixed(*Current()->active, -1); }

// --- views

void RoundSet::CountFixed(const Round& round, int sign) {
  context_->services->arenas->AddFixed(sign * static_cast<ptrdiff_t>(round.empty_bytes()));
}

std::shared_ptr<Round> RoundSet::NewRound(RoundNumber number, bool scanned) {
  auto round = std::make_shared<Round>();
  round->number = number;
  const int siblings = context_->active_memtables.load(std::memory_order_relaxed);
  round->partition = written_->PartitionOf(siblings);
  NOVA_DCHECK(round->partition == nullptr || round->partition->siblings() <= static_cast<size_t>(siblings));
  if (lookup_index_ != nullptr) round->ordinal = lookup_index_->OpenRound(number);
  for (int i = 0; i < siblings; ++i) {
    // The epoch in the id makes ids of one range unique and rising over its owners: the low-water mark of
    // done memtables (M3).
    const MemTableId id((context_->spec.epoch.value() << 32) + next_memtable_.fetch_add(1));
    round->siblings.push_back(std::make_unique<MemTable>(id, context_->services->arenas,
                                                         context_->options.memtable_size_bytes, scanned));
  }
  round->sources.push_back({number, {}});
  for (const auto& m : round->siblings) round->sources[0].memtables.push_back(m->id());
  CountFixed(*round, 1);
  return round;
}

const std::shared_ptr<const RangeView>& RoundSet::ViewOf(Executor* on) {
  NOVA_DCHECK(on->IsCurrentThread());
  Lane& lane = lanes_[on->index()];
  if (lane.view == nullptr || lane.view->generation != generation_.load(std::memory_order_acquire)) {
    lane.view = Current();
  }
  return lane.view;
}

std::shared_ptr<const RangeView> RoundSet::Current() const {
  MutexLock lock(&mu_);
  return view_;
}

void RoundSet::PublishLocked(std::shared_ptr<const RangeView> view) {
  NOVA_DCHECK(view->generation == view_->generation + 1);
  view_ = std::move(view);
  generation_.store(view_->generation, std::memory_order_seq_cst);
}

void RoundSet::Publish(const std::function<void(RangeView*)>& change) {
  MutexLock lock(&mu_);
  auto view = std::make_shared<RangeView>(*view_);
  view->generation++;
  change(view.get());
  PublishLocked(std::move(view));
}

void RoundSet::RefreshLanes() {
  view_holders_.LetGoAll();
  for (Executor* on : context_->services->executors) {
    on->Submit([this, keep = context_->KeepAlive(), on] { ViewOf(on); });
  }
}

// View and number must belong together: a round that opened between the two could hold numbers the view does
// not see.
ReadPoint RoundSet::PointOf(Executor* on) {
  ReadPoint point;
  do {
    point.view = ViewOf(on);
    point.sequence = points_->sequences().last();
  } while (generation_.load(std::memory_order_seq_cst) != point.view->generation);
  return point;
}

// A range deletion below the number may have been under way when the view was taken: it is in a later view's
// list, unless one was dropped since, perhaps this one.
bool RoundSet::CompleteDeletions(Executor* on, ReadPoint* point) {
  const RangeView& now = *ViewOf(on);
  if (now.tombstones_dropped != point->view->tombstones_dropped) return false;
  if (now.tombstones != point->view->tombstones) {
    auto view = std::make_shared<RangeView>(*point->view);
    view->tombstones = now.tombstones;
    point->view = std::move(view);
  }
  return true;
}

void RoundSet::WithReadPoint(Executor* on, absl::AnyInvocable<void(ReadPoint)> fn) {
  ReadPoint point = PointOf(on);
  const SequenceNumber seq = point.sequence;
  points_->WhenStable(
      on, seq,
      [this, keep = context_->KeepAlive(), on, point = std::move(point), fn = std::move(fn)]() mutable {
        CompleteDeletions(on, &point) ? fn(std::move(point)) : WithReadPoint(on, std::move(fn));
      });
}

std::optional<ReadPoint> RoundSet::StablePoint(Executor* on) {
  ReadPoint point = PointOf(on);
  if (points_->sequences().stable() < point.sequence || !CompleteDeletions(on, &point)) return std::nullopt;
  return point;
}

// --- sealing

bool RoundSet::SealUpTo(SequenceNumber seq) {
  const auto view = Current();
  return view->active->number > seq || Seal(view->active.get());
}

bool RoundSet::Seal(const Round* round) {
  {
    MutexLock lock(&mu_);
    if (view_->active.get() != round) return true;  // somebody else did
    if (!SealLocked()) return false;
  }
  DeleteReplacedLogs();
  return true;
}

bool RoundSet::SealForFlush() {
  MutexLock lock(&mu_);
  const Round& active = *view_->active;
  if (active.IsIdleAndEmpty() && view_->sealed.empty()) return true;
  if (active.pins.load() == 0) SealLocked();
  return false;
}

void RoundSet::DeleteReplacedLogs() {
  std::vector<RoundNumber> replaced;
  {
    MutexLock lock(&mu_);
    replaced.swap(replaced_);
  }
  if (replaced.empty()) return;
  for (const RoundNumber number : replaced) log_->DeleteRound(number);
  RefreshLanes();  // which still hold their memory
}

// Of rounds, beside those there are and the active one.
double RoundSet::RoomLocked() const {
  return context_->options.max_rounds + kInexact - view_->sealed_share - merging_share_ - 1;
}

// A round that is full of what its log refused, and holds nothing, is replaced: no flush has to make room for
// another.
bool RoundSet::SealLocked() {
  const std::shared_ptr<Round> old = view_->active;
  const bool was_empty = old->IsIdleAndEmpty();
  if (was_empty && !old->IsFull(context_->options)) return true;
  if (!was_empty && RoomLocked() < 1) return false;
  old->sealing.store(true, std::memory_order_seq_cst);
  // no: a writer has pinned it meanwhile, and may still bring something
  const bool replace = was_empty && old->IsIdleAndEmpty();
  if (!replace && RoomLocked() < 1) {
    old->sealing.store(false, std::memory_order_seq_cst);
    return false;
  }
  // sealing (K3a): read after sealing was set, before the successor opens
  old->boundary = points_->sequences().last();
  old->sealed_ns = Now();
  fill_ns_ = old->sealed_ns - old->opened_ns;
  auto view = std::make_shared<RangeView>(*view_);
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
  CountFixed(*old, -1);
  PublishLocked(std::move(view));
  context_->WorkDue();
  return true;
}

// --- what a flush may leave out, and which rounds go at once

SequenceNumber RoundSet::BeginFlush() {
  MutexLock lock(&mu_);
  return flush_asked_ = AddBarrierLocked();
}

void RoundSet::AddFlushBarrier() {
  MutexLock lock(&mu_);
  AddBarrierLocked();
}

SequenceNumber RoundSet::AddBarrierLocked() {
  // LookForYounger, under mu_ too, knows of this, or of nothing that is written from now on
  const SequenceNumber upto = points_->sequences().last();
  flush_barriers_.insert(upto);
  return upto;
}

void RoundSet::FlushHeld() {
  MutexLock lock(&mu_);
  if (!view_->sealed.empty()) flush_asked_ = std::max(flush_asked_, view_->sealed.front()->boundary);
}

bool RoundSet::FlushedUpTo(SequenceNumber seq) const {
  const auto view = Current();
  return view->oldest().number > seq || (view->sealed.empty() && view->active->IsIdleAndEmpty());
}

// A version that is at or below the stable number (K4) in a younger round hides an older one from whoever
// reads from now on, and its log outlives this flush. Not asked are rounds that a loss of power may take
// while a sync promised the older version.
void RoundSet::LookForYounger(const RoundGroup& rounds, OverwriteProbe* probe) {
  // before the snapshots: those that come later are above it
  const SequenceNumber floor = points_->sequences().stable();
  std::vector<SequenceNumber> snapshots = points_->LiveSnapshots();
  MutexLock lock(&mu_);
  flush_barriers_.erase(flush_barriers_.begin(), flush_barriers_.lower_bound(view_->sealed.back()->number));
  const auto barrier = flush_barriers_.lower_bound(rounds.front()->number);
  const SequenceNumber upto = barrier == flush_barriers_.end() ? floor : std::min(floor, *barrier);
  RoundGroup found;
  const auto add = [&](const std::shared_ptr<Round>& round) {
    if (round->number > rounds.back()->number && round->number <= upto && !round->unsynced.load())
      found.push_back(round);
  };
  add(view_->active);
  for (const auto& round : view_->sealed) add(round);
  probe->Set(std::move(found), upto, std::move(snapshots));
}

// --- claims

// Writers take longer to fill the memory that is left than flushes, at `round_ns` each, to write `rounds`.
bool RoundSet::MemoryLastsLocked(double rounds, Nanos round_ns) const {
  const double left = context_->services->freeable_limit_bytes() - context_->services->freeable_bytes();
  const double room = std::min(context_->options.max_rounds - 1 - view_->sealed_share,
                               left / static_cast<double>(context_->RoundBytes()));
  return room * static_cast<double>(fill_ns_) >= rounds * static_cast<double>(round_ns);
}

RoundGroup RoundSet::ClaimFlush(const FlushInput& input) {
  RoundGroup claimed;
  // A checkpoint is attached to the youngest round there is: of a group that is claimed, to the last.
  MutexLock lock(&mu_);
  const auto& sealed = view_->sealed;
  const auto first =
      std::find_if(sealed.rbegin(), sealed.rend(), [](const auto& round) { return !round->flushing.load(); });
  FlushSituation s;
  double waiting = 0;
  for (auto round = first; round != sealed.rend(); ++round) {
    const Round& r = **round;
    waiting += r.share;
    s.rounds.push_back({r.number, r.share, r.sealed_ns, r.pins.load() != 0, r.merge.under_way,
                        r.flushing.load(), r.tombstones.load() > 0, !r.checkpoints.empty()});
  }
  s.others_are_written = first != sealed.rbegin();
  s.history = input.history;
  s.groups_are_merged = input.may_hold_back;
  s.holds_rounds_back = input.may_hold_back && MemoryLastsLocked(waiting, input.history.round_ns);
  s.level0_runs = Level0Depth(*view_->version);
  s.level0_slow_runs = context_->options.level0_slow_runs;
  s.max_rounds = context_->options.max_rounds;
  s.asked_upto = flush_asked_;
  s.lag_ns = context_->options.table_lag_ns;
  s.now_ns = Now();
  claimed.assign(first, first + static_cast<ptrdiff_t>(RoundsToFlush(s)));
  for (const auto& round : claimed) round->flushing.store(true);
  return claimed;
}

double RoundSet::ShareOf(uint64_t bytes, uint64_t written_bytes) const {
  const auto full = static_cast<double>(context_->RoundBytes());
  const double logs =
      log_->keeps_records() ? static_cast<double>(written_bytes) / context_->options.log_share : 0;
  return std::max(static_cast<double>(bytes), logs) / full;
}

RoundGroup RoundSet::ClaimMerge(double* share) {
  RoundGroup claimed;
  MutexLock lock(&mu_);
  if (!context_->state.Is(ServingState::kActive) || merging_share_ > 0) return claimed;
  const auto left_of = [this](const Round& r) {
    return ShareOf(r.bytes_of_one_version_each(), r.written_bytes());
  };
  std::vector<MergeCandidate> candidates;
  for (const auto& r : view_->sealed) {
    const bool busy = r->pins.load() != 0 || r->flushing.load() || r->merge.under_way || r->merge.in_vain ||
                      !r->checkpoints.empty();
    candidates.push_back({r->share, busy ? 0 : left_of(*r), busy, r->merged});
    if (busy) break;
  }
  const MergeChoice choice = RoundsToMerge(candidates, context_->options.max_rounds, RoomLocked());
  const auto end = view_->sealed.begin() + static_cast<ptrdiff_t>(choice.rounds);
  claimed.assign(std::make_reverse_iterator(end), view_->sealed.rend());
  for (const auto& round : claimed) round->merge.under_way = true;
  *share = merging_share_ = kMergeSlack * choice.left_share;
  return claimed;
}

bool RoundSet::PublishMerged(const RoundGroup& rounds, std::shared_ptr<Round> merged) {
  MutexLock lock(&mu_);
  merging_share_ = 0;
  for (const auto& round : rounds) round->merge.under_way = false;
  if (merged == nullptr) {
    rounds.back()->merge.in_vain = true;
    return false;
  }
  if (std::any_of(rounds.begin(), rounds.end(),
                  [](const auto& round) { return !round->checkpoints.empty(); }))
    return false;
  auto view = std::make_shared<RangeView>(*view_);
  view->generation++;
  const auto at = std::search(view->sealed.begin(), view->sealed.end(), rounds.rbegin(), rounds.rend());
  NOVA_CHECK(at != view->sealed.end()) << "rounds changed while they were merged (K3)";
  *at = std::move(merged);
  view->sealed.erase(at + 1, at + static_cast<ptrdiff_t>(rounds.size()));
  view->CountSealed();
  PublishLocked(std::move(view));
  return true;
}

// --- checkpoints

// Rounds seal at a boundary number and are committed in recency order (K3): the version that the commit of a
// round makes holds every number up to its boundary, and none above.
RoundSet::Attached RoundSet::AttachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request,
                                              SequenceNumber* upto) {
  MutexLock lock(&mu_);
  if (!view_->active->IsIdleAndEmpty() && !SealLocked()) return Attached::kNoRoom;
  if (view_->sealed.empty()) {
    *upto = view_->active->number - 1;
    return Attached::kAllInTables;
  }
  view_->sealed.front()->checkpoints.push_back(request);
  flush_barriers_.insert(view_->sealed.front()->boundary);
  return Attached::kToRound;
}

void RoundSet::DetachCheckpoint(const std::shared_ptr<PendingCheckpoint>& request) {
  MutexLock lock(&mu_);
  for (const auto& round : view_->sealed) std::erase(round->checkpoints, request);
}

}  // namespace nova
