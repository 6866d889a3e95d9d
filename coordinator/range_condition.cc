#include "coordinator/range_condition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace nova {
namespace {

constexpr std::array<const char*, kRangeConditions> kNames = {"open",     "opening",  "moving",
                                                              "released", "no owner", "unavailable"};

// As the record lists it, with what has become of its files.
std::string Describe(const LogGroup& group, const LogMember& m, CopyState state) {
  return StrCat("StoC ", m.stoc.value(),
                HasMemory(group.media) ? StrCat(" incarnation ", m.incarnation.value()) : "",
                HasFiles(group.media) ? StrCat(" store ", m.store.ToString()) : "",
                state == CopyState::kAway   ? ", away"
                : state == CopyState::kLost ? ", lost"
                                            : "");
}

// Nobody serves the range, nor may serve it: else who has it, or is to have it.
std::string WhoHasIt(const ClusterOptions& options, const ClusterState& state,
                     const ClusterState::Range& range, Nanos now) {
  const RangeRecord& record = range.record;
  const Nanos served_until = record.IsOpen() && record.owner_incarnation != Incarnation()
                                 ? LeaseEnds(options, state, record.owner_incarnation)
                                 : range.old_lease_ends_ns;
  if (!range.moving && served_until <= now) return "";
  return StrCat(record.state == RangeState::kOpen ? "is open at " : "is being moved to ", record.owner);
}

// Which members of the group are missing, and what that means; empty: none is. `lack` is null where one has
// it all.
std::string DescribeGroup(const RangeCopies& copies, const LogGroup& group, const RangeLack* lack) {
  std::vector<std::string> missing;
  for (const LogMember& m : group.members) {
    const CopyState state = copies.Of(group, m);
    if (state != CopyState::kThere) missing.push_back(Describe(group, m, state));
  }
  if (missing.empty()) return "";
  const std::string members = absl::StrJoin(missing, ", ");
  const std::string name = StrCat("log group ", group.id.value());
  if (lack == nullptr) return StrCat(name, ": missing ", members, " (others have it)");
  if (!lack->away.empty())
    return StrCat(name, " is AWAY: ", members,
                  ": what was synced there is on their disks: ", copies.Remedy(*lack));
  const std::string remedy = copies.Remedy(*lack);
  return StrCat(name, " is LOST: ", members, ": writes acknowledged there are gone",
                remedy.empty() ? "" : ", unless their disks are there: " + remedy);
}

// What an operator says of StoCs that will never come back.
std::string DrainsOf(const ClusterState& state, const std::vector<RangeLack>& lacks) {
  std::vector<std::string> drains;
  for (const RangeLack& lack : lacks) {
    for (const StocId stoc : lack.away) {
      std::string drain = StrCat("nova drain --force ", StocName(state, stoc));
      if (std::find(drains.begin(), drains.end(), drain) == drains.end()) drains.push_back(std::move(drain));
    }
  }
  return absl::StrJoin(drains, "; ");
}

}  // namespace

const char* RangeConditionName(RangeCondition condition) { return kNames[static_cast<size_t>(condition)]; }

const OpenFailure* LastFailureOf(const ClusterState& state, const ClusterState::Range& range) {
  const RangeRecord& record = range.record;
  const auto node = state.nodes.find(record.owner);
  const auto report = state.reports.find(record.owner);
  if (record.state == RangeState::kOpen || node == state.nodes.end() || report == state.reports.end() ||
      node->second.incarnation != record.owner_incarnation)
    return nullptr;
  const std::vector<OpenFailure>& failures = report->second.not_opened;
  const auto failure = std::find_if(failures.begin(), failures.end(), [&](const OpenFailure& f) {
    return f.range == record.id && f.epoch == record.epoch;
  });
  return failure == failures.end() ? nullptr : &*failure;
}

RangeCopies::RangeCopies(const ClusterState& state) : s_(state) {
  for (const auto& [name, node] : s_.nodes) {
    if (node.role == Role::kStoc) registered_[node.stoc_id] = &node;
  }
}

CopyState RangeCopies::OfFiles(StocId stoc) const {
  const auto known = s_.stocs.find(stoc);
  const bool lost = known != s_.stocs.end() && known->second.record.presence == StocPresence::kLost;
  return lost ? CopyState::kLost : CopyState::kAway;
}

CopyState RangeCopies::Of(const LogGroup& group, const LogMember& member) const {
  const auto it = registered_.find(member.stoc);
  if (it != registered_.end() && group.Holds(member, it->second->incarnation, it->second->store))
    return CopyState::kThere;
  return HasFiles(group.media) ? OfFiles(member.stoc) : CopyState::kGone;
}

CopyState RangeCopies::OfManifest(StocId stoc) const {
  return registered_.contains(stoc) ? CopyState::kThere : OfFiles(stoc);
}

bool RangeCopies::IsRunning(const LogMember& member) const {
  const auto it = registered_.find(member.stoc);
  return it != registered_.end() && it->second->incarnation == member.incarnation;
}

