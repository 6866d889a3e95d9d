// FileCheck and RecordWalk (scrub, S6): every kind of file and every class of its bytes, damaged, missing,
// changing while they are looked at.
#include "stoc/file_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "logc/log_record.h"
#include "ltc/engine/manifest.h"
#include "stoc/file_store.h"
#include "stoc/record_walk.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = FileHeader::Kind;
using Verdict = FileCheck::Verdict;

constexpr Creator kCreator{RangeId(7), Epoch(3), 11};
constexpr Creator kOwner{RangeId(7), Epoch(3), 0};

StocFileId Id(uint64_t n, uint32_t part = 0) { return {{0xabc, n}, part}; }

// Records of a log, or of a manifest, as their writers encode them.
std::string LogRecords(const Uuid& log, int count) {
  std::string bytes;
  for (int i = 1; i <= count; ++i) {
    const std::string key = StrCat("key", i), value(static_cast<size_t>(10 * i), 'v');
    const LogEntry entries[] = {{MemTableId(1), ValueType::kPut, key, value}};
    LogRecord record;
    record.entries = entries;
    std::string one(LogRecordBytes(record), '\0');
    EncodeLogRecord(log, static_cast<uint64_t>(i), {}, record, reinterpret_cast<std::byte*>(one.data()));
    bytes += one;
  }
  return bytes;
}
std::string Edits(const Uuid& file, int count) {
  std::string bytes;
  for (int i = 1; i <= count; ++i) {
    VersionEdit edit;
    for (int n = 0; n < i; ++n) edit.done.push_back(MemTableId(static_cast<uint64_t>(n)));
    bytes += Manifest::EncodeRecord(file, edit);
  }
  return bytes;
}
std::string RecordsOf(Kind kind, const Uuid& owner, int count) {
  return kind == Kind::kLog ? LogRecords(owner, count) : Edits(owner, count);
}

class FileCheckTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_ = nullptr;
    base_ = medium_.Mount();
    disk_ = std::make_unique<FaultDisk>(base_.get());
    metrics_ = std::make_unique<Metrics>();
    auto opened = FileStore::Open(disk_.get(), {.reserve_bytes = 0}, metrics_.get());
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void WriteWhole(const StocFileId& file, std::string_view data) {
    ASSERT_TRUE(store_->WriteFile(file, kCreator, data, Crc32c(data)).ok());
  }
  void Append(Kind kind, const StocFileId& file, uint64_t offset, std::string_view data) {
    if (kind == Kind::kAppended) {
      ASSERT_TRUE(store_->AppendFile(file, kOwner, offset, offset == 0, data).ok());
      return;
    }
    if (offset == 0) {
      ASSERT_TRUE(store_->logs()->CreateLog(file.owner, kOwner).ok());
    }
    const LogFiles::LogWrite write{file.owner, kOwner, {{offset, data}}, /*sync=*/true};
    ASSERT_THAT(store_->logs()->WriteLogs({&write, 1}), ElementsAre(OkStatus()));
  }
  FileCheck::Result Check(
      const StocFileId& file, const FileCheck::MayRead& may_read = [](uint64_t) { return true; }) {
    FileCheck check(store_->directory(), store_->stored(), may_read);
    return check.Check(store_->stored()->Find(file));
  }
  void Flip(const StocFileId& file, uint64_t at) {
    const auto open = base_->Open("files/" + file.ToString(), /*writable=*/true);
    ASSERT_TRUE(open.ok()) << open.status();
    char byte;
    ASSERT_TRUE((*open)->Read(at, 1, &byte).ok());
    byte = static_cast<char>(byte ^ 0x10);
    ASSERT_TRUE((*open)->Write(at, {&byte, 1}).ok() && (*open)->Sync().ok());
  }
  int64_t damaged() { return metrics_->gauge("nova_stoc_damaged_files")->value(); }

  SimDisk medium_;
  std::unique_ptr<Disk> base_;
  std::unique_ptr<FaultDisk> disk_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileCheckTest, S6EachByteOfAWholeFileCounts) {
  const std::string data = "0123456789";
  WriteWhole(Id(1), data);
  ASSERT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
  for (uint64_t at = 0; at < kFileHeaderBytes + data.size(); ++at) {
    Flip(Id(1), at);
    EXPECT_EQ(Check(Id(1)).verdict, Verdict::kDamaged) << at;
    EXPECT_EQ(damaged(), 1) << at;
    Flip(Id(1), at);
    EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole) << at;
    EXPECT_EQ(damaged(), 0) << at;
  }
}

