// Sealed rounds of a Range, merged in memory while they wait for their flush: Nova-LSM (section 4.2) and
// TRIAD (section 4.1) keep what is written again and again from the disk; here all that is left of several
// rounds becomes one, and takes their place between what is older and what is younger (K3). docs/engine.md
// argues it.
#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/compaction_job.h"
#include "ltc/engine/range_view.h"

namespace nova {

// Where flushes wait for a disk, memory costs less than what they write; a log would stay for as long as they
// are put off.
bool Range::MayHold() const {
  if (state_.load() != State::kActive || options_.merge_rounds == MergeRounds::kNever) return false;
  return options_.merge_rounds == MergeRounds::kAlways || (flush_waits_.load() && !log_->keeps_records());
}

// The youngest sealed round, if it was not merged and its keys are few for its entries, and older ones behind
// it, each not much larger than those that were taken: so an entry is copied about as often as the size
// doubles. `share`: what the merged one may have of a round's memory at most.
Range::RoundGroup Range::ClaimMerge(double* share) {
  constexpr double kWorthIt = 0.75;  // keys for each entry
  constexpr double kLarger = 3;
  constexpr double kSlack = 1.1;  // values of unequal sizes
  RoundGroup rounds;
  MutexLock lock(&mu_);
  const auto& sealed = view_->sealed;
  if (state_.load() != State::kActive || merging_share_ > 0) return rounds;
  const auto left_of = [this](const Round& round) {  // about: of each key one entry
    const double each =
        static_cast<double>(round.bytes()) / static_cast<double>(std::max<uint64_t>(round.entries(), 1));
    return each * static_cast<double>(round.keys()) / static_cast<double>(RoundBytes());
  };
  double left = 0;
  for (const auto& round : sealed) {
    if (round->pins.load() != 0 || round->flushing.load() || round->merging || round->merged_in_vain ||
        !round->checkpoints.empty())
      break;
    const double more = left_of(*round);
    if (rounds.empty() ? round->merged || more > kWorthIt * round->share
                       : more > kLarger * left || left + more > options_.max_rounds / 4.0)
      break;
    if (!HasRoomFor(kSlack * (left + more))) break;
    left += more;
    rounds.push_back(round);
  }
  std::reverse(rounds.begin(), rounds.end());
  for (const auto& round : rounds) round->merging = true;
  *share = merging_share_ = kSlack * left;
  return rounds;
}

// What is left of `rounds`. Null: more than there is room for, as where snapshots hold older versions; or the
// range closes.
std::shared_ptr<Range::Round> Range::MergedRound(const RoundGroup& rounds, double most_share) {
  // Asked for when the rounds are sealed: a snapshot that comes later sees the newest of what they hold (K4).
  // Nothing has expired, and no range tombstone hides anything: that is for who writes tables, whose edit
  // says up to when (K7).
  VersionFilter filter(snapshots_.Live(Now()), /*floor=*/0, /*bottom=*/false, /*now_ms=*/0);
  const auto round_bytes = static_cast<double>(RoundBytes());
  const auto most_bytes = static_cast<size_t>(most_share * round_bytes);
  auto merged = std::make_shared<Round>();
  merged->number = rounds.front()->number;
  merged->boundary = rounds.back()->boundary;
  merged->sealed_ns = rounds.front()->sealed_ns;
  merged->sealing.store(true);
  merged->merged = true;
  std::vector<std::unique_ptr<Iterator>> children;
  bool scanned = false, unsynced = false;
  for (const auto& round : rounds) {
    merged->sources.insert(merged->sources.end(), round->sources.begin(), round->sources.end());
    merged->merged_bytes += round->written_bytes();
    merged->merged_entries += round->written_entries();
    merged->tombstones.fetch_add(round->tombstones.load());
    unsynced |= round->unsynced.load();
    for (const auto& m : round->siblings) {
      children.push_back(m->NewIterator(round));
      scanned |= m->scanned();
    }
  }
  merged->unsynced.store(unsynced);
  for (const auto& m : rounds.front()->siblings) {
    merged->siblings.push_back(std::make_unique<MemTable>(
        m->id(), services_->arenas, most_bytes / rounds.front()->siblings.size(), scanned));
  }
  const auto entries = NewMergingIterator(std::move(children));
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    ParsedInternalKey key;
    NOVA_CHECK(ParseInternalKey(entries->key(), &key)) << "a memtable holds a malformed key";
    if (!filter.Keep(key, entries->value())) continue;
    MemTable* const memtable = merged->SiblingOf(key.stored_key);
    memtable->Link(memtable->Prepare(key.stored_key, key.sequence, key.type, entries->value()));
    if (merged->bytes() > most_bytes + ArenaPool::kChunkBytes ||
        state_.load(std::memory_order_relaxed) != State::kActive)
      return nullptr;
  }
  merged->share = static_cast<double>(merged->bytes()) / round_bytes;
  return merged;
}

// False: there is nothing to publish, or a checkpoint wants what `rounds` hold by themselves (M2).
bool Range::PublishMerged(const RoundGroup& rounds, std::shared_ptr<Round> merged) {
  MutexLock lock(&mu_);
  merging_share_ = 0;
  for (const auto& round : rounds) round->merging = false;
  if (merged == nullptr) {
    rounds.back()->merged_in_vain = true;
    return false;
  }
  if (std::any_of(rounds.begin(), rounds.end(),
                  [](const auto& round) { return !round->checkpoints.empty(); }))
    return false;
  auto view = std::make_shared<View>(*view_);
  view->generation++;
  const auto at = std::search(view->sealed.begin(), view->sealed.end(), rounds.rbegin(), rounds.rend());
  NOVA_CHECK(at != view->sealed.end()) << "rounds changed while they were merged (K3)";
  *at = std::move(merged);
  view->sealed.erase(at + 1, at + static_cast<ptrdiff_t>(rounds.size()));
  view->CountSealed();
  PublishLocked(std::move(view));
  return true;
}

bool Range::MergeSealed() {
  double share = 0;
  const RoundGroup rounds = ClaimMerge(&share);
  if (rounds.empty()) return false;
  std::shared_ptr<Round> merged = MergedRound(rounds, share);
  NOVA_FP_VOID("rounds.merged");
  const bool published = PublishMerged(rounds, std::move(merged));
  if (published) {
    merges_.fetch_add(1, std::memory_order_relaxed);
    RefreshLanes();  // which still hold what was merged
    UpdatePressure();
  }
  services_->work(id_);  // a flush may have waited for it
  return published;
}

}  // namespace nova
