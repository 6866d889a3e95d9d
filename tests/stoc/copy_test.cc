// Copies of files from StoC to StoC (rebuild, S5): made, refused, stopped, healed, paced; over sockets in
// real time and over the simulated fabric.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr RangeId kRange(7), kOther(8);
constexpr Creator kWriter{kRange, Epoch(3), 1};   // of what is copied
constexpr Creator kRebuild{kRange, Epoch(3), 5};  // of the copy
constexpr StocId kSource(1), kTarget(2), kThird(3);
constexpr size_t kMb = 1 << 20;

class CopyTest : public testing::TestWithParam<FabricKind> {
 protected:
  ~CopyTest() override { DisarmFailPoints(); }
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, CopyTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

struct Rig {
  explicit Rig(FabricWorld* w, TestStocOptions o = {}, uint32_t count = 3) : world(w), options(o) {
    for (uint32_t i = 0; i < count; ++i) {
      media.push_back(std::make_unique<SimDisk>());
      bases.push_back(media.back()->Mount());
      disks.push_back(std::make_unique<FaultDisk>(bases.back().get()));
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100, disks.back().get(), options));
    }
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    Update();
    for (auto& s : stocs) WaitFor(s->id(), Incarnation(100));
  }
  // Until it answers: an attempt to connect has little time here, and the machine may be busy.
  void WaitFor(StocId id, Incarnation incarnation) {
    const Nanos until = Soon();
    while (PingOf(client->stocs.get(), id, Soon()).value_or(Incarnation()) != incarnation && Now() < until)
      SleepFor(5 * kMillisecond);
  }
  void Update() {
    std::vector<TestStoc*> live;
    for (auto& s : stocs) {
      if (s != nullptr) live.push_back(s.get());
    }
    client->Update(live);
  }
  StocClient* operator->() const { return client->stocs.get(); }
  TestStoc& at(StocId id) const { return *stocs[id.value() - 1]; }
  FaultDisk& disk(StocId id) const { return *disks[id.value() - 1]; }
  // The machine of a StoC loses power, or has lost it; the StoC starts again.
  void Crash(StocId id, bool lost_already = false) {
    const size_t i = id.value() - 1;
    stocs[i] = nullptr;
    disks[i] = nullptr;
    if (!lost_already) media[i]->Crash();
    bases[i] = media[i]->Mount();
    disks[i] = std::make_unique<FaultDisk>(bases[i].get());
    stocs[i] = std::make_unique<TestStoc>(world, id.value(), ++incarnation, disks[i].get(), options);
    Update();
    WaitFor(id, Incarnation(incarnation));
  }

  void Put(StocId stoc, const StocFileId& file, std::string_view data, const Creator& by = kWriter) {
    const Status s = client->stocs->WriteFile(stoc, file, by, data, Soon());
    ASSERT_TRUE(s.ok()) << s;
  }
  StocClient::CopyResult Copy(const StocFileId& file, uint64_t size, const Creator& creator = kRebuild,
                              StocId source = kSource, StocId target = kTarget, Nanos deadline_ns = Soon()) {
    return client->stocs->CopyFile(target, {file, creator, source, Incarnation(100), size}, deadline_ns);
  }
  std::string Bytes(StocId stoc, const StocFileId& file) {
    return client->stocs->ReadFileBlocking(stoc, file, 0, UINT64_MAX, Soon()).value_or("(none)");
  }
  std::vector<FileSummary> List(StocId stoc, RangeId range = kRange) {
    return *client->stocs->ListFiles(stoc, range, Epoch(100), {}, Soon());
  }
  uint64_t Count(StocId stoc, const std::string& what) {
    return at(stoc).metrics.counter("nova_stoc_" + what + "_total")->value();
  }
  void Damage(StocId stoc, const StocFileId& file, uint64_t offset) {
    const auto opened = bases[stoc.value() - 1]->Open("files/" + file.ToString(), /*writable=*/true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    char byte;
    ASSERT_TRUE((*opened)->Read(kFileHeaderBytes + offset, 1, &byte).ok());
    byte = static_cast<char>(byte ^ 4);
    ASSERT_TRUE((*opened)->Write(kFileHeaderBytes + offset, {&byte, 1}).ok() && (*opened)->Sync().ok());
  }

  FabricWorld* const world;
  const TestStocOptions options;
  uint64_t incarnation = 100;
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> bases;
  std::vector<std::unique_ptr<FaultDisk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> client;
};

