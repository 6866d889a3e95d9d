#include "coordinator/coordinator_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/rdma/fabric_metrics.h"
#include "common/rdma/port_counters.h"
#include "coordinator/coordinator.pb.h"
#include "coordinator/leader_channel.h"
#include "coordinator/status_text.h"

namespace nova {
namespace {

constexpr size_t kMaxBoundBytes = 1024;         // keeps a RangeRecord under 4 KB
constexpr size_t kMaxCreateBytes = 512 * 1024;  // of one multi; ZooKeeper refuses 1 MB
constexpr size_t kMoveQueue = 4096;
constexpr Nanos kVacancyCheckNs = 500 * kMillisecond;
constexpr Nanos kRetryNs = 100 * kMillisecond;
constexpr int kSettleTries = 100;
// Of coord.main while it leads, if the machine and the store are well.
constexpr Nanos kLongestRound = 500 * kMillisecond;

StatusOr<RangeId> RangeIdOf(std::string_view name) {
  uint64_t id = 0;
  if (!absl::SimpleAtoi(absl::string_view(name.data(), name.size()), &id) || id == 0) {
    return absl::DataLossError(StrCat("not a range id: ", std::string(name)));
  }
  return RangeId(id);
}

void FillRoute(const ClusterState& state, const RangeRecord& record, proto::Route* route) {
  route->set_range(record.id.value());
  route->set_lower(record.lower);
  route->set_upper(record.upper);
  route->set_epoch(record.epoch.value());
  route->set_open(record.state == RangeState::kOpen && !record.released);
  if (!record.released) route->set_address(OwnerAddress(state, record));
}

FabricCounters FabricCountersOf(const proto::FabricCounters& in) {
  FabricCounters c;
  c.regions = in.regions();
  c.connections = in.connections();
  c.pending_requests = in.pending_requests();
  c.bytes_sent = in.bytes_sent();
  c.bytes_written = in.bytes_written();
  c.bytes_read = in.bytes_read();
  c.protocol_errors = in.protocol_errors();
  c.access_errors = in.access_errors();
  return c;
}

template <typename Message>
StatusOr<Message> Parse(const std::string& bytes) {
  Message m;
  if (!m.ParseFromString(bytes)) return absl::InvalidArgumentError("malformed request");
  return m;
}

}  // namespace

CoordinatorService::CoordinatorService(CoordinatorOptions options, OpenStore open_store, Metrics* metrics)
    : options_(std::move(options)),
      open_store_(std::move(open_store)),
      heartbeats_(metrics->counter("nova_coordinator_heartbeats_total")),
      moves_(metrics->counter("nova_coordinator_range_moves_total")),
      failed_moves_(metrics->counter("nova_coordinator_range_moves_refused_total")),
      elections_(metrics->counter("nova_coordinator_elections_won_total")),
      step_downs_(metrics->counter("nova_coordinator_step_downs_total")),
      queue_(kMoveQueue) {
  AddFabricCounters(metrics, "nova_cluster_fabric", [this] { return FabricOfNodes(); });
  const auto add = [this, metrics](const char* what, CopyCounts Redundancy::*copies) {
    const auto tell = [&](const char* name, auto CopyCounts::*field) {
      metrics->AddCallback(StrCat("nova_cluster_", what, name), [this, copies, field] {
        return static_cast<double>(RedundancyNow().*copies.*field);
      });
    };
    tell("", &CopyCounts::all);
    tell("_degraded", &CopyCounts::degraded);
    tell("_fewest_copies", &CopyCounts::fewest);
    tell("_copies_configured", &CopyCounts::wanted);
  };
  add("log_groups", &Redundancy::logs);
  add("manifests", &Redundancy::manifests);
  add("tables", &Redundancy::tables);
}

// As nodes last said; of a coordinator that does not lead: nothing.
FabricCounters CoordinatorService::FabricOfNodes() const {
  FabricCounters sum;
  MutexLock lock(&mu_);
  if (!CheckLeadingLocked().ok()) return sum;
  for (const auto& [name, report] : state_.reports) AddCounters(&sum, report.fabric);
  return sum;
}

Redundancy CoordinatorService::RedundancyNow() const {
  MutexLock lock(&mu_);
  return CheckLeadingLocked().ok() ? CountRedundancy(state_) : Redundancy{};
}

StatusOr<std::unique_ptr<CoordinatorService>> CoordinatorService::Start(CoordinatorOptions options,
                                                                        OpenStore open_store,
                                                                        Metrics* metrics) {
  if (!IsNodeName(options.name))
    return absl::InvalidArgumentError(StrCat("bad coordinator name '", options.name, "'"));
  std::unique_ptr<CoordinatorService> service(
      new CoordinatorService(std::move(options), std::move(open_store), metrics));
  NOVA_ASSIGN_OR_RETURN(std::shared_ptr<ConfigStore> store, service->open_store_());
  NOVA_RETURN_IF_ERROR(service->Bootstrap(store.get()));
  {
    MutexLock lock(&service->mu_);
    service->store_ = std::move(store);
  }
  CoordinatorService* s = service.get();
  for (uint32_t i = 0; i < s->options_.movers; ++i) {
    s->movers_.push_back(std::make_unique<Thread>(StrCat("coord.mover.", i), [s] { s->RunMover(); }));
  }
  s->main_ = std::make_unique<Thread>("coord.main.0", [s] { s->Run(); });
  return service;
}

CoordinatorService::~CoordinatorService() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    wake_.SignalAll();
  }
  queue_.Close();
  if (main_ != nullptr) main_->Join();
  for (const auto& mover : movers_) mover->Join();
  std::shared_ptr<ConfigStore> store;
  {
    MutexLock lock(&mu_);
    store.swap(store_);
    term_.store.reset();
  }
  store.reset();
}

