// M4: who references a file of a StoC, through crashes and failing disks; a file goes with its last
// reference, and not before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/strings/escaping.h"
#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "stoc/file_store.h"

namespace nova {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RangeId kA(1), kB(2), kC(3);
StocFileId Id(uint64_t n, uint32_t part = 0) { return {{0xabc, n}, part}; }

class FileReferencesTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void Open() {
    store_ = nullptr;
    disk_ = nullptr;
    base_ = medium_.Mount();
    disk_ = std::make_unique<FaultDisk>(base_.get());
    auto opened = FileStore::Open(disk_.get(), {.reserve_bytes = 0}, &metrics_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  void Crash(Random* torn = nullptr) {
    medium_.Crash(torn);
    Open();
  }
  Status Write(const StocFileId& file, RangeId range = kA, Epoch epoch = Epoch(1)) {
    const std::string data = file.ToString();
    return store_->WriteFile(file, {range, epoch, 9}, data, Crc32c(data));
  }
  bool Readable(const StocFileId& file) {
    const auto bytes = store_->ReadFile(file, 0, kMaxReadBytes);
    return bytes.ok() && *bytes == file.ToString();
  }
  Status Add(RangeId range, uint64_t epoch, const StocFileId& file) {
    return store_->references()->AddReferences(range, Epoch(epoch), {file});
  }
  Status Drop(RangeId range, uint64_t epoch, const StocFileId& file) {
    return store_->references()->DropReferences(range, Epoch(epoch), {file});
  }
  std::vector<StocFileId> ListOf(RangeId range, uint64_t epoch_below = 100) {
    std::vector<StocFileId> files;
    for (const FileSummary& f : store_->List(range, Epoch(epoch_below))) files.push_back(f.file);
    return files;
  }

  SimDisk medium_;
  Metrics metrics_;
  std::unique_ptr<Disk> base_;
  std::unique_ptr<FaultDisk> disk_;
  std::unique_ptr<FileStore> store_;
};

TEST_F(FileReferencesTest, M4AFileGoesWithItsLastReference) {
  for (const bool restart : {false, true}) {
    ASSERT_TRUE(Write(Id(1)).ok());
    ASSERT_TRUE(Add(kB, 1, Id(1)).ok());
    ASSERT_TRUE(Add(kC, 5, Id(1)).ok());
    ASSERT_TRUE(Add(kB, 1, Id(1)).ok()) << "again is no error";
    if (restart) Crash();
    ASSERT_TRUE(Drop(kA, 1, Id(1)).ok());
    ASSERT_TRUE(Drop(kA, 1, Id(1)).ok()) << "what is not referenced is dropped already";
    if (restart) Open();
    EXPECT_TRUE(Readable(Id(1)));
    EXPECT_THAT(ListOf(kA), IsEmpty()) << "the creator has nothing to do with it any more";
    EXPECT_THAT(ListOf(kB), ElementsAre(Id(1)));
    ASSERT_TRUE(Drop(kB, 1, Id(1)).ok());
    if (restart) Open();
    EXPECT_TRUE(Readable(Id(1)));
    ASSERT_TRUE(Drop(kC, 7, Id(1)).ok()) << "by a later owner of the range";
    if (restart) Crash();
    EXPECT_FALSE(Readable(Id(1)));
    EXPECT_THAT(ListOf(kC), IsEmpty());
    EXPECT_THAT(*base_->List("files"), IsEmpty());
  }
}

TEST_F(FileReferencesTest, M4WhoDoesNotReferenceAFileDeletesNothing) {
  ASSERT_TRUE(Write(Id(1), kA, Epoch(4)).ok());
  ASSERT_TRUE(Drop(kB, 9, Id(1)).ok());
  ASSERT_TRUE(Drop(kA, 3, Id(1)).ok()) << "an epoch before it was made";
  EXPECT_TRUE(Readable(Id(1)));
  // An import that was tried anew: the late drop of the first try leaves the reference of the second.
  ASSERT_TRUE(Add(kB, 1, Id(1)).ok());
  ASSERT_TRUE(Add(kB, 2, Id(1)).ok());
  ASSERT_TRUE(Drop(kB, 1, Id(1)).ok());
  ASSERT_TRUE(Drop(kA, 4, Id(1)).ok());
  Crash();
  EXPECT_TRUE(Readable(Id(1)));
  EXPECT_THAT(ListOf(kB, 2), IsEmpty());
  EXPECT_THAT(ListOf(kB, 3), ElementsAre(Id(1)));
}

TEST_F(FileReferencesTest, OnlyFilesThatAreThereAndNeverChangeAreShared) {
  EXPECT_TRUE(absl::IsNotFound(Add(kB, 1, Id(1))));
  ASSERT_TRUE(store_->AppendFile(Id(2), {kA, Epoch(1), 0}, 0, true, "manifest").ok());
  EXPECT_TRUE(absl::IsNotFound(Add(kB, 1, Id(2))));
  ASSERT_TRUE(Write(Id(3)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->references()->AddReferences(kB, Epoch(1), {Id(3), Id(1)})));
  EXPECT_THAT(ListOf(kB), ElementsAre(Id(3))) << "an orphan, which its owner finds";
}

TEST_F(FileReferencesTest, BytesAreGolden) {
  ASSERT_TRUE(Write(Id(1, 2)).ok());
  ASSERT_TRUE(Add(RangeId(0x22), 0x33, Id(1, 2)).ok());
  const std::string path = "files/" + Id(1, 2).ToString() + ".refs";
  const auto file = base_->Open(path, false);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string bytes(*(*file)->Size(), '\0');
  ASSERT_TRUE((*file)->Read(0, bytes.size(), bytes.data()).ok());
  ASSERT_EQ(bytes.size(), 36u + 2 * 24);
  const auto hex = [&](size_t at, size_t n) { return absl::BytesToHexString(bytes.substr(at, n)); };
  EXPECT_EQ(hex(0, 4), "4e565231");
  EXPECT_EQ(DecodeFixed32(bytes.data() + 4), Crc32c(std::string_view(bytes).substr(8)));
  EXPECT_EQ(hex(8, 28),
            "01000000"
            "02000000"
            "bc0a000000000000"
            "0100000000000000"
            "02000000");
  EXPECT_EQ(hex(36, 16),
            "0100000000000000"
            "0100000000000000");
  EXPECT_EQ(hex(60, 16),
            "2200000000000000"
            "3300000000000000");
  // One that cannot be read: nobody knows whose the file is, so it stays, and says so.
  ASSERT_TRUE((*base_->Open(path, true))->Write(40, "!").ok());
  const uint64_t bad = metrics_.counter("nova_stoc_bad_files_total")->value();
  Open();
  EXPECT_EQ(metrics_.counter("nova_stoc_bad_files_total")->value(), bad + 1);
  EXPECT_TRUE(absl::IsDataLoss(Drop(kA, 9, Id(1, 2))));
  EXPECT_TRUE(absl::IsDataLoss(Add(kB, 9, Id(1, 2))));
  EXPECT_TRUE(Readable(Id(1, 2)));
}

TEST_F(FileReferencesTest, S3WhoSharesAFileMayHealIt) {
  ASSERT_TRUE(Write(Id(1)).ok());
  EXPECT_FALSE(Write(Id(1), kB, Epoch(1)).ok());
  ASSERT_TRUE(Add(kB, 2, Id(1)).ok());
  ASSERT_TRUE((*base_->Open("files/" + Id(1).ToString(), true))->Write(kFileHeaderBytes, "!").ok());
  EXPECT_FALSE(Readable(Id(1)));
  EXPECT_FALSE(Write(Id(1), kB, Epoch(1)).ok()) << "an epoch before its own";
  ASSERT_TRUE(Write(Id(1), kB, Epoch(2)).ok());
  EXPECT_TRUE(Readable(Id(1)));
  // A file that is gone from the disk, and is written anew by one of its ranges, still belongs to the other
  // as well.
  ASSERT_TRUE(base_->Delete("files/" + Id(1).ToString()).ok());
  Open();
  EXPECT_FALSE(Readable(Id(1)));
  EXPECT_THAT(ListOf(kA), ElementsAre(Id(1)));
  ASSERT_TRUE(Write(Id(1), kB, Epoch(2)).ok());
  ASSERT_TRUE(Drop(kB, 2, Id(1)).ok());
  EXPECT_TRUE(Readable(Id(1)));
  ASSERT_TRUE(Drop(kA, 2, Id(1)).ok());
  EXPECT_THAT(*base_->List("files"), IsEmpty());
}

// Each step of a list's replacement and of a shared file's end, stopped by a loss of power and by an error.
class FileReferencesFailPointTest : public FileReferencesTest, public testing::WithParamInterface<size_t> {
 protected:
  ~FileReferencesFailPointTest() override { DisarmFailPoints(); }
  // Created by A, shared by B, dropped by both: as far as it gets. The calls that were answered with OK.
  int ShareAndDrop(const StocFileId& file) {
    if (!Write(file).ok()) return 0;
    if (!Add(kB, 1, file).ok()) return 1;
    if (!Drop(kA, 1, file).ok()) return 2;
    return Drop(kB, 1, file).ok() ? 4 : 3;
  }
  void ExpectAsAfter(int calls, const StocFileId& file) {
    EXPECT_TRUE(calls == 3 || Readable(file)) << calls;
    if (calls == 3) return;
    EXPECT_THAT(ListOf(calls == 1 ? kA : kB), Contains(file)) << "whoever has not begun to drop it";
  }
  void ExpectCollected() {
    for (int pass = 0; pass < 2; ++pass) {
      for (const RangeId range : {kA, kB}) {
        for (const StocFileId& file : ListOf(range)) ASSERT_TRUE(Drop(range, 1, file).ok());
      }
      ASSERT_TRUE(base_->SyncDirectory("files").ok());
      Crash();
    }
    EXPECT_THAT(*base_->List("files"), IsEmpty());
  }
  // How often one life of a shared file meets the point.
  uint64_t Hits() {
    EXPECT_TRUE(ArmFailPoint(kFailPoints[GetParam()].name, 1, [] { return OkStatus(); }).ok());
    EXPECT_EQ(ShareAndDrop(Id(1000)), 4);
    const uint64_t hits = FailPointHits(kFailPoints[GetParam()].name);
    DisarmFailPoints();
    EXPECT_GT(hits, 0u);
    return hits;
  }
};
std::vector<size_t> PointsOfReferences() {
  std::vector<size_t> points;
  for (size_t i = 0; i < kFailPoints.size(); ++i) {
    if (kFailPoints[i].name.starts_with("refs.")) points.push_back(i);
  }
  return points;
}
INSTANTIATE_TEST_SUITE_P(All, FileReferencesFailPointTest, testing::ValuesIn(PointsOfReferences()),
                         [](const auto& p) {
                           std::string name(kFailPoints[p.param].name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_P(FileReferencesFailPointTest, M4ALossOfPowerThereLosesNoReferencedFileAndLeavesNone) {
  Random random(7);
  uint64_t next = 1;
  const uint64_t hits = Hits();
  for (uint64_t nth = 1; nth <= hits; ++nth) {
    for (int round = 0; round < 30; ++round) {
      SCOPED_TRACE(StrCat("hit ", nth, ", round ", round));
      const StocFileId file = Id(next++);
      ASSERT_TRUE(ArmFailPoint(kFailPoints[GetParam()].name, nth, [&] {
                    medium_.Crash(round == 0 ? nullptr : &random);
                    return absl::DataLossError("no power");
                  }).ok());
      const int calls = ShareAndDrop(file);
      EXPECT_EQ(FailPointHits(kFailPoints[GetParam()].name), nth);
      DisarmFailPoints();
      EXPECT_LT(calls, 4);
      Open();
      ExpectAsAfter(calls, file);
      ASSERT_NO_FATAL_FAILURE(ExpectCollected());
    }
  }
}

TEST_P(FileReferencesFailPointTest, M4AnErrorThereLosesNoReferencedFileAndLeavesNone) {
  uint64_t next = 1;
  const uint64_t hits = Hits();
  for (uint64_t nth = 1; nth <= hits; ++nth) {
    for (const bool restart : {false, true}) {
      SCOPED_TRACE(StrCat("hit ", nth, restart ? ", restarted" : ""));
      const StocFileId file = Id(next++);
      ASSERT_TRUE(ArmFailPoint(kFailPoints[GetParam()].name, nth, [] {
                    return absl::DataLossError("failpoint");
                  }).ok());
      const int calls = ShareAndDrop(file);
      DisarmFailPoints();
      ASSERT_LT(calls, 4);
      if (restart) Crash();
      ExpectAsAfter(calls, file);
      if (calls == 1) {  // tried again, it holds
        ASSERT_TRUE(Add(kB, 1, file).ok());
        ASSERT_TRUE(Drop(kA, 1, file).ok());
        Crash();
        EXPECT_TRUE(Readable(file));
        EXPECT_THAT(ListOf(kB), ElementsAre(file));
      }
      Crash();
      ASSERT_NO_FATAL_FAILURE(ExpectCollected());
    }
  }
}

// Random adds and drops, of which disk and power fail some. Nothing that is surely referenced is ever gone;
// nothing that nobody can reference stays once each range has collected what it does not want.
TEST_F(FileReferencesTest, M4NoFailureOrCrashLosesAReferencedFile) {
  Random random(4);
  uint64_t next = 1;
  int failed = 0;
  for (int round = 0; round < 40; ++round) {
    std::map<StocFileId, std::map<RangeId, bool>> held;  // true: surely; false: perhaps
    for (int step = 0; step < 60; ++step) {
      if (held.empty() || random.OneIn(6)) {
        const StocFileId file = Id(next++);
        ASSERT_TRUE(Write(file).ok());
        held[file][kA] = true;
        continue;
      }
      const bool fault = random.OneIn(4);
      if (fault) {
        const DiskOp ops[] = {DiskOp::kCreate, DiskOp::kWrite,         DiskOp::kSync,
                              DiskOp::kRename, DiskOp::kSyncDirectory, DiskOp::kDelete};
        disk_->Add({.op = ops[random.Uniform(6)], .action = FaultAction::kEio, .count = 1});
      }
      auto it = held.begin();
      std::advance(it, static_cast<ptrdiff_t>(random.Uniform(held.size())));
      auto& [file, by] = *it;
      const RangeId range(1 + random.Uniform(3));
      const bool somebody = std::any_of(by.begin(), by.end(), [](const auto& h) { return h.second; });
      if (random.OneIn(2)) {
        const Status s = Add(range, 1, file);
        if (s.ok()) by[range] = true;
        if (!s.ok()) by.try_emplace(range, false);
        EXPECT_TRUE(s.ok() || fault || !somebody) << s;
        failed += !s.ok();
      } else {
        const Status s = Drop(range, 1, file);
        EXPECT_TRUE(s.ok() || fault) << s;
        failed += !s.ok();
        if (by.contains(range)) by[range] = false;  // a crash may bring it back
      }
      disk_->Clear();
      if (random.OneIn(15)) random.OneIn(2) ? Crash(&random) : Open();
      for (const auto& [f, ranges] : held) {
        const bool sure = std::any_of(ranges.begin(), ranges.end(), [](const auto& h) { return h.second; });
        if (!sure) continue;
        ASSERT_TRUE(Readable(f)) << "round " << round << " step " << step;
        for (const auto& [r, is] : ranges) {
          const auto listed = ListOf(r);
          ASSERT_TRUE(!is || std::find(listed.begin(), listed.end(), f) != listed.end())
              << "range " << r.value() << " would not find it";
        }
      }
      std::erase_if(held, [](const auto& f) {
        return std::none_of(f.second.begin(), f.second.end(), [](const auto& h) { return h.second; });
      });
    }
    Crash(&random);
    // N4; what the creator gets back when the list of references was deleted first, too
    for (int pass = 0; pass < 2; ++pass) {
      for (const RangeId range : {kA, kB, kC}) {
        for (const StocFileId& file : ListOf(range)) ASSERT_TRUE(Drop(range, 1, file).ok());
      }
      ASSERT_TRUE(base_->SyncDirectory("files").ok());
      Crash();
    }
    ASSERT_THAT(*base_->List("files"), IsEmpty()) << "round " << round;
  }
  EXPECT_GT(failed, 50);
}

}  // namespace
}  // namespace nova
