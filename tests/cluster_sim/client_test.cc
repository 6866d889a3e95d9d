// What becomes of a client's calls that are under way while their LTC stands still, is cut off, dies or lets
// go, and its range moves: each ends soon, and says no more than is known (A1).
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "client/client_core.h"
#include "client/nova.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr int64_t kTimeoutMs = 600'000;  // of an operation: nothing here may wait for it
constexpr Nanos kSoon = 3 * kSecond;     // after the new owner serves the range
const std::string kKey = "k", kOther = "l";

SimClusterOptions Options() {
  SimClusterOptions options = SmallCluster();
  options.client.timeout_ms = kTimeoutMs;
  return options;
}

enum class Kind { kWrite, kRead };

// A public call of the client, and its result once it has ended.
struct Call {
  const char* name;
  Kind kind;
  std::function<Result(Client*)> run;
};

std::vector<Call> PublicCalls() {
  const auto batch = [](Client* c) {
    WriteBatch b;
    b.Put(kKey, "new");
    b.Put(kOther, "new");
    return c->Write(b);
  };
  return {
      {"Put", Kind::kWrite, [](Client* c) { return c->Put(kKey, "new"); }},
      {"Delete", Kind::kWrite, [](Client* c) { return c->Delete(kKey); }},
      {"DeleteRange", Kind::kWrite, [](Client* c) { return c->DeleteRange("a", "z"); }},
      {"Write", Kind::kWrite, batch},
      {"CompareAndSwap", Kind::kWrite, [](Client* c) { return c->CompareAndSwap(kKey, "old", "new"); }},
      {"CreateCheckpoint", Kind::kWrite, [](Client* c) { return c->CreateCheckpoint("new"); }},
      {"DeleteCheckpoint", Kind::kWrite, [](Client* c) { return c->DeleteCheckpoint("a"); }},
      {"Get", Kind::kRead, [](Client* c) -> Result { return c->Get(kKey); }},
      {"MultiGet", Kind::kRead,
       [](Client* c) -> Result {
         return c->MultiGet(std::vector<std::string_view>{kKey, kOther});
       }},
      {"Scan", Kind::kRead, [](Client* c) -> Result { return c->Scan("", 10); }},
      {"TakeSnapshot", Kind::kRead, [](Client* c) -> Result { return c->TakeSnapshot(); }},
      {"ListCheckpoints", Kind::kRead, [](Client* c) -> Result { return c->ListCheckpoints(); }},
  };
}

// One call by a thread of its own.
struct UnderWay {
  UnderWay(Client* client, const Call& c)
      : call(c), thread(c.name, [this, client] {
          result = call.run(client);
          ended_ns = Now();
          ended.Notify();
        }) {}
  const Call call;
  Result result;
  Nanos ended_ns = 0;
  Notification ended;
  Thread thread;
};

std::vector<std::unique_ptr<UnderWay>> StartAll(Client* client) {
  std::vector<std::unique_ptr<UnderWay>> calls;
  for (const Call& c : PublicCalls()) calls.push_back(std::make_unique<UnderWay>(client, c));
  return calls;
}

struct World : OneRange {
  explicit World(const SimClusterOptions& options = Options()) : OneRange(options) {
    EXPECT_TRUE(client->Put(kKey, "old").ok());
    EXPECT_TRUE(client->Put(kOther, "old").ok());
    EXPECT_TRUE(client->CreateCheckpoint("a").ok());
    owner = Record().owner;
  }
  void Isolate(const std::string& node) {
    cluster.CutControl(node, true);
    cluster.CutConfig(node, true);
    for (const char* kind : {"stoc", "ltc"}) {
      for (const std::string& other : cluster.Names(kind)) Cut(node, other);
    }
    Cut(node, "client-0");
  }
  void Cut(const std::string& a, const std::string& b) {
    if (a == b) return;
    cluster.network()->Cut(a, b);
    cluster.network()->Cut(b, a);
  }
  std::string owner;
};