bool CoordinatorService::leading() const {
  MutexLock lock(&mu_);
  return CheckLeadingLocked().ok();
}

CoordEpoch CoordinatorService::coord_epoch() const {
  MutexLock lock(&mu_);
  return term_.coord_epoch;
}

// ---- leadership

void CoordinatorService::Run() {
  while (true) {
    std::shared_ptr<ConfigStore> store;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      store = store_;
    }
    if (store == nullptr || store->session_state() == SessionState::kExpired) {
      {
        MutexLock lock(&mu_);
        store_.reset();
        term_.store.reset();
        watched_.clear();
        ++watch_session_;
      }
      store.reset();  // ends the old session's callbacks
      StatusOr<std::unique_ptr<ConfigStore>> opened = open_store_();
      MutexLock lock(&mu_);
      if (opened.ok()) {
        store_ = std::move(*opened);
      } else if (!stopping_) {
        NOVA_LOG(WARNING) << options_.name << ": " << opened.status().message();
        wake_.WaitUntil(&mu_, Now() + kRetryNs);
      }
      continue;
    }
    StatusOr<Term> term = Campaign(store);
    if (term.ok()) {
      elections_->Add();
      NOVA_LOG(INFO) << options_.name << ": leads, coord_epoch " << term->coord_epoch.value();
      Lead(*term);
      Vacate(store.get());
      continue;
    }
    if (absl::IsAlreadyExists(term.status())) {
      WaitForVacancy(store.get());
    } else if (!absl::IsAborted(term.status())) {
      MutexLock lock(&mu_);
      if (!stopping_) wake_.WaitUntil(&mu_, Now() + kRetryNs);
    }
  }
}

Status CoordinatorService::Bootstrap(ConfigStore* store) {
  const auto create = [store](const std::string& path, const std::string& data) {
    while (true) {
      const Status s = store->Create(path, data);
      if (absl::IsUnknown(s)) continue;  // the next try tells; an expired session ends it
      return absl::IsAlreadyExists(s) ? OkStatus() : s;
    }
  };
  NOVA_RETURN_IF_ERROR(create(kClusterPath, ClusterRecord{kClusterFormat, Uuid::Generate()}.Encode()));
  NOVA_ASSIGN_OR_RETURN(const Znode node, store->Get(kClusterPath));
  NOVA_ASSIGN_OR_RETURN(const ClusterRecord cluster, ClusterRecord::Decode(node.data));
  for (const char* path : {kNodesPath, kStocsPath, kRangesPath, kEpochsPath, kCoordPath}) {
    NOVA_RETURN_IF_ERROR(create(path, ""));
  }
  NOVA_RETURN_IF_ERROR(create(kRangeIdPath, "0"));
  MutexLock lock(&mu_);
  cluster_ = cluster.uuid;
  return OkStatus();
}

