#include "ltc/server/stoc_backend.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace nova {
namespace {

constexpr uint64_t kRequestBytes = 1 << 20;  // of others: so much, where a log or manifest is placed

}  // namespace

uint32_t LivingCopies(const TableInfo& table, const std::map<StocId, std::string>& living) {
  uint32_t fewest = UINT32_MAX;
  ForEachPart(table, [&](uint32_t part) {
    const std::vector<StocId>& stocs = *CopiesOf(table, part);
    const auto lives = [&living](StocId stoc) { return living.contains(stoc); };
    fewest = std::min(fewest, static_cast<uint32_t>(std::count_if(stocs.begin(), stocs.end(), lives)));
  });
  return fewest;
}

StocBackend::StocBackend(const HostServices* services, const HostedRangeOptions& options,
                         const RangeAssignment& assignment, const LtcSettings& settings)
    : range_services(services->range),
      keeper(services, assignment.record),
      creator_{assignment.record.id, assignment.record.epoch, 0},
      services_(services),
      options_(options),
      placement_(options.placement) {
  Configure(settings, [] {});
  range_services.host = this;
  range_services.off = options.off;
  if (services->offloader != nullptr) range_services.jobs = this;
  range_services.garbage = [drop = services->garbage, holder = creator_](const TableInfo& t) {
    drop(t, holder);
  };
}

std::vector<StocChoice> StocBackend::LiveStocs() const {
  std::set<StocId> avoided;
  {
    MutexLock lock(&mu_);
    avoided = avoided_;
  }
  std::vector<StocChoice> choices;
  for (const NodeInfo& n : services_->stocs->live()) {
    if (n.draining || avoided.contains(n.stoc_id)) continue;
    choices.push_back({n.stoc_id, n.host, services_->stocs->LoadOf(n.stoc_id), n.disk});
  }
  return choices;
}

bool StocBackend::BetterWithoutEmptied(size_t emptied_members, size_t wanted) const {
  size_t all = 0, emptied = 0;
  for (const NodeInfo& n : services_->stocs->live()) {
    all += !n.draining;
    emptied += !n.draining && n.emptied;
  }
  return emptied_members > std::min(wanted, all) - std::min(wanted, all - emptied);
}

void StocBackend::Avoid(std::set<StocId> stocs) {
  MutexLock lock(&mu_);
  avoided_ = std::move(stocs);
}

std::vector<StocId> StocBackend::Pick(const std::vector<StocChoice>& from, size_t count,
                                      std::set<std::string> hosts) {
  MutexLock lock(&mu_);
  return PickStocs(from, count, kRequestBytes, 2, &random_, std::move(hosts));
}

StatusOr<ManifestGroup> StocBackend::Create(std::string_view first_record, const Uuid& file) {
  const ManifestGroup group{file, Pick(LiveStocs(), static_cast<size_t>(options_.manifest_replicas), {})};
  if (group.members.empty()) return absl::UnavailableError("no StoC for the manifest");
  NOVA_RETURN_IF_ERROR(Write(group, 0, /*create=*/true, first_record));
  return group;
}

Status StocBackend::Append(const ManifestGroup& group, uint64_t offset, std::string_view record) {
  const Status s = Write(group, offset, /*create=*/false, record);
  return options_.off.m2_edit_first && !absl::IsFailedPrecondition(s) ? OkStatus() : s;
}

Status StocBackend::Install(const ManifestGroup& group) {
  return keeper.UpdateOrCancel([] {}, [&](RangeRecord* r) { r->manifest = group; });
}

bool StocBackend::MayInstall() const {
  const std::shared_ptr<NodeSession> session = services_->session();
  return session != nullptr && Now() < session->lease_expiry_ns();
}

