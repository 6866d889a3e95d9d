#include "coordinator/cluster_mirror.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr const char* kFolders[] = {kNodesPath, kStocsPath, kRangesPath};

std::string_view LastName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Of the name of a range's or a StoC's znode; 0: it is none.
template <typename SomeId, typename Number>
SomeId IdOf(std::string_view name) {
  Number id = 0;
  return absl::SimpleAtoi(absl::string_view(name.data(), name.size()), &id) && StrCat(id) == name ? SomeId(id)
                                                                                                  : SomeId();
}
RangeId RangeIdOf(std::string_view name) { return IdOf<RangeId, uint64_t>(name); }
StocId StocIdOf(std::string_view name) { return IdOf<StocId, uint32_t>(name); }

// `name` was known, and is not in its folder any more.
ClusterEvent GoneEvent(const std::string& folder, const std::string& name) {
  if (folder == kNodesPath) return NodeGoneEvent{name};
  if (folder == kStocsPath) return StocGoneEvent{StocIdOf(name)};
  return RangeGoneEvent{RangeIdOf(name)};
}

}  // namespace

// --- reading the ConfigStore

void ClusterMirror::Begin(const Term& term) {
  MutexLock lock(&mu_);
  config_version_ = term.coord_epoch.value() << 32 | 1;
  range_changes_.Clear(config_version_);
  node_changes_.Clear(config_version_);
  StepLocked(ElectedEvent{term.coord_epoch, term.max_lease_ns});
}

StatusOr<std::shared_ptr<ConfigStore>> ClusterMirror::Store() const {
  std::shared_ptr<ConfigStore> store = election_->LatestTerm().store;
  if (store == nullptr) return absl::UnavailableError("no session");
  return store;
}

std::set<std::string> ClusterMirror::KnownNamesLocked(const std::string& folder) const {
  std::set<std::string> names;
  if (folder == kNodesPath) {
    for (const auto& [name, node] : state_.nodes) names.insert(name);
  } else if (folder == kStocsPath) {
    for (const auto& [id, stoc] : state_.stocs) names.insert(StrCat(id.value()));
  } else {
    for (const auto& [id, range] : state_.ranges) names.insert(StrCat(id.value()));
  }
  return names;
}

Status ClusterMirror::LoadAll() {
  Status first = ReadDirty({kSettingsPath});
  for (const std::string folder : kFolders) {
    first.Update(ReadDirty({folder}));
    std::set<std::string> paths;
    {
      MutexLock lock(&mu_);
      for (const std::string& name : KnownNamesLocked(folder)) paths.insert(StrCat(folder, "/", name));
    }
    first.Update(ReadDirty(paths));
  }
  return first;
}

Status ClusterMirror::LoadChildren(const std::string& path) {
  session_->WatchOnce(path);
  NOVA_ASSIGN_OR_RETURN(const auto store, Store());
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->Children(path));
  std::set<std::string> unknown(names.begin(), names.end());
  {
    MutexLock lock(&mu_);
    for (const std::string& name : KnownNamesLocked(path)) {
      if (unknown.erase(name) == 0) StepLocked(GoneEvent(path, name));
    }
  }
  for (const std::string& name : unknown) NOVA_RETURN_IF_ERROR(ReadDirty({StrCat(path, "/", name)}));
  return OkStatus();
}

