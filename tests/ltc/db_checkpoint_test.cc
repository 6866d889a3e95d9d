// Checkpoints of an embedded database: opened and compared while writers go on, through kills, full and
// failing disks (docs/testing.md, row 51).
#include "ltc/embedded/db_checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "ltc/embedded/local_storage.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

namespace fs = std::filesystem;
using Model = std::map<std::string, std::string>;

std::unique_ptr<Db> MustOpen(const std::string& path, bool create = true) {
  DbOptions options = SmallOptions();
  options.create_if_missing = create;
  auto db = Db::Open(path, options);
  EXPECT_TRUE(db.ok()) << db.status();
  return db.ok() ? *std::move(db) : nullptr;
}

Model Contents(Db* db) {
  Model all;
  const Status s = db->Scan("", UINT64_MAX, [&](std::string_view key, std::string_view value) {
    all.emplace(key, value);
    return true;
  });
  EXPECT_TRUE(s.ok()) << s;
  return all;
}

std::string KeyOf(uint64_t writer, uint64_t i) { return StrCat("w", writer, "/", i); }

// Each writer renews its keys in turn by batches that carry a counter: a moment of the database has all keys
// of a writer at one counter, or the first ones at the next (a batch is half the keys).
TEST(DbCheckpoint, IsOneMomentWhileWritersGoOn) {
  constexpr uint64_t kWriters = 3, kKeys = 40;
  Directory dir;
  const auto db = MustOpen(dir / "db");
  ASSERT_NE(db, nullptr);
  std::atomic<bool> stop{false};
  std::array<std::atomic<uint64_t>, kWriters> acknowledged{};
  std::vector<std::unique_ptr<Thread>> writers;
  for (uint64_t w = 0; w < kWriters; ++w) {
    writers.push_back(std::make_unique<Thread>(StrCat("writer.", w), [&, w] {
      for (uint64_t n = 1; !stop.load(); ++n) {
        WriteBatch batch;
        const uint64_t first = n % 2 == 1 ? 0 : kKeys / 2;
        for (uint64_t i = first; i < first + kKeys / 2; ++i)
          batch.Put(KeyOf(w, i), StrCat(n, " ", std::string(n * 31 % 600, 'v')));
        ASSERT_TRUE(db->Write(batch).ok());
        acknowledged[w].store(n);
      }
    }));
  }
  for (int round = 0; round < 5; ++round) {
    SleepFor(50 * kMillisecond);
    std::array<uint64_t, kWriters> before;
    for (uint64_t w = 0; w < kWriters; ++w) before[w] = acknowledged[w].load();
    const std::string at = dir / StrCat("copy", round);
    const Status s = db->Checkpoint(at);
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(db->Checkpoint(at).code(), absl::StatusCode::kAlreadyExists);
    const auto copy = MustOpen(at, /*create=*/false);
    ASSERT_NE(copy, nullptr);
    const Model all = Contents(copy.get());
    for (uint64_t w = 0; w < kWriters; ++w) {
      const auto counter = [&](uint64_t i) {
        const auto it = all.find(KeyOf(w, i));
        return it == all.end() ? 0 : std::stoull(it->second);
      };
      const uint64_t low = counter(0), high = counter(kKeys / 2);
      for (uint64_t i = 0; i < kKeys; ++i)
        ASSERT_EQ(counter(i), i < kKeys / 2 ? low : high) << "a part of a batch";
      EXPECT_TRUE(low == high + 1 || high == low + 1) << low << ", " << high;
      EXPECT_GE(std::max(low, high), before[w]) << "an acknowledged write is missing";
    }
    // Both go on by themselves.
    ASSERT_TRUE(copy->Put("only here", "1").ok());
    std::string value;
    EXPECT_TRUE(absl::IsNotFound(db->Get("only here", &value)));
  }
  stop = true;
  writers.clear();
}

