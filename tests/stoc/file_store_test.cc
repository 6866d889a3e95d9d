#include "stoc/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Creator kCreator{RangeId(7), Epoch(3), 11};

StocFileId Id(uint64_t n, uint32_t part = 0) { return {{0xabc, n}, part}; }

class FileStoreTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open(FileStoreOptions options = {.reserve_bytes = 0}) {
    store_ = nullptr;
    disk_ = nullptr;
    base_ = medium_.Mount();
    disk_ = std::make_unique<FaultDisk>(base_.get());
    auto opened = FileStore::Open(disk_.get(), options, &metrics_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void Crash(Random* torn = nullptr) {
    medium_.Crash(torn);
    Open();
  }
  Status Write(const StocFileId& file, std::string_view data) {
    return store_->WriteFile(file, kCreator, data, Crc32c(data));
  }
  Status Append(const StocFileId& file, uint64_t offset, std::string_view data,
                const Creator& creator = kCreator) {
    return store_->AppendFile(file, creator, offset, offset == 0, data);
  }
  std::string Read(const StocFileId& file, uint64_t offset = 0, uint32_t size = kMaxReadBytes) {
    auto bytes = store_->ReadFile(file, offset, size);
    return bytes.ok() ? *bytes : StrCat("(", bytes.status().ToString(), ")");
  }

  SimDisk medium_;
  Metrics metrics_;
  std::unique_ptr<Disk> base_;
  std::unique_ptr<FaultDisk> disk_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileStoreTest, AWrittenFileSurvivesACrash) {
  ASSERT_TRUE(Write(Id(1), "fragment").ok());
  ASSERT_TRUE(Write(Id(1, kMetadataPart), "metadata").ok());
  Crash();
  EXPECT_EQ(Read(Id(1)), "fragment");
  EXPECT_EQ(Read(Id(1, kMetadataPart)), "metadata");
}

TEST_F(FileStoreTest, ReadsAreCutAtTheEnd) {
  ASSERT_TRUE(Write(Id(1), "0123456789").ok());
  EXPECT_EQ(Read(Id(1), 3, 4), "3456");
  EXPECT_EQ(Read(Id(1), 8, 100), "89");
  EXPECT_EQ(Read(Id(1), 10, 1), "");
  EXPECT_EQ(Read(Id(1), UINT64_MAX, 1), "");
  EXPECT_THAT(Read(Id(2)), HasSubstr("NOT_FOUND"));
}

// N4: in order and whole, whatever the size of a page.
TEST_F(FileStoreTest, AListInPagesIsTheWholeList) {
  constexpr RangeId kOther(8);
  for (uint64_t n = 1; n <= 40; ++n) {
    const Creator creator{n % 5 == 0 ? kOther : kCreator.range, Epoch(n % 4), n};
    const StocFileId file = Id(n % 7, static_cast<uint32_t>(n));
    ASSERT_TRUE(store_->WriteFile(file, creator, "x", Crc32c("x")).ok());
    if (n % 3 != 0) continue;
    ASSERT_TRUE(
        store_->references()->AddReferences(n % 2 == 0 ? kCreator.range : kOther, Epoch(2), {file}).ok());
  }
  for (const uint64_t epoch_below : {1u, 3u, 9u}) {
    const auto whole = store_->List(kCreator.range, Epoch(epoch_below));
    EXPECT_TRUE(std::is_sorted(whole.begin(), whole.end(),
                               [](const auto& a, const auto& b) { return a.file < b.file; }));
    for (const size_t size : {1u, 2u, 7u, 100u}) {
      std::vector<StocFileId> files;
      for (StocFileId after;;) {
        const auto page = store_->List(kCreator.range, Epoch(epoch_below), after, size);
        ASSERT_LE(page.size(), size);
        for (const FileSummary& f : page) files.push_back(f.file);
        if (page.size() < size) break;
        after = page.back().file;
      }
      ASSERT_EQ(files.size(), whole.size());
      for (size_t i = 0; i < files.size(); ++i) EXPECT_EQ(files[i], whole[i].file);
    }
  }
  EXPECT_GT(store_->List(kCreator.range, Epoch(9)).size(), 20u);
}

TEST_F(FileStoreTest, AFileNeverChanges) {
  ASSERT_TRUE(Write(Id(1), "first").ok());
  EXPECT_TRUE(Write(Id(1), "first").ok());  // the answer to the first try was lost
  EXPECT_TRUE(absl::IsInvalidArgument(Write(Id(1), "other")));
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 0, "x")));
  EXPECT_EQ(Read(Id(1)), "first");
}

