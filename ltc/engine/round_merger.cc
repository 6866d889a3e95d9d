#include "ltc/engine/round_merger.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/sstable/compaction_job.h"
#include "common/sstable/merging_iterator.h"

namespace nova {

bool RoundMerger::MergeOne() {
  double share = 0;
  const RoundGroup rounds = rounds_->ClaimMerge(&share);
  if (rounds.empty()) return false;
  const auto writes = written_->NewCounter(rounds);
  const std::shared_ptr<Round> merged = MergedRound(rounds, share, writes.get());
  NOVA_FP_VOID("rounds.merged");
  const bool published = rounds_->PublishMerged(rounds, merged);
  if (published) {
    Count(rounds, *merged);
    written_->Add(writes.get());
    rounds_->RefreshLanes();  // which still hold what was merged
    pacer_->UpdatePressure();
  }
  context_->WorkDue();  // a flush may have waited for it
  return published;
}

void RoundMerger::Count(const RoundGroup& rounds, const Round& merged) {
  uint64_t entries = 0, bytes = 0;
  for (const auto& round : rounds) {
    entries += round->entries();
    bytes += round->bytes();
  }
  merges_.fetch_add(1, std::memory_order_relaxed);
  entries_away_.fetch_add(entries - std::min(entries, merged.entries()), std::memory_order_relaxed);
  bytes_away_.fetch_add(bytes - std::min<uint64_t>(bytes, merged.bytes()), std::memory_order_relaxed);
}

std::shared_ptr<Round> RoundMerger::MergedRound(const RoundGroup& rounds, double most_share,
                                                WriteCounter* writes) {
  // Asked for when the rounds are sealed: a later snapshot (K4) sees the newest of what they hold.
  // Nothing has expired, and no range deletion (K7) hides anything: that is for who writes tables, whose
  // edit says up to when.
  VersionFilter filter(points_->LiveSnapshots(), /*floor=*/0, /*bottom=*/false, /*now_ms=*/0);
  const auto most_bytes = static_cast<size_t>(most_share * static_cast<double>(context_->RoundBytes()));
  auto merged = std::make_shared<Round>();
  merged->number = rounds.front()->number;
  merged->boundary = rounds.back()->boundary;
  merged->sealed_ns = rounds.front()->sealed_ns;
  merged->sealing.store(true);
  merged->merged = true;
  // It has as many siblings as the oldest, and the latest partition that is for so many (siblings by
  // Drange, K3d).
  const Round& oldest = *rounds.front();
  const Round& latest = *rounds.back();
  merged->partition = (latest.siblings.size() == oldest.siblings.size() ? latest : oldest).partition;
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
  for (const auto& m : oldest.siblings) {
    merged->siblings.push_back(std::make_unique<MemTable>(m->id(), context_->services->arenas,
                                                          most_bytes / oldest.siblings.size(), scanned));
  }
  const auto entries = NewMergingIterator(std::move(children));
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    ParsedInternalKey key;
    NOVA_CHECK(ParseInternalKey(entries->key(), &key)) << "a memtable holds a malformed key";
    if (writes != nullptr) writes->Add(key);
    if (!filter.Keep(key, entries->value())) continue;
    MemTable* const memtable = merged->SiblingFor(key.stored_key, /*turn=*/0);
    memtable->Link(memtable->Prepare(key.stored_key, key.sequence, key.type, entries->value()));
    if (merged->bytes() > most_bytes + ArenaPool::kChunkBytes || !context_->state.Is(ServingState::kActive))
      return nullptr;
  }
  merged->share = rounds_->ShareOf(merged->bytes(), merged->merged_bytes);
  return merged;
}

}  // namespace nova
