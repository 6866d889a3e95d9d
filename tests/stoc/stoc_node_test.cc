// A StoC in a cluster: starting, losing its session, being superseded, collecting.
#include "stoc/stoc_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/base/fault_disk.h"
#include "common/config/memory_store.h"
#include "coordinator/coordinator.pb.h"
#include "coordinator/znodes.h"
#include "stoc/store_identity.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr RangeId kRange(7);
constexpr Uuid kCluster{0xc1, 0xc2}, kLog{0x51, 1};

class NobodyLeads : public ControlChannel {
 public:
  StatusOr<std::string> Call(const std::string&, const std::string&, Nanos) override {
    return absl::UnavailableError("no coordinator");
  }
};

// A coordinator that grants leases and tells of the StoCs it is given.
class Leads : public ControlChannel {
 public:
  explicit Leads(std::vector<NodeInfo> stocs) : stocs_(std::move(stocs)) {}
  StatusOr<std::string> Call(const std::string& method, const std::string& request, Nanos) override {
    proto::HeartbeatRequest heartbeat;
    if (method != "Heartbeat" || !heartbeat.ParseFromString(request)) return absl::UnimplementedError(method);
    proto::HeartbeatReply reply;
    reply.set_coord_epoch(1);
    reply.set_standing(proto::HeartbeatReply::REGISTERED);
    reply.set_lease_ns(static_cast<uint64_t>(10 * kSecond));
    reply.set_stocs_version(7);
    if (heartbeat.stocs_version() != 7) {
      for (const NodeInfo& stoc : stocs_) reply.add_stocs(EncodeNodeInfo(stoc));
    }
    return reply.SerializeAsString();
  }

 private:
  const std::vector<NodeInfo> stocs_;
};

// One that keeps what the last heartbeat said of the disk, and forgives what it is told to.
class Listens : public ControlChannel {
 public:
  struct Heard {
    std::atomic<int> heartbeats{0};
    std::atomic<int> fault{0};
    std::atomic<uint64_t> faults{0};
    std::atomic<Nanos> hung_ns{0};
    std::atomic<uint64_t> forgives{0};
  };
  explicit Listens(Heard* heard) : heard_(heard) {}
  StatusOr<std::string> Call(const std::string&, const std::string& request, Nanos) override {
    proto::HeartbeatRequest heartbeat;
    if (!heartbeat.ParseFromString(request)) return absl::InternalError("malformed");
    ++heard_->heartbeats;
    heard_->fault = heartbeat.disk().fault();
    heard_->faults = heartbeat.disk().faults();
    heard_->hung_ns = static_cast<Nanos>(heartbeat.disk().hung_ns());
    proto::HeartbeatReply reply;
    reply.set_coord_epoch(1);
    reply.set_standing(proto::HeartbeatReply::REGISTERED);
    reply.set_lease_ns(static_cast<uint64_t>(10 * kSecond));
    reply.set_forgiven_disk_faults(heard_->forgives);
    return reply.SerializeAsString();
  }

 private:
  Heard* const heard_;
};

class StocNodeTest : public testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, StocNodeTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

struct Cluster {
  explicit Cluster(FabricWorld* w, Uuid uuid = kCluster) : world(w) {
    admin = config.NewSession();
    EXPECT_TRUE(admin->Create(kClusterPath, ClusterRecord{kClusterFormat, uuid}.Encode()).ok());
    for (const char* path : {kNodesPath, kStocsPath, kRangesPath, kEpochsPath})
      EXPECT_TRUE(admin->Create(path, "").ok());
  }
  void PutRange(Epoch epoch, RangeState state, RangeId range = kRange) {
    RangeRecord r;
    r.id = range;
    r.epoch = epoch;
    r.state = state;
    Status s = admin->Create(RangePath(range), r.Encode());
    if (absl::IsAlreadyExists(s)) s = admin->Set(RangePath(range), r.Encode(), -1);
    EXPECT_TRUE(s.ok()) << s;
  }

  FabricWorld* const world;
  MemoryConfig config{MemoryConfigOptions{.session_timeout_ns = kSecond}};
  std::unique_ptr<MemorySession> admin;
};

