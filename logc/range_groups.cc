#include "logc/range_groups.h"

#include <algorithm>

namespace nova {

RangeGroups::RangeGroups(const LogGroup& first, size_t lanes, const LogOptions& options)
    : change_pause_ns_(options.change_pause_ns), off_(options.off) {
  MutexLock lock(&mu_);
  current_ = first;
  lane_groups_.assign(lanes, first.id);
}

RangeGroups::Change RangeGroups::Begin(GroupId group) {
  MutexLock lock(&mu_);
  if (current_.id != group) return Change::kReplaced;
  if (changing_) return Change::kUnderWay;
  changing_ = true;
  return Change::kBegun;
}

std::optional<LogGroup> RangeGroups::BeginAny() {
  MutexLock lock(&mu_);
  if (changing_) return std::nullopt;
  changing_ = true;
  return current_;
}

bool RangeGroups::IsChanging(GroupId group) const {
  MutexLock lock(&mu_);
  return changing_ && current_.id == group;
}

void RangeGroups::Install(const LogGroup& next) {
  MutexLock lock(&mu_);
  old_.push_back(current_);
  current_ = next;
  changing_ = false;
}

LogGroup RangeGroups::Current() const {
  MutexLock lock(&mu_);
  return current_;
}

bool RangeGroups::MayReplaceLiving(GroupId group) {
  MutexLock lock(&mu_);
  if (changing_ || current_.id != group) return true;  // it is being replaced, or was
  if (Now() < next_living_change_ns_) return false;
  next_living_change_ns_ = Now() + change_pause_ns_;
  return true;
}

bool RangeGroups::MayReplaceRefusing(GroupId group) {
  MutexLock lock(&mu_);
  if (current_.id != group) return true;
  if (changing_) return false;
  if (Now() >= refusals_end_ns_) {
    refusals_ = 0;
    refusals_end_ns_ = Now() + change_pause_ns_;
  }
  return ++refusals_ <= kMostRefusals;
}

void RangeGroups::AddLog(GroupId group, const Uuid& log, RoundNumber round) {
  MutexLock lock(&mu_);
  logs_[group][log] = round;
}

void RangeGroups::RemoveLog(GroupId group, const Uuid& log) {
  MutexLock lock(&mu_);
  const auto it = logs_.find(group);
  if (it != logs_.end()) it->second.erase(log);
}

void RangeGroups::LaneMoved(size_t lane, GroupId group) {
  MutexLock lock(&mu_);
  lane_groups_[lane] = group;
}

std::vector<Uuid> RangeGroups::Logs() const {
  std::vector<Uuid> logs;
  MutexLock lock(&mu_);
  for (const auto& [group, of_group] : logs_) {
    for (const auto& [log, round] : of_group) logs.push_back(log);
  }
  return logs;
}

bool RangeGroups::any_replaced() const {
  MutexLock lock(&mu_);
  return !old_.empty();
}

std::vector<GroupId> RangeGroups::Unused() const {
  MutexLock lock(&mu_);
  std::vector<GroupId> unused;
  for (const LogGroup& old : old_) {
    const auto it = logs_.find(old.id);
    // A lane that has not moved yet may still open a log of the old group, and acknowledge into it.
    const bool all_moved = off_.l4_all_lanes || std::all_of(lane_groups_.begin(), lane_groups_.end(),
                                                            [&](GroupId g) { return g > old.id; });
    const bool empty = off_.l4_flush_first || it == logs_.end() || it->second.empty();
    if (all_moved && empty) unused.push_back(old.id);
  }
  return unused;
}

void RangeGroups::Forget(const std::vector<GroupId>& groups) {
  MutexLock lock(&mu_);
  const auto is_one = [&](GroupId id) { return std::find(groups.begin(), groups.end(), id) != groups.end(); };
  std::erase_if(old_, [&](const LogGroup& g) { return is_one(g.id); });
  std::erase_if(logs_, [&](const auto& of_group) { return is_one(of_group.first); });
}

std::vector<ExposedRound> RangeGroups::Exposed(const std::vector<NodeInfo>& live) const {
  std::map<RoundNumber, size_t> live_members;
  {
    MutexLock lock(&mu_);
    for (const LogGroup& old : old_) {
      const auto it = logs_.find(old.id);
      if (it == logs_.end()) continue;
      const auto left =
          static_cast<size_t>(std::count_if(old.members.begin(), old.members.end(), [&](const LogMember& m) {
            return std::any_of(live.begin(), live.end(), [&](const NodeInfo& n) {
              return n.stoc_id == m.stoc && old.Holds(m, n.incarnation, n.store);
            });
          }));
      for (const auto& [uuid, round] : it->second) {
        const auto [at, first] = live_members.emplace(round, left);
        if (!first) at->second = std::min(at->second, left);
      }
    }
  }
  std::vector<ExposedRound> rounds;
  for (const auto& [round, left] : live_members) rounds.push_back({round, left});
  std::stable_sort(rounds.begin(), rounds.end(), [](const ExposedRound& a, const ExposedRound& b) {
    return a.live_members < b.live_members;
  });
  return rounds;
}

}  // namespace nova
