// The embedded database on disks and files that fail: what was acknowledged is found or its loss is said, and
// no answer is wrong.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "logc/log_record.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

namespace fs = std::filesystem;
using Model = std::map<std::string, std::string>;

DbOptions SmallOptions(bool map_tables = true) {
  DbOptions o;
  o.memtable_bytes = 8 << 20;
  o.cache_bytes = 64 << 10;
  o.map_tables = map_tables;
  o.range.memtable_size_bytes = 128 << 10;
  o.range.table.block_size_bytes = 1 << 10;
  return o;
}

std::string KeyOf(int i) { return "key" + std::to_string(i); }
std::string ValueOf(int i) { return std::to_string(i) + std::string(100, static_cast<char>('a' + i % 26)); }

// Tables, a manifest of several edits, and records that are in the log alone: each kind of file holds
// something.
Model Fill(const std::string& path) {
  const auto db = Db::Open(path, SmallOptions());
  EXPECT_TRUE(db.ok()) << db.status();
  Model model;
  for (int i = 0; i < 300; ++i) {
    EXPECT_TRUE((*db)->Put(KeyOf(i), ValueOf(i)).ok());
    model[KeyOf(i)] = ValueOf(i);
    const bool flush = i == 120 || i == 200;
    EXPECT_TRUE(!flush || (*db)->Flush().ok());
  }
  return model;
}

struct Answers {
  int right = 0;
  int missing = 0;  // NotFound
  int failed = 0;   // an error that says so
};
Answers AskForAll(Db* db, const Model& model) {
  Answers a;
  for (const auto& [key, expected] : model) {
    std::string value;
    const Status s = db->Get(key, &value);
    if (s.ok()) {
      EXPECT_EQ(value, expected) << "a wrong value of " << key;
      ++a.right;
    } else {
      ++(absl::IsNotFound(s) ? a.missing : a.failed);
      EXPECT_TRUE(absl::IsNotFound(s) || absl::IsDataLoss(s)) << s;
    }
  }
  return a;
}

std::string ReadAll(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void WriteAll(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class DamageTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Tables, DamageTest, testing::Bool(),
                         [](const auto& p) { return p.param ? "Mapped" : "Read"; });

// One bit, in each kind of file. The newest record of a log may be taken for a torn one, and so may one at
// the end of the manifest. Anything else is an answer that is right, or an error.
TEST_P(DamageTest, AFlippedBitIsAnErrorOrHarmlessAndNeverAWrongAnswer) {
  Directory whole;
  const Model model = Fill(whole.path());
  Random random(11);
  std::map<std::string, int> refused, flips;
  for (const auto& entry : fs::directory_iterator(whole.path())) {
    const std::string name = entry.path().filename();
    if (name == "LOCK") continue;
    const std::string bytes = ReadAll(entry.path());
    const std::string kind = name.ends_with(".sst")          ? "table"
                             : name.starts_with("log-")      ? "log"
                             : name.starts_with("manifest-") ? "manifest"
                                                             : name;
    for (int i = 0; i < 25 && !bytes.empty(); ++i) {
      Directory dir;
      fs::copy(whole.path(), dir.path(), fs::copy_options::recursive);
      std::string damaged = bytes;
      const size_t at = i == 0 ? 0 : random.Uniform(bytes.size());
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.Uniform(8)));
      WriteAll(dir.path() + "/" + name, damaged);
      ++flips[kind];
      const auto db = Db::Open(dir.path(), SmallOptions(GetParam()));
      if (!db.ok()) {
        EXPECT_FALSE(absl::IsNotFound(db.status())) << kind << " at " << at << ": " << db.status();
        ++refused[kind];
        continue;
      }
      const Answers a = AskForAll(db->get(), model);
      EXPECT_TRUE(a.missing <= (kind == "log") || kind == "manifest")
          << a.missing << " keys, " << kind << " at " << at << " of " << bytes.size();
      EXPECT_LE(a.failed, kind == "table" ? 200 : 0) << "one block's keys, or one table's";
      std::string value;
      EXPECT_TRUE((*db)->Put("after", "x").ok());
      EXPECT_TRUE((*db)->Get("after", &value).ok());
    }
  }
  for (const char* kind : {"table", "log", "manifest", "CURRENT", "IDENTITY"})
    EXPECT_GT(flips[kind], 0) << kind;
  EXPECT_GT(refused["manifest"], 0);
  EXPECT_EQ(refused["CURRENT"], flips["CURRENT"]);
  EXPECT_EQ(refused["IDENTITY"], flips["IDENTITY"]);
  EXPECT_GT(refused["log"], 0);
}

