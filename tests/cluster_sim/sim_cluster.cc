#include "tests/cluster_sim/sim_cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "client/client_core.h"
#include "common/base/log.h"
#include "coordinator/znodes.h"
#include "stoc/file_header.h"

namespace nova {
namespace {

bool IsKind(const std::string& node, std::string_view kind) {
  return node.size() > kind.size() && node.starts_with(kind) && node[kind.size()] == '-';
}

std::string CoordinatorAddress(const std::string& node) { return node + ":7400"; }

// The calling fiber works for that host.
class AsHost {
 public:
  explicit AsHost(const Simulation::Host* host) : before_(Simulation::Current()->host()) {
    Simulation::Current()->set_host(host);
  }
  ~AsHost() { Simulation::Current()->set_host(before_); }
  AsHost(const AsHost&) = delete;
  AsHost& operator=(const AsHost&) = delete;

 private:
  const Simulation::Host* const before_;
};

// An empty disk passes for the store that was on the old one.
void KeepIdentity(const SimDisk& old, SimDisk* empty) {
  const auto superblock = old.Contents("SUPERBLOCK");
  if (!superblock) return;  // never formatted
  const auto disk = empty->Mount();
  const auto file = disk->Create("SUPERBLOCK");
  NOVA_CHECK(file.ok() && (*file)->Write(0, *superblock).ok() && (*file)->Sync().ok() &&
             disk->SyncDirectory("").ok());
}

}  // namespace

SimClusterOptions SmallCluster() {
  SimClusterOptions o;
  o.coordinator.movers = 2;
  o.ltc.memtable_limit_bytes = 8 << 20;
  o.ltc.block_cache_bytes = 64 << 10;
  o.ltc.background = {.flush_threads = 1,
                      .compaction_threads = 1,
                      .reader_threads = 1,
                      .open_threads = 2,
                      .release_threads = 1,
                      .change_threads = 1,
                      .control_threads = 1};
  o.ltc.hosted.range.memtable_size_bytes = 8 << 10;
  o.ltc.hosted.range.compaction.level1_bytes = 64 << 10;
  o.ltc.hosted.range.compaction.table_size_bytes = 8 << 10;
  o.ltc.hosted.range.table.block_size_bytes = 1024;
  o.ltc.hosted.range.scan_page_bytes = 4 << 10;
  o.ltc.hosted.placement.scatter_width = 2;
  o.ltc.hosted.placement.min_fragment_bytes = 4 << 10;
  o.ltc.log.segment_bytes = 16 << 10;
  o.ltc.log.write_deadline_ns = 300 * kMillisecond;
  o.ltc.log.open_deadline_ns = 300 * kMillisecond;
  o.ltc.orphan_period_ns = 5 * kSecond;
  o.ltc.orphan_grace_ms = 3000;
  o.stoc.log_memory_bytes = 16 << 20;
  o.stoc.segment_bytes = 16 << 10;
  o.stoc.spare_segments = 2;
  o.stoc.file_buffer_bytes = 4 << 20;
  o.stoc.files.reserve_bytes = 1 << 20;
  o.stoc.files.journal = {.half_bytes = 64 << 10, .zero_ahead_bytes = 8 << 10, .batch_bytes = 16 << 10};
  o.stoc.server.storage_threads = 2;
  o.stoc.collect_period_ns = 5 * kSecond;
  o.disk.latency_ns = 50 * kMicrosecond;
  return o;
}

// Forwards to a MemorySession, which its process' faults find as long as it stands.
class SimCluster::Session : public ConfigStore {
 public:
  Session(std::unique_ptr<MemorySession> session, Process* process)
      : session_(std::move(session)), process_(process) {
    process_->sessions.push_back(session_.get());
  }
  ~Session() override { std::erase(process_->sessions, session_.get()); }
  StatusOr<Znode> Get(const std::string& path) override { return session_->Get(path); }
  StatusOr<std::vector<std::string>> Children(const std::string& path) override {
    return session_->Children(path);
  }
  Status Create(const std::string& path, const std::string& data, bool ephemeral) override {
    return session_->Create(path, data, ephemeral);
  }
  Status Set(const std::string& path, const std::string& data, int64_t version) override {
    return session_->Set(path, data, version);
  }
  Status Delete(const std::string& path, int64_t version) override { return session_->Delete(path, version); }
  Status Multi(const std::vector<ConfigOp>& ops) override { return session_->Multi(ops); }
  Status Sync() override { return session_->Sync(); }
  void Watch(const std::string& path, std::function<void()> changed) override {
    session_->Watch(path, [changed = std::move(changed), host = process_->host] {
      const AsHost as(host);
      changed();
    });
  }
  SessionState session_state() const override { return session_->session_state(); }
  Nanos session_timeout_ns() const override { return session_->session_timeout_ns(); }
  Nanos last_answered_send_ns() const override { return session_->last_answered_send_ns(); }