TEST_F(FileCheckTest, S6EachByteThatWasAppendedCountsAndAtEachMoment) {
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    const StocFileId id = Id(static_cast<uint64_t>(kind));
    std::string all;
    for (int i = 1; i <= 3; ++i) {
      const std::string more = StrCat("piece", i, ".");
      Append(kind, id, all.size(), more);
      all += more;
      ASSERT_EQ(Check(id).verdict, Verdict::kWhole);
      for (uint64_t at = 0; at < kFileHeaderBytes + all.size(); ++at) {
        Flip(id, at);
        EXPECT_EQ(Check(id).verdict, Verdict::kDamaged) << at;
        Flip(id, at);
      }
      EXPECT_EQ(Check(id).verdict, Verdict::kWhole);
    }
  }
}

// A log's bytes come again after a doubt, at the same place.
TEST_F(FileCheckTest, S6WhatIsAppendedTwiceCountsOnce) {
  Append(Kind::kLog, Id(1), 0, "first.");
  Append(Kind::kLog, Id(1), 6, "second.");
  Append(Kind::kLog, Id(1), 3, "st.second.third.");
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
  Flip(Id(1), kFileHeaderBytes + 18);
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kDamaged) << "the last byte";
}

TEST_F(FileCheckTest, S6OfAnEarlierStartRecordsAreLookedAt) {
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    const StocFileId id = Id(static_cast<uint64_t>(kind));
    const std::string records = RecordsOf(kind, id.owner, 4), three = RecordsOf(kind, id.owner, 3),
                      two = RecordsOf(kind, id.owner, 2);
    Append(kind, id, 0, records);
    ASSERT_NO_FATAL_FAILURE(Open());
    // Of the third of four, but for its length.
    for (uint64_t at = two.size(); at < three.size(); ++at) {
      if (at >= two.size() + 4 && at < two.size() + 8) continue;
      Flip(id, kFileHeaderBytes + at);
      EXPECT_EQ(Check(id).verdict, Verdict::kDamaged) << at;
      Flip(id, kFileHeaderBytes + at);
    }
    EXPECT_EQ(Check(id).verdict, Verdict::kWhole);
    // What was found whole is known from then on, to its last byte.
    Flip(id, kFileHeaderBytes + records.size() - 1);
    EXPECT_EQ(Check(id).verdict, Verdict::kDamaged);
    Flip(id, kFileHeaderBytes + records.size() - 1);
    EXPECT_EQ(Check(id).verdict, Verdict::kWhole);
  }
}

TEST_F(FileCheckTest, S6ATornEndOfAnEarlierStartIsNoDamage) {
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    const StocFileId id = Id(static_cast<uint64_t>(kind));
    const std::string records = RecordsOf(kind, id.owner, 3), two = RecordsOf(kind, id.owner, 2);
    Append(kind, id, 0, records);
    ASSERT_NO_FATAL_FAILURE(Open());
    const auto file = base_->Open("files/" + id.ToString(), /*writable=*/true);
    const std::string zeros(records.size() - two.size() - 12, '\0');
    ASSERT_TRUE((*file)->Write(kFileHeaderBytes + two.size() + 12, zeros).ok());
    EXPECT_EQ(Check(id).verdict, Verdict::kWhole);
    Flip(id, kFileHeaderBytes + two.size() - 1);
    EXPECT_EQ(Check(id).verdict, Verdict::kDamaged) << "what is in front of it is known now";
  }
}

