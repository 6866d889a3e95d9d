// The parts of a file store, each driven without the others where it can be.
#include "stoc/stored_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "stoc/log_files.h"
#include "stoc/shared_references.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = FileHeader::Kind;
using Use = StoreDirectory::Use;

constexpr Creator kCreator{RangeId(7), Epoch(3), 11};
constexpr RangeId kOther(8);

StocFileId Id(uint64_t n) { return {{0xabc, n}, 0}; }

class StoredFilesTest : public testing::Test {
 protected:
  StoredFilesTest() : base_(medium_.Mount()), disk_(base_.get()) { EXPECT_TRUE(directory_.Clean().ok()); }

  StoredFiles::File NewFile(uint64_t n, std::string_view data) {
    return std::make_shared<StoredFile>(
        FileHeader{Kind::kWhole, Id(n), kCreator, data.size(), WallMs(), Crc32c(data)});
  }
  // A whole file, durable.
  StoredFiles::File Make(uint64_t n, std::string_view data) {
    const StoredFiles::File file = NewFile(n, data);
    EXPECT_EQ(files_.AddOrFind(file), file);
    EXPECT_TRUE(directory_.CreateDurably(file->header, data).ok());
    file->size = data.size();
    EXPECT_TRUE(files_.FinishCreation(file, OkStatus()).ok());
    return file;
  }
  std::vector<StocFileId> Listed(RangeId range) {
    std::vector<StocFileId> ids;
    for (const FileSummary& f : files_.List(range, Epoch(100), {}, SIZE_MAX)) ids.push_back(f.file);
    return ids;
  }

  SimDisk medium_;
  Metrics metrics_;
  std::unique_ptr<Disk> base_;
  FaultDisk disk_;
  StoreDirectory directory_{&disk_, 1000, 8, &metrics_};
  StoredFiles files_{&directory_, &metrics_};
};

// --- StoreDirectory

TEST_F(StoredFilesTest, NamesOfFilesAndOfListsAreToldApart) {
  StocFileId file;
  const std::string name = Id(1).ToString();
  EXPECT_TRUE(StoreDirectory::ParseName(name, &file));
  EXPECT_EQ(file, Id(1));
  EXPECT_FALSE(StoreDirectory::ParseName(name + ".refs", &file));
  EXPECT_TRUE(StoreDirectory::ParseReferencesName(name + ".refs", &file));
  EXPECT_FALSE(StoreDirectory::ParseReferencesName(name, &file));
  EXPECT_FALSE(StoreDirectory::ParseName("letters.txt", &file));
}

TEST_F(StoredFilesTest, S2WhatIsAboutToBeWrittenIsAsGoodAsTaken) {
  const uint64_t reserve = directory_.free_bytes() - 1000;
  StoreDirectory nearly_full(&disk_, reserve, 8, &metrics_);
  EXPECT_TRUE(nearly_full.CheckSpace(1000, Use::kNewFile).ok());
  EXPECT_FALSE(nearly_full.CheckSpace(1001, Use::kNewFile).ok());
  EXPECT_TRUE(nearly_full.CheckSpace(1001, Use::kAppend).ok()) << "a quarter of the reserve is enough";
  const StoreDirectory::Writing writing(&nearly_full, 500);
  EXPECT_TRUE(nearly_full.CheckSpace(500, Use::kNewFile).ok());
  EXPECT_FALSE(nearly_full.CheckSpace(501, Use::kNewFile).ok());
}

// --- StoredFiles

TEST_F(StoredFilesTest, AFileIsFoundAtOnceAndListedWhenItIsDurable) {
  const StoredFiles::File file = NewFile(1, "abc");
  ASSERT_EQ(files_.AddOrFind(file), file);
  EXPECT_EQ(files_.AddOrFind(NewFile(1, "abc")), file) << "the first one has the name";
  EXPECT_FALSE(files_.Summary(Id(1)).has_value());
  EXPECT_THAT(Listed(kCreator.range), IsEmpty());
  ASSERT_TRUE(directory_.CreateDurably(file->header, "abc").ok());
  ASSERT_TRUE(files_.FinishCreation(file, OkStatus()).ok());
  EXPECT_THAT(Listed(kCreator.range), ElementsAre(Id(1)));
}

TEST_F(StoredFilesTest, AFileThatIsDeletedWhileItIsWrittenIsGoneFromTheDisk) {
  const StoredFiles::File file = NewFile(1, "abc");
  files_.AddOrFind(file);
  ASSERT_TRUE(directory_.CreateDurably(file->header, "abc").ok());
  file->size = 3;
  ASSERT_TRUE(files_.Delete({Id(1)}).ok());
  EXPECT_TRUE(absl::IsNotFound(files_.FinishCreation(file, OkStatus())));
  EXPECT_THAT(*disk_.List("files"), IsEmpty());
  EXPECT_EQ(directory_.stored_bytes(), 0u);
}

