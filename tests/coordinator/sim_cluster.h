// SimCluster: coordinators, LTCs and StoCs of one cluster in one process: CoordinatorService and
// NodeSession as they are, over a MemoryConfig and a SimControlNetwork. Inside Simulation::Run or with
// real threads.
//
// It watches: no two LTCs hold a lease under which they serve one range; an epoch of a range has one owner.
//
// Thread safety: for the one thread or fiber that made it.   Ownership: it owns all parts; what was killed
//                stays until the end, cut off.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/queue.h"
#include "common/base/simulation.h"
#include "common/config/memory_store.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/sim_channel.h"
#include "coordinator/stoc_record.h"

namespace nova {

// Forwards to a MemorySession, and tells its place when it ends.
class TrackedSession : public ConfigStore {
 public:
  TrackedSession(std::unique_ptr<MemorySession> session, std::atomic<MemorySession*>* place)
      : session_(std::move(session)), place_(place) {
    *place_ = session_.get();
  }
  ~TrackedSession() override { *place_ = nullptr; }
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
    session_->Watch(path, std::move(changed));
  }
  SessionState session_state() const override { return session_->session_state(); }
  Nanos session_timeout_ns() const override { return session_->session_timeout_ns(); }
  Nanos last_answered_send_ns() const override { return session_->last_answered_send_ns(); }

 private:
  std::unique_ptr<MemorySession> session_;
  std::atomic<MemorySession*>* const place_;
};

// An LTC without the LSM-tree: opens what it is assigned, releases what it is asked to.
class SimLtc {
 public:
  SimLtc(MemoryConfig* config, SimControlNetwork* network, std::string name,
         std::vector<std::string> coordinators)
      : name_(std::move(name)),
        network_(network),
        coordinators_(std::move(coordinators)),
        store_(config->NewSession()),
        work_(256) {
    NodeOptions options;
    options.node.name = name_;
    options.node.role = Role::kLtc;
    options.node.address = name_ + ":1";
    NodeEvents events;
    events.assigned = [this](const RangeAssignment& a) {
      if (Serves(a.record.id, a.record.epoch)) return;
      Work w{a, false};
      work_.TryPush(w);
    };
    events.excluded = [this](RangeId id, Epoch epoch) { Drop(id, epoch); };
    events.release = [this](RangeId id, Epoch epoch) {
      RangeAssignment a;
      a.record.id = id;
      a.record.epoch = epoch;
      Work w{a, true};
      work_.TryPush(w);
    };
    events.stocs = [this](const StocList& stocs) {
      MutexLock lock(&mu_);
      stocs_ = stocs;
    };
    events.settings = [this](const LtcSettings& settings) {
      MutexLock lock(&mu_);
      settings_ = settings;
    };
    events.lost = [this](const std::string& why) {
      MutexLock lock(&mu_);
      lost_ = why;
      open_.clear();
    };
    events.report = [this] {
      NodeReport report;
      MutexLock lock(&mu_);
      report.copies = copies_;
      for (const auto& [id, epoch] : open_) report.ranges.push_back({id, epoch, true, 0, 0, 0});
      return report;
    };
    StatusOr<std::unique_ptr<NodeSession>> session =
        JoinCluster(store_.get(), network_->NewChannel(name_, coordinators_), options, events);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    worker_ = std::make_unique<Thread>(name_ + ".worker.0", [this] { RunWorker(); });
  }
  ~SimLtc() {
    work_.Close();
    worker_->Join();
    session_.reset();
  }

  // Cut off from everything: what the others see of a kill -9, of a pause, of a partition.
  void Cut() { SetReachable(false); }
  void Heal() { SetReachable(true); }

