#include "ltc/server/ltc_node.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/fabric_metrics.h"

namespace nova {
namespace {

constexpr std::pair<const char*, size_t MemoryUse::*> kMemoryPools[] = {
    {"memtables", &MemoryUse::memtables},
    {"memtables_ready", &MemoryUse::memtables_ready},
    {"table_metadata", &MemoryUse::table_metadata},
    {"block_cache", &MemoryUse::block_cache}};

constexpr Nanos kHousekeepingPeriod = 100 * kMillisecond;
constexpr Nanos kLogPeriod = kSecond;
constexpr size_t kMostDamaged = 1024;             // tables waiting for repair
constexpr Nanos kRepairPause = 10 * kSecond;      // after one that failed
constexpr Nanos kReleaseDeadline = 60 * kSecond;  // of the flush
// While the node stops, after a release that was taken back.
constexpr Nanos kReleasePause = 50 * kMillisecond;
constexpr Nanos kClusterWait = 10 * kSecond;  // for the first coordinator of a new cluster

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// A session and the store it lives on; control threads may still be inside when the node has left.
struct Membership {
  std::unique_ptr<ConfigStore> store;
  std::unique_ptr<NodeSession> session;
};

}  // namespace

LtcNode::LtcNode(const LtcOptions& options, const LtcEnvironment& environment)
    : options_(options),
      environment_(environment),
      metrics_(environment.metrics),
      arenas_(options.memtable_limit_bytes),
      cache_(options.block_cache_bytes) {}

StatusOr<std::unique_ptr<LtcNode>> LtcNode::Start(const LtcOptions& options,
                                                  const LtcEnvironment& environment) {
  std::unique_ptr<LtcNode> node(new LtcNode(options, environment));
  NOVA_RETURN_IF_ERROR(node->Init());
  return node;
}

Status LtcNode::Init() {
  NOVA_ASSIGN_OR_RETURN(std::unique_ptr<ConfigStore> store, environment_.open_store());
  for (const Nanos until = Now() + kClusterWait;;) {
    auto cluster = ReadClusterUuid(store.get());
    if (cluster.ok()) {
      cluster_ = *cluster;
      break;
    }
    if (!absl::IsUnavailable(cluster.status()) || Now() > until) return cluster.status();
    SleepFor(100 * kMillisecond);
  }
  NOVA_ASSIGN_OR_RETURN(incarnation_, DrawIncarnation(store.get()));

  Hello self;
  self.role = Role::kLtc;
  self.incarnation = incarnation_.value();
  self.cluster = cluster_;
  self.name = ToNodeName(options_.name);
  std::vector<Port*> ports;
  std::vector<Xchg*> xchgs;
  std::vector<XchgExecutor*> executors;
  for (int i = 0; i < options_.xchg_threads; ++i) {
    XchgOptions x = options_.xchg;
    x.name = StrCat("ltc.xchg.", i);
    x.index = static_cast<uint16_t>(i);
    NOVA_ASSIGN_OR_RETURN(auto xchg, Xchg::Open(environment_.fabric, self, x));
    xchgs_.push_back(std::move(xchg));
    executors_.push_back(std::make_unique<XchgExecutor>(xchgs_.back().get()));
    ports.push_back(xchgs_.back()->port());
    xchgs.push_back(xchgs_.back().get());
    executors.push_back(executors_.back().get());
  }
  NOVA_ASSIGN_OR_RETURN(address_, environment_.fabric->Listen(
                                      options_.address, self, ports, [this](const Hello& peer) -> Status {
                                        if (!peer.cluster.IsNil() && peer.cluster != cluster_)
                                          return absl::InvalidArgumentError("this is another cluster");
                                        return OkStatus();
                                      }));
  stocs_ = std::make_unique<StocClient>(environment_.fabric, xchgs);
  StocTableStoreOptions tables;
  tables.damaged = [this](const Uuid& table) { OnDamaged(table); };
  tables_ = NewStocTableStore(
      stocs_.get(), [](Executor* e) { return static_cast<XchgExecutor*>(e)->xchg(); }, tables, metrics_);
  LogOptions log = options_.log;
  log.host = host();
  logs_ = std::make_unique<LogClient>(environment_.fabric, stocs_.get(), xchgs, std::move(log), metrics_);
  LtcServerOptions server;
  server.max_value_bytes = options_.hosted.range.max_value_bytes;
  server.max_batch_entries = options_.hosted.range.max_batch_entries;
  server.page_bytes = options_.hosted.range.scan_page_bytes;
  server.max_snapshots_per_range = options_.max_snapshots_per_range;
  server.max_snapshot_lease_ms = options_.max_snapshot_lease_ms;
  server.off = options_.hosted.off;
  server.writes_need_lease = options_.hosted.log_mode == LogMode::kNone;
  server_ = std::make_unique<LtcServer>(
      executors, server,
      [this] {
        const NodeSession* session = lease_session_.load(std::memory_order_acquire);
        return session == nullptr ? 0 : session->lease_expiry_ns();
      },
      metrics_);
  background_ = std::make_unique<BackgroundWork>(options_.background, [this](RangeId id) {
    const auto hosted = Find(id);
    return hosted == nullptr ? nullptr : hosted->range();
  });

  server_->SetRunControl([this](std::function<void()> fn) { background_->RunControl(std::move(fn)); });

  services_.range.store = tables_.get();
  services_.range.cache = &cache_;
  services_.range.arenas = &arenas_;
  services_.range.memtable_limit_bytes = options_.memtable_limit_bytes;
  services_.range.executors.assign(executors.begin(), executors.end());
  services_.garbage = [this](const TableInfo& t, const Creator& holder) {
    MutexLock lock(&garbage_mu_);
    garbage_.emplace_back(t, holder);
  };
  services_.work_due = [this](RangeId id) { background_->Due(id); };
  services_.fenced = [this](RangeId id, const Status& why) {
    NOVA_LOG(WARNING) << options_.name << ": range " << id.value() << " lost: " << why;
    const auto hosted = Find(id);
    if (hosted != nullptr) background_->RunRelease([this, id, epoch = hosted->epoch()] { Drop(id, epoch); });
  };
  arenas_.KeepAhead(
      options_.hosted.range.memtable_size_bytes * static_cast<size_t>(options_.hosted.range.active_memtables),
      [this] { background_->RunControl([this] { arenas_.Refill(); }); });
  services_.run_reader = [this](std::function<void()> fn) { background_->RunReader(std::move(fn)); };
  services_.stocs = stocs_.get();
  services_.logs = logs_.get();
  services_.session = [this] {
    MutexLock lock(&session_mu_);
    return session_;
  };
  services_.run_control = [this](std::function<void()> fn) { background_->RunControl(std::move(fn)); };
  services_.run_change = [this](std::function<void()> fn) { background_->RunChange(std::move(fn)); };

  AddFabricMetrics(metrics_, environment_.fabric);
  AddXchgMetrics(metrics_, {xchgs.begin(), xchgs.end()});
  for (const auto& [pool, bytes] : kMemoryPools) {
    metrics_->AddCallback(StrCat("nova_ltc_memory_bytes{pool=\"", pool, "\"}"), [this, of = bytes] {
      return static_cast<double>(MemoryUse::Of(arenas_, cache_).*of);
    });
  }
  metrics_->AddCallback("nova_ltc_block_cache_hits_total",
                        [this] { return static_cast<double>(cache_.hits()); });
  metrics_->AddCallback("nova_ltc_block_cache_misses_total",
                        [this] { return static_cast<double>(cache_.misses()); });
  metrics_->AddCallback("nova_ltc_write_stall_seconds_total", [this] {
    Nanos ns = 0;
    for (const auto& h : Hosted()) ns += h->range()->stats().stalled_ns;
    return static_cast<double>(ns) * 1e-9;
  });

  for (auto& x : xchgs_) x->Start();
  serving_ = true;
  NOVA_RETURN_IF_ERROR(Join(std::move(store)));
  housekeeping_ = std::make_unique<Thread>("ltc.housekeeping.0", [this] { Housekeeping(); });
  return OkStatus();
}

// --- membership

std::string LtcNode::host() const { return options_.host.empty() ? HostOf(address()) : options_.host; }

Status LtcNode::Join(std::unique_ptr<ConfigStore> store) {
  NodeOptions node;
  node.node.name = options_.name;
  node.node.role = Role::kLtc;
  node.node.incarnation = incarnation_;
  node.node.address = address();
  node.node.host = host();
  node.node.metrics_address = options_.metrics_address;
  node.heartbeat_ns = options_.heartbeat_ns;
  auto membership = std::make_shared<Membership>();
  membership->store = std::move(store);
  NOVA_ASSIGN_OR_RETURN(membership->session,
                        JoinCluster(membership->store.get(), environment_.open_channel(), node, Events()));
  MutexLock lock(&session_mu_);
  session_ = std::shared_ptr<NodeSession>(membership, membership->session.get());
  lease_session_.store(session_.get(), std::memory_order_release);
  return OkStatus();
}

// Lets go of the session once no xchg thread can still be reading its lease.
void LtcNode::Leave() {
  lease_session_.store(nullptr, std::memory_order_release);
  std::shared_ptr<NodeSession> session;
  {
    MutexLock lock(&session_mu_);
    session = std::move(session_);
    session_ = nullptr;
  }
  if (session == nullptr) return;
  session->BeginToLeave();  // a thread that is waited for may be inside
  PassXchgs();
}

// Returns when every xchg thread has run what was submitted to it before.
void LtcNode::PassXchgs() {
  if (!serving_) return;
  for (auto& x : xchgs_) {
    auto passed = std::make_shared<Notification>();
    x->Submit([passed] { passed->Notify(); });
    passed->WaitUntil(Now() + 10 * kSecond);
  }
}

NodeEvents LtcNode::Events() {
  NodeEvents e;
  e.assigned = [this](const RangeAssignment& a) { OnAssigned(a); };
  e.excluded = [this](RangeId r, Epoch epoch) { OnExcluded(r, epoch); };
  e.release = [this](RangeId r, Epoch epoch) { OnRelease(r, epoch); };
  e.stocs = [this](const std::vector<NodeInfo>& live) { stocs_->UpdateStocs(live); };
  e.lost = [this](const std::string& why) { OnSessionLost(why); };
  e.report = [this] { return Report(); };
  return e;
}

void LtcNode::OnSessionLost(const std::string& why) {
  NOVA_LOG(WARNING) << options_.name << ": membership lost (" << why << "), joining again";
  rejoin_.store(true);
}

NodeReport LtcNode::Report() const {
  NodeReport report;
  for (const auto& h : Hosted()) {
    const RangeStats s = h->range()->stats();
    report.ranges.push_back(
        {h->id(), h->epoch(), h->range()->active(), s.writes, s.reads, s.bytes, h->table_copies()});
  }
  report.copies = options_.hosted.CopiesKeptOfEach();
  report.fabric = environment_.fabric->counters();
  const MemoryUse memory = MemoryUse::Of(arenas_, cache_);
  for (const auto& [pool, bytes] : kMemoryPools) report.memory.emplace_back(pool, memory.*bytes);
  for (const NodeInfo& stoc : stocs_->live()) {
    if (!stoc.draining) continue;
    uint64_t& tables = report.draining[stoc.stoc_id];
    for (const auto& h : Hosted()) tables += h->range()->TablesLeft(stoc.stoc_id);
  }
  return report;
}

// --- ranges

void LtcNode::OnAssigned(const RangeAssignment& a) {
  if (stopping_.load()) return;
  const RangeId id = a.record.id;
  {
    MutexLock lock(&mu_);
    if (giving_back_.contains(id)) return;  // it comes again with the next heartbeats
    const auto held = ranges_.find(id);
    if (held != ranges_.end() && held->second->epoch() >= a.record.epoch) return;
    const auto excluded = excluded_.find(id);
    if (excluded != excluded_.end() && excluded->second >= a.record.epoch) return;
    Opening& opening = opening_[id];
    if (opening.epoch >= a.record.epoch) return;
    if (opening.hosted != nullptr) opening.hosted->Abandon();
    opening = {a.record.epoch, nullptr};
  }
  background_->RunOpen([this, a] { OpenRange(a); });
}

void LtcNode::OpenRange(const RangeAssignment& a) {
  const RangeId id = a.record.id;
  if (a.record.epoch > Epoch(0)) Drop(id, Epoch(a.record.epoch.value() - 1));
  const auto hosted = std::make_shared<HostedRange>(&services_, options_.hosted, a);
  {
    MutexLock lock(&mu_);
    const auto opening = opening_.find(id);
    // excluded, or a later epoch is assigned
    if (opening == opening_.end() || opening->second.epoch != a.record.epoch) return;
    if (stopping_.load()) return;
    opening->second.hosted = hosted;
  }
  const Status s = hosted->Open();
  MutexLock lock(&mu_);
  const auto opening = opening_.find(id);
  if (opening != opening_.end() && opening->second.hosted == hosted) opening_.erase(opening);
  if (s.ok() && !hosted->abandoned()) {
    ranges_[id] = hosted;
    return PublishLocked();
  }
  // The assignment comes again with the next heartbeats; unless the record says OPEN, which an Open that
  // ended in doubt may have written.
  // it stays unavailable until a copy that is whole comes back, or a person decides
  if (absl::IsDataLoss(s)) {
    metrics_->counter("nova_ltc_opens_refused_for_data_loss_total")->Add();
    NOVA_LOG(ERROR) << options_.name << ": DATA LOSS: range " << id.value()
                    << " is not opened: " << s.message();
  } else {
    NOVA_LOG(WARNING) << options_.name << ": range " << id.value() << " at epoch " << a.record.epoch.value()
                      << " did not open: " << s;
  }
  hosted->Abandon();
  to_give_back_.push_back(hosted);
}

void LtcNode::Drop(RangeId id, Epoch up_to) {
  std::shared_ptr<HostedRange> dropped;  // outlives the lock
  MutexLock lock(&mu_);
  const auto it = ranges_.find(id);
  if (it == ranges_.end() || it->second->epoch() > up_to) return;
  dropped = it->second;
  dropped->Abandon();
  ranges_.erase(it);
  to_give_back_.push_back(std::move(dropped));
  PublishLocked();
}

// A range that we lost while its record still names us is served by nobody, and the coordinator does not
// know.
void LtcNode::GiveBackRanges() {
  std::vector<std::shared_ptr<HostedRange>> ranges;
  {
    MutexLock lock(&mu_);
    for (auto& hosted : std::exchange(to_give_back_, {})) {
      // A later try at the same epoch is what the record names then: given back, its range would go to
      // another LTC at once, and be read here under our lease all the same.
      const auto held = ranges_.find(hosted->id());
      const auto opening = opening_.find(hosted->id());
      if (held != ranges_.end() && held->second->epoch() >= hosted->epoch()) continue;
      if (opening != opening_.end() && opening->second.epoch >= hosted->epoch()) continue;
      giving_back_.insert(hosted->id());
      ranges.push_back(std::move(hosted));
    }
  }
  for (const auto& hosted : ranges) {
    background_->RunRelease([this, hosted] {
      const Status s = hosted->GiveBack();
      MutexLock lock(&mu_);
      giving_back_.erase(giving_back_.find(hosted->id()));
      if (s.ok() || absl::IsNotFound(s)) return;
      NOVA_LOG(WARNING) << options_.name << ": range " << hosted->id().value()
                        << " not given back yet: " << s;
      to_give_back_.push_back(hosted);
    });
  }
}

void LtcNode::OnExcluded(RangeId range, Epoch epoch) {
  {
    MutexLock lock(&mu_);
    Epoch& excluded = excluded_[range];
    excluded = std::max(excluded, epoch);
    const auto opening = opening_.find(range);
    if (opening != opening_.end() && opening->second.epoch <= epoch) {
      if (opening->second.hosted != nullptr) opening->second.hosted->Abandon();
      opening_.erase(opening);
    }
    const auto held = ranges_.find(range);
    if (held == ranges_.end() || held->second->epoch() > epoch) return;
    held->second->Abandon();  // at once: the lease that excludes it begins with this reply (lease, C3)
  }
  background_->RunRelease([this, range, epoch] { Drop(range, epoch); });
}

void LtcNode::OnRelease(RangeId range, Epoch epoch) {
  const auto hosted = Find(range);
  if (hosted == nullptr || hosted->epoch() != epoch || !hosted->range()->active()) return;
  background_->RunRelease([this, hosted] {
    if (!hosted->range()->active()) return;  // asked with every heartbeat until it is done
    const Status s = hosted->Release(Now() + kReleaseDeadline);
    if (!s.ok())
      NOVA_LOG(WARNING) << options_.name << ": releasing range " << hosted->id().value() << ": " << s;
    if (hosted->abandoned()) Drop(hosted->id(), hosted->epoch());
  });
}

void LtcNode::PublishLocked() {
  auto map = std::make_shared<RangeMap>();
  for (const auto& [id, hosted] : ranges_) map->emplace(id, hosted->range());
  server_->SetRanges(std::move(map));
}

std::shared_ptr<HostedRange> LtcNode::Find(RangeId range) const {
  MutexLock lock(&mu_);
  const auto it = ranges_.find(range);
  return it == ranges_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<HostedRange>> LtcNode::Hosted() const {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<HostedRange>> all;
  for (const auto& [id, hosted] : ranges_) all.push_back(hosted);
  return all;
}

// --- housekeeping

void LtcNode::Housekeeping() {
  Nanos next_log = Now() + kLogPeriod;
  Nanos next_orphans = Now() + options_.orphan_period_ns;
  while (!stop_.WaitUntil(Now() + kHousekeepingPeriod)) {
    CollectGarbage();
    RepairNext();
    if (rejoin_.exchange(false)) {
      Leave();
      auto store = environment_.open_store();
      Status s = store.status();
      if (s.ok()) s = Join(*std::move(store));
      if (!s.ok()) {
        NOVA_LOG(WARNING) << options_.name << ": joining again: " << s;
        rejoin_.store(true);
      }
      continue;
    }
    SealForMemory();
    FlushExposed();
    const bool log_due = Now() >= next_log;
    const bool orphans_due = Now() >= next_orphans;
    for (const auto& h : Hosted()) {
      if (h->range()->NeedsFlush() || h->range()->NeedsCompaction()) background_->Due(h->id());
      if (log_due) background_->RunControl([h] { h->MaintainLog(); });
      if (orphans_due) background_->RunControl([this, h] { h->CollectOrphans(options_.orphan_grace_ms); });
    }
    if (log_due) {
      next_log = Now() + kLogPeriod;
      GiveBackRanges();
    }
    if (orphans_due) next_orphans = Now() + options_.orphan_period_ns;
  }
}

// All ranges share the memory of memtables: past two thirds of it the fullest active round is sealed, so that
// it can be flushed.
void LtcNode::SealForMemory() {
  if (arenas_.bytes_used() * 3 < options_.memtable_limit_bytes * 2) return;
  std::shared_ptr<HostedRange> fullest;
  size_t most = 0;
  for (const auto& h : Hosted()) {
    const size_t bytes = h->range()->active_bytes();
    if (bytes > most) {
      most = bytes;
      fullest = h;
    }
  }
  if (fullest != nullptr) fullest->range()->SealActive();
}

// Group change (L4): what a replaced log group holds is flushed, the most exposed ranges first and no more at
// once than there are threads for it: a StoC that died had a part in the groups of many ranges, and sealing
// them all would leave the last one for the end all the same, and the writers of all of them without room.
void LtcNode::FlushExposed() {
  struct Exposed {
    size_t live_members;
    std::shared_ptr<HostedRange> hosted;
  };
  std::vector<Exposed> exposed;
  for (const auto& h : Hosted()) {
    if (const auto live = h->Exposure()) exposed.push_back({*live, h});
  }
  std::stable_sort(exposed.begin(), exposed.end(),
                   [](const Exposed& a, const Exposed& b) { return a.live_members < b.live_members; });
  if (exposed.size() > static_cast<size_t>(options_.background.flush_threads)) {
    exposed.resize(static_cast<size_t>(options_.background.flush_threads));
  }
  for (const Exposed& e : exposed) {
    // Rounds flush in order (flush order, K3b): the active one's turn comes when no sealed one is left.
    if (e.hosted->range()->stats().rounds == 1) e.hosted->range()->SealActive();
    background_->FlushFirst(e.hosted->id());
  }
}

void LtcNode::CollectGarbage() {
  std::vector<std::pair<TableInfo, Creator>> garbage;
  {
    MutexLock lock(&garbage_mu_);
    garbage.swap(garbage_);
  }
  for (const auto& [t, holder] : garbage) tables_->DropTable(t, holder);
}

// --- repair (S3)

void LtcNode::OnDamaged(const Uuid& table) {
  MutexLock lock(&damaged_mu_);
  if (damaged_.size() < kMostDamaged) damaged_.insert(table);  // else the next read of it tells again
}

void LtcNode::RepairNext() {
  Uuid table;
  {
    MutexLock lock(&damaged_mu_);
    if (damaged_.empty() || repairing_ || Now() < next_repair_ns_) return;
    repairing_ = true;
    table = *damaged_.begin();
    damaged_.erase(damaged_.begin());
  }
  background_->RunControl([this, table] {
    const Status s = Repair(table);
    if (!s.ok())
      NOVA_LOG(WARNING) << options_.name << ": table " << table.ToString() << " not repaired: " << s;
    MutexLock lock(&damaged_mu_);
    repairing_ = false;
    if (!s.ok()) next_repair_ns_ = Now() + kRepairPause;  // reads go on finding it
  });
}

Status LtcNode::Repair(const Uuid& table) {
  for (const auto& h : Hosted()) {
    const auto info = h->range()->FindTable(table);
    if (!info) continue;
    const Creator holder{h->id(), h->epoch(), 0};
    const auto written = tables_->Repair(*info, holder);
    // A table that was dropped meanwhile may be deleted already, and what was written after that would stay.
    // One that is still referenced now will be deleted after now.
    if (!h->range()->ReferencedFiles().contains({table, kMetadataPart})) tables_->DropTable(*info, holder);
    return written.status();
  }
  return OkStatus();  // compacted away
}

// --- the end

Status LtcNode::Stop(Nanos deadline_ns) {
  stopping_.store(true);
  std::vector<std::shared_ptr<HostedRange>> hosted = Hosted();
  std::atomic<size_t> left{hosted.size()};
  Mutex mu;
  Status first;
  for (const auto& h : hosted) {
    background_->RunRelease([&, h] {
      Status s = h->Release(deadline_ns);
      for (; !s.ok() && !h->abandoned() && Now() < deadline_ns; s = h->Release(deadline_ns)) {
        SleepFor(kReleasePause);
      }
      {
        MutexLock lock(&mu);
        if (first.ok()) first = s;
      }
      left.fetch_sub(1);
    });
  }
  while (left.load() > 0) SleepFor(5 * kMillisecond);
  CollectGarbage();
  Leave();
  return first;
}

LtcNode::~LtcNode() {
  stopping_.store(true);
  stop_.Notify();
  housekeeping_ = nullptr;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, hosted] : ranges_) hosted->Abandon();
    for (const auto& [id, opening] : opening_) {
      if (opening.hosted != nullptr) opening.hosted->Abandon();
    }
  }
  Leave();
  if (background_ != nullptr) background_->Stop();
  PassXchgs();  // what waited for the log is answered
  for (auto& x : xchgs_) x->Stop();
  MutexLock lock(&mu_);
  ranges_.clear();
  to_give_back_.clear();
}

std::string LtcNode::address() const { return options_.advertise.empty() ? address_ : options_.advertise; }

std::string LtcNode::StatusText() const {
  std::string out =
      StrCat(options_.name, " incarnation ", incarnation_.value(), " ", address(), "\nmemory in MB:");
  const MemoryUse memory = MemoryUse::Of(arenas_, cache_);
  for (const auto& [pool, bytes] : kMemoryPools) absl::StrAppend(&out, "  ", pool, " ", memory.*bytes >> 20);
  absl::StrAppend(&out, "\n\n");
  for (const auto& h : Hosted()) {
    const RangeStats s = h->range()->stats();
    absl::StrAppend(&out, "range ", h->id().value(), " epoch ", h->epoch().value(), " ",
                    h->range()->active() ? "open" : "closed", "  tables ", s.tables, " (", s.bytes >> 20,
                    " MB, ", s.level0_runs, " Level0 runs)  rounds ", s.rounds, " (", s.memtable_bytes >> 20,
                    " MB)  writes ", s.writes, "  reads ", s.reads, "  stalled ", s.stalled_ns / kMillisecond,
                    " ms\n");
  }
  return out;
}

}  // namespace nova