TestStocOptions WithSourceTimeout(Nanos timeout_ns, int copy_threads = 2) {
  TestStocOptions options;
  options.server.copier.source_timeout_ns = timeout_ns;
  options.server.copier.threads = copy_threads;
  return options;
}
TestStocOptions WithBandwidth(uint64_t bytes_per_second) {
  TestStocOptions options;
  options.server.copy_bytes_per_second = bytes_per_second;
  return options;
}

testing::AssertionResult Fails(const StocClient::CopyResult& result, bool (*is)(const Status&),
                               CopyFault whose) {
  if (is(result.status) && result.fault == whose) return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.status << ", fault of the "
                                     << (result.fault == CopyFault::kSource ? "source" : "target");
}

// --- copies that are made

TEST_P(CopyTest, ACopyHasTheSameBytesAndBelongsToItsJob) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    uint64_t n = 0, bytes = 0;
    for (const size_t size : {size_t{0}, size_t{1}, kMb, kMb + 1, 3 * kMb + 12345}) {
      const std::string data = Pattern(size, ++n);
      rig.Put(kSource, FileId(n), data);
      const auto result = rig.Copy(FileId(n), size);
      ASSERT_TRUE(result.status.ok()) << size << ": " << result.status;
      EXPECT_TRUE(rig.Bytes(kTarget, FileId(n)) == data) << size;
      bytes += size;
    }
    for (const FileSummary& f : rig.List(kTarget)) EXPECT_EQ(f.creator, kRebuild);
    EXPECT_EQ(rig.List(kTarget).size(), n);
    for (const FileSummary& f : rig.List(kSource)) EXPECT_EQ(f.creator, kWriter);
    EXPECT_EQ(rig.Count(kTarget, "copies"), n);
    EXPECT_EQ(rig.Count(kTarget, "copied_bytes"), bytes);
    EXPECT_EQ(rig.Count(kTarget, "copy_failures"), 0u);
    EXPECT_THAT(rig.List(kThird), IsEmpty());
  });
}

TEST_P(CopyTest, CopiesAreMadeSideBySide) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    for (const StocId source : {kSource, kThird})
      rig.Put(source, FileId(source.value()), Pattern(2 * kMb + source.value(), source.value()));
    std::atomic<int> made{0};
    std::vector<std::unique_ptr<Thread>> threads;
    for (const StocId source : {kSource, kThird}) {
      threads.push_back(std::make_unique<Thread>(StrCat("copier.", source.value()), [&, source] {
        const auto result =
            rig.Copy(FileId(source.value()), 2 * kMb + source.value(), kRebuild, source, kTarget);
        EXPECT_TRUE(result.status.ok()) << result.status;
        made += result.status.ok();
      }));
    }
    for (auto& t : threads) t->Join();
    EXPECT_EQ(made.load(), 2);
    for (const StocId source : {kSource, kThird}) {
      EXPECT_TRUE(rig.Bytes(kTarget, FileId(source.value())) ==
                  Pattern(2 * kMb + source.value(), source.value()));
    }
  });
}

TEST_P(CopyTest, ACopySurvivesACrashAndIsListedUnderItsJob) {  // N4
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(kMb + 77, 1);
    rig.Put(kSource, FileId(1), data);
    const auto made = rig.Copy(FileId(1), data.size());
    ASSERT_TRUE(made.status.ok()) << made.status;
    rig.Crash(kTarget);
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
    ASSERT_EQ(rig.List(kTarget).size(), 1u);
    EXPECT_EQ(rig.List(kTarget)[0].creator, kRebuild);
  });
}

// --- whose fault it is that none is made

