// One look at a range whose files grow between the reads of their copies: what was not there when the
// first copy was read is nothing that it lacks.
#include "ltc/fsck/range_check.h"

#include <gtest/gtest.h>

#include "common/config/memory_store.h"
#include "coordinator/znodes.h"
#include "logc/log_record.h"
#include "ltc/engine/manifest.h"
#include "ltc/fsck/log_check.h"

namespace nova {
namespace {

const Uuid kFile{1, 2}, kStore{3, 4};

// Has one file, which is at each read as long as the next of `lengths` says; at the last for ever.
class GrowingStoc : public CheckedStoc {
 public:
  GrowingStoc(uint32_t id, std::string bytes, std::vector<size_t> lengths)
      : id_(id), bytes_(std::move(bytes)), lengths_(std::move(lengths)) {}

  StocId id() const override { return id_; }
  std::string name() const override { return StrCat("stoc-", id_.value()); }
  bool Holds(const LogGroup&, const LogMember&) const override { return true; }
  StatusOr<std::vector<FileSummary>> List(RangeId range) override {
    return std::vector<FileSummary>{{{kFile, 0}, {range, Epoch(1)}, bytes_.size(), 0}};
  }
  StatusOr<std::string> Read(const StocFileId&, uint64_t offset, uint32_t size) override {
    const size_t length = lengths_[std::min(reads_++, lengths_.size() - 1)];
    return offset >= length ? "" : bytes_.substr(offset, std::min<size_t>(size, length - offset));
  }

 private:
  const StocId id_;
  const std::string bytes_;
  const std::vector<size_t> lengths_;
  size_t reads_ = 0;
};

// --- a log

constexpr size_t kRecords = 10;

// Each says that all before it is synced everywhere. *ends: behind each record.
std::string SomeLog(std::vector<size_t>* ends) {
  std::string log;
  for (uint64_t lsn = 1; lsn <= kRecords; ++lsn) {
    LogRecord record;
    record.first_sequence = lsn;
    const std::vector<LogEntry> entries = {{MemTableId(7), ValueType::kPut, "key", "value"}};
    record.entries = entries;
    std::string bytes(LogRecordBytes(record), '\0');
    EncodeLogRecord(kFile, lsn, {lsn - 1, lsn - 1}, record, reinterpret_cast<std::byte*>(bytes.data()));
    log += bytes;
    ends->push_back(log.size());
  }
  return log;
}

std::vector<LogCopyLacking> LackingOf(const std::vector<size_t>& records_at_first_and_later,
                                      bool done = false) {
  std::vector<size_t> ends, lengths;
  const std::string log = SomeLog(&ends);
  for (const size_t records : records_at_first_and_later) lengths.push_back(ends[records - 1]);
  GrowingStoc first(1, log, lengths), second(2, log, {log.size()});
  StocReader reader(nullptr, {&first, &second}, 0);
  reader.Begin({});
  RangeRecord record;
  record.log_groups.push_back(
      {GroupId(1), {{StocId(1), {}, kStore}, {StocId(2), {}, kStore}}, LogMedia::kFiles});
  return CheckLog(&reader, record, kFile, {StocId(1), StocId(2)}, [done](MemTableId) { return done; });
}

TEST(LogCheckTest, ACopyThatIsReadBeforeTheOthersMayBeShorterAndNotStayShort) {
  EXPECT_TRUE(LackingOf({kRecords}).empty());
  EXPECT_TRUE(LackingOf({kRecords - 1}).empty()) << "the last one may be synced nowhere else";
  EXPECT_TRUE(LackingOf({3, kRecords - 1}).empty());
  const auto lacking = LackingOf({3});
  ASSERT_EQ(lacking.size(), 1u);
  EXPECT_EQ(lacking[0].stoc, StocId(1));
  EXPECT_EQ(lacking[0].why, "its file is whole up to record 3 of 9 that are synced everywhere");
  EXPECT_TRUE(LackingOf({3}, /*done=*/true).empty()) << "what is in tables is lacked by nobody (M3)";
}

// --- a manifest

// Of five edits the first copy has so many when it is first read, and later.
std::vector<Finding> FindingsOf(const std::vector<size_t>& edits_at_first_and_later) {
  std::string manifest;
  std::vector<size_t> ends;
  for (uint64_t i = 1; i <= 5; ++i) {
    VersionEdit edit;
    edit.seq_reserved = i;
    manifest += Manifest::EncodeRecord(kFile, edit);
    ends.push_back(manifest.size());
  }
  std::vector<size_t> lengths;
  for (const size_t edits : edits_at_first_and_later) lengths.push_back(ends[edits - 1]);
  GrowingStoc first(1, manifest, lengths), second(2, manifest, {manifest.size()});
  StocReader reader(nullptr, {&first, &second}, 0);
  reader.Begin({});
  MemoryConfig config{MemoryConfigOptions()};
  const std::unique_ptr<MemorySession> store = config.NewSession();
  RangeRecord record;
  record.id = RangeId(1);
  record.epoch = Epoch(1);
  record.manifest = {kFile, {StocId(1), StocId(2)}};
  EXPECT_TRUE(store->Create(kRangesPath, "").ok());
  EXPECT_TRUE(store->Create(RangePath(record.id), record.Encode()).ok());
  const auto look = LookAtRange(store.get(), &reader, record.id, {}, {});
  EXPECT_TRUE(look.ok()) << look.status();
  return look.ok() ? look->findings : std::vector<Finding>();
}

TEST(RangeCheckTest, M1ACopyThatIsReadBeforeTheOthersMayBeShorterAndNotStayShort) {
  EXPECT_TRUE(FindingsOf({5}).empty());
  EXPECT_TRUE(FindingsOf({4}).empty()) << "the newest edit may not be acknowledged yet";
  EXPECT_TRUE(FindingsOf({2, 4}).empty());
  const std::vector<Finding> findings = FindingsOf({3});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, FindingKind::kManifestCopy);
  EXPECT_EQ(findings[0].stoc, StocId(1));
  EXPECT_EQ(findings[0].text, "it ends after 3 of 5 edits");
}

}  // namespace
}  // namespace nova