struct Process {
  Process(Cluster* c, Disk* disk, const std::string& name = "stoc-1")
      : cluster(c), fabric(c->world->NewFabric(name)) {
    options.name = name;
    options.address = c->world->AnyAddress(name);
    options.log_memory_bytes = 16 << 20;
    options.file_buffer_bytes = 16 << 20;
    options.spare_segments = 2;
    options.files.reserve_bytes = 0;
    options.heartbeat_ns = 20 * kMillisecond;
    options.collect_period_ns = 200 * kMillisecond;
    environment.fabric = fabric.get();
    environment.disk = disk;
    environment.metrics = &metrics;
    environment.open_store = [this]() -> StatusOr<std::unique_ptr<ConfigStore>> {
      auto opened = cluster->config.NewSession();
      session.store(opened.get());
      return std::unique_ptr<ConfigStore>(std::move(opened));
    };
    environment.open_channel = [] { return std::make_unique<NobodyLeads>(); };
  }
  Status Start() {
    auto started = StocNode::Start(options, environment);
    if (started.ok()) node = *std::move(started);
    return started.status();
  }
  bool Registered() const { return cluster->admin->Get(NodePath(options.name)).ok(); }
  double Gauge(const std::string& name) const {
    const std::string text = metrics.PrometheusText();
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  Cluster* const cluster;
  std::unique_ptr<Fabric> fabric;
  Metrics metrics;
  StocOptions options;
  StocEnvironment environment;
  std::atomic<MemorySession*> session{nullptr};
  std::unique_ptr<StocNode> node;
};

template <typename Condition>
bool Eventually(const Condition& condition) {
  for (const Nanos until = Now() + 10 * kSecond; Now() < until; SleepFor(5 * kMillisecond)) {
    if (condition()) return true;
  }
  return false;
}

// A client that knows one node.
struct Client {
  Client(FabricWorld* world, const NodeInfo& node, const std::string& name = "ltc-1",
         uint64_t incarnation = 1000)
      : client(world, name, incarnation) {
    client.stocs->UpdateStocs({node});
  }
  Outcome Open(const NodeInfo& node, Epoch epoch, uint32_t index = 0, RangeId range = kRange) {
    Outcome outcome = Outcome::kInternal;
    Notification done;
    client.On(0, [&] {
      client.stocs->OpenSegment(client.xchgs[0].get(), {node.stoc_id, node.incarnation}, range, epoch, kLog,
                                index, 1 << 20, Soon(), [&](Outcome o, RemoteBuffer) {
                                  outcome = o;
                                  done.Notify();
                                });
    });
    done.Wait();
    return outcome;
  }
  TestClient client;
};

// Every operation hangs, the question how much is free among them: heartbeats go on, and say so.
TEST_P(StocNodeTest, N5AHungDiskHoldsUpNoHeartbeat) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    const auto base = medium.Mount();
    FaultDisk disk(base.get());
    Listens::Heard heard;
    Process p(&cluster, &disk);
    p.environment.open_channel = [&heard] { return std::make_unique<Listens>(&heard); };
    p.options.disk_watch.hung_after_ns = 300 * kMillisecond;
    p.options.disk_probe_period_ns = 0;
    ASSERT_TRUE(p.Start().ok());
    for (const DiskOp op : {DiskOp::kFreeBytes, DiskOp::kWrite, DiskOp::kSync})
      disk.Add({.op = op, .action = FaultAction::kDelay, .count = 1, .delay_ns = 2 * kSecond});
    ASSERT_TRUE(Eventually([&] { return heard.hung_ns > 0; }));
    const int before = heard.heartbeats;
    ASSERT_TRUE(Eventually([&] { return heard.heartbeats > before + 3; }));
    EXPECT_GT(heard.hung_ns, 0) << "it has ended meanwhile";
    EXPECT_EQ(p.Gauge("nova_stoc_disk_state"), static_cast<double>(DiskState::kHung));
    EXPECT_GT(p.Gauge("nova_stoc_disk_oldest_operation_seconds"), 0);
    EXPECT_EQ(heard.fault, proto::OK);
    p.node->Stop();
  });
}

