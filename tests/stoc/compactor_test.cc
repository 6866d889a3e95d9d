// Compaction jobs in a StoC (attempt, M6): what they write is what an LTC would have written; they are
// fenced, cancelled and refused in the middle, and leave nothing behind; over sockets in real time and over
// the simulated fabric.
#include "stoc/compactor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/sstable/table_iterator.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::ElementsAre;

constexpr RangeId kRange(7);
constexpr Creator kWriter{kRange, Epoch(3), 1};  // of the inputs
constexpr Creator kJob{kRange, Epoch(3), 5};     // of the outputs
constexpr StocId kWorker(1), kOther(2), kThird(3);
constexpr int kKeys = 2000;

using Entries = std::vector<std::pair<std::string, std::string>>;

class StocCompactorTest : public testing::TestWithParam<FabricKind> {
 protected:
  ~StocCompactorTest() override { DisarmFailPoints(); }
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, StocCompactorTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

std::string KeyAt(int i) { return StrCat("key", absl::Dec(i, absl::kZeroPad6)); }

// Each `step`-th key, in its version `sequence`.
TableBuilder::Output SomeTable(uint64_t n, int step, SequenceNumber sequence) {
  TableBuilder builder({.block_size_bytes = 4096}, {0x7ab1e, n});
  for (int i = 0; i < kKeys; i += step) {
    std::string key;
    AppendInternalKey(&key, KeyAt(i), sequence, ValueType::kPut);
    builder.Add(key, Pattern(300, n * 100'000 + static_cast<uint64_t>(i)));
  }
  return builder.Finish();
}

// An answer that is waited for.
struct Answer {
  Outcome outcome = Outcome::kUnknown;
  std::string body;
  CompactionResult Result() const {
    CompactReply reply;
    EXPECT_TRUE(ParseBody(body, &reply));
    EXPECT_EQ(Crc32c(reply.bytes), reply.crc);
    std::string_view bytes = reply.bytes;
    auto result = CompactionResult::Parse(&bytes);
    EXPECT_TRUE(result.ok() && bytes.empty()) << result.status();
    return result.ok() ? *std::move(result) : CompactionResult();
  }
};

struct Rig {
  explicit Rig(FabricWorld* w, const StocCompactorOptions& compactor = {}) : world(w) {
    TestStocOptions options;
    options.server.compactor = compactor;
    for (uint32_t i = 0; i < 3; ++i) {
      media.push_back(std::make_unique<SimDisk>());
      bases.push_back(media.back()->Mount());
      disks.push_back(std::make_unique<FaultDisk>(bases.back().get()));
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100, disks.back().get(), options));
    }
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    store = NewStocTableStore(client->stocs.get(), nullptr, {}, &metrics);
    client->Update({stocs[0].get(), stocs[1].get(), stocs[2].get()});
    for (auto& s : stocs) {
      const Nanos until = Soon();
      while (!PingOf(client->stocs.get(), s->id(), Soon()).ok() && Now() < until) SleepFor(5 * kMillisecond);
    }
  }

  // Two tables, of which the newer has half of the older one's keys; with copies on these StoCs.
  void WriteInputs(const std::vector<StocId>& at = {kWorker, kOther}) {
    uint64_t n = 0;
    for (const int step : {1, 2}) {
      ++n;
      const auto info = store->WriteTable(SomeTable(n, step, n), {{at}, at}, kWriter);
      ASSERT_TRUE(info.ok()) << info.status();
      job.inputs.push_back(*info);
    }
    job.range = kJob.range;
    job.epoch = kJob.epoch;
    job.job_id = kJob.job;
    job.floor = 10;
    job.bottom = true;
    job.max_table_size_bytes = 100 << 10;
    for (uint64_t i = 0; i < 20; ++i) job.output_uuids.push_back({0x0907, i});
  }
  CompactRequest Request(uint64_t attempt, std::string* bytes) const {
    job.AppendTo(bytes, Now());
    return {{0xa77e, attempt}, kJob, places, Crc32c(*bytes), *bytes};
  }
  // Sends it; the answer is there when `done` is notified.
  void Send(const CompactRequest& request, Answer* answer, Notification* done, Nanos deadline_ns = 0,
            StocId worker = kWorker) {
    client->stocs->StartCompact(worker, Incarnation(100), request, deadline_ns == 0 ? Soon() : deadline_ns,
                                [answer, done](Outcome outcome, std::string_view body) {
                                  *answer = {outcome, std::string(body)};
                                  done->Notify();
                                });
  }
  Answer Compact(uint64_t attempt, StocId worker = kWorker, Nanos deadline_ns = 0) {
    std::string bytes;
    Answer answer;
    Notification done;
    Send(Request(attempt, &bytes), &answer, &done, deadline_ns, worker);
    done.Wait();
    return answer;
  }
  Outcome Cancel(uint64_t attempt) {
    Outcome answer = Outcome::kUnknown;
    Notification done;
    client->stocs->StartCancelJob(kWorker, {kRange, kJob.epoch, {0xa77e, attempt}}, Now(), Soon(),
                                  [&](Outcome outcome) {
                                    answer = outcome;
                                    done.Notify();
                                  });
    done.Wait();
    return answer;
  }
  Entries EntriesOf(const TableInfo& info) {
    Entries entries;
    const auto metadata = store->ReadMetadata(info);
    EXPECT_TRUE(metadata.ok()) << metadata.status();
    const auto reader = TableReader::Open(info, *metadata);
    EXPECT_TRUE(reader.ok()) << reader.status();
    TableIterator it(*reader, [&](const TableReader& t, const BlockHandle& h) -> BlockRef {
      return *t.CheckBlock(h, *store->ReadBlocks(info, {&h, 1}));
    });
    for (it.SeekToFirst(); it.Valid(); it.Next()) entries.emplace_back(it.key(), it.value());
    EXPECT_EQ(it.state(), Iterator::State::kEnd) << it.status();
    return entries;
  }
  Entries EntriesOf(const std::vector<TableInfo>& tables) {
    Entries entries;
    for (const TableInfo& t : tables) {
      Entries of = EntriesOf(t);
      entries.insert(entries.end(), of.begin(), of.end());
    }
    return entries;
  }
  // Files of the job, on all StoCs.
  size_t Outputs() const {
    size_t n = 0;
    for (const auto& s : stocs) {
      for (const FileSummary& f : s->files->List(kRange, Epoch(100))) n += f.creator == kJob;
    }
    return n;
  }
  // Drops that were asked of other StoCs are nobody's to wait for.
  bool WaitForNoOutputs() const {
    for (const Nanos until = Soon(); Outputs() > 0; SleepFor(5 * kMillisecond)) {
      if (Now() >= until) return false;
    }
    return true;
  }
  uint64_t Count(StocId stoc, const std::string& what) {
    return stocs[stoc.value() - 1]->metrics.counter("nova_stoc_" + what)->value();
  }
  uint64_t ReadsAskedOf(StocId stoc) { return Count(stoc, "requests_total{type=\"read_file\"}"); }

  FabricWorld* const world;
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> bases;
  std::vector<std::unique_ptr<FaultDisk>> disks;
  Metrics metrics;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> client;
  std::unique_ptr<TableStore> store;
  CompactionJob job;
  std::vector<TablePlace> places = {{{{kOther, kThird}, {kThird, kWorker}}, {kWorker, kThird}},
                                    {{{kWorker, kOther}}, {kOther, kThird}}};
};

// Holds the worker's thread at a failpoint, from its `nth` hit on, until it is let go.
class Held {
 public:
  Held(const char* point, uint64_t nth) {
    DisarmFailPoints();  // hits of another seed do not count
    EXPECT_TRUE(ArmFailPoint(point, nth, [this] {
                  met_.Notify();
                  go_on_.Wait();
                  return OkStatus();
                }).ok());
  }
  ~Held() { LetGo(); }
  bool WaitUntilMet() { return met_.WaitUntil(Soon()); }
  void LetGo() { go_on_.Notify(); }

