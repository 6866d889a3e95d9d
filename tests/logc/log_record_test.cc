#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/random.h"
#include "logc/log_copies.h"

namespace nova {
namespace {

constexpr Uuid kLog{0x0102030405060708, 0x1112131415161718}, kOther{0x99, 0x98};

// A record of one entry.
struct Record {
  Record(SequenceNumber sequence, std::string_view key, std::string_view value,
         ValueType type = ValueType::kPut)
      : entry{MemTableId(300), type, key, value}, record{1, sequence, 0x31, 0x41, false, {&entry, 1}} {}
  Record(const Record&) = delete;
  operator const LogRecord&() const { return record; }

  const LogEntry entry;
  const LogRecord record;
};

// Records of growing values, lsn from 1. Their marks say nothing: where one is missing the log ends.
std::string Segment(const Uuid& log, size_t count, size_t room, uint64_t first_lsn = 1) {
  std::string segment;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = absl::StrCat("key", i), value(i * 37 % 300, static_cast<char>('a' + i % 26));
    const Record record(100 + first_lsn + i, key, value);
    std::string bytes(LogRecordBytes(record), '\0');
    EncodeLogRecord(log, first_lsn + i, {}, record, reinterpret_cast<std::byte*>(bytes.data()));
    segment += bytes;
  }
  if (segment.size() < room) segment.resize(room, '\0');
  return segment;
}

std::vector<size_t> EndsOf(std::string_view segment, size_t count) {
  std::vector<size_t> ends;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) ends.push_back(at += DecodeFixed32(segment.data() + at + 4));
  return ends;
}

// Records at the front of `whole` that `damaged` has too.
size_t Intact(std::string_view whole, std::string_view damaged, const std::vector<size_t>& ends) {
  const auto at = static_cast<size_t>(
      std::mismatch(whole.begin(), whole.end(), damaged.begin(), damaged.end()).first - whole.begin());
  return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
}

struct Parsed {
  Status status;
  std::vector<SequenceNumber> sequences;
  std::vector<std::string> values;
};
Parsed Parse(const Uuid& log, const std::vector<std::string>& segments) {
  const MemTableDone nothing = [](MemTableId) { return false; };
  LogCopies copies(log, nothing);
  std::vector<LogCopies::Piece> pieces;
  for (const std::string& s : segments) pieces.push_back({"segment", s});
  copies.Add(LogCopies::Keeps::kWritten, std::move(pieces));
  Parsed p;
  RecoveredLogs records;
  p.status = copies.Read(&records);
  for (const RecoveredRecord& r : records) {
    p.sequences.push_back(r.sequence);
    p.values.emplace_back(r.value);
  }
  return p;
}
Parsed Parse(const Uuid& log, const std::string& segment) { return Parse(log, std::vector{segment}); }

// An entry of any type, or any bytes, with a right crc.
std::string Forged(uint8_t format, uint8_t flags, uint16_t count, std::string entries) {
  while ((kLogRecordHeaderBytes + entries.size()) % 8 != 0) entries.push_back('\0');
  std::string bytes(kLogRecordHeaderBytes, '\0');
  bytes += entries;
  EncodeFixed32(bytes.data() + 4, static_cast<uint32_t>(bytes.size()));
  bytes[8] = static_cast<char>(format);
  bytes[9] = static_cast<char>(flags);
  EncodeFixed16(bytes.data() + 10, count);
  EncodeFixed64(bytes.data() + 16, 1);
  std::string salted;
  PutFixed64(&salted, kLog.hi);
  PutFixed64(&salted, kLog.lo);
  EncodeFixed32(bytes.data(), Crc32c(salted + bytes.substr(4)));
  return bytes;
}
std::string Entry(uint8_t type, std::string_view key, std::string_view value) {
  std::string entry;
  PutVarint64(&entry, 300);
  entry.push_back(static_cast<char>(type));
  PutLengthPrefixed(&entry, key);
  PutLengthPrefixed(&entry, value);
  return entry;
}

