// The embedded engine: against a std::map with random options and reopening, through kills, power losses and
// failing disks.
#include "ltc/embedded/db.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/fault_disk.h"
#include "common/base/limited_disk.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

std::unique_ptr<Db> MustOpen(const std::string& path, const DbOptions& options) {
  auto db = Db::Open(path, options);
  EXPECT_TRUE(db.ok()) << db.status();
  return db.ok() ? *std::move(db) : nullptr;
}

void ExpectHolds(Db* db, const Model& model) {
  auto expected = model.begin();
  ASSERT_TRUE(db->Scan("", UINT64_MAX, [&](std::string_view key, std::string_view value) {
                  EXPECT_TRUE(expected != model.end() && expected->first == key && expected->second == value)
                      << "scan at " << key << ", expected "
                      << (expected == model.end() ? "the end" : expected->first);
                  return expected != model.end() && (expected++)->first == key;
                }).ok());
  EXPECT_TRUE(expected == model.end()) << expected->first << " is missing";
}

void ExpectScans(Db* db, const Model& model, const DbScan& scan) {
  using Entries = std::vector<std::pair<std::string, std::string>>;
  Entries expected(model.lower_bound(scan.from), scan.to.empty() ? model.end() : model.lower_bound(scan.to));
  if (scan.reverse) std::reverse(expected.begin(), expected.end());
  if (expected.size() > scan.limit) expected.resize(scan.limit);
  Entries got;
  const Status s = db->Scan(scan, [&](std::string_view key, std::string_view value) {
    got.emplace_back(key, value);
    return true;
  });
  ASSERT_TRUE(s.ok()) << s;
  ASSERT_EQ(got.size(), expected.size())
      << scan.from << " to " << scan.to << (scan.reverse ? " in reverse" : "");
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == expected[i]) << got[i].first << ", expected " << expected[i].first;
}

DbScan RandomScan(Random* random, const std::function<std::string()>& some_key) {
  DbScan scan;
  if (random->OneIn(3)) {
    scan = DbScan::OfPrefix(some_key().substr(0, 3 + random->Uniform(3)));
  } else {
    scan.from = random->OneIn(4) ? "" : some_key();
    scan.to = random->OneIn(4) ? "" : some_key();
    if (!scan.to.empty() && scan.to < scan.from) std::swap(scan.from, scan.to);
  }
  if (random->OneIn(2)) scan.limit = 1 + random->Uniform(300);
  scan.reverse = random->OneIn(2);
  return scan;
}

std::string KeyOf(uint64_t i) { return "key" + std::to_string(i * 2654435761 % 1'000'003); }