TEST_F(FileCheckTest, S6AFileThatIsGoneOrOfAnotherLengthIsDamaged) {
  WriteWhole(Id(1), "gone");
  WriteWhole(Id(2), "longer");
  Append(Kind::kAppended, Id(3), 0, "gone, too");
  ASSERT_TRUE(base_->Delete("files/" + Id(1).ToString()).ok());
  ASSERT_TRUE(base_->Delete("files/" + Id(3).ToString()).ok());
  ASSERT_TRUE((*base_->Open("files/" + Id(2).ToString(), true))->Write(kFileHeaderBytes + 6, "!").ok());
  for (uint64_t n = 1; n <= 3; ++n) EXPECT_EQ(Check(Id(n)).verdict, Verdict::kDamaged) << n;
  EXPECT_THAT(store_->stored()->Damaged(), ElementsAre(Id(1), Id(2), Id(3)));
  // Deleted, they take their marks and their bytes along.
  ASSERT_TRUE(store_->DeleteFiles({Id(1), Id(2), Id(3)}).ok());
  EXPECT_EQ(damaged(), 0);
  EXPECT_EQ(store_->stored_bytes(), 0u);
}

TEST_F(FileCheckTest, S6ADiskThatCannotReadIsDamageAndOneThatIsNotThereIsNot) {
  WriteWhole(Id(1), "sector");
  disk_->Add({.op = DiskOp::kRead, .action = FaultAction::kEio});
  const FileCheck::Result unreadable = Check(Id(1));
  EXPECT_EQ(unreadable.verdict, Verdict::kDamaged);
  EXPECT_TRUE(absl::IsDataLoss(unreadable.why)) << unreadable.why;
  disk_->Clear();
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
  disk_->Add({.op = DiskOp::kOpen, .action = FaultAction::kReadOnly});
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kUnknown);
  disk_->Clear();
  medium_.Crash();
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kUnknown);
  EXPECT_EQ(damaged(), 0);
}

TEST_F(FileCheckTest, S6OneBadReadIsNoDamage) {
  WriteWhole(Id(1), "0123456789");
  for (const FaultAction action : {FaultAction::kBitFlip, FaultAction::kEio}) {
    disk_->Add({.op = DiskOp::kRead, .action = action, .count = 1});
    const uint64_t before = disk_->faults();
    EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
    EXPECT_EQ(disk_->faults(), before + 1);
    disk_->Clear();
  }
}

TEST_F(FileCheckTest, S6ABadFileIsNotJudged) {  // S1
  disk_->Add({.op = DiskOp::kSync, .action = FaultAction::kEio});
  EXPECT_FALSE(store_->WriteFile(Id(1), kCreator, "x", Crc32c("x")).ok());
  disk_->Clear();
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kUnknown);
}

// At each read that a look makes, and at each again of its second look.
TEST_F(FileCheckTest, S6WhatChangesMeanwhileIsNoDamage) {
  const std::string data(3 << 20, 'd');
  struct Change {
    const char* what;
    std::function<void()> change;
  };
  const std::vector<Change> changes = {
      {"deleted", [&] { EXPECT_TRUE(store_->DeleteFiles({Id(1)}).ok()); }},
      {"deleted and written again",
       [&] {
         EXPECT_TRUE(store_->DeleteFiles({Id(1)}).ok());
         WriteWhole(Id(1), "other");
       }},
      {"healed",
       [&] {
         Flip(Id(1), 5);
         WriteWhole(Id(1), data);
       }},
      {"taken over by a later job",
       [&] {
         ASSERT_TRUE(store_->WriteCopy(Id(1), {RangeId(7), Epoch(3), 12}, data, Crc32c(data)).ok());
       }},
  };
  for (const Change& c : changes) {
    for (int at = 1; at <= 4; ++at) {
      ASSERT_TRUE(store_->DeleteFiles({Id(1)}).ok());  // if it is there
      WriteWhole(Id(1), data);
      int reads = 0;
      const FileCheck::Result result = Check(Id(1), [&](uint64_t) {
        if (++reads == at) c.change();
        return true;
      });
      EXPECT_NE(result.verdict, Verdict::kDamaged) << c.what << " at read " << at << ": " << result.why;
      EXPECT_EQ(damaged(), 0) << c.what << " at read " << at;
    }
  }
}