TEST(LogRecordTest, BytesAreGolden) {  // L1
  const Record record(0x21, "key", "value");
  std::string bytes(LogRecordBytes(record), 'x');
  ASSERT_EQ(bytes.size(), 64u);
  EncodeLogRecord(kLog, 0x11, {0x10, 0x0e}, record, reinterpret_cast<std::byte*>(bytes.data()));
  std::string hex;
  for (const char c : bytes) hex += absl::StrCat(absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
  EXPECT_EQ(hex,
            "721deb41"
            "40000000"
            "01"
            "00"
            "0100"
            "0100"
            "0300"
            "1100000000000000"
            "2100000000000000"
            "3100000000000000"
            "4100000000000000"
            "ac02"
            "01"
            "03"
            "6b6579"
            "05"
            "76616c7565"
            "000000");
}

TEST(LogRecordTest, ABatchIsOneRecord) {  // K6: its bytes are golden too
  const LogEntry entries[] = {{MemTableId(300), ValueType::kPut, "key", "value"},
                              {MemTableId(301), ValueType::kDelete, "k2", ""},
                              {MemTableId(300), ValueType::kPutTtl, "k3", "v3"}};
  const LogRecord record{1, 0x21, 0x31, 0x41, false, entries};
  std::string bytes(LogRecordBytes(record), 'x');
  EncodeLogRecord(kLog, 1, {}, record, reinterpret_cast<std::byte*>(bytes.data()));
  std::string hex;
  for (const char c : bytes.substr(4))
    hex += absl::StrCat(absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
  EXPECT_EQ(hex,
            "50000000"
            "01"
            "00"
            "0300"
            "0100"
            "0100"
            "0100000000000000"
            "2100000000000000"
            "3100000000000000"
            "4100000000000000"
            "ac02"
            "01"
            "03"
            "6b6579"
            "05"
            "76616c7565"
            "ad02"
            "00"
            "02"
            "6b32"
            "00"
            "ac02"
            "03"
            "02"
            "6b33"
            "02"
            "7633"
            "000000");
  const auto whole = CheckLogRecord(kLog, bytes, bytes.size());
  ASSERT_TRUE(whole);
  std::vector<ParsedLogEntry> parsed;
  ASSERT_TRUE(ParseLogEntries(*whole, [&](const ParsedLogEntry& e) { parsed.push_back(e); }).ok());
  ASSERT_EQ(parsed.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parsed[i].sequence, 0x21 + i);
    EXPECT_EQ(parsed[i].entry.memtable, entries[i].memtable);
    EXPECT_EQ(parsed[i].entry.type, entries[i].type);
    EXPECT_EQ(parsed[i].entry.key, entries[i].key);
    EXPECT_EQ(parsed[i].entry.value, entries[i].value);
  }
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const Parsed p = Parse(kLog, bytes.substr(0, cut));
    ASSERT_TRUE(p.status.ok() && p.sequences.empty()) << cut;
  }
}

TEST(LogRecordTest, WhatWasWrittenIsParsed) {
  const std::string segment = Segment(kLog, 40, 64 << 10);
  const Parsed p = Parse(kLog, segment);
  ASSERT_TRUE(p.status.ok()) << p.status;
  ASSERT_EQ(p.sequences.size(), 40u);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(p.sequences[i], 101 + i);
    EXPECT_EQ(p.values[i], std::string(i * 37 % 300, static_cast<char>('a' + i % 26)));
  }
}

TEST(LogRecordTest, DeletesStayDeletes) {  // H29
  const Record record(5, "key", "", ValueType::kDelete);
  std::string bytes(LogRecordBytes(record), '\0');
  EncodeLogRecord(kLog, 1, {}, record, reinterpret_cast<std::byte*>(bytes.data()));
  const auto whole = CheckLogRecord(kLog, bytes, bytes.size());
  ASSERT_TRUE(whole);
  int seen = 0;
  ASSERT_TRUE(ParseLogEntries(*whole, [&](const ParsedLogEntry& e) {
                EXPECT_EQ(e.entry.type, ValueType::kDelete);
                ++seen;
              }).ok());
  EXPECT_EQ(seen, 1);
}