TEST(Db, AnswersAsAMapThroughReopeningWithRandomOptions) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Random random(seed);
    Directory dir;
    Model model;
    for (int round = 0; round < 4; ++round) {
      DbOptions options = SmallOptions();
      options.log = random.OneIn(3) ? DbLog::kNone : DbLog::kPersistent;
      options.range.active_memtables = 1 + static_cast<int>(random.Uniform(3));
      options.range.max_rounds = 2 + static_cast<int>(random.Uniform(6));
      options.range.table.block_size_bytes = 512 << random.Uniform(5);
      options.compaction_threads = 1 + static_cast<int>(random.Uniform(3));
      options.map_tables = random.OneIn(2);
      for (size_t n = random.Uniform(4); n > 0; --n)
        options.range.compression.push_back(static_cast<Compression>(random.Uniform(3)));
      options.range.scan_page_bytes = uint64_t{1} << random.Uniform(21);
      const auto db = MustOpen(dir.path(), options);
      ASSERT_NE(db, nullptr);
      ExpectHolds(db.get(), model);
      for (int i = 0; i < 4'000; ++i) {
        const std::string key = KeyOf(random.Uniform(3'000));
        switch (random.Uniform(8)) {
          case 0: {
            ASSERT_TRUE(db->Delete(key).ok());
            model.erase(key);
            break;
          }
          case 1:
          case 2: {
            std::string value;
            const Status s = db->Get(key, &value);
            const auto it = model.find(key);
            if (it == model.end()) {
              ASSERT_TRUE(absl::IsNotFound(s)) << s;
            } else {
              ASSERT_TRUE(s.ok()) << s;
              ASSERT_EQ(value, it->second);
            }
            break;
          }
          default: {
            std::string value(random.Uniform(500), static_cast<char>('a' + random.Uniform(26)));
            ASSERT_TRUE(db->Put(key, value, {random.OneIn(200)}).ok());
            model[key] = std::move(value);
          }
        }
        if (random.OneIn(1'000)) {
          ASSERT_TRUE(db->Flush().ok());
        }
        if (random.OneIn(100)) {
          ASSERT_NO_FATAL_FAILURE(ExpectScans(
              db.get(), model, RandomScan(&random, [&] { return KeyOf(random.Uniform(3'000)); })));
        }
      }
      ExpectHolds(db.get(), model);
    }
  }
}

TEST(Db, ScansStartAndStopWhereTheyAreTold) {
  Directory dir;
  const auto db = MustOpen(dir.path(), SmallOptions());
  for (const char* key : {"a", "b", "c", "d"}) ASSERT_TRUE(db->Put(key, key).ok());
  std::string seen;
  const auto collect = [&seen](std::string_view key, std::string_view) {
    seen += key;
    return key != "c";
  };
  ASSERT_TRUE(db->Scan("b", 2, collect).ok());
  EXPECT_EQ(seen, "bc");
  seen.clear();
  ASSERT_TRUE(db->Scan("", 100, collect).ok());
  EXPECT_EQ(seen, "abc");
  seen.clear();
  ASSERT_TRUE(db->Scan({.from = "b", .to = "d", .reverse = true}, collect).ok());
  EXPECT_EQ(seen, "c");
  seen.clear();
  ASSERT_TRUE(db->Scan({.from = "d", .to = "b"}, collect).ok());
  EXPECT_EQ(seen, "") << "nothing lies between";
}

TEST(Db, PrefixScansAndTheirEnds) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd("a\xff\xff"), "b");
  EXPECT_EQ(PrefixEnd("\xff"), "");
  EXPECT_EQ(PrefixEnd(""), "");
  Directory dir;
  const auto db = MustOpen(dir.path(), SmallOptions());
  Model model;
  for (const char* key : {"a", "ab", "ab\xff", "abc", "ac", "\xff", "\xff\xff", "\xff\xffz"}) {
    ASSERT_TRUE(db->Put(key, key).ok());
    model[key] = key;
  }
  for (const char* prefix : {"", "a", "ab", "ab\xff", "b", "\xff", "\xff\xff"}) {
    for (const bool reverse : {false, true}) {
      DbScan scan = DbScan::OfPrefix(prefix);
      scan.reverse = reverse;
      ASSERT_NO_FATAL_FAILURE(ExpectScans(db.get(), model, scan));
    }
  }
}

// A key whose versions fill blocks and tables comes out once, newest first or last.
TEST(Db, ReverseScansSeeTheNewestOfManyVersionsAndNoDeletedKey) {
  Directory dir;
  DbOptions options = SmallOptions();
  options.range.table.block_size_bytes = 512;
  const auto db = MustOpen(dir.path(), options);
  const auto snapshot = db->TakeSnapshot();  // no version is dropped
  ASSERT_TRUE(snapshot.ok());
  Model model;
  for (int i = 0; i < 2'000; ++i) {
    const std::string key(1, static_cast<char>('a' + i % 5)),
        value = std::to_string(i) + std::string(200, 'x');
    ASSERT_TRUE(db->Put(key, value).ok());
    model[key] = value;
    if (i % 700 == 0) {
      ASSERT_TRUE(db->Flush().ok());
    }
  }
  ASSERT_TRUE(db->Delete("c").ok());
  model.erase("c");
  ASSERT_NO_FATAL_FAILURE(ExpectScans(db.get(), model, {.reverse = true}));
  std::string seen;
  ASSERT_TRUE(db->Scan({.reverse = true},
                       [&](std::string_view key, std::string_view) { return seen += key, true; }, {*snapshot})
                  .ok());
  EXPECT_EQ(seen, "") << "the snapshot is older than all of it";
}

// K4, K6: a scan sees a batch whole or not at all, while rounds seal and flush under it.
TEST(Db, ScansSeeBatchesWholeWhileTheyAreWritten) {
  Directory dir;
  DbOptions options = SmallOptions();
  options.range.active_memtables = 3;
  options.range.scan_page_bytes = 1 << 20;
  const auto db = MustOpen(dir.path(), options);
  constexpr int kKeys = 24, kBatches = 1'500;
  const auto write = [&](int writer, int n) {
    WriteBatch batch;
    for (int k = 0; k < kKeys; ++k) batch.Put(StrCat(k, "-", writer), StrCat(n, std::string(200, 'v')));
    ASSERT_TRUE(db->Write(batch).ok());
  };
  for (int writer = 0; writer < 2; ++writer) write(writer, 0);
  std::atomic<int> writing{2};
  std::vector<std::unique_ptr<Thread>> threads;
  for (int writer = 0; writer < 2; ++writer) {
    threads.push_back(std::make_unique<Thread>("writer", [&, writer] {
      for (int n = 1; n < kBatches; ++n) write(writer, n);
      --writing;
    }));
  }
  int last[2] = {0, 0};
  for (bool more = true; more;) {
    more = writing > 0;
    int seen[2] = {-1, -1}, keys = 0;
    ASSERT_TRUE(db->Scan("", UINT64_MAX, [&](std::string_view key, std::string_view value) {
                    const int writer = key.back() - '0',
                              n = std::stoi(std::string(value.substr(0, value.find('v'))));
                    if (seen[writer] == -1) seen[writer] = n;
                    EXPECT_EQ(n, seen[writer]) << key;
                    ++keys;
                    return true;
                  }).ok());
    ASSERT_EQ(keys, 2 * kKeys);
    for (int writer = 0; writer < 2; ++writer) {
      ASSERT_GE(seen[writer], last[writer]);
      last[writer] = seen[writer];
    }
  }
  EXPECT_EQ(last[0], kBatches - 1);
  EXPECT_EQ(last[1], kBatches - 1);
}

// K6: each increment of a counter counts, while others write keys of its stripe, batches of it too.
TEST(Db, CountersIncrementedByCompareAndSwapSumUp) {
  Directory dir;
  DbOptions options = SmallOptions();
  options.range.active_memtables = 2;
  const auto db = MustOpen(dir.path(), options);
  constexpr int kCounters = 3, kEach = 1'500, kThreads = 4;
  std::atomic<int> failed{0};
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(std::make_unique<Thread>("counter", [&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string key = StrCat("counter-", (i + t) % kCounters);
        for (;;) {
          std::string value;
          const Status s = db->Get(key, &value);
          ASSERT_TRUE(s.ok() || absl::IsNotFound(s)) << s;
          const std::string next = StrCat(s.ok() ? std::stoi(value) + 1 : 1, ".", std::string(50, 'x'));
          const auto swapped =
              db->CompareAndSwap(key, s.ok() ? std::optional<std::string_view>(value) : std::nullopt, next);
          ASSERT_TRUE(swapped.ok()) << swapped.status();
          if (*swapped) break;
          ++failed;
        }
      }
    }));
  }
  // A swap from `a` to `b` that succeeds must not have lost a put between: the writer alternates, so the
  // value is always its last.
  threads.push_back(std::make_unique<Thread>("writer", [&] {
    std::string value;
    for (int i = 0; i < 2'000; ++i) {
      const std::string mine = StrCat("put-", i);
      WriteBatch batch;
      batch.Put("contended", mine);
      for (int k = 0; k < 20; ++k) batch.Put(StrCat("other-", k), mine);
      ASSERT_TRUE((i % 2 == 0 ? db->Write(batch) : db->Put("contended", mine)).ok());
      ASSERT_TRUE(db->Get("contended", &value).ok());
      ASSERT_TRUE(value == mine || value == "swapped-" + mine) << value << " after " << mine;
    }
  }));
  threads.push_back(std::make_unique<Thread>("swapper", [&] {
    std::string value;
    for (int i = 0; i < 2'000; ++i) {
      if (!db->Get("contended", &value).ok() || value.starts_with("swapped-")) continue;
      ASSERT_TRUE(db->CompareAndSwap("contended", value, "swapped-" + value).ok());
    }
  }));
  threads.clear();
  int sum = 0;
  std::string value;
  for (int c = 0; c < kCounters; ++c) {
    ASSERT_TRUE(db->Get(StrCat("counter-", c), &value).ok());
    sum += std::stoi(value);
  }
  EXPECT_EQ(sum, kThreads * kEach) << failed << " swaps were refused";
}

TEST(Db, SnapshotsReadTheirMomentAndMayOutliveTheDatabase) {  // K4
  Directory dir;
  auto db = MustOpen(dir.path(), SmallOptions());
  Model then;
  for (uint64_t i = 0; i < 2'000; ++i) ASSERT_TRUE(db->Put(KeyOf(i), then[KeyOf(i)] = StrCat("old", i)).ok());
  auto snapshot = db->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok());
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 3'000; ++i) {
      ASSERT_TRUE((i % 3 == 0 ? db->Delete(KeyOf(i)) : db->Put(KeyOf(i), std::string(300, 'n'))).ok());
    }
    ASSERT_TRUE(db->Flush().ok());
    ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  }
  Model seen;
  ASSERT_TRUE(db->Scan("", UINT64_MAX,
                       [&](std::string_view k, std::string_view v) {
                         seen[std::string(k)] = v;
                         return true;
                       },
                       {*snapshot})
                  .ok());
  EXPECT_EQ(seen, then);
  std::string value;
  EXPECT_TRUE(absl::IsNotFound(db->Get(KeyOf(3), &value)));
  ASSERT_TRUE(db->Get(KeyOf(3), &value, {*snapshot}).ok());
  EXPECT_EQ(value, "old3");
  const std::string present = KeyOf(3), absent = KeyOf(2'999);
  const std::string_view keys[] = {present, absent, present};
  std::vector<std::optional<std::string>> values;
  ASSERT_TRUE(db->MultiGet(keys, &values, {*snapshot}).ok());
  EXPECT_EQ(values, (std::vector<std::optional<std::string>>{"old3", std::nullopt, "old3"}));
  db = nullptr;
}

TEST(Db, TimesToLiveSurviveReopening) {  // K7
  Directory dir;
  for (int round = 0; round < 2; ++round) {
    const auto db = MustOpen(dir.path(), SmallOptions());
    std::string value;
    if (round == 1) {
      EXPECT_TRUE(db->Get("long", &value).ok());
      EXPECT_EQ(value, "1");
      EXPECT_TRUE(absl::IsNotFound(db->Get("short", &value)));
      EXPECT_TRUE(absl::IsNotFound(db->Get("in a batch", &value)));
    }
    ASSERT_TRUE(db->PutTtl("long", "1", 3'600'000).ok());
    ASSERT_TRUE(db->PutTtl("short", "2", 1).ok());
    WriteBatch batch;
    batch.PutTtl("in a batch", "3", 1);
    ASSERT_TRUE(db->Write(batch).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(db->PutTtl("k", "v", 0)));
    batch.PutTtl("k", "v", -5);
    EXPECT_TRUE(absl::IsInvalidArgument(db->Write(batch)));
    SleepFor(3 * kMillisecond);
  }
}

TEST(Db, ManyThreadsWriteAndReadWhatTheyWrote) {
  Directory dir;
  const auto db = MustOpen(dir.path(), SmallOptions());
  std::vector<std::unique_ptr<Thread>> threads;
  for (int t = 0; t < 4; ++t) {
    threads.push_back(std::make_unique<Thread>("writer", [&, t] {
      std::string value;
      for (int i = 0; i < 5'000; ++i) {
        const std::string key = std::to_string(t) + "-" + std::to_string(i % 700);
        ASSERT_TRUE(db->Put(key, std::to_string(i) + std::string(100, 'x')).ok());
        ASSERT_TRUE(db->Get(key, &value).ok());
        ASSERT_EQ(value, std::to_string(i) + std::string(100, 'x'));
      }
    }));
  }
  threads.clear();
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
}

// Memtables that stay in memory because it lasts are flushed for whoever waits for them: Flush,
// WaitForBackgroundWork, an orderly close.
TEST(Db, HeldMemtablesAreFlushedForWhoeverWaits) {
  const Directory directory;
  DbOptions options = SmallOptions();
  options.log = DbLog::kNone;
  options.range.merge_rounds = MergeRounds::kAlways;
  options.range.table_lag_ns = 3600 * kSecond;
  auto db = MustOpen(directory.path(), options);
  Model model;
  const auto fill_a_round = [&] {
    while (db->stats().rounds == 1) {
      const std::string key = StrCat("key", model.size()), value(1000, 'v');
      ASSERT_TRUE(db->Put(key, value).ok());
      model[key] = value;
      SleepFor(kMillisecond);  // slow enough for memory to last
    }
    SleepFor(300 * kMillisecond);
    ASSERT_EQ(db->stats().rounds, 2);
  };
  fill_a_round();
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  EXPECT_EQ(db->stats().rounds, 1);
  fill_a_round();
  ASSERT_TRUE(db->Flush().ok());
  EXPECT_EQ(db->stats().rounds, 1);
  fill_a_round();
  db = nullptr;
  db = MustOpen(directory.path(), options);
  ExpectHolds(db.get(), model);
}

// Files of dir's tables that this process has open.
int OpenTables(const Directory& dir, bool deleted) {
  int n = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    const std::string file = std::filesystem::read_symlink(fd.path(), gone).string();
    n += file.starts_with(dir.path()) && file.find(".sst") != file.npos &&
         file.ends_with(" (deleted)") == deleted;
  }
  return n;
}

TEST(Db, TablesAreKeptOpenUntilTheyAreDeleted) {
  const Directory dir;
  DbOptions options = SmallOptions();
  options.map_tables = false;
  options.cache_bytes = 0;
  options.max_open_files = 3;
  options.range.compaction.level0_runs_trigger = 1;
  const auto db = MustOpen(dir.path(), options);
  Random random(5);
  std::string value;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 500; ++i)
      ASSERT_TRUE(db->Put(StrCat("key", random.Uniform(2000)), std::string(1000, 'v')).ok());
    ASSERT_TRUE(db->Flush().ok());
    for (int i = 0; i < 200; ++i) {
      const Status s = db->Get(StrCat("key", i), &value);
      ASSERT_TRUE(s.ok() || absl::IsNotFound(s)) << s;
    }
  }
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  ASSERT_TRUE(db->Put("key0", "v").ok() && db->Flush().ok() && db->WaitForBackgroundWork().ok());
  for (int i = 1; i < 200; ++i) db->Get(StrCat("key", i), &value).IgnoreError();
  EXPECT_GT(OpenTables(dir, /*deleted=*/false), 0);
  // A dropped table may be waiting for its deletion.
  for (const Nanos until = Now() + 30 * kSecond;
       (OpenTables(dir, /*deleted=*/false) > 3 || OpenTables(dir, /*deleted=*/true) > 0) && Now() < until;) {
    SleepFor(10 * kMillisecond);
  }
  EXPECT_LE(OpenTables(dir, /*deleted=*/false), 3);
  EXPECT_EQ(OpenTables(dir, /*deleted=*/true), 0) << "their space is not the disk's again";
}