StatusOr<CoordinatorService::Term> CoordinatorService::Campaign(const std::shared_ptr<ConfigStore>& store) {
  NOVA_ASSIGN_OR_RETURN(const Znode node, store->Get(kCoordPath));
  NOVA_ASSIGN_OR_RETURN(const CoordRecord before, CoordRecord::Decode(node.data));
  CoordRecord mine;
  mine.coord_epoch = CoordEpoch(before.coord_epoch.value() + 1);
  mine.leader = options_.name;
  mine.address = options_.address;
  mine.max_lease_ns = std::max(before.max_lease_ns, options_.cluster.lease_ns);
  mine.nonce = Uuid::Generate();
  const Status s = store->Multi({ConfigOp::Create(kCoordLeaderPath, options_.name, true),
                                 ConfigOp::Set(kCoordPath, mine.Encode(), node.version)});
  if (s.ok()) return Term{store, mine.coord_epoch, node.version + 1, mine.max_lease_ns, mine.nonce};
  if (absl::IsUnknown(s)) return SettleElection(store, mine, node.version);
  if (!absl::IsAlreadyExists(s)) return s;
  NOVA_ASSIGN_OR_RETURN(const Znode leader, store->Get(kCoordLeaderPath));
  if (leader.mine) {  // left from a term of ours that ended in doubt
    NOVA_RETURN_IF_ERROR(
        store->Multi({ConfigOp::Check(kCoordPath, node.version), ConfigOp::Delete(kCoordLeaderPath)}));
    return absl::AbortedError("campaign again");
  }
  MutexLock lock(&mu_);
  leader_name_ = before.leader;
  leader_address_ = before.address == options_.address ? "" : before.address;
  return s;
}

StatusOr<CoordinatorService::Term> CoordinatorService::SettleElection(
    const std::shared_ptr<ConfigStore>& store, const CoordRecord& mine, int64_t version_before) {
  for (int i = 0; i < kSettleTries; ++i) {
    const Status synced = store->Sync();
    const StatusOr<Znode> node = store->Get(kCoordPath);
    if (synced.ok() && node.ok()) {
      NOVA_ASSIGN_OR_RETURN(const CoordRecord now, CoordRecord::Decode(node->data));
      if (node->version == version_before + 1 && now.nonce == mine.nonce) {
        return Term{store, mine.coord_epoch, node->version, mine.max_lease_ns, mine.nonce};
      }
      return absl::AbortedError("campaign again");
    }
    if (store->session_state() == SessionState::kExpired) break;
  }
  return absl::UnavailableError("the outcome of the election is not known");
}

// Leaves in order when the session still lives; else the node goes with the session. While /coord is as we
// left it nobody else has led, so the node is ours.
void CoordinatorService::Vacate(ConfigStore* store) {
  if (store->session_state() != SessionState::kConnected) return;
  int64_t coord_version = 0;
  {
    MutexLock lock(&mu_);
    coord_version = term_.coord_version;
  }
  store->Multi({ConfigOp::Check(kCoordPath, coord_version), ConfigOp::Delete(kCoordLeaderPath)})
      .IgnoreError();
}

void CoordinatorService::WaitForVacancy(ConfigStore* store) {
  WatchOnce(kCoordLeaderPath);
  const StatusOr<Znode> leader = store->Get(kCoordLeaderPath);
  if (!leader.ok()) return;
  const Nanos until = Now() + kVacancyCheckNs;
  MutexLock lock(&mu_);
  while (!stopping_ && !dirty_.contains(kCoordLeaderPath) && Now() < until) wake_.WaitUntil(&mu_, until);
  dirty_.clear();
}

Nanos CoordinatorService::AuthorityUntilLocked() const {
  if (term_.store == nullptr) return 0;
  const Nanos timeout = term_.store->session_timeout_ns();
  return term_.store->last_answered_send_ns() + timeout -
         static_cast<Nanos>(static_cast<double>(timeout) * options_.cluster.clock_rate_error);
}

Status CoordinatorService::CheckLeadingLocked() const {
  if (!leading_) return NotLeadingError(leader_address_);
  if (Now() >= AuthorityUntilLocked()) return NotLeadingError("");
  return OkStatus();
}

StatusOr<CoordinatorService::Term> CoordinatorService::CurrentTerm() const {
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
  return term_;
}

