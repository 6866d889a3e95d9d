// JobOffloader against a StoC that answers what the test says: what counts as a result, and what follows from
// anything else (attempt, M6).
#include "ltc/server/job_offloader.h"

#include <gtest/gtest.h>

#include <atomic>

#include "common/base/crc32c.h"
#include "common/rdma/handle_body.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

constexpr StocId kStoc(1);
constexpr Nanos kPause = 30 * kSecond;

std::string InternalKey(std::string_view stored) {
  std::string key;
  AppendInternalKey(&key, stored, 1, ValueType::kPut);
  return key;
}

TableInfo TableOf(const Uuid& uuid) {
  TableInfo t;
  t.uuid = uuid;
  t.data_size = 1000;
  t.smallest = InternalKey("a");
  t.largest = InternalKey("z");
  t.fragments = {{0, 1000, {kStoc}}};
  t.metadata_stocs = {kStoc};
  return t;
}

CompactionJob SomeJob() {
  CompactionJob job;
  job.range = RangeId(7);
  job.epoch = Epoch(3);
  job.job_id = 5;
  job.inputs = {TableOf({1, 1})};
  job.output_uuids = {{2, 1}, {2, 2}};
  job.max_table_size_bytes = 1000;
  return job;
}

// The body of an answer with these outputs.
std::string ResultWith(const std::vector<TableInfo>& outputs) {
  CompactionResult result;
  result.outputs = outputs;
  std::string bytes;
  result.AppendTo(&bytes);
  return Body(CompactReply{Crc32c(bytes), {}}) + bytes;
}

// Answers requests to compact as it is told to.
class FakeStoc {
 public:
  struct Answer {
    Outcome outcome = Outcome::kOk;
    std::string body = {};
  };
  // nullopt: it never does.
  using Answerer = std::function<std::optional<Answer>(const CompactionJob& job)>;

  explicit FakeStoc(FabricWorld* world) : fabric_(world->NewFabric("stoc-1")) {
    const Hello hello = TestHello(Role::kStoc, "stoc-1", 100);
    XchgOptions options;
    options.name = "stoc.xchg.0";
    xchg_ = *Xchg::Open(fabric_.get(), hello, options);
    HandleBody<CompactRequest>(xchg_.get(), StocRequest::kCompact, &malformed_,
                               [this](const IncomingCall& call, const CompactRequest& request) {
                                 ++asked;
                                 std::string_view bytes = request.bytes;
                                 const auto job = CompactionJob::Parse(&bytes, Now());
                                 EXPECT_TRUE(job.ok()) << job.status();
                                 const auto what = answer(*job);
                                 for (int i = 0; what && i < times; ++i) Reply(call, *what);
                               });
    HandleBody<CancelJobRequest>(xchg_.get(), StocRequest::kCancelJob, &malformed_,
                                 [this](const IncomingCall& call, const CancelJobRequest&) {
                                   ++cancels;
                                   Reply(call, {cancels < 3 ? Outcome::kBusy : Outcome::kOk});
                                 });
    auto bound = fabric_->Listen(world->AnyAddress("stoc-1"), hello, {xchg_->port()},
                                 [](const Hello&) { return OkStatus(); });
    EXPECT_TRUE(bound.ok()) << bound.status();
    info.name = "stoc-1";
    info.role = Role::kStoc;
    info.stoc_id = kStoc;
    info.incarnation = Incarnation(100);
    info.host = "stoc-1";
    info.address = *bound;
    xchg_->Start();
  }
  ~FakeStoc() { xchg_->Stop(); }

  NodeInfo info;
  Answerer answer;
  int times = 1;  // that it answers
  std::atomic<int> asked{0};
  std::atomic<int> cancels{0};

 private:
  void Reply(const IncomingCall& call, const Answer& what) {
    const std::string_view parts[] = {what.body};
    xchg_->Reply(call.connection, call.request_id, what.outcome, parts);
  }

  const std::unique_ptr<Fabric> fabric_;
  Counter malformed_;
  std::unique_ptr<Xchg> xchg_;
};

// Says that it was asked, by its error.
class Here : public CompactionStorage {
 public:
  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo&) override {
    return absl::NotFoundError("here");
  }
  StatusOr<std::string> ReadBlocks(const TableInfo&, std::span<const BlockHandle>) override {
    return absl::InternalError("not opened");
  }
  void WaitTurn(uint64_t bytes) override { waited_bytes += bytes; }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output) override { return absl::InternalError("not opened"); }

  uint64_t waited_bytes = 0;
};

