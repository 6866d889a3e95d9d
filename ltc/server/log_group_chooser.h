// LogGroupChooser: which StoCs are the members of a range's log (group change, L4), and how many of a group's
// are left.
//
// Thread safety: all.
// Ownership: services, options and backend outlive it.
// Errors: Unavailable: fewer StoCs than a log needs.
#pragma once

#include <set>
#include <vector>

#include "ltc/server/host_services.h"
#include "ltc/server/stoc_backend.h"

namespace nova {

class LogGroupChooser {
 public:
  LogGroupChooser(const HostServices* services, const HostedRangeOptions* options, StocBackend* backend,
                  RangeId range)
      : services_(services), options_(options), backend_(backend), range_(range) {}

  // The least members of a group; with fewer, writes wait (min_replicas).
  size_t LeastMembers() const;
  // Chooses a group: the members of `keep` that live, and others up to R. Not `without`, unless it has
  // started again; none that drains. All of them answer a ping: the coordinator's word on StoCs may be old,
  // and a recovery needs a member of every listed group. Waits.
  StatusOr<LogGroup> PickAnsweringGroup(std::vector<LogMember> keep, const LogMember& without,
                                        GroupId id) const;
  // Living members that still have every acknowledged record.
  size_t MembersLeft(const LogGroup& group) const;
  // A group picked now would have more members than are left: those that could join answer a ping. Waits.
  bool CanGrow(const LogGroup& current) const;

 private:
  // The media of a group that is chosen now, by the LogMode.
  LogMedia MediaOf(const std::vector<NodeInfo>& live) const;
  // PickAnsweringGroup, of StoCs that may not answer, but for those of `silent`.
  StatusOr<LogGroup> Pick(const std::vector<LogMember>& keep, const LogMember& without, GroupId id,
                          const std::set<StocId>& silent) const;
  // Those that no ping within 250 ms finds, or by another incarnation. All are asked side by side; waits.
  std::set<StocId> SilentOf(std::vector<LogMember> members) const;

  const HostServices* const services_;
  const HostedRangeOptions* const options_;
  StocBackend* const backend_;
  const RangeId range_;
};

}  // namespace nova
