// Threads of an application: any number, coming and going, some of them waiting: none is in another's way.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "common/base/fault_disk.h"
#include "common/base/thread.h"
#include "ltc/embedded/caller_lane.h"
#include "ltc/embedded/db.h"
#include "ltc/engine/sequence_tracker.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

constexpr size_t kLanes = 64, kForReads = 2;
using For = CallerLanes::For;

void OnAThread(const std::function<void()>& body) { Thread thread("caller", body); }

size_t LaneOf(CallerLanes* lanes) {
  CallerLane* const lane = lanes->Take(For::kWrites);
  const CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
  return lane->index();
}

TEST(CallerLanesTest, AThreadKeepsItsLaneAndAnotherThreadHasAnother) {
  CallerLanes lanes(kLanes, kForReads);
  const size_t mine = LaneOf(&lanes);
  EXPECT_EQ(LaneOf(&lanes), mine);
  OnAThread([&] { EXPECT_NE(LaneOf(&lanes), mine); });
  EXPECT_EQ(LaneOf(&lanes), mine);
}

TEST(CallerLanesTest, ThreadsThatComeAndGoUseOneLane) {
  CallerLanes lanes(kLanes, kForReads);
  std::set<size_t> used;
  for (int i = 0; i < 1'000; ++i) OnAThread([&] { used.insert(LaneOf(&lanes)); });
  EXPECT_EQ(used.size(), 1u);
}

TEST(CallerLanesTest, AThreadWhoseLaneIsTakenGoesToAnotherAndStaysThere) {
  CallerLanes lanes(kLanes, kForReads);
  const size_t first = LaneOf(&lanes);
  const CallerLane::Hold other_holds(lanes.all()[first].get());
  const size_t second = LaneOf(&lanes);
  EXPECT_NE(second, first);
  EXPECT_EQ(LaneOf(&lanes), second);
}

TEST(CallerLanesTest, ReadsHaveLanesWhereWritersHaveAllOthers) {
  CallerLanes lanes(kLanes, kForReads);
  std::vector<std::unique_ptr<CallerLane::Hold>> writers;
  for (size_t i = 0; i < kLanes; ++i)
    writers.push_back(
        std::make_unique<CallerLane::Hold>(lanes.Take(For::kWrites), CallerLane::Hold::Taken()));
  CallerLane* const read = lanes.Take(For::kReads);
  EXPECT_GE(read->index(), lanes.for_writes());
  const CallerLane::Hold hold(read, CallerLane::Hold::Taken());
}

// A thread sleeps for its operation on a lane; others use the lane meanwhile, and it wakes when its operation
// is done.
TEST(CallerLanesTest, ALaneOnWhichAThreadSleepsIsOfUseToOthers) {
  CallerLanes lanes(1, 0);
  std::atomic<bool> sleeps{false};
  bool done = false, woke = false;
  Thread sleeper("sleeper", [&] {
    CallerLane* const lane = lanes.Take(For::kWrites);
    CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
    lane->RunAt(Now() + kSecond, [] {});
    sleeps = true;
    hold.RunUntil(&done);
    woke = true;
  });
  while (!sleeps) SleepFor(kMillisecond);
  const Nanos begin = Now();
  for (int i = 0; i < 1'000; ++i) {
    CallerLane* const lane = lanes.Take(For::kReads);
    const CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
    EXPECT_TRUE(lane->IsCurrentThread());
    if (i == 999) lane->Submit([&] { done = true; });
  }
  sleeper.Join();
  EXPECT_TRUE(woke);
  EXPECT_LT(Now() - begin, 900 * kMillisecond) << "somebody waited for the timer";
}

// Each lane in turn is the one that is let go of.
TEST(CallerLanesTest, WhoeverWaitsHasTheLaneThatIsLetGoOfFirst) {
  for (const For what : {For::kWrites, For::kReads}) {
    constexpr size_t kWrite = 4, kRead = 2;
    CallerLanes lanes(kWrite, kRead);
    std::vector<std::unique_ptr<CallerLane::Hold>> held;
    for (const auto& lane : lanes.all()) held.push_back(std::make_unique<CallerLane::Hold>(lane.get()));
    const size_t begin = what == For::kWrites ? 0 : kWrite,
                 end = what == For::kWrites ? kWrite : kWrite + kRead;
    for (size_t i = begin; i < end; ++i) {
      Notification has;
      size_t index = 0;
      Thread waiter("waiter", [&] {
        CallerLane* const lane = lanes.Take(what);
        const CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
        index = lane->index();
        has.Notify();
      });
      SleepFor(20 * kMillisecond);  // it has tried each of them
      held[i].reset();
      const bool had = has.WaitUntil(Now() + 30 * kSecond);
      EXPECT_TRUE(had) << "lane " << i;
      if (!had) held.clear();  // so that the waiter ends
      waiter.Join();
      if (!had) break;
      EXPECT_EQ(index, i);
      held[i] = std::make_unique<CallerLane::Hold>(lanes.all()[i].get());
    }
  }
}

TEST(CallerLanesTest, ManyThreadsOnFewLanesEachEndTheirOperations) {
  CallerLanes lanes(3, 1);
  std::atomic<int> ended{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 12; ++t) {
      threads.push_back(std::make_unique<Thread>("caller", [&, t] {
        for (int i = 0; i < 300; ++i) {
          CallerLane* const lane = lanes.Take(t % 3 == 0 ? For::kReads : For::kWrites);
          CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
          bool done = false;
          const auto end = [&done, &ended] {
            done = true;
            ++ended;
          };
          if (i % 3 == 0) {
            end();
          } else if (i % 3 == 1) {
            lane->RunAt(Now() + (i % 7) * 100 * kMicrosecond, end);
          } else {
            lane->Submit(end);
          }
          hold.RunUntil(&done);
          EXPECT_TRUE(done);
        }
      }));
    }
  }
  EXPECT_EQ(ended, 12 * 300);
}

