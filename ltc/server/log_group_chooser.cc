#include "ltc/server/log_group_chooser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kAnswerOfMember = 250 * kMillisecond;  // of a log group that is to be listed

}  // namespace

size_t LogGroupChooser::LeastMembers() const {
  const int most = options_->log_replicas;
  const int least = options_->min_replicas > 0 ? options_->min_replicas : std::max(2, most - 1);
  return static_cast<size_t>(std::min(least, most));
}

LogMedia LogGroupChooser::MediaOf(const std::vector<NodeInfo>& live) const {
  switch (options_->log_mode) {
    case LogMode::kPersistent:
      return LogMedia::kFiles;
    case LogMode::kMemoryAndPersistent:
      return LogMedia::kMemoryAndFiles;
    case LogMode::kAuto:
      return std::all_of(live.begin(), live.end(),
                         [&](const NodeInfo& n) { return n.host == live.front().host; })
                 ? LogMedia::kMemoryAndFiles
                 : LogMedia::kMemory;
    default:
      return LogMedia::kMemory;
  }
}

StatusOr<LogGroup> LogGroupChooser::Pick(const std::vector<LogMember>& keep, const LogMember& without,
                                         GroupId id, const std::set<StocId>& silent) const {
  std::vector<StocChoice> others;
  std::set<std::string> hosts;  // of members
  const std::vector<NodeInfo> live = services_->stocs->live();
  LogGroup group{id, {}, MediaOf(live)};
  const auto add = [&](StocId stoc) {
    const auto n =
        std::find_if(live.begin(), live.end(), [&](const NodeInfo& l) { return l.stoc_id == stoc; });
    if (n == live.end()) return;
    group.members.push_back({stoc, n->incarnation, HasFiles(group.media) ? n->store : Uuid{}});
    hosts.insert(n->host);
  };
  for (const LogMember& m : keep) add(m.stoc);
  const bool without_is_live = std::any_of(live.begin(), live.end(), [&](const NodeInfo& n) {
    return n.stoc_id == without.stoc && n.incarnation == without.incarnation;
  });
  for (const StocChoice& s : backend_->LiveStocs()) {
    const bool kept =
        std::any_of(keep.begin(), keep.end(), [&](const LogMember& m) { return m.stoc == s.id; });
    if (!kept && !silent.contains(s.id) && !(without_is_live && s.id == without.stoc)) others.push_back(s);
  }
  const auto wanted = static_cast<size_t>(options_->log_replicas);
  if (group.members.size() < wanted) {
    for (const StocId stoc : backend_->Pick(others, wanted - group.members.size(), hosts)) add(stoc);
  }
  const size_t least = LeastMembers();
  if (group.members.size() < least) {
    return absl::UnavailableError(StrCat("range ", range_.value(), ": a log needs ", least, " StoCs, ",
                                         group.members.size(), " are alive"));
  }
  return group;
}

// A connection that broke says nothing of the process: a new one tells.
std::set<StocId> LogGroupChooser::SilentOf(std::vector<LogMember> members) const {
  const Nanos deadline = Now() + kAnswerOfMember;
  std::set<StocId> silent;
  for (int tries = 0; tries < 3 && !members.empty() && Now() < deadline; ++tries) {
    std::vector<StocId> stocs;
    for (const LogMember& m : members) stocs.push_back(m.stoc);
    const auto answers = services_->stocs->PingAll(stocs, deadline);
    std::vector<LogMember> left;
    for (size_t i = 0; i < members.size(); ++i) {
      if (!answers[i]) {
        left.push_back(members[i]);
      } else if (*answers[i] != members[i].incarnation) {
        silent.insert(members[i].stoc);
      }
    }
    members = std::move(left);
  }
  for (const LogMember& m : members) silent.insert(m.stoc);
  return silent;
}

// A recovery needs a member of every group that is listed, also of one that nothing was ever written to, and
// what the coordinator last said of StoCs may be old.
StatusOr<LogGroup> LogGroupChooser::PickAnsweringGroup(std::vector<LogMember> keep, const LogMember& without,
                                                       GroupId id) const {
  const auto wanted = static_cast<size_t>(options_->log_replicas);
  std::set<StocId> silent;
  std::set<StocId> noted;  // by another range, a moment ago: asked only where there are no others
  for (const NodeInfo& n : services_->stocs->live()) {
    if (services_->silent->Contains(n.stoc_id, n.incarnation)) noted.insert(n.stoc_id);
  }
  for (;;) {
    std::set<StocId> avoid = silent;
    avoid.insert(noted.begin(), noted.end());
    StatusOr<LogGroup> group = Pick(keep, without, id, avoid);
    if (!noted.empty() && (!group.ok() || group->members.size() < wanted)) {
      noted.clear();
      continue;
    }
    NOVA_RETURN_IF_ERROR(group.status());
    const std::set<StocId> found = SilentOf(group->members);
    if (found.empty()) {
      if (group->members.size() < wanted)
        NOVA_LOG(WARNING) << "range " << range_.value() << ": log degraded to " << group->members.size()
                          << " of " << wanted << " members";
      return group;
    }
    for (const LogMember& m : group->members) {
      if (found.contains(m.stoc)) services_->silent->Note(m.stoc, m.incarnation);
    }
    silent.insert(found.begin(), found.end());
    std::erase_if(keep, [&](const LogMember& m) { return silent.contains(m.stoc); });
  }
}

// Members that have what was acknowledged: one that has started again has not what was in its memory.
size_t LogGroupChooser::MembersLeft(const LogGroup& group) const {
  const std::vector<NodeInfo> live = services_->stocs->live();
  return static_cast<size_t>(
      std::count_if(group.members.begin(), group.members.end(), [&](const LogMember& m) {
        return std::any_of(live.begin(), live.end(), [&](const NodeInfo& n) {
          return n.stoc_id == m.stoc && group.Holds(m, n.incarnation, n.store);
        });
      }));
}

// The coordinator calls a StoC live for as long as its lease: one that died just now, and will be back in a
// moment, is none that could join.
bool LogGroupChooser::CanGrow(const LogGroup& current) const {
  size_t stay = 0;
  std::vector<LogMember> could_join;
  for (const NodeInfo& n : services_->stocs->live()) {
    const bool is_member = std::any_of(
        current.members.begin(), current.members.end(),
        [&](const LogMember& m) { return m.stoc == n.stoc_id && m.incarnation == n.incarnation; });
    if (is_member) ++stay;
    if (!is_member && !n.draining && !services_->silent->Contains(n.stoc_id, n.incarnation))
      could_join.push_back({n.stoc_id, n.incarnation, n.store});
  }
  const size_t left = MembersLeft(current);
  if (stay + could_join.size() <= left) return false;
  const std::set<StocId> silent = SilentOf(could_join);
  for (const LogMember& m : could_join) {
    if (silent.contains(m.stoc)) services_->silent->Note(m.stoc, m.incarnation);
  }
  return stay + could_join.size() - silent.size() > left;
}

}  // namespace nova