struct Rig {
  explicit Rig(FabricWorld* world) : stoc(world), client(world, "ltc-1", 10) {
    client.stocs->UpdateStocs({stoc.info});
    offloader = std::make_unique<JobOffloader>(
        OffloadOptions{.policy = OffloadPolicy::kRoundRobin, .pause_after_failure_ns = kPause},
        client.stocs.get(), &metrics);
  }
  ~Rig() { client.Stop(); }
  StatusOr<CompactionResult> Run(FakeStoc::Answerer answer) {
    stoc.answer = std::move(answer);
    const CompactionJob job = SomeJob();
    const auto place = [this](size_t count) {
      waited_before_placed = here.waited_bytes;
      return std::vector<Placement>(no_stoc_is_alive ? 0 : count, {{{kStoc}}, {kStoc}});
    };
    return offloader->Run(job, {{kStoc, "stoc-1", {}}}, place, &here, [this] { return cancelled.load(); });
  }
  StatusOr<CompactionResult> RunAnswered(Outcome outcome, const std::string& body = "") {
    return Run([=](const CompactionJob&) { return FakeStoc::Answer{outcome, body}; });
  }
  uint64_t Jobs(const std::string& what) {
    return metrics.counter("nova_ltc_jobs_" + what + "_total")->value();
  }
  void WaitUntilCertain() {
    while (metrics.gauge("nova_ltc_jobs_uncertain")->value() > 0) SleepFor(kMillisecond);
  }

  Metrics metrics;
  Here here;
  FakeStoc stoc;
  TestClient client;
  std::unique_ptr<JobOffloader> offloader;
  std::atomic<bool> cancelled{false};
  bool no_stoc_is_alive = false;      // to place outputs on
  uint64_t waited_before_placed = 0;  // bytes that the last job has waited for, when its outputs were placed
};

bool RanHere(const StatusOr<CompactionResult>& result) { return absl::IsNotFound(result.status()); }

FakeStoc::Answer ResultOf(const CompactionJob& job) {
  return {Outcome::kOk, ResultWith({TableOf(job.output_uuids[0])})};
}

class JobOffloaderTest : public testing::Test {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(FabricKind::kSim, test); }
};

TEST_F(JobOffloaderTest, M6AResultIsTakenOnceWithIdsOfItsOwn) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    rig.stoc.times = 2;  // it answers twice
    std::vector<Uuid> ids;
    const auto result = rig.Run([&](const CompactionJob& job) {
      ids = job.output_uuids;
      EXPECT_NE(job.deadline_ns, 0);
      EXPECT_EQ(job.inputs, SomeJob().inputs);
      return ResultOf(job);
    });
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->outputs.size(), 1u);
    EXPECT_EQ(result->outputs[0].uuid, ids[0]);
    const CompactionJob job = SomeJob();
    for (const Uuid& own : job.output_uuids) EXPECT_EQ(std::count(ids.begin(), ids.end(), own), 0);
    EXPECT_EQ(rig.Jobs("offloaded"), 1u);
    EXPECT_EQ(rig.stoc.cancels.load(), 0);
  });
}

// A plan's parts name all of its inputs. What counts of them is what has keys of the part.
TEST_F(JobOffloaderTest, InputsOfOtherPartsDoNotCount) {
  CompactionJob job = SomeJob();
  TableInfo other = TableOf({1, 2});
  other.smallest = InternalKey("p");
  other.data_size = 7'000'000;
  job.inputs[0].largest = InternalKey("m");
  job.inputs.push_back(other);
  job.output_uuids.resize(10);
  job.max_table_size_bytes = 1'000'000;
  EXPECT_EQ(JobOffloader::PlacesOf(job), 8u);
  job.to = "n";
  EXPECT_EQ(JobOffloader::PlacesOf(job), 1u);
  job.from = "n";
  job.to = "";
  EXPECT_EQ(JobOffloader::PlacesOf(job), 8u);
}

// Flushes go first, wherever a compaction runs.
TEST_F(JobOffloaderTest, AJobWaitsForItsTurnBeforeItGoesElsewhere) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    EXPECT_TRUE(rig.Run([&](const CompactionJob& job) {
                     EXPECT_EQ(rig.here.waited_bytes, 1000u) << "all that it reads";
                     return ResultOf(job);
                   })
                    .ok());
    EXPECT_EQ(rig.here.waited_bytes, 1000u);
    EXPECT_EQ(rig.waited_before_placed, 1000u) << "what is known of disks is of the moment when it is sent";
    EXPECT_TRUE(RanHere(rig.RunAnswered(Outcome::kInvalidArgument)));
    EXPECT_TRUE(RanHere(rig.Run(ResultOf))) << "it takes no jobs";
    EXPECT_EQ(rig.here.waited_bytes, 2000u) << "a job that is sent nowhere waits as it reads";
  });
}

TEST_F(JobOffloaderTest, AJobWhoseOutputsHaveNoPlaceIsSentNowhere) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    rig.no_stoc_is_alive = true;
    EXPECT_TRUE(RanHere(rig.Run(ResultOf)));
    EXPECT_EQ(rig.stoc.asked.load(), 0);
    rig.no_stoc_is_alive = false;
    EXPECT_TRUE(rig.Run(ResultOf).ok());
  });
}