 private:
  Notification met_, go_on_;
};

// --- what it does

class LocalStorage : public CompactionStorage {
 public:
  LocalStorage(Rig* rig, const Creator& creator) : rig_(rig), creator_(creator) {}
  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) override {
    NOVA_ASSIGN_OR_RETURN(const std::string metadata, rig_->store->ReadMetadata(info));
    return TableReader::Open(info, metadata);
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    return rig_->store->ReadBlocks(info, blocks);
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    return rig_->store->WriteTable(std::move(output), {{{kThird}}, {kThird}}, creator_);
  }

 private:
  Rig* const rig_;
  const Creator creator_;
};

TEST_P(StocCompactorTest, M6OutputsAreThoseOfTheSameJobInAnLtc) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    const Answer answer = rig.Compact(1);
    ASSERT_EQ(answer.outcome, Outcome::kOk) << answer.body;
    const CompactionResult there = answer.Result();
    ASSERT_GT(there.outputs.size(), 3u);

    CompactionJob again = rig.job;
    for (Uuid& id : again.output_uuids) id.hi = 0x0908;
    LocalStorage storage(&rig, {kRange, kJob.epoch, 9});
    const auto here = RunCompaction(again, &storage, nullptr);
    ASSERT_TRUE(here.ok()) << here.status();
    EXPECT_TRUE(rig.EntriesOf(there.outputs) == rig.EntriesOf(here->outputs));
    EXPECT_EQ(there.outputs.size(), here->outputs.size());
    EXPECT_EQ(there.entries_in, here->entries_in);
    EXPECT_EQ(there.entries_dropped, here->entries_dropped);
    EXPECT_EQ(there.bytes_written, here->bytes_written);

    // Each output lies where the request says, with the creator that it names.
    for (size_t i = 0; i < there.outputs.size(); ++i) {
      const TableInfo& t = there.outputs[i];
      EXPECT_EQ(t.uuid, rig.job.output_uuids[i]);
      const TablePlace& place = rig.places[i % rig.places.size()];
      EXPECT_EQ(t.metadata_stocs, place.metadata);
      for (size_t f = 0; f < t.fragments.size(); ++f) EXPECT_EQ(t.fragments[f].stocs, place.fragments[f]);
    }
    size_t copies = 0;
    for (const TableInfo& t : there.outputs) {
      copies += t.metadata_stocs.size();
      for (const Fragment& f : t.fragments) copies += f.stocs.size();
    }
    EXPECT_EQ(rig.Outputs(), copies);
  });
}

