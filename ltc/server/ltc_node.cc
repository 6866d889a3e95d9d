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
constexpr Nanos kTrimPeriod = 10 * kSecond;  // without a write, after which memory goes back to the kernel
constexpr Nanos kLogPeriod = kSecond;
constexpr Nanos kIdlePeriod = kSecond;      // without a write to any range, after which Level0 is merged down
constexpr Nanos kAuditPause = 2 * kSecond;  // after a StoC's return, before its files are looked at
constexpr Nanos kRepairPause = 10 * kSecond;      // after one that failed
constexpr Nanos kReleaseDeadline = 60 * kSecond;  // of the flush
// While the node stops, after a release that was taken back.
constexpr Nanos kReleasePause = 50 * kMillisecond;
constexpr Nanos kRejoinPause = kSecond;       // between attempts to join again
constexpr Nanos kClusterWait = 10 * kSecond;  // for the first coordinator of a new cluster

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// A session and the store it lives on; control threads may still be inside when the node has left.
struct Membership {
  std::unique_ptr<ConfigStore> store;
  std::unique_ptr<NodeSession> session;
};

// Of a table in the version or in a checkpoint; nullopt: in none. A copy: a handle would keep the table.
std::optional<TableInfo> InfoOf(const Version& version, const Uuid& table) {
  const TableRef found = version.FindHandle(table);
  return found == nullptr ? std::nullopt : std::optional(found->info());
}

}  // namespace

LtcNode::LtcNode(const LtcOptions& options, const LtcEnvironment& environment)
    : options_(options),
      environment_(environment),
      metrics_(environment.metrics),
      arenas_(options.memtable_limit_bytes),
      cache_(options.block_cache_bytes),
      chores_(kRepairPause),
      ranges_([this](const auto& held) { Publish(held); }),
      totals_(&ranges_) {}

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
      identity_.cluster = *cluster;
      break;
    }
    if (!absl::IsUnavailable(cluster.status()) || Now() > until) return cluster.status();
    SleepFor(100 * kMillisecond);
  }
  NOVA_ASSIGN_OR_RETURN(identity_.incarnation, DrawIncarnation(store.get()));

  Hello self;
  self.role = Role::kLtc;
  self.incarnation = identity_.incarnation.value();
  self.cluster = identity_.cluster;
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
  NOVA_ASSIGN_OR_RETURN(
      identity_.address,
      environment_.fabric->Listen(options_.address, self, ports, [this](const Hello& peer) -> Status {
        if (!peer.cluster.IsNil() && peer.cluster != identity_.cluster)
          return absl::InvalidArgumentError("this is another cluster");
        return OkStatus();
      }));
  // A table is a file's size and a value more, or, where one key has many versions, as large as they are.
  StocClientOptions transfer;
  transfer.transfer_bytes =
      std::max(transfer.transfer_bytes, 2 * options_.hosted.range.compaction.table_size_bytes);
  stocs_ = std::make_unique<StocClient>(environment_.fabric, xchgs, transfer);
  StocTableStoreOptions tables;
  tables.damaged = [this](const Uuid& table) { chores_.Damaged(table); };
  tables_ = NewStocTableStore(
      stocs_.get(), [](Executor* e) { return static_cast<XchgExecutor*>(e)->xchg(); }, tables, metrics_);
  if (options_.offload.policy != OffloadPolicy::kNever)
    offloader_ = std::make_unique<JobOffloader>(options_.offload, stocs_.get(), metrics_);
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
      executors, server, [this] { return membership_.lease_expiry_ns(); }, metrics_);
  background_ = std::make_unique<BackgroundWork>(options_.background, [this](RangeId id) {
    const auto hosted = ranges_.Find(id);
    return hosted == nullptr ? nullptr : hosted->range();
  });
  server_->SetRunControl([this](std::function<void()> fn) { return background_->RunControl(std::move(fn)); });

  SetServices(executors);
  AddMetrics(xchgs);
  for (auto& x : xchgs_) x->Start();
  serving_ = true;
  NOVA_RETURN_IF_ERROR(Join(std::move(store)));
  housekeeping_ = std::make_unique<Thread>("ltc.housekeeping.0", [this] { Housekeeping(); });
  return OkStatus();
}