// The counts in the header are those of the records back, this one counted; what is too far back, or never
// was, is not told.
TEST(LogRecordTest, MarksAreCountedBackFromTheirRecord) {
  struct Case {
    uint64_t lsn;
    LogMarks marks, told;
  };
  const Record record(5, "key", "value");
  std::string bytes(LogRecordBytes(record), '\0');
  for (const Case& c :
       {Case{1, {0, 0}, {0, 0}}, Case{9, {8, 3}, {8, 3}}, Case{70'000, {69'999, 4465}, {69'999, 4465}},
        Case{70'000, {69'999, 4464}, {69'999, 0}}, Case{1'000'000, {0, 0}, {0, 0}}}) {
    EncodeLogRecord(kOther, 3, {2, 2}, record, reinterpret_cast<std::byte*>(bytes.data()));
    RebindLogRecord(kLog, c.lsn, c.marks, reinterpret_cast<std::byte*>(bytes.data()));
    ASSERT_EQ(PlausibleLogRecord(bytes, c.lsn), bytes.size());
    EXPECT_EQ(PlausibleLogRecord(bytes, c.lsn - 1), 0u) << "a log of so many bytes holds no such lsn";
    const auto whole = CheckLogRecord(kLog, bytes, bytes.size());
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->lsn, c.lsn);
    EXPECT_EQ(whole->marks, c.told) << c.lsn;
  }
}

TEST(LogRecordTest, ASegmentTornAnywhereIsAPrefix) {  // H4, row 28
  const std::string whole = Segment(kLog, 30, 0);
  const std::vector<size_t> ends = EndsOf(whole, 30);
  for (size_t cut = 0; cut <= whole.size(); cut += 8) {
    for (const char rest : {'\0', '\xff'}) {
      std::string torn = whole;
      std::fill(torn.begin() + static_cast<ptrdiff_t>(cut), torn.end(), rest);
      const Parsed p = Parse(kLog, torn);
      ASSERT_TRUE(p.status.ok());
      ASSERT_EQ(p.sequences.size(), Intact(whole, torn, ends)) << cut;
    }
    const std::string part = whole.substr(0, cut);
    ASSERT_EQ(Parse(kLog, part).sequences.size(), Intact(whole, part, ends)) << cut;
  }
}

TEST(LogRecordTest, ALineThatIsMissingEndsThePrefix) {  // bytes of a WRITE may land in any order
  const std::string whole = Segment(kLog, 30, 0);
  const std::vector<size_t> ends = EndsOf(whole, 30);
  for (size_t line = 0; line + 64 <= whole.size(); line += 64) {
    std::string torn = whole;
    std::fill_n(torn.begin() + static_cast<ptrdiff_t>(line), 64, '\0');
    ASSERT_EQ(Parse(kLog, torn).sequences.size(), Intact(whole, torn, ends)) << line;
  }
}

TEST(LogRecordTest, StaleBytesOfAnotherLogAreNotParsed) {  // H5, row 31
  const std::string stale = Segment(kOther, 40, 64 << 10);
  EXPECT_EQ(Parse(kLog, stale).sequences.size(), 0u);
  // Newer records over the older ones of the segment's former life, which has the same lsns at the same
  // places.
  for (const size_t fresh : {0, 1, 7, 39}) {
    std::string segment = stale;
    const std::string over = Segment(kLog, fresh, 0);
    segment.replace(0, over.size(), over);
    EXPECT_EQ(Parse(kLog, segment).sequences.size(), fresh);
  }
}

TEST(LogRecordTest, AFlippedBitEndsThePrefixThere) {  // row 25
  const std::string whole = Segment(kLog, 10, 0);
  const std::vector<size_t> ends = EndsOf(whole, 10);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Parsed p = Parse(kLog, damaged);
    ASSERT_TRUE(p.status.ok());
    ASSERT_EQ(p.sequences.size(), Intact(whole, damaged, ends)) << bit;
  }
}

TEST(LogRecordTest, LsnsAreDenseAndGoOnInTheNextSegment) {
  const std::string first = Segment(kLog, 5, 4096), second = Segment(kLog, 5, 4096, 6);
  EXPECT_EQ(Parse(kLog, {first, second}).sequences.size(), 10u);
  EXPECT_EQ(Parse(kLog, {first, Segment(kLog, 5, 4096, 7)}).sequences.size(), 5u);
  EXPECT_EQ(Parse(kLog, second).sequences.size(), 0u);
}

TEST(LogRecordTest, ARebindMovesARecordToAnotherLog) {  // L4
  std::string bytes = Segment(kOther, 1, 0);
  RebindLogRecord(kLog, 2, {}, reinterpret_cast<std::byte*>(bytes.data()));
  EXPECT_EQ(Parse(kOther, bytes).sequences.size(), 0u);
  const Parsed p = Parse(kLog, Segment(kLog, 1, 0) + bytes);
  ASSERT_EQ(p.sequences.size(), 2u);
  EXPECT_EQ(p.sequences[1], 101u);
}

TEST(LogRecordTest, WhatIsWholeAndNotUnderstoodIsLoud) {  // L1
  EXPECT_TRUE(absl::IsDataLoss(Parse(kLog, Forged(2, 0, 1, Entry(1, "k", "v"))).status))
      << "an unknown format";
  EXPECT_TRUE(absl::IsDataLoss(Parse(kLog, Forged(1, 0, 1, Entry(77, "k", "v"))).status))
      << "an unknown type";
  EXPECT_TRUE(absl::IsDataLoss(
      Parse(kLog, Forged(1, 0, 2, Entry(1, "k", "v") + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
          .status));
  const Parsed skipped = Parse(kLog, Forged(1, 1, 2, Entry(77, "k", "v") + Entry(1, "key", "value")));
  ASSERT_TRUE(skipped.status.ok()) << skipped.status;
  ASSERT_EQ(skipped.values.size(), 1u) << "an unknown type that may be skipped";
  EXPECT_EQ(skipped.values[0], "value");
  EXPECT_EQ(skipped.sequences[0], 1u) << "entry i has first + i";
}

TEST(LogRecordTest, GarbageIsNoRecord) {
  Random random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random.Uniform(600), '\0');
    for (char& c : bytes) c = static_cast<char>(random.Next());
    const Parsed p = Parse(kLog, bytes);
    ASSERT_TRUE(p.status.ok());
    ASSERT_EQ(p.sequences.size(), 0u);
  }
}

}  // namespace
}  // namespace nova
