// A database that was just opened, none of which is in memory: what a get reads from the disk, and that what
// fits is read ahead.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/memory_room.h"
#include "common/base/random.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPage = 4096;
constexpr int kRecords = 40'000;

std::string KeyOf(uint64_t i) { return StrCat("key", 1'000'000 + i); }
std::string ValueOf(uint64_t i) { return std::string(1000, static_cast<char>('a' + i % 26)); }

struct OpenFile {
  explicit OpenFile(const std::string& path) : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (fd >= 0 && fstat(fd, &status) == 0) size = static_cast<uint64_t>(status.st_size);
  }
  ~OpenFile() {
    if (fd >= 0) close(fd);
  }
  const int fd;       // below 0: it is gone
  uint64_t size = 0;  // bytes
};

// Bytes of the tables that are in the page cache.
uint64_t BytesInMemory(const std::string& directory) {
  uint64_t pages = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".sst") continue;
    const OpenFile file(entry.path());
    if (file.size == 0) continue;
    void* const at = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.fd, 0);
    std::vector<unsigned char> in((file.size + kPage - 1) / kPage);
    EXPECT_EQ(mincore(at, file.size, in.data()), 0);
    munmap(at, file.size);
    for (const unsigned char page : in) pages += page & 1;
  }
  return pages * kPage;
}

// What no mapping of a process has touched goes out of the page cache.
void DropPages(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const OpenFile file(entry.path());
    if (file.fd < 0) continue;
    fsync(file.fd);
    posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
  }
}

class ColdTest : public testing::Test {
 protected:
  void SetUp() override {
    auto db = Db::Open(dir_.path(), Options());
    ASSERT_TRUE(db.ok()) << db.status();
    for (int i = 0; i < kRecords; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), ValueOf(i)).ok());
    ASSERT_TRUE((*db)->Flush().ok());
    ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
    bytes_ = (*db)->stats().bytes;
    ASSERT_GT(bytes_, uint64_t{kRecords} * 1000);
    db->reset();
    DropPages(dir_.path());
    if (BytesInMemory(dir_.path()) > bytes_ / 10) GTEST_SKIP() << "this file system's pages stay in memory";
  }
  DbOptions Options() {
    DbOptions o;
    o.memtable_bytes = 16 << 20;
    o.warm_tables = false;
    return o;
  }

  Directory dir_;
  uint64_t bytes_ = 0;
};

TEST_F(ColdTest, AGetReadsLittleMoreThanItsBlock) {
  const auto db = Db::Open(dir_.path(), Options());
  ASSERT_TRUE(db.ok()) << db.status();
  std::string value;
  ASSERT_TRUE((*db)->Get(KeyOf(0), &value).ok());  // with what is read of each table when it is first used
  const uint64_t before = BytesInMemory(dir_.path());
  constexpr uint64_t kGets = 100;
  Random random(3);
  for (uint64_t n = 0; n < kGets; ++n) {
    const uint64_t i = random.Uniform(kRecords);
    ASSERT_TRUE((*db)->Get(KeyOf(i), &value).ok());
    EXPECT_EQ(value, ValueOf(i));
  }
  EXPECT_LE(BytesInMemory(dir_.path()) - before, kGets * 256 * 1024 / 10)
      << "bytes that gets brought into memory";
}