void CoordinatorService::Lead(Term term) {
  {
    MutexLock lock(&mu_);
    term_ = term;
    leader_name_ = options_.name;
    leader_address_.clear();
    dirty_.clear();
    config_version_ = term.coord_epoch.value() << 32 | 1;
    range_changes_.Clear(config_version_);
    node_changes_.Clear(config_version_);
    StepLocked(ElectedEvent{term.coord_epoch, term.max_lease_ns});
  }
  Status status = LoadAll();
  Nanos next_tick = Now();
  Nanos last_tick = Now();
  Nanos next_check = Now() + options_.authority_check_ns;
  Nanos next_reread = Now() + options_.reread_ns;
  while (status.ok()) {
    std::set<std::string> dirty;
    {
      MutexLock lock(&mu_);
      leading_ = true;
      while (!stopping_ && dirty_.empty() && Now() < next_tick) wake_.WaitUntil(&mu_, next_tick);
      if (stopping_) break;
      dirty.swap(dirty_);
    }
    if (Now() >= next_reread) {
      LoadAll().IgnoreError();  // what could not be read now is read at the next turn
      next_reread = Now() + options_.reread_ns;
    }
    if (!ReadDirty(dirty).ok()) SleepFor(kRetryNs);
    if (Now() >= next_check || dirty.contains(kCoordPath)) {
      status = ProveAuthority();
      next_check = Now() + options_.authority_check_ns;
    }
    std::vector<RangeMove> moves;
    {
      MutexLock lock(&mu_);
      if (!status.ok() || Now() >= AuthorityUntilLocked() ||
          term.store->session_state() == SessionState::kExpired)
        break;
      StepLocked(AuthorityEvent{AuthorityUntilLocked()});
      // Absence is not death (C2'): in a round that took far longer than usual this process did not run, or
      // waited for the store: as good as deaf. What is usual counts as listening all the same, or slow rounds
      // would keep the dead in office.
      const Nanos round = Now() - std::exchange(last_tick, Now());
      moves = StepLocked(TickEvent{std::max<Nanos>(0, round - kLongestRound)}).moves;
    }
    for (RangeMove& move : moves) {
      const RangeId id = move.before.id;
      if (queue_.TryPush(Move{term.coord_epoch, std::move(move)})) continue;
      MutexLock lock(&mu_);
      StepLocked(AssignDoneEvent{id, std::nullopt});
    }
    LowerLongestLease();
    next_tick = Now() + options_.tick_ns;
  }
  MutexLock lock(&mu_);
  leading_ = false;
  step_downs_->Add();
  NOVA_LOG(INFO) << options_.name << ": steps down from coord_epoch " << term.coord_epoch.value() << " "
                 << (stopping_     ? "in order"
                     : status.ok() ? "because its session is in doubt"
                                   : status.ToString());
}

Status CoordinatorService::ProveAuthority() {
  Term term;
  {
    MutexLock lock(&mu_);
    term = term_;
  }
  const StatusOr<Znode> node = term.store->Get(kCoordPath);
  if (!node.ok()) return OkStatus();  // no proof: AuthorityUntil runs out by itself
  if (node->version != term.coord_version) {
    const StatusOr<CoordRecord> record = CoordRecord::Decode(node->data);
    if (!record.ok() || record->nonce != term.nonce) return absl::AbortedError("another coordinator leads");
    MutexLock lock(&mu_);
    term_.coord_version = node->version;  // LowerLongestLease, its answer lost
    term_.max_lease_ns = record->max_lease_ns;
  }
  return OkStatus();
}

// Once the leases of earlier leaders have ended, later ones need not wait for them (new leader, C2).
void CoordinatorService::LowerLongestLease() {
  Term term;
  {
    MutexLock lock(&mu_);
    term = term_;
    const Nanos earlier_end = state_.elected_ns + 2 * state_.longest_lease_ns;
    if (term.max_lease_ns <= options_.cluster.lease_ns || Now() < earlier_end) return;
  }
  CoordRecord record;
  record.coord_epoch = term.coord_epoch;
  record.leader = options_.name;
  record.address = options_.address;
  record.max_lease_ns = options_.cluster.lease_ns;
  record.nonce = term.nonce;
  if (!term.store->Set(kCoordPath, record.Encode(), term.coord_version).ok()) return;
  MutexLock lock(&mu_);
  if (term_.coord_epoch != term.coord_epoch) return;
  term_.coord_version = term.coord_version + 1;
  term_.max_lease_ns = record.max_lease_ns;
}

// ---- reading

void CoordinatorService::MarkDirty(const std::string& path) {
  MutexLock lock(&mu_);
  dirty_.insert(path);
  wake_.SignalAll();
}

void CoordinatorService::WatchOnce(const std::string& path) {
  std::shared_ptr<ConfigStore> store;
  uint64_t session = 0;
  {
    MutexLock lock(&mu_);
    if (store_ == nullptr || !watched_.insert(path).second) return;
    store = store_;
    session = watch_session_;
  }
  store->Watch(path, [this, path, session] {
    MutexLock lock(&mu_);
    if (session != watch_session_) return;
    watched_.erase(path);
    dirty_.insert(path);
    wake_.SignalAll();
  });
}

