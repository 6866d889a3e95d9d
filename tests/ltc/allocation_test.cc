// A get that memory can answer allocates nothing; a put next to nothing. Asserted by a counter: this
// program's operator new.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "common/base/fault_disk.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace {

// Of this thread.
thread_local uint64_t allocations = 0;
thread_local uint64_t allocated_bytes = 0;
thread_local int64_t kept_bytes = 0;  // allocated and not freed

void* Allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
  ++allocations;
  allocated_bytes += bytes;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  kept_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

[[gnu::noinline]] void Free(void* p) {
  kept_bytes -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}  // inlined, the compiler takes it for a mistake

}  // namespace

void* operator new(size_t n) { return Allocate(n); }
void* operator new[](size_t n) { return Allocate(n); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return Allocate(n); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return Allocate(n); }
void* operator new(size_t n, std::align_val_t a) { return Allocate(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return Allocate(n, static_cast<size_t>(a)); }
void operator delete(void* p) noexcept { Free(p); }
void operator delete[](void* p) noexcept { Free(p); }
void operator delete(void* p, size_t) noexcept { Free(p); }
void operator delete[](void* p, size_t) noexcept { Free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { Free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { Free(p); }
void operator delete(void* p, std::align_val_t) noexcept { Free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { Free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { Free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { Free(p); }

namespace nova {
namespace {

std::string KeyOf(int i) {
  return StrCat("a key that is too long for a string's own bytes, ", 1'000'000 + i);
}
constexpr int kKeys = 1000;

class AllocationTest : public testing::Test {
 protected:
  void Open(bool map_tables) {
    DbOptions options;
    options.log = DbLog::kNone;
    options.map_tables = map_tables;
    auto db = Db::Open(dir_.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
    value_.reserve(4096);
  }
  void Fill() {
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put(KeyOf(i), std::string(1000, 'v')).ok());
  }
  // Of gets of all keys, the second time: what is loaded once is in memory then.
  uint64_t OfGets(bool found) {
    uint64_t sum = 0;
    for (int round = 0; round < 2; ++round) {
      sum = 0;
      for (int i = 0; i < kKeys; ++i) {
        const std::string key = found ? KeyOf(i) : KeyOf(i) + "?";
        const uint64_t before = allocations;
        const Status s = db_->Get(key, &value_, read_);
        sum += allocations - before;
        EXPECT_EQ(s.ok(), found) << s;
      }
    }
    return sum;
  }

  Directory dir_;
  std::unique_ptr<Db> db_;
  DbReadOptions read_;
  std::string value_;
};

TEST_F(AllocationTest, TheCounterCounts) {
  const uint64_t before = allocations;
  const auto made = std::make_unique<std::string>(100, 'x');
  EXPECT_EQ(allocations - before, 2u) << made->size();
}

TEST_F(AllocationTest, AGetFromTheActiveMemtableAllocatesNothing) {
  Open(/*map_tables=*/true);
  Fill();
  EXPECT_EQ(OfGets(true), 0u);
  EXPECT_EQ(OfGets(false), 0u);
  const auto snapshot = db_->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok());
  read_.snapshot = *snapshot;
  EXPECT_EQ(OfGets(true), 0u);
}

TEST_F(AllocationTest, AGetFromAMappedTableAllocatesNothing) {
  Open(/*map_tables=*/true);
  Fill();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  ASSERT_GT(db_->stats().tables, 0u);
  EXPECT_EQ(OfGets(true), 0u);
  EXPECT_EQ(OfGets(false), 0u);
}

TEST_F(AllocationTest, AGetFromTheBlockCacheAllocatesNothing) {
  Open(/*map_tables=*/false);
  Fill();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  EXPECT_EQ(OfGets(true), 0u);
  EXPECT_GT(db_->memory_use().block_cache, 1'000'000u);
  EXPECT_EQ(OfGets(false), 0u);
}

// A flush that cannot write its table leaves its round sealed.
TEST_F(AllocationTest, AGetFromASealedRoundAllocatesNothing) {
  auto posix = OpenPosixDisk(dir_.path());
  ASSERT_TRUE(posix.ok());
  FaultDisk disk(posix->get());
  DbOptions options;
  options.log = DbLog::kNone;
  options.disk = &disk;
  auto db = Db::Open(dir_.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  db_ = *std::move(db);
  value_.reserve(4096);
  Fill();
  disk.Add({.path = ".sst", .op = DiskOp::kCreate, .action = FaultAction::kNoSpace});
  const Nanos until = Now() + 10 * kSecond;
  auto flush = std::make_unique<Thread>("flush", [&] { db_->Flush().IgnoreError(); });
  while (db_->stats().rounds < 2 && Now() < until) SleepFor(kMillisecond);
  ASSERT_EQ(db_->stats().rounds, 2);
  EXPECT_EQ(OfGets(true), 0u);
  disk.Clear();
  flush = nullptr;
  db_ = nullptr;  // before its disk
}

// A chunk of the arena now and then, a new round: far below one in a put.
TEST_F(AllocationTest, APutAllocatesAlmostNothing) {
  for (const DbLog log : {DbLog::kNone, DbLog::kPersistent}) {
    Directory dir;
    DbOptions options;
    options.log = log;
    const auto db = Db::Open(dir.path(), options);
    ASSERT_TRUE(db.ok()) << db.status();
    const std::string value(1000, 'v');
    ASSERT_TRUE((*db)->Put("first", value).ok());
    uint64_t sum = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string key = KeyOf(i);
      const uint64_t before = allocations;
      ASSERT_TRUE((*db)->Put(key, value).ok());
      sum += allocations - before;
    }
    EXPECT_LE(sum, uint64_t{kKeys} / 50) << "log " << static_cast<int>(log);
  }
}

// It has copies of its own, made once, and looks for room every millisecond.
TEST_F(AllocationTest, APutThatWaitsForRoomIsCopiedOnce) {
  constexpr Nanos kHangs = kSecond;
  const auto posix = OpenPosixDisk(dir_.path());
  ASSERT_TRUE(posix.ok());
  FaultDisk disk(posix->get());
  DbOptions options;
  options.log = DbLog::kNone;
  options.disk = &disk;
  options.memtable_bytes = 16 << 20;
  auto db = Db::Open("", options);
  ASSERT_TRUE(db.ok()) << db.status();
  db_ = *std::move(db);
  disk.Add({.path = ".sst", .op = DiskOp::kCreate, .action = FaultAction::kDelay, .delay_ns = kHangs});
  const std::string value(1 << 20, 'v');
  Nanos longest = 0;
  uint64_t most = 0;
  for (int i = 0; i < 24; ++i) {
    const uint64_t before = allocated_bytes;
    const Nanos begin = Now();
    ASSERT_TRUE(db_->Put(KeyOf(i), value).ok());
    longest = std::max(longest, Now() - begin);
    most = std::max(most, allocated_bytes - before);
  }
  EXPECT_GT(longest, 50 * kMillisecond) << "none waited for room: the test tests nothing";
  EXPECT_LT(most, 20 * value.size());
  disk.Clear();
  db_ = nullptr;  // before its disk
}

// Each lane of the log has a buffer for its records.
TEST_F(AllocationTest, ALargeBatchLeavesNoBufferOfItsSize) {
  DbOptions options;
  const auto db = Db::Open(dir_.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (const bool sync : {false, true}) {
    ASSERT_TRUE((*db)->Put("first", "x", {.sync = sync}).ok());
    const int64_t before = kept_bytes;
    {
      WriteBatch batch;
      for (int i = 0; i < 8; ++i) batch.Put(KeyOf(i), std::string(1 << 20, 'v'));
      ASSERT_TRUE((*db)->Write(batch, {.sync = sync}).ok());
    }
    EXPECT_LT(kept_bytes - before, 1 << 20) << "sync: " << sync;
  }
}

// Of blocks with few entries it keeps those that are read.
TEST_F(AllocationTest, TheBlockCacheKeepsWhatItCounts) {
  Open(/*map_tables=*/false);
  Fill();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  ASSERT_TRUE(db_->Get(KeyOf(0), &value_).ok());
  const int64_t before = kept_bytes;
  const auto counted_before = static_cast<int64_t>(db_->memory_use().block_cache);
  for (int i = 3; i < kKeys; i += 7) ASSERT_TRUE(db_->Get(KeyOf(i), &value_).ok());
  const int64_t counted = static_cast<int64_t>(db_->memory_use().block_cache) - counted_before;
  EXPECT_GT(counted, 100'000) << "the test tests nothing";
  EXPECT_LT(counted, 300'000) << "whole blocks are kept: the test tests nothing";
  EXPECT_LT(static_cast<double>(kept_bytes - before), 1.3 * static_cast<double>(counted));
}

// Nor does a scan take a page of a megabyte for the one entry that its caller looks at.
TEST_F(AllocationTest, AScanThatItsCallerEndsTakesLittle) {
  Directory dir;
  DbOptions options;
  options.log = DbLog::kNone;
  const auto db = Db::Open(dir.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  const std::string value(1000, 'v');
  for (int i = 0; i < 3 * kKeys; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), value).ok());
  for (const bool reverse : {false, true}) {
    const DbScan all{.reverse = reverse};
    const uint64_t before = allocated_bytes;
    ASSERT_TRUE((*db)->Scan(all, [](std::string_view, std::string_view) { return false; }).ok());
    EXPECT_LT(allocated_bytes - before, 200'000u);
    int entries = 0;
    ASSERT_TRUE((*db)->Scan(all, [&](std::string_view, std::string_view) { return ++entries > 0; }).ok());
    EXPECT_EQ(entries, 3 * kKeys);
  }
}

// The iterators of a scan serve the next one of the same thread: what is left are the page, the caller's
// request, and what waits for neither.
TEST_F(AllocationTest, AShortScanAllocatesLittle) {
  constexpr uint64_t kAScan = 10;
  Open(/*map_tables=*/true);
  Fill();
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->WaitForBackgroundWork().ok());
  Fill();
  int entries = 0;
  const auto scan = [&](int i) {
    const Status s =
        db_->Scan(KeyOf(i), 10, [&](std::string_view, std::string_view) { return ++entries > 0; });
    ASSERT_TRUE(s.ok()) << s;
  };
  scan(0);
  const uint64_t before = allocations;
  for (int i = 0; i < kKeys - 10; ++i) scan(i);
  EXPECT_EQ(entries, 10 * (kKeys - 9));
  EXPECT_LE(allocations - before, kAScan * (kKeys - 10));
}

// What a scan takes it gives back, also where nobody writes and so no flush or compaction comes to clean up.
TEST_F(AllocationTest, ScansAndIteratorsOfAnIdleDatabaseLeaveNothing) {
  Open(/*map_tables=*/true);
  Fill();
  const auto scan = [&] {
    ASSERT_TRUE(db_->Scan(KeyOf(1), 5, [](std::string_view, std::string_view) { return true; }).ok());
    const auto it = db_->NewIterator();
    ASSERT_TRUE(it.ok()) << it.status();
    for ((*it)->Seek(KeyOf(2)); (*it)->Valid() && (*it)->key() < KeyOf(12); (*it)->Next()) {
    }
    ASSERT_TRUE(db_->TakeSnapshot().ok());
  };
  scan();
  const int64_t before = kept_bytes;
  for (int i = 0; i < 2'000; ++i) scan();
  EXPECT_LT(kept_bytes - before, 10'000);
}

}  // namespace
}  // namespace nova