// Its bytes are damaged, and written anew at each read of the first look and of the second.
TEST_F(FileCheckTest, S6WhatIsHealedMeanwhileIsNotMarked) {
  const std::string data(3 << 20, 'd');
  WriteWhole(Id(1), data);
  int reads = 0;
  for (int at = 1;; ++at) {
    Flip(Id(1), kFileHeaderBytes + data.size() - 1);
    reads = 0;
    const FileCheck::Result result = Check(Id(1), [&](uint64_t) {
      if (++reads == at) WriteWhole(Id(1), data);
      return true;
    });
    if (reads < at) break;  // there is no such read
    EXPECT_NE(result.verdict, Verdict::kDamaged) << "at read " << at;
    EXPECT_EQ(damaged(), 0) << "at read " << at;
  }
  EXPECT_EQ(reads, 8);
}

TEST_F(FileCheckTest, S6WhatIsAppendedMeanwhileIsNoDamage) {
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    const StocFileId id = Id(static_cast<uint64_t>(kind));
    Append(kind, id, 0, "before.");
    uint64_t end = 7;
    const FileCheck::Result result = Check(id, [&](uint64_t) {
      Append(kind, id, end, "more.");
      end += 5;
      return true;
    });
    EXPECT_EQ(result.verdict, Verdict::kWhole) << result.why;
  }
}

TEST_F(FileCheckTest, S6ACheckThatIsGivenUpSaysNothing) {
  WriteWhole(Id(1), "0123456789");
  Flip(Id(1), 3);
  int reads = 0;
  const FileCheck::Result result = Check(Id(1), [&](uint64_t) { return ++reads < 2; });
  EXPECT_EQ(result.verdict, Verdict::kUnknown);
  EXPECT_TRUE(absl::IsCancelled(result.why));
  EXPECT_EQ(damaged(), 0);
}

// --- what heals

TEST_F(FileCheckTest, S6ADamagedFileIsWrittenAnewThoughReadsThroughACacheSeeItWhole) {
  WriteWhole(Id(1), "0123456789");
  const uint64_t stored = store_->stored_bytes();
  ASSERT_TRUE(base_->Delete("files/" + Id(1).ToString()).ok());
  EXPECT_EQ(*store_->ReadFile(Id(1), 0, 100), "0123456789") << "it is still open";
  ASSERT_EQ(Check(Id(1)).verdict, Verdict::kDamaged);
  EXPECT_TRUE(absl::IsNotFound(store_->ReadFile(Id(1), 0, 100).status())) << "whoever repairs it has to know";
  WriteWhole(Id(1), "0123456789");
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
  EXPECT_EQ(store_->stored_bytes(), stored);
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(*store_->ReadFile(Id(1), 0, 100), "0123456789");
}

TEST_F(FileCheckTest, S6TheListingSaysWhatIsDamaged) {
  for (uint64_t n = 1; n <= 3; ++n) WriteWhole(Id(n), "0123456789");
  Flip(Id(2), kFileHeaderBytes);
  ASSERT_EQ(Check(Id(2)).verdict, Verdict::kDamaged);
  std::vector<StocFileId> damaged;
  for (const FileSummary& f : store_->List(RangeId(7), Epoch(4))) {
    if (f.damaged) damaged.push_back(f.file);
  }
  EXPECT_THAT(damaged, ElementsAre(Id(2)));
  WriteWhole(Id(2), "0123456789");
  for (const FileSummary& f : store_->List(RangeId(7), Epoch(4))) EXPECT_FALSE(f.damaged);
}

TEST_F(FileCheckTest, S6WhatACacheStillHasIsWrittenAnewWithoutAnOwner) {
  WriteWhole(Id(1), "0123456789");
  WriteWhole(Id(2), "0123456789");
  ASSERT_TRUE(base_->Delete("files/" + Id(1).ToString()).ok());  // whose handle has it
  Flip(Id(2), kFileHeaderBytes + 2);
  for (uint64_t n = 1; n <= 2; ++n) ASSERT_EQ(Check(Id(n)).verdict, Verdict::kDamaged);
  EXPECT_TRUE(store_->HealFromCache(store_->stored()->Find(Id(1))).ok());
  EXPECT_TRUE(absl::IsDataLoss(store_->HealFromCache(store_->stored()->Find(Id(2)))));
  EXPECT_EQ(Check(Id(1)).verdict, Verdict::kWhole);
  EXPECT_EQ(Check(Id(2)).verdict, Verdict::kDamaged);
}

