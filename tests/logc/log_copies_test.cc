// What is read of a log whose copies are torn or damaged: everything that was acknowledged, or an error that
// says so.
#include "logc/log_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "common/base/coding.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Uuid kLog{0x0102030405060708, 0x1112131415161718}, kOther{0x99, 0x98};
using Keeps = LogCopies::Keeps;

// A log of `count` records, of memtables 1 and 2 in turn; each says that all but so many before it were
// acknowledged, and synced.
struct Log {
  Log(uint64_t count, uint64_t under_way, uint64_t unsynced, const Uuid& uuid = kLog) {
    for (uint64_t lsn = 1; lsn <= count; ++lsn) {
      const std::string key = StrCat("key", lsn), value(lsn * 37 % 90, 'v');
      const LogEntry entry{MemTableId(1 + lsn % 2), ValueType::kPut, key, value};
      LogRecord record;
      record.first_sequence = lsn;
      record.entries = {&entry, 1};
      std::string one(LogRecordBytes(record), '\0');
      const auto back = [lsn](uint64_t n) { return lsn - std::min(lsn, n + 1); };
      EncodeLogRecord(uuid, lsn, {back(under_way), back(unsynced)}, record,
                      reinterpret_cast<std::byte*>(one.data()));
      starts.push_back(bytes.size());
      bytes += one;
    }
    starts.push_back(bytes.size());
  }
  std::string Flipped(size_t at, int bit = 3) const {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
    return damaged;
  }
  std::string Without(uint64_t lsn, char instead = '\0') const {
    std::string damaged = bytes;
    std::fill(damaged.begin() + static_cast<ptrdiff_t>(starts[lsn - 1]),
              damaged.begin() + static_cast<ptrdiff_t>(starts[lsn]), instead);
    return damaged;
  }

  std::string bytes;
  std::vector<size_t> starts;  // [lsn - 1]; the end
};

struct Result {
  int records = 0;
  Status status;
};
const MemTableDone kNothingDone = [](MemTableId) { return false; };
Result Read(Keeps keeps, const std::vector<std::string>& copies, const MemTableDone& done = kNothingDone) {
  LogCopies log(kLog, done);
  for (size_t i = 0; i < copies.size(); ++i) log.Add(keeps, {{StrCat("copy ", i), copies[i]}});
  RecoveredLogs records;
  Result r;
  r.status = log.Read(&records);
  EXPECT_EQ(absl::IsDataLoss(r.status), log.damaged());
  for (const RecoveredRecord& record : records)
    EXPECT_EQ(record.sequence, static_cast<SequenceNumber>(++r.records));
  return r;
}

TEST(LogCopiesTest, AFlippedBitInAnyRecordButTheLastIsLoud) {
  const Log log(12, 0, 0);
  for (const Keeps keeps : {Keeps::kWritten, Keeps::kSynced}) {
    for (size_t bit = 0; bit < log.bytes.size() * 8; ++bit) {
      const Result r = Read(keeps, {log.Flipped(bit / 8, static_cast<int>(bit % 8))});
      const bool last = bit / 8 >= log.starts[11];
      ASSERT_EQ(absl::IsDataLoss(r.status), !last) << bit << ": " << r.status;
      ASSERT_EQ(r.records, last ? 11 : 0) << "all of it or nothing";
    }
  }
}

TEST(LogCopiesTest, TheErrorNamesTheRecordTheCopyAndThePlace) {
  const Log log(12, 0, 0);
  const Status s = Read(Keeps::kSynced, {log.Flipped(log.starts[4] + 50), log.Without(5)}).status;
  EXPECT_THAT(std::string(s.message()),
              testing::AllOf(testing::HasSubstr(kLog.ToString()), testing::HasSubstr("record 5,"),
                             testing::HasSubstr(StrCat("copy 0 from offset ", log.starts[4])),
                             testing::HasSubstr(StrCat("copy 1 from offset ", log.starts[4])),
                             testing::HasSubstr("7 whole ones")));
}

