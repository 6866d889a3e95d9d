#include "ltc/server/snapshot_table.h"

namespace nova {

uint64_t SnapshotTable::Add(RangeId range, Epoch epoch, std::shared_ptr<Snapshot> snapshot, Nanos now_ns) {
  MutexLock lock(&mu_);
  if (count_[range] >= max_per_range_)
    EraseIfLocked([&](const Held& h) { return h.range == range && !h.snapshot->live(now_ns); });
  if (count_[range] >= max_per_range_) return 0;
  if (++last_id_ == 0) ++last_id_;
  held_.emplace(last_id_, Held{range, epoch, std::move(snapshot)});
  ++count_[range];
  return last_id_;
}

const SnapshotTable::Held* SnapshotTable::FindLocked(RangeId range, Epoch epoch, uint64_t id) const {
  const auto it = held_.find(id);
  return it != held_.end() && it->second.range == range && it->second.epoch == epoch ? &it->second : nullptr;
}

std::shared_ptr<Snapshot> SnapshotTable::Find(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns) const {
  MutexLock lock(&mu_);
  const Held* held = FindLocked(range, epoch, id);
  return held != nullptr && held->snapshot->live(now_ns) ? held->snapshot : nullptr;
}

bool SnapshotTable::Renew(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns, Nanos expires_ns) {
  MutexLock lock(&mu_);
  const Held* held = FindLocked(range, epoch, id);
  return held != nullptr && held->snapshot->Renew(now_ns, expires_ns);
}

bool SnapshotTable::Drop(RangeId range, Epoch epoch, uint64_t id, Nanos now_ns) {
  std::shared_ptr<Snapshot> dropped;  // the range lets go of it once nobody reads at it
  MutexLock lock(&mu_);
  const Held* held = FindLocked(range, epoch, id);
  if (held == nullptr) return false;
  dropped = held->snapshot;
  held_.erase(id);
  --count_[range];
  return dropped->live(now_ns);
}

void SnapshotTable::EraseIfLocked(const std::function<bool(const Held&)>& gone) {
  auto* const count = &count_;  // clang does not know that the closure runs here
  absl::erase_if(held_, [&gone, count](const auto& entry) {
    if (!gone(entry.second)) return false;
    --(*count)[entry.second.range];
    return true;
  });
  absl::erase_if(count_, [](const auto& entry) { return entry.second == 0; });
}

void SnapshotTable::KeepOnly(const std::function<bool(RangeId, Epoch)>& here) {
  MutexLock lock(&mu_);
  EraseIfLocked([&](const Held& h) { return !here(h.range, h.epoch); });
}

void SnapshotTable::Sweep(Nanos now_ns) {
  MutexLock lock(&mu_);
  EraseIfLocked([&](const Held& h) { return !h.snapshot->live(now_ns); });
}

size_t SnapshotTable::size() const {
  MutexLock lock(&mu_);
  return held_.size();
}

}  // namespace nova