TEST_P(StocNodeTest, N5HeartbeatsTellOfFaultsUntilTheyAreForgiven) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    const auto base = medium.Mount();
    FaultDisk disk(base.get());
    Listens::Heard heard;
    Process p(&cluster, &disk);
    p.environment.open_channel = [&heard] { return std::make_unique<Listens>(&heard); };
    p.options.disk_probe_period_ns = 0;
    ASSERT_TRUE(p.Start().ok());
    disk.Add({.path = "PROBE", .op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
    ASSERT_TRUE(Eventually([&] { return heard.fault == proto::FAILING; }));
    EXPECT_EQ(heard.faults, 1u);
    heard.forgives = 1;
    ASSERT_TRUE(Eventually([&] { return heard.fault == proto::OK; }));
    EXPECT_EQ(p.Gauge("nova_stoc_disk_faults_total"), 1);
    disk.Add({.path = "PROBE", .op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
    ASSERT_TRUE(Eventually([&] { return heard.fault == proto::FAILING; }));
    p.node->Stop();
  });
}

TEST_P(StocNodeTest, AnEmptyDirectoryIsFormattedAndKeepsItsIdentity) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    NodeInfo first;
    {
      const auto disk = medium.Mount();
      Process p(&cluster, disk.get());
      ASSERT_TRUE(p.Start().ok());
      first = p.node->self();
      EXPECT_TRUE(p.Registered());
      EXPECT_EQ(*PingOf(Client(world, first).client.stocs.get(), first.stoc_id, Soon()), first.incarnation);
      p.node->Stop();
      EXPECT_FALSE(p.Registered()) << "it has left";
    }
    medium.Crash();
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    EXPECT_EQ(p.node->self().stoc_id, first.stoc_id);
    EXPECT_EQ(p.node->self().store, first.store);
    EXPECT_GT(p.node->self().incarnation, first.incarnation);  // N1
  });
}

// Started again and again, as systemd does: the store has one id, and one znode, at most.
TEST_P(StocNodeTest, N3AStoreThatCannotBeFormattedDrawsOneIdAtMost) {
  Run([&](FabricWorld* world) {
    for (const uint64_t nth : {1, 2}) {  // the rename before the id is drawn; the one after it
      Cluster cluster(world);
      SimDisk medium;
      const auto disk = medium.Mount();
      FaultDisk faults(disk.get());
      for (int start = 0; start < 3; ++start) {
        faults.Clear();
        faults.Add({.path = "SUPERBLOCK", .op = DiskOp::kRename, .nth = start == 0 ? nth : 1});
        EXPECT_FALSE(Process(&cluster, &faults).Start().ok());
        EXPECT_THAT(*cluster.admin->Children(kStocsPath), SizeIs(nth - 1)) << "start " << start;
      }
      faults.Clear();
      Process p(&cluster, &faults);
      ASSERT_TRUE(p.Start().ok());
      EXPECT_THAT(*cluster.admin->Children(kStocsPath), SizeIs(1));
      EXPECT_EQ(p.node->self().stoc_id, StocId(1));
    }
  });
}

TEST_P(StocNodeTest, AStoreOfAnotherClusterIsRefused) {
  Run([&](FabricWorld* world) {
    SimDisk medium;
    const auto disk = medium.Mount();
    ASSERT_TRUE(FormatStore(disk.get(), {{1, 1}, {9, 9}, StocId(3)}).ok());
    Cluster cluster(world);
    const Status s = Process(&cluster, disk.get()).Start();
    EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("cluster"));
  });
}

TEST_P(StocNodeTest, EpochsAreLoadedBeforeItServes) {  // F1
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    cluster.PutRange(Epoch(5), RangeState::kOpen);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    Client client(world, p.node->self());
    EXPECT_EQ(client.Open(p.node->self(), Epoch(4)), Outcome::kNotOwner);
    EXPECT_TRUE(absl::IsFailedPrecondition(client.client.stocs->AppendFile(
        {p.node->self().stoc_id}, FileId(1), {kRange, Epoch(4), 0}, 0, true, "edit", Soon())));
    EXPECT_EQ(client.Open(p.node->self(), Epoch(5)), Outcome::kOk);
  });
}