TEST(DbCheckpoint, TablesAreSharedAndNoneIsDeletedForTheOther) {
  Directory dir;
  Model model;
  const auto fill = [&](Db* db, const std::string& value, Model* into) {
    for (uint64_t i = 0; i < 2000; ++i) {
      const std::string v = value + std::string(300, 'v');
      ASSERT_TRUE(db->Put(KeyOf(0, i), v).ok());
      if (into != nullptr) (*into)[KeyOf(0, i)] = v;
    }
  };
  auto db = MustOpen(dir / "db");
  ASSERT_NO_FATAL_FAILURE(fill(db.get(), "first", &model));
  ASSERT_TRUE(db->Checkpoint(dir / "copy/").ok());
  size_t linked = 0;
  for (const auto& entry : fs::directory_iterator(dir / "copy"))
    linked += entry.path().extension() == ".sst" && entry.hard_link_count() > 1;
  EXPECT_GT(linked, 0u);
  // The original rewrites everything, and its tables go.
  ASSERT_NO_FATAL_FAILURE(fill(db.get(), "second", nullptr));
  ASSERT_TRUE(db->Flush().ok());
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  db = nullptr;
  {
    const auto copy = MustOpen(dir / "copy", /*create=*/false);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(Contents(copy.get()), model);
    // And the other way round: a copy of the copy, which then deletes what it has.
    ASSERT_TRUE(copy->Checkpoint(dir / "copy2").ok());
    ASSERT_NO_FATAL_FAILURE(fill(copy.get(), "third", nullptr));
    ASSERT_TRUE(copy->Flush().ok());
    ASSERT_TRUE(copy->WaitForBackgroundWork().ok());
  }
  EXPECT_EQ(Contents(MustOpen(dir / "copy2", /*create=*/false).get()), model);
}