void LtcNode::SetServices(const std::vector<XchgExecutor*>& executors) {
  services_.range.store = tables_.get();
  services_.range.cache = &cache_;
  services_.range.arenas = &arenas_;
  services_.range.memtable_limit_bytes = options_.memtable_limit_bytes;
  services_.range.executors.assign(executors.begin(), executors.end());
  services_.garbage = [this](const TableInfo& t, const Creator& holder) { chores_.Dropped(t, holder); };
  services_.work_due = [this](RangeId id) { background_->Due(id); };
  services_.fenced = [this](RangeId id, Epoch epoch, const Status& why) {
    NOVA_LOG(WARNING) << options_.name << ": range " << id.value() << " at epoch " << epoch.value()
                      << " lost: " << why;
    background_->RunRelease([this, id, epoch] { totals_.Drop(id, epoch); });
  };
  arenas_.KeepAhead(
      options_.hosted.range.memtable_size_bytes * static_cast<size_t>(options_.hosted.range.active_memtables),
      [this] { background_->RunControl([this] { arenas_.Refill(); }); });
  services_.run_reader = [this](std::function<void()> fn) { background_->RunReader(std::move(fn)); };
  services_.stocs = stocs_.get();
  services_.logs = logs_.get();
  services_.offloader = offloader_.get();
  services_.session = [this] { return membership_.session(); };
  services_.stocs_told = [this] { return membership_.stocs(); };
  services_.damaged = [this](const Uuid& table) { chores_.Damaged(table); };
  services_.run_control = [this](std::function<void()> fn) { background_->RunControl(std::move(fn)); };
  services_.run_change = [this](std::function<void()> fn) { background_->RunChange(std::move(fn)); };
}

void LtcNode::AddMetrics(const std::vector<Xchg*>& xchgs) {
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
  // Of live StoCs. What was seen long ago says nothing of a disk.
  metrics_->AddFamily("nova_ltc_stoc_write_ns_per_byte", [this] {
    constexpr Nanos kLately = 60 * kSecond;
    Metrics::Samples paces;
    for (const NodeInfo& n : stocs_->live()) {
      const StocPace pace = stocs_->LoadOf(n.stoc_id).pace;
      paces[StrCat("stoc=\"", n.name, "\"")] = pace.age_ns < kLately ? pace.ns_per_byte : 0;
    }
    return paces;
  });
  totals_.AddMetrics(metrics_);
}

// --- membership

std::string LtcNode::host() const { return options_.host.empty() ? HostOf(address()) : options_.host; }

Status LtcNode::Join(std::unique_ptr<ConfigStore> store) {
  NodeOptions node;
  node.cluster = identity_.cluster;
  node.node.name = options_.name;
  node.node.role = Role::kLtc;
  node.node.incarnation = identity_.incarnation;
  node.node.address = address();
  node.node.host = host();
  node.node.metrics_address = options_.metrics_address;
  node.node.draining = draining_.load();
  node.heartbeat_ns = options_.heartbeat_ns;
  auto membership = std::make_shared<Membership>();
  membership->store = std::move(store);
  NOVA_ASSIGN_OR_RETURN(membership->session,
                        JoinCluster(membership->store.get(), environment_.open_channel(), node, Events()));
  membership_.Joined(std::shared_ptr<NodeSession>(membership, membership->session.get()));
  return OkStatus();
}

// Lets go of the session once no xchg thread can still be reading its lease.
void LtcNode::Leave() {
  const std::shared_ptr<NodeSession> session = membership_.Take();
  if (session == nullptr) return;
  session->BeginToLeave();  // a thread that is waited for may be inside
  Responds();
}

