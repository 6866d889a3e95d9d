#include "coordinator/coordinator_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/fabric_metrics.h"
#include "common/rdma/port_counters.h"
#include "coordinator/range_condition.h"

namespace nova {
namespace {

constexpr Nanos kVacancyCheckNs = 500 * kMillisecond;
constexpr Nanos kRetryNs = 100 * kMillisecond;
// Of coord.main while it leads, if the machine and the store are well.
constexpr Nanos kLongestRound = 500 * kMillisecond;

ElectionOptions ElectionOptionsOf(const CoordinatorOptions& o, const Uuid& cluster) {
  return {o.name, o.address, o.cluster.lease_ns, o.cluster.clock_rate_error, cluster};
}

// --- samples of the cluster's metrics

template <typename Number>
Metrics::Samples OneSample(Number n) {
  return {{"", static_cast<double>(n)}};
}
std::string StateLabel(const char* state) { return StrCat("state=\"", state, "\""); }

Metrics::Samples StocsByState(const ClusterState& state) {
  const StocCounts counts = CountStocs(state);
  Metrics::Samples samples;
  for (const auto& [name, n] :
       {std::pair{"up", counts.up}, std::pair{"away", counts.away}, std::pair{"lost", counts.lost},
        std::pair{"draining", counts.draining}, std::pair{"emptied", counts.emptied}})
    samples[StateLabel(name)] = static_cast<double>(n);
  return samples;
}

Metrics::Samples StocsByDisk(const ClusterState& state) {
  const StocCounts counts = CountStocs(state);
  Metrics::Samples samples;
  for (size_t d = 0; d < kDiskStates; ++d)
    samples[StateLabel(DiskStateName(static_cast<DiskState>(d)))] = static_cast<double>(counts.by_disk[d]);
  return samples;
}

Metrics::Samples RangesByState(const ClusterState& state) {
  Metrics::Samples samples;
  for (size_t c = 0; c < kRangeConditions; ++c)
    samples[StateLabel(RangeConditionName(static_cast<RangeCondition>(c)))] = 0;
  const RangeCopies copies(state);
  for (const auto& [id, range] : state.ranges)
    ++samples[StateLabel(RangeConditionName(copies.ConditionOf(range)))];
  return samples;
}

// Those that were heard after that.
int64_t CountLtcs(const ClusterState& state, Nanos after_ns) {
  return std::count_if(state.nodes.begin(), state.nodes.end(), [&](const auto& entry) {
    const NodeInfo& node = entry.second;
    const auto lease = state.leases.find(node.incarnation);
    return node.role == Role::kLtc && lease != state.leases.end() && lease->second.heard_ns > after_ns;
  });
}

// Of each range how many have fewer copies than wanted.
Metrics::Samples BelowReplicas(const ClusterState& state, CopyCounts Redundancy::*copies) {
  Metrics::Samples samples;
  const LivingStocs living = LivingStocsOf(state);
  for (const auto& [id, range] : state.ranges) {
    samples[StrCat("range=\"", id.value(), "\"")] =
        static_cast<double>((CountRedundancy(state, range, living).*copies).degraded);
  }
  return samples;
}

}  // namespace

CoordinatorService::CoordinatorService(CoordinatorOptions options, OpenStore open_store, const Uuid& cluster,
                                       Metrics* metrics)
    : options_(std::move(options)),
      open_store_(std::move(open_store)),
      elections_(metrics->counter("nova_coordinator_elections_won_total")),
      step_downs_(metrics->counter("nova_coordinator_step_downs_total")),
      election_(ElectionOptionsOf(options_, cluster)),
      mirror_(options_.cluster, &session_, &election_),
      movers_(&election_, &mirror_, &session_, metrics),
      requests_({options_.name, options_.address, options_.store, cluster, options_.max_value_bytes,
                 options_.cluster},
                &election_, &mirror_, &session_, metrics) {
  AddClusterGauges(metrics);
}

void CoordinatorService::AddClusterFamily(Metrics* metrics, const std::string& name,
                                          std::function<Metrics::Samples(const ClusterState&)> read) {
  metrics->AddFamily(name, [this, read = std::move(read)] {
    Metrics::Samples samples;
    mirror_.LookAsLeader([&](const ClusterMirror::View& view) { samples = read(view.state); }).IgnoreError();
    return samples;
  });
}

void CoordinatorService::AddClusterGauges(Metrics* metrics) {
  AddFabricCounters(metrics, "nova_cluster_fabric", [this] { return FabricOfNodes(); });
  AddCopyGauges(metrics, "log_groups", &Redundancy::logs);
  AddCopyGauges(metrics, "manifests", &Redundancy::manifests);
  AddCopyGauges(metrics, "tables", &Redundancy::tables);
  AddClusterFamily(metrics, "nova_cluster_rebuild_bytes_per_second",
                   [](const ClusterState& state) { return OneSample(state.rebuild.BytesPerSecond()); });
  AddClusterFamily(metrics, "nova_cluster_rebuild_bytes",
                   [](const ClusterState& state) { return OneSample(CountRedundancy(state).rebuild_bytes); });
  AddClusterFamily(metrics, "nova_cluster_stocs", StocsByState);
  AddClusterFamily(metrics, "nova_cluster_stoc_disks", StocsByDisk);
  AddClusterFamily(metrics, "nova_cluster_ranges", RangesByState);
  AddClusterFamily(metrics, "nova_cluster_ltcs",
                   [lease_ns = options_.cluster.lease_ns](const ClusterState& state) {
                     return OneSample(CountLtcs(state, Now() - lease_ns));
                   });
}

void CoordinatorService::AddCopyGauges(Metrics* metrics, const char* what, CopyCounts Redundancy::*copies) {
  const auto tell = [&](const char* name, auto CopyCounts::*field) {
    AddClusterFamily(metrics, StrCat("nova_cluster_", what, name),
                     [copies, field](const ClusterState& state) {
                       return OneSample(CountRedundancy(state).*copies.*field);
                     });
  };
  tell("", &CopyCounts::all);
  tell("_degraded", &CopyCounts::degraded);
  tell("_fewest_copies", &CopyCounts::fewest);
  tell("_copies_configured", &CopyCounts::wanted);
  AddClusterFamily(metrics, StrCat("nova_range_", what, "_below_replicas"),
                   [copies](const ClusterState& state) { return BelowReplicas(state, copies); });
}

std::optional<FabricCounters> CoordinatorService::FabricOfNodes() const {
  std::optional<FabricCounters> sum;
  mirror_
      .LookAsLeader([&](const ClusterMirror::View& view) {
        sum.emplace();
        for (const auto& [name, report] : view.state.reports) AddCounters(&*sum, report.fabric);
      })
      .IgnoreError();
  return sum;
}

StatusOr<std::unique_ptr<CoordinatorService>> CoordinatorService::Start(CoordinatorOptions options,
                                                                        OpenStore open_store,
                                                                        Metrics* metrics) {
  if (!IsNodeName(options.name))
    return absl::InvalidArgumentError(StrCat("bad coordinator name '", options.name, "'"));
  if (options.cluster.stoc_down_after_ns <= 0)
    return absl::InvalidArgumentError("a StoC must be away for some time before it counts as lost");
  NOVA_ASSIGN_OR_RETURN(std::shared_ptr<ConfigStore> store, open_store());
  NOVA_ASSIGN_OR_RETURN(const Uuid cluster, Bootstrap(store.get()));
  std::unique_ptr<CoordinatorService> service(
      new CoordinatorService(std::move(options), std::move(open_store), cluster, metrics));
  CoordinatorService* const s = service.get();
  s->session_.Begin(std::move(store));
  s->movers_.Start(s->options_.movers);
  s->main_ = std::make_unique<Thread>("coord.main.0", [s] { s->Run(); });
  return service;
}

CoordinatorService::~CoordinatorService() {
  session_.Stop();
  if (main_ != nullptr) main_->Join();
  movers_.Stop();
  election_.DropStore();
  session_.End();
}

StatusOr<Uuid> CoordinatorService::Bootstrap(ConfigStore* store) {
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
  for (const char* path : {kNodesPath, kStocsPath, kRangesPath, kEpochsPath, kCoordPath, kSettingsPath}) {
    NOVA_RETURN_IF_ERROR(create(path, ""));
  }
  NOVA_RETURN_IF_ERROR(create(kRangeIdPath, "0"));
  return cluster.uuid;
}

// --- leadership

void CoordinatorService::Run() {
  while (!session_.stopping()) {
    std::shared_ptr<ConfigStore> store = session_.store();
    if (store == nullptr || store->session_state() == SessionState::kExpired) {
      store.reset();
      OpenSession();
      continue;
    }
    const StatusOr<Term> term = election_.Campaign(store);
    if (term.ok()) {
      elections_->Add();
      NOVA_LOG(INFO) << options_.name << ": leads, coord_epoch " << term->coord_epoch.value();
      Lead(*term);
      election_.Vacate(store.get());
    } else if (absl::IsAlreadyExists(term.status())) {
      WaitForVacancy(store.get());
    } else if (!absl::IsAborted(term.status())) {
      if (const uint64_t met = campaign_failures_.Due()) {
        NOVA_LOG(WARNING) << options_.name << " cannot become the leader (" << met
                          << " times so far): " << term.status();
      }
      session_.Pause(kRetryNs);
    }
  }
}

void CoordinatorService::OpenSession() {
  election_.DropStore();
  session_.End();  // and its callbacks
  StatusOr<std::unique_ptr<ConfigStore>> opened = open_store_();
  if (opened.ok()) return session_.Begin(std::move(*opened));
  if (session_.stopping()) return;
  NOVA_LOG(WARNING) << options_.name << ": " << opened.status().message();
  session_.Pause(kRetryNs);
}

void CoordinatorService::WaitForVacancy(ConfigStore* store) {
  session_.WatchOnce(kCoordLeaderPath);
  const StatusOr<Znode> leader = store->Get(kCoordLeaderPath);
  if (!leader.ok()) return;
  session_.WaitForDirty(kCoordLeaderPath, Now() + kVacancyCheckNs);
  session_.Clear();
}

void CoordinatorService::Lead(const Term& term) {
  election_.Begin(term);
  session_.Clear();
  mirror_.Begin(term);
  Status status = mirror_.LoadAll();
  Nanos next_tick = Now();
  Nanos last_tick = Now();
  Nanos next_check = Now() + options_.authority_check_ns;
  Nanos next_reread = Now() + options_.reread_ns;
  while (status.ok()) {
    election_.Lead();
    const std::set<std::string> dirty = session_.TakeDirty(next_tick);
    if (session_.stopping()) break;
    if (Now() >= next_reread) {
      mirror_.LoadAll().IgnoreError();  // what could not be read now is read at the next turn
      next_reread = Now() + options_.reread_ns;
    }
    if (!mirror_.ReadDirty(dirty).ok()) SleepFor(kRetryNs);
    if (Now() >= next_check || dirty.contains(kCoordPath)) {
      status = election_.ProveAuthority();
      next_check = Now() + options_.authority_check_ns;
    }
    const Nanos authority_until = election_.AuthorityUntil();
    if (!status.ok() || Now() >= authority_until || term.store->session_state() == SessionState::kExpired)
      break;
    // Absence is not death (C2'): in a round that took far longer than usual this process did not run, or
    // waited for the store: as good as deaf. What is usual counts as listening all the same, or slow rounds
    // would keep the dead in office.
    const Nanos round = Now() - std::exchange(last_tick, Now());
    CarryOut(term.coord_epoch,
             mirror_.Tick(authority_until, std::max<Nanos>(0, round - kLongestRound), WallNowMs()));
    election_.LowerLongestLease(mirror_.EarlierLeasesOver());
    next_tick = Now() + options_.tick_ns;
  }
  election_.StepDown();
  step_downs_->Add();
  NOVA_LOG(INFO) << options_.name << ": steps down from coord_epoch " << term.coord_epoch.value() << " "
                 << (session_.stopping() ? "in order"
                     : status.ok()       ? "because its session is in doubt"
                                         : status.ToString());
}

void CoordinatorService::CarryOut(CoordEpoch term, ClusterDecisions decisions) {
  for (RangeMove& move : decisions.moves) {
    const RangeId id = move.before.id;
    if (!movers_.Add(term, std::move(move))) mirror_.MoveDone(term, {id, std::nullopt});
  }
  for (StocChange& change : decisions.stoc_changes) {
    const StocId id = change.before.id;
    if (!movers_.Add(term, std::move(change))) mirror_.StocChangeDone(term, {id, std::nullopt});
  }
}

}  // namespace nova