Status CoordinatorService::LoadAll() {
  for (const char* folder : {kNodesPath, kRangesPath}) {
    NOVA_RETURN_IF_ERROR(LoadChildren(folder));
    std::vector<std::string> paths;
    {
      MutexLock lock(&mu_);
      if (folder == kNodesPath) {
        for (const auto& [name, node] : state_.nodes) paths.push_back(NodePath(name));
      } else {
        for (const auto& [id, range] : state_.ranges) paths.push_back(RangePath(id));
      }
    }
    NOVA_RETURN_IF_ERROR(ReadDirty(std::set<std::string>(paths.begin(), paths.end())));
  }
  return OkStatus();
}

Status CoordinatorService::LoadChildren(const std::string& path) {
  WatchOnce(path);
  std::shared_ptr<ConfigStore> store;
  {
    MutexLock lock(&mu_);
    store = term_.store;
  }
  NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->Children(path));
  const std::set<std::string> there(names.begin(), names.end());
  std::vector<std::string> unknown;
  {
    MutexLock lock(&mu_);
    if (path == kNodesPath) {
      std::vector<std::string> gone;
      for (const auto& [name, node] : state_.nodes) {
        if (!there.contains(name)) gone.push_back(name);
      }
      for (const std::string& name : gone) StepLocked(NodeGoneEvent{name});
      for (const std::string& name : there) {
        if (!state_.nodes.contains(name)) unknown.push_back(name);
      }
    } else {
      std::vector<RangeId> gone;
      for (const auto& [id, range] : state_.ranges) {
        if (!there.contains(StrCat(id.value()))) gone.push_back(id);
      }
      for (const RangeId id : gone) StepLocked(RangeGoneEvent{id});
      for (const std::string& name : there) {
        const StatusOr<RangeId> id = RangeIdOf(name);
        if (id.ok() && !state_.ranges.contains(*id)) unknown.push_back(name);
      }
    }
  }
  for (const std::string& name : unknown) NOVA_RETURN_IF_ERROR(ReadDirty({StrCat(path, "/", name)}));
  return OkStatus();
}