bool LtcNode::Responds() {
  if (!serving_) return true;
  bool all = true;
  for (auto& x : xchgs_) {
    auto passed = std::make_shared<Notification>();
    x->Submit([passed] { passed->Notify(); });
    if (passed->WaitUntil(Now() + 10 * kSecond)) continue;
    NOVA_LOG(ERROR) << options_.name << ": thread " << x->options().name << " does nothing for 10 s";
    all = false;
  }
  return all;
}

NodeEvents LtcNode::Events() {
  NodeEvents e;
  e.assigned = [this](const RangeAssignment& a) { OnAssigned(a); };
  e.excluded = [this](RangeId r, Epoch epoch) { OnExcluded(r, epoch); };
  e.release = [this](RangeId r, Epoch epoch) { OnRelease(r, epoch); };
  e.stocs = [this](const StocList& stocs) { OnStocs(stocs); };
  e.settings = [this](const LtcSettings& settings) { OnSettings(settings); };
  e.draining = [this](bool draining) { draining_.store(draining); };
  e.lost = [this](const std::string& why) { OnSessionLost(why); };
  e.report = [this] { return Report(); };
  return e;
}

void LtcNode::OnSettings(const LtcSettings& settings) {
  membership_.SetSettings(settings);
  for (const auto& hosted : ranges_.held()) hosted->Configure(settings);
}

void LtcNode::OnStocs(const StocList& stocs) {
  const std::vector<NodeInfo> before = stocs_->live();
  stocs_->UpdateStocs(stocs.live);
  membership_.SetStocs(stocs);
  background_->SetDisks(static_cast<size_t>(
      std::count_if(stocs.live.begin(), stocs.live.end(), [](const NodeInfo& n) { return !n.IsLeft(); })));
  const bool returned = std::any_of(stocs.live.begin(), stocs.live.end(), [&](const NodeInfo& n) {
    return std::none_of(before.begin(), before.end(), [&n](const NodeInfo& b) {
      return b.stoc_id == n.stoc_id && b.incarnation == n.incarnation;
    });
  });
  if (returned) stoc_returned_ns_.store(Now());
}

void LtcNode::OnSessionLost(const std::string& why) {
  NOVA_LOG(WARNING) << options_.name << ": membership lost (" << why << "), joining again";
  membership_.Lost();
}

NodeReport LtcNode::Report() const {
  NodeReport report;
  for (const auto& h : ranges_.held()) {
    const RangeStats s = h->range()->stats();
    report.ranges.push_back(
        {h->id(), h->epoch(), h->range()->active(), s.writes, s.reads, s.bytes, h->table_copies()});
  }
  report.stopping = stopping_.load();
  report.not_opened = failures_.Told();
  report.copies = options_.hosted.CopiesKeptOfEach();
  report.fabric = environment_.fabric->counters();
  const MemoryUse memory = MemoryUse::Of(arenas_, cache_);
  for (const auto& [pool, bytes] : kMemoryPools) report.memory.emplace_back(pool, memory.*bytes);
  const std::vector<StocId> lost = membership_.stocs().lost;
  for (const StocId stoc : lost) report.draining[stoc] = 0;
  for (const NodeInfo& stoc : stocs_->live()) {
    if (stoc.IsLeft()) report.draining[stoc.stoc_id] = 0;
  }
  std::vector<StocId> left;
  for (const auto& [stoc, tables] : report.draining) left.push_back(stoc);
  for (const auto& h : ranges_.held()) {
    for (const auto& [stoc, tables] : h->range()->rebuilder().TablesLeft(left))
      report.draining[stoc] += tables;
  }
  return report;
}

// --- ranges

void LtcNode::OnAssigned(const RangeAssignment& a) {
  if (stopping_.load() || !ranges_.Assigned(a.record.id, a.record.epoch)) return;
  if (!background_->RunOpen([this, a] { OpenRange(a); })) ranges_.NotBegun(a.record.id, a.record.epoch);
}

