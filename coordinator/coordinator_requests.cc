#include "coordinator/coordinator_requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/log.h"
#include "coordinator/coordinator.pb.h"
#include "coordinator/leader_channel.h"
#include "coordinator/range_condition.h"
#include "coordinator/range_movers.h"
#include "coordinator/status_text.h"
#include "coordinator/znode_change.h"

namespace nova {
namespace {

constexpr size_t kMaxBoundBytes = 1024;         // keeps a RangeRecord under 4 KB
constexpr size_t kMaxCreateBytes = 512 * 1024;  // of one multi; ZooKeeper refuses 1 MB
constexpr int kSettleTries = 100;

void FillRoute(const ClusterState& state, const RangeRecord& record, proto::Route* route) {
  route->set_range(record.id.value());
  route->set_lower(record.lower);
  route->set_upper(record.upper);
  route->set_epoch(record.epoch.value());
  route->set_open(record.IsOpen());
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

// What no disk can be is taken as if it had not been said.
DiskReport DiskReportOf(const proto::DiskReport& in) {
  const auto ns = [](uint64_t n) { return static_cast<Nanos>(std::min<uint64_t>(n, kNever / 4)); };
  DiskReport out;
  const auto fault = static_cast<DiskState>(in.fault());
  if (fault == DiskState::kReadOnly || fault == DiskState::kFailing) out.fault = fault;
  out.faults = in.faults();
  out.full = in.full();
  out.hung_ns = ns(in.hung_ns());
  out.read_ns = ns(in.read_ns());
  out.sync_ns = ns(in.sync_ns());
  return out;
}

template <typename Message>
StatusOr<Message> Parse(const std::string& bytes) {
  Message m;
  if (!m.ParseFromString(bytes)) return absl::InvalidArgumentError("malformed request");
  return m;
}

HeartbeatEvent HeartbeatOf(const proto::HeartbeatRequest& in) {
  HeartbeatEvent event{in.name(), Incarnation(in.incarnation()), in.stocs_version(), {}};
  event.report.queue_depth = in.queue_depth();
  event.report.disk_bytes = in.disk_bytes();
  event.report.disk_free_bytes = in.disk_free_bytes();
  event.report.stopping = in.stopping();
  for (const proto::MemoryPool& pool : in.memory())
    event.report.memory.emplace_back(pool.name(), pool.bytes());
  for (const proto::TablesLeft& t : in.draining()) {
    event.report.draining[StocId(static_cast<uint32_t>(t.stoc()))] = t.tables();
  }
  for (const proto::RangeLoad& load : in.ranges()) {
    event.report.ranges.push_back(
        {RangeId(load.range()), Epoch(load.epoch()), load.open(), load.writes(), load.reads(), load.bytes(),
         TableCopies{load.tables(), load.degraded_tables(), load.fewest_table_copies(), load.rebuild_bytes(),
                     load.rebuilt_bytes(), load.tables_stocs_version()}});
  }
  for (const proto::OpenFailure& f : in.not_opened())
    event.report.not_opened.push_back({RangeId(f.range()), Epoch(f.epoch()), f.data_loss(), f.why()});
  if (in.has_copies()) {
    event.report.copies = CopiesKept{in.copies().log(), in.copies().manifest(), in.copies().table()};
  }
  if (in.has_disk()) event.report.disk = DiskReportOf(in.disk());
  event.report.fabric = FabricCountersOf(in.fabric());
  return event;
}

proto::HeartbeatReply ReplyOf(const HeartbeatAnswer& answer, CoordEpoch coord_epoch) {
  proto::HeartbeatReply out;
  out.set_coord_epoch(coord_epoch.value());
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
  for (const NodeInfo& stoc : answer.stocs) {
    out.add_stocs(EncodeNodeInfo(stoc));
    if (stoc.disk == DiskState::kOk) continue;
    proto::StocDisk* disk = out.add_stoc_disks();
    disk->set_stoc(stoc.stoc_id.value());
    disk->set_state(static_cast<proto::DiskState>(stoc.disk));
    disk->set_emptied(stoc.emptied);
  }
  out.set_forgiven_disk_faults(answer.forgiven_disk_faults);
  out.set_ask_again_soon(answer.ask_again_soon);
  out.set_draining(answer.draining);
  for (const StocId stoc : answer.lost_stocs) out.add_lost_stocs(stoc.value());
  for (const auto& [name, value] : answer.settings.Given()) {
    proto::Setting* setting = out.add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  return out;
}

}  // namespace

CoordinatorRequests::CoordinatorRequests(RequestOptions options, Election* election, ClusterMirror* mirror,
                                         ZnodeSession* session, Metrics* metrics)
    : options_(std::move(options)),
      election_(election),
      mirror_(mirror),
      session_(session),
      drains_(options_.cluster_options, election, mirror),
      heartbeats_(metrics->counter("nova_coordinator_heartbeats_total")) {}

// Without the store nobody leads that this one could name: who led before would only name others.
StatusOr<std::string> CoordinatorRequests::Handle(const std::string& method, const std::string& request) {
  StatusOr<std::string> answer = Dispatch(method, request);
  std::string leader;
  if (answer.ok() || !IsNotLeading(answer.status(), &leader)) return answer;
  const std::string why = WhyNoLeader();
  return why.empty() ? answer : NotLeadingError("", why);
}

std::string CoordinatorRequests::WhyNoLeader() const {
  const Nanos silence = session_->Silence();
  return silence == 0 ? election_->WhyNone()
                      : StrCat("no leader is known: ", options_.store, " has not answered for ",
                               silence / kSecond, " s");
}

StatusOr<std::string> CoordinatorRequests::Dispatch(const std::string& method, const std::string& request) {
  if (method == "Heartbeat") return HandleHeartbeat(request);
  if (method == "GetConfiguration") return HandleGetConfiguration(request);
  if (method == "CreateRanges") return HandleCreateRanges(request);
  if (method == "GetStatus") return HandleGetStatus();
  if (method == "Drain") return HandleDrain(request);
  if (method == "Undrain") return HandleUndrain(request);
  if (method == "Forget") return HandleForget(request);
  if (method == "ForceOpen") return HandleForceOpen(request);
  if (method == "ChangeSetting") return HandleChangeSetting(request);
  return absl::UnimplementedError(StrCat("no method ", method));
}

StatusOr<std::string> CoordinatorRequests::HandleHeartbeat(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::HeartbeatRequest>(request));
  if (!IsNodeName(in.name())) return absl::InvalidArgumentError("a heartbeat without a node's name");
  heartbeats_->Add();
  CoordEpoch coord_epoch;
  NOVA_ASSIGN_OR_RETURN(const HeartbeatAnswer answer, mirror_->Heartbeat(HeartbeatOf(in), &coord_epoch));
  if (answer.standing == Standing::kUnknown) session_->MarkDirty(NodePath(in.name()));
  return ReplyOf(answer, coord_epoch).SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleGetConfiguration(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ConfigurationRequest>(request));
  proto::ConfigurationReply out;
  out.set_cluster(options_.cluster.ToString());
  out.set_max_value_bytes(options_.max_value_bytes);
  NOVA_RETURN_IF_ERROR(mirror_->LookAsLeader([&](const ClusterMirror::View& view) {
    const ClusterState& state = view.state;
    out.set_version(view.config_version);
    const bool delta = in.version() >> 32 == state.coord_epoch.value() &&
                       in.version() <= view.config_version && view.range_changes.Covers(in.version()) &&
                       view.node_changes.Covers(in.version());
    out.set_full(!delta);
    if (!delta) {
      for (const auto& [id, range] : state.ranges) FillRoute(state, range.record, out.add_ranges());
      for (const auto& [name, node] : state.nodes) out.add_nodes(EncodeNodeInfo(AsTold(state, node)));
      return;
    }
    const auto ranges = view.range_changes.Since(in.version());
    for (const RangeId id : ranges.changed) FillRoute(state, state.ranges.at(id).record, out.add_ranges());
    for (const RangeId id : ranges.gone) out.add_removed_ranges(id.value());
    const auto nodes = view.node_changes.Since(in.version());
    for (const std::string& name : nodes.changed)
      out.add_nodes(EncodeNodeInfo(AsTold(state, state.nodes.at(name))));
    for (const std::string& name : nodes.gone) out.add_removed_nodes(name);
  }));
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleCreateRanges(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::CreateRangesRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
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
  mirror_->RangesWritten(term.coord_epoch, records);  // the caller's next question finds them
  for (const RangeRecord& r : records) session_->MarkDirty(RangePath(r.id));  // sets their watches
  return proto::CreateRangesReply().SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleGetStatus() {
  NOVA_RETURN_IF_ERROR(election_->CheckLeading());
  proto::StatusReply out;
  out.set_text(StatusText());
  NOVA_RETURN_IF_ERROR(mirror_->LookAsLeader([&](const ClusterMirror::View& view) {
    out.set_json(RenderStatusJson(options_.cluster_options, view.state,
                                  {options_.cluster, options_.name, options_.address}, Now()));
  }));
  return out.SerializeAsString();
}

std::string CoordinatorRequests::StatusText() const {
  std::string text;
  const Status leading = mirror_->LookAsLeader([&](const ClusterMirror::View& view) {
    text = RenderStatus(options_.cluster_options, view.state,
                        {options_.cluster, options_.name, options_.address}, Now());
  });
  if (leading.ok()) return text;
  const std::string why = WhyNoLeader();
  return StrCat("coordinator ", options_.name, " does not lead; ",
                why.empty() ? election_->LeaderText() : why, "\n");
}

StatusOr<std::string> CoordinatorRequests::HandleDrain(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::DrainRequest>(request));
  proto::DrainReply out;
  NOVA_ASSIGN_OR_RETURN(*out.mutable_left(), drains_.Drain(in.node(), in.force()));
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleUndrain(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::UndrainRequest>(request));
  proto::UndrainReply out;
  NOVA_ASSIGN_OR_RETURN(*out.mutable_now(), drains_.Undrain(in.node()));
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleForget(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ForgetRequest>(request));
  NOVA_RETURN_IF_ERROR(drains_.Forget(StocId(in.stoc())));
  return proto::ForgetReply().SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleForceOpen(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ForceOpenRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
  NOVA_RETURN_IF_ERROR(term.store->Sync());
  const RangeId id(in.range());
  NOVA_RETURN_IF_ERROR(mirror_->LoadRange(id));
  ForceOpenPlan plan;
  mirror_->Look([&](const ClusterMirror::View& view) {
    plan = PlanForceOpen(options_.cluster_options, view.state, id, Now());
  });
  proto::ForceOpenReply out;
  out.set_done(plan.possible && (in.accept_data_loss() || !plan.move.has_value()));
  if (in.accept_data_loss() && plan.move.has_value()) {
    NOVA_ASSIGN_OR_RETURN(RangeRecord written, RangeMovers::WriteMove(term, *plan.move));
    NOVA_LOG(WARNING) << "force-open: " << plan.report;
    mirror_->RangeWritten(std::move(written));
  }
  out.set_report(plan.report);
  if (!in.accept_data_loss() && plan.move.has_value())
    absl::StrAppend(out.mutable_report(), "to open it all the same: nova force-open ", in.range(),
                    " --accept-data-loss\n");
  return out.SerializeAsString();
}

StatusOr<std::string> CoordinatorRequests::HandleChangeSetting(const std::string& request) {
  NOVA_ASSIGN_OR_RETURN(const auto in, Parse<proto::ChangeSettingRequest>(request));
  NOVA_ASSIGN_OR_RETURN(const Term term, election_->CurrentTerm());
  const std::optional<int> value = in.has_value() ? std::optional<int>(in.value()) : std::nullopt;
  NOVA_RETURN_IF_ERROR(
      ChangeZnode(term, kSettingsPath, [&](const Znode& node) -> StatusOr<std::optional<std::string>> {
        LtcSettings settings = LtcSettings::Decode(node.data);
        NOVA_RETURN_IF_ERROR(settings.Set(in.name(), value));
        std::string data = settings.Encode(node.data);
        if (data == node.data) return std::nullopt;
        return data;
      }));
  NOVA_RETURN_IF_ERROR(mirror_->LoadSettings());  // the caller's next question finds it
  return proto::ChangeSettingReply().SerializeAsString();
}

}  // namespace nova