// What was on its way, or not synced where that counts, may be missing in whatever order it landed: the log
// ends there.
TEST(LogCopiesTest, AHoleThatNoMarkContradictsIsATornTail) {
  const Log log(20, /*under_way=*/3, /*unsynced=*/9);
  for (const char instead : {'\0', '\xff'}) {
    for (uint64_t lsn = 1; lsn <= 20; ++lsn) {
      // The last whole record knows of all up to 20 - 4, or 20 - 10; of itself it is missing, of that before.
      const Result written = Read(Keeps::kWritten, {log.Without(lsn, instead)});
      ASSERT_EQ(absl::IsDataLoss(written.status), lsn <= 16) << lsn;
      ASSERT_EQ(written.records, lsn <= 16 ? 0 : static_cast<int>(lsn - 1));
      const Result synced = Read(Keeps::kSynced, {log.Without(lsn, instead)});
      ASSERT_EQ(absl::IsDataLoss(synced.status), lsn <= 10) << lsn;
      ASSERT_EQ(synced.records, lsn <= 10 ? 0 : static_cast<int>(lsn - 1));
    }
  }
}

TEST(LogCopiesTest, ATornTailIsNoDamageWhereverItIsTorn) {
  const Log log(12, 0, 0);
  for (size_t cut = 0; cut <= log.bytes.size(); ++cut) {
    for (const std::string& rest : {std::string(), std::string(log.bytes.size() - cut, '\0'),
                                    std::string(log.bytes.size() - cut, 'x')}) {
      const std::string torn = log.bytes.substr(0, cut) + rest;
      const auto same = static_cast<size_t>(std::mismatch(torn.begin(), torn.end(), log.bytes.begin()).first -
                                            torn.begin());
      const auto whole = static_cast<int>(std::upper_bound(log.starts.begin(), log.starts.end(), same) -
                                          log.starts.begin()) -
                         1;
      const Result r = Read(Keeps::kWritten, {torn});
      ASSERT_TRUE(r.status.ok()) << cut << ": " << r.status;
      ASSERT_EQ(r.records, whole) << cut;
    }
  }
}

// H5: recycled room is full of records that are whole, of another log.
TEST(LogCopiesTest, RecordsOfAnotherLogProveNothing) {
  const Log log(12, 0, 0), old(200, 0, 0, kOther);
  for (uint64_t lsn = 1; lsn <= 12; ++lsn) {
    std::string bytes = old.bytes;
    bytes.replace(0, log.starts[lsn], log.bytes.substr(0, log.starts[lsn]));
    const Result r = Read(Keeps::kWritten, {bytes});
    ASSERT_TRUE(r.status.ok()) << r.status;
    ASSERT_EQ(r.records, static_cast<int>(lsn));
  }
}

TEST(LogCopiesTest, EachRecordCountsThatSomeCopyHas) {
  const Log log(12, 0, 0);
  EXPECT_EQ(Read(Keeps::kSynced, {log.Without(3), log.Without(5), log.Without(12)}).records, 12);
  EXPECT_EQ(Read(Keeps::kSynced, {log.Without(3), "", log.bytes.substr(0, log.starts[3])}).records, 12);
  EXPECT_TRUE(
      absl::IsDataLoss(Read(Keeps::kSynced, {log.Without(3), log.Without(3), log.Without(3)}).status));
  EXPECT_TRUE(
      absl::IsDataLoss(Read(Keeps::kSynced, {log.Without(3), log.bytes.substr(0, log.starts[2])}).status));
  // What one copy lacks at its end is not missed by the others.
  EXPECT_EQ(Read(Keeps::kSynced, {log.Without(12), log.bytes.substr(0, log.starts[6])}).records, 11);
}