// Of blocks of three entries each one is asked for: the cache holds these, and not the blocks.
TEST(Db, TheCacheHoldsLargeEntriesWithoutTheirNeighbours) {
  constexpr int kKeys = 3000, kStep = 10;
  const auto key = [](int i) { return StrCat("key", 10'000 + i); };
  const Directory dir;
  DbOptions options = SmallOptions();
  options.map_tables = false;
  options.cache_bytes = 8 << 20;
  options.range.compaction.level0_runs_trigger = 1;  // else tables are merged, and read anew, once it is idle
  const auto db = MustOpen(dir.path(), options);
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db->Put(key(i), std::string(1000, 'o')).ok());
  const auto snapshot = db->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok());
  for (int i = 0; i < kKeys; i += kStep) ASSERT_TRUE(db->Put(key(i), std::string(1000, 'n')).ok());
  ASSERT_TRUE(db->Flush().ok());
  ASSERT_TRUE(db->WaitForBackgroundWork().ok());
  std::string value;
  for (int i = 0; i < kKeys; i += kStep) {
    for (int times = 0; times < 2; ++times) {
      ASSERT_TRUE(db->Get(key(i), &value).ok());
      EXPECT_EQ(value, std::string(1000, 'n'));
    }
  }
  EXPECT_LT(db->memory_use().block_cache, size_t{kKeys / kStep * 1500});
  DbReadOptions at;
  at.snapshot = *snapshot;
  for (int i = 0; i < kKeys; i += kStep) {
    ASSERT_TRUE(db->Get(key(i), &value, at).ok());
    EXPECT_EQ(value, std::string(1000, 'o')) << "the cached entry is newer";
    ASSERT_TRUE(db->Get(key(i), &value).ok());
    EXPECT_EQ(value, std::string(1000, 'n'));
  }
}