void LtcNode::OpenRange(const RangeAssignment& a) {
  const RangeId id = a.record.id;
  if (a.record.epoch > Epoch(0)) totals_.Drop(id, Epoch(a.record.epoch.value() - 1));
  HostedRangeOptions options = options_.hosted;
  if (options_.near_tables) options.placement.first_copies_on = host();
  const auto hosted = std::make_shared<HostedRange>(&services_, options, a, membership_.settings());
  if (stopping_.load() || !ranges_.BeginToOpen(hosted)) return;
  const Status s = hosted->Open();
  if (ranges_.Opened(hosted, s.ok())) return failures_.Forget(id, a.record.epoch);
  if (!s.ok()) failures_.Failed(id, a.record.epoch, s);
  // The assignment comes again with the next heartbeats; unless the record says OPEN, which an Open that
  // ended in doubt may have written. Without a whole copy the range stays unavailable until one comes back,
  // or a person decides.
  if (absl::IsDataLoss(s)) {
    metrics_->counter("nova_ltc_opens_refused_for_data_loss_total")->Add();
    NOVA_LOG(ERROR) << options_.name << ": DATA LOSS: range " << id.value()
                    << " is not opened: " << s.message();
  } else {
    NOVA_LOG(WARNING) << options_.name << ": range " << id.value() << " at epoch " << a.record.epoch.value()
                      << " did not open: " << s;
  }
}

// A range that we lost while its record still names us is served by nobody, and the coordinator does not
// know.
void LtcNode::GiveBackRanges() {
  for (const auto& hosted : ranges_.BeginToGiveBack()) {
    const bool queued = background_->RunRelease([this, hosted] {
      const Status s = hosted->GiveBack();
      const bool done = s.ok() || absl::IsNotFound(s);
      ranges_.GaveBack(hosted, done);
      if (!done)
        NOVA_LOG(WARNING) << options_.name << ": range " << hosted->id().value()
                          << " not given back yet: " << s;
    });
    if (!queued) ranges_.GaveBack(hosted, false);
  }
}

void LtcNode::OnExcluded(RangeId range, Epoch epoch) {
  failures_.Forget(range, epoch);
  if (!ranges_.Excluded(range, epoch)) return;
  background_->RunRelease([this, range, epoch] { totals_.Drop(range, epoch); });
}

void LtcNode::OnRelease(RangeId range, Epoch epoch) {
  const auto hosted = ranges_.Find(range);
  if (hosted == nullptr || hosted->epoch() != epoch || !hosted->range()->active()) return;
  QueueOnce(hosted, HostedRange::Chore::kRelease, &BackgroundWork::RunRelease, [this, hosted] {
    if (!hosted->range()->active()) return;  // asked with every heartbeat until it is done
    const Status s = hosted->Release(Now() + kReleaseDeadline);
    if (!s.ok())
      NOVA_LOG(WARNING) << options_.name << ": releasing range " << hosted->id().value() << ": " << s;
    if (hosted->abandoned()) totals_.Drop(hosted->id(), hosted->epoch());
  });
}

void LtcNode::QueueOnce(const std::shared_ptr<HostedRange>& hosted, HostedRange::Chore chore,
                        bool (BackgroundWork::*run)(std::function<void()>), std::function<void()> fn) {
  if (!hosted->Claim(chore)) return;
  const auto body = [hosted, chore, fn = std::move(fn)] {
    fn();
    hosted->Ended(chore);
  };
  if (!(background_.get()->*run)(body)) hosted->Ended(chore);
}

void LtcNode::Publish(const RangeLedger<HostedRange>::Held& held) {
  auto map = std::make_shared<RangeMap>();
  for (const auto& [id, hosted] : held) map->emplace(id, hosted->range());
  server_->SetRanges(std::move(map));
}

// --- housekeeping

void LtcNode::JoinAgain() {
  Leave();
  auto store = environment_.open_store();
  Status s = store.status();
  if (s.ok()) s = Join(*std::move(store));
  if (s.ok()) return;
  if (absl::IsFailedPrecondition(s)) {
    NOVA_LOG(ERROR) << options_.name << ": " << s.message();
    return membership_.Superseded();
  }
  NOVA_LOG(WARNING) << options_.name << ": joining again: " << s;
  membership_.Lost();
  stop_.WaitUntil(Now() + kRejoinPause);
}