TEST_F(FileStoreTest, S3WritingADamagedFileAgainHealsIt) {
  ASSERT_TRUE(Write(Id(1), "0123456789").ok());
  ASSERT_TRUE(Write(Id(2), "untouched").ok());
  const uint64_t stored = store_->stored_bytes();
  for (const uint64_t at : {uint64_t{3}, kFileHeaderBytes + uint64_t{4}}) {  // in the header, in the bytes
    const auto file = base_->Open("files/" + Id(1).ToString(), /*writable=*/true);
    ASSERT_TRUE((*file)->Write(at, "#").ok() && (*file)->Sync().ok());
    EXPECT_TRUE(Write(Id(1), "0123456789").ok());
    EXPECT_EQ(Read(Id(1)), "0123456789");
    EXPECT_EQ(store_->stored_bytes(), stored);
  }
  EXPECT_EQ(metrics_.counter("nova_stoc_files_healed_total")->value(), 2u);
  EXPECT_TRUE(Write(Id(1), "0123456789").ok());
  EXPECT_EQ(metrics_.counter("nova_stoc_files_healed_total")->value(), 2u) << "what is whole is left alone";
  // A later owner of the range heals too; the file stays its creator's (N4). An older one, or another range,
  // does not.
  const auto again = [&](const Creator& by) {
    return store_->WriteFile(Id(1), by, "0123456789", Crc32c("0123456789"));
  };
  EXPECT_TRUE(again({RangeId(7), Epoch(5), 1}).ok());
  EXPECT_EQ(store_->Find(Id(1))->creator, kCreator);
  EXPECT_TRUE(absl::IsInvalidArgument(again({RangeId(7), Epoch(2), 1})));
  EXPECT_TRUE(absl::IsInvalidArgument(again({RangeId(8), Epoch(3), 1})));
  Crash();
  EXPECT_EQ(Read(Id(1)), "0123456789");
  EXPECT_EQ(Read(Id(2)), "untouched");
}

// What the disk says of the bytes after it was written anew is worth nothing: they stay damaged, and whoever
// reads them asks elsewhere.
TEST_F(FileStoreTest, S3NothingIsHealedOnADiskThatGaveErrors) {
  bool fault = false;
  Open({.reserve_bytes = 0, .disk_has_fault = [&fault] { return fault; }});
  ASSERT_TRUE(Write(Id(1), "0123456789").ok());
  const auto damage = [&] {
    const auto file = base_->Open("files/" + Id(1).ToString(), /*writable=*/true);
    ASSERT_TRUE((*file)->Write(kFileHeaderBytes + 4, "#").ok() && (*file)->Sync().ok());
  };
  damage();
  fault = true;
  const Status s = Write(Id(1), "0123456789");
  EXPECT_TRUE(absl::IsDataLoss(s)) << s;
  EXPECT_EQ(Read(Id(1)), "0123#56789");
  EXPECT_TRUE(absl::IsDataLoss(
      store_->WriteCopy(Id(1), {RangeId(7), Epoch(3), 9}, "0123456789", Crc32c("0123456789"))));
  EXPECT_EQ(metrics_.counter("nova_stoc_files_healed_total")->value(), 0u);
  EXPECT_TRUE(Write(Id(2), "new").ok()) << "where there is no better disk a new file is placed on it";
  EXPECT_TRUE(Write(Id(2), "new").ok()) << "what is whole is no damage";
  fault = false;  // an operator's word
  EXPECT_TRUE(Write(Id(1), "0123456789").ok());
  EXPECT_EQ(Read(Id(1)), "0123456789");
}

