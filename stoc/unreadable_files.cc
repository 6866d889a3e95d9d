#include "stoc/unreadable_files.h"

#include <algorithm>

namespace nova {

void UnreadableFiles::Add(const StocFileId& file) {
  MutexLock lock(&mu_);
  ranges_.try_emplace(file);
}

void UnreadableFiles::Forget(const StocFileId& file) {
  MutexLock lock(&mu_);
  ranges_.erase(file);
}

std::vector<StocFileId> UnreadableFiles::List(size_t limit) const {
  std::vector<StocFileId> left;
  MutexLock lock(&mu_);
  for (const auto& [file, ranges] : ranges_) {
    if (left.size() == limit) break;
    if (!IsThere(file)) left.push_back(file);
  }
  return left;
}

std::vector<Uuid> UnreadableFiles::Logs() const {
  std::vector<Uuid> logs;
  for (const StocFileId& file : List(SIZE_MAX)) {
    if (file.part == 0) logs.push_back(file.owner);
  }
  return logs;
}

void UnreadableFiles::Drop(RangeId range, const StocFileId& file) {
  MutexLock lock(&mu_);
  if (const auto it = ranges_.find(file); it != ranges_.end()) it->second.insert(range);
}

std::vector<StocFileId> UnreadableFiles::DroppedByAll(const std::vector<RangeId>& ranges) const {
  std::vector<StocFileId> dropped;
  MutexLock lock(&mu_);
  for (const auto& [file, by] : ranges_) {
    const std::set<RangeId>& dropped_by = by;
    const bool all =
        std::all_of(ranges.begin(), ranges.end(), [&](RangeId r) { return dropped_by.contains(r); });
    if (all && !ranges.empty() && !IsThere(file)) dropped.push_back(file);
  }
  return dropped;
}

}  // namespace nova