  std::map<RangeId, Epoch> open() const {
    MutexLock lock(&mu_);
    return open_;
  }
  // As a read asks: the range is open here and the lease holds.
  std::map<RangeId, Epoch> serving() const {
    return session_->lease_expiry_ns() > Now() ? open() : std::map<RangeId, Epoch>();
  }
  std::string lost() const {
    MutexLock lock(&mu_);
    return lost_;
  }
  // As it was last told.
  StocList stocs() const {
    MutexLock lock(&mu_);
    return stocs_;
  }
  // As it was last told.
  LtcSettings settings() const {
    MutexLock lock(&mu_);
    return settings_;
  }
  // What it says it is configured to keep.
  void set_copies(const CopiesKept& copies) {
    MutexLock lock(&mu_);
    copies_ = copies;
  }
  NodeSession* session() { return session_.get(); }
  MemorySession* store() { return store_.get(); }
  const std::string& name() const { return name_; }

 private:
  struct Work {
    RangeAssignment assignment;
    bool release = false;
  };
  void SetReachable(bool on) {
    store_->SetReachable(on);
    for (const std::string& c : coordinators_) network_->SetReachable(name_, c, on);
  }
  bool Serves(RangeId id, Epoch epoch) const {
    MutexLock lock(&mu_);
    const auto it = open_.find(id);
    return it != open_.end() && it->second >= epoch;
  }
  void Drop(RangeId id, Epoch epoch) {
    MutexLock lock(&mu_);
    const auto it = open_.find(id);
    if (it != open_.end() && it->second <= epoch) open_.erase(it);
  }
  void RunWorker() {
    while (std::optional<Work> w = work_.Pop()) {
      RangeRecord record = w->assignment.record;
      if (w->release) {
        const StatusOr<RangeRecord> now = session_->ReadRange(record.id);
        if (!now.ok() || now->epoch != record.epoch || now->released) continue;
        record = *now;
        Drop(record.id, record.epoch);
        record.released = true;
        record.owner.clear();
        record.owner_incarnation = Incarnation();
        session_->UpdateRange(record).status().IgnoreError();
        continue;
      }
      if (Serves(record.id, record.epoch)) continue;
      SleepUntil(w->assignment.old_lease_ends_ns);  // R5
      record.state = RangeState::kOpen;
      if (!session_->UpdateRange(record).ok()) continue;
      MutexLock lock(&mu_);
      if (lost_.empty()) open_[record.id] = record.epoch;
    }
  }

  const std::string name_;
  SimControlNetwork* const network_;
  const std::vector<std::string> coordinators_;
  std::unique_ptr<MemorySession> store_;
  mutable Mutex mu_;
  std::map<RangeId, Epoch> open_ ABSL_GUARDED_BY(mu_);
  std::string lost_ ABSL_GUARDED_BY(mu_);
  StocList stocs_ ABSL_GUARDED_BY(mu_);
  std::optional<CopiesKept> copies_ ABSL_GUARDED_BY(mu_);
  LtcSettings settings_ ABSL_GUARDED_BY(mu_);
  BoundedQueue<Work> work_;
  std::unique_ptr<NodeSession> session_;
  std::unique_ptr<Thread> worker_;
};

// A StoC's store, and the membership of the process that serves it: no files.
class SimStoc {
 public:
  // Formats the store: its id is drawn.
  SimStoc(MemoryConfig* config, SimControlNetwork* network, std::string name,
          std::vector<std::string> coordinators)
      : config_(config), network_(network), coordinators_(std::move(coordinators)) {
    node_.name = std::move(name);
    node_.role = Role::kStoc;
    node_.address = node_.name + ":1";
    node_.host = "host-of-" + node_.name;
    node_.store = Uuid::Generate();
    const auto store = config_->NewSession();
    const StatusOr<StocId> id = DrawStocId(store.get(), node_.store, node_.name);
    EXPECT_TRUE(id.ok()) << id.status();
    if (id.ok()) node_.stoc_id = *id;
  }
  ~SimStoc() { Stop(); }