TEST_F(FileCheckTest, S6AListOfReferencesIsWrittenAnew) {
  WriteWhole(Id(1), "shared");
  WriteWhole(Id(2), "not shared");
  EXPECT_FALSE(*store_->references()->HealList(Id(2)));
  ASSERT_TRUE(store_->references()->AddReferences(RangeId(8), Epoch(1), {Id(1)}).ok());
  EXPECT_FALSE(*store_->references()->HealList(Id(1)));
  const std::string path = "files/" + Id(1).ToString() + ".refs";
  const uint64_t size = *(*base_->Open(path, false))->Size();
  for (uint64_t at = 0; at <= size; ++at) {
    if (at < size) {
      const auto file = *base_->Open(path, true);
      char byte;
      ASSERT_TRUE(file->Read(at, 1, &byte).ok());
      byte = static_cast<char>(byte ^ 1);
      ASSERT_TRUE(file->Write(at, {&byte, 1}).ok());
    } else {
      ASSERT_TRUE(base_->Delete(path).ok());
    }
    EXPECT_TRUE(*store_->references()->HealList(Id(1))) << at;
    EXPECT_FALSE(*store_->references()->HealList(Id(1))) << at;
  }
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(store_->stored()->ReferencesOf(Id(1))->all.size(), 2u);
}

// --- RecordWalk

TEST(RecordWalkTest, S6PiecesMayBeCutAnywhere) {
  const Uuid owner{0x12, 0x34};
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    const std::string records = RecordsOf(kind, owner, 4);
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{7}, size_t{64}, records.size()}) {
      RecordWalk walk(kind, owner);
      for (size_t at = 0; at < records.size(); at += piece)
        walk.Take(std::string_view(records).substr(at, piece));
      EXPECT_EQ(walk.whole().end, records.size()) << piece;
      EXPECT_EQ(walk.whole().crc, Crc32c(records)) << piece;
      EXPECT_FALSE(walk.damaged());
    }
    RecordWalk other(kind, {0x12, 0x35});
    other.Take(records);
    EXPECT_EQ(other.whole().end, 0u) << "records of another file";
    EXPECT_FALSE(other.damaged());
  }
}

// A snapshot of more tables than one message holds.
TEST(RecordWalkTest, S6ARecordMayBeAsLarge) {
  const Uuid owner{0x12, 0x34};
  VersionEdit snapshot;
  snapshot.done.resize(2'000'000, MemTableId(uint64_t{1} << 60));
  const std::string first = Manifest::EncodeRecord(owner, snapshot);
  ASSERT_GT(first.size(), kMaxAppendBytes);
  std::string records = first + Edits(owner, 3);
  const auto walk_over = [&] {
    RecordWalk walk(Kind::kAppended, owner);
    for (size_t at = 0; at < records.size(); at += 1 << 20)
      walk.Take(std::string_view(records).substr(at, 1 << 20));
    return walk;
  };
  EXPECT_EQ(walk_over().whole().end, records.size());
  EXPECT_EQ(walk_over().whole().crc, Crc32c(records));
  records[kMaxAppendBytes] ^= 1;
  EXPECT_TRUE(walk_over().damaged()) << "records stand behind it";
}

TEST(RecordWalkTest, S6AnythingMayStandThere) {
  for (const Kind kind : {Kind::kAppended, Kind::kLog}) {
    for (const std::string& bytes : {std::string(), std::string(7, 'x'), std::string(1000, '\0'),
                                     std::string(1000, '\xff'), std::string(100'000, '\1')}) {
      RecordWalk walk(kind, {1, 2});
      walk.Take(bytes);
      walk.Take(bytes);
      EXPECT_EQ(walk.whole().end, 0u);
      EXPECT_FALSE(walk.damaged());
    }
  }
}

}  // namespace
}  // namespace nova