// On a slow disk compactions and flushes leave some of its time to reads that wait for it; where nobody
// reads, none.
TEST(Db, BackgroundWorkOnASlowDiskPausesForReads) {
  const Directory directory;
  const auto base = OpenPosixDisk(directory.path());
  ASSERT_TRUE(base.ok()) << base.status();
  LimitedDisk disk(base->get(), {.bytes_per_second = 8 << 20, .burst_bytes = 4 << 10});
  DbOptions options = SmallOptions();
  options.cache_bytes = 0;
  options.disk = &disk;
  options.log = DbLog::kNone;
  options.range.compaction.level0_runs_trigger = 1;
  const auto db = MustOpen(directory.path(), options);
  Random random(3);
  const auto write = [&](int keys) {
    for (int i = 0; i < keys; ++i)
      ASSERT_TRUE(db->Put(StrCat("key", random.Uniform(2000)), std::string(1000, 'v')).ok());
  };
  write(4000);
  ASSERT_TRUE(db->Flush().ok());
  EXPECT_EQ(db->stats().paused_ns, 0);
  std::atomic<bool> stop{false};
  {
    Thread reader("reader", [&] {
      Random mine(4);
      for (std::string value; !stop.load();) {
        const Status s = db->Get(StrCat("key", mine.Uniform(2000)), &value);
        EXPECT_TRUE(s.ok() || absl::IsNotFound(s)) << s;
      }
    });
    for (const Nanos until = Now() + 60 * kSecond; db->stats().paused_ns == 0 && Now() < until;) {
      write(600);
      SleepFor(300 * kMillisecond);  // writers that wait would come first
    }
    stop = true;
  }
  EXPECT_GT(db->stats().paused_ns, 0);
}