// --- a database whose writers wait

// Flushes that take for ever, and memory for few writes: so writers stand still.
struct Stalled {
  Stalled() {
    DbOptions options;
    options.log = DbLog::kNone;
    options.memtable_bytes = 1 << 20;
    options.range.memtable_size_bytes = 128 << 10;
    options.range.table_lag_ns = 0;
    options.disk = &disk;
    db = std::move(Db::Open("", options)).value();
    EXPECT_TRUE(db->Put("key", "value").ok());
    EXPECT_TRUE(db->Flush().ok());
    disk.Add({".sst", DiskOp::kWrite, FaultAction::kDelay, 1, UINT64_MAX, 300 * kMillisecond});
  }
  ~Stalled() {
    stop = true;
    disk.Clear();
    writers.clear();
  }
  void Start(int threads) {
    for (int t = 0; t < threads; ++t) {
      writers.push_back(std::make_unique<Thread>(StrCat("writer.", t), [this, t] {
        for (uint64_t i = 0; !stop; ++i) {
          writing[t] = Now();
          EXPECT_TRUE(db->Put(StrCat("w", t, "/", i), std::string(20'000, 'v')).ok());
        }
      }));
    }
  }
  // All of them wait, and have for a while.
  void AwaitStandstill() {
    const auto stands = [this] {
      for (size_t t = 0; t < writers.size(); ++t) {
        if (writing[t] == 0 || Now() - writing[t] < 50 * kMillisecond) return false;
      }
      return true;
    };
    for (const Nanos until = Now() + 60 * kSecond; !stands() && Now() < until;) SleepFor(kMillisecond);
  }

  Directory dir;
  std::unique_ptr<Disk> posix = *OpenPosixDisk(dir.path());
  FaultDisk disk{posix.get()};
  std::unique_ptr<Db> db;
  std::atomic<bool> stop{false};
  std::array<std::atomic<Nanos>, 128> writing{};
  std::vector<std::unique_ptr<Thread>> writers;
};

// Of a thread that is born now.
Nanos LongestGet(Db* db) {
  Nanos longest = 0;
  OnAThread([&] {
    for (int i = 0; i < 20; ++i) {
      std::string value;
      const Nanos begin = Now();
      EXPECT_TRUE(db->Get("key", &value).ok());
      longest = std::max(longest, Now() - begin);
    }
  });
  return longest;
}

TEST(DbThreadsTest, AGetDoesNotWaitForAWriteThatIsParked) {
  Stalled stalled;
  stalled.Start(1);
  for (int i = 0; i < 5; ++i) {
    stalled.AwaitStandstill();
    // 63 threads that came and went bring the 65th to where the first one is.
    for (int born = 0; born < 63; ++born)
      OnAThread([&] {
        std::string value;
        EXPECT_TRUE(stalled.db->Get("key", &value).ok());
      });
    EXPECT_LT(LongestGet(stalled.db.get()), 40 * kMillisecond);
  }
}

TEST(DbThreadsTest, NorForAHundredOfThem) {
  Stalled stalled;
  stalled.Start(100);
  stalled.AwaitStandstill();
  EXPECT_LT(LongestGet(stalled.db.get()), 100 * kMillisecond);
}

// A sync that a disk does not come back from for seconds holds up those that wait for it, and nobody else, as
// long as no more numbers are unfinished than a range may have (K4): 64 writers that ask for no sync, more
// than write lanes with the one that hangs, and a reader. Beyond that writers wait; none fails, and reads go
// on.
TEST(DbThreadsTest, ASyncThatHangsHoldsUpNoReadAndNoOtherWriteOfAWindow) {
  constexpr Nanos kHangs = 8 * kSecond;
  constexpr uint64_t kWriters = 64, kInWindow = SequenceTracker::kWindow / 2 / kWriters;
  const Directory dir;
  const std::unique_ptr<Disk> posix = *OpenPosixDisk(dir.path());
  FaultDisk disk(posix.get());
  DbOptions options;
  options.disk = &disk;
  const std::unique_ptr<Db> db = std::move(Db::Open("", options)).value();
  ASSERT_TRUE(db->Put("key", "value", {.sync = true}).ok());
  disk.Add({"log-", DiskOp::kSync, FaultAction::kDelay, 1, 1, kHangs});
  std::atomic<Nanos> synced{0}, in_window{0}, longest_get{0};
  std::atomic<bool> stop{false};
  const Nanos begin = Now();
  {
    const Thread reader("reader", [&] {
      while (!stop) {
        std::string value;
        const Nanos began = Now();
        EXPECT_TRUE(db->Get("key", &value).ok());
        longest_get = std::max(longest_get.load(), Now() - began);
      }
    });
    const Thread syncer("syncer", [&] {
      EXPECT_TRUE(db->Put("synced", "value", {.sync = true}).ok());
      synced = Now();
    });
    while (disk.faults() == 0 && Now() - begin < kHangs) SleepFor(kMillisecond);
    const auto write = [&](uint64_t from, uint64_t to) {  // by all writers; returns when all have
      std::vector<std::unique_ptr<Thread>> writers;
      for (uint64_t t = 0; t < kWriters; ++t) {
        writers.push_back(std::make_unique<Thread>(StrCat("writer.", t), [&, t] {
          for (uint64_t i = from; i < to; ++i) EXPECT_TRUE(db->Put(StrCat("w", t, "/", i), "value").ok());
        }));
      }
    };
    write(0, kInWindow);
    in_window = Now();
    write(kInWindow, 3 * kInWindow);
    stop = true;
  }
  EXPECT_GE(synced - begin, kHangs);
  EXPECT_LT(in_window - begin, kHangs / 2) << "writes of half a window waited for it";
  EXPECT_LT(longest_get, kHangs / 2);
  std::string value;
  EXPECT_TRUE(db->Get(StrCat("w", kWriters - 1, "/", 3 * kInWindow - 1), &value).ok());
}

}  // namespace
}  // namespace nova