// --- a log that is damaged in its middle

// Where the records of a log file begin, and where the last one ends.
std::vector<size_t> RecordsOf(const std::string& file) {
  std::vector<size_t> starts{64};
  while (const size_t length = PlausibleLogRecord(std::string_view(file).substr(starts.back()), UINT64_MAX)) {
    starts.push_back(starts.back() + length);
  }
  return starts;
}
// The machine was started again since the file was made.
void ForgetBoot(std::string* file) { file->replace(36, 16, std::string(16, '\x77')); }

// A database whose process died over it, and each of its log files as it was then.
struct Killed {
  explicit Killed(const std::function<void(Db*)>& work) {
    const pid_t child = fork();
    if (child == 0) {
      const auto db = Db::Open(whole.path(), SmallOptions());
      if (!db.ok()) _exit(1);
      work(db->get());
      raise(SIGKILL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    for (const auto& entry : fs::directory_iterator(whole.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("log-")) logs[name] = ReadAll(entry.path());
    }
  }
  // Opens a copy with `bytes` for that file: how many of the keys 0 .. count - 1 it has; -1: DataLoss, and
  // the text names the file.
  int Open(const std::string& name, const std::string& bytes, int count) const {
    Directory dir;
    fs::copy(whole.path(), dir.path(), fs::copy_options::recursive);
    WriteAll(dir.path() + "/" + name, bytes);
    const auto db = Db::Open(dir.path(), SmallOptions());
    if (!db.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(db.status())) << db.status();
      EXPECT_NE(db.status().message().find(name), std::string::npos) << db.status();
      EXPECT_EQ(ReadAll(dir.path() + "/" + name), bytes) << "opened over what is damaged";
      return -1;
    }
    Model model;
    for (int i = 0; i < count; ++i) model[KeyOf(i)] = ValueOf(i);
    const Answers a = AskForAll(db->get(), model);
    EXPECT_EQ(a.failed, 0);
    return a.right;
  }

  Directory whole;
  std::map<std::string, std::string> logs;
};

std::string FlippedAt(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
  return bytes;
}

// Whatever is damaged of a file of synced records: everything, or DataLoss; but the newest record, of which
// no other can tell.
TEST(DbFault, DADamagedLogLosesNothingThatWasSyncedInSilence) {
  constexpr int kKeys = 24;
  const Killed db([](Db* db) {
    for (int i = 0; i < kKeys; ++i) {
      if (!db->Put(KeyOf(i), ValueOf(i), {.sync = true}).ok()) _exit(1);
    }
  });
  ASSERT_EQ(db.logs.size(), 1u);
  for (const bool other_boot : {false, true}) {
    auto [name, bytes] = *db.logs.begin();
    if (other_boot) ForgetBoot(&bytes);
    const std::vector<size_t> starts = RecordsOf(bytes);
    ASSERT_EQ(starts.size(), kKeys + 1u);
    ASSERT_EQ(db.Open(name, bytes, kKeys), kKeys);
    int refused = 0;
    for (size_t at = 0; at < starts.back(); at += 53) {
      const int found = db.Open(name, FlippedAt(bytes, at), kKeys);
      const bool unused = at >= 36 && at < 64;  // the boot, and nothing
      ASSERT_EQ(found, unused                   ? kKeys
                       : at < starts[kKeys - 1] ? -1
                                                : kKeys - 1)
          << at << (other_boot ? ", started again" : "");
      refused += found == -1;
    }
    EXPECT_GT(refused, 50);
    // More than a bit: a sector that reads as zeros, a page of another file.
    for (const char fill : {'\0', 'x'}) {
      std::string hole = bytes;
      hole.replace(1024, 512, 512, fill);
      EXPECT_EQ(db.Open(name, hole, kKeys), -1);
    }
    // What the text says to do opens the database with what is before.
    std::string cut = FlippedAt(bytes, starts[10] + 5);
    cut.resize(starts[10]);
    EXPECT_EQ(db.Open(name, cut, kKeys), 10);
    EXPECT_EQ(db.Open(name, "", kKeys), 0) << "for a damaged header";
  }
}

// Records without sync, in a file of their own, of which a synced write made the first part durable. While
// the machine runs on none may be missing before the last; when it was started again, those that no sync
// covered may, and the database opens with those before.
TEST(DbFault, DADamagedLogOfUnsyncedRecordsIsLoudUnlessPowerMayHaveTakenThem) {
  constexpr int kSynced = 12, kKeys = 30;
  const Killed db([](Db* db) {
    for (int i = 0; i < kKeys; ++i) {
      if (!db->Put(KeyOf(i), ValueOf(i)).ok() ||
          (i == kSynced - 1 && !db->Put("covers", "those before", {.sync = true}).ok()))
        _exit(1);
    }
  });
  ASSERT_EQ(db.logs.size(), 2u);
  auto [name, bytes] = *db.logs.begin();
  for (const bool other_boot : {false, true}) {
    if (other_boot) ForgetBoot(&bytes);
    const std::vector<size_t> starts = RecordsOf(bytes);
    ASSERT_EQ(starts.size(), kKeys + 1u);
    for (size_t at = 64; at < starts.back(); at += 61) {
      const auto record =
          static_cast<int>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin()) - 1;
      const bool provable = record < (other_boot ? kSynced : kKeys - 1);
      ASSERT_EQ(db.Open(name, FlippedAt(bytes, at), kKeys), provable ? -1 : record)
          << at << (other_boot ? ", started again" : "");
    }
    // A tail that is torn where nothing was synced yet opens: cut short, or sectors that were never written,
    // in whatever order.
    for (size_t at = starts[kSynced]; at < bytes.size(); at += 197) {
      const auto whole =
          static_cast<int>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin()) - 1;
      ASSERT_EQ(db.Open(name, bytes.substr(0, at), kKeys), whole) << at;
      if (!other_boot) continue;
      std::string torn = bytes;
      const size_t sector = (at + 511) / 512 * 512;
      if (sector + 512 > torn.size()) break;
      torn.replace(sector, 512, 512, '\0');
      ASSERT_GE(db.Open(name, torn, kKeys), kSynced) << at;
    }
  }
}