TEST_F(ColdTest, AScanReadsAheadOfWhereItIsAndNotOfTheWholeTable) {
  const auto db = Db::Open(dir_.path(), Options());
  ASSERT_TRUE(db.ok()) << db.status();
  int seen = 0;
  const auto count = [&](std::string_view, std::string_view) { return ++seen > 0; };
  ASSERT_TRUE((*db)->Scan(KeyOf(0), 10, count).ok());
  EXPECT_LE(BytesInMemory(dir_.path()), uint64_t{2} << 20);
  for (const bool reverse : {false, true}) {
    seen = 0;
    ASSERT_TRUE((*db)->Scan({KeyOf(5'000), KeyOf(9'000), UINT64_MAX, reverse}, count).ok());
    EXPECT_EQ(seen, 4'000);
  }
  EXPECT_GE(BytesInMemory(dir_.path()), uint64_t{4'000} * 1000);
}

// A read of a few pages more costs a device little more than one of two, and another read as much again.
TEST_F(ColdTest, AScanReadsAsManyEntriesAtOnceAsItAsksFor) {
  const auto db = Db::Open(dir_.path(), Options());
  ASSERT_TRUE(db.ok()) << db.status();
  // of scans, of which each is ended by its first entry but is for so many, of so many keys
  const auto bytes_of_scans = [&](uint64_t limit, int keys, int first) {
    constexpr int kScans = 50;
    const uint64_t before = BytesInMemory(dir_.path());
    for (int n = 0; n < kScans; ++n) {
      const int i = first + n * 200;
      int seen = 0;
      const auto count = [&](std::string_view, std::string_view) { return ++seen > 0; };
      EXPECT_TRUE((*db)->Scan({KeyOf(i), KeyOf(i + keys), limit}, count).ok());
      EXPECT_EQ(seen, std::min<int>(keys, static_cast<int>(limit)));
    }
    SleepFor(300 * kMillisecond);  // pages on their way are not counted yet
    return (BytesInMemory(dir_.path()) - before) / kScans;
  };
  bytes_of_scans(1, 1, 0);  // with what is read of each table when it is first used
  EXPECT_LE(bytes_of_scans(1, 1'000, 10'100), 4 * kPage);
  EXPECT_LE(bytes_of_scans(40, 1, 20'150), 4 * kPage) << "the end is known";
  const uint64_t forty = bytes_of_scans(40, 1'000, 25'100);
  EXPECT_GE(forty, 40 * 1000u);
  EXPECT_LE(forty, 40 * 1000 + 40 * 1000 / 2 + 4 * kPage);
}

// The disk is asked for their blocks some hundred keys at a time: more keys than that, of which some are
// newer in memory, some deleted there, and some were never written.
TEST_F(ColdTest, AMultiGetAsksForManyBlocksAndFindsTheNewestOfEach) {
  const auto db = Db::Open(dir_.path(), Options());
  ASSERT_TRUE(db.ok()) << db.status();
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 1'000; ++i) keys.push_back(KeyOf(i * 37 % kRecords));
  const auto before = (*db)->TakeSnapshot();
  ASSERT_TRUE(before.ok()) << before.status();
  for (size_t i = 0; i < keys.size(); i += 5) ASSERT_TRUE((*db)->Put(keys[i], "newer").ok());
  for (size_t i = 1; i < keys.size(); i += 5) ASSERT_TRUE((*db)->Delete(keys[i]).ok());
  for (size_t i = 2; i < keys.size(); i += 5) keys[i] += "x";
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  for (const bool at_snapshot : {false, true}) {
    DbReadOptions options;
    if (at_snapshot) options.snapshot = *before;
    std::vector<std::optional<std::string>> values;
    ASSERT_TRUE((*db)->MultiGet(views, &values, options).ok());
    ASSERT_EQ(values.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool absent = i % 5 == 2 || (i % 5 == 1 && !at_snapshot);
      ASSERT_EQ(values[i].has_value(), !absent) << i;
      if (absent) continue;
      EXPECT_EQ(*values[i], i % 5 == 0 && !at_snapshot ? "newer" : ValueOf(i * 37 % kRecords)) << i;
    }
  }
}

// Data that became more than memory while the database was open: what this process wrote itself is not in
// memory either. A block lies on two pages, and one request reads it: few gets meet a page that nobody has
// asked for.
TEST_F(ColdTest, ABlockOfATableThatWasWrittenHereIsReadAsAWholeToo) {
  const Directory another;
  auto db = Db::Open(another.path(), Options());
  ASSERT_TRUE(db.ok()) << db.status();
  for (int i = 0; i < kRecords; ++i) ASSERT_TRUE((*db)->Put(KeyOf(i), ValueOf(i)).ok());
  ASSERT_TRUE((*db)->Flush().ok());
  ASSERT_TRUE((*db)->WaitForBackgroundWork().ok());
  Random random(5);
  // Page faults that had to read, of so many gets.
  const auto faults_of = [&](int gets) {
    rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    std::string value;
    for (int n = 0; n < gets; ++n) EXPECT_TRUE((*db)->Get(KeyOf(random.Uniform(kRecords)), &value).ok());
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_majflt - before.ru_majflt;
  };
  DropPages(another.path());
  if (BytesInMemory(another.path()) > bytes_ / 2) GTEST_SKIP() << "this file system's pages stay in memory";
  faults_of(4'000);  // it takes some to be known
  EXPECT_LE(faults_of(1'000), 300);
}

TEST_F(ColdTest, WhatFitsIsReadAheadInTheBackground) {
  DbOptions options = Options();
  options.warm_tables = true;
  const auto db = Db::Open(dir_.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (const Nanos until = Now() + 30 * kSecond; BytesInMemory(dir_.path()) < bytes_ && Now() < until;)
    SleepFor(10 * kMillisecond);
  EXPECT_GE(BytesInMemory(dir_.path()), bytes_);
}

TEST_F(ColdTest, ADatabaseThatIsClosedReadsNoFurther) {
  DbOptions options = Options();
  options.warm_tables = true;
  const Nanos begin = Now();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Db::Open(dir_.path(), options).ok());
  EXPECT_LT(Now() - begin, 20 * kSecond);
}

TEST(MemoryRoomTest, IsPartOfTheMachines) {
  const uint64_t room = RoomInMemory();
  EXPECT_GT(room, uint64_t{1} << 20);
  EXPECT_LE(room,
            static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace nova