void LtcNode::Housekeeping() {
  Nanos next_log = Now() + kLogPeriod;
  Nanos next_orphans = Now() + options_.orphan_period_ns;
  Nanos next_trim = Now() + kTrimPeriod, next_idle = Now() + kIdlePeriod;
  uint64_t numbers_before = 0;  // of all ranges
  while (!stop_.WaitUntil(Now() + kHousekeepingPeriod)) {
    CollectGarbage();
    RepairNext();
    if (membership_.TakeLost()) {
      JoinAgain();
      continue;
    }
    SealForMemory();
    FlushExposed();
    FreeLogMemory();
    const bool log_due = Now() >= next_log;
    // What a StoC has that comes back is looked at soon: what it still needs, and what it lacks.
    if (const Nanos returned = stoc_returned_ns_.exchange(0); returned != 0)
      next_orphans = std::min(next_orphans, returned + kAuditPause);
    const bool orphans_due = Now() >= next_orphans;
    for (const auto& h : ranges_.held()) {
      if (h->range()->NeedsFlush() || h->range()->NeedsCompaction()) background_->Due(h->id());
      if (h->range()->rebuilder().NeedsRebuild()) background_->RebuildDue(h->id());
      if (log_due)
        QueueOnce(h, HostedRange::Chore::kMaintain, &BackgroundWork::RunControl, [h] { h->Maintain(); });
      if (orphans_due)
        QueueOnce(h, HostedRange::Chore::kCollectOrphans, &BackgroundWork::RunAudit,
                  [this, h] { h->CollectOrphans(options_.orphan_grace_ms); });
    }
    if (log_due) {
      next_log = Now() + kLogPeriod;
      GiveBackRanges();
    }
    if (orphans_due) next_orphans = Now() + options_.orphan_period_ns;
    if (Now() >= next_idle) {
      uint64_t numbers = 0;
      for (const auto& h : ranges_.held()) numbers += h->range()->points().sequences().last();
      if (std::exchange(numbers_before, numbers) == numbers) {
        for (const auto& h : ranges_.held()) h->range()->compactor().BeIdle();
      }
      next_idle = Now() + kIdlePeriod;
    }
    if (Now() >= next_trim) {
      arenas_.TrimIfIdle();
      next_trim = Now() + kTrimPeriod;
    }
  }
}

