// The local log: its bytes, what a torn or recycled file gives back, what a failing disk does.
#include "logc/local_log.h"

#include <gtest/gtest.h>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"
#include "tests/base/descriptors.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/manual_executor.h"

namespace nova {
namespace {

bool NothingDone(MemTableId) { return false; }

class LocalLogTest : public ::testing::Test {
 protected:
  void Open(Epoch epoch) {
    LocalLogOptions options;
    options.lanes = 2;
    log_ = NewLocalLog(&disk_, epoch, options);
  }
  Outcome Append(RoundNumber round, SequenceNumber seq, std::string_view key, std::string_view value,
                 bool sync = false, ManualExecutor* on = nullptr) {
    Outcome outcome = Outcome::kInternal;
    const LogEntry entry{MemTableId(round), ValueType::kPut, key, value};
    const LogRecord record{round, seq, 7, seq, sync, {&entry, 1}};
    EXPECT_EQ(log_->Append(on == nullptr ? &first_ : on, record, [&](Outcome o) { outcome = o; }),
              Outcome::kOk);
    return outcome;
  }
  // "key=value@sequence" of what recovery finds, in file order.
  std::vector<std::string> Recovered() {
    const auto records = ReadLocalLogs(&disk_, NothingDone);
    EXPECT_TRUE(records.ok()) << records.status();
    std::vector<std::string> texts;
    for (const RecoveredRecord& r : *records)
      texts.push_back(StrCat(std::string(r.key), "=", std::string(r.value), "@", r.sequence));
    return texts;
  }
  std::string ReadFile(const std::string& path) {
    const auto file = disk_.Open(path, false);
    std::string bytes(*(*file)->Size(), '\0');
    EXPECT_TRUE((*file)->Read(0, bytes.size(), bytes.data()).ok());
    return bytes;
  }

  using Texts = std::vector<std::string>;
  SimDisk medium_;
  std::unique_ptr<Disk> mount_ = medium_.Mount();
  FaultDisk disk_{mount_.get()};
  ManualExecutor first_{0}, second_{1};
  std::unique_ptr<RangeLog> log_;
};

TEST_F(LocalLogTest, HeaderBytesAreAsDocumented) {
  Open(Epoch(3));
  ASSERT_EQ(Append(1, 1, "k", "v"), Outcome::kOk);
  const std::string bytes = ReadFile("log-3-1");
  ASSERT_EQ(bytes.substr(0, 8), "novalog1");
  EXPECT_EQ(DecodeFixed64(bytes.data() + 24), 3u) << "the epoch";
  EXPECT_EQ(DecodeFixed32(bytes.data() + 32), ExtendCrc32c(0, bytes.data(), 32));
  EXPECT_EQ((Uuid{DecodeFixed64(bytes.data() + 36), DecodeFixed64(bytes.data() + 44)}), disk_.Boot());
  EXPECT_EQ(bytes.substr(52, 12), std::string(12, '\0'));
  const Uuid uuid{DecodeFixed64(bytes.data() + 8), DecodeFixed64(bytes.data() + 16)};
  const std::string_view records = std::string_view(bytes).substr(64);
  const size_t length = PlausibleLogRecord(records, 1);
  ASSERT_GT(length, 0u) << "records follow at byte 64";
  EXPECT_TRUE(CheckLogRecord(uuid, records, length));
}

TEST_F(LocalLogTest, EachLaneAndRoundHasAFileAndAllAreRecovered) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1"), Outcome::kOk);
  ASSERT_EQ(Append(1, 2, "b", "2", false, &second_), Outcome::kOk);
  ASSERT_EQ(Append(5, 5, "c", "3"), Outcome::kOk);
  EXPECT_EQ(Recovered(), (Texts{"a=1@1", "b=2@2", "c=3@5"}));
  log_->DeleteRound(1);
  ASSERT_TRUE(DeleteLocalLogs(&disk_, Epoch(2)).ok());
  EXPECT_EQ(Recovered(), Texts{});
}

// H4: a torn record ends its log, at whatever byte.
TEST_F(LocalLogTest, ATornTailIsCutOff) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "first"), Outcome::kOk);
  const size_t first_end = ReadFile("log-1-1").size();
  ASSERT_EQ(Append(1, 2, "b", "second"), Outcome::kOk);
  const std::string whole = ReadFile("log-1-1");
  for (size_t size = first_end; size < whole.size(); ++size) {
    SimDisk medium;
    const auto disk = medium.Mount();
    ASSERT_TRUE((*disk->Create("log-1-1"))->Write(0, whole.substr(0, size)).ok());
    const auto records = ReadLocalLogs(disk.get(), NothingDone);
    ASSERT_TRUE(records.ok());
    ASSERT_EQ(records->size(), 1u) << size;
  }
}