TEST_F(FileStoreTest, CreatorsAreListedAfterARestart) {  // N4
  ASSERT_TRUE(store_->WriteFile(Id(1), {RangeId(7), Epoch(3), 1}, "abc", Crc32c("abc")).ok());
  ASSERT_TRUE(store_->WriteFile(Id(2), {RangeId(7), Epoch(4), 2}, "", Crc32c("")).ok());
  ASSERT_TRUE(store_->WriteFile(Id(3), {RangeId(8), Epoch(3), 3}, "x", Crc32c("x")).ok());
  ASSERT_TRUE(Append(Id(4), 0, "edits", {RangeId(7), Epoch(2), 0}).ok());
  Crash();
  const auto below4 = store_->List(RangeId(7), Epoch(4));
  ASSERT_THAT(below4, SizeIs(2));
  EXPECT_EQ(below4[0].file, Id(1));
  EXPECT_EQ(below4[0].creator, (Creator{RangeId(7), Epoch(3), 1}));
  EXPECT_EQ(below4[0].size, 3u);
  EXPECT_EQ(below4[1].file, Id(4));
  EXPECT_EQ(below4[1].size, 5u);
  EXPECT_THAT(store_->List(RangeId(7), Epoch(5)), SizeIs(3));
  EXPECT_THAT(store_->List(RangeId(9), Epoch(5)), SizeIs(0));
}

TEST_F(FileStoreTest, HeaderBytesAreGolden) {
  const FileHeader header{FileHeader::Kind::kWhole,
                          {{0x0102030405060708, 0x1112131415161718}, 0x21222324},
                          {RangeId(1), Epoch(2), 3},
                          4,
                          5,
                          0x61626364};
  const std::string bytes = header.Encode();
  std::string hex;
  for (const char c : bytes) hex += StrCat(absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
  EXPECT_EQ(hex,
            "4e564631"
            "f91f30ff"
            "0100"
            "0100"
            "24232221"
            "0807060504030201"
            "1817161514131211"
            "0100000000000000"
            "0200000000000000"
            "0300000000000000"
            "0400000000000000"
            "0500000000000000"
            "64636261"
            "00000000");
  EXPECT_EQ(*FileHeader::Decode(bytes), header);
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(FileHeader::Decode(damaged).ok()) << i;
  }
}

TEST_F(FileStoreTest, AppendsGoToTheEndOnly) {  // M1
  ASSERT_TRUE(Append(Id(1), 0, "one").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 2, "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 4, "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 0, "again")));
  ASSERT_TRUE(Append(Id(1), 3, "two").ok());
  EXPECT_EQ(Read(Id(1)), "onetwo");
  EXPECT_TRUE(absl::IsNotFound(Append(Id(2), 3, "x")));
}

TEST_F(FileStoreTest, AnEpochAppendsToItsOwnFilesOnly) {  // M1
  ASSERT_TRUE(Append(Id(1), 0, "one").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 3, "x", {RangeId(7), Epoch(4), 0})));
  EXPECT_TRUE(absl::IsInvalidArgument(Append(Id(1), 3, "x", {RangeId(8), Epoch(3), 0})));
  EXPECT_EQ(Read(Id(1)), "one");
}

TEST_F(FileStoreTest, AcknowledgedAppendsSurviveATornCrashAndTheFileIsClosed) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const StocFileId file = Id(100 + seed);
    ASSERT_TRUE(Append(file, 0, "first").ok());
    ASSERT_TRUE(Append(file, 5, "second").ok());
    // Written and not synced when the power goes.
    disk_->Add({.op = DiskOp::kSync, .action = FaultAction::kEio});
    ASSERT_FALSE(Append(file, 11, std::string(2000, 'x')).ok());
    Random random(seed);
    Crash(&random);
    EXPECT_EQ(Read(file).substr(0, 11), "firstsecond");
    EXPECT_TRUE(absl::IsUnavailable(Append(file, 11, "third")));
  }
}

TEST_F(FileStoreTest, ATornCrashLeavesAWholeFileOrNone) {
  const std::string data(100'000, 'd');
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::vector<DiskOp> ops = {DiskOp::kWrite, DiskOp::kSync, DiskOp::kRename, DiskOp::kSyncDirectory};
    disk_->Add({.path = "files", .op = ops[seed % ops.size()], .action = FaultAction::kEio});
    ASSERT_FALSE(Write(Id(seed), data).ok());
    Random random(seed);
    Crash(&random);
    const std::string bytes = Read(Id(seed));
    EXPECT_TRUE(bytes == data || bytes.starts_with("(NOT_FOUND")) << seed << ": " << bytes.substr(0, 80);
  }
}