  // A process, with an incarnation of its own.
  void Start() {
    Stop();
    SetReachable(true);
    store_ = config_->NewSession();
    NodeOptions options;
    options.node = node_;
    auto session =
        JoinCluster(store_.get(), network_->NewChannel(node_.name, coordinators_), options, NodeEvents());
    EXPECT_TRUE(session.ok()) << session.status();
    if (session.ok()) session_ = *std::move(session);
  }
  // In order.
  void Stop() {
    session_.reset();
    store_.reset();
  }
  // Cut off from everything until it is started again.
  void Cut() {
    store_->SetReachable(false);
    SetReachable(false);
  }
  StocId id() const { return node_.stoc_id; }
  const std::string& name() const { return node_.name; }

 private:
  void SetReachable(bool on) {
    for (const std::string& c : coordinators_) network_->SetReachable(node_.name, c, on);
  }

  MemoryConfig* const config_;
  SimControlNetwork* const network_;
  const std::vector<std::string> coordinators_;
  NodeInfo node_;
  std::unique_ptr<MemorySession> store_;
  std::unique_ptr<NodeSession> session_;
};

class SimCluster {
 public:
  explicit SimCluster(MemoryConfigOptions config = {.session_timeout_ns = 4 * kSecond},
                      SimControlFaults faults = {})
      : config_(config), network_(faults), admin_(config_.NewSession()) {
    checker_ = std::make_unique<Thread>("checker", [this] { RunChecker(); });
  }
  ~SimCluster() {
    stopping_.Notify();
    checker_->Join();
    config_.set_faults(0, 0);
    network_.SetFaults({});
    ltcs_.clear();
    stocs_.clear();
    for (auto& [address, c] : coordinators_) network_.Unregister(address);
    coordinators_.clear();
    admin_.reset();
  }

  ClusterOptions cluster_options;  // of coordinators that are started from now on

  CoordinatorService* StartCoordinator(const std::string& name) {
    CoordinatorOptions options;
    options.name = name;
    options.address = name + ":7400";
    options.cluster = cluster_options;
    Coordinator& c = coordinators_[options.address];
    StatusOr<std::unique_ptr<CoordinatorService>> service = CoordinatorService::Start(
        options,
        [this, &c]() -> StatusOr<std::unique_ptr<ConfigStore>> {
          if (!c.reachable) return absl::UnavailableError("cut off");
          return std::unique_ptr<ConfigStore>(
              std::make_unique<TrackedSession>(config_.NewSession(), &c.session));
        },
        &metrics_);
    EXPECT_TRUE(service.ok()) << service.status();
    c.service = *std::move(service);
    network_.Register(options.address, [s = c.service.get()](const std::string& m, const std::string& r) {
      return s->Handle(m, r);
    });
    return c.service.get();
  }
  // From the store; `network` too: what the others see of a kill -9. Without: a zombie that still answers.
  void CutCoordinator(const std::string& name, bool network) {
    Coordinator& c = coordinators_.at(name + ":7400");
    c.reachable = false;
    if (MemorySession* s = c.session) s->SetReachable(false);
    if (network) network_.Unregister(name + ":7400");
  }
  void HealCoordinator(const std::string& name) {
    Coordinator& c = coordinators_.at(name + ":7400");
    c.reachable = true;
    if (MemorySession* s = c.session) s->SetReachable(true);
  }
  CoordinatorService* coordinator(const std::string& name) {
    return coordinators_.at(name + ":7400").service.get();
  }
  MemorySession* coordinator_session(const std::string& name) {
    return coordinators_.at(name + ":7400").session;
  }

