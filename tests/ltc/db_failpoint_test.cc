// The embedded database stopped at every failpoint: by the death of its process, by a loss of power, by an
// error of the step. What was acknowledged is found, and every failpoint there is was met.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

constexpr int kKeys = 200;
constexpr uint32_t kMostOps = 30'000;  // long before, every step was taken

// A few hundred writes flush, a few thousand compact.
DbOptions SmallOptions(Disk* disk) {
  DbOptions o;
  o.memtable_bytes = 4 << 20;
  o.cache_bytes = 64 << 10;
  o.range.memtable_size_bytes = 64 << 10;
  o.range.merge_rounds = MergeRounds::kAlways;
  o.range.table_lag_ns = 10 * kMillisecond;  // memory has room for all of it
  o.range.table.block_size_bytes = 1 << 10;
  o.range.compaction.table_size_bytes = 64 << 10;
  o.range.compaction.level1_bytes = 256 << 10;
  o.range.compaction.level0_runs_trigger = 4;
  o.range.compaction.dranges = 4;
  o.range.compaction.least_table_bytes = 4 << 10;
  o.disk = disk;
  return o;
}

// Op i of the one writer there is: a put, or the deletion, of one of kKeys keys; every seventh is synced. Two
// of three are of a few keys, so that rounds are merged.
std::string KeyOf(uint32_t i) { return StrCat("key", i * 7919 % (i % 3 == 0 ? kKeys : kKeys / 10)); }
bool IsDelete(uint32_t i) { return i % 11 == 3; }
bool IsSynced(uint32_t i) { return i % 7 == 0; }
std::string ValueOf(uint32_t i) { return StrCat(i, ":", std::string(400 + i % 200, 'v')); }
Status Do(Db* db, uint32_t i) {
  const DbWriteOptions options{IsSynced(i)};
  return IsDelete(i) ? db->Delete(KeyOf(i), options) : db->Put(KeyOf(i), ValueOf(i), options);
}

// Of each key: the last op that must be there, unless a later one of the key, up to `issued`, is.
using Last = std::map<std::string, uint32_t>;
void ExpectKept(Db* db, const Last& kept, uint32_t issued) {
  for (int k = 0; k < kKeys; ++k) {
    const std::string key = StrCat("key", k);
    std::string value;
    const Status s = db->Get(key, &value);
    ASSERT_TRUE(s.ok() || absl::IsNotFound(s)) << key << ": " << s;
    const auto is = [&](uint32_t i) {
      return i == 0 || IsDelete(i) ? absl::IsNotFound(s) : s.ok() && value == ValueOf(i);
    };
    const auto it = kept.find(key);
    uint32_t i = it == kept.end() ? 0 : it->second;
    bool found = is(i);
    while (!found && ++i <= issued) found = KeyOf(i) == key && is(i);
    ASSERT_TRUE(found) << key << " is " << (s.ok() ? value.substr(0, 20) : "gone") << ", it must be op "
                       << (it == kept.end() ? 0 : it->second) << " or later, " << issued << " were issued";
  }
}

// Ops `from`.. until one fails, or there were enough; the last that was issued. `acknowledged` of each that
// was.
uint32_t Work(Db* db, uint32_t from, uint32_t most, const std::function<void(uint32_t)>& acknowledged) {
  for (uint32_t i = from; i < from + most; ++i) {
    if (!Do(db, i).ok()) return i;
    acknowledged(i);
  }
  return from + most - 1;
}

constexpr uint32_t kBefore = 600;  // ops before the database is opened with the failpoint armed
Last Fill(const std::string& path, Disk* disk) {
  Last last;
  const auto db = Db::Open(path, SmallOptions(disk));
  EXPECT_TRUE(db.ok()) << db.status();
  if (db.ok()) {
    EXPECT_EQ(Work(db->get(), 1, kBefore, [&](uint32_t i) { last[KeyOf(i)] = i; }), kBefore);
  }
  return last;
}

// Those that an embedded database meets: the others are of StoCs and of the log on them
// (tests/cluster_sim/log_failpoint_test.cc), of tables that ranges share there
// (tests/stoc/file_references_test.cc, shared_table_test.cc), of copies (tests/ltc/rebuilder_test.cc), and of
// leases and releases, at which the chaos stops processes (tests/cluster_sim/chaos.cc).
std::vector<size_t> PointsOfTheEngine() {
  constexpr std::string_view kElsewhere[] = {"stoc.",    "logc.", "refs.",    "import.",
                                             "rebuild.", "ltc.",  "offload.", "coordinator."};
  std::vector<size_t> points;
  for (size_t i = 0; i < kFailPoints.size(); ++i) {
    const std::string_view name = kFailPoints[i].name;
    if (std::none_of(std::begin(kElsewhere), std::end(kElsewhere),
                     [&](std::string_view p) { return name.starts_with(p); }))
      points.push_back(i);
  }
  return points;
}