// What is no result of this attempt is not used, and the attempt is cancelled until that is answered.
TEST_F(JobOffloaderTest, M6AnAnswerThatIsNoResultOfTheAttemptIsNotUsed) {
  Run([](FabricWorld* world) {
    const std::function<std::string(const CompactionJob&)> bodies[] = {
        [](const CompactionJob&) { return "no result"; },
        [](const CompactionJob& job) {
          std::string damaged = ResultOf(job).body;
          damaged.back() = static_cast<char>(damaged.back() ^ 1);
          return damaged;
        },
        [](const CompactionJob& job) { return ResultOf(job).body + "more"; },
        [](const CompactionJob&) { return ResultWith({TableOf(SomeJob().output_uuids[0])}); },
        [](const CompactionJob& job) { return ResultWith({TableOf(job.output_uuids[1])}); },
        [](const CompactionJob& job) {
          TableInfo nowhere = TableOf(job.output_uuids[0]);
          nowhere.fragments.clear();
          return ResultWith({nowhere});
        },
        [](const CompactionJob& job) {
          return ResultWith({TableOf(job.output_uuids[0]), TableOf(job.output_uuids[1]), TableOf({9, 9})});
        }};
    for (const auto& body : bodies) {
      Rig rig(world);
      const auto result = rig.Run([&](const CompactionJob& job) {
        return FakeStoc::Answer{Outcome::kOk, body(job)};
      });
      EXPECT_TRUE(RanHere(result)) << result.status();
      rig.WaitUntilCertain();
      EXPECT_EQ(rig.stoc.cancels.load(), 3) << "two answers said that it was under way still";
      EXPECT_EQ(rig.Jobs("lost"), 1u);
      EXPECT_EQ(rig.Jobs("offloaded"), 0u);
    }
  });
}

TEST_F(JobOffloaderTest, WhoIsBusyIsAskedAgain) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_TRUE(RanHere(rig.RunAnswered(Outcome::kBusy)));
      EXPECT_EQ(rig.stoc.asked.load(), i);
    }
    EXPECT_EQ(rig.Jobs("refused"), 3u);
    EXPECT_EQ(rig.stoc.cancels.load(), 0);
  });
}

TEST_F(JobOffloaderTest, WhoFailsIsAskedAgainAfterAWhile) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    EXPECT_TRUE(RanHere(rig.RunAnswered(Outcome::kNoSpace, "full")));
    EXPECT_TRUE(RanHere(rig.RunAnswered(Outcome::kNoSpace, "full")));
    EXPECT_EQ(rig.stoc.asked.load(), 1);
    SleepFor(kPause);
    EXPECT_TRUE(rig.Run(ResultOf).ok());
    EXPECT_EQ(rig.Jobs("failed"), 1u);
    EXPECT_EQ(rig.stoc.cancels.load(), 0) << "it has ended by its own word";
  });
}

TEST_F(JobOffloaderTest, WhoTakesNoJobsIsNotAskedAgain) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    EXPECT_TRUE(RanHere(rig.RunAnswered(Outcome::kInvalidArgument)));
    SleepFor(10 * kPause);
    EXPECT_TRUE(RanHere(rig.Run(ResultOf)));
    EXPECT_EQ(rig.stoc.asked.load(), 1);
    EXPECT_EQ(rig.Jobs("refused"), 1u);
  });
}

TEST_F(JobOffloaderTest, F1AFencedRangeRunsNothingHereEither) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    EXPECT_TRUE(absl::IsFailedPrecondition(rig.RunAnswered(Outcome::kNotOwner).status()));
    EXPECT_EQ(rig.stoc.cancels.load(), 0);
  });
}

// A part of which the range has no use any more is not waited for.
TEST_F(JobOffloaderTest, M6WhatIsCancelledIsNotWaitedForAndIsCancelledThere) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const Nanos begin = Now();
    const auto result = rig.Run([&](const CompactionJob&) {
      rig.cancelled = true;
      return std::nullopt;
    });
    EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
    EXPECT_LT(Now() - begin, kSecond);
    rig.WaitUntilCertain();
    EXPECT_EQ(rig.stoc.cancels.load(), 3);
    rig.cancelled = false;
    EXPECT_TRUE(rig.Run(ResultOf).ok()) << "it is no fault of the StoC's";
  });
}

TEST_F(JobOffloaderTest, WhoNeverAnswersIsGivenUpAtTheDeadline) {
  Run([](FabricWorld* world) {
    Rig rig(world);
    const Nanos begin = Now();
    EXPECT_TRUE(RanHere(rig.Run([](const CompactionJob&) { return std::nullopt; })));
    EXPECT_GE(Now() - begin, OffloadOptions().least_deadline_ns);
    EXPECT_LT(Now() - begin, OffloadOptions().least_deadline_ns + 5 * kSecond);
    EXPECT_EQ(rig.Jobs("lost"), 1u);
  });
}

}  // namespace
}  // namespace nova