// H5: what an older log left in a recycled file is no record of the new one, though it starts where a record
// would.
TEST_F(LocalLogTest, ARecycledFileGivesBackOnlyItsOwnRecords) {
  Open(Epoch(1));
  for (SequenceNumber s = 1; s <= 20; ++s) ASSERT_EQ(Append(1, s, "old", "x"), Outcome::kOk);
  const size_t size = ReadFile("log-1-1").size();
  log_->DeleteRound(1);
  ASSERT_EQ(Append(21, 21, "new", "x"), Outcome::kOk);
  EXPECT_EQ(ReadFile("log-1-2").size(), size) << "not recycled: this test shows nothing";
  EXPECT_EQ(Recovered(), Texts{"new=x@21"});
}

// A loss of power may take the header of a recycled file and leave records of its new life: its former ones
// have a hole then, and say that they were synced. They are in tables (M3): no damage.
TEST_F(LocalLogTest, M3ARecycledFileWhoseNewHeaderIsLostIsNotDamaged) {
  Open(Epoch(1));
  const std::string value(300, 'v');
  for (SequenceNumber s = 1; s <= 10; ++s) ASSERT_EQ(Append(1, s, "old", value, true), Outcome::kOk);
  const std::string before = ReadFile("log-1-1");
  log_->DeleteRound(1);
  for (SequenceNumber s = 21; s <= 26; ++s) ASSERT_EQ(Append(21, s, "new", value), Outcome::kOk);
  const std::string after = ReadFile("log-1-2");
  ASSERT_EQ(after.size(), before.size()) << "not recycled: this test shows nothing";
  SimDisk medium;
  const auto disk = medium.Mount();
  ASSERT_TRUE((*disk->Create("log-1-2"))
                  ->Write(0, before.substr(0, 512) + after.substr(512, 512) + before.substr(1024))
                  .ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadLocalLogs(disk.get(), NothingDone).status()));
  EXPECT_TRUE(ReadLocalLogs(disk.get(), [](MemTableId m) { return m <= MemTableId(1); }).ok());
}

// A header is written whole or not at all; one that is neither, and no zeros, is damage, and with it all
// records are out of reach.
TEST_F(LocalLogTest, ADamagedHeaderIsLoudAndOneThatNeverWasIsNot) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "first", true), Outcome::kOk);
  const std::string whole = ReadFile("log-1-1");
  const auto read = [](const std::string& bytes) {
    SimDisk medium;
    const auto disk = medium.Mount();
    EXPECT_TRUE((*disk->Create("log-1-1"))->Write(0, bytes).ok());
    return ReadLocalLogs(disk.get(), NothingDone);
  };
  for (size_t at = 0; at < 36; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    const Status s = read(damaged).status();
    ASSERT_TRUE(absl::IsDataLoss(s)) << at;
    ASSERT_NE(s.message().find("log-1-1"), std::string::npos) << s;
  }
  for (const std::string& never :
       {std::string(), std::string(40, '\0'), std::string(4096, '\0'), whole.substr(0, 63)}) {
    const auto records = read(never);
    ASSERT_TRUE(records.ok()) << records.status();
    EXPECT_TRUE(records->empty());
  }
}

TEST_F(LocalLogTest, SyncedRecordsSurviveALossOfPowerAndOthersMayNot) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1", true), Outcome::kOk);
  ASSERT_EQ(Append(1, 2, "b", "2", false), Outcome::kOk);
  medium_.Crash();
  mount_ = medium_.Mount();
  const auto records = ReadLocalLogs(mount_.get(), NothingDone);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->records[0].key, "a");
}

// What is durable is a prefix of what was acknowledged, whichever lane it came through.
TEST_F(LocalLogTest, ASyncedRecordMakesEarlierOnesOfEveryLaneAndRoundDurable) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1", false), Outcome::kOk);
  ASSERT_EQ(Append(1, 2, "b", "2", false, &second_), Outcome::kOk);
  ASSERT_EQ(Append(3, 3, "c", "3", true), Outcome::kOk);
  ASSERT_EQ(Append(3, 4, "d", "4", false), Outcome::kOk);
  medium_.Crash();
  mount_ = medium_.Mount();
  const auto records = ReadLocalLogs(mount_.get(), NothingDone);
  ASSERT_TRUE(records.ok());
  Texts keys;
  for (const RecoveredRecord& r : *records) keys.emplace_back(r.key);
  EXPECT_EQ(keys, (Texts{"a", "b", "c"}));
}

TEST_F(LocalLogTest, RecordsThatWaitAreSyncedTogether) {
  constexpr int kThreads = 8, kEach = 10;
  LocalLogOptions options;
  options.lanes = kThreads;
  log_ = NewLocalLog(&disk_, Epoch(1), options);
  disk_.Add({"log-", DiskOp::kSync, FaultAction::kDelay, 1, UINT64_MAX, 5 * kMillisecond});
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(std::make_unique<Thread>("writer", [this, t] {
      ManualExecutor lane(static_cast<size_t>(t));
      for (int i = 0; i < kEach; ++i) {
        const auto sequence = static_cast<SequenceNumber>(t * kEach + i + 1);
        EXPECT_EQ(Append(1, sequence, StrCat(t, "-", i), "x", true, &lane), Outcome::kOk);
      }
    }));
  }
  for (auto& t : threads) t->Join();
  EXPECT_LE(disk_.faults(), kThreads * kEach / 2) << "syncs for " << kThreads * kEach << " records";
  disk_.Clear();
  EXPECT_EQ(Recovered().size(), static_cast<size_t>(kThreads * kEach));
}