class FailPointTest : public testing::TestWithParam<size_t> {
 protected:
  ~FailPointTest() override { DisarmFailPoints(); }
  const FailPointInfo& point() const { return kFailPoints[GetParam()]; }
};
INSTANTIATE_TEST_SUITE_P(All, FailPointTest, testing::ValuesIn(PointsOfTheEngine()), [](const auto& p) {
  std::string name(kFailPoints[p.param].name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST_P(FailPointTest, TheDeathOfTheProcessThereLosesNothingAcknowledged) {  // D, M2
  for (const int nth : {1, 2}) {
    Directory dir;
    Last kept = Fill(dir.path(), nullptr);
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      if (!ArmFailPoints(StrCat(std::string(point().name), "=crash@", nth)).ok()) _exit(1);
      // The second hit of what is met once at an open comes with the second open.
      uint32_t next = kBefore + 1;
      for (int open = 0; open < 3; ++open) {
        auto db = Db::Open(dir.path(), SmallOptions(nullptr));
        if (!db.ok()) _exit(2);
        next = 1 + Work(db->get(), next, kMostOps / 3, [&](uint32_t i) {
                 if (write(fds[1], &i, sizeof(i)) != sizeof(i)) _exit(3);
               });
      }
      _exit(4);
    }
    close(fds[1]);
    uint32_t i = 0, last = kBefore;
    while (read(fds[0], &i, sizeof(i)) == sizeof(i)) kept[KeyOf(last = i)] = i;
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        << point().name << " was not met " << nth << " times: the child ended with " << status << " after op "
        << last;
    const auto db = Db::Open(dir.path(), SmallOptions(nullptr));
    ASSERT_TRUE(db.ok()) << db.status();
    ExpectKept(db->get(), kept, last + 1);  // the one writer had one op under way
    Work(db->get(), last + 2, 500, [&](uint32_t n) { kept[KeyOf(n)] = n; });
    ExpectKept(db->get(), kept, last + 501);
  }
}

TEST_P(FailPointTest, ALossOfPowerThereLosesNothingSynced) {  // D, S4
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Random random(seed);
    SimDisk medium;
    uint32_t issued = 0;
    Last synced;
    {
      const auto disk = medium.Mount();
      Fill("", disk.get());
      for (uint32_t i = 1; i <= kBefore; ++i) {
        if (IsSynced(i)) synced[KeyOf(i)] = i;
      }
    }
    {
      const auto disk = medium.Mount();
      ASSERT_TRUE(ArmFailPoint(point().name, 1 + random.Uniform(3), [&] {
                    random.OneIn(2) ? medium.Crash(&random) : medium.Crash();
                    return OkStatus();
                  }).ok());
      issued = kBefore;
      for (int open = 0; open < 4 || (FailPointHits(point().name) == 0 && issued < kMostOps); ++open) {
        const auto db = Db::Open("", SmallOptions(disk.get()));
        if (!db.ok()) break;
        issued = Work(db->get(), issued + 1, kMostOps / 10, [&](uint32_t i) {
          if (IsSynced(i)) synced[KeyOf(i)] = i;
        });
      }
      EXPECT_GT(FailPointHits(point().name), 0u);
      DisarmFailPoints();
    }
    const auto disk = medium.Mount();
    const auto db = Db::Open("", SmallOptions(disk.get()));
    ASSERT_TRUE(db.ok()) << "seed " << seed << ": " << db.status();
    ExpectKept(db->get(), synced, issued);
  }
}

TEST_P(FailPointTest, AnErrorThereLosesNothingAcknowledged) {  // S1
  if (!point().may_fail) {
    EXPECT_TRUE(absl::IsInvalidArgument(ArmFailPoints(StrCat(std::string(point().name), "=error"))));
    return;
  }
  Directory dir;
  Last kept = Fill(dir.path(), nullptr);
  ASSERT_TRUE(ArmFailPoints(StrCat(std::string(point().name), "=error@1")).ok());
  uint32_t issued = kBefore;
  for (int open = 0; open < 2; ++open) {
    const auto db = Db::Open(dir.path(), SmallOptions(nullptr));
    if (!db.ok()) continue;  // it was its turn
    const auto is_enough = [&] {
      return issued >= kMostOps / 10 && (FailPointHits(point().name) > 0 || issued >= kMostOps);
    };
    for (int failures = 0; failures < 3 && !is_enough();) {
      const uint32_t last = issued + kMostOps / 10;
      issued = Work(db->get(), issued + 1, kMostOps / 10, [&](uint32_t i) { kept[KeyOf(i)] = i; });
      failures += issued < last;
    }
    ExpectKept(db->get(), kept, issued);
  }
  EXPECT_GT(FailPointHits(point().name), 0u);
  DisarmFailPoints();
  const auto db = Db::Open(dir.path(), SmallOptions(nullptr));
  ASSERT_TRUE(db.ok()) << db.status();
  ExpectKept(db->get(), kept, issued);
}

TEST(FailPoints, OrdersThatAreWrongAreNamed) {
  for (const char* orders :
       {"no.such=crash", "log.written", "log.written=", "log.written=explode", "log.written=crash@0",
        "log.written=crash@x", "log.written=delay", "log.written=delay:x", "flush.committed=error"}) {
    const Status s = ArmFailPoints(orders);
    EXPECT_TRUE(absl::IsInvalidArgument(s)) << orders << ": " << s;
  }
  DisarmFailPoints();
}

TEST(FailPoints, TheTextNamesEach) {
  const std::string text = FailPointsText();
  for (const FailPointInfo& p : kFailPoints)
    EXPECT_NE(text.find(StrCat(std::string(p.name), " ")), std::string::npos) << p.name;
}

}  // namespace
}  // namespace nova