TEST_F(StoredFilesTest, S1AFailedCreationStaysBadAndAFullDiskLeavesNothing) {
  const StoredFiles::File full = NewFile(1, "abc"), failed = NewFile(2, "abc");
  files_.AddOrFind(full);
  files_.AddOrFind(failed);
  EXPECT_FALSE(files_.FinishCreation(full, absl::ResourceExhaustedError("full")).ok());
  EXPECT_FALSE(files_.FinishCreation(failed, absl::DataLossError("EIO")).ok());
  EXPECT_EQ(files_.Find(Id(1)), nullptr);
  ASSERT_EQ(files_.Find(Id(2)), failed);
  EXPECT_TRUE(failed->bad);
  EXPECT_EQ(directory_.stored_bytes(), 0u);
  EXPECT_TRUE(files_.Delete({Id(2)}).ok());
  EXPECT_EQ(directory_.stored_bytes(), 0u) << "what was never there is not taken off";
  Make(2, "abc");
  EXPECT_EQ(directory_.stored_bytes(), 3 + kFileHeaderBytes);
  EXPECT_TRUE(files_.Delete({Id(2)}).ok());
  EXPECT_EQ(directory_.stored_bytes(), 0u);
}

TEST_F(StoredFilesTest, R6LogsAreFoundByRangeAndEpoch) {
  const auto log = [&](uint64_t n, uint64_t range, uint64_t epoch, Kind kind = Kind::kLog) {
    EXPECT_TRUE(files_.CreateAppended(kind, Id(n), {RangeId(range), Epoch(epoch), 0}, "").ok());
  };
  const auto of = [&](uint64_t range, uint64_t below) {
    std::vector<StocFileId> ids;
    for (const StoredFiles::File& f : files_.LogsOf(RangeId(range), Epoch(below))) ids.push_back(f->id());
    EXPECT_EQ(files_.HasLogsOf(RangeId(range), Epoch(below)), !ids.empty());
    return ids;
  };
  log(1, 7, 3);
  log(2, 7, 4);
  log(3, 8, 2);
  log(4, 7, 2, Kind::kAppended);
  EXPECT_THAT(of(7, 3), IsEmpty()) << "a manifest is no log";
  EXPECT_THAT(of(7, 4), ElementsAre(Id(1)));
  EXPECT_THAT(of(7, 5), ElementsAre(Id(1), Id(2)));
  EXPECT_THAT(of(8, 100), ElementsAre(Id(3)));
  EXPECT_EQ(files_.Logs().size(), 3u);
  ASSERT_TRUE(files_.Delete({Id(1)}).ok());
  EXPECT_THAT(of(7, 5), ElementsAre(Id(2)));
  // As a start finds them; and one whose creation the full disk refused is in neither list.
  StoredFiles again(&directory_, &metrics_);
  for (const uint64_t n : {2, 3, 4}) ASSERT_TRUE(again.Load(Id(n)).ok());
  EXPECT_EQ(again.LogsOf(RangeId(7), Epoch(5)).size(), 1u);
  disk_.Add({.op = DiskOp::kCreate, .action = FaultAction::kNoSpace});
  EXPECT_FALSE(files_.CreateAppended(Kind::kLog, Id(5), {RangeId(9), Epoch(1), 0}, "").ok());
  EXPECT_THAT(of(9, 100), IsEmpty());
}

// A collection names the number below which jobs of its epoch have ended.
TEST_F(StoredFilesTest, N4ACollectionDropsWhatEndedAndNothingElse) {
  StoredFiles::File unlisted;
  const auto drop = [&](uint64_t n, uint64_t epoch, uint64_t ended_below) {
    return files_.DropUnshared(kCreator.range, Epoch(epoch), ended_below, Id(n), &unlisted);
  };
  const StoredFiles::File file = Make(1, "abc");
  const auto made_by = [&](uint64_t epoch, uint64_t job) {
    FileHeader header = file->header;
    header.creator.epoch = Epoch(epoch);
    header.creator.job = job;
    EXPECT_TRUE(files_.Recreated(file, header));
  };
  made_by(5, 7);
  EXPECT_EQ(drop(1, 5, 7), StoredFiles::Dropped::kNothing);
  EXPECT_EQ(drop(1, 4, 100), StoredFiles::Dropped::kNothing) << "by an earlier owner";
  made_by(5, 0);
  EXPECT_EQ(drop(1, 5, 100), StoredFiles::Dropped::kNothing) << "without a job: left to the next epoch";
  made_by(5, 7);
  EXPECT_EQ(drop(1, 5, 8), StoredFiles::Dropped::kFile);
  EXPECT_FALSE(files_.Recreated(file, file->header));
  EXPECT_EQ(files_.AddOrFind(file), nullptr) << "its name is not free yet";
  files_.FreeName(unlisted);
  ASSERT_EQ(files_.AddOrFind(file), file);
  EXPECT_EQ(drop(1, 6, 1), StoredFiles::Dropped::kFile) << "of an earlier epoch";
}