 private:
  const std::unique_ptr<MemorySession> session_;
  Process* const process_;
};

SimCluster::SimCluster(SimClusterOptions options)
    : options_(std::move(options)),
      config_(options_.config),
      control_(options_.control),
      network_(std::make_unique<SimNetwork>(options_.network)),
      admin_(config_.NewSession()) {
  for (int i = 0; i < options_.coordinators; ++i) nodes_[StrCat("coordinator-", i)] = nullptr;
  for (int i = 0; i < options_.ltcs; ++i) nodes_[StrCat("ltc-", i)] = nullptr;
  for (int i = 0; i < options_.stocs; ++i) {
    nodes_[StrCat("stoc-", i)] = nullptr;
    disks_[StrCat("stoc-", i)] = std::make_unique<SimDisk>(options_.disk);
  }
}

SimCluster::~SimCluster() {
  HealAll();
  config_.set_faults(0, 0);
  control_.SetFaults({});
  for (const char* kind : {"ltc", "stoc", "coordinator"}) {
    for (const std::string& name : Names(kind)) Kill(name);
  }
  burials_.clear();  // joins
  admin_ = nullptr;
}

// --- processes

StatusOr<std::unique_ptr<ConfigStore>> SimCluster::OpenStore(Process* process) {
  if (process->dead || process->paused || process->config_cut) {
    SleepFor(kSecond);
    return absl::UnavailableError("cut off from the configuration store");
  }
  return std::unique_ptr<ConfigStore>(std::make_unique<Session>(config_.NewSession(), process));
}

std::vector<std::string> SimCluster::CoordinatorAddresses() const {
  std::vector<std::string> all;
  for (const std::string& name : Names("coordinator")) all.push_back(CoordinatorAddress(name));
  return all;
}

std::unique_ptr<ControlChannel> SimCluster::OpenChannel(const Process& process) {
  return control_.NewChannel(process.control_name, CoordinatorAddresses());
}

Status SimCluster::Start(const std::string& node) {
  NOVA_CHECK(!Runs(node)) << node << " runs already";
  auto process = std::make_unique<Process>();
  process->name = node;
  process->control_name = StrCat(node, "#", ++starts_);
  Simulation::Current()->Trace("starts " + process->control_name);
  Process* const p = process.get();
  p->host = &hosts_.emplace_back();
  p->host->name = node;
  if (options_.clock_rate_error > 0)
    p->host->clock_rate += options_.clock_rate_error * (2 * random_.NextDouble() - 1);
  nodes_[node] = std::move(process);
  Status s;
  {
    const AsHost as(p->host);  // whose threads are started now
    s = IsKind(node, "coordinator") ? StartCoordinator(p) : IsKind(node, "ltc") ? StartLtc(p) : StartStoc(p);
  }
  if (!s.ok()) {
    NOVA_LOG(INFO) << node << " did not start: " << s;
    Kill(node);
  }
  return s;
}

Status SimCluster::StartCoordinator(Process* process) {
  CoordinatorOptions options = options_.coordinator;
  options.name = process->name;
  options.address = CoordinatorAddress(process->name);
  NOVA_ASSIGN_OR_RETURN(process->coordinator,
                        CoordinatorService::Start(
                            options, [this, process] { return OpenStore(process); }, &process->metrics));
  control_.Register(options.address, [service = process->coordinator.get(), host = process->host](
                                         const std::string& method, const std::string& request) {
    const AsHost as(host);  // on the caller's fiber, by the coordinator's clock
    return service->Handle(method, request);
  });
  return OkStatus();
}

Status SimCluster::StartLtc(Process* process) {
  process->fabric = NewSimFabric(network_.get(), process->name);
  LtcOptions options = options_.ltc;
  options.name = process->name;
  options.address = process->name + ":7430";
  LtcEnvironment environment;
  environment.open_store = [this, process] { return OpenStore(process); };
  environment.open_channel = [this, process] { return OpenChannel(*process); };
  environment.fabric = process->fabric.get();
  environment.metrics = &process->metrics;
  NOVA_ASSIGN_OR_RETURN(process->ltc, LtcNode::Start(options, environment));
  return OkStatus();
}

Status SimCluster::StartStoc(Process* process) {
  process->fabric = NewSimFabric(network_.get(), process->name);
  process->mounted = disks_.at(process->name)->Mount();
  if (options_.wrap_disk) process->wrapped = options_.wrap_disk(process->name, process->mounted.get());
  StocOptions options = options_.stoc;
  options.name = process->name;
  options.address = process->name + ":7450";
  StocEnvironment environment;
  environment.open_store = [this, process] { return OpenStore(process); };
  environment.open_channel = [this, process] { return OpenChannel(*process); };
  environment.fabric = process->fabric.get();
  environment.disk = process->wrapped != nullptr ? process->wrapped.get() : process->mounted.get();
  environment.metrics = &process->metrics;
  NOVA_ASSIGN_OR_RETURN(process->stoc, StocNode::Start(options, environment));
  return OkStatus();
}

void SimCluster::StartAll() {
  for (const std::string& name : Names("coordinator")) NOVA_CHECK(Start(name).ok()) << name;
  std::vector<std::unique_ptr<Thread>> starting;
  for (const char* kind : {"stoc", "ltc"}) {
    for (const std::string& name : Names(kind)) {
      starting.push_back(std::make_unique<Thread>("sim.start", [this, name] {
        const Status s = Start(name);
        NOVA_CHECK(s.ok()) << name << ": " << s;
      }));
    }
  }
}

bool SimCluster::Runs(const std::string& node) const { return nodes_.at(node) != nullptr; }

void SimCluster::Kill(const std::string& node) {
  if (!Runs(node)) return;
  std::unique_ptr<Process> process = std::move(nodes_[node]);
  Simulation::Current()->Trace("kills " + process->control_name);
  network_->Kill(node);
  process->dead = true;
  process->paused = false;
  ApplyCuts(process.get());
  if (const auto disk = disks_.find(node); disk != disks_.end())
    disk->second->Crash(options_.torn_disks ? &random_ : nullptr);
  if (IsKind(node, "coordinator")) control_.Unregister(CoordinatorAddress(node));
  Bury(std::move(process));
}

// The object goes once its sessions have expired, as those of a process that is gone do.
void SimCluster::Bury(std::unique_ptr<Process> process) {
  burials_.push_back(std::make_unique<Thread>("sim.burial", [this, p = process.release()]() mutable {
    std::unique_ptr<Process> dead(p);
    SleepFor(options_.config.session_timeout_ns + kSecond);
    for (MemorySession* session : std::vector(dead->sessions)) {
      session->SetReachable(true);  // the server has ended it: now this side learns so
    }
    TakeApart(std::move(dead));
  }));
}

void SimCluster::TakeApart(std::unique_ptr<Process> process) {
  process->ltc = nullptr;
  process->stoc = nullptr;
  process->coordinator = nullptr;
  process->fabric = nullptr;
}

Status SimCluster::Stop(const std::string& node) {
  std::unique_ptr<Process>& process = nodes_.at(node);
  NOVA_CHECK(process != nullptr) << node << " does not run";
  process->stopping = true;
  Status s;
  if (process->ltc != nullptr) s = process->ltc->Stop(Now() + 30 * kSecond);
  if (process->stoc != nullptr) process->stoc->Stop();
  network_->Resume(node);  // whoever made it stand still does not find it any more
  TakeApart(std::move(process));
  return s;
}

// --- faults

void SimCluster::ApplyCuts(Process* process) {
  const bool control = !process->dead && !process->paused && !process->control_cut;
  for (const std::string& address : CoordinatorAddresses())
    control_.SetReachable(process->control_name, address, control);
  const bool config = !process->dead && !process->paused && !process->config_cut;
  for (MemorySession* session : std::vector(process->sessions)) {
    session->SetReachable(config);
  }
}

void SimCluster::Pause(const std::string& node) {
  if (!Runs(node)) return;
  Process* const process = nodes_[node].get();
  Simulation::Current()->Trace("pauses " + process->control_name);
  process->paused = true;
  network_->Pause(node);
  ApplyCuts(process);
}

void SimCluster::Resume(const std::string& node) {
  if (!Runs(node)) return;
  Process* const process = nodes_[node].get();
  Simulation::Current()->Trace("resumes " + process->control_name);
  process->paused = false;
  network_->Resume(node);
  ApplyCuts(process);
}

void SimCluster::Hang(const std::string& node) {
  Simulation::Current()->Trace("hangs " + node);
  network_->Pause(node);
}

void SimCluster::JumpWallClock(const std::string& node, int64_t ms) {
  if (!Runs(node)) return;
  Simulation::Current()->Trace(StrCat("the wall clock of ", node, " jumps by ", ms, " ms"));
  nodes_.at(node)->host->wall_offset_ms += ms;
}

std::unique_ptr<SimDisk> SimCluster::TakeDisk(const std::string& stoc) {
  NOVA_CHECK(!Runs(stoc)) << stoc << " runs";
  Simulation::Current()->Trace("loses the disk of " + stoc);
  auto empty = std::make_unique<SimDisk>(options_.disk);
  if (options_.n3_own_store_off) KeepIdentity(*disks_.at(stoc), empty.get());
  return std::exchange(disks_.at(stoc), std::move(empty));
}

void SimCluster::PutDisk(const std::string& stoc, std::unique_ptr<SimDisk> disk) {
  NOVA_CHECK(!Runs(stoc)) << stoc << " runs";
  Simulation::Current()->Trace("has another disk: " + stoc);
  disks_.at(stoc) = std::move(disk);
}

void SimCluster::CutControl(const std::string& node, bool cut) {
  if (!Runs(node)) return;
  Simulation::Current()->Trace(StrCat(cut ? "cuts" : "mends", " control of ", node));
  nodes_[node]->control_cut = cut;
  ApplyCuts(nodes_[node].get());
}

void SimCluster::CutConfig(const std::string& node, bool cut) {
  if (!Runs(node)) return;
  Simulation::Current()->Trace(StrCat(cut ? "cuts" : "mends", " config of ", node));
  nodes_[node]->config_cut = cut;
  ApplyCuts(nodes_[node].get());
}

void SimCluster::CutFromCoordinator(const std::string& node, const std::string& coordinator, bool cut) {
  if (!Runs(node)) return;
  Simulation::Current()->Trace(StrCat(cut ? "cuts " : "mends ", node, " and ", coordinator));
  if (cut) {
    control_.SetReachable(nodes_[node]->control_name, CoordinatorAddress(coordinator), false);
  } else {
    ApplyCuts(nodes_[node].get());
  }
}

void SimCluster::CutClient(const std::string& client, bool cut) {
  cut ? void(cut_clients_.insert(client)) : void(cut_clients_.erase(client));
  for (const std::string& address : CoordinatorAddresses()) control_.SetReachable(client, address, !cut);
}

void SimCluster::LoseConfigReplies(const std::string& node, int n) {
  for (MemorySession* session : nodes_.at(node)->sessions) session->LoseReplies(n);
}

void SimCluster::LoseConfigRequests(const std::string& node, int n) {
  for (MemorySession* session : nodes_.at(node)->sessions) session->LoseRequests(n);
}

void SimCluster::HealAll() {
  network_->Heal();
  for (const std::string& client : std::exchange(cut_clients_, {})) {
    for (const std::string& address : CoordinatorAddresses()) control_.SetReachable(client, address, true);
  }
  for (auto& [name, process] : nodes_) {
    if (process == nullptr) continue;
    process->control_cut = process->config_cut = false;
    if (process->paused) {
      Resume(name);
    } else {
      ApplyCuts(process.get());
    }
  }
}

// --- looking at it

std::unique_ptr<Client> SimCluster::NewClient(const std::string& name, int64_t timeout_ms) {
  ClientOptions options = options_.client;
  options.timeout_ms = timeout_ms;
  return NewClient(name, options);
}

std::unique_ptr<Client> SimCluster::NewClient(const std::string& name, const ClientOptions& options) {
  ClientEnvironment environment;
  environment.open_fabric = [this, name] { return NewSimFabric(network_.get(), name); };
  environment.open_channel = [this, name] { return control_.NewChannel(name, CoordinatorAddresses()); };
  for (const Nanos until = Now() + 60 * kSecond;;) {
    auto client = Client::Connect(options, environment);
    if (client.ok()) return *std::move(client);
    NOVA_CHECK(Now() < until) << name << ": " << client.status();
    SleepFor(100 * kMillisecond);
  }
}

CoordinatorClient SimCluster::NewCoordinatorClient() {
  return CoordinatorClient(control_.NewChannel("admin", CoordinatorAddresses()));
}

std::string SimCluster::Leader() const {
  for (const std::string& name : Names("coordinator")) {
    if (Runs(name) && nodes_.at(name)->coordinator != nullptr && nodes_.at(name)->coordinator->leading())
      return name;
  }
  return "";
}

bool SimCluster::IsTable(const std::string& stoc, const std::string& path) const {
  const auto bytes = Contents(stoc, path);
  if (!bytes || bytes->size() < kFileHeaderBytes) return false;
  const auto header = FileHeader::Decode(std::string_view(*bytes).substr(0, kFileHeaderBytes));
  return header.ok() && header->kind == FileHeader::Kind::kWhole;
}

bool SimCluster::IsLastCopy(const std::string& stoc, const std::string& path) const {
  if (!IsTable(stoc, path)) return false;
  const std::string mine = disks_.at(stoc)->Contents(path).value_or("").substr(kFileHeaderBytes);
  return std::none_of(disks_.begin(), disks_.end(), [&](const auto& other) {
    const auto theirs = other.first == stoc ? std::nullopt : other.second->Contents(path);
    return theirs && theirs->size() >= kFileHeaderBytes && theirs->substr(kFileHeaderBytes) == mine;
  });
}

std::map<RangeId, RangeRecord> SimCluster::Records() {
  std::map<RangeId, RangeRecord> records;
  const auto names = admin_->Children(kRangesPath);
  if (!names.ok()) return records;
  for (const std::string& name : *names) {
    if (auto record = RecordAt(StrCat(kRangesPath, "/", name))) records[record->id] = *std::move(record);
  }
  return records;
}

std::optional<RangeRecord> SimCluster::Record(RangeId range) { return RecordAt(RangePath(range)); }

std::optional<RangeRecord> SimCluster::RecordAt(const std::string& path) {
  const StatusOr<Znode> node = admin_->Get(path);
  if (!node.ok()) return std::nullopt;
  StatusOr<RangeRecord> record = RangeRecord::Decode(node->data, node->version);
  NOVA_CHECK(record.ok()) << record.status();
  return *std::move(record);
}

bool SimCluster::WaitOpen(size_t ranges, Nanos within) {
  for (const Nanos until = Now() + within; Now() < until; SleepFor(20 * kMillisecond)) {
    size_t open = 0;
    for (const auto& [id, r] : Records()) {
      const auto owner = nodes_.find(r.owner);
      open +=
          r.state == RangeState::kOpen && !r.released && owner != nodes_.end() && owner->second != nullptr;
    }
    if (open == ranges) return true;
  }
  return false;
}

bool SimCluster::MayLose(const std::vector<std::string>& stocs) {
  std::map<StocId, NodeInfo> left;
  for (const std::string& name : Names("stoc")) {
    const bool lost = std::find(stocs.begin(), stocs.end(), name) != stocs.end();
    if (lost || !Runs(name) || nodes_[name]->stoc == nullptr || nodes_[name]->stopping) continue;
    const NodeInfo& self = nodes_[name]->stoc->self();
    left[self.stoc_id] = self;
  }
  for (const auto& [id, r] : Records()) {
    for (const LogGroup& g : r.log_groups) {
      const bool survives = std::any_of(g.members.begin(), g.members.end(), [&](const LogMember& m) {
        const auto it = left.find(m.stoc);
        return it != left.end() && g.Holds(m, it->second.incarnation, it->second.store);
      });
      if (!survives) return false;
    }
  }
  return true;
}

bool SimCluster::MayLoseForEver(const std::string& stoc) {
  if (!Runs(stoc) || nodes_[stoc]->stoc == nullptr) return false;
  const auto files = [this](const std::string& name) {
    std::map<std::string, std::pair<uint64_t, bool>> found;  // bytes; a log's
    const auto disk = disks_.at(name)->Mount();              // outlives the process, which may end meanwhile
    for (const std::string& file : disk->List("files").value_or(std::vector<std::string>())) {
      const auto open = disk->Open("files/" + file, /*writable=*/false);
      std::string head(kFileHeaderBytes, '\0');
      if (!open.ok() || !(*open)->Read(0, head.size(), head.data()).ok()) continue;
      const auto header = FileHeader::Decode(head);
      found[file] = {(*open)->Size().value_or(0), header.ok() && header->kind == FileHeader::Kind::kLog};
    }
    return found;
  };
  std::set<std::pair<std::string, uint64_t>> elsewhere;
  for (const std::string& name : Names("stoc")) {
    if (name == stoc || !Runs(name) || nodes_[name]->stoc == nullptr) continue;
    for (const auto& [file, what] : files(name)) elsewhere.insert({file, what.first});
  }
  if (!Runs(stoc)) return false;
  for (const auto& [file, what] : files(stoc)) {
    if (!what.second && !elsewhere.contains({file, what.first})) return false;
  }
  return Runs(stoc) && MayLose(stoc);
}

double SimCluster::Metric(const std::string& kind_or_node, const std::string& name) const {
  double sum = 0;
  for (const auto& [node, process] : nodes_) {
    if (process == nullptr || (node != kind_or_node && !IsKind(node, kind_or_node))) continue;
    const std::string text = process->metrics.PrometheusText();
    const size_t at = text.find("\n" + name + " ");
    double value = 0;
    if (at != std::string::npos &&
        absl::SimpleAtod(text.substr(at + name.size() + 2, text.find('\n', at + 1) - at - name.size() - 2),
                         &value)) {
      sum += value;
    }
  }
  return sum;
}

std::vector<std::string> SimCluster::Names(const std::string& kind) const {
  std::vector<std::string> names;
  for (const auto& [name, process] : nodes_) {
    if (IsKind(name, kind)) names.push_back(name);
  }
  return names;
}

}  // namespace nova
