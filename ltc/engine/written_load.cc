#include "ltc/engine/written_load.h"

#include <algorithm>

namespace nova {
namespace {

// What earlier walks count for beside the latest one. Walks are of one round as a rule, so that a map by one
// of them alone would be off by the chance in it; a load that has moved is 7 parts in 8 of all after three.
constexpr double kDecay = 0.5;
// gamma, Tranges of a Drange; a bucket may have the load of two.
constexpr size_t kTranges = 32;

}  // namespace

WriteCounter::WriteCounter(const RoundGroup& rounds, size_t resolution) : seen_(resolution) {
  for (const auto& round : rounds) {
    if (round->merged) merged_.emplace_back(round->number, round->boundary);
  }
}

void WriteCounter::Add(const ParsedInternalKey& key) {
  const auto holds = [&](const auto& numbers) {
    return numbers.first <= key.sequence && key.sequence <= numbers.second;
  };
  if (std::any_of(merged_.begin(), merged_.end(), holds)) return;
  if (versions_ > 0 && key.stored_key != key_) EndKey();
  if (versions_ == 0) key_.assign(key.stored_key);
  ++versions_;
}

void WriteCounter::EndKey() { seen_.Add(key_, static_cast<double>(std::exchange(versions_, 0))); }

WriteHistogram WriteCounter::Finish() {
  if (versions_ > 0) EndKey();
  return std::move(seen_);
}

WrittenLoad::WrittenLoad(const RangeOptions& options)
    : partitioning_(options.memtable_partitioning),
      siblings_(SiblingsFor(options.active_memtables)),
      seen_(kTranges * siblings_) {}

std::unique_ptr<WriteCounter> WrittenLoad::NewCounter(const RoundGroup& rounds) const {
  return enabled() ? std::make_unique<WriteCounter>(rounds, kTranges * siblings_) : nullptr;
}

void WrittenLoad::Add(WriteCounter* counter) {
  if (counter == nullptr) return;
  const WriteHistogram pass = counter->Finish();
  if (pass.load() <= 0) return;  // merged rounds alone
  MutexLock lock(&mu_);
  seen_.Merge(pass, kDecay);
  if (!enabled()) return;
  MemtablePartitionRef next = PartitionFor(partition_, seen_, siblings_);
  if (next != partition_) reorganisations_.fetch_add(1, std::memory_order_relaxed);
  partition_ = std::move(next);
  imbalance_.store(partition_->ImbalanceOf(seen_), std::memory_order_relaxed);
}

MemtablePartitionRef WrittenLoad::PartitionOf(int siblings) const {
  if (!enabled()) return nullptr;
  MutexLock lock(&mu_);
  return siblings_ == SiblingsFor(siblings) ? partition_ : nullptr;
}

void WrittenLoad::SetSiblings(int siblings) {
  MutexLock lock(&mu_);
  siblings_ = SiblingsFor(siblings);
  WriteHistogram seen(kTranges * siblings_);
  seen.Merge(seen_, 1);
  seen_ = std::move(seen);
  partition_ = enabled() ? PartitionFor(partition_, seen_, siblings_) : nullptr;
}

}  // namespace nova