TEST(DbCheckpoint, AnEmptyDatabaseAndBadNames) {
  Directory dir;
  const auto db = MustOpen(dir / "db");
  ASSERT_TRUE(db->Checkpoint(dir / "empty").ok());
  EXPECT_TRUE(Contents(MustOpen(dir / "empty", /*create=*/false).get()).empty());
  for (const std::string& bad : {std::string(""), std::string("/"), std::string(".."), std::string(".")}) {
    EXPECT_EQ(db->Checkpoint(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  fs::create_directory(dir / "x.unfinished");
  std::filesystem::copy_file(dir / "db/IDENTITY", dir / "x.unfinished/something of the user's");
  EXPECT_EQ(db->Checkpoint(dir / "x").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(dir / "x.unfinished/something of the user's"));
}

// Of calls of one name at once one makes it, whole; the others say so.
TEST(DbCheckpoint, OfSeveralCallsOfOneNameOneMakesIt) {
  Directory dir;
  const auto db = MustOpen(dir / "db");
  Model model;
  for (uint64_t i = 0; i < 500; ++i) model[KeyOf(1, i)] = std::string(300, static_cast<char>('a' + i % 26));
  for (const auto& [key, value] : model) ASSERT_TRUE(db->Put(key, value).ok());
  for (int round = 0; round < 30; ++round) {
    const std::string at = dir / StrCat("copy", round);
    std::atomic<int> made{0};
    {
      std::vector<std::unique_ptr<Thread>> threads;
      for (int t = 0; t < 3; ++t) {
        threads.push_back(std::make_unique<Thread>("caller", [&] {
          const Status s = db->Checkpoint(at);
          made += s.ok();
          EXPECT_TRUE(s.ok() || absl::IsAlreadyExists(s) || absl::IsUnavailable(s)) << s;
        }));
      }
    }
    EXPECT_EQ(made, 1) << "round " << round;
    EXPECT_EQ(Contents(MustOpen(at, /*create=*/false).get()), model) << "round " << round;
    EXPECT_FALSE(fs::exists(at + ".unfinished"));
  }
}

// Two processes, each with a database of its own, and one name: the lock of what is not finished is between
// processes too.
TEST(DbCheckpoint, OfTwoProcessesAndOneNameOneMakesIt) {
  constexpr int kRounds = 30;
  Directory dir;
  const auto at = [&](int round) { return std::string(dir / StrCat("copy", round)); };
  const auto filled = [&](const std::string& name) {
    auto db = MustOpen(dir / name);
    for (uint64_t i = 0; i < 300; ++i) EXPECT_TRUE(db->Put(KeyOf(1, i), name).ok());
    return db;
  };
  int turn[2], made[2];  // the parent begins a round; the child says whether it made the checkpoint
  ASSERT_EQ(pipe(turn) | pipe(made), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto db = filled("theirs");
    char byte = 0;
    for (int round = 0; round < kRounds && write(made[1], "r", 1) == 1 && read(turn[0], &byte, 1) == 1;
         ++round) {
      const char mine = db->Checkpoint(at(round)).ok() ? '1' : '0';
      if (write(made[1], &mine, 1) != 1) break;
    }
    _exit(0);
  }
  int ours = 0, theirs = 0;
  {
    const auto db = filled("ours");
    for (int round = 0; round < kRounds; ++round) {
      char byte = 0;
      ASSERT_EQ(read(made[0], &byte, 1), 1) << "the other process ended";
      ASSERT_EQ(write(turn[1], "g", 1), 1);
      const Status s = db->Checkpoint(at(round));
      EXPECT_TRUE(s.ok() || absl::IsAlreadyExists(s) || absl::IsUnavailable(s)) << s;
      ASSERT_EQ(read(made[0], &byte, 1), 1) << "the other process ended";
      EXPECT_NE(s.ok(), byte == '1') << "round " << round;
      (s.ok() ? ours : theirs) += 1;
      const Model copy = Contents(MustOpen(at(round), /*create=*/false).get());
      EXPECT_EQ(copy.size(), 300u);
      for (const auto& [key, value] : copy) ASSERT_EQ(value, s.ok() ? "ours" : "theirs") << "round " << round;
      EXPECT_FALSE(fs::exists(at(round) + ".unfinished"));
    }
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  std::printf("%d rounds were ours, %d theirs\n", ours, theirs);
}

TEST(DbCheckpoint, NamesThatBelongToAnotherCheckpointAreLeftAlone) {
  Directory dir;
  const auto db = MustOpen(dir / "db");
  ASSERT_TRUE(db->Put("key", "1").ok());
  for (const char* name : {"x.tmp", "x.unfinished"}) ASSERT_TRUE(db->Checkpoint(dir / name).ok());
  EXPECT_EQ(db->Checkpoint(dir / "x").code(), absl::StatusCode::kAlreadyExists)
      << "x.unfinished is the user's, and in the way";
  fs::remove_all(dir / "x.unfinished");
  ASSERT_TRUE(db->Checkpoint(dir / "x").ok());
  for (const char* name : {"x.tmp", "x"})
    EXPECT_EQ(Contents(MustOpen(dir / name, /*create=*/false).get()).size(), 1u) << name;
}

// Row 51: whatever call of the disk fails, nothing is there under the name, what is there does not open, and
// the next try succeeds.
// This disk has no links: the tables are copied.
TEST(DbCheckpoint, AFailingOrFullDiskLeavesNothingThatOpens) {
  Directory dir;
  auto db = MustOpen(dir / "db");
  Model model;
  for (uint64_t i = 0; i < 1500; ++i) model[KeyOf(1, i)] = std::string(200, static_cast<char>('a' + i % 26));
  for (const auto& [key, value] : model) ASSERT_TRUE(db->Put(key, value).ok());
  // Its own frozen version, so that each try is of the same.
  ASSERT_TRUE(db->Checkpoint(dir / "source").ok());
  const auto from = *OpenPosixDisk(dir / "source");
  const auto edits = LocalManifestStorage(from.get()).ReadInstalled();
  ASSERT_TRUE(edits.ok()) << edits.status();
  ASSERT_EQ(edits->size(), 1u);
  const VersionEdit& cut = (*edits)[0];
  ASSERT_FALSE(cut.adds.empty());
  const auto base = *OpenPosixDisk(dir / "target");
  FaultDisk to(base.get());
  int failed = 0;
  for (const DiskOp op :
       {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kSync, DiskOp::kRename, DiskOp::kSyncDirectory}) {
    for (const FaultAction action : {FaultAction::kNoSpace, FaultAction::kEio}) {
      for (uint64_t nth = 1; nth < 100; ++nth) {
        fs::remove_all(dir / "target/copy");
        to.Clear();
        to.Add({"", op, action, nth, 1});
        const Status s = WriteDbCheckpoint(cut, from.get(), &to, "copy");
        if (s.ok()) break;  // it makes no more such calls
        ++failed;
        EXPECT_EQ(s.code(), action == FaultAction::kEio ? absl::StatusCode::kDataLoss
                                                        : absl::StatusCode::kResourceExhausted)
            << s;
        const bool renamed = fs::exists(dir / "target/copy");  // only its durability is not known
        EXPECT_TRUE(!renamed || op == DiskOp::kSyncDirectory) << s;
        DbOptions options = SmallOptions();
        options.create_if_missing = false;
        EXPECT_FALSE(Db::Open(dir / "target/copy.unfinished", options).ok());
      }
      EXPECT_EQ(Contents(MustOpen(dir / "target/copy", /*create=*/false).get()), model);
    }
  }
  EXPECT_GT(failed, 30);
}

// Row 51: the process dies at a random moment of a checkpoint.
TEST(DbCheckpoint, AKillLeavesAWholeCopyOrNoneThatOpens) {
  Directory dir;
  Model model;
  {
    auto db = MustOpen(dir / "db");
    for (uint64_t i = 0; i < 2000; ++i)
      model[KeyOf(1, i)] = std::string(300, static_cast<char>('a' + i % 26));
    for (const auto& [key, value] : model) ASSERT_TRUE(db->Put(key, value).ok());
    ASSERT_TRUE(db->Flush().ok());
  }
  Random random(7);
  int whole = 0, unfinished = 0;
  for (int round = 0; round < 25; ++round) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto db = Db::Open(dir / "db", SmallOptions());
      for (int i = 0; db.ok(); ++i) {
        if (!(*db)->Checkpoint(dir / StrCat("copy", i)).ok()) _exit(1);
      }
      _exit(1);
    }
    // In turn: soon after the first copy has begun, and some time after it was whole.
    const bool early = round % 2 == 0;
    const auto begun = [&] {
      return fs::exists(dir / "copy0") || (early && fs::exists(dir / "copy0.unfinished"));
    };
    for (const Nanos until = Now() + 60 * kSecond; !begun() && Now() < until;) SleepFor(100 * kMicrosecond);
    SleepFor(static_cast<Nanos>(random.Uniform(early ? 3000 : 30'000)) * kMicrosecond);
    kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    for (int i = 0;; ++i) {
      const std::string at = dir / StrCat("copy", i);
      DbOptions options = SmallOptions();
      options.create_if_missing = false;
      if (!fs::exists(at)) {
        if (fs::exists(at + ".unfinished")) {  // all of it, but for the rename, or nothing that opens
          const auto db = Db::Open(at + ".unfinished", options);
          unfinished += db.ok() ? 0 : 1;
          if (db.ok()) {
            EXPECT_EQ(Contents(db->get()), model) << "round " << round;
          }
        }
        fs::remove_all(at + ".unfinished");
        break;
      }
      EXPECT_EQ(Contents(MustOpen(at, /*create=*/false).get()), model) << "round " << round;
      ++whole;
      fs::remove_all(at);
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(unfinished, 0);
}

}  // namespace
}  // namespace nova