// Rot in a log whose records are in tables already is no reason to refuse anything: a file kept for reuse, or
// overwritten.
TEST(DbFault, M3ADamagedLogOfFlushedRecordsIsOpened) {
  constexpr int kKeys = 25;
  const Killed db([](Db* db) {
    for (int i = 0; i < kKeys; ++i) {
      if (!db->Put(KeyOf(i), ValueOf(i), {.sync = true}).ok()) _exit(1);
    }
    if (!db->Flush().ok()) _exit(1);
  });
  size_t flips = 0;
  for (const auto& [name, bytes] : db.logs) {
    const std::vector<size_t> starts = RecordsOf(bytes);
    for (size_t i = 0; i + 1 < starts.size(); ++i, ++flips)
      ASSERT_EQ(db.Open(name, FlippedAt(bytes, starts[i] + 50), kKeys), kKeys);
  }
  EXPECT_EQ(flips, static_cast<size_t>(kKeys)) << "the log was not kept: this test shows nothing";
}

TEST_P(DamageTest, AMissingOrShortFileIsSaid) {
  Directory whole;
  const Model model = Fill(whole.path());
  for (const auto& entry : fs::directory_iterator(whole.path())) {
    const std::string name = entry.path().filename();
    for (const bool missing : {true, false}) {
      if (name == "LOCK" || name.starts_with("log-")) continue;
      Directory dir;
      fs::copy(whole.path(), dir.path(), fs::copy_options::recursive);
      const std::string path = dir.path() + "/" + name;
      missing ? static_cast<void>(fs::remove(path)) : fs::resize_file(path, fs::file_size(path) / 2);
      const auto db = Db::Open(dir.path(), SmallOptions(GetParam()));
      if (!name.ends_with(".sst")) {
        // A manifest whose tail is torn off is read up to there.
        EXPECT_TRUE(!db.ok() || (!missing && name.starts_with("manifest-")))
            << name << (missing ? " missing" : " short");
        EXPECT_FALSE(absl::IsNotFound(db.status())) << db.status();
        continue;
      }
      ASSERT_TRUE(db.ok()) << db.status();
      const Answers a = AskForAll(db->get(), model);
      EXPECT_EQ(a.missing, 0) << "a key of a lost table is not 'not found'";
      EXPECT_GT(a.failed, 0);
      EXPECT_GT(a.right, 0) << "the rest is served";
    }
  }
}