TEST_P(CopyTest, ASourceWithoutTheFileIsToBlame) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const auto absent = rig.Copy(FileId(1), 100);
    EXPECT_TRUE(Fails(absent, absl::IsNotFound, CopyFault::kSource));
    EXPECT_THAT(std::string(absent.status.message()), HasSubstr("stoc-1"));
    ASSERT_TRUE(rig->AppendFile({kSource}, FileId(2), kWriter, 0, true, "manifest", Soon()).ok());
    EXPECT_TRUE(Fails(rig.Copy(FileId(2), 8), absl::IsInvalidArgument, CopyFault::kSource));
    EXPECT_TRUE(
        Fails(rig.Copy(FileId(1), 100, kRebuild, StocId(9)), absl::IsUnavailable, CopyFault::kSource));
    EXPECT_EQ(rig.Count(kTarget, "copy_failures"), 3u);
    EXPECT_EQ(rig.Count(kTarget, "copies"), 0u);
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
  });
}

TEST_P(CopyTest, ASourceThatIsGoneOrOlderThanAskedForIsUnavailable) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    const CopyFileRequest later{FileId(1), kRebuild, kSource, Incarnation(101), kMb};
    EXPECT_TRUE(Fails(rig->CopyFile(kTarget, later, Soon()), absl::IsUnavailable, CopyFault::kSource));
    rig.stocs[0] = nullptr;  // the target has not heard of it
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb), absl::IsUnavailable, CopyFault::kSource));
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
  });
}

TEST_P(CopyTest, ASilentSourceIsGivenUpAfterItsTime) {
  Run([&](FabricWorld* world) {
    const Nanos timeout = 300 * kMillisecond * world->patience();
    Rig rig(world, WithSourceTimeout(timeout));
    rig.Put(kSource, FileId(1), Pattern(2 * kMb, 1));
    rig.disk(kSource).Add(
        {.op = DiskOp::kRead, .action = FaultAction::kDelay, .nth = 2, .delay_ns = 4 * timeout});
    const Nanos begin = Now();
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), 2 * kMb), absl::IsUnavailable, CopyFault::kSource));
    EXPECT_GE(Now() - begin, timeout);
    EXPECT_LT(Now() - begin, 3 * timeout);
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
  });
}

// The target answers before the caller's deadline, so that the caller learns whose fault it was.
TEST_P(CopyTest, ACopyEndsAtItsDeadlineAndTellsWhyWhileTheSourceHangs) {
  Run([&](FabricWorld* world) {
    Rig rig(world, WithSourceTimeout(100 * kSecond));
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    const Nanos time = 600 * kMillisecond * world->patience();
    // The end of the test waits for the read: no longer than it takes to be late.
    rig.disk(kSource).Add({.op = DiskOp::kRead, .action = FaultAction::kDelay, .delay_ns = 3 * time / 2});
    const Nanos begin = Now();
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb, kRebuild, kSource, kTarget, begin + time), absl::IsUnavailable,
                      CopyFault::kSource));
    EXPECT_LT(Now() - begin, time);
    EXPECT_GT(Now() - begin, time / 2);
  });
}

TEST_P(CopyTest, ADamagedOrShortSourceIsCorruptionOfTheSource) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(2 * kMb + 5, 1);
    for (uint64_t n = 1; n <= 4; ++n) rig.Put(kSource, FileId(n), data);
    rig.Damage(kSource, FileId(1), kMb + 17);
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), data.size()), absl::IsDataLoss, CopyFault::kSource));
    EXPECT_TRUE(Fails(rig.Copy(FileId(2), data.size() - 1), absl::IsDataLoss, CopyFault::kSource));
    EXPECT_TRUE(Fails(rig.Copy(FileId(2), data.size() + 1), absl::IsDataLoss, CopyFault::kSource));
    {  // lost its end while the StoC runs
      const std::string path = "files/" + FileId(3).ToString();
      const auto whole = (*rig.bases[0]->Open(path, false));
      std::string front(kFileHeaderBytes + kMb + 10, '\0');
      ASSERT_TRUE(whole->Read(0, front.size(), front.data()).ok());
      const auto cut = *rig.bases[0]->Create("files/cut.tmp");
      ASSERT_TRUE(cut->Write(0, front).ok() && cut->Sync().ok());
      ASSERT_TRUE(rig.bases[0]->Rename("files/cut.tmp", path).ok());
      // Out of the files that the StoC keeps open.
      for (uint64_t n = 20; n < 30; ++n) rig.Put(kSource, FileId(n), "x");
    }
    EXPECT_TRUE(Fails(rig.Copy(FileId(3), data.size()), absl::IsDataLoss, CopyFault::kSource));
    rig.disk(kSource).Add({.op = DiskOp::kRead, .action = FaultAction::kEio});
    EXPECT_TRUE(Fails(rig.Copy(FileId(4), data.size()), absl::IsDataLoss, CopyFault::kSource));
    rig.disk(kSource).Clear();
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
    EXPECT_TRUE(rig.Copy(FileId(4), data.size()).status.ok());
  });
}