// D, persistent: an acknowledged write survives the death of the process.
TEST(Db, AKilledProcessLosesNothingAcknowledged) {
  Directory dir;
  for (int round = 0; round < 3; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      DbOptions options = SmallOptions();
      auto db = Db::Open(dir.path(), options);
      if (!db.ok()) _exit(1);
      for (uint32_t i = 0;; ++i) {
        if (!(*db)->Put(StrCat(round, "-", i), std::string(200, 'v')).ok()) _exit(2);
        if (write(fds[1], &i, sizeof(i)) != sizeof(i)) _exit(3);
      }
    }
    uint32_t acknowledged = 0;
    while (acknowledged < 5'000)
      ASSERT_EQ(read(fds[0], &acknowledged, sizeof(acknowledged)), ssize_t{sizeof(acknowledged)});
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    close(fds[1]);
    while (read(fds[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged)) {
    }
    close(fds[0]);
    const auto db = MustOpen(dir.path(), SmallOptions());
    ASSERT_NE(db, nullptr);
    std::string value;
    for (int r = 0; r <= round; ++r) {
      for (uint32_t i = 0; i <= (r == round ? acknowledged : 5'000); ++i) {
        ASSERT_TRUE(db->Get(StrCat(r, "-", i), &value).ok()) << r << "-" << i;
      }
    }
  }
}

// K6: the batch under way when the process died is there whole or not at all.
TEST(Db, AKilledProcessLeavesBatchesWhole) {
  Directory dir;
  constexpr uint32_t kKeys = 40;
  const auto key = [](uint32_t i) { return StrCat("key-", i); };
  uint32_t first = 0;
  for (int round = 0; round < 3; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      DbOptions options = SmallOptions();
      options.range.active_memtables = 1 + round;  // one record, several memtables
      auto db = Db::Open(dir.path(), options);
      if (!db.ok()) _exit(1);
      for (uint32_t n = first;; ++n) {
        WriteBatch batch;
        for (uint32_t i = 0; i < kKeys; ++i) batch.Put(key(i), StrCat(n, std::string(100, 'v')));
        if (!(*db)->Write(batch).ok()) _exit(2);
        if (write(fds[1], &n, sizeof(n)) != sizeof(n)) _exit(3);
      }
    }
    close(fds[1]);
    uint32_t acknowledged = 0;
    while (acknowledged < first + 300)
      ASSERT_EQ(read(fds[0], &acknowledged, sizeof(acknowledged)), ssize_t{sizeof(acknowledged)});
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    while (read(fds[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged)) {
    }
    close(fds[0]);
    const auto db = MustOpen(dir.path(), SmallOptions());
    ASSERT_NE(db, nullptr);
    std::string all, value;
    for (uint32_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(db->Get(key(i), &value).ok());
      if (i == 0) all = value;
      ASSERT_EQ(value, all) << "key " << i;
    }
    const auto found = static_cast<uint32_t>(std::stoul(all));
    EXPECT_TRUE(found == acknowledged || found == acknowledged + 1) << found << " after " << acknowledged;
    first = found + 1;
  }
}

// K6, D: a loss of power keeps every synced batch, and of the others each whole or not at all.
TEST(Db, ALossOfPowerLeavesBatchesWhole) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    SimDisk medium;
    std::map<std::string, bool> synced;  // batch
    std::map<std::string, size_t> sizes;
    for (int round = 0; round < 3; ++round) {
      const auto disk = medium.Mount();
      DbOptions options = SmallOptions();
      options.range.active_memtables = 1 + static_cast<int>(random.Uniform(3));
      options.disk = disk.get();
      const auto db = MustOpen("", options);
      ASSERT_NE(db, nullptr);
      std::map<std::string, size_t> found;
      ASSERT_TRUE(db->Scan("", UINT64_MAX, [&](std::string_view k, std::string_view) {
                      ++found[std::string(k.substr(0, k.find('/')))];
                      return true;
                    }).ok());
      for (const auto& [batch, size] : sizes) {
        const size_t n = found.contains(batch) ? found[batch] : 0;
        ASSERT_TRUE(n == size || (n == 0 && !synced[batch]))
            << "seed " << seed << ", batch " << batch << ": " << n << " of " << size;
      }
      const uint64_t writes = random.Uniform(300);
      for (uint64_t i = 0; i < writes; ++i) {
        const std::string name = StrCat(round, ".", i);
        WriteBatch batch;
        sizes[name] = 1 + random.Uniform(30);
        for (size_t k = 0; k < sizes[name]; ++k)
          batch.Put(StrCat(name, "/", k), std::string(random.Uniform(300), 's'));
        synced[name] = random.OneIn(4);
        ASSERT_TRUE(db->Write(batch, {synced[name]}).ok());
      }
      random.OneIn(2) ? medium.Crash(&random) : medium.Crash();
    }
  }
}