// All ranges share the memory of memtables: past two thirds of it the active round is sealed whose flush
// frees most. Where its successor takes as much as it does, sealing it would only make a small table.
void LtcNode::SealForMemory() {
  if (services_.range.freeable_bytes() * 3 < services_.range.freeable_limit_bytes() * 2) return;
  std::shared_ptr<HostedRange> fullest;
  size_t most = ArenaPool::kChunkBytes - 1;  // less is no gain
  for (const auto& h : ranges_.held()) {
    const size_t bytes = h->range()->view()->active->freeable_bytes();
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
  for (const auto& h : ranges_.held()) {
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

// A range that is seldom written holds a segment at each member for a few records, for as long as its round
// is open.
void LtcNode::FreeLogMemory() {
  if (!logs_->lacks_memory()) return;
  std::vector<std::pair<Nanos, std::shared_ptr<HostedRange>>> holders;
  for (const auto& h : ranges_.held()) {
    h->FreeSpareLogs();
    if (const auto since = h->LogsHeldSince()) holders.emplace_back(*since, h);
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (holders.size() > static_cast<size_t>(options_.background.flush_threads)) {
    holders.resize(static_cast<size_t>(options_.background.flush_threads));
  }
  for (const auto& [since, hosted] : holders) {
    hosted->range()->SealActive();
    hosted->range()->FlushHeld();
    background_->FlushFirst(hosted->id());
  }
}

void LtcNode::CollectGarbage() {
  for (const auto& [t, holder] : chores_.TakeDropped()) tables_->DropTable(t, holder);
}

// --- repair (S3)

void LtcNode::RepairNext() {
  const std::optional<Uuid> table = chores_.BeginRepair();
  if (!table) return;
  const bool queued = background_->RunControl([this, table = *table] {
    const Status s = Repair(table);
    if (!s.ok())
      NOVA_LOG(WARNING) << options_.name << ": table " << table.ToString() << " not repaired: " << s;
    chores_.RepairEnded(s.ok());
  });
  if (!queued) chores_.RepairEnded(false);
}

Status LtcNode::Repair(const Uuid& table) {
  for (const auto& h : ranges_.held()) {
    const auto info = InfoOf(*h->range()->versions().current(), table);
    if (!info) continue;
    const JobBook::Job job(&h->range()->jobs());
    const Creator holder{h->id(), h->epoch(), job.id()};
    const auto written = tables_->Repair(*info, holder);
    // A table that was dropped meanwhile may be deleted already, and what was written after that would stay.
    // One that is still referenced now will be deleted after now.
    if (!h->range()->versions().ReferencedFiles().contains({table, kMetadataPart}))
      tables_->DropTable(*info, holder);
    return written.status();
  }
  return OkStatus();  // compacted away
}

// --- the end

Status LtcNode::Stop(Nanos deadline_ns) {
  stopping_.store(true);
  // The coordinator hears of that before it gives to anybody what is let go of.
  if (!ranges_.held().empty()) SleepUntil(std::min(deadline_ns, Now() + 2 * options_.heartbeat_ns));
  std::vector<std::shared_ptr<HostedRange>> hosted = ranges_.held();
  Mutex mu;
  CondVar ended;
  size_t left = hosted.size();
  Status first;
  const auto end = [&](const Status& s) {
    MutexLock lock(&mu);
    if (first.ok()) first = s;
    if (--left == 0) ended.SignalAll();
  };
  for (const auto& h : hosted) {
    const bool queued = background_->RunRelease([&, h] {
      Status s = h->Release(deadline_ns);
      for (; !s.ok() && !h->abandoned() && Now() < deadline_ns; s = h->Release(deadline_ns)) {
        SleepFor(kReleasePause);
      }
      end(s);
    });
    if (!queued) end(OkStatus());
  }
  {
    MutexLock lock(&mu);
    while (left > 0) ended.Wait(&mu);
  }
  CollectGarbage();
  Leave();
  return first;
}

LtcNode::~LtcNode() {
  stopping_.store(true);
  stop_.Notify();
  housekeeping_ = nullptr;
  ranges_.AbandonAll();
  Leave();
  if (background_ != nullptr) background_->Stop();
  Responds();  // what waited for the log is answered
  for (auto& x : xchgs_) x->Stop();
  ranges_.Clear();
}

std::string LtcNode::address() const {
  return options_.advertise.empty() ? identity_.address : options_.advertise;
}

std::string LtcNode::StatusText() const {
  std::string out = StrCat(options_.name, " incarnation ", identity_.incarnation.value(), " ", address(),
                           "\nmemory in MB:");
  const MemoryUse memory = MemoryUse::Of(arenas_, cache_);
  for (const auto& [pool, bytes] : kMemoryPools) absl::StrAppend(&out, "  ", pool, " ", memory.*bytes >> 20);
  absl::StrAppend(&out, "\n\n");
  for (const auto& h : ranges_.held()) {
    const RangeStats s = h->range()->stats();
    absl::StrAppend(&out, "range ", h->id().value(), " epoch ", h->epoch().value(), " ",
                    h->range()->active() ? "open" : "closed", "  tables ", s.tables, " (", s.bytes >> 20,
                    " MB, ", s.level0_runs, " Level0 runs in ", s.dranges, " Dranges)  rounds ", s.rounds,
                    " of ", s.active_memtables, " memtables (", s.memtable_bytes >> 20, " MB)  writes ",
                    s.writes, "  reads ", s.reads, "  stalled ", s.stalled_ns / kMillisecond, " ms\n");
  }
  return out;
}

}  // namespace nova