// Row 21: reads that fail are errors of those keys, and come back with the disk.
TEST(DbFault, AFailingReadIsAnErrorAndPasses) {
  SimDisk medium;
  const auto mounted = medium.Mount();
  FaultDisk disk(mounted.get());
  DbOptions options = SmallOptions(/*map_tables=*/false);
  options.cache_bytes = 0;
  options.disk = &disk;
  const auto db = Db::Open("", options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), ValueOf(i)).ok());
  ASSERT_TRUE((*db)->Flush().ok());
  disk.Add({".sst", DiskOp::kRead, FaultAction::kEio});
  std::string value;
  EXPECT_TRUE(absl::IsDataLoss((*db)->Get(KeyOf(7), &value)));
  EXPECT_FALSE((*db)->Scan("", 10, [](std::string_view, std::string_view) { return true; }).ok());
  ASSERT_TRUE((*db)->Put("new", "1").ok()) << "memory and log are whole";
  EXPECT_TRUE((*db)->Get("new", &value).ok());
  disk.Clear();
  EXPECT_TRUE((*db)->Get(KeyOf(7), &value).ok());
}

// Rows 20, 22: a flush that fails is tried again; nothing is lost meanwhile, and writes go on once there is
// room.
TEST(DbFault, TablesThatCannotBeWrittenStayInMemoryAndLogUntilTheyCan) {
  for (const FaultAction action : {FaultAction::kEio, FaultAction::kNoSpace, FaultAction::kTorn}) {
    for (const DiskOp op : {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kSync}) {
      SimDisk medium;
      Model model;
      {
        const auto mounted = medium.Mount();
        FaultDisk disk(mounted.get());
        DbOptions options = SmallOptions();
        options.disk = &disk;
        const auto db = Db::Open("", options);
        ASSERT_TRUE(db.ok()) << db.status();
        disk.Add({".sst", op, action});
        const auto put = [&](int i) {
          ASSERT_TRUE((*db)->Put(KeyOf(i), ValueOf(i)).ok()) << i;
          model[KeyOf(i)] = ValueOf(i);
        };
        for (int i = 0; i < 2'000; ++i) ASSERT_NO_FATAL_FAILURE(put(i));  // two memtables' worth
        EXPECT_EQ(AskForAll(db->get(), model).right, 2'000);
        disk.Clear();
        for (int i = 2'000; i < 4'000; ++i) ASSERT_NO_FATAL_FAILURE(put(i));
        ASSERT_TRUE((*db)->Flush().ok());
        EXPECT_EQ(AskForAll(db->get(), model).right, 4'000);
      }
      const auto mounted = medium.Mount();
      DbOptions options = SmallOptions();
      options.disk = mounted.get();
      const auto db = Db::Open("", options);
      ASSERT_TRUE(db.ok()) << db.status();
      EXPECT_EQ(AskForAll(db->get(), model).right, 4'000);
    }
  }
}

// M1: an edit that is not durable is not there: the job is done again, the tables of the one that failed go.
TEST(DbFault, AManifestThatCannotBeWrittenLosesNothing) {
  for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync}) {
    SimDisk medium;
    Model model;
    {
      const auto mounted = medium.Mount();
      FaultDisk disk(mounted.get());
      DbOptions options = SmallOptions();
      options.disk = &disk;
      const auto db = Db::Open("", options);
      ASSERT_TRUE(db.ok()) << db.status();
      disk.Add({"manifest-", op, FaultAction::kEio, 1, 1});
      for (int i = 0; i < 3'000; ++i) {
        const Status s = (*db)->Put(KeyOf(i), ValueOf(i));
        if (!s.ok()) break;  // a range whose manifest is in doubt may refuse writes
        model[KeyOf(i)] = ValueOf(i);
      }
      EXPECT_GT(model.size(), 500u);
      EXPECT_EQ(AskForAll(db->get(), model).missing, 0);
    }
    const auto mounted = medium.Mount();
    DbOptions options = SmallOptions();
    options.disk = mounted.get();
    const auto db = Db::Open("", options);
    ASSERT_TRUE(db.ok()) << db.status();
    EXPECT_EQ(AskForAll(db->get(), model).right, static_cast<int>(model.size()));
  }
}

// Runs `body` in a process of its own; its text, empty: all was well.
std::string InAProcess(const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = body();
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? text : StrCat(text, " (ended with status ", status, ")");
}

TEST(DbFault, AReadOnlyDirectoryIsNamed) {
  Directory dir;
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                  fs::perms::others_exec);
  const std::string text = InAProcess([&]() -> std::string {
    if (geteuid() == 0 && setuid(65534) != 0) return "no other user";
    const auto db = Db::Open(dir.path() + "/db", SmallOptions());
    return std::string(db.status().message());
  });
  fs::permissions(dir.path(), fs::perms::owner_all);
  EXPECT_NE(text.find(dir.path()), std::string::npos) << text;
  EXPECT_NE(text.find("ermission"), std::string::npos) << text;
}

// The lock goes with its process, however that ends; what it had acknowledged is there.
TEST(DbFault, ASecondProcessIsRefusedUntilTheFirstIsGone) {
  Directory dir;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t first = fork();
  if (first == 0) {
    const auto db = Db::Open(dir.path(), SmallOptions());
    const bool holds = db.ok() && (*db)->Put("key", "of the first").ok();
    if (write(ends[1], holds ? "y" : "n", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char holds = 'n';
  EXPECT_EQ(read(ends[0], &holds, 1), 1);
  EXPECT_EQ(holds, 'y');
  const auto second = Db::Open(dir.path(), SmallOptions());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_NE(second.status().message().find(dir.path()), std::string::npos) << second.status();
  kill(first, SIGKILL);
  waitpid(first, nullptr, 0);
  for (const int end : ends) close(end);
  const auto db = Db::Open(dir.path(), SmallOptions());
  ASSERT_TRUE(db.ok()) << db.status();
  std::string value;
  EXPECT_TRUE((*db)->Get("key", &value).ok());
  EXPECT_EQ(value, "of the first");
}

// A file system of 24 MB that fills up, and is given room again.
TEST(DbFault, AFullFileSystemRefusesWritesAndServesReadsAndGoesOn) {
  Directory dir;
  const std::string text = InAProcess([&]() -> std::string {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("nova-test", dir.path().c_str(), "tmpfs", 0, "size=24m") != 0) {
      return "no mounts";
    }
    const std::string ballast = dir.path() + "/ballast";
    fs::create_directories(dir.path() + "/db");
    Model model;
    {
      const auto db = Db::Open(dir.path() + "/db", SmallOptions());
      if (!db.ok()) return db.status().ToString();
      WriteAll(ballast, std::string(12 << 20, 'b'));
      Status s;
      int i = 0;
      for (; i < 200'000 && s.ok(); ++i) {
        s = (*db)->Put(KeyOf(i), ValueOf(i));
        if (s.ok()) model[KeyOf(i)] = ValueOf(i);
      }
      if (!absl::IsResourceExhausted(s)) return StrCat("the disk never filled: ", s.ToString());
      if (AskForAll(db->get(), model).right != static_cast<int>(model.size()))
        return "a read failed on the full disk";
      fs::remove(ballast);
      const Nanos until = Now() + 20 * kSecond;
      do {
        s = (*db)->Put("room", "again");
      } while (!s.ok() && Now() < until);
      if (!s.ok()) return StrCat("writes did not resume: ", s.ToString());
    }
    const auto db = Db::Open(dir.path() + "/db", SmallOptions());
    if (!db.ok()) return db.status().ToString();
    const Answers a = AskForAll(db->get(), model);
    if (a.right != static_cast<int>(model.size()))
      return StrCat(model.size() - static_cast<size_t>(a.right), " acknowledged writes are gone");
    return "";
  });
  if (text == "no mounts") GTEST_SKIP() << text;
  EXPECT_EQ(text, "");
}

}  // namespace
}  // namespace nova