// Longer than its clock can count, a deadline would be over before an operation begins.
TEST(ClientTest, OptionsOutOfTheirBoundsAreNamed) {
  ClientOptions timeout, day, none, threads, lease;
  timeout.timeout_ms = INT64_MAX;
  day.timeout_ms = 86'400'001;
  none.timeout_ms = 0;
  threads.threads = 1025;
  lease.snapshot_lease_ms = 600'001;
  const std::pair<const char*, ClientOptions*> cases[] = {{"timeout_ms", &timeout},
                                                          {"timeout_ms", &day},
                                                          {"timeout_ms", &none},
                                                          {"threads", &threads},
                                                          {"snapshot_lease_ms", &lease}};
  for (const auto& [name, options] : cases) {
    options->coordinators = {"127.0.0.1:1"};
    const Status refused = Client::Connect(*options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << name << ": " << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), StrCat(name, " = "))) << refused;
  }
  const nova_options in_c{"127.0.0.1:1", INT64_MAX, 0, 0};
  char* error = nullptr;
  EXPECT_EQ(nova_open_with(&in_c, &error), nullptr);
  EXPECT_STREQ(error, "timeout_ms = 9223372036854775807: must be in [1, 86400000]");
  nova_free(error);
}

// The way to a coordinator, and how often it is gone for the configuration.
class CountingChannel final : public ControlChannel {
 public:
  CountingChannel(std::unique_ptr<ControlChannel> to, std::atomic<int>* fetches)
      : to_(std::move(to)), fetches_(fetches) {}
  StatusOr<std::string> Call(const std::string& method, const std::string& request,
                             Nanos deadline_ns) override {
    *fetches_ += method == "GetConfiguration";
    return to_->Call(method, request, deadline_ns);
  }

 private:
  const std::unique_ptr<ControlChannel> to_;
  std::atomic<int>* const fetches_;
};

// Its owner is gone, and there is no other: all wait, and the coordinator is not what they wear out. An owner
// that comes is found soon all the same.
TEST(ClientTest, ReadsOfARangeWithoutAnOwnerAskSeldomWhereItIs) {
  Simulate(1, [] {
    SimClusterOptions options = Options();
    options.ltcs = 1;
    World w(options);
    std::atomic<int> fetches{0};
    ClientEnvironment environment;
    environment.open_fabric = [&w] { return NewSimFabric(w.cluster.network(), "client-1"); };
    environment.open_channel = [&] {
      return std::make_unique<CountingChannel>(
          w.cluster.control()->NewChannel("client-1", {"coordinator-0:7400"}), &fetches);
    };
    auto client = *Client::Connect(options.client, environment);
    w.cluster.Kill(w.owner);
    SleepFor(5 * kSecond);
    fetches = 0;
    std::vector<std::unique_ptr<UnderWay>> gets;
    for (int i = 0; i < 16; ++i) {
      gets.push_back(std::make_unique<UnderWay>(
          client.get(), Call{"Get", Kind::kRead, [](Client* c) -> Result { return c->Get(kKey); }}));
    }
    SleepFor(10 * kSecond);
    EXPECT_LT(fetches.load(), 110) << "in ten seconds; of one every 20 ms 500";
    EXPECT_GT(fetches.load(), 20) << "none waits for half a second";
    ASSERT_TRUE(w.cluster.Start(w.owner).ok());
    ASSERT_TRUE(w.cluster.WaitOpen(1, 30 * kSecond));
    const Nanos open = Now();
    for (const auto& get : gets) {
      get->ended.Wait();
      EXPECT_TRUE(get->result.ok()) << get->result.message;
      EXPECT_LT(get->ended_ns, open + 1500 * kMillisecond) << "the coordinator tells of it after a second";
    }
  });
}

// Nothing else is asked, and so nobody refuses anything: an answer that is late is what makes the client
// look.
TEST(ClientTest, A1CallsUnderWayAtAnLtcThatWentSilentEndOnceItsRangeIsElsewhere) {
  for (const bool cut : {false, true}) {
    Simulate(1, [cut] {
      World w;
      cut ? w.Isolate(w.owner) : w.cluster.Pause(w.owner);
      auto calls = StartAll(w.client.get());
      ASSERT_TRUE(w.WaitForOtherOwner(w.owner));
      const Nanos moved = Now();
      for (const auto& c : calls) {
        c->ended.Wait();
        EXPECT_LT(c->ended_ns, moved + kSoon) << c->call.name;
        if (c->call.kind == Kind::kRead) {
          EXPECT_TRUE(c->result.ok()) << c->result.message;
        } else {
          EXPECT_EQ(c->result.outcome, Outcome::kUnknown) << c->result.message;
        }
      }
      // What was unknown was not sent again.
      EXPECT_EQ(w.client->Get(kKey).value, "old");
      EXPECT_EQ(w.client->Get(kOther).value, "old");
      EXPECT_EQ(w.client->ListCheckpoints().checkpoints.size(), 1u);
      w.cluster.HealAll();
      SleepFor(5 * kSecond);
      EXPECT_EQ(w.client->Get(kKey).value, "old") << "nor did what the silent one found when it woke count";
    });
  }
}

