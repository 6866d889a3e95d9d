// An embedded database whose memtables are partitioned by Drange, under writers and readers side by side: a
// key that gets nearly all writes, so that several siblings share its versions, and that cools when another
// one becomes as hot (siblings by Drange, K3d). Rounds are merged and flushed meanwhile.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/directory.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

constexpr uint64_t kWriters = 2;
constexpr uint64_t kPuts = 12'000;  // of each writer
constexpr uint64_t kHotFor = 3'000;
constexpr uint64_t kKeys = 40;

std::string Key(uint64_t i) { return StrCat("key", 100 + i); }

// What one reader has seen of each key: a writer numbers its puts, so what it wrote to a key later has a
// larger number, and must not be followed by a smaller one.
class Seen {
 public:
  void Take(uint64_t key, std::string_view value) {
    const std::vector<std::string> parts = absl::StrSplit(std::string(value), ' ');
    uint64_t writer = 0, number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(parts[0], &writer) && absl::SimpleAtoi(parts[1], &number)) << value;
    uint64_t& last = last_[key][writer];
    EXPECT_GE(number, last) << "key " << key << " went back";
    last = number;
  }

 private:
  std::array<std::array<uint64_t, kWriters>, kKeys> last_{};
};

void WriteAndRead(Db* db, uint64_t writer) {
  Random random(writer + 1);
  Seen seen;
  std::string value;
  for (uint64_t number = 1; number <= kPuts && !testing::Test::HasFailure(); ++number) {
    const uint64_t hot = number / kHotFor * 7;
    const uint64_t key = random.OneIn(10) ? random.Uniform(kKeys) : hot;
    const std::string mine = StrCat(writer, " ", number, " ", std::string(60, '.'));
    if (random.OneIn(20)) {  // the last one counts
      WriteBatch batch;
      batch.Put(Key(key), StrCat(writer, " 0 hidden"));
      batch.Put(Key(key), mine);
      ASSERT_TRUE(db->Write(batch).ok());
    } else {
      ASSERT_TRUE(db->Put(Key(key), mine).ok());
    }
    seen.Take(key, mine);
    ASSERT_TRUE(db->Get(Key(key), &value).ok());
    seen.Take(key, value);
  }
}

void ReadAll(Db* db, const std::atomic<bool>* stop) {
  Seen seen;
  while (!stop->load() && !testing::Test::HasFailure()) {
    std::string before;
    const Status s = db->Scan("", kKeys, [&](std::string_view key, std::string_view value) {
      EXPECT_LT(before, key) << "a key comes once";
      before = std::string(key);
      uint64_t i = 0;
      EXPECT_TRUE(absl::SimpleAtoi(std::string(key.substr(3)), &i));
      seen.Take(i - 100, value);
      return true;
    });
    ASSERT_TRUE(s.ok()) << s;
  }
}

TEST(DbPartitionTest, K3dNoReaderOfAHotKeyGoesBackWhileTheHeatMoves) {
  const Directory directory;
  DbOptions options = SmallOptions();
  options.range.memtable_size_bytes = 64 << 10;
  options.range.active_memtables = 4;
  options.range.memtable_partitioning = MemtablePartitioning::kDrange;
  auto db = Db::Open(directory.path(), options);
  ASSERT_TRUE(db.ok()) << db.status();
  for (int pass = 0; pass < 2; ++pass) {  // the second one's round opened after the first one's flush
    for (uint64_t i = 0; i < 500; ++i)
      ASSERT_TRUE((*db)->Put(Key(i % 10 == 0 ? i / 10 % kKeys : 0), "0 0 before").ok());
    ASSERT_TRUE((*db)->Flush().ok());
  }
  ASSERT_EQ((*db)->stats().memtable_dranges, 2) << "of four siblings three are of the hot key";
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<Thread>> writers;
  Thread reader("reader", [&] { ReadAll(db->get(), &stop); });
  for (uint64_t w = 0; w < kWriters; ++w) {
    writers.push_back(std::make_unique<Thread>(StrCat("writer.", w), [&, w] { WriteAndRead(db->get(), w); }));
  }
  for (auto& writer : writers) writer->Join();
  stop.store(true);
  reader.Join();
  ASSERT_TRUE((*db)->Flush().ok());
  EXPECT_GE((*db)->stats().memtable_reorganisations, 2u) << "the heat moved";
}

TEST(DbPartitionTest, AReopenedDatabasePartitionsByHashUntilItsFirstFlush) {
  const Directory directory;
  for (const auto partitioning :
       {MemtablePartitioning::kDrange, MemtablePartitioning::kHash, MemtablePartitioning::kDrange}) {
    DbOptions options = SmallOptions();
    options.range.active_memtables = 4;
    options.range.memtable_partitioning = partitioning;
    auto opened = Db::Open(directory.path(), options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto db = *std::move(opened);
    EXPECT_EQ(db->stats().memtable_dranges, 1);
    for (int pass = 0; pass < 3; ++pass) {
      for (uint64_t i = 0; i < 1'000; ++i)
        ASSERT_TRUE(db->Put(StrCat("key", 10'000 + i), StrCat(pass, " ", std::string(100, '.'))).ok());
      ASSERT_TRUE(db->Flush().ok());
    }
    EXPECT_EQ(db->stats().memtable_dranges, partitioning == MemtablePartitioning::kDrange ? 4 : 1);
    std::string value;
    for (uint64_t i = 0; i < 1'000; ++i) {
      ASSERT_TRUE(db->Get(StrCat("key", 10'000 + i), &value).ok());
      ASSERT_TRUE(value.starts_with("2 ")) << value;
    }
  }
}

}  // namespace
}  // namespace nova