TEST_P(StocNodeTest, F1ARangeWhoseRecordCannotBeReadIsRefusedAlone) {
  Run([&](FabricWorld* world) {
    constexpr RangeId kOther(8);
    Cluster cluster(world);
    cluster.PutRange(Epoch(3), RangeState::kOpen);
    cluster.PutRange(Epoch(2), RangeState::kOpen, kOther);
    ASSERT_TRUE(cluster.admin->Set(RangePath(kRange), "garbage", -1).ok());
    SimDisk medium;
    const auto disk = medium.Mount();
    // Nobody knows whose it is, so it is needed as long as one range has not said otherwise.
    const StocFileId unreadable = FileId(9);
    ASSERT_TRUE(disk->MakeDirectory("files").ok());
    ASSERT_TRUE(FormatStore(disk.get(), {{1, 1}, kCluster, StocId(3)}).ok());
    ASSERT_TRUE(disk->Create("files/" + unreadable.ToString()).ok());
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    const NodeInfo self = p.node->self();
    Client client(world, self);
    StocClient* const stocs = client.client.stocs.get();
    EXPECT_EQ(client.Open(self, Epoch(2), 0, kOther), Outcome::kOk);
    for (const uint64_t epoch : {2, 3, 100}) {
      EXPECT_EQ(client.Open(self, Epoch(epoch)), Outcome::kNotOwner);
      EXPECT_FALSE(stocs->Fence(self.stoc_id, kRange, Epoch(epoch), Soon()).ok());
      EXPECT_FALSE(stocs->DropUnreadable(self.stoc_id, kRange, Epoch(epoch), {unreadable}, Soon()).ok());
    }
    ASSERT_TRUE(stocs->DropUnreadable(self.stoc_id, kOther, Epoch(2), {unreadable}, Soon()).ok());
    cluster.PutRange(Epoch(4), RangeState::kOpen, kOther);
    EXPECT_TRUE(Eventually([&] { return client.Open(self, Epoch(2), 1, kOther) == Outcome::kNotOwner; }))
        << "other ranges' records are read";
    SleepFor(500 * kMillisecond);
    EXPECT_THAT(*stocs->ListUnreadable(self.stoc_id, Soon()), ElementsAre(unreadable));
    // Once the record can be read again the range is what it says.
    cluster.PutRange(Epoch(3), RangeState::kOpen);
    EXPECT_TRUE(Eventually([&] { return client.Open(self, Epoch(3)) == Outcome::kOk; }));
    EXPECT_EQ(client.Open(self, Epoch(2), 1), Outcome::kNotOwner);
    ASSERT_TRUE(stocs->DropUnreadable(self.stoc_id, kRange, Epoch(3), {unreadable}, Soon()).ok());
    EXPECT_TRUE(Eventually([&] { return stocs->ListUnreadable(self.stoc_id, Soon())->empty(); }));
  });
}

// A node that runs knows the epoch: it goes on with it.
TEST_P(StocNodeTest, F1ARecordThatCannotBeReadAnyMoreChangesNothing) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    cluster.PutRange(Epoch(3), RangeState::kOpen);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    const NodeInfo self = p.node->self();
    Client client(world, self);
    ASSERT_EQ(client.Open(self, Epoch(3)), Outcome::kOk);
    ASSERT_TRUE(cluster.admin->Set(RangePath(kRange), "garbage", -1).ok());
    SleepFor(500 * kMillisecond);
    EXPECT_EQ(client.Open(self, Epoch(3), 1), Outcome::kOk);
    EXPECT_EQ(client.Open(self, Epoch(2), 1), Outcome::kNotOwner);
  });
}

TEST_P(StocNodeTest, AnExpiredSessionCostsNoSegment) {  // C4, N1
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    const NodeInfo self = p.node->self();
    Client client(world, self);
    ASSERT_EQ(client.Open(self, Epoch(3)), Outcome::kOk);
    p.session.load()->Expire();
    EXPECT_TRUE(Eventually([&] { return !p.Registered() || p.Gauge("nova_stoc_member") == 0; }));
    EXPECT_EQ(client.Open(self, Epoch(3), 1), Outcome::kOk) << "serves on";
    ASSERT_TRUE(Eventually([&] { return p.Registered() && p.Gauge("nova_stoc_member") == 1; }));
    const NodeInfo again = *DecodeNodeInfo(cluster.admin->Get(NodePath("stoc-1"))->data);
    EXPECT_EQ(again.incarnation, self.incarnation);
    EXPECT_EQ(again.address, self.address);
    EXPECT_THAT(client.client.stocs->Fence(self.stoc_id, kRange, Epoch(4), Soon())->segments, SizeIs(2));
  });
}

TEST_P(StocNodeTest, ALaterProcessOfTheNameEndsIt) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    NodeInfo later = p.node->self();
    later.incarnation = Incarnation(later.incarnation.value() + 10);
    ASSERT_TRUE(cluster.admin->Delete(NodePath("stoc-1")).ok());
    ASSERT_TRUE(cluster.admin->Create(NodePath("stoc-1"), EncodeNodeInfo(later), true).ok());
    p.session.load()->Expire();
    EXPECT_TRUE(p.node->superseded().WaitUntil(Now() + 10 * kSecond));
  });
}