Status CoordinatorService::LoadNode(const std::string& name) {
  WatchOnce(NodePath(name));
  std::shared_ptr<ConfigStore> store;
  {
    MutexLock lock(&mu_);
    store = term_.store;
  }
  if (store == nullptr) return absl::UnavailableError("no session");
  const StatusOr<Znode> node = store->Get(NodePath(name));
  if (absl::IsNotFound(node.status())) {
    MutexLock lock(&mu_);
    StepLocked(NodeGoneEvent{name});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(node.status());
  StatusOr<NodeInfo> info = DecodeNodeInfo(node->data);
  if (!info.ok() || info->name != name) {
    NOVA_LOG(ERROR) << NodePath(name) << " is not a node's record; ignored: " << info.status().message();
    return OkStatus();
  }
  MutexLock lock(&mu_);
  StepLocked(NodeSeenEvent{*std::move(info)});
  return OkStatus();
}

Status CoordinatorService::LoadRange(RangeId id) {
  WatchOnce(RangePath(id));
  std::shared_ptr<ConfigStore> store;
  {
    MutexLock lock(&mu_);
    store = term_.store;
  }
  if (store == nullptr) return absl::UnavailableError("no session");
  const StatusOr<Znode> node = store->Get(RangePath(id));
  if (absl::IsNotFound(node.status())) {
    MutexLock lock(&mu_);
    StepLocked(RangeGoneEvent{id});
    return OkStatus();
  }
  NOVA_RETURN_IF_ERROR(node.status());
  StatusOr<RangeRecord> record = RangeRecord::Decode(node->data, node->version);
  if (!record.ok() || record->id != id) {
    NOVA_LOG(ERROR) << RangePath(id) << " is not that range's record; ignored: " << record.status().message();
    return OkStatus();
  }
  MutexLock lock(&mu_);
  StepLocked(RangeReadEvent{*std::move(record)});
  return OkStatus();
}

Status CoordinatorService::ReadDirty(const std::set<std::string>& paths) {
  Status first;
  for (const std::string& path : paths) {
    Status s;
    const std::string_view view(path);
    if (path == kNodesPath || path == kRangesPath) {
      s = LoadChildren(path);
    } else if (view.starts_with(StrCat(kNodesPath, "/"))) {
      s = LoadNode(std::string(view.substr(view.rfind('/') + 1)));
    } else if (view.starts_with(StrCat(kRangesPath, "/"))) {
      const StatusOr<RangeId> id = RangeIdOf(view.substr(view.rfind('/') + 1));
      if (id.ok()) s = LoadRange(*id);
    }
    if (s.ok()) continue;
    if (first.ok()) first = s;
    MarkDirty(path);
  }
  return first;
}

ClusterDecisions CoordinatorService::StepLocked(const ClusterEvent& event) {
  ClusterDecisions decisions = Step(options_.cluster, &state_, event, Now());
  NOVA_DCHECK(CheckInvariants(state_).empty()) << CheckInvariants(state_);
  NoteChangesLocked();
  return decisions;
}

void CoordinatorService::NoteChangesLocked() {
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

// ---- moving

void CoordinatorService::RunMover() {
  while (std::optional<Move> move = queue_.Pop()) CarryOut(*move);
}

StatusOr<RangeRecord> CoordinatorService::WriteMove(const Term& term, const RangeMove& move) {
  const std::string path = RangePath(move.before.id);
  const std::string data = move.after.Encode();
  const std::vector<ConfigOp> ops = {ConfigOp::Check(kCoordPath, term.coord_version),
                                     ConfigOp::Set(path, data, move.before.version)};
  RangeRecord written = move.after;
  written.version = move.before.version + 1;
  for (int i = 0; i < kSettleTries; ++i) {
    const Status s = term.store->Multi(ops);
    if (s.ok()) return written;
    if (!absl::IsUnknown(s)) return s;
    const Status synced = term.store->Sync();
    const StatusOr<Znode> node = term.store->Get(path);
    if (!synced.ok() || !node.ok()) {
      if (term.store->session_state() == SessionState::kExpired) break;
      continue;
    }
    if (node->version == written.version && node->data == data) return written;
    if (node->version != move.before.version)
      return absl::AbortedError(StrCat(path, " was changed by somebody else"));
  }
  return absl::UnavailableError(StrCat(path, ": the outcome of a change is not known"));
}

void CoordinatorService::CarryOut(const Move& m) {
  Term term;
  {
    MutexLock lock(&mu_);
    if (stopping_ || !leading_ || term_.coord_epoch != m.term) return;
    term = term_;
  }
  NOVA_FP_VOID("coordinator.move_decided");
  StatusOr<RangeRecord> written = WriteMove(term, m.move);
  NOVA_FP_VOID("coordinator.move_written");
  const RangeId id = m.move.before.id;
  if (written.ok()) {
    moves_->Add();
    NOVA_LOG(INFO) << "range " << id.value() << ": epoch " << written->epoch.value() << " goes to "
                   << written->owner << " (" << written->owner_incarnation.value() << ")";
  } else {
    failed_moves_->Add();
    MarkDirty(RangePath(id));
    MarkDirty(kCoordPath);
  }
  MutexLock lock(&mu_);
  if (term_.coord_epoch != m.term) return;
  AssignDoneEvent done{id, std::nullopt};
  if (written.ok()) done.record = *std::move(written);
  StepLocked(done);
}

// ---- methods

StatusOr<std::string> CoordinatorService::Handle(const std::string& method, const std::string& request) {
  if (method == "Heartbeat") return HandleHeartbeat(request);
  if (method == "GetConfiguration") return HandleGetConfiguration(request);
  if (method == "CreateRanges") return HandleCreateRanges(request);
  if (method == "GetStatus") return HandleGetStatus();
  if (method == "Drain") return HandleDrain(request);
  if (method == "ForceOpen") return HandleForceOpen(request);
  return absl::UnimplementedError(StrCat("no method ", method));
}

StatusOr<std::string> CoordinatorService::HandleHeartbeat(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::HeartbeatRequest>(request));
  if (!IsNodeName(in.name())) return absl::InvalidArgumentError("a heartbeat without a node's name");
  HeartbeatEvent event{in.name(), Incarnation(in.incarnation()), in.stocs_version(), {}};
  event.report.queue_depth = in.queue_depth();
  event.report.disk_bytes = in.disk_bytes();
  event.report.disk_free_bytes = in.disk_free_bytes();
  for (const proto::MemoryPool& pool : in.memory())
    event.report.memory.emplace_back(pool.name(), pool.bytes());
  for (const proto::TablesLeft& t : in.draining()) {
    event.report.draining[StocId(static_cast<uint32_t>(t.stoc()))] = t.tables();
  }
  for (const proto::RangeLoad& load : in.ranges()) {
    event.report.ranges.push_back(
        {RangeId(load.range()), Epoch(load.epoch()), load.open(), load.writes(), load.reads(), load.bytes(),
         TableCopies{load.tables(), load.degraded_tables(), load.fewest_table_copies()}});
  }
  if (in.has_copies()) {
    event.report.copies = CopiesKept{in.copies().log(), in.copies().manifest(), in.copies().table()};
  }
  event.report.fabric = FabricCountersOf(in.fabric());
  heartbeats_->Add();
  proto::HeartbeatReply out;
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
  StepLocked(AuthorityEvent{AuthorityUntilLocked()});
  const HeartbeatAnswer answer = *StepLocked(event).answer;
  if (answer.standing == Standing::kUnknown) {
    dirty_.insert(NodePath(in.name()));
    wake_.SignalAll();
  }
  out.set_coord_epoch(state_.coord_epoch.value());
  out.set_standing(answer.standing == Standing::kRegistered   ? proto::HeartbeatReply::REGISTERED
                   : answer.standing == Standing::kSuperseded ? proto::HeartbeatReply::SUPERSEDED
                                                              : proto::HeartbeatReply::UNKNOWN);
  out.set_lease_ns(static_cast<uint64_t>(answer.lease_ns));
  for (const auto& [range, epoch] : answer.excluded) {
    proto::RangeEpoch* e = out.add_excluded();
    e->set_range(range.value());
    e->set_epoch(epoch.value());
  }
  for (const auto& [range, epoch] : answer.release) {
    proto::RangeEpoch* e = out.add_release();
    e->set_range(range.value());
    e->set_epoch(epoch.value());
  }
  for (const HeartbeatAnswer::Assigned& a : answer.assigned) {
    proto::Assignment* assignment = out.add_assigned();
    assignment->set_record(a.record.Encode());
    assignment->set_version(a.record.version);
    assignment->set_wait_ns(static_cast<uint64_t>(a.wait_ns));
  }
  out.set_stocs_version(answer.stocs_version);
  for (const NodeInfo& stoc : answer.stocs) out.add_stocs(EncodeNodeInfo(stoc));
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorService::HandleGetConfiguration(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ConfigurationRequest>(request));
  proto::ConfigurationReply out;
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
  out.set_version(config_version_);
  out.set_cluster(cluster_.ToString());
  out.set_max_value_bytes(options_.max_value_bytes);
  const bool delta = in.version() >> 32 == term_.coord_epoch.value() && in.version() <= config_version_ &&
                     range_changes_.Covers(in.version()) && node_changes_.Covers(in.version());
  out.set_full(!delta);
  if (!delta) {
    for (const auto& [id, range] : state_.ranges) FillRoute(state_, range.record, out.add_ranges());
    for (const auto& [name, node] : state_.nodes) out.add_nodes(EncodeNodeInfo(node));
    return out.SerializeAsString();
  }
  const auto ranges = range_changes_.Since(in.version());
  for (const RangeId id : ranges.changed) FillRoute(state_, state_.ranges.at(id).record, out.add_ranges());
  for (const RangeId id : ranges.gone) out.add_removed_ranges(id.value());
  const auto nodes = node_changes_.Since(in.version());
  for (const std::string& name : nodes.changed) out.add_nodes(EncodeNodeInfo(state_.nodes.at(name)));
  for (const std::string& name : nodes.gone) out.add_removed_nodes(name);
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorService::HandleCreateRanges(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::CreateRangesRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, CurrentTerm());
  std::vector<std::string> bounds = {""};
  for (const std::string& split : in.split_points()) {
    if (split.empty() || split.size() > kMaxBoundBytes) {
      return absl::InvalidArgumentError(
          StrCat("a split point has 1 to ", kMaxBoundBytes, " bytes, not ", split.size()));
    }
    if (split <= bounds.back()) return absl::InvalidArgumentError("split points must ascend");
    bounds.push_back(split);
  }
  NOVA_ASSIGN_OR_RETURN(const Znode counter, term.store->Get(kRangeIdPath));
  uint64_t last = 0;
  if (!absl::SimpleAtoi(counter.data, &last))
    return absl::DataLossError(StrCat(kRangeIdPath, " holds no number"));
  std::vector<RangeRecord> records;
  std::vector<ConfigOp> ops = {ConfigOp::Check(kCoordPath, term.coord_version),
                               ConfigOp::Set(kRangeIdPath, StrCat(last + bounds.size()), counter.version)};
  size_t bytes = 0;
  for (size_t i = 0; i < bounds.size(); ++i) {
    RangeRecord r;
    r.id = RangeId(last + 1 + i);
    r.lower = bounds[i];
    if (i + 1 < bounds.size()) r.upper = bounds[i + 1];
    ops.push_back(ConfigOp::Create(RangePath(r.id), r.Encode()));
    bytes += ops.back().data.size() + 64;
    records.push_back(std::move(r));
  }
  if (bytes > kMaxCreateBytes) {
    return absl::InvalidArgumentError(
        StrCat(bounds.size(), " ranges do not fit into one change (", bytes, " bytes)"));
  }
  for (int i = 0; i < kSettleTries; ++i) {
    NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> there, term.store->Children(kRangesPath));
    if (!there.empty()) {
      // After a lost reply: ours, if they have the ids we drew; whoever draws them has the counter's version.
      const std::string first = StrCat(records.front().id.value());
      const bool ours = i > 0 && there.size() == records.size() &&
                        std::find(there.begin(), there.end(), first) != there.end();
      if (!ours) return absl::AlreadyExistsError(StrCat("the cluster has ", there.size(), " ranges already"));
      break;
    }
    const Status s = term.store->Multi(ops);
    if (s.ok()) break;
    if (!absl::IsUnknown(s)) return s;
  }
  {
    MutexLock lock(&mu_);
    if (term_.coord_epoch == term.coord_epoch) {
      // the caller's next question finds them
      for (const RangeRecord& r : records) StepLocked(RangeReadEvent{r});
    }
    for (const RangeRecord& r : records) dirty_.insert(RangePath(r.id));  // sets their watches
    wake_.SignalAll();
  }
  return proto::CreateRangesReply().SerializeAsString();
}