TEST_P(CopyTest, ATargetThatIsFullOrWhoseDiskFailsIsToBlame) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    rig.disk(kTarget).Add({.op = DiskOp::kFreeBytes, .action = FaultAction::kNoSpace});
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb), absl::IsResourceExhausted, CopyFault::kTarget));
    EXPECT_EQ(rig.Count(kTarget, "copied_bytes"), 0u) << "looked at before anything is fetched";
    rig.disk(kTarget).Clear();
    rig.disk(kTarget).Add({.op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb), absl::IsResourceExhausted, CopyFault::kTarget));
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
    rig.disk(kTarget).Clear();
    EXPECT_TRUE(rig.Copy(FileId(1), kMb).status.ok()) << "there is room again";
    rig.Put(kSource, FileId(2), Pattern(kMb, 2));
    rig.disk(kTarget).Add({.op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
    EXPECT_TRUE(Fails(rig.Copy(FileId(2), kMb), absl::IsDataLoss, CopyFault::kTarget));
    rig.Put(kSource, FileId(3), "one"), rig.Put(kTarget, FileId(3), "another");
    EXPECT_TRUE(Fails(rig.Copy(FileId(3), 3), absl::IsInvalidArgument, CopyFault::kTarget));
    EXPECT_EQ(rig.Bytes(kTarget, FileId(3)), "another");
  });
}

TEST_P(CopyTest, F1AFencedEpochMakesNoCopy) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    DisarmFailPoints();  // the hits of the run before
    // Between the fetch and the write. The fence does not wait for what is fetched.
    std::atomic<bool> fenced{false};
    ASSERT_TRUE(ArmFailPoint("stoc.copy_fetched", 1, [&] {
                  rig.at(kTarget).fences.Raise(kRange, Epoch(4), [&] { fenced = true; });
                  return OkStatus();
                }).ok());
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb), absl::IsFailedPrecondition, CopyFault::kTarget));
    EXPECT_TRUE(fenced.load());
    EXPECT_EQ(FailPointHits("stoc.copy_fetched"), 1u);
    EXPECT_TRUE(Fails(rig.Copy(FileId(1), kMb), absl::IsFailedPrecondition, CopyFault::kTarget));
    EXPECT_EQ(FailPointHits("stoc.copy_fetched"), 1u) << "refused at its arrival";
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
    EXPECT_TRUE(rig.Copy(FileId(1), kMb, {kRange, Epoch(4), 1}).status.ok());
  });
}

TEST_P(CopyTest, StopEndsACopyAndAnswersWhatWaits) {
  Run([&](FabricWorld* world) {
    Rig rig(world, WithSourceTimeout(100 * kSecond, /*copy_threads=*/1));
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    rig.disk(kSource).Add({.op = DiskOp::kRead, .action = FaultAction::kDelay, .delay_ns = 3 * kSecond});
    std::vector<StocClient::CopyResult> results(2);
    std::vector<std::unique_ptr<Thread>> threads;
    for (size_t i = 0; i < 2; ++i) {
      threads.push_back(std::make_unique<Thread>(StrCat("copier.", i), [&, i] {
        results[i] = rig.Copy(FileId(1), kMb, kRebuild, kSource, kTarget, Now() + 30 * kSecond);
      }));
    }
    while (rig.at(kTarget).metrics.counter("nova_stoc_requests_total{type=\"copy_file\"}")->value() < 2)
      SleepFor(kMillisecond);
    const Nanos begin = Now();
    rig.at(kTarget).server->Stop();
    EXPECT_LT(Now() - begin, kSecond * world->patience());
    for (auto& t : threads) t->Join();
    for (const auto& r : results) {
      EXPECT_TRUE(Fails(r, absl::IsUnavailable, CopyFault::kTarget));
    }
    EXPECT_LT(Now() - begin, 2 * kSecond * world->patience());
    // The late answer of the source has nobody to go to.
    SleepFor(3 * kSecond);
  });
}

