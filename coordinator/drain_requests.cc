#include "coordinator/drain_requests.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "coordinator/znode_change.h"

namespace nova {
namespace {

// What ails the disk counts no more, as far as its StoC, if it is heard, has said by now.
void ForgiveDisk(const std::optional<StocWatch::DiskHeard>& heard, StocRecord* record) {
  record->disk = DiskState::kOk;
  record->disk_since_ms = 0;
  if (!heard || heard->report.faults == 0) return;
  record->forgiven_incarnation = heard->incarnation;
  record->forgiven_faults = heard->report.faults;
}

// What an undrained node does now; `changed`: it drained, or its disk has been forgiven something.
std::string TakesPart(const std::string& name, bool changed) {
  return name + (changed ? " takes part again" : " does not drain, and takes part");
}
std::string TakesPart(const StocRecord& stoc, bool changed) {
  if (stoc.presence == StocPresence::kUp) return TakesPart(stoc.name, changed);
  return StrCat(stoc.name, " (StoC ", stoc.id.value(), ") does not drain, and is ",
                PresenceName(stoc.presence), ": it takes part again when it is started with its disk");
}

}  // namespace

// A node whose session ended registers again as soon as it learns of it; until then it has its lease.
Status DrainRequests::NotRegistered(const std::string& node) const {
  bool lives = false;
  mirror_->Look([&](const ClusterMirror::View& view) {
    for (const auto& [incarnation, lease] : view.state.leases)
      lives |= lease.name == node && LeaseEnds(options_, view.state, incarnation) > Now();
  });
  if (lives) return absl::UnavailableError(StrCat(node, " is not registered at the moment"));
  return absl::NotFoundError(StrCat("no node ", node));
}

StatusOr<DrainTarget> DrainRequests::Find(const Term& term, const std::string& node) const {
  if (!IsNodeName(node)) return absl::InvalidArgumentError(StrCat("'", node, "' is no node's name"));
  NOVA_RETURN_IF_ERROR(term.store->Sync());
  NOVA_RETURN_IF_ERROR(mirror_->LoadNode(node));
  NOVA_RETURN_IF_ERROR(mirror_->ReadDirty({kStocsPath}));
  DrainTarget target;
  mirror_->Look([&](const ClusterMirror::View& view) { target = FindDrainTarget(view.state, node); });
  if (target.empty()) return NotRegistered(node);
  return target;
}

Status DrainRequests::CheckStocs(const std::vector<StocId>& stocs, bool force) const {
  Status may;
  mirror_->Look([&](const ClusterMirror::View& view) {
    const bool all_drain = std::all_of(stocs.begin(), stocs.end(), [&](StocId id) {
      const auto stoc = view.state.stocs.find(id);
      return stoc != view.state.stocs.end() && stoc->second.record.draining;
    });
    if (!all_drain) may = CheckMayDrain(view.state, stocs, force);
  });
  return may;
}

Status DrainRequests::CheckLtc(const std::string& ltc) const {
  Status may;
  mirror_->Look([&](const ClusterMirror::View& view) {
    const auto node = view.state.nodes.find(ltc);
    if (node == view.state.nodes.end() || !node->second.draining) may = CheckMayDrain(view.state, ltc);
  });
  return may;
}

StatusOr<std::string> DrainRequests::Drain(const std::string& node, bool force) {
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
  NOVA_ASSIGN_OR_RETURN(const DrainTarget target, Find(term, node));
  if (!target.ltc.empty()) {
    MutexLock lock(&marking_);
    NOVA_RETURN_IF_ERROR(CheckLtc(target.ltc));
    NOVA_RETURN_IF_ERROR(MarkNode(term, target.ltc, true).status());
  } else {
    MutexLock lock(&marking_);
    NOVA_RETURN_IF_ERROR(CheckStocs(target.stocs, force));
    for (const StocId stoc : target.stocs) NOVA_RETURN_IF_ERROR(MarkStoc(term, stoc, true).status());
  }
  std::vector<std::string> left;
  NOVA_RETURN_IF_ERROR(mirror_->LookAsLeader([&](const ClusterMirror::View& view) {
    const auto ltc = view.state.nodes.find(target.ltc);
    if (ltc != view.state.nodes.end()) left.push_back(DrainLeft(view.state, ltc->second));
    for (const StocId stoc : target.stocs) left.push_back(DrainLeft(view.state, stoc));
  }));
  std::erase(left, "");
  return absl::StrJoin(left, "; ");
}

StatusOr<std::string> DrainRequests::Undrain(const std::string& node) {
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
  NOVA_ASSIGN_OR_RETURN(const DrainTarget target, Find(term, node));
  MutexLock lock(&marking_);
  if (!target.ltc.empty()) {
    NOVA_ASSIGN_OR_RETURN(const bool changed, MarkNode(term, target.ltc, false));
    return TakesPart(target.ltc, changed);
  }
  std::vector<std::string> now;
  for (const StocId stoc : target.stocs) {
    NOVA_ASSIGN_OR_RETURN(const bool changed, UndrainStoc(term, stoc));
    mirror_->Look([&](const ClusterMirror::View& view) {
      const auto it = view.state.stocs.find(stoc);
      if (it != view.state.stocs.end()) now.push_back(TakesPart(it->second.record, changed));
    });
  }
  return absl::StrJoin(now, "\n");
}

Status DrainRequests::Forget(StocId stoc) {
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
  NOVA_RETURN_IF_ERROR(term.store->Sync());
  MutexLock lock(&marking_);
  NOVA_RETURN_IF_ERROR(mirror_->LoadStoc(stoc));
  Status may;
  int64_t version = 0;
  NOVA_RETURN_IF_ERROR(mirror_->LookAsLeader([&](const ClusterMirror::View& view) {
    may = CheckMayForget(view.state, stoc);
    if (may.ok()) version = view.state.stocs.at(stoc).record.version;
  }));
  NOVA_RETURN_IF_ERROR(may);
  NOVA_RETURN_IF_ERROR(DeleteZnode(term, StocPath(stoc), version));
  return mirror_->LoadStoc(stoc);
}

StatusOr<bool> DrainRequests::UndrainStoc(const Term& term, StocId stoc) {
  NOVA_ASSIGN_OR_RETURN(bool changed, MarkStoc(term, stoc, false));
  // Earlier coordinators marked the registration.
  std::vector<std::string> marked;
  mirror_->Look([&](const ClusterMirror::View& view) {
    for (const auto& [name, info] : view.state.nodes) {
      if (info.role == Role::kStoc && info.stoc_id == stoc && info.draining) marked.push_back(name);
    }
  });
  for (const std::string& name : marked) {
    NOVA_ASSIGN_OR_RETURN(const bool cleared, MarkNode(term, name, false));
    changed |= cleared;
  }
  return changed;
}

StatusOr<bool> DrainRequests::MarkStoc(const Term& term, StocId stoc, bool draining) {
  StocWatch watch;
  bool silent = false;  // it is registered, and this leader has not heard it yet
  mirror_->Look([&](const ClusterMirror::View& view) {
    const auto it = view.state.stocs.find(stoc);
    if (it != view.state.stocs.end()) watch = it->second;
    for (const auto& [name, node] : view.state.nodes)
      silent |=
          node.role == Role::kStoc && node.stoc_id == stoc && !view.state.leases.contains(node.incarnation);
  });
  bool changed = false;
  const Status s =
      ChangeZnode(term, StocPath(stoc), [&](const Znode& node) -> StatusOr<std::optional<std::string>> {
        NOVA_ASSIGN_OR_RETURN(StocRecord record, StocRecord::Decode(stoc, node.data, node.version));
        const StocRecord before = record;
        record.draining = draining;
        if (!draining && silent && IsDiskFault(record.disk)) {
          return absl::UnavailableError(
              StrCat(record.name, " has not said yet what its disk has done: ask again in a moment"));
        }
        if (!draining) ForgiveDisk(watch.disk_heard, &record);
        if (record == before) return std::nullopt;
        changed = true;
        return record.Encode();
      });
  if (absl::IsNotFound(s)) return absl::NotFoundError(StrCat("StoC ", stoc.value(), " has no record"));
  NOVA_RETURN_IF_ERROR(s);
  NOVA_RETURN_IF_ERROR(mirror_->LoadStoc(stoc));
  return changed;
}

StatusOr<bool> DrainRequests::MarkNode(const Term& term, const std::string& name, bool draining) {
  bool changed = false;
  const Status s =
      ChangeZnode(term, NodePath(name), [&](const Znode& node) -> StatusOr<std::optional<std::string>> {
        NOVA_ASSIGN_OR_RETURN(NodeInfo info, DecodeNodeInfo(node.data));
        if (info.draining == draining) return std::nullopt;
        changed = true;
        info.draining = draining;
        return EncodeNodeInfo(info);
      });
  if (absl::IsNotFound(s)) return NotRegistered(name);
  NOVA_RETURN_IF_ERROR(s);
  NOVA_RETURN_IF_ERROR(mirror_->LoadNode(name));
  return changed;
}

}  // namespace nova