TEST_F(LocalLogTest, AfterAFailedSyncTheNextRecordGoesToAnotherFile) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1", true), Outcome::kOk);
  disk_.Add({"log-1-1", DiskOp::kSync});
  EXPECT_EQ(Append(1, 2, "b", "2", true), Outcome::kUnknown);
  ASSERT_EQ(Append(1, 3, "c", "3", true), Outcome::kOk)
      << "a file whose sync failed is not synced again (S1)";
  medium_.Crash();
  mount_ = medium_.Mount();
  const auto records = ReadLocalLogs(mount_.get(), NothingDone);
  ASSERT_TRUE(records.ok());
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ(records->records[0].key, "a");
  EXPECT_EQ(records->records[1].key, "c");
}

// Of two syncs of a file the kernel tells only one of an error. So the second waits for the first, and fails
// with it (S1).
TEST_F(LocalLogTest, ASyncBesideOneThatFailsIsNoSuccess) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1"), Outcome::kOk);
  // The lane gives up its file, and syncs what was acknowledged there.
  disk_.Add({"log-1-1", DiskOp::kWrite});
  disk_.Add({"log-1-1", DiskOp::kSync, FaultAction::kEio, 1, 1, 300 * kMillisecond});
  Thread lane("lane", [this] {
    ManualExecutor same_lane(0);
    EXPECT_EQ(Append(1, 2, "b", "2", false, &same_lane), Outcome::kUnavailable);
  });
  for (const Nanos until = Now() + 30 * kSecond; disk_.faults() < 2 && Now() < until;) SleepFor(kMillisecond);
  ASSERT_EQ(disk_.faults(), 2u) << "the lane does not sync the file that it leaves";
  const Status s = log_->Sync();
  EXPECT_FALSE(s.ok()) << "the other sync had the error, and the record may be lost";
}

// S1: a file whose write failed gets nothing more; the lane goes on in another, and nothing of the failed
// record comes back.
TEST_F(LocalLogTest, AFailedWriteIsNotInTheLogAndLaterOnesAre) {
  Open(Epoch(1));
  ASSERT_EQ(Append(1, 1, "a", "1"), Outcome::kOk);
  disk_.Add({"log-1-1", DiskOp::kWrite, FaultAction::kTorn});
  EXPECT_EQ(Append(1, 2, "b", "2"), Outcome::kUnavailable);
  disk_.Clear();
  disk_.Add({"log-1-2", DiskOp::kWrite, FaultAction::kNoSpace});
  EXPECT_EQ(Append(1, 3, "c", "3"), Outcome::kNoSpace);
  disk_.Clear();
  ASSERT_EQ(Append(1, 4, "d", "4"), Outcome::kOk);
  EXPECT_EQ(Recovered(), (Texts{"a=1@1", "d=4@4"}));
}

// Rounds times lanes files are more than a process may have descriptors; and no flush, which would free them,
// could open a table then.
TEST(LocalLogFilesTest, OpenFilesAreBoundedAndNoneIsClosedWithAnythingToSync) {
  const Directory directory;
  const auto disk = OpenPosixDisk(directory.path());
  ASSERT_TRUE(disk.ok()) << disk.status();
  FaultDisk counted(disk->get());
  LocalLogOptions options;
  options.lanes = 2;
  options.most_open_files = 6;
  const auto log = NewLocalLog(&counted, Epoch(1), options);
  ManualExecutor lanes[] = {ManualExecutor(0), ManualExecutor(1)};
  const int before = OpenDescriptors();
  const auto append = [&](uint64_t n, bool sync) {
    Outcome outcome = Outcome::kInternal;
    const LogEntry entry{MemTableId(n), ValueType::kPut, "key", "value"};
    const LogRecord record{n, n, 7, n, sync, {&entry, 1}};
    EXPECT_EQ(log->Append(&lanes[n % 2], record, [&](Outcome o) { outcome = o; }), Outcome::kOk);
    return outcome;
  };
  for (uint64_t n = 1; n <= 40; ++n) {
    ASSERT_EQ(append(n, false), Outcome::kOk) << n;
    ASSERT_LE(OpenDescriptors(), before + 6) << n;
  }
  ASSERT_EQ(append(41, true), Outcome::kOk);
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(ReadLocalLogs(disk->get(), NothingDone)->size(), 41u);
  // What could not be synced when its file was to be closed is told of by the next sync.
  counted.Add({.op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
  for (uint64_t n = 42; n <= 60; ++n) ASSERT_EQ(append(n, false), Outcome::kOk) << n;
  EXPECT_EQ(counted.faults(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(log->Sync()));
  EXPECT_LE(OpenDescriptors(), before + 6);
}

TEST_F(LocalLogTest, AFencedLogTakesNothing) {
  Open(Epoch(1));
  log_->Fence();
  EXPECT_EQ(Append(1, 1, "a", "1"), Outcome::kNotOwner);
  EXPECT_EQ(Recovered(), Texts{});
}

}  // namespace
}  // namespace nova