TEST_P(CopyTest, MoreCopiesThanMayWaitAreBusy) {
  Run([&](FabricWorld* world) {
    TestStocOptions options;
    options.server.copier.threads = 1;
    options.server.copier.queue = 1;
    Rig rig(world, options);
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    rig.disk(kSource).Add(
        {.op = DiskOp::kRead, .action = FaultAction::kDelay, .count = 1, .delay_ns = kSecond});
    std::atomic<int> made{0};
    std::vector<std::unique_ptr<Thread>> threads;
    const auto arrived = [&] {
      return rig.at(kTarget).metrics.counter("nova_stoc_requests_total{type=\"copy_file\"}")->value();
    };
    for (uint64_t i = 0; i < 2; ++i) {  // one is made, one waits
      threads.push_back(std::make_unique<Thread>(StrCat("copier.", i), [&] {
        made += rig.Copy(FileId(1), kMb, kRebuild, kSource, kTarget, Now() + 20 * kSecond).status.ok();
      }));
      while (arrived() < i + 1) SleepFor(kMillisecond);
      SleepFor(50 * kMillisecond);
    }
    const CopyFileRequest request{FileId(1), kRebuild, kSource, Incarnation(100), kMb};
    EXPECT_EQ(rig.client->Call(rig.at(kTarget), 0x111, Body(request)).first, Outcome::kBusy);
    EXPECT_TRUE(rig.Copy(FileId(1), kMb, kRebuild, kSource, kTarget, Now() + 20 * kSecond).status.ok())
        << "asked again until there was room";
    for (auto& t : threads) t->Join();
    EXPECT_EQ(made.load(), 2);
  });
}

// --- files that are there already

TEST_P(CopyTest, AFileThatIsThereIsKeptAndNotFetched) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(kMb + 9, 1);
    rig.Put(kTarget, FileId(1), data);
    // Nobody else has it, and nobody is asked.
    ASSERT_TRUE(rig.Copy(FileId(1), data.size(), kRebuild, StocId(9)).status.ok());
    ASSERT_TRUE(rig.Copy(FileId(1), data.size(), kRebuild, StocId(9)).status.ok()) << "again";
    EXPECT_EQ(rig.Count(kTarget, "copied_bytes"), 0u);
    EXPECT_EQ(rig.Count(kTarget, "files_healed"), 0u);
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
    // A damaged one is healed from the source's.
    rig.Put(kSource, FileId(1), data);
    rig.Damage(kTarget, FileId(1), 5);
    ASSERT_TRUE(rig.Copy(FileId(1), data.size()).status.ok());
    EXPECT_EQ(rig.Count(kTarget, "copied_bytes"), data.size());
    EXPECT_EQ(rig.Count(kTarget, "files_healed"), 1u);
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
  });
}

// A collection takes the number below which jobs have ended, lists, looks at the references, and drops (N4).
// A file of an ended job that a later job has placed anew between the list and the drop must stay.
TEST_P(CopyTest, N4ACopyThatIsMadeWhileItsPredecessorIsCollectedStays) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.Put(kTarget, FileId(1), "an orphan of job 1");
    rig.Put(kTarget, FileId(2), "an orphan of an earlier epoch", {kRange, Epoch(2), 9});
    rig.Put(kTarget, FileId(3), "nobody's");
    for (const uint64_t n : {1, 2})
      ASSERT_TRUE(rig.Copy(FileId(n), n == 1 ? 18 : 29, kRebuild, StocId(9)).status.ok());
    const std::vector<StocFileId> listed = {FileId(1), FileId(2), FileId(3)};
    for (const bool restarted : {false, true}) {
      if (restarted) rig.Crash(kTarget);
      ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(3), listed, Soon(), /*ended_below=*/5).ok());
      EXPECT_EQ(rig.Bytes(kTarget, FileId(1)), "an orphan of job 1");
      EXPECT_EQ(rig.Bytes(kTarget, FileId(2)), "an orphan of an earlier epoch");
      EXPECT_EQ(rig.Bytes(kTarget, FileId(3)), "(none)");
      for (const FileSummary& f : rig.List(kTarget)) EXPECT_EQ(f.creator, kRebuild);
    }
    // An earlier job does not take it back: the later one may still name it.
    ASSERT_TRUE(rig.Copy(FileId(1), 18, {kRange, Epoch(3), 4}, StocId(9)).status.ok());
    EXPECT_EQ(rig.List(kTarget)[0].creator, kRebuild);
    // Once that has ended as well they go.
    ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(3), listed, Soon(), /*ended_below=*/6).ok());
    EXPECT_THAT(rig.List(kTarget), IsEmpty());
  });
}