// Each copy is asked what it may not lose: a file without what was not synced does not contradict memory that
// has it, nor the reverse.
TEST(LogCopiesTest, MemoryIsAskedForMoreThanAFile) {
  const Log log(12, /*under_way=*/0, /*unsynced=*/UINT16_MAX);
  const auto read = [&](std::string memory, std::string file) {
    LogCopies copies(kLog, kNothingDone);
    copies.Add(Keeps::kWritten, {{"memory", std::move(memory)}});
    copies.Add(Keeps::kSynced, {{"file", std::move(file)}});
    RecoveredLogs records;
    const Status s = copies.Read(&records);
    return s.ok() ? static_cast<int>(records.size()) : -1;
  };
  EXPECT_EQ(read("", log.Without(4)), 3);
  EXPECT_EQ(read(log.Without(4), ""), -1);
  EXPECT_EQ(read(log.Without(4), log.Without(4)), -1);
  EXPECT_EQ(read(log.Without(4), log.bytes), 12);
  EXPECT_EQ(read(log.bytes, log.Without(4)), 12);
}

TEST(LogCopiesTest, AHoleMayBeWhereOneSegmentEndsAndTheNextBegins) {
  const Log log(12, 0, 0);
  const size_t cut = log.starts[6];
  for (uint64_t lsn = 1; lsn <= 12; ++lsn) {
    const std::string bytes = log.Without(lsn);
    LogCopies copies(kLog, kNothingDone);
    copies.Add(Keeps::kWritten, {{"segment 0", bytes.substr(0, cut) + std::string(96, '\0')},
                                 {"segment 1", bytes.substr(cut)}});
    RecoveredLogs records;
    ASSERT_EQ(absl::IsDataLoss(copies.Read(&records)), lsn < 12) << lsn;
    ASSERT_EQ(records.size(), lsn < 12 ? 0u : 11u);
  }
}

// What a file was before it was recycled is not kept for the few records in front of it; they are the same.
TEST(LogCopiesTest, WhatIsReadKeepsLittleMoreThanItsRecords) {
  const Log log(12, 0, 0);
  for (const size_t rest : {size_t{0}, size_t{1} << 20}) {
    RecoveredLogs logs;
    {
      LogCopies copies(kLog, kNothingDone);
      copies.Add(Keeps::kWritten, {{"file", log.bytes + std::string(rest, '\0')}});
      ASSERT_TRUE(copies.Read(&logs).ok());
    }
    ASSERT_EQ(logs.size(), 12u);
    size_t held = 0;
    for (const auto& bytes : logs.bytes) held += bytes->capacity();
    EXPECT_LE(held, 2 * log.bytes.size() + 100) << rest;
    LogCopies whole(kLog, kNothingDone);
    whole.Add(Keeps::kWritten, {{"file", log.bytes}});
    RecoveredLogs expected;
    ASSERT_TRUE(whole.Read(&expected).ok());
    for (size_t i = 0; i < logs.size(); ++i) {
      EXPECT_EQ(logs.records[i].key, expected.records[i].key);
      EXPECT_EQ(logs.records[i].value, expected.records[i].value);
    }
  }
}

// M3: what is in tables is not missed in the log, whatever became of it; one memtable that is not is enough.
TEST(LogCopiesTest, ALogOfDoneMemtablesIsNeverDamaged) {
  const Log log(12, 0, 0);
  const auto below = [](uint64_t id) { return [id](MemTableId m) { return m < MemTableId(id); }; };
  EXPECT_EQ(Read(Keeps::kWritten, {log.Without(5)}, below(3)).records, 4);
  EXPECT_TRUE(absl::IsDataLoss(Read(Keeps::kWritten, {log.Without(5)}, below(2)).status));
}

// Values that look like headers, each of all that follows: the search stays linear.
TEST(LogCopiesTest, HostileBytesBehindATailDoNotMakeRecoveryEndless) {
  const Log log(12, 0, 0);
  std::string bytes = log.bytes + std::string(8 << 20, '\0');
  for (size_t at = log.bytes.size(); at + 24 <= bytes.size(); at += 24) {
    EncodeFixed32(bytes.data() + at + 4, static_cast<uint32_t>(bytes.size() - at) & ~uint32_t{7});
    EncodeFixed64(bytes.data() + at + 16, 13);
  }
  const Nanos begin = Now();
  EXPECT_EQ(Read(Keeps::kWritten, {bytes}).records, 12);
  EXPECT_LT(Now() - begin, 20 * kSecond) << "a checksum of each would be 1.5 TB";
}

}  // namespace
}  // namespace nova