// D, persistent with sync: it survives a loss of power, with whatever else the disk kept of what was not
// synced.
TEST(Db, ALossOfPowerKeepsEverySyncedWrite) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    SimDisk medium;
    Model synced;
    for (int round = 0; round < 3; ++round) {
      const auto disk = medium.Mount();
      DbOptions options = SmallOptions();
      options.disk = disk.get();
      const auto db = MustOpen("", options);
      ASSERT_NE(db, nullptr);
      std::string value;
      for (const auto& [key, expected] : synced) {
        ASSERT_TRUE(db->Get(key, &value).ok()) << "seed " << seed << " lost " << key;
        ASSERT_EQ(value, expected);
      }
      const uint64_t writes = random.Uniform(1'500);
      for (uint64_t i = 0; i < writes; ++i) {
        const bool sync = random.OneIn(4);
        // Each key once: what was not synced may or may not be there.
        const std::string key = StrCat(round, ".", i);
        const std::string text(random.Uniform(600), 's');
        ASSERT_TRUE(db->Put(key, text, {sync}).ok());
        if (sync) synced[key] = text;
      }
      random.OneIn(2) ? medium.Crash(&random) : medium.Crash();
    }
  }
}

TEST(Db, ADiskThatFillsUpRefusesWritesAndGoesOnWhenThereIsSpace) {
  SimDisk medium;
  const auto mounted = medium.Mount();
  FaultDisk disk(mounted.get());
  DbOptions options = SmallOptions();
  options.disk = &disk;
  auto db = MustOpen("", options);
  ASSERT_TRUE(db->Put("before", "1").ok());
  disk.Add({"log-", DiskOp::kWrite, FaultAction::kNoSpace});
  EXPECT_TRUE(absl::IsResourceExhausted(db->Put("refused", "2"))) << db->Put("refused", "2");
  std::string value;
  EXPECT_TRUE(db->Get("before", &value).ok());
  EXPECT_TRUE(absl::IsNotFound(db->Get("refused", &value)));
  disk.Clear();
  EXPECT_TRUE(db->Put("after", "3").ok());
  db = nullptr;
  db = MustOpen("", options);
  EXPECT_TRUE(db->Get("before", &value).ok());
  EXPECT_TRUE(db->Get("after", &value).ok());
  EXPECT_TRUE(absl::IsNotFound(db->Get("refused", &value)));
}