TEST_P(CopyTest, M4ACopyOfAFileOfAnotherRangeIsAReference) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(kMb / 2, 1);
    const Creator other{kOther, Epoch(2), 3};
    rig.Put(kSource, FileId(1), data);
    ASSERT_TRUE(rig.Copy(FileId(1), data.size(), other).status.ok());
    ASSERT_TRUE(rig.Copy(FileId(1), data.size(), kRebuild).status.ok());
    EXPECT_EQ(rig.List(kTarget, kRange).size(), 1u);
    EXPECT_EQ(rig.List(kTarget, kOther).size(), 1u);
    EXPECT_EQ(rig.Count(kTarget, "copied_bytes"), data.size()) << "fetched once";
    rig.Crash(kTarget);
    ASSERT_TRUE(rig->DropReferences(kTarget, kOther, Epoch(2), {FileId(1)}, Soon()).ok());
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data) << "the other range's";
    // A collection of this epoch leaves the reference, which has no job; one of the next epoch does not, but
    // for one that this epoch has added anew.
    ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(3), {FileId(1)}, Soon(), 100).ok());
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
    ASSERT_TRUE(rig.Copy(FileId(1), data.size(), {kRange, Epoch(4), 2}, StocId(9)).status.ok());
    ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(4), {FileId(1)}, Soon(), 100).ok());
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
    ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(5), {FileId(1)}, Soon(), 1).ok());
    EXPECT_EQ(rig.Bytes(kTarget, FileId(1)), "(none)");
    EXPECT_THAT(*rig.bases[1]->List("files"), IsEmpty());
  });
}

TEST_P(CopyTest, M4TwoRangesMayCopyASharedFileAtOnce) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const std::string data = Pattern(kMb + 1, 1);
    rig.Put(kSource, FileId(1), data);
    std::vector<std::unique_ptr<Thread>> threads;
    for (const RangeId range : {kRange, kOther}) {
      threads.push_back(std::make_unique<Thread>(StrCat("copier.", range.value()), [&, range] {
        const auto result = rig.Copy(FileId(1), data.size(), {range, Epoch(3), 5});
        EXPECT_TRUE(result.status.ok()) << result.status;
      }));
    }
    for (auto& t : threads) t->Join();
    for (const RangeId range : {kRange, kOther}) {
      EXPECT_EQ(rig.List(kTarget, range).size(), 1u) << range.value();
    }
    ASSERT_TRUE(rig->DropReferences(kTarget, kRange, Epoch(3), {FileId(1)}, Soon()).ok());
    EXPECT_TRUE(rig.Bytes(kTarget, FileId(1)) == data);
    ASSERT_TRUE(rig->DropReferences(kTarget, kOther, Epoch(3), {FileId(1)}, Soon()).ok());
    EXPECT_THAT(*rig.bases[1]->List("files"), IsEmpty());
  });
}

// --- pieces, and their pace