TEST_F(FileStoreTest, AFailedWriteOrSyncMakesTheFileBadForEver) {  // S1, row 22
  for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync, DiskOp::kSyncDirectory}) {
    const StocFileId file = Id(static_cast<uint64_t>(op));
    disk_->Add({.op = op, .action = FaultAction::kEio, .count = 1});
    EXPECT_TRUE(absl::IsDataLoss(Write(file, "data")));
    disk_->Clear();
    EXPECT_TRUE(absl::IsDataLoss(Write(file, "data"))) << "a second try must not be believed";
    EXPECT_THAT(Read(file), HasSubstr("DATA_LOSS"));
    EXPECT_TRUE(store_->DeleteFiles({file}).ok());
    EXPECT_THAT(Read(file), HasSubstr("NOT_FOUND"));
  }
  ASSERT_TRUE(Append(Id(100), 0, "one").ok());
  disk_->Add({.op = DiskOp::kSync, .action = FaultAction::kEio, .count = 1});
  EXPECT_TRUE(absl::IsDataLoss(Append(Id(100), 3, "two")));
  disk_->Clear();
  EXPECT_TRUE(absl::IsDataLoss(Append(Id(100), 3, "two")));
  EXPECT_EQ(Read(Id(100)), "one");  // what was acknowledged is still there
}

TEST_F(FileStoreTest, AFullDiskRefusesEarlyAndResumes) {  // S2, row 20
  ASSERT_TRUE(Append(Id(100), 0, "one").ok());
  const uint64_t free = store_->free_bytes();
  Open({.reserve_bytes = free - 1000});
  EXPECT_TRUE(Write(Id(1), "fits").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Write(Id(2), std::string(2000, 'x'))));
  EXPECT_TRUE(Append(Id(101), 0, "manifests have a reserve of their own").ok());
  EXPECT_EQ(Read(Id(1)), "fits");
  EXPECT_TRUE(store_->DeleteFiles({Id(1)}).ok());
  Open();
  EXPECT_TRUE(Write(Id(2), std::string(2000, 'x')).ok()) << "not bad: the disk was merely full";
}

TEST_F(FileStoreTest, NoSpaceOfTheDiskItselfIsNoSpaceAndNotBad) {
  for (const DiskOp op : {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kSync}) {
    disk_->Add({.op = op, .action = FaultAction::kNoSpace});
    EXPECT_TRUE(absl::IsResourceExhausted(Write(Id(1), "data")));
    disk_->Clear();
  }
  EXPECT_TRUE(Write(Id(1), "data").ok());
  EXPECT_EQ(Read(Id(1)), "data");
}

TEST_F(FileStoreTest, UnfinishedFilesAreRemovedAtStart) {
  disk_->Add({.op = DiskOp::kRename, .action = FaultAction::kEio});
  disk_->Add({.op = DiskOp::kDelete, .action = FaultAction::kEio});
  ASSERT_FALSE(Write(Id(1), "data").ok());
  EXPECT_THAT(*base_->List("files"), SizeIs(1));
  Open();
  EXPECT_THAT(*base_->List("files"), SizeIs(0));
  EXPECT_TRUE(Write(Id(1), "data").ok());
}

TEST_F(FileStoreTest, DamagedHeadersAreLeftAloneAndCounted) {
  ASSERT_TRUE(Write(Id(1), "data").ok());
  ASSERT_TRUE(Write(Id(2), "data").ok());
  const std::string path = "files/" + Id(1).ToString();
  ASSERT_TRUE((*base_->Open(path, true))->Write(20, "!").ok());
  const uint64_t bad = metrics_.counter("nova_stoc_bad_files_total")->value();
  Open();
  EXPECT_EQ(metrics_.counter("nova_stoc_bad_files_total")->value(), bad + 1);
  EXPECT_THAT(Read(Id(1)), HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Read(Id(2)), "data");
  EXPECT_THAT(*base_->List("files"), SizeIs(2));
}

