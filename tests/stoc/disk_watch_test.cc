// What a StoC sees of its disk, in virtual time.
#include "stoc/disk_watch.h"

#include <gtest/gtest.h>

#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "common/base/simulation.h"
#include "common/base/thread.h"
#include "stoc/disk_probe.h"

namespace nova {
namespace {

constexpr DiskWatchOptions kOptions{
    .full_below_bytes = 1000, .hung_after_ns = 10 * kSecond, .well_after_ns = 5 * kSecond};

// A disk that obeys, a watch before it, and a file.
struct Rig {
  explicit Rig(Nanos latency_ns = 0) : medium({.capacity_bytes = 1 << 20, .latency_ns = latency_ns}) {
    file = *watch.Create("f");
    EXPECT_TRUE(file->Write(0, "0123456789").ok());
  }
  void Fail(DiskOp op, FaultAction action, uint64_t count = 1, Nanos delay_ns = 0) {
    faults.Add({.op = op, .action = action, .count = count, .delay_ns = delay_ns});
  }
  Status Read() {
    char out[4];
    return file->Read(0, sizeof(out), out);
  }
  SimDisk medium;
  std::unique_ptr<Disk> base = medium.Mount();
  FaultDisk faults{base.get()};
  DiskWatch watch{&faults, kOptions};
  std::unique_ptr<DiskFile> file;
};

void InTime(const std::function<void(Rig*)>& body, Nanos latency_ns = 0) {
  Simulation sim(1);
  sim.Run([&] {
    Rig rig(latency_ns);
    body(&rig);
  });
}

TEST(DiskWatchTest, NothingAilsADiskThatDoesWhatItIsTold) {
  InTime([](Rig* rig) {
    EXPECT_TRUE(rig->Read().ok() && rig->file->Sync().ok());
    EXPECT_TRUE(absl::IsNotFound(rig->watch.Open("g", false).status()));
    EXPECT_TRUE(absl::IsAlreadyExists(rig->watch.Create("f").status()));
    char past[100];
    EXPECT_TRUE(absl::IsOutOfRange(rig->file->Read(0, 100, past)));
    const DiskReport report = rig->watch.Report();
    EXPECT_EQ(report.faults, 0u);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
    EXPECT_EQ(rig->watch.OldestNs(), 0);
  });
}

// Each operation may be the one that tells.
TEST(DiskWatchTest, N5OneErrorIsAFaultForGood) {
  for (const DiskOp op :
       {DiskOp::kCreate, DiskOp::kOpen, DiskOp::kWrite, DiskOp::kRead, DiskOp::kSync, DiskOp::kDelete,
        DiskOp::kRename, DiskOp::kSyncDirectory, DiskOp::kList, DiskOp::kFreeBytes}) {
    for (const auto& [action, state] : {std::pair{FaultAction::kEio, DiskState::kFailing},
                                        std::pair{FaultAction::kReadOnly, DiskState::kReadOnly}}) {
      InTime([op, action = action, state = state](Rig* rig) {
        rig->Fail(op, action);
        for (int i = 0; i < 2; ++i) {  // the second time all goes well
          rig->watch.Create(StrCat("new", i)).status().IgnoreError();
          rig->watch.Open("f", true).status().IgnoreError();
          rig->file->Write(0, "x").IgnoreError();
          rig->Read().IgnoreError();
          rig->file->Sync().IgnoreError();
          rig->watch.Delete(StrCat("new", i)).IgnoreError();
          rig->watch.Rename("f", "f").IgnoreError();
          rig->watch.SyncDirectory("").IgnoreError();
          rig->watch.List("").status().IgnoreError();
          rig->watch.FreeBytes().status().IgnoreError();
        }
        EXPECT_EQ(rig->watch.Report().fault, state) << static_cast<int>(op);
        EXPECT_EQ(rig->watch.Report().faults, 1u) << static_cast<int>(op);
        EXPECT_TRUE(rig->watch.HasFault());
        SleepFor(3600 * kSecond);
        EXPECT_EQ(rig->watch.State(), state);
      });
    }
  }
}

TEST(DiskWatchTest, N5ForgivenIsWhatHappenedAndNotWhatHappensLater) {
  InTime([](Rig* rig) {
    rig->Fail(DiskOp::kRead, FaultAction::kReadOnly);
    rig->Fail(DiskOp::kSync, FaultAction::kEio, 2);
    rig->Read().IgnoreError();
    EXPECT_EQ(rig->watch.State(), DiskState::kReadOnly);
    rig->file->Sync().IgnoreError();
    EXPECT_EQ(rig->watch.State(), DiskState::kFailing) << "the worst counts";
    rig->watch.Forgive(1);
    EXPECT_EQ(rig->watch.State(), DiskState::kFailing) << "there were two";
    rig->watch.Forgive(2);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
    rig->file->Sync().IgnoreError();
    EXPECT_EQ(rig->watch.State(), DiskState::kFailing);
    rig->watch.Forgive(2);
    EXPECT_EQ(rig->watch.State(), DiskState::kFailing);
    EXPECT_EQ(rig->watch.Report().faults, 3u);
  });
}

TEST(DiskWatchTest, N5ItHangsWhileAnOperationDoesNotEndAndForAWhileAfter) {
  InTime([](Rig* rig) {
    rig->Fail(DiskOp::kRead, FaultAction::kDelay, 2, 30 * kSecond);
    const Nanos begun = Now();
    Thread reader("reader", [rig] {
      rig->Read().IgnoreError();
      SleepFor(4 * kSecond);  // a break that is shorter than `well_after`
      rig->Read().IgnoreError();
    });
    const auto at = [begun](Nanos after_ns) { SleepUntil(begun + after_ns); };
    at(10 * kSecond - 1);
    EXPECT_EQ(rig->watch.Report().hung_ns, 0);
    EXPECT_TRUE(rig->file->Sync().ok()) << "others are not held up by the watch";
    at(10 * kSecond);
    EXPECT_EQ(rig->watch.OldestNs(), 10 * kSecond);
    EXPECT_EQ(rig->watch.Report().hung_ns, 10 * kSecond);
    EXPECT_EQ(rig->watch.State(), DiskState::kHung);
    at(33 * kSecond);
    EXPECT_EQ(rig->watch.OldestNs(), 0);
    EXPECT_EQ(rig->watch.Report().hung_ns, 33 * kSecond);
    at(50 * kSecond);
    EXPECT_EQ(rig->watch.Report().hung_ns, 50 * kSecond) << "it goes on";
    reader.Join();
    at(64 * kSecond + 5 * kSecond - 1);
    EXPECT_GT(rig->watch.Report().hung_ns, 0);
    at(64 * kSecond + 5 * kSecond);
    EXPECT_EQ(rig->watch.Report().hung_ns, 0);
    // Another time it begins anew; also where nobody looked meanwhile.
    rig->faults.Clear();
    rig->Fail(DiskOp::kSync, FaultAction::kDelay, 1, 12 * kSecond);
    EXPECT_TRUE(rig->file->Sync().ok());
    EXPECT_EQ(rig->watch.Report().hung_ns, 12 * kSecond);
  });
}

TEST(DiskWatchTest, N5AnOperationThatHasNotEndedCountsAsLong) {
  InTime(
      [](Rig* rig) {
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(rig->Read().ok() && rig->file->Sync().ok());
        EXPECT_EQ(rig->watch.Report().read_ns, 2 * kMillisecond);
        EXPECT_EQ(rig->watch.Report().sync_ns, 2 * kMillisecond);
        rig->Fail(DiskOp::kSync, FaultAction::kDelay, 1, 8 * kSecond);
        Thread syncer("syncer", [rig] { rig->file->Sync().IgnoreError(); });
        SleepFor(4 * kSecond);
        EXPECT_GT(rig->watch.Report().sync_ns, 2 * kSecond);
        EXPECT_EQ(rig->watch.Report().read_ns, 2 * kMillisecond);
        syncer.Join();
        // The last seconds count, and no more.
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(rig->file->Sync().ok());
        EXPECT_GT(rig->watch.Report().sync_ns, 50 * kMillisecond);
        for (int i = 0; i < 30; ++i) {
          SleepFor(kSecond);
          EXPECT_TRUE(rig->file->Sync().ok());
        }
        EXPECT_LT(rig->watch.Report().sync_ns, 3 * kMillisecond);
        SleepFor(300 * kSecond);
        EXPECT_EQ(rig->watch.Report().sync_ns, 0) << "too long ago to say anything";
      },
      2 * kMillisecond);
}

TEST(DiskWatchTest, S2ItIsFullUntilThereIsMoreRoomThanNewFilesNeed) {
  InTime([](Rig* rig) {
    EXPECT_EQ(*rig->watch.FreeBytes(), (1u << 20) - 10);
    EXPECT_EQ(rig->watch.FreeBytesKnown(), (1u << 20) - 10);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
    const auto leave = [rig](uint64_t free) {
      rig->watch.Delete("ballast").IgnoreError();
      const auto ballast = rig->base->Create("ballast");
      EXPECT_TRUE((*ballast)->Write(0, std::string((1 << 20) - 10 - free, 'b')).ok());
      EXPECT_EQ(*rig->watch.FreeBytes(), free);
    };
    leave(1000);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
    leave(999);
    EXPECT_EQ(rig->watch.State(), DiskState::kFull);
    leave(1249);
    EXPECT_EQ(rig->watch.State(), DiskState::kFull);
    leave(1250);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
    // An operation that finds it full, whatever is said of free bytes: as with a quota.
    rig->Fail(DiskOp::kWrite, FaultAction::kNoSpace);
    EXPECT_TRUE(absl::IsResourceExhausted(rig->file->Write(0, "x")));
    EXPECT_EQ(rig->watch.State(), DiskState::kFull);
    EXPECT_EQ(rig->watch.Report().faults, 0u) << "a full disk is no fault";
    SleepFor(11 * kSecond);
    EXPECT_EQ(rig->watch.State(), DiskState::kOk);
  });
}

// Nobody uses the disk: what ails it is seen all the same, and that it is well again.
TEST(DiskWatchTest, TheProbeSeesWhatAnIdleDiskHas) {
  for (const auto& [op, action, state] :
       {std::tuple{DiskOp::kWrite, FaultAction::kReadOnly, DiskState::kReadOnly},
        std::tuple{DiskOp::kSync, FaultAction::kEio, DiskState::kFailing},
        std::tuple{DiskOp::kFreeBytes, FaultAction::kNoSpace, DiskState::kFull}}) {
    InTime([op = op, action = action, state = state](Rig* rig) {
      DiskProbe probe(&rig->watch, 5 * kSecond);
      SleepFor(20 * kSecond);
      EXPECT_EQ(rig->watch.State(), DiskState::kOk);
      EXPECT_GT(rig->watch.LastSyncedNs(), 0);
      rig->Fail(op, action, UINT64_MAX);
      SleepFor(7 * kSecond);
      EXPECT_EQ(rig->watch.State(), state);
      rig->faults.Clear();
      SleepFor(20 * kSecond);
      EXPECT_EQ(rig->watch.State(), IsDiskFault(state) ? state : DiskState::kOk);
    });
  }
}

// Where others have the disk sync it leaves that to them.
TEST(DiskWatchTest, TheProbeSyncsNothingOnABusyDisk) {
  InTime([](Rig* rig) {
    DiskProbe probe(&rig->watch, 5 * kSecond);
    SleepFor(kSecond / 2);
    rig->Fail(DiskOp::kWrite, FaultAction::kEio);
    for (int i = 0; i < 30; ++i) {
      SleepFor(kSecond);
      EXPECT_TRUE(rig->file->Sync().ok());
    }
    EXPECT_EQ(rig->faults.faults(), 0u);
    SleepFor(7 * kSecond);
    EXPECT_EQ(rig->faults.faults(), 1u);
    EXPECT_EQ(rig->watch.State(), DiskState::kFailing);
    SleepFor(20 * kSecond);
    EXPECT_LT(Now() - rig->watch.LastSyncedNs(), 7 * kSecond) << "it gave up after an error";
  });
}

}  // namespace
}  // namespace nova