TEST_P(StocCompactorTest, WhatLiesHereIsReadWithoutAMessage) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    rig.places = {{{{kWorker}}, {kWorker}}};
    ASSERT_EQ(rig.Compact(1).outcome, Outcome::kOk);
    for (const StocId stoc : {kWorker, kOther, kThird}) EXPECT_EQ(rig.ReadsAskedOf(stoc), 0u);
    ASSERT_EQ(rig.Compact(2, kThird).outcome, Outcome::kOk);
    EXPECT_GT(rig.ReadsAskedOf(kWorker) + rig.ReadsAskedOf(kOther), 0u) << "it has nothing of them";
  });
}

// Damaged copy (S3): the other copy is read.
TEST_P(StocCompactorTest, S3ADamagedCopyHereIsPassedOver) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    ASSERT_TRUE(rig.stocs[0]->files->DeleteFiles({{rig.job.inputs[0].uuid, 0}}).ok());
    const Answer answer = rig.Compact(1);
    ASSERT_EQ(answer.outcome, Outcome::kOk) << answer.body;
    EXPECT_EQ(rig.EntriesOf(answer.Result().outputs).size(), static_cast<size_t>(kKeys));
    EXPECT_GT(rig.ReadsAskedOf(kOther), 0u);
  });
}

// --- fences (revocation, F1)

// Answered while the job is in the middle; the job ends, is refused, and leaves nothing.
TEST_P(StocCompactorTest, F1AFenceDoesNotWaitForAJob) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.job_read", 1);
    std::string bytes;
    Answer answer;
    Notification done;
    rig.Send(rig.Request(1, &bytes), &answer, &done);
    ASSERT_TRUE(held.WaitUntilMet());
    const auto fenced = rig.client->stocs->Fence(kWorker, kRange, Epoch(4), Soon());
    EXPECT_TRUE(fenced.ok()) << fenced.status();
    EXPECT_FALSE(done.HasBeenNotified());
    held.LetGo();
    done.Wait();
    EXPECT_EQ(answer.outcome, Outcome::kNotOwner);
    EXPECT_EQ(FailPointHits("stoc.job_read"), 1u) << "it read on";
    EXPECT_EQ(rig.Outputs(), 0u);
    EXPECT_EQ(rig.Compact(2).outcome, Outcome::kNotOwner) << "nor does another begin";
  });
}