TEST_P(CopyTest, APieceSaysWhatTheWholeFileIs) {
  Run([&](FabricWorld* world) {
    Rig rig(world, {}, 1);
    const std::string data = Pattern(kMb + 100, 1);
    rig.Put(kSource, FileId(1), data);
    const auto read = [&](const StocFileId& file, uint64_t offset, uint32_t size) {
      return rig.client->Call(rig.at(kSource), 0x112, Body(ReadForCopyRequest{file, offset, size}));
    };
    for (const uint64_t offset : {uint64_t{0}, uint64_t{kMb}, uint64_t{2 * kMb}}) {
      const auto [outcome, body] = read(FileId(1), offset, kMaxCopyPieceBytes);
      ASSERT_EQ(outcome, Outcome::kOk) << offset;
      ReadForCopyReply reply;
      ASSERT_TRUE(ParseBody(body, &reply));
      EXPECT_EQ(reply.data_size, data.size());
      EXPECT_EQ(reply.data_crc, Crc32c(data));
      EXPECT_TRUE(reply.bytes == (offset < data.size() ? data.substr(offset, kMb) : "")) << offset;
    }
    EXPECT_EQ(read(FileId(2), 0, 1).first, Outcome::kNotFound);
    ASSERT_TRUE(rig->AppendFile({kSource}, FileId(3), kWriter, 0, true, "manifest", Soon()).ok());
    EXPECT_EQ(read(FileId(3), 0, 1).first, Outcome::kInvalidArgument);
    EXPECT_NE(read(FileId(1), 0, kMaxCopyPieceBytes + 1).first, Outcome::kOk) << "malformed";
    EXPECT_EQ(rig.Count(kSource, "malformed_requests"), 1u);
  });
}

// 9 MB at 4 MB/s, of which 1 MB passes at once: for each StoC, whatever the others have.
TEST_P(CopyTest, CopiesKeepToTheBandwidthOfEachStoc) {
  Run([&](FabricWorld* world) {
    constexpr uint64_t kBandwidth = 4 * kMb;
    Rig rig(world, WithBandwidth(kBandwidth));
    for (uint64_t n = 1; n <= 3; ++n) rig.Put(kSource, FileId(n), Pattern(3 * kMb, n));
    const auto seconds = [&](const std::vector<std::pair<uint64_t, StocId>>& copies) {
      const Nanos begin = Now();
      std::vector<std::unique_ptr<Thread>> threads;
      for (const auto& [n, target] : copies) {
        threads.push_back(std::make_unique<Thread>(StrCat("copier.", n), [&, n = n, target = target] {
          const auto result = rig.Copy(FileId(n), 3 * kMb, kRebuild, kSource, target, Now() + 60 * kSecond);
          EXPECT_TRUE(result.status.ok()) << result.status;
        }));
      }
      for (auto& t : threads) t->Join();
      return static_cast<double>(Now() - begin) / kSecond;
    };
    // One target and one source: both give 4 MB/s, so 3 MB take (3 - 1) / 4 s.
    const double one = seconds({{1, kTarget}});
    EXPECT_GE(one, 0.45);
    EXPECT_LT(one, 1.5 * static_cast<double>(world->patience()));
    SleepFor(kSecond);
    // Two targets of one source: the source's bandwidth bounds the sum, (6 - 1) / 4 s.
    const double two = seconds({{2, kTarget}, {2, kThird}});
    EXPECT_GE(two, 1.2);
    EXPECT_LT(two, 3 * static_cast<double>(world->patience()));
    SleepFor(kSecond);
    // As a target it takes from the same bucket as it reads from for others: 2 to 3, and 1 to 2.
    rig.Put(kTarget, FileId(4), Pattern(3 * kMb, 4));
    const Nanos begin = Now();
    Thread reader("copier.4", [&] {
      EXPECT_TRUE(rig.Copy(FileId(4), 3 * kMb, kRebuild, kTarget, kThird, Now() + 60 * kSecond).status.ok());
    });
    EXPECT_TRUE(rig.Copy(FileId(3), 3 * kMb, kRebuild, kSource, kTarget, Now() + 60 * kSecond).status.ok());
    reader.Join();
    EXPECT_GE(static_cast<double>(Now() - begin) / kSecond, 1.2);
  });
}

// A source with one storage thread, whose bandwidth for copies is used up for seconds to come: reads of
// requests do not wait for it.
TEST_P(CopyTest, ReadsOfRequestsDoNotWaitForTheBandwidthOfCopies) {
  Run([&](FabricWorld* world) {
    TestStocOptions options = WithBandwidth(kMb);
    options.server.storage_threads = 1;
    Rig rig(world, options);
    rig.Put(kSource, FileId(1), Pattern(4 * kMb, 1));
    rig.Put(kSource, FileId(2), "a block");
    Thread copier("copier", [&] {
      const auto result = rig.Copy(FileId(1), 4 * kMb, kRebuild, kSource, kTarget, Now() + 60 * kSecond);
      EXPECT_TRUE(result.status.ok()) << result.status;
    });
    while (rig.at(kSource).metrics.counter("nova_stoc_requests_total{type=\"read_for_copy\"}")->value() == 0)
      SleepFor(kMillisecond);
    SleepFor(100 * kMillisecond);
    Nanos longest = 0;
    for (int i = 0; i < 20 && rig.Count(kTarget, "copies") == 0; ++i) {
      const Nanos begin = Now();
      EXPECT_EQ(rig.Bytes(kSource, FileId(2)), "a block");
      longest = std::max(longest, Now() - begin);
      SleepFor(50 * kMillisecond);
    }
    EXPECT_GT(longest, 0) << "there was a read while the copy was under way";
    EXPECT_LT(longest, 300 * kMillisecond * world->patience());
    copier.Join();
    EXPECT_EQ(rig.Count(kTarget, "copies"), 1u);
  });
}