// S1: after a failed sync the file is not trusted again; the write is unknown, later ones go to another file.
TEST(Db, AFailedSyncIsUnknownAndLaterWritesAreSafe) {
  SimDisk medium;
  {
    const auto mounted = medium.Mount();
    FaultDisk disk(mounted.get());
    DbOptions options = SmallOptions();
    options.disk = &disk;
    const auto db = MustOpen("", options);
    ASSERT_TRUE(db->Put("before", "1", {true}).ok());
    disk.Add({"log-", DiskOp::kSync, FaultAction::kEio, 1, 1});
    const Status s = db->Put("unknown", "2", {true});
    EXPECT_TRUE(absl::IsUnknown(s)) << s;
    ASSERT_TRUE(db->Put("after", "3", {true}).ok());
    medium.Crash();
  }
  const auto mounted = medium.Mount();
  DbOptions options = SmallOptions();
  options.disk = mounted.get();
  const auto db = MustOpen("", options);
  std::string value;
  EXPECT_TRUE(db->Get("before", &value).ok());
  EXPECT_TRUE(db->Get("after", &value).ok());
}

TEST(Db, BadInputIsNamedAndWritesNothing) {
  Directory dir;
  DbOptions options = SmallOptions();
  options.range.max_value_bytes = 1'000;
  const auto db = MustOpen(dir.path(), options);
  EXPECT_TRUE(absl::IsInvalidArgument(db->Put("", "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(db->Put(std::string(4'097, 'k'), "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(db->Put("k", std::string(1'001, 'v'))));
  WriteBatch batch;
  EXPECT_TRUE(db->Write(batch).ok());
  batch.Put("k", "v");
  batch.Put("k2", std::string(1'001, 'v'));
  EXPECT_TRUE(absl::IsInvalidArgument(db->Write(batch)));
  batch.Clear();
  for (int i = 0; i < 10'001; ++i) batch.Put("k", "v");
  EXPECT_TRUE(absl::IsInvalidArgument(db->Write(batch)));
  EXPECT_TRUE(db->Put(std::string(4'096, 'k'), std::string(1'000, 'v')).ok());
  std::string value;
  EXPECT_TRUE(db->Get(std::string(4'096, 'k'), &value).ok());
  EXPECT_TRUE(absl::IsNotFound(db->Get("k", &value)));
}

TEST(Db, ADirectoryIsOnesOwnAndOneAtATime) {
  Directory dir;
  {
    const auto db = MustOpen(dir.path(), SmallOptions());
    const auto second = Db::Open(dir.path(), SmallOptions());
    EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  }
  Directory other;
  std::ofstream(other.path() + "/thesis.tex") << "precious";
  EXPECT_TRUE(absl::IsInvalidArgument(Db::Open(other.path(), SmallOptions()).status()));
  Directory empty;
  DbOptions options = SmallOptions();
  options.create_if_missing = false;
  EXPECT_TRUE(absl::IsNotFound(Db::Open(empty.path(), options).status()));
  std::ofstream(dir.path() + "/IDENTITY") << "nova database, format 9, epoch 3\n";
  EXPECT_TRUE(absl::IsFailedPrecondition(Db::Open(dir.path(), SmallOptions()).status()));
}

}  // namespace
}  // namespace nova