// A write to this StoC's own files is waited for: no byte of the range's comes after the fence's answer.
TEST_P(StocCompactorTest, F1AFenceWaitsForAWriteHere) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.places = {{{{kWorker}}, {kWorker}}};
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.file_written", 1);
    std::string bytes;
    Answer answer;
    Notification done, fenced;
    rig.Send(rig.Request(1, &bytes), &answer, &done);
    ASSERT_TRUE(held.WaitUntilMet());
    rig.client->stocs->StartFence(kWorker, kRange, Epoch(4), Now(), Soon(), [&](StatusOr<FenceReply> reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      fenced.Notify();
    });
    while (rig.stocs[0]->fences.epoch(kRange) < Epoch(4)) SleepFor(kMillisecond);
    ASSERT_TRUE(PingOf(rig.client->stocs.get(), kWorker, Soon()).ok());
    EXPECT_FALSE(fenced.HasBeenNotified());
    held.LetGo();
    fenced.Wait();
    const size_t at_the_fence = rig.Outputs();
    done.Wait();
    EXPECT_EQ(answer.outcome, Outcome::kNotOwner);
    EXPECT_EQ(rig.Outputs(), at_the_fence) << "written, or even dropped, after the fence";
  });
}

// The worker is fenced by nobody; a StoC that takes its outputs is.
TEST_P(StocCompactorTest, F1OutputsOfAWorkerThatNobodyFencedAreRefused) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.places = {{{{kThird}}, {kThird}}};
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    ASSERT_TRUE(rig.client->stocs->Fence(kThird, kRange, Epoch(4), Soon()).ok());
    EXPECT_EQ(rig.Compact(1).outcome, Outcome::kNotOwner);
    EXPECT_EQ(rig.Outputs(), 0u);
  });
}

// --- attempts (M6)

TEST_P(StocCompactorTest, M6ACancelIsAnsweredWhenNothingIsStoredAnyMore) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.job_written", 2);
    std::string bytes;
    Answer answer, cancelled;
    Notification done, cancel_done;
    rig.Send(rig.Request(1, &bytes), &answer, &done);
    ASSERT_TRUE(held.WaitUntilMet());
    EXPECT_GT(rig.Outputs(), 0u);
    rig.client->stocs->StartCancelJob(kWorker, {kRange, kJob.epoch, {0xa77e, 1}}, Now(), Soon(),
                                      [&](Outcome outcome) {
                                        cancelled.outcome = outcome;
                                        cancel_done.Notify();
                                      });
    // It was asked, and asks again: the attempt is under way.
    while (rig.Count(kWorker, "requests_total{type=\"cancel_job\"}") < 2) SleepFor(kMillisecond);
    EXPECT_FALSE(cancel_done.HasBeenNotified());
    held.LetGo();
    cancel_done.Wait();
    EXPECT_EQ(cancelled.outcome, Outcome::kOk);
    done.Wait();
    EXPECT_EQ(answer.outcome, Outcome::kUnavailable);
    EXPECT_TRUE(rig.WaitForNoOutputs());
    EXPECT_EQ(rig.Count(kWorker, "job_failures_total"), 1u);
  });
}

TEST_P(StocCompactorTest, M6ACancelDropsWhatAnAttemptHasDoneOfWhichNobodyHeard) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    ASSERT_EQ(rig.Compact(1).outcome, Outcome::kOk);
    EXPECT_GT(rig.Outputs(), 0u);
    EXPECT_EQ(rig.Cancel(1), Outcome::kOk);
    EXPECT_TRUE(rig.WaitForNoOutputs());
    EXPECT_EQ(rig.Cancel(1), Outcome::kOk) << "again is no error";
  });
}