// D, L2: a log's bytes go where its writer says; what was synced is there after a crash, and the log closed.
TEST_F(FileStoreTest, ALogTakesBytesAtTheirPlacesUntilItIsSealed) {
  const Uuid log{7, 7};
  const auto write = [&](uint64_t offset, std::string_view bytes, bool sync,
                         const Creator& creator = kCreator) {
    const LogFiles::LogWrite one{log, creator, {{offset, bytes}}, sync};
    return store_->logs()->WriteLogs({&one, 1})[0];
  };
  EXPECT_TRUE(absl::IsUnavailable(write(0, "x", true))) << "it is not open";
  ASSERT_TRUE(store_->logs()->CreateLog(log, kCreator).ok());
  ASSERT_TRUE(store_->logs()->CreateLog(log, kCreator).ok()) << "the answer to the first try was lost";
  ASSERT_TRUE(write(3, "def", false).ok());
  ASSERT_TRUE(write(0, "abc", false).ok());
  ASSERT_TRUE(write(3, "def", true).ok()) << "posted again";
  ASSERT_TRUE(write(6, "ghi", false).ok());
  EXPECT_EQ(Read({log, 0}), "abcdefghi");
  const Creator later{kCreator.range, Epoch(kCreator.epoch.value() + 1)};
  EXPECT_TRUE(absl::IsUnavailable(write(9, "x", true, later))) << "an epoch appends to its own logs only";
  EXPECT_TRUE(store_->logs()->SealLogs(kCreator.range, kCreator.epoch).empty());
  EXPECT_EQ(store_->logs()->SealLogs(kCreator.range, later.epoch), (std::vector<SealedLogFile>{{log, 9}}));
  EXPECT_TRUE(absl::IsUnavailable(write(9, "x", true)));
  Crash();
  EXPECT_EQ(Read({log, 0}).substr(0, 6), "abcdef");
  EXPECT_TRUE(absl::IsUnavailable(write(6, "x", true)));
  EXPECT_TRUE(absl::IsUnavailable(store_->logs()->CreateLog(log, kCreator)));
  EXPECT_EQ(store_->logs()->SealLogs(kCreator.range, later.epoch).size(), 1u);
  ASSERT_TRUE(store_->logs()->DeleteLogs(kCreator.range, later.epoch).ok());
  EXPECT_FALSE(store_->Find({log, 0}));
}

