#include "stoc/fence_table.h"

#include "common/base/log.h"

namespace nova {
namespace {

constexpr Epoch kEveryEpoch(UINT64_MAX);  // no range comes so far

}  // namespace

bool FenceTable::Admits(RangeId range, Epoch epoch) const {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(range);
  return admit_all_ || it == ranges_.end() || epoch >= it->second.epoch;
}

bool FenceTable::Enter(RangeId range, Epoch epoch) {
  MutexLock lock(&mu_);
  Range& r = ranges_[range];
  if (epoch < r.epoch && !admit_all_) return false;
  ++r.inside[epoch];
  return true;
}

void FenceTable::Leave(RangeId range, Epoch epoch) {
  std::vector<Waiter> ready;
  {
    MutexLock lock(&mu_);
    Range& r = ranges_[range];
    const auto it = r.inside.find(epoch);
    NOVA_CHECK(it != r.inside.end()) << "left without having entered";
    if (--it->second == 0) r.inside.erase(it);
    std::vector<Waiter> rest;
    for (Waiter& w : r.waiters) (r.DrainedBelow(w.epoch) ? ready : rest).push_back(std::move(w));
    r.waiters = std::move(rest);
    if (r.epoch == Epoch() && r.inside.empty()) ranges_.erase(range);  // never fenced: nothing to remember
  }
  for (Waiter& w : ready) w.drained();
}

bool FenceTable::Raise(RangeId range, Epoch epoch, absl::AnyInvocable<void()> drained) {
  {
    MutexLock lock(&mu_);
    Range& r = ranges_[range];
    if (epoch < r.epoch) return false;
    r.epoch = epoch;
    if (!r.DrainedBelow(epoch)) {
      r.waiters.push_back({epoch, std::move(drained)});
      return true;
    }
  }
  drained();
  return true;
}

Epoch FenceTable::epoch(RangeId range) const {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(range);
  return it == ranges_.end() ? Epoch() : it->second.epoch;
}

void FenceTable::RefuseAll(RangeId range) {
  MutexLock lock(&mu_);
  ranges_[range].epoch = kEveryEpoch;
}

void FenceTable::Learn(RangeId range, Epoch epoch) {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(range);
  if (it != ranges_.end() && it->second.epoch == kEveryEpoch) it->second.epoch = epoch;
}

}  // namespace nova