TEST_P(StocCompactorTest, M6AnAttemptThatComesAfterItsCancelOrTwiceIsRefused) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    EXPECT_EQ(rig.Cancel(1), Outcome::kOk);
    EXPECT_EQ(rig.Compact(1).outcome, Outcome::kUnavailable);
    EXPECT_EQ(rig.Outputs(), 0u);
    ASSERT_EQ(rig.Compact(2).outcome, Outcome::kOk);
    const size_t outputs = rig.Outputs();
    EXPECT_EQ(rig.Compact(2).outcome, Outcome::kUnavailable);
    EXPECT_EQ(rig.Outputs(), outputs);
  });
}

TEST_P(StocCompactorTest, OneThatWaitsIsCancelledAtOnceAndMoreThanMayWaitAreRefused) {
  Run([&](FabricWorld* world) {
    Rig rig(world, {.threads = 1, .queue = 1});
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.job_read", 1);
    std::string first_bytes, waiting_bytes;
    Answer first, waiting;
    Notification first_done, waiting_done;
    rig.Send(rig.Request(1, &first_bytes), &first, &first_done);
    ASSERT_TRUE(held.WaitUntilMet());
    rig.Send(rig.Request(2, &waiting_bytes), &waiting, &waiting_done);
    while (rig.Count(kWorker, "requests_total{type=\"compact\"}") < 2) SleepFor(kMillisecond);
    EXPECT_EQ(rig.Compact(3).outcome, Outcome::kBusy);
    EXPECT_EQ(rig.Cancel(2), Outcome::kOk);
    waiting_done.Wait();
    EXPECT_EQ(waiting.outcome, Outcome::kUnavailable);
    held.LetGo();
    first_done.Wait();
    EXPECT_EQ(first.outcome, Outcome::kOk);
  });
}

TEST_P(StocCompactorTest, AnAttemptEndsAtItsDeadlineAndLeavesNothing) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    rig.job.deadline_ns = Now() + 100 * kMillisecond * world->patience();
    DisarmFailPoints();
    ASSERT_TRUE(ArmFailPoint("stoc.job_written", 1, [&] {
                  SleepFor(rig.job.deadline_ns - Now() + kMillisecond);
                  return OkStatus();
                }).ok());
    EXPECT_EQ(rig.Compact(1).outcome, Outcome::kDeadlineExceeded);
    EXPECT_TRUE(rig.WaitForNoOutputs());
  });
}

TEST_P(StocCompactorTest, AFullDiskEndsAnAttemptAndLeavesNothing) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    for (const StocId full : {kWorker, kThird}) {
      rig.disks[full.value() - 1]->Add({.op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
      EXPECT_EQ(rig.Compact(full.value()).outcome, Outcome::kNoSpace);
      rig.disks[full.value() - 1]->Clear();
      EXPECT_TRUE(rig.WaitForNoOutputs());
    }
  });
}

// --- who goes first

// Simulated alone, for it judges how long something takes.
TEST(StocCompactorTimeTest, RequestsThatWaitForTheDiskGoFirstAndNotForEver) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    Rig rig(world, {.longest_pause_ns = 10 * kSecond});
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.file_read", 1);
    Thread reader("test.reader", [&] {
      const StocFileId file{rig.job.inputs[0].uuid, 0};
      EXPECT_TRUE(rig.client->stocs->ReadFileBlocking(kWorker, file, 0, 100, Now() + 60 * kSecond).ok());
    });
    ASSERT_TRUE(held.WaitUntilMet());
    std::string bytes;
    Answer answer;
    Notification done;
    rig.Send(rig.Request(1, &bytes), &answer, &done, Now() + 600 * kSecond);
    SleepFor(5 * kSecond);
    EXPECT_EQ(rig.Count(kWorker, "requests_total{type=\"compact\"}"), 1u);
    EXPECT_EQ(rig.Count(kWorker, "job_read_bytes_total"), 0u);
    SleepFor(10 * kSecond);
    EXPECT_GT(rig.Count(kWorker, "job_read_bytes_total"), 0u) << "a read that hangs holds it up for ever";
    held.LetGo();
    reader.Join();
    done.Wait();
    EXPECT_EQ(answer.outcome, Outcome::kOk);
  });
}