Status ClusterMirror::LoadNode(const std::string& name) {
  session_->WatchOnce(NodePath(name));
  NOVA_ASSIGN_OR_RETURN(const auto store, Store());
  const StatusOr<Znode> node = store->Get(NodePath(name));
  if (absl::IsNotFound(node.status())) {
    Step(NodeGoneEvent{name});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(node.status());
  StatusOr<NodeInfo> info = DecodeNodeInfo(node->data);
  if (!info.ok() || info->name != name) {
    NOVA_LOG(ERROR) << NodePath(name) << " is not a node's record; ignored: " << info.status().message();
    return OkStatus();
  }
  Step(NodeSeenEvent{*std::move(info)});
  return OkStatus();
}

Status ClusterMirror::LoadRange(RangeId id) {
  session_->WatchOnce(RangePath(id));
  NOVA_ASSIGN_OR_RETURN(const auto store, Store());
  const StatusOr<Znode> node = store->Get(RangePath(id));
  if (absl::IsNotFound(node.status())) {
    Step(RangeGoneEvent{id});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(node.status());
  StatusOr<RangeRecord> record = RangeRecord::Decode(node->data, node->version);
  if (!record.ok() || record->id != id) {
    NOVA_LOG(ERROR) << RangePath(id) << " is not that range's record; ignored: " << record.status().message();
    return OkStatus();
  }
  Step(RangeReadEvent{*std::move(record)});
  return OkStatus();
}

Status ClusterMirror::LoadStoc(StocId id) {
  session_->WatchOnce(StocPath(id));
  NOVA_ASSIGN_OR_RETURN(const auto store, Store());
  const StatusOr<Znode> node = store->Get(StocPath(id));
  if (absl::IsNotFound(node.status())) {
    Step(StocGoneEvent{id});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(node.status());
  StatusOr<StocRecord> record = StocRecord::Decode(id, node->data, node->version);
  if (!record.ok()) {
    NOVA_LOG(ERROR) << StocPath(id) << " is not that StoC's record; ignored: " << record.status().message();
    return OkStatus();
  }
  Step(StocReadEvent{*std::move(record)});
  return OkStatus();
}

Status ClusterMirror::LoadSettings() {
  session_->WatchOnce(kSettingsPath);
  NOVA_ASSIGN_OR_RETURN(const auto store, Store());
  const StatusOr<Znode> node = store->Get(kSettingsPath);
  if (!node.ok() && !absl::IsNotFound(node.status())) return node.status();
  Step(node.ok() ? SettingsReadEvent{LtcSettings::Decode(node->data), node->version} : SettingsReadEvent());
  return OkStatus();
}

Status ClusterMirror::ReadDirty(const std::set<std::string>& paths) {
  Status first;
  for (const std::string& path : paths) {
    Status s;
    const std::string_view view(path), name = LastName(path);
    if (std::find(std::begin(kFolders), std::end(kFolders), view) != std::end(kFolders)) {
      s = LoadChildren(path);
    } else if (view == kSettingsPath) {
      s = LoadSettings();
    } else if (view.starts_with(StrCat(kNodesPath, "/"))) {
      s = LoadNode(std::string(name));
    } else if (view.starts_with(StrCat(kStocsPath, "/"))) {
      if (const StocId id = StocIdOf(name); id != StocId()) s = LoadStoc(id);
    } else if (view.starts_with(StrCat(kRangesPath, "/"))) {
      if (const RangeId id = RangeIdOf(name); id != RangeId()) s = LoadRange(id);
    }
    if (s.ok()) continue;
    if (first.ok()) first = s;
    session_->MarkDirty(path);
  }
  return first;
}

// --- events

ClusterDecisions ClusterMirror::StepLocked(const ClusterEvent& event) {
  ClusterDecisions decisions = nova::Step(options_, &state_, event, Now());
  NOVA_DCHECK(CheckInvariants(state_).empty()) << CheckInvariants(state_);
  NoteChangesLocked();
  return decisions;
}

ClusterDecisions ClusterMirror::Step(const ClusterEvent& event) {
  MutexLock lock(&mu_);
  return StepLocked(event);
}

void ClusterMirror::NoteChangesLocked() {
  if (state_.changed_ranges.empty() && state_.changed_nodes.empty()) return;
  ++config_version_;
  for (const RangeId id : state_.changed_ranges)
    range_changes_.Note(id, config_version_, state_.ranges.contains(id));
  for (const std::string& name : state_.changed_nodes) {
    node_changes_.Note(name, config_version_, state_.nodes.contains(name));
  }
  state_.changed_ranges.clear();
  state_.changed_nodes.clear();
}

ClusterDecisions ClusterMirror::Tick(Nanos authority_until_ns, Nanos deaf_ns, int64_t wall_ms) {
  MutexLock lock(&mu_);
  StepLocked(AuthorityEvent{authority_until_ns});
  return StepLocked(TickEvent{deaf_ns, wall_ms});
}

StatusOr<HeartbeatAnswer> ClusterMirror::Heartbeat(const HeartbeatEvent& event, CoordEpoch* coord_epoch) {
  MutexLock lock(&mu_);
  // Lease (C3): the authority is that of the term whose state this is; a later one's would grant leases that
  // do not know of the moves between.
  NOVA_ASSIGN_OR_RETURN(const Nanos until, election_->AuthorityIn(state_.coord_epoch));
  StepLocked(AuthorityEvent{until});
  *coord_epoch = state_.coord_epoch;
  return *StepLocked(event).answer;
}

void ClusterMirror::MoveDone(CoordEpoch term, const AssignDoneEvent& event) {
  MutexLock lock(&mu_);
  if (state_.coord_epoch == term) StepLocked(event);
}

void ClusterMirror::StocChangeDone(CoordEpoch term, const StocChangeDoneEvent& event) {
  MutexLock lock(&mu_);
  if (state_.coord_epoch == term) StepLocked(event);
}

void ClusterMirror::RangesWritten(CoordEpoch term, const std::vector<RangeRecord>& records) {
  MutexLock lock(&mu_);
  if (state_.coord_epoch != term) return;
  for (const RangeRecord& r : records) StepLocked(RangeReadEvent{r});
}

void ClusterMirror::RangeWritten(RangeRecord record) { Step(RangeReadEvent{std::move(record)}); }

// --- looking at it

void ClusterMirror::Look(Looker fn) const {
  MutexLock lock(&mu_);
  fn({state_, config_version_, range_changes_, node_changes_});
}

Status ClusterMirror::LookAsLeader(Looker fn) const {
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(election_->AuthorityIn(state_.coord_epoch).status());
  fn({state_, config_version_, range_changes_, node_changes_});
  return OkStatus();
}

Nanos ClusterMirror::EarlierLeasesOver() const {
  MutexLock lock(&mu_);
  return state_.elected_ns + 2 * state_.longest_lease_ns;
}

}  // namespace nova