StatusOr<std::string> CoordinatorService::HandleGetStatus() {
  NOVA_RETURN_IF_ERROR(CurrentTerm().status());
  proto::StatusReply out;
  out.set_text(StatusText());
  return out.SerializeAsString();
}

std::string CoordinatorService::StatusText() const {
  MutexLock lock(&mu_);
  if (!CheckLeadingLocked().ok()) {
    return StrCat("coordinator ", options_.name, " does not lead; ",
                  leader_address_.empty() ? "no leader is known"
                                          : StrCat(leader_name_, " at ", leader_address_, " does"),
                  "\n");
  }
  return RenderStatus(options_.cluster, state_, {cluster_, options_.name, options_.address}, Now());
}

StatusOr<std::string> CoordinatorService::HandleDrain(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::DrainRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, CurrentTerm());
  if (!IsNodeName(in.node())) return absl::InvalidArgumentError("not a node's name");
  const std::string path = NodePath(in.node());
  for (int i = 0; i < kSettleTries; ++i) {
    const StatusOr<Znode> node = term.store->Get(path);
    if (absl::IsNotFound(node.status())) return absl::NotFoundError(StrCat("no node ", in.node()));
    NOVA_RETURN_IF_ERROR(node.status());
    NOVA_ASSIGN_OR_RETURN(NodeInfo info, DecodeNodeInfo(node->data));
    if (info.draining) {
      NOVA_RETURN_IF_ERROR(LoadNode(in.node()));
      proto::DrainReply out;
      MutexLock lock(&mu_);
      NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
      out.set_left(DrainLeft(state_, info));
      return out.SerializeAsString();
    }
    if (info.role == Role::kStoc) {
      MutexLock lock(&mu_);
      const bool others = std::any_of(state_.live_stocs.begin(), state_.live_stocs.end(),
                                      [&](const NodeInfo& n) { return n.name != info.name && !n.draining; });
      if (!others)
        return absl::FailedPreconditionError(
            StrCat(info.name, ": no other StoC is there to take what it holds"));
    }
    info.draining = true;
    const Status s = term.store->Multi({ConfigOp::Check(kCoordPath, term.coord_version),
                                        ConfigOp::Set(path, EncodeNodeInfo(info), node->version)});
    if (!s.ok() && !absl::IsUnknown(s)) return s;
  }
  return absl::UnavailableError("the outcome is not known");
}

StatusOr<std::string> CoordinatorService::HandleForceOpen(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ForceOpenRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, CurrentTerm());
  NOVA_RETURN_IF_ERROR(term.store->Sync());
  const RangeId id(in.range());
  NOVA_RETURN_IF_ERROR(LoadRange(id));
  ForceOpenPlan plan;
  {
    MutexLock lock(&mu_);
    plan = PlanForceOpen(options_.cluster, state_, id, Now());
  }
  proto::ForceOpenReply out;
  out.set_done(plan.possible && (in.accept_data_loss() || !plan.move.has_value()));
  if (in.accept_data_loss() && plan.move.has_value()) {
    NOVA_ASSIGN_OR_RETURN(RangeRecord written, WriteMove(term, *plan.move));
    NOVA_LOG(WARNING) << "force-open: " << plan.report;
    MutexLock lock(&mu_);
    StepLocked(RangeReadEvent{std::move(written)});
    wake_.SignalAll();
  }
  out.set_report(plan.report);
  return out.SerializeAsString();
}

}  // namespace nova