  SimLtc* StartLtc(const std::string& name) {
    auto ltc = std::make_unique<SimLtc>(&config_, &network_, name, addresses());
    MutexLock lock(&mu_);
    ltcs_.push_back(std::move(ltc));
    return ltcs_.back().get();
  }
  // A new store, served by a new process.
  SimStoc* StartStoc(const std::string& name) {
    stocs_.push_back(std::make_unique<SimStoc>(&config_, &network_, name, addresses()));
    stocs_.back()->Start();
    return stocs_.back().get();
  }
  // As it is in the store; malformed ones fail the test.
  StocRecord StocRecordOf(StocId id) {
    const StatusOr<Znode> node = admin_->Get(StocPath(id));
    EXPECT_TRUE(node.ok()) << node.status();
    if (!node.ok()) return StocRecord();
    const StatusOr<StocRecord> record = StocRecord::Decode(id, node->data, node->version);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : StocRecord();
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (const auto& [address, c] : coordinators_) all.push_back(address);
    return all;
  }
  CoordinatorClient NewClient() { return CoordinatorClient(network_.NewChannel("client", addresses())); }

  std::map<RangeId, RangeRecord> Records() {
    std::map<RangeId, RangeRecord> records;
    const auto names = admin_->Children(kRangesPath);
    if (!names.ok()) return records;
    for (const std::string& name : *names) {
      const StatusOr<Znode> node = admin_->Get(StrCat(kRangesPath, "/", name));
      if (!node.ok()) continue;
      StatusOr<RangeRecord> r = RangeRecord::Decode(node->data, node->version);
      EXPECT_TRUE(r.ok());
      if (r.ok()) records[r->id] = *std::move(r);
    }
    return records;
  }
  size_t OpenRanges() {
    size_t n = 0;
    for (const auto& [id, r] : Records()) n += r.state == RangeState::kOpen && !r.released;
    return n;
  }
  // All `n` ranges are served under a lease, within the time.
  bool AllServed(size_t n, Nanos within) {
    const Nanos until = Now() + within;
    while (Now() < until) {
      std::map<RangeId, Epoch> served;
      for (SimLtc* ltc : ltcs()) {
        for (const auto& [id, epoch] : ltc->serving()) served[id] = epoch;
      }
      if (served.size() == n) return true;
      SleepFor(10 * kMillisecond);
    }
    return false;
  }

  Metrics* metrics() {
    return &metrics_;
  }  // of all coordinators: each metric is that of the last one started
  MemoryConfig& config() { return config_; }
  SimControlNetwork& network() { return network_; }
  MemorySession* admin() { return admin_.get(); }
  std::vector<SimLtc*> ltcs() {
    MutexLock lock(&mu_);
    std::vector<SimLtc*> all;
    for (const auto& ltc : ltcs_) all.push_back(ltc.get());
    return all;
  }

 private:
  struct Coordinator {
    std::unique_ptr<CoordinatorService> service;
    std::atomic<MemorySession*> session{nullptr};
    std::atomic<bool> reachable{true};
  };

  void RunChecker() {
    std::map<std::pair<RangeId, Epoch>, Incarnation> owners;
    while (!stopping_.WaitUntil(Now() + 20 * kMillisecond)) {
      std::map<RangeId, std::string> serving;
      for (SimLtc* ltc : ltcs()) {
        for (const auto& [id, epoch] : ltc->serving()) {
          const auto [it, first] = serving.try_emplace(id, ltc->name());
          EXPECT_TRUE(first) << "range " << id.value() << " is served by " << it->second << " and "
                             << ltc->name();
        }
      }
      for (const auto& [id, r] : Records()) {
        if (r.owner_incarnation == Incarnation()) continue;
        const auto [it, first] = owners.try_emplace({id, r.epoch}, r.owner_incarnation);
        EXPECT_EQ(it->second, r.owner_incarnation) << "range " << id.value() << " epoch " << r.epoch.value();
      }
    }
  }

  Metrics metrics_;
  MemoryConfig config_;
  SimControlNetwork network_;
  std::unique_ptr<MemorySession> admin_;
  std::map<std::string, Coordinator> coordinators_;
  Mutex mu_;
  std::vector<std::unique_ptr<SimStoc>> stocs_;
  std::vector<std::unique_ptr<SimLtc>> ltcs_;  // under mu_ while the checker runs
  Notification stopping_;
  std::unique_ptr<Thread> checker_;
};

}  // namespace nova