void StocBackend::Delete(const ManifestGroup& group) {
  const Nanos within = options_.request_deadline_ns;
  services_->run_control([services = services_, creator = creator_, within, group] {
    for (const StocId stoc : group.members) {
      services->stocs->DropReferences(stoc, creator.range, creator.epoch, {{group.file, 0}}, Now() + within)
          .IgnoreError();
    }
  });
}

StocStates StocBackend::StatesOfStocs() const {
  const StocList told = services_->stocs_told();
  StocStates states;
  for (const NodeInfo& n : told.live) {
    states.live[n.stoc_id] = n.host;
    if (n.draining) states.draining.insert(n.stoc_id);
    if (n.emptied) states.emptied.insert(n.stoc_id);
    if (n.disk == DiskState::kSlow) states.slow.insert(n.stoc_id);
    if (n.disk > DiskState::kSlow) states.avoided.insert(n.stoc_id);
  }
  states.lost = {told.lost.begin(), told.lost.end()};
  states.version = told.version;
  MutexLock lock(&mu_);
  states.avoided.insert(avoided_.begin(), avoided_.end());
  return states;
}

CopyPlanner StocBackend::PlannerOfCopies() {
  return [states = StatesOfStocs(), replicas = options_.placement.replicas](const TableInfo& table,
                                                                            const std::set<StocId>& avoid) {
    CopyPlan plan;
    plan.living = LivingCopies(table, states.live);
    if (avoid.empty()) {
      plan.copies = PlanCopies(table, states, replicas);
    } else {
      StocStates now = states;
      now.avoided.insert(avoid.begin(), avoid.end());
      plan.copies = PlanCopies(table, now, replicas);
    }
    for (const PartCopy& c : plan.copies) plan.bytes += c.to == StocId() ? 0 : PartBytes(table, c.part);
    return plan;
  };
}

std::vector<Placement> StocBackend::PlaceSome(uint64_t table_bytes, size_t count) {
  std::vector<StocChoice> live = LiveStocs();
  MutexLock lock(&mu_);
  return PlaceTables(std::move(live), table_bytes, count, placement_, &random_);
}

StatusOr<Placement> StocBackend::Place(uint64_t table_bytes) {
  std::vector<Placement> places = PlaceSome(table_bytes, 1);
  if (places.empty()) return absl::UnavailableError("no StoC is alive");
  return std::move(places.front());
}

void StocBackend::Configure(const LtcSettings& settings, const std::function<void()>& rest) {
  MutexLock lock(&mu_);
  if (settings == configured_) return;
  configured_ = settings;
  placement_.scatter_width = settings.scatter_width.value_or(options_.placement.scatter_width);
  placement_.choices = settings.power_of_d.value_or(options_.placement.choices);
  rest();
}

LtcSettings StocBackend::settings() const {
  MutexLock lock(&mu_);
  return configured_;
}

size_t StocBackend::Disks() const { return std::max<size_t>(1, LiveStocs().size()); }

StatusOr<CompactionResult> StocBackend::RunJob(const CompactionJob& job, CompactionStorage* here,
                                               const std::function<bool()>& cancelled) {
  const auto place = [&](size_t count) { return PlaceSome(job.max_table_size_bytes, count); };
  return services_->offloader->Run(job, LiveStocs(), place, here, cancelled);
}

Status StocBackend::Write(const ManifestGroup& group, uint64_t offset, bool create, std::string_view bytes) {
  if (options_.off.m1_all_members && group.members.size() > 1) {
    Status any = absl::UnavailableError("no member");
    for (const StocId m : group.members) {
      const Status s = Write({group.file, {m}}, offset, create, bytes);
      if (!any.ok() || absl::IsFailedPrecondition(s)) any = s;
    }
    return any;
  }
  const Nanos of_bytes = static_cast<Nanos>(bytes.size() >> 20) * kSecond;  // of a snapshot of many tables
  return services_->stocs->AppendFile(group.members, {group.file, 0}, creator_, offset, create, bytes,
                                      Now() + options_.request_deadline_ns + of_bytes);
}

}  // namespace nova