// It hears of the others with its heartbeats, and copies from them what an owner asks for (rebuild, S5).
TEST_P(StocNodeTest, ItCopiesFromTheStocsThatTheCoordinatorTellsItOf) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk source_medium, medium;
    const auto source_disk = source_medium.Mount(), disk = medium.Mount();
    Process source(&cluster, source_disk.get());
    ASSERT_TRUE(source.Start().ok());
    const NodeInfo from = source.node->self();
    Process p(&cluster, disk.get(), "stoc-2");
    p.environment.open_channel = [from] { return std::make_unique<Leads>(std::vector{from}); };
    ASSERT_TRUE(p.Start().ok());
    const NodeInfo to = p.node->self();
    Client client(world, from);
    client.client.stocs->UpdateStocs({from, to});
    const std::string data = Pattern(3 << 20, 1);
    const Creator creator{kRange, Epoch(3), 1};
    ASSERT_TRUE(client.client.stocs->WriteFile(from.stoc_id, FileId(1), creator, data, Soon()).ok());
    const CopyFileRequest request{FileId(1), creator, from.stoc_id, from.incarnation, data.size()};
    EXPECT_TRUE(
        Eventually([&] { return client.client.stocs->CopyFile(to.stoc_id, request, Soon()).status.ok(); }));
    const auto copy = client.client.stocs->ReadFileBlocking(to.stoc_id, FileId(1), 0, UINT64_MAX, Soon());
    EXPECT_TRUE(copy.ok() && *copy == data);
    // One that nobody has told of the source does not reach it.
    const CopyFileRequest back{FileId(1), creator, to.stoc_id, to.incarnation, data.size()};
    ASSERT_TRUE(
        client.client.stocs->DropReferences(from.stoc_id, kRange, Epoch(3), {FileId(1)}, Soon()).ok());
    const auto unknown = client.client.stocs->CopyFile(from.stoc_id, back, Soon());
    EXPECT_TRUE(absl::IsUnavailable(unknown.status)) << unknown.status;
    EXPECT_EQ(unknown.fault, CopyFault::kSource);
  });
}

TEST_P(StocNodeTest, SegmentsOfEpochsBeforeAnOpenOneAreCollected) {  // N4
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    cluster.PutRange(Epoch(3), RangeState::kOpen);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    const NodeInfo self = p.node->self();
    Client client(world, self);
    ASSERT_EQ(client.Open(self, Epoch(3)), Outcome::kOk);
    SleepFor(500 * kMillisecond);
    EXPECT_EQ(p.Gauge("nova_stoc_segments"), 1) << "of the epoch that is open";
    cluster.PutRange(Epoch(4), RangeState::kSealing);
    EXPECT_TRUE(Eventually([&] { return client.Open(self, Epoch(3), 1) == Outcome::kNotOwner; }))
        << "fenced though nobody asked";
    EXPECT_GE(p.Gauge("nova_stoc_segments"), 1) << "recovery may still want it";
    EXPECT_FALSE(client.client.stocs->Fence(self.stoc_id, kRange, Epoch(4), Soon())->segments.empty());
    cluster.PutRange(Epoch(4), RangeState::kOpen);
    EXPECT_TRUE(Eventually([&] { return p.Gauge("nova_stoc_segments") == 0; }));
  });
}

TEST_P(StocNodeTest, R6RangesOfWhichNothingIsLeftCostACollectionNoWork) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    for (uint64_t id = 1; id <= 2000; ++id) cluster.PutRange(Epoch(3), RangeState::kOpen, RangeId(id));
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    Client client(world, p.node->self());
    ASSERT_EQ(client.Open(p.node->self(), Epoch(3)), Outcome::kOk);
    Counter* const work = p.metrics.counter("nova_stoc_control_work_total");
    SleepFor(500 * kMillisecond);
    const uint64_t before = work->value();
    SleepFor(2 * kSecond);  // ten collections
    EXPECT_LT(work->value(), before + 100);
    cluster.PutRange(Epoch(4), RangeState::kOpen);
    EXPECT_TRUE(Eventually([&] { return p.Gauge("nova_stoc_segments") == 0; })) << "they go on";
  });
}

TEST_P(StocNodeTest, PeersOfAnotherClusterAreRefused) {
  Run([&](FabricWorld* world) {
    Cluster cluster(world);
    SimDisk medium;
    const auto disk = medium.Mount();
    Process p(&cluster, disk.get());
    ASSERT_TRUE(p.Start().ok());
    auto fabric = world->NewFabric("stranger");
    Hello hello = TestHello(Role::kLtc, "stranger", 5);
    hello.cluster = {1, 2};
    const auto xchg = *Xchg::Open(fabric.get(), hello, {});
    xchg->Start();
    const BlockingResult r = BlockingCall(xchg.get(), p.node->self().address,
                                          static_cast<uint16_t>(StocRequest::kPing), {}, Now() + kSecond);
    EXPECT_NE(r.outcome, Outcome::kOk);
    xchg->Stop();
  });
}

}  // namespace
}  // namespace nova
