#include "stoc/stoc_node.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/fabric_metrics.h"
#include "stoc/store_identity.h"

namespace nova {
namespace {

constexpr Nanos kClusterWait = 10 * kSecond;  // for the first coordinator of a new cluster
constexpr Nanos kMembershipPeriod = 100 * kMillisecond;
constexpr Nanos kRejoinPause = kSecond;

DiskWatchOptions WatchOptionsOf(const StocOptions& options) {
  DiskWatchOptions watch = options.disk_watch;
  watch.full_below_bytes = options.files.reserve_bytes;
  return watch;
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

StatusOr<Uuid> WaitForCluster(ConfigStore* store) {
  for (const Nanos until = Now() + kClusterWait;;) {
    auto cluster = ReadClusterUuid(store);
    if (cluster.ok() || !absl::IsUnavailable(cluster.status()) || Now() > until) return cluster;
    SleepFor(100 * kMillisecond);
  }
}

}  // namespace

StocNode::StocNode(const StocOptions& options, const StocEnvironment& environment)
    : options_(options),
      environment_(environment),
      metrics_(environment.metrics),
      disk_(environment.disk, WatchOptionsOf(options)),
      fences_(options.server.off.f1_fence) {}

StatusOr<std::unique_ptr<StocNode>> StocNode::Start(const StocOptions& options,
                                                    const StocEnvironment& environment) {
  std::unique_ptr<StocNode> node(new StocNode(options, environment));
  NOVA_RETURN_IF_ERROR(node->Init());
  return node;
}

Status StocNode::Init() {
  self_.name = options_.name;
  self_.role = Role::kStoc;
  self_.metrics_address = options_.metrics_address;
  // The directory first: what is wrong with it needs no cluster to be told.
  NOVA_ASSIGN_OR_RETURN(std::optional<StoreIdentity> identity, LockStore(&disk_));
  NOVA_ASSIGN_OR_RETURN(store_, environment_.open_store());
  NOVA_ASSIGN_OR_RETURN(cluster_, WaitForCluster(store_.get()));
  if (identity && identity->cluster != cluster_) {
    return absl::FailedPreconditionError(StrCat("the store belongs to cluster ", identity->cluster.ToString(),
                                                ", this is cluster ", cluster_.ToString()));
  }
  // A store that cannot be written draws no id: it would draw one at every start.
  if (!identity) {
    identity = StoreIdentity{Uuid::Generate(), cluster_, {}};
    NOVA_RETURN_IF_ERROR(FormatStore(&disk_, *identity));
  }
  if (identity->stoc == StocId()) {
    NOVA_ASSIGN_OR_RETURN(identity->stoc, DrawStocId(store_.get(), identity->store, options_.name));
    NOVA_RETURN_IF_ERROR(FormatStore(&disk_, *identity));
    NOVA_LOG(INFO) << options_.name << ": formatted as StoC " << identity->stoc.value();
  }
  self_.stoc_id = identity->stoc;
  self_.store = identity->store;
  FileStoreOptions files = options_.files;
  files.disk_has_fault = [this] { return disk_.HasFault(); };
  NOVA_ASSIGN_OR_RETURN(files_, FileStore::Open(&disk_, files, metrics_));
  probe_ = std::make_unique<DiskProbe>(&disk_, options_.disk_probe_period_ns);
  if (options_.scrub.period_ns > 0) {
    scrubber_ = std::make_unique<Scrubber>(
        options_.scrub, &disk_, files_.get(), [this, is = *identity] { return HealIdentity(&disk_, is); },
        metrics_);
  }
  NOVA_ASSIGN_OR_RETURN(self_.incarnation, DrawIncarnation(store_.get()));
  NOVA_ASSIGN_OR_RETURN(const RangeRecords ranges, ReadRangeRecords(store_.get()));
  for (const RangeRecord& range : ranges.whole) fences_.Raise(range.id, range.epoch, [] {});
  for (const RangeId range : ranges.unknown) fences_.RefuseAll(range);
  NoteUnknown(ranges);
  NOVA_RETURN_IF_ERROR(Serve());
  NOVA_RETURN_IF_ERROR(Join());
  membership_ = std::make_unique<Thread>("stoc.membership.0", [this] { Membership(); });
  return OkStatus();
}

Status StocNode::Serve() {
  log_memory_ = std::make_unique<ExposedMemory>(
      environment_.fabric, ExposedMemoryOptions{options_.log_memory_bytes, options_.segment_bytes,
                                                options_.spare_segments, options_.server.off});
  buffer_memory_ = std::make_unique<ExposedMemory>(
      environment_.fabric, ExposedMemoryOptions{options_.file_buffer_bytes, 1 << 20, 2, options_.server.off});
  segments_ = std::make_unique<SegmentPool>(log_memory_.get(), metrics_);

  Hello hello;
  hello.role = Role::kStoc;
  hello.incarnation = self_.incarnation.value();
  hello.cluster = cluster_;
  hello.name = ToNodeName(self_.name);
  std::vector<Port*> ports;
  std::vector<Xchg*> xchgs;
  for (int i = 0; i < options_.xchg_threads; ++i) {
    XchgOptions x = options_.xchg;
    x.name = StrCat("stoc.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    NOVA_ASSIGN_OR_RETURN(auto xchg, Xchg::Open(environment_.fabric, hello, x));
    xchgs_.push_back(std::move(xchg));
    ports.push_back(xchgs_.back()->port());
    xchgs.push_back(xchgs_.back().get());
  }
  others_ = std::make_unique<StocClient>(environment_.fabric, xchgs);
  StocServerOptions server = options_.server;
  server.incarnation = self_.incarnation;
  server.stoc = self_.stoc_id;
  server.store = self_.store;
  server_ =
      std::make_unique<StocServer>(server,
                                   StocParts{&fences_, segments_.get(), log_memory_.get(),
                                             buffer_memory_.get(), files_.get(), metrics_, others_.get()},
                                   xchgs);
  NOVA_ASSIGN_OR_RETURN(
      const std::string bound,
      environment_.fabric->Listen(options_.address, hello, ports, [this](const Hello& peer) -> Status {
        if (!peer.cluster.IsNil() && peer.cluster != cluster_) {
          return absl::InvalidArgumentError("this is another cluster");
        }
        return server_->AcceptPeer(peer);
      }));
  self_.address = options_.advertise.empty() ? bound : options_.advertise;
  self_.host = options_.host.empty() ? HostOf(self_.address) : options_.host;
  AddMetrics();
  for (auto& x : xchgs_) x->Start();
  return OkStatus();
}

void StocNode::AddMetrics() {
  metrics_->AddCallback("nova_stoc_queue_depth", [this] { return server_->queue_depth(); });
  AddFabricMetrics(metrics_, environment_.fabric);
  std::vector<const Xchg*> xchgs;
  for (const auto& x : xchgs_) xchgs.push_back(x.get());
  AddXchgMetrics(metrics_, xchgs);
  metrics_->AddCallback("nova_stoc_stored_bytes",
                        [this] { return static_cast<double>(files_->stored_bytes()); });
  metrics_->AddCallback("nova_stoc_unreadable_files",
                        [this] { return static_cast<double>(files_->unreadable()->List(SIZE_MAX).size()); });
  metrics_->AddCallback("nova_stoc_disk_free_bytes",
                        [this] { return static_cast<double>(disk_.FreeBytesKnown()); });
  metrics_->AddCallback("nova_stoc_disk_state", [this] { return static_cast<double>(disk_.State()); });
  metrics_->AddCallback("nova_stoc_disk_faults_total",
                        [this] { return static_cast<double>(disk_.Report().faults); });
  metrics_->AddCallback("nova_stoc_disk_oldest_operation_seconds",
                        [this] { return static_cast<double>(disk_.OldestNs()) / kSecond; });
  for (const auto& [op, time] :
       {std::pair{"read", &DiskReport::read_ns}, std::pair{"sync", &DiskReport::sync_ns}}) {
    metrics_->AddCallback(StrCat("nova_stoc_disk_mean_seconds{op=\"", op, "\"}"), [this, time = time] {
      return static_cast<double>(disk_.Report().*time) / kSecond;
    });
  }
  metrics_->AddCallback("nova_stoc_member", [this] { return member_.load() ? 1.0 : 0.0; });
  for (const auto& [use, memory] :
       {std::pair{"log", log_memory_.get()}, std::pair{"file_buffer", buffer_memory_.get()}}) {
    const std::string label = StrCat("{use=\"", use, "\"}");
    metrics_->AddCallback("nova_stoc_memory_mapped_bytes" + label,
                          [m = memory] { return static_cast<double>(m->counts().mapped_bytes); });
    metrics_->AddCallback("nova_stoc_memory_taken_bytes" + label,
                          [m = memory] { return static_cast<double>(m->counts().taken_bytes); });
    metrics_->AddCallback("nova_stoc_memory_registrations_total" + label,
                          [m = memory] { return static_cast<double>(m->counts().registrations); });
  }
}

// --- membership

Status StocNode::Join() {
  NodeOptions node;
  node.node = self_;
  node.cluster = cluster_;
  node.heartbeat_ns = options_.heartbeat_ns;
  NodeEvents events;
  events.lost = [this](const std::string& why) {
    NOVA_LOG(WARNING) << options_.name << ": membership lost (" << why << "), serving on";
    member_.store(false);
    lost_.store(true);
  };
  events.report = [this] { return Report(); };
  events.faults_forgiven = [this](uint64_t faults) { disk_.Forgive(faults); };
  events.stocs = [this](const StocList& stocs) { others_->UpdateStocs(stocs.live); };
  lost_.store(false);
  NOVA_ASSIGN_OR_RETURN(session_,
                        JoinCluster(store_.get(), environment_.open_channel(), node, std::move(events)));
  member_.store(true);
  return OkStatus();
}

void StocNode::Membership() {
  Nanos next_collect = Now() + options_.collect_period_ns;
  while (!stop_.WaitUntil(Now() + kMembershipPeriod)) {
    if (lost_.load()) {
      // Writes need no lease (C4): a StoC's registration is for placement; what it holds stays valid without
      // it.
      session_ = nullptr;
      auto store = environment_.open_store();
      Status s = store.status();
      if (store.ok()) {
        store_ = *std::move(store);
        s = Join();
      }
      if (absl::IsFailedPrecondition(s)) {
        NOVA_LOG(ERROR) << options_.name << ": " << s.message();
        superseded_.Notify();
        return;
      }
      if (!s.ok()) {
        lost_.store(true);
        NOVA_LOG(WARNING) << options_.name << ": joining again: " << s.message();
        stop_.WaitUntil(Now() + kRejoinPause);
      }
    } else if (Now() >= next_collect) {
      next_collect = Now() + options_.collect_period_ns;
      Collect();
    }
  }
}

void StocNode::Collect() {
  const auto ranges = ReadRangeRecords(store_.get());
  if (!ranges.ok()) return;  // next time
  NoteUnknown(*ranges);
  std::vector<RangeId> all = ranges->unknown;
  for (const RangeRecord& range : ranges->whole) {
    all.push_back(range.id);
    fences_.Learn(range.id, range.epoch);
    const bool open = range.state == RangeState::kOpen;
    if (range.epoch > fences_.epoch(range.id) || (open && server_->HoldsBelow(range.id, range.epoch)))
      server_->FenceOnBehalf(range.id, range.epoch, open);
  }
  files_->DeleteUnreadable(all);
}

void StocNode::NoteUnknown(const RangeRecords& ranges) {
  if (std::exchange(unknown_ranges_, ranges.unknown) == ranges.unknown || ranges.unknown.empty()) return;
  NOVA_LOG(WARNING) << options_.name << ": records of ranges that cannot be read: " << ranges.unknown.size()
                    << "; nothing of these ranges is collected, and one whose epoch is not known is refused: "
                    << ranges.why;
}

NodeReport StocNode::Report() {
  NodeReport report;
  report.queue_depth = server_->queue_depth();
  report.disk_bytes = files_->stored_bytes();
  report.disk_free_bytes = disk_.FreeBytesKnown();
  report.disk = disk_.Report();
  report.fabric = environment_.fabric->counters();
  return report;
}

std::string StocNode::StatusText() {
  const ExposedMemory::Counts log = log_memory_->counts();
  const ExposedMemory::Counts buffer = buffer_memory_->counts();
  return StrCat("StoC ", self_.stoc_id.value(), " ", self_.name, " at ", self_.address, ", incarnation ",
                self_.incarnation.value(), ", store ", self_.store.ToString(),
                member_.load() ? "" : ", NOT A MEMBER", "\nqueue depth ", server_->queue_depth(),
                "\nsegments ", segments_->open_segments(), "\nlog memory ", log.taken_bytes, " of ",
                options_.log_memory_bytes, " bytes\nfile buffer ", buffer.taken_bytes, " of ",
                options_.file_buffer_bytes, " bytes\nstored ", files_->stored_bytes(), " bytes, ",
                disk_.FreeBytesKnown(), " free\ndisk ", DiskStateName(disk_.State()), "\n");
}

// --- the end

void StocNode::Stop() {
  if (!stop_.HasBeenNotified()) stop_.Notify();
  if (membership_ != nullptr) membership_->Join();
  session_ = nullptr;  // placement goes elsewhere
  if (scrubber_ != nullptr) scrubber_->Stop();
  if (server_ != nullptr) server_->Stop();
  for (auto& x : xchgs_) x->Stop();
  probe_ = nullptr;
}

StocNode::~StocNode() {
  Stop();
  server_ = nullptr;
  xchgs_.clear();
}

}  // namespace nova