TEST_P(CopyTest, MorePiecesThanTheBandwidthMovesSoonAreBusyAndAskedForAgain) {
  Run([&](FabricWorld* world) {
    Rig rig(world, WithBandwidth(kMb));
    rig.Put(kSource, FileId(1), Pattern(kMb, 1));
    Mutex mu;
    std::map<Outcome, int> outcomes;
    std::vector<std::unique_ptr<Thread>> threads;
    for (int i = 0; i < 6; ++i) {
      threads.push_back(std::make_unique<Thread>(StrCat("reader.", i), [&] {
        const Outcome o =
            rig.client->Call(rig.at(kSource), 0x112, Body(ReadForCopyRequest{FileId(1), 0, kMb})).first;
        MutexLock lock(&mu);
        ++outcomes[o];
      }));
    }
    for (auto& t : threads) t->Join();
    {
      MutexLock lock(&mu);
      // One at once, one that has its turn and waits for its time, two seconds' worth behind it.
      EXPECT_EQ(outcomes[Outcome::kOk] + outcomes[Outcome::kBusy], 6);
      EXPECT_GE(outcomes[Outcome::kBusy], 2);
      EXPECT_GE(outcomes[Outcome::kOk], 3);
    }
    // A copy asks again for as long as it takes.
    std::vector<std::unique_ptr<Thread>> copies;
    for (const StocId target : {kTarget, kThird}) {
      copies.push_back(std::make_unique<Thread>(StrCat("copier.", target.value()), [&, target] {
        const auto result = rig.Copy(FileId(1), kMb, kRebuild, kSource, target, Now() + 60 * kSecond);
        EXPECT_TRUE(result.status.ok()) << result.status;
      }));
    }
    for (auto& t : copies) t->Join();
  });
}

// --- each step, stopped

TEST_P(CopyTest, AnErrorOrALossOfPowerAtEachStepLeavesTheCopyOrNone) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    uint64_t n = 0;
    for (const std::string point : {"stoc.copy_fetched", "stoc.copy_written"}) {
      for (const bool power : {false, true}) {
        SCOPED_TRACE(StrCat(point, power ? ", loss of power" : ", error"));
        const std::string data = Pattern(kMb / 4, ++n);
        rig.Put(kSource, FileId(n), data);
        ASSERT_TRUE(ArmFailPoint(point, 1, [&] {
                      if (power) rig.media[1]->Crash();
                      return absl::DataLossError("failpoint");
                    }).ok());
        EXPECT_TRUE(Fails(rig.Copy(FileId(n), data.size()), absl::IsDataLoss, CopyFault::kTarget));
        EXPECT_EQ(FailPointHits(point), 1u);
        DisarmFailPoints();
        if (power) rig.Crash(kTarget, /*lost_already=*/true);
        const bool there = point == "stoc.copy_written";
        EXPECT_EQ(rig.Bytes(kTarget, FileId(n)) == data, there);
        const auto listed = rig->ListFiles(kTarget, kRange, Epoch(100), FileId(n - 1), Soon());
        ASSERT_TRUE(listed.ok()) << listed.status();
        ASSERT_EQ(listed->size(), there ? 1u : 0u);
        if (there) {
          EXPECT_EQ((*listed)[0].creator, kRebuild);
        }
        EXPECT_TRUE(rig.Copy(FileId(n), data.size()).status.ok()) << "tried again, it is made";
      }
    }
  });
}

}  // namespace
}  // namespace nova