std::vector<RangeLack> RangeCopies::LacksOf(const RangeRecord& record) const {
  std::vector<RangeLack> lacks;
  // Adds one copy to those of `lack`; false: it is there.
  const auto add = [](StocId stoc, CopyState state, RangeLack* lack) {
    if (state == CopyState::kAway) lack->away.push_back(stoc);
    if (state == CopyState::kLost) lack->lost.push_back(stoc);
    return state != CopyState::kThere;
  };
  for (const LogGroup& group : record.log_groups) {
    RangeLack lack{&group, {}, {}};
    if (std::all_of(group.members.begin(), group.members.end(),
                    [&](const LogMember& m) { return add(m.stoc, Of(group, m), &lack); }))
      lacks.push_back(std::move(lack));
  }
  const std::vector<StocId>& copies = record.manifest.members;
  RangeLack lack;
  if (!copies.empty() && std::all_of(copies.begin(), copies.end(),
                                     [&](StocId stoc) { return add(stoc, OfManifest(stoc), &lack); }))
    lacks.push_back(std::move(lack));
  return lacks;
}

RangeCondition RangeCopies::ConditionOf(const ClusterState::Range& range) const {
  const RangeRecord& r = range.record;
  // An open one has all in its LTC.
  if (r.state != RangeState::kOpen && !LacksOf(r).empty()) return RangeCondition::kUnavailable;
  if (range.moving) return RangeCondition::kMoving;
  const OpenFailure* const failure = LastFailureOf(s_, range);
  if (failure != nullptr && failure->data_loss) return RangeCondition::kUnavailable;
  if (r.released) return RangeCondition::kReleased;
  if (r.owner_incarnation == Incarnation()) return RangeCondition::kNoOwner;
  return r.state == RangeState::kOpen ? RangeCondition::kOpen : RangeCondition::kOpening;
}

std::string RangeCopies::Remedy(const RangeLack& lack) const {
  std::vector<std::string> names;
  for (const StocId stoc : lack.away) names.push_back(StocName(s_, stoc));
  for (const StocId stoc : lack.lost) names.push_back(StocName(s_, stoc) + "(lost)");
  return names.empty() ? "" : "start one of these StoCs: " + absl::StrJoin(names, ", ");
}

bool MayForceOpen(const std::vector<RangeLack>& lacks) {
  return std::all_of(lacks.begin(), lacks.end(),
                     [](const RangeLack& lack) { return lack.group != nullptr && lack.away.empty(); });
}

ForceOpenPlan PlanForceOpen(const ClusterOptions& options, const ClusterState& state, RangeId range,
                            Nanos now) {
  ForceOpenPlan plan;
  const auto it = state.ranges.find(range);
  if (it == state.ranges.end()) {
    plan.report = StrCat("range ", range.value(), ": there is no such range\n");
    return plan;
  }
  const RangeRecord& record = it->second.record;
  const auto tell = [&](const std::string& what) {
    if (!what.empty())
      absl::StrAppend(&plan.report, "range ", range.value(), " epoch ", record.epoch.value(), ": ", what,
                      "\n");
  };
  if (const std::string who = WhoHasIt(options, state, it->second, now); !who.empty()) {
    tell(who);
    return plan;
  }
  const RangeCopies copies(state);
  const std::vector<RangeLack> lacks = copies.LacksOf(record);
  const auto lack_of = [&](const LogGroup* group) {
    const auto lack =
        std::find_if(lacks.begin(), lacks.end(), [&](const RangeLack& l) { return l.group == group; });
    return lack == lacks.end() ? nullptr : &*lack;
  };
  for (const StocId stoc : record.manifest.members) {
    if (copies.OfManifest(stoc) != CopyState::kThere)
      tell(StrCat("manifest copy on StoC ", stoc.value(), " is missing"));
  }
  RangeRecord after = record;
  after.log_groups.clear();
  for (const LogGroup& group : record.log_groups) {
    const RangeLack* const lack = lack_of(&group);
    tell(DescribeGroup(copies, group, lack));
    if (lack == nullptr) after.log_groups.push_back(group);
  }
  if (const RangeLack* const manifest = lack_of(nullptr))
    tell("no copy of the manifest is there, and the range cannot be opened without one: " +
         copies.Remedy(*manifest));
  if (!MayForceOpen(lacks)) {
    if (lack_of(nullptr) == nullptr)
      tell(
          "a log is not given up while StoCs with it are only away; of those that will never come back say "
          "so first: " +
          DrainsOf(state, lacks));
    return plan;
  }
  plan.possible = true;
  if (lacks.empty()) {
    tell("no log group is lost; nothing to force");
    return plan;
  }
  after.epoch = Epoch(record.epoch.value() + 1);
  after.state = RangeState::kSealing;
  after.owner.clear();
  after.owner_incarnation = Incarnation();
  after.released = false;
  plan.move = RangeMove{record, std::move(after)};
  return plan;
}

}  // namespace nova