// What is read from other disks, and written to them, does not wait for this one.
TEST(StocCompactorTimeTest, AJobWhoseTablesLieElsewhereDoesNotWaitForTheDiskHere) {
  InFabricWorld(FabricKind::kSim, [](FabricWorld* world) {
    Rig rig(world, {.longest_pause_ns = 10 * kSecond});
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs({kOther}));
    for (TablePlace& place : rig.places) place = {{{kOther}}, {kOther}};
    const StocFileId file = FileId(77);
    ASSERT_TRUE(rig.client->stocs->WriteFile(kWorker, file, kWriter, "read for long", Soon()).ok());
    Held held("stoc.file_read", 1);
    Thread reader("test.reader", [&] {
      EXPECT_TRUE(rig.client->stocs->ReadFileBlocking(kWorker, file, 0, 4, Now() + 60 * kSecond).ok());
    });
    ASSERT_TRUE(held.WaitUntilMet());
    const Nanos begin = Now();
    EXPECT_EQ(rig.Compact(1).outcome, Outcome::kOk);
    EXPECT_LT(Now() - begin, 5 * kSecond);
    held.LetGo();
    reader.Join();
  });
}

// --- jobs that are not taken

TEST_P(StocCompactorTest, JobsOfAnotherVersionDamagedOrTooLargeAreRefused) {
  Run([&](FabricWorld* world) {
    Rig rig(world, {.memory_bytes = 2 << 20});
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    const auto send = [&rig](CompactRequest request, std::string bytes, bool sound) {
      request.bytes = bytes;
      request.crc = Crc32c(bytes) + (sound ? 0 : 1);
      Answer answer;
      Notification done;
      rig.Send(request, &answer, &done);
      done.Wait();
      return answer.outcome;
    };
    std::string bytes;
    CompactRequest request = rig.Request(1, &bytes);
    std::string other_version = bytes;
    std::string_view body;
    std::string_view rest = bytes;
    ASSERT_TRUE(GetLengthPrefixed(&rest, &body));
    ++other_version[static_cast<size_t>(body.data() - bytes.data())];
    EXPECT_EQ(send(request, other_version, true), Outcome::kInvalidArgument);
    request.attempt.lo = 2;
    EXPECT_EQ(send(request, bytes, false), Outcome::kCorruption);
    request.creator.job = 6;
    EXPECT_EQ(send(request, bytes, true), Outcome::kInvalidArgument) << "not the job's own creator";
    rig.job.max_table_size_bytes = 1 << 20;
    EXPECT_EQ(rig.Compact(3).outcome, Outcome::kBusy);
    EXPECT_EQ(rig.Outputs(), 0u);
  });
}

TEST_P(StocCompactorTest, AStocThatRunsNoJobsAnswersAsOneThatDoesNotKnowThem) {
  Run([&](FabricWorld* world) {
    Rig rig(world, {.threads = 0});
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    EXPECT_EQ(rig.Compact(1).outcome, Outcome::kInvalidArgument);
    const auto [outcome, body] = rig.client->Call(*rig.stocs[0], 0x1ff, "");
    EXPECT_EQ(outcome, Outcome::kInvalidArgument);
  });
}

// Whether the job comes to its end before it is stopped is not the test's to say.
TEST_P(StocCompactorTest, AStocThatStopsWaitsForNoJob) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    ASSERT_NO_FATAL_FAILURE(rig.WriteInputs());
    Held held("stoc.job_read", 1);
    std::string bytes;
    Answer answer;
    Notification done;
    rig.Send(rig.Request(1, &bytes), &answer, &done);
    ASSERT_TRUE(held.WaitUntilMet());
    Thread stopper("test.stop", [&] { rig.stocs[0]->Stop(); });
    held.LetGo();
    stopper.Join();
    done.Wait();
    EXPECT_TRUE(answer.outcome == Outcome::kOk || answer.outcome == Outcome::kUnavailable ||
                answer.outcome == Outcome::kUnknown)
        << OutcomeName(answer.outcome);
  });
}

}  // namespace
}  // namespace nova
