// An LTC's answers to requests as they come off the wire, from a peer that is not our client.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "common/rdma/sim/sim_fabric.h"
#include "ltc/wire/ltc_client.h"
#include "tests/cluster_sim/scenario.h"
#include "tests/rdma/blocking_call.h"

namespace nova {
namespace {

// A cluster of one LTC and two ranges, cut at "\0m" (keyspace 0), and a bare exchange thread.
struct Rig {
  explicit Rig(SimClusterOptions options = OneLtc()) : cluster(std::move(options)) {
    cluster.StartAll();
    EXPECT_TRUE(cluster.NewClient("client-0")->CreateRanges({"m"}).ok());
    EXPECT_TRUE(cluster.WaitOpen(2, 30 * kSecond));
    first = cluster.Records().begin()->second;
    fabric = NewSimFabric(cluster.network(), "peer");
    Hello self;
    self.role = Role::kClient;
    xchg = *Xchg::Open(fabric.get(), self, XchgOptions{});
    xchg->Start();
  }
  ~Rig() { xchg->Stop(); }
  static SimClusterOptions OneLtc() {
    SimClusterOptions options = SmallCluster();
    options.ltcs = 1;
    return options;
  }
  BlockingResult Call(LtcRequest type, std::string_view body, Nanos within = 20 * kSecond) {
    const std::string_view parts[] = {body};
    return BlockingCall(xchg.get(), cluster.ltc("ltc-0")->address(), static_cast<uint16_t>(type), parts,
                        Now() + within);
  }
  Outcome Put(std::string_view key, std::string_view value) {
    const std::string header = WriteRequest{first.id, first.epoch, 1, ++requests, key, value}.EncodeHeader();
    return Call(LtcRequest::kPut, header + std::string(key) + std::string(value)).outcome;
  }
  Outcome Renew(uint64_t id, uint32_t lease_ms) {
    return Call(LtcRequest::kRenewSnapshot, Body(RenewSnapshotRequest{first.id, first.epoch, id, lease_ms}))
        .outcome;
  }
  Outcome Drop(uint64_t id) {
    return Call(LtcRequest::kDropSnapshot, Body(DropSnapshotRequest{first.id, first.epoch, id})).outcome;
  }
  uint64_t TakeSnapshot(uint32_t lease_ms) {
    const BlockingResult r =
        Call(LtcRequest::kTakeSnapshot, Body(TakeSnapshotRequest{first.id, first.epoch, lease_ms}));
    EXPECT_EQ(r.outcome, Outcome::kOk);
    TakeSnapshotReply reply;
    EXPECT_TRUE(ParseBody(r.body, &reply));
    return reply.snapshot;
  }
  Outcome GetAt(uint64_t snapshot, const RangeRecord& range, std::string_view key,
                std::string* value = nullptr) {
    const std::string header = Body(GetRequest{range.id, range.epoch, snapshot, key});
    BlockingResult r = Call(LtcRequest::kGet, header + std::string(key));
    if (value != nullptr) *value = std::move(r.body);
    return r.outcome;
  }
  SimCluster cluster;
  RangeRecord first;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Xchg> xchg;
  uint64_t requests = 0;
};

void Simulate(const std::function<void()>& body) {
  Simulation sim(1);
  SetUpSimLog(&sim, 1);
  sim.Run(body);
}

constexpr LtcRequest kAllTypes[] = {
    LtcRequest::kPut,           LtcRequest::kDelete,         LtcRequest::kGet,      LtcRequest::kScan,
    LtcRequest::kBatch,         LtcRequest::kCompareAndSwap, LtcRequest::kMultiGet, LtcRequest::kTakeSnapshot,
    LtcRequest::kRenewSnapshot, LtcRequest::kDropSnapshot};
const std::string kKey("\0a", 2), kFarKey("\0z", 2);

// A StoC may get the address that a client knows as an LTC's: nobody is there then, and where the range is
// has to be asked again.
TEST(LtcServerTest, F3_WhatIsMeantForAnLtcReachesNoStoc) {
  Simulate([] {
    Rig rig;
    LtcClient client(rig.xchg.get());
    const auto get = [&](const std::string& address) {
      Outcome outcome = Outcome::kInternal;
      Notification done;
      rig.xchg->Submit([&] {
        client.Get(address, {rig.first.id, rig.first.epoch, 0, kKey}, Now() + 20 * kSecond,
                   [&](Outcome o, std::string_view, std::string_view) {
                     outcome = o;
                     done.Notify();
                   });
      });
      done.Wait();
      return outcome;
    };
    EXPECT_EQ(get(rig.cluster.ltc("ltc-0")->address()), Outcome::kNotFound);
    EXPECT_EQ(get("stoc-0:7450"), Outcome::kUnavailable);
    EXPECT_EQ(BlockingCall(rig.xchg.get(), "stoc-0:7450", static_cast<uint16_t>(LtcRequest::kGet), {},
                           Now() + 20 * kSecond)
                  .outcome,
              Outcome::kInvalidArgument)
        << "no StoC is there";
  });
}

TEST(LtcServerTest, AMalformedRequestClosesItsConnectionAndTheServerLives) {
  Simulate([] {
    Rig rig;
    for (const LtcRequest type : kAllTypes) {
      for (const size_t size : {0u, 7u, 15u}) {
        const Nanos before = Now();
        EXPECT_EQ(rig.Call(type, std::string(size, 'x')).outcome, Outcome::kUnknown)
            << static_cast<int>(type);
        EXPECT_LT(Now() - before, 10 * kSecond) << "the connection stayed open";
      }
      EXPECT_EQ(rig.Put(kKey, "v"), Outcome::kOk) << static_cast<int>(type);
    }
  });
}

TEST(LtcServerTest, ARangeThatIsNotHereAtThatEpochIsNotOwned) {
  Simulate([] {
    Rig rig;
    RangeRecord later = rig.first;
    later.epoch = Epoch(later.epoch.value() + 1);
    EXPECT_EQ(rig.GetAt(0, later, kKey), Outcome::kNotOwner);
    EXPECT_EQ(rig.GetAt(0, rig.first, kFarKey), Outcome::kNotOwner);
    const MultiGetRequest multi{rig.first.id, rig.first.epoch, 0, {kKey, kFarKey}};
    EXPECT_EQ(rig.Call(LtcRequest::kMultiGet, Body(multi)).outcome, Outcome::kNotOwner);
    std::string entries;
    for (const std::string& key : {kKey, kFarKey})
      BatchRequest::AppendEntry("", {ValueType::kPut, key, "v", 0}, &entries);
    const BatchRequest batch{rig.first.id, rig.first.epoch, 1, 1, 2, {}};
    EXPECT_EQ(rig.Call(LtcRequest::kBatch, batch.EncodeHeader() + entries).outcome, Outcome::kInvalidArgument)
        << "K6";
    EXPECT_EQ(rig.GetAt(0, rig.first, kKey), Outcome::kNotFound);
  });
}

TEST(LtcServerTest, K4SnapshotsHaveIdsAndLeases) {
  Simulate([] {
    Rig rig;
    ASSERT_EQ(rig.Put(kKey, "before"), Outcome::kOk);
    const uint64_t one = rig.TakeSnapshot(10'000), two = rig.TakeSnapshot(600'000);
    EXPECT_NE(one, two);
    ASSERT_EQ(rig.Put(kKey, "after"), Outcome::kOk);
    std::string value;
    EXPECT_EQ(rig.GetAt(one, rig.first, kKey, &value), Outcome::kOk);
    EXPECT_EQ(value, "before");
    EXPECT_EQ(rig.GetAt(one + 100, rig.first, kKey), Outcome::kSnapshotEnded)
        << "an id that nobody was given";
    const RangeRecord second = std::next(rig.cluster.Records().begin())->second;
    EXPECT_EQ(rig.GetAt(one, second, kFarKey), Outcome::kSnapshotEnded) << "another range's";
    EXPECT_EQ(rig.Renew(one, 0), Outcome::kInvalidArgument);
    const TakeSnapshotRequest no_lease{rig.first.id, rig.first.epoch, 0};
    EXPECT_EQ(rig.Call(LtcRequest::kTakeSnapshot, Body(no_lease)).outcome, Outcome::kInvalidArgument);
    for (int i = 0; i < 3; ++i) {
      SleepFor(7 * kSecond);
      EXPECT_EQ(rig.Renew(one, 10'000), Outcome::kOk) << i;
    }
    SleepFor(11 * kSecond);
    EXPECT_EQ(rig.GetAt(one, rig.first, kKey), Outcome::kSnapshotEnded);
    EXPECT_EQ(rig.Renew(one, 10'000), Outcome::kSnapshotEnded) << "once ended, for ever";
    EXPECT_EQ(rig.GetAt(two, rig.first, kKey, &value), Outcome::kOk);
    EXPECT_EQ(value, "before");
    EXPECT_EQ(rig.Drop(two), Outcome::kOk);
    EXPECT_EQ(rig.Drop(two), Outcome::kSnapshotEnded);
    EXPECT_EQ(rig.GetAt(two, rig.first, kKey), Outcome::kSnapshotEnded);
    EXPECT_NE(rig.TakeSnapshot(1000), two);
  });
}

TEST(LtcServerTest, K4NoLeaseIsLongerThanItMayBe) {
  Simulate([] {
    SimClusterOptions options = Rig::OneLtc();
    options.ltc.max_snapshot_lease_ms = 30'000;
    Rig rig(options);
    const uint64_t id = rig.TakeSnapshot(600'000);
    SleepFor(29 * kSecond);
    EXPECT_EQ(rig.Renew(id, UINT32_MAX), Outcome::kOk);
    SleepFor(29 * kSecond);
    EXPECT_EQ(rig.GetAt(id, rig.first, kKey), Outcome::kNotFound);
    SleepFor(2 * kSecond);
    EXPECT_EQ(rig.GetAt(id, rig.first, kKey), Outcome::kSnapshotEnded);
  });
}

// While the log answers nothing, no snapshot is stable: by then whoever asked for one may wait no more.
TEST(LtcServerTest, K4SnapshotsOfCallersThatHaveGivenUpAreNotKept) {
  Simulate([] {
    Rig rig;
    for (const char* key : {"1", "2"}) ASSERT_EQ(rig.Put(kKey + key, "v"), Outcome::kOk);
    const std::string take = Body(TakeSnapshotRequest{rig.first.id, rig.first.epoch, 30'000});
    const std::string scan =
        Body(BeginScanRequest{rig.first.id, rig.first.epoch, 30'000, 1, true, false, kKey, {}});
    const auto in_time = [&](Nanos within) {
      int answered = 0;
      answered += rig.Call(LtcRequest::kTakeSnapshot, take, within).outcome == Outcome::kOk;
      answered += rig.Call(LtcRequest::kBeginScan, scan, within).outcome == Outcome::kOk;
      return answered;
    };
    for (const std::string& stoc : rig.cluster.Names("stoc")) rig.cluster.Pause(stoc);
    Outcome written = Outcome::kInternal;
    Thread writer("writer", [&] { written = rig.Put(kKey, "v"); });
    SleepFor(10 * kMillisecond);
    EXPECT_EQ(in_time(100 * kMillisecond), 0);
    SleepFor(500 * kMillisecond);
    rig.cluster.HealAll();
    writer.Join();
    EXPECT_EQ(written, Outcome::kOk);
    SleepFor(kSecond);
    EXPECT_EQ(rig.cluster.Metric("ltc", "nova_ltc_snapshots"), 0);
    EXPECT_EQ(in_time(kSecond), 2);
    EXPECT_EQ(rig.cluster.Metric("ltc", "nova_ltc_snapshots"), 2);
  });
}

// A reply that is full has the first keys' answers, and one at least.
TEST(LtcServerTest, AMultiGetThatDoesNotFitAnswersItsFirstKeys) {
  Simulate([] {
    SimClusterOptions options = Rig::OneLtc();
    options.ltc.hosted.range.scan_page_bytes = 1000;
    Rig rig(options);
    std::vector<std::string> names;
    for (int i = 0; i < 40; ++i) {
      names.push_back(kKey + std::to_string(10 + i));
      ASSERT_EQ(rig.Put(names.back(), std::string(300, static_cast<char>('a' + i % 26))), Outcome::kOk);
    }
    MultiGetRequest request{rig.first.id, rig.first.epoch, 0, {}};
    for (const std::string& name : names) request.keys.push_back(name);
    BlockingResult r = rig.Call(LtcRequest::kMultiGet, Body(request));
    ASSERT_EQ(r.outcome, Outcome::kOk);
    MultiGetReply reply;
    ASSERT_TRUE(ParseBody(r.body, &reply));
    EXPECT_EQ(reply.values.size(), 4u);
    for (size_t i = 0; i < reply.values.size(); ++i)
      EXPECT_EQ(reply.values[i]->front(), static_cast<char>('a' + i));
    request.keys.assign(1, names[7]);
    r = rig.Call(LtcRequest::kMultiGet, Body(request));
    ASSERT_TRUE(ParseBody(r.body, &reply));
    EXPECT_EQ(reply.values.size(), 1u);
  });
}

// A client that stands still once it has sent its scans.
struct SilentClient {
  SilentClient(Rig* rig, std::string node)
      : name(std::move(node)),
        network(rig->cluster.network()),
        fabric(NewSimFabric(network, name)),
        port(*fabric->OpenPort({.name = name})) {
    Hello self;
    self.role = Role::kClient;
    connection = port->Connect(rig->cluster.ltc("ltc-0")->address(), self, Now() + 5 * kSecond);
    EXPECT_EQ(Poll(1)[CompletionKind::kConnected], 1);
  }
  // What came until there are `n`, or nothing comes.
  std::map<CompletionKind, int> Poll(int n) {
    std::map<CompletionKind, int> came;
    std::array<Completion, 64> out;
    int total = 0;
    for (const Nanos until = Now() + kSecond; total < n && Now() < until; SleepFor(100 * kMicrosecond)) {
      const size_t polled = port->Poll(out);
      for (size_t i = 0; i < polled; ++i) ++came[out[i].kind];
      total += static_cast<int>(polled);
    }
    return came;
  }
  void SendScans(int count, const ScanRequest& request) {
    const std::string body = request.Encode();
    MessageHeader h;
    h.type = static_cast<uint16_t>(LtcRequest::kScan);
    h.body_length = static_cast<uint32_t>(body.size());
    h.deadline_or_depth = MessageHeader::kNoDeadline;
    message.assign(reinterpret_cast<const char*>(&h), sizeof(h));
    message += body;
    const auto memory = *fabric->Register(message.data(), message.size(), Access::kLocal);
    WorkRequest send;
    send.opcode = Opcode::kSend;
    send.piece_count = 1;
    send.pieces[0] = {message.data(), static_cast<uint32_t>(message.size()), memory.lkey};
    for (int i = 0; i < count; ++i) ASSERT_TRUE(port->Post(connection, {&send, 1}).ok());
    while (fabric->counters().pending_requests > 0) Poll(1);
    network->Pause(name);
  }

  const std::string name;
  SimNetwork* const network;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Port> port;
  ConnectionId connection;
  std::string message;
};

// Scans that nobody reads the answers of take their connection's share, and go with it.
TEST(LtcServerTest, ScansOfOthersAreAnsweredWhileSomeReadNone) {
  Simulate([] {
    SimClusterOptions options = Rig::OneLtc();
    options.ltc.hosted.range.scan_page_bytes = 64 << 10;
    options.ltc.xchg.send_pool_bytes = 4 << 20;
    Rig rig(options);
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(rig.Put(kKey + std::to_string(100 + i), std::string(2000, 'v')), Outcome::kOk);
    ScanRequest scan{rig.first.id, rig.first.epoch, 0, 100, false, kKey, {}};
    const auto healthy = [&] {
      const BlockingResult r = rig.Call(LtcRequest::kScan, scan.Encode());
      ScanReply reply;
      EXPECT_EQ(r.outcome, Outcome::kOk);
      EXPECT_TRUE(ParseBody(r.body, &reply));
      EXPECT_GT(reply.count, 20u);
    };
    healthy();
    std::vector<std::unique_ptr<SilentClient>> silent;
    for (int i = 0; i < 8; ++i) {
      silent.push_back(std::make_unique<SilentClient>(&rig, StrCat("silent-", i)));
      silent.back()->SendScans(700, scan);
    }
    Nanos worst = 0;
    for (const Nanos until = Now() + 30 * kSecond; Now() < until; SleepFor(100 * kMillisecond)) {
      const Nanos begin = Now();
      healthy();
      worst = std::max(worst, Now() - begin);
    }
    EXPECT_LT(worst, kSecond);
    for (const auto& s : silent) {
      s->network->Resume(s->name);
      EXPECT_EQ(s->Poll(10'000)[CompletionKind::kDisconnected], 1);
    }
  });
}

}  // namespace
}  // namespace nova
