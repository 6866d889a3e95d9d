// An application that goes on while its disk refuses everything: what that costs, and how soon it is over
// when the disk is well again.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <map>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/base/descriptors.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

namespace fs = std::filesystem;
using Model = std::map<std::string, std::string>;

// How long the disk is ill: seconds, from the environment for the long run.
Nanos IllFor() {
  const char* seconds = getenv("NOVA_REFUSAL_SECONDS");
  return (seconds == nullptr ? 3 : atoi(seconds)) * kSecond;
}

size_t CountIn(const std::string& directory) {
  size_t n = 0;
  for (const auto& entry : fs::directory_iterator(directory)) n += !entry.path().empty();
  return n;
}

std::atomic<int> lines{0};
void CountLine(LogSeverity, const char*, int, std::string_view text) {
  lines.fetch_add(1);
  fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

std::string KeyOf(int thread, uint64_t i) { return StrCat("key", thread, "/", i); }
// Most are small, some are larger than what an arena cuts from its chunks.
std::string ValueOf(uint64_t i) {
  return std::string(i % 50 == 7 ? 100'000 : 100, static_cast<char>('a' + i % 26));
}

struct Illness {
  const char* name;
  FaultAction action;
  std::vector<DiskOp> ops;
};

class RefusalTest : public testing::TestWithParam<std::tuple<Illness, DbLog>> {
 protected:
  static constexpr int kThreads = 4;

  static void SetUpTestSuite() { SetLogOutput(CountLine); }

  DbOptions Options() {
    DbOptions o;
    o.log = std::get<1>(GetParam());
    o.memory_limit_bytes = 64 << 20;
    o.max_open_files = 4;
    o.disk = &disk_;
    return o;
  }
  void FallIll() {
    const Illness& illness = std::get<0>(GetParam());
    for (const DiskOp op : illness.ops) disk_.Add({"", op, illness.action});
  }
  // What each thread puts until `until`, again and again where it is refused.
  void PutUntil(Db* db, Nanos until) {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.push_back(std::make_unique<Thread>(StrCat("writer.", t), [this, db, t, until] {
        while (Now() < until) {
          const uint64_t i = next_[t];
          const Status s = db->Put(KeyOf(t, i), ValueOf(i), {.sync = t == 0});
          taken_ += s.ok();
          refused_ += !s.ok();
          if (s.ok()) ++next_[t];
          if (!s.ok() && IllFor() > 60 * kSecond) SleepFor(kMillisecond);  // who retries for so long pauses
        }
      }));
    }
  }
  // False: an acknowledged write is missing, or has another value.
  bool HasAll(Db* db) {
    for (int t = 0; t < kThreads; ++t) {
      for (uint64_t i = 0; i < next_[t]; ++i) {
        std::string value;
        const Status s = db->Get(KeyOf(t, i), &value);
        EXPECT_TRUE(s.ok()) << KeyOf(t, i) << ": " << s;
        if (!s.ok() || value != ValueOf(i)) return false;
      }
    }
    return true;
  }

  Directory dir_;
  std::unique_ptr<Disk> posix_ = *OpenPosixDisk(dir_.path());
  FaultDisk disk_{posix_.get()};
  std::array<uint64_t, kThreads> next_{};
  std::atomic<uint64_t> taken_{0}, refused_{0};
};

TEST_P(RefusalTest, CostsNeitherFilesNorMemoryNorLinesAndEndsWithinASecond) {
  auto db = Db::Open("", Options());
  ASSERT_TRUE(db.ok()) << db.status();
  PutUntil(db->get(), Now() + 300 * kMillisecond);
  ASSERT_GT(taken_, 0u);
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  const auto files_beside_tables = [&] { return CountIn(dir_.path()) - (*db)->stats().tables; };
  const size_t files = files_beside_tables();
  const int descriptors = OpenDescriptors();
  lines = 0;
  FallIll();
  const Nanos ill = Now();
  PutUntil(db->get(), ill + IllFor());
  // Without a log it begins when the memory is full.
  while (refused_ == 0 && Now() < ill + 60 * kSecond) PutUntil(db->get(), Now() + kSecond);
  EXPECT_GT(refused_, 0u);
  const Nanos ill_for = Now() - ill;
  const int rounds = 8, lanes = kThreads + 1;
  EXPECT_LE(OpenDescriptors(), descriptors + rounds * lanes + 16);
  EXPECT_LE(files_beside_tables(), files + rounds * lanes + 32);
  EXPECT_LE((*db)->memory_use().total(), size_t{64} << 20);
  EXPECT_LE(lines, 5 * (ill_for / kSecond / 5 + 2)) << "log lines";
  disk_.Clear();
  const Nanos well = Now();
  Status s;
  do {
    s = (*db)->Put(KeyOf(1, next_[1]), ValueOf(next_[1]));
  } while (!s.ok() && Now() < well + 30 * kSecond);
  ASSERT_TRUE(s.ok()) << s;
  ++next_[1];
  EXPECT_LE(Now() - well, kSecond);
  EXPECT_TRUE(HasAll(db->get()));
  // And all is as it was: what was kept for the time being goes.
  ASSERT_TRUE((*db)->Flush().ok());
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  PutUntil(db->get(), Now() + 100 * kMillisecond);
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  EXPECT_LE(OpenDescriptors(), descriptors + 8);
  EXPECT_LE(files_beside_tables(), files + 32) << "the log keeps 16 for reuse";
  ASSERT_TRUE((*db)->Close().ok());
  db->reset();
  posix_.reset();  // and its lock
  DbOptions options = Options();
  options.disk = nullptr;
  db = Db::Open(dir_.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  EXPECT_TRUE(HasAll(db->get()));
}

const Illness kIllnesses[] = {
    {"Full", FaultAction::kNoSpace, {DiskOp::kWrite}},
    {"FullOfFiles", FaultAction::kNoSpace, {DiskOp::kCreate}},
    {"Eio", FaultAction::kEio, {DiskOp::kWrite, DiskOp::kSync}},
    {"EioOfSyncs", FaultAction::kEio, {DiskOp::kSync}},
    {"EioOfNames", FaultAction::kEio, {DiskOp::kRename, DiskOp::kDelete, DiskOp::kSyncDirectory}},
    {"ReadOnly", FaultAction::kReadOnly, {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kDelete, DiskOp::kRename}},
};
INSTANTIATE_TEST_SUITE_P(Disks, RefusalTest,
                         testing::Combine(testing::ValuesIn(kIllnesses),
                                          testing::Values(DbLog::kPersistent, DbLog::kNone)),
                         [](const auto& p) {
                           return StrCat(std::get<0>(p.param).name,
                                         std::get<1>(p.param) == DbLog::kNone ? "WithoutLog" : "");
                         });

// --- waiting for work that the disk refuses

class WaitTest : public testing::TestWithParam<DbLog> {};
INSTANTIATE_TEST_SUITE_P(Logs, WaitTest, testing::Values(DbLog::kPersistent, DbLog::kNone),
                         [](const auto& p) { return p.param == DbLog::kNone ? "None" : "Persistent"; });

TEST_P(WaitTest, EndsWithWhatAilsTheDiskAndTheWorkIsDoneLater) {
  Directory dir;
  auto posix = *OpenPosixDisk(dir / "db");
  FaultDisk disk(posix.get());
  DbOptions options;
  options.log = GetParam();
  options.memtable_bytes = 8 << 20;
  options.disk = &disk;
  auto db = Db::Open("", options);
  ASSERT_TRUE(db.ok()) << db.status();
  disk.Add({".sst", DiskOp::kWrite, FaultAction::kNoSpace});
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE((*db)->Put(KeyOf(0, i), "x").ok());
  const auto says_why = [](const Status& s, Nanos begin) {
    EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
    EXPECT_NE(s.message().find(".sst"), std::string::npos) << s;
    EXPECT_LT(Now() - begin, 10 * kSecond);
  };
  says_why((*db)->Flush(), Now());
  says_why((*db)->Checkpoint(dir / "copy"), Now());
  says_why((*db)->WaitForBackgroundWork(), Now());
  EXPECT_FALSE(fs::exists(dir / "copy"));
  std::string value;
  EXPECT_TRUE((*db)->Get(KeyOf(0, 7), &value).ok());
  if (GetParam() == DbLog::kNone) {
    says_why((*db)->Close(), Now());  // what it would lose
    EXPECT_TRUE((*db)->Get(KeyOf(0, 7), &value).ok());
  }
  disk.Clear();
  if (GetParam() == DbLog::kPersistent) {
    EXPECT_TRUE((*db)->Flush().ok());
    EXPECT_TRUE((*db)->Checkpoint(dir / "copy").ok());
  }
  const Status closed = (*db)->Close();
  EXPECT_TRUE(closed.ok()) << closed;
  EXPECT_TRUE((*db)->Close().ok()) << "once more";
  EXPECT_TRUE(absl::IsFailedPrecondition((*db)->Put("late", "x")));
  EXPECT_TRUE(absl::IsFailedPrecondition((*db)->Get(KeyOf(0, 7), &value)));
  EXPECT_TRUE(absl::IsFailedPrecondition((*db)->Flush()));
  db->reset();
  posix.reset();  // and its lock
  options.disk = nullptr;
  db = Db::Open(dir / "db", options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE((*db)->Get(KeyOf(0, i), &value).ok()) << i;
}

// The destructor gives up where nobody asked.
TEST(CloseTest, ADestructorDoesNotWaitForAFullDisk) {
  Directory dir;
  const auto posix = *OpenPosixDisk(dir.path());
  FaultDisk disk(posix.get());
  DbOptions options;
  options.log = DbLog::kNone;
  options.disk = &disk;
  auto db = Db::Open("", options);
  ASSERT_TRUE(db.ok()) << db.status();
  ASSERT_TRUE((*db)->Put("key", "x").ok());
  disk.Add({"", DiskOp::kWrite, FaultAction::kNoSpace});
  const Nanos begin = Now();
  db->reset();
  EXPECT_LT(Now() - begin, 10 * kSecond);
}

// The value of "key" in the database on a disk that has lost power; empty: none.
std::string ValueAfterALossOfPower(SimDisk* medium) {
  medium->Crash();
  const auto mount = medium->Mount();
  DbOptions options;
  options.disk = mount.get();
  const auto db = Db::Open("", options);
  EXPECT_TRUE(db.ok()) << db.status();
  std::string value;
  if (!db.ok()) return "";
  EXPECT_EQ((*db)->Get("key", &value), OkStatus());
  return value;
}

// Close syncs the log: a write that asked for none survives a loss of power after it. Where a file of the log
// cannot be synced it is in tables then, or Close says why not, and is Ok once it is.
TEST(CloseTest, WithALogWhatWasAcknowledgedIsDurable) {
  enum class Fails { kNothing, kOneSync, kSyncs, kAll };
  for (const Fails fails : {Fails::kNothing, Fails::kOneSync, Fails::kSyncs, Fails::kAll}) {
    SCOPED_TRACE(static_cast<int>(fails));
    SimDisk medium;
    std::string value;
    {
      const auto mount = medium.Mount();
      FaultDisk disk(mount.get());
      DbOptions options;
      options.disk = &disk;
      const auto db = Db::Open("", options);
      ASSERT_TRUE(db.ok()) << db.status();
      ASSERT_TRUE((*db)->Put("key", "x").ok());
      const uint64_t before = disk.faults();
      disk.Add({.path = fails == Fails::kAll ? "" : "log-",
                .op = DiskOp::kSync,
                .action = fails == Fails::kNothing ? FaultAction::kDelay : FaultAction::kEio,
                .count = fails == Fails::kOneSync ? 1 : UINT64_MAX});
      EXPECT_EQ((*db)->Close().ok(), fails != Fails::kAll);
      EXPECT_GT(disk.faults(), before) << "the log was not synced";
      if (fails == Fails::kAll) {
        EXPECT_TRUE((*db)->Get("key", &value).ok()) << "reads go on";
        disk.Clear();
        const Status closed = (*db)->Close();
        EXPECT_TRUE(closed.ok()) << closed;
      }
    }
    EXPECT_EQ(ValueAfterALossOfPower(&medium), "x");
  }
}

// A write that was begun before Close, and is acknowledged while it syncs what others wrote, is synced too.
TEST(CloseTest, AWriteThatItOvertakesIsDurable) {
  SimDisk medium;
  Status put;
  {
    const auto mount = medium.Mount();
    FaultDisk disk(mount.get());
    DbOptions options;
    options.disk = &disk;
    const auto db = Db::Open("", options);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put("of another thread", "x").ok());
    disk.Add(
        {.path = "log-", .op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = 300 * kMillisecond});
    const uint64_t before = disk.faults();
    Notification begun;
    ASSERT_TRUE(ArmFailPoint("write.pinned", 1, [&] {
                  begun.Notify();
                  for (const Nanos until = Now() + 300 * kMillisecond;
                       disk.faults() == before && Now() < until;)
                    SleepFor(kMillisecond);
                  return OkStatus();
                }).ok());
    Thread writer("writer", [&] { put = (*db)->Put("key", "x"); });
    begun.Wait();
    const Status closed = (*db)->Close();
    EXPECT_TRUE(closed.ok()) << closed;
    writer.Join();
    DisarmFailPoints();
  }
  ASSERT_TRUE(put.ok()) << put << ": the test tests nothing";
  EXPECT_EQ(ValueAfterALossOfPower(&medium), "x");
}

// So does the destructor of a database that nobody closed.
TEST(CloseTest, ADestructorSyncsTheLog) {
  SimDisk medium;
  {
    const auto disk = medium.Mount();
    DbOptions options;
    options.disk = disk.get();
    const auto db = Db::Open("", options);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put("key", "x").ok());
  }
  EXPECT_EQ(ValueAfterALossOfPower(&medium), "x");
}

TEST(CloseTest, AfterItEveryCallSaysThatTheDatabaseIsClosed) {
  Directory dir;
  const auto opened = Db::Open(dir / "db");
  ASSERT_TRUE(opened.ok()) << opened.status();
  Db* const db = opened->get();
  ASSERT_TRUE(db->Put("key", "x").ok());
  const auto snapshot = db->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  ASSERT_TRUE(db->Close().ok());
  std::string value;
  std::vector<std::optional<std::string>> values;
  WriteBatch batch;
  const auto entry = [](std::string_view, std::string_view) { return true; };
  EXPECT_TRUE(db->Write(batch).ok()) << "nothing to do";
  EXPECT_TRUE(db->Close().ok());
  batch.Put("key", "y");
  const std::pair<const char*, Status> calls[] = {
      {"put", db->Put("key", "y")},
      {"put with a time to live", db->PutTtl("key", "y", 1'000)},
      {"delete", db->Delete("key")},
      {"delete a range", db->DeleteRange("a", "b")},
      {"batch", db->Write(batch)},
      {"swap", db->CompareAndSwap("key", "x", "y").status()},
      {"get", db->Get("key", &value)},
      {"get at a snapshot", db->Get("key", &value, {*snapshot})},
      {"multi-get", db->MultiGet(std::vector<std::string_view>{"key"}, &values)},
      {"scan", db->Scan("", 10, entry)},
      {"long scan", db->Scan("", UINT64_MAX, entry)},
      {"snapshot", db->TakeSnapshot().status()},
      {"iterator", db->NewIterator().status()},
      {"flush", db->Flush()},
      {"wait", db->WaitForBackgroundWork()},
      {"checkpoint", db->Checkpoint(dir / "copy")},
      {"dranges", db->SetDranges(2)}};
  for (const auto& [call, status] : calls)
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << call << ": " << status;
}

// A snapshot of another opening, or of another database, says nothing about what was kept since.
TEST(SnapshotTest, OfAnotherOpeningIsRefused) {
  Directory dir;
  std::shared_ptr<const Snapshot> old;
  {
    const auto db = Db::Open(dir.path());
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put("key", "1").ok());
    old = *(*db)->TakeSnapshot();
    std::string value;
    EXPECT_TRUE((*db)->Get("key", &value, {old}).ok());
    ASSERT_TRUE((*db)->Put("key", "2").ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  const auto db = Db::Open(dir.path());
  ASSERT_TRUE(db.ok()) << db.status();
  std::string value;
  std::vector<std::optional<std::string>> values;
  EXPECT_TRUE(absl::IsInvalidArgument((*db)->Get("key", &value, {old})));
  EXPECT_TRUE(absl::IsInvalidArgument((*db)->MultiGet(std::vector<std::string_view>{"key"}, &values, {old})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      (*db)->Scan("", 10, [](std::string_view, std::string_view) { return true; }, {old})));
}

}  // namespace
}  // namespace nova