TEST_F(StoredFilesTest, M4AnUnsharedFileIsItsCreatorsAndASharedOneIsItsLists) {
  const StoredFiles::File file = Make(1, "abc");
  StoredFiles::File unlisted;
  EXPECT_TRUE(files_.References(*file, kCreator));
  EXPECT_EQ(files_.DropUnshared(kOther, Epoch(9), 0, Id(1), &unlisted), StoredFiles::Dropped::kNothing);
  ASSERT_TRUE(files_.AddReference(kOther, Epoch(5), Id(1)).ok());
  EXPECT_TRUE(files_.References(*file, kCreator));
  EXPECT_TRUE(files_.References(*file, {kOther, Epoch(5), 0}));
  EXPECT_FALSE(files_.References(*file, {kOther, Epoch(4), 0})) << "a later owner added it";
  EXPECT_EQ(files_.DropUnshared(kCreator.range, Epoch(9), 0, Id(1), &unlisted),
            StoredFiles::Dropped::kIsShared);
  const auto left = files_.DropShared(kCreator.range, Epoch(9), Id(1), &unlisted);
  ASSERT_TRUE(left.ok() && left->has_value());
  EXPECT_EQ((*left)->all.size(), 1u);
  EXPECT_EQ(unlisted, nullptr);
  EXPECT_THAT(Listed(kCreator.range), IsEmpty());
  EXPECT_THAT(Listed(kOther), ElementsAre(Id(1)));
  ASSERT_TRUE(files_.DropShared(kOther, Epoch(9), Id(1), &unlisted).ok());
  EXPECT_EQ(unlisted, file);
}

// --- SharedReferences

TEST_F(StoredFilesTest, M4AListLiesBesideItsFileAndGoesAfterIt) {
  SharedReferences references(&directory_, &files_);
  Make(1, "abc");
  const std::string name = Id(1).ToString();
  ASSERT_TRUE(references.AddReferences(kOther, Epoch(5), {Id(1)}).ok());
  EXPECT_THAT(*disk_.List("files"), ElementsAre(name, name + ".refs"));
  ASSERT_TRUE(references.DropReferences(kCreator.range, Epoch(3), {Id(1)}).ok());
  EXPECT_THAT(*disk_.List("files"), ElementsAre(name, name + ".refs"));
  ASSERT_TRUE(references.DropReferences(kOther, Epoch(5), {Id(1)}).ok());
  EXPECT_THAT(*disk_.List("files"), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(references.AddReferences(kOther, Epoch(5), {Id(1)})));
}

TEST_F(StoredFilesTest, M4AFileWhoseListCannotBeReadStays) {
  SharedReferences references(&directory_, &files_);
  Make(1, "abc");
  ASSERT_TRUE(directory_.WriteReferences(Id(1), "garbage").ok());
  EXPECT_FALSE(references.Load(Id(1).ToString() + ".refs").ok());
  EXPECT_TRUE(absl::IsDataLoss(references.DropReferences(kCreator.range, Epoch(9), {Id(1)})));
  EXPECT_NE(files_.Find(Id(1)), nullptr);
}

// --- LogFiles

TEST_F(StoredFilesTest, F1ASealClosesTheLogsOfEarlierEpochsOfOneRange) {
  LogFiles logs(&disk_, {}, &directory_, &files_);
  logs.OpenJournal();
  const Creator later{kCreator.range, Epoch(4), 0}, other{kOther, Epoch(3), 0};
  const Uuid log{1, 1}, log_of_later{1, 2}, log_of_other{1, 3};
  ASSERT_TRUE(logs.CreateLog(log, kCreator).ok());
  ASSERT_TRUE(logs.CreateLog(log_of_later, later).ok());
  ASSERT_TRUE(logs.CreateLog(log_of_other, other).ok());
  const LogFiles::LogWrite writes[] = {{log, kCreator, {{0, "abc"}}, true},
                                       {log_of_later, later, {{0, "de"}}, true},
                                       {log_of_other, other, {{0, "f"}}, false}};
  for (const Status& s : logs.WriteLogs(writes)) EXPECT_TRUE(s.ok()) << s;
  EXPECT_THAT(logs.SealLogs(kCreator.range, Epoch(4)), ElementsAre(SealedLogFile{log, 3}));
  const std::vector<Status> after = logs.WriteLogs(writes);
  EXPECT_TRUE(absl::IsUnavailable(after[0]));
  EXPECT_TRUE(after[1].ok() && after[2].ok());
}

}  // namespace
}  // namespace nova