// A read at a snapshot that the silent one held: ended, and says so.
TEST(ClientTest, K4AReadAtASnapshotOfAnLtcThatWentSilentEndsSo) {
  Simulate(1, [] {
    World w;
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok());
    w.cluster.Pause(w.owner);
    UnderWay get(w.client.get(),
                 {"Get", Kind::kRead, [&](Client* c) -> Result { return c->Get(kKey, {taken.snapshot}); }});
    ASSERT_TRUE(w.WaitForOtherOwner(w.owner));
    const Nanos moved = Now();
    get.ended.Wait();
    EXPECT_LT(get.ended_ns, moved + kSoon);
    EXPECT_EQ(get.result.outcome, Outcome::kSnapshotEnded);
    EXPECT_TRUE(taken.snapshot->ended());
    w.cluster.HealAll();
  });
}

// Another range's refusal teaches the client where this one is, too.
TEST(ClientTest, A1WhatAnotherCallLearnsEndsAPutThatWaits) {
  Simulate(1, [] {
    World w;
    w.cluster.Pause(w.owner);
    UnderWay put(w.client.get(), PublicCalls()[0]);
    ASSERT_TRUE(w.WaitForOtherOwner(w.owner));
    const Nanos moved = Now();
    EXPECT_EQ(w.client->Get(kOther).value, "old");
    put.ended.Wait();
    EXPECT_LT(put.ended_ns, moved + kSoon);
    EXPECT_EQ(put.result.outcome, Outcome::kUnknown);
    w.cluster.HealAll();
  });
}

// An LTC that dies: what was sent is unknown as soon as the connection ends, what was not is done elsewhere.
TEST(ClientTest, A1CallsUnderWayAtAnLtcThatDiesEnd) {
  Simulate(1, [] {
    World w;
    w.cluster.Pause(w.owner);
    auto calls = StartAll(w.client.get());
    SleepFor(100 * kMillisecond);
    w.cluster.Kill(w.owner);
    ASSERT_TRUE(w.WaitForOtherOwner(w.owner));
    const Nanos moved = Now();
    for (const auto& c : calls) {
      c->ended.Wait();
      EXPECT_LT(c->ended_ns, moved + kSoon) << c->call.name;
      EXPECT_EQ(c->result.ok(), c->call.kind == Kind::kRead) << c->call.name << ": " << c->result.message;
    }
    EXPECT_EQ(w.client->Get(kKey).value, "old");
  });
}

// An owner that lets go in order answers everything, and nothing of it is ended before the answer is here: no
// outcome is unknown.
TEST(ClientTest, R5AReleaseInOrderLeavesNoOutcomeUnknown) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = Options();
      options.ltcs = 3;
      World w(options);
      std::atomic<bool> stop{false};
      std::vector<std::unique_ptr<Thread>> writers;
      std::atomic<int> done{0};
      for (int i = 0; i < 4; ++i) {
        writers.push_back(std::make_unique<Thread>("writer", [&, i] {
          while (!stop.load()) {
            const Result r = w.client->Put(KeyOf(i), "v");
            EXPECT_TRUE(r.ok()) << r.message << ", seed " << seed;
            ++done;
            SleepFor(kMillisecond);
          }
        }));
      }
      for (int move = 0; move < 2; ++move) {
        const std::string owner = w.Record().owner;
        std::string left;
        EXPECT_TRUE(w.cluster.NewCoordinatorClient().Drain(owner, Now() + 5 * kSecond, &left).ok());
        EXPECT_TRUE(w.WaitForOtherOwner(owner));
      }
      SleepFor(kSecond);
      stop = true;
      for (auto& writer : writers) writer->Join();
      EXPECT_GT(done.load(), 0);
    });
  }
}

}  // namespace
}  // namespace nova