// D: logs that are synced together are durable by the journal, and without it.
TEST_F(FileStoreTest, LogsAreDurableTogetherWhateverBecomesOfTheJournal) {
  const auto no_fault = [] {};
  const auto sync_fails = [&] { disk_->Add({.path = "journal", .op = DiskOp::kSync, .count = 1}); };
  const auto write_fails = [&] {
    disk_->Add({.path = "journal", .op = DiskOp::kWrite, .action = FaultAction::kTorn, .count = 1});
  };
  const auto full = [&] {
    disk_->Add({.path = "journal", .op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
  };
  const auto no_file = [&] { disk_->Add({.path = "journal", .op = DiskOp::kCreate}); };
  uint64_t n = 0;
  for (const std::function<void()>& fault :
       std::vector<std::function<void()>>{no_fault, sync_fails, write_fails, full, no_file}) {
    const std::vector<Uuid> logs = {{++n, 1}, {n, 2}, {n, 3}};
    for (const Uuid& log : logs) ASSERT_TRUE(store_->logs()->CreateLog(log, kCreator).ok());
    fault();
    for (uint64_t at = 0; at < 90; at += 3) {
      std::vector<LogFiles::LogWrite> writes;
      for (const Uuid& log : logs)
        writes.push_back({log, kCreator, {{at, "abc"}}, /*sync=*/log.lo != 3 || at == 87});
      for (const Status& s : store_->logs()->WriteLogs(writes)) ASSERT_TRUE(s.ok()) << n << ": " << s;
    }
    disk_->Clear();
    Random torn(n);
    Crash(&torn);
    for (const Uuid& log : logs) {
      EXPECT_EQ(Read({log, 0}).size(), 90u) << n << " " << log.lo;
      EXPECT_EQ(Read({log, 0}).substr(0, 6), "abcabc") << n << " " << log.lo;
    }
  }
}

TEST_F(FileStoreTest, TheJournalLeavesAloneWhatIsNoLog) {
  const Uuid log{1, 1};
  ASSERT_TRUE(store_->logs()->CreateLog(log, kCreator).ok());
  const LogFiles::LogWrite write{log, kCreator, {{0, "abc"}}, true};
  ASSERT_TRUE(store_->logs()->WriteLogs({&write, 1})[0].ok());
  ASSERT_TRUE(store_->DeleteFiles({{log, 0}}).ok());
  ASSERT_TRUE(Write({log, 0}, "0123456789").ok());
  Crash();
  EXPECT_EQ(Read({log, 0}), "0123456789");
}

// A record is in the journal, power fails, and the start after it cannot read some file; it takes another
// record all the same.
class UnreadableAtStartTest : public FileStoreTest {
 protected:
  void Start(const std::string& unreadable, const std::function<void(FileStore*)>& check) {
    ASSERT_TRUE(store_->logs()->CreateLog(kLog, kCreator).ok());
    const LogFiles::LogWrite write{kLog, kCreator, {{0, "abc"}}, true};
    ASSERT_TRUE(store_->logs()->WriteLogs({&write, 1})[0].ok());
    medium_.Crash();
    store_ = nullptr;
    base_ = medium_.Mount();
    FaultDisk faults(base_.get());
    faults.Add({.path = unreadable, .op = DiskOp::kRead});
    {
      auto store = FileStore::Open(&faults, {.reserve_bytes = 0}, &metrics_);
      ASSERT_TRUE(store.ok()) << store.status();
      check(store->get());
      const LogFiles::LogWrite other{{1, 2}, kCreator, {{0, "def"}}, true};
      ASSERT_TRUE((*store)->logs()->CreateLog(other.log, kCreator).ok());
      ASSERT_TRUE((*store)->logs()->WriteLogs({&other, 1})[0].ok());
    }
    Crash();
    EXPECT_EQ(Read({kLog, 0}), "abc");
    EXPECT_EQ(Read({{1, 2}, 0}), "def");
  }
  static constexpr Uuid kLog{1, 1};
};

// Whoever seals a log tries again: then it is whole, and so is its size. Who sealed it before knows no size.
TEST_F(FileStoreTest, AJournalThatCouldNotBePutBackAtTheStartIsPutBackByASeal) {  // D
  const Creator other{RangeId(99), kCreator.epoch};
  const Uuid log{1, 1}, of_other{1, 2};
  for (const auto& [uuid, creator] : {std::pair{log, kCreator}, std::pair{of_other, other}}) {
    ASSERT_TRUE(store_->logs()->CreateLog(uuid, creator).ok());
  }
  const LogFiles::LogWrite writes[] = {{log, kCreator, {{0, "abc"}}, true},
                                       {of_other, other, {{0, "defg"}}, true}};
  for (const Status& s : store_->logs()->WriteLogs(writes)) ASSERT_TRUE(s.ok()) << s;
  medium_.Crash();
  store_ = nullptr;
  base_ = medium_.Mount();
  FaultDisk faults(base_.get());
  faults.Add({.path = "files/", .op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
  {
    auto store = FileStore::Open(&faults, {.reserve_bytes = 0}, &metrics_);
    ASSERT_TRUE(store.ok()) << store.status();
    const Epoch later(kCreator.epoch.value() + 1);
    EXPECT_EQ((*store)->logs()->SealLogs(kCreator.range, later),
              (std::vector<SealedLogFile>{{log, SealedLogFile::kUnknownSize}}));
    EXPECT_TRUE(absl::IsDataLoss((*store)->ReadFile({log, 0}, 0, 3).status())) << "the disk is full still";
    faults.Clear();
    std::vector<std::unique_ptr<Thread>> callers;
    for (int i = 0; i < 4; ++i) {  // each is told nothing, or all of it
      callers.push_back(std::make_unique<Thread>("test", [&] {
        for (const Nanos until = Now() + 1500 * kMillisecond; Now() < until;) {
          const auto sealed = (*store)->logs()->SealLogs(kCreator.range, later);
          ASSERT_EQ(sealed.size(), 1u);
          if (sealed[0].size == SealedLogFile::kUnknownSize) continue;
          ASSERT_EQ(sealed[0].size, 3u);
          ASSERT_EQ(*(*store)->ReadFile({log, 0}, 0, 3), "abc");
        }
      }));
    }
    callers.clear();
    EXPECT_EQ((*store)->logs()->SealLogs(kCreator.range, later), (std::vector<SealedLogFile>{{log, 3}}));
    EXPECT_EQ(*(*store)->ReadFile({log, 0}, 0, 3), "abc");
    EXPECT_EQ((*store)->logs()->SealLogs(other.range, later), (std::vector<SealedLogFile>{{of_other, 4}}));
    EXPECT_EQ(*(*store)->ReadFile({of_other, 0}, 0, 4), "defg");
  }
}

// A journal that cannot be put back is left as it is for the next start; the logs of before are not read, new
// ones are synced one by one.
TEST_F(UnreadableAtStartTest, TheJournalIsKept) {
  Start("journal", [](FileStore* store) {
    EXPECT_TRUE(absl::IsDataLoss(store->ReadFile({kLog, 0}, 0, 3).status()))
        << "what is left of it must not pass for all";
  });
}

// A log whose header cannot be read gets back what the journal has of it all the same: the journal is gone at
// the next start.
TEST_F(UnreadableAtStartTest, ALogGetsBackWhatTheJournalHas) {  // D
  Start(StocFileId{kLog, 0}.ToString(), [](FileStore* store) { EXPECT_FALSE(store->Find({kLog, 0})); });
}

TEST_F(FileStoreTest, ReadErrorsAreDataLoss) {  // row 21
  ASSERT_TRUE(Write(Id(1), "data").ok());
  disk_->Add({.op = DiskOp::kRead, .action = FaultAction::kEio, .count = 1});
  EXPECT_THAT(Read(Id(1)), HasSubstr("DATA_LOSS"));
  EXPECT_EQ(Read(Id(1)), "data");
}

TEST_F(FileStoreTest, ManyFilesShareFewHandles) {
  Open({.reserve_bytes = 0, .max_open_files = 4});
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(Write(Id(i), StrCat("file ", i)).ok());
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(Read(Id(i)), StrCat("file ", i));
  }
  for (uint64_t i = 0; i < 50; i += 2) ASSERT_TRUE(store_->DeleteFiles({Id(i)}).ok());
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Read(Id(i)).starts_with("(NOT_FOUND"), i % 2 == 0) << i;
  }
}

// A name that were free while its file still is on the disk would lose the next one's file with it.
TEST_F(FileStoreTest, N4ANameIsFreeWhenItsFileIsGone) {
  ASSERT_TRUE(Write(Id(1), "old").ok());
  disk_->Add(
      {.op = DiskOp::kDelete, .action = FaultAction::kDelay, .count = 1, .delay_ns = 200 * kMillisecond});
  Thread drop("test", [&] {
    EXPECT_TRUE(store_->references()->DropReferences(kCreator.range, kCreator.epoch, {Id(1)}).ok());
  });
  Creator later = kCreator;
  ++later.job;
  Status written;
  int refused = 0;
  do {
    written = store_->WriteCopy(Id(1), later, "new", Crc32c(std::string_view("new")));
    refused += absl::IsAborted(written);
    SleepFor(kMillisecond);
  } while (!written.ok());
  drop.Join();
  EXPECT_GT(refused, 0);
  EXPECT_EQ(Read(Id(1)), "new");
  Open();
  EXPECT_EQ(Read(Id(1)), "new");
}

// Deletions of a collection that meet copies that are made, and taken over, at the same time.
TEST_F(FileStoreTest, N4WhatAJobHasCopiedStaysWhileEarlierOnesAreCollected) {
  const std::string_view data = "the bytes of a fragment";
  std::atomic<uint64_t> job{1};
  std::atomic<bool> stop{false};
  const auto collect = [&] {
    while (!stop) {
      const uint64_t ended_below = job;
      EXPECT_TRUE(
          store_->references()->DropReferences(kCreator.range, kCreator.epoch, {Id(1)}, ended_below).ok());
    }
  };
  std::vector<std::unique_ptr<Thread>> collections;
  for (int i = 0; i < 2; ++i) collections.push_back(std::make_unique<Thread>("test", collect));
  int again = 0;  // they have met
  for (const Nanos until = Now() + 20 * kSecond; job < 500 || (again == 0 && Now() < until); ++job) {
    Creator creator = kCreator;
    creator.job = job;
    for (;;) {
      const Status s = store_->WriteCopy(Id(1), creator, data, Crc32c(data));
      if (s.ok()) break;
      ASSERT_TRUE(absl::IsAborted(s) || absl::IsNotFound(s)) << s;
      ++again;
    }
    ASSERT_EQ(Read(Id(1)), data) << "job " << job;
    ASSERT_EQ(store_->Find(Id(1))->creator, creator);
  }
  stop = true;
  collections.clear();
  EXPECT_GT(again, 0) << "they have not met";
}

}  // namespace
}  // namespace nova
