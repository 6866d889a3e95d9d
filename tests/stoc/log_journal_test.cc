#include "stoc/log_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/random.h"
#include "common/base/sim_disk.h"

namespace nova {
namespace {

// Logs as strings of bytes; what is synced in its own file is `durable`.
class LogJournalTest : public testing::Test {
 protected:
  using Logs = std::map<Uuid, std::string>;

  void SetUp() override { Open(); }
  void Open() {
    journal_ = nullptr;
    disk_ = nullptr;
    base_ = medium_.Mount();
    disk_ = std::make_unique<FaultDisk>(base_.get());
    ASSERT_TRUE(Replay(&durable_).ok());
    ASSERT_TRUE(LogJournal::Forget(disk_.get()).ok());
    written_ = durable_;
    journal_ = std::make_unique<LogJournal>(disk_.get(), options_, [this](const Uuid& log) {
      MutexLock lock(&mu_);
      if (sync_fails_) return absl::DataLossError("sync");
      durable_[log] = written_[log];
      return OkStatus();
    });
  }
  void Crash(Random* torn = nullptr) {
    journal_ = nullptr;
    medium_.Crash(torn);
    Open();
  }
  Status Replay(Logs* logs) {
    return LogJournal::Replay(disk_.get(), [&](const LogJournal::Piece& p) {
      std::string& log = (*logs)[p.log];
      if (log.size() < p.offset + p.bytes.size()) log.resize(p.offset + p.bytes.size());
      log.replace(p.offset, p.bytes.size(), p.bytes);
      return OkStatus();
    });
  }
  // A piece to each of the logs, at their ends.
  Status Append(const std::vector<uint64_t>& logs, size_t bytes) {
    std::vector<LogJournal::Piece> pieces;
    std::vector<std::string> kept;
    {
      MutexLock lock(&mu_);
      for (const uint64_t n : logs) {
        std::string& log = written_[Uuid{1, n}];
        kept.push_back(std::string(bytes, static_cast<char>('a' + log.size() % 26)));
        pieces.push_back({Uuid{1, n}, log.size(), {}});
        log += kept.back();
      }
    }
    for (size_t i = 0; i < pieces.size(); ++i) pieces[i].bytes = kept[i];
    return journal_->Append(pieces);
  }
  void SyncFails(bool fails) {
    MutexLock lock(&mu_);
    sync_fails_ = fails;
  }

  LogJournalOptions options_{.half_bytes = 4096, .zero_ahead_bytes = 1024, .batch_bytes = 2048};
  SimDisk medium_;
  std::unique_ptr<Disk> base_;
  std::unique_ptr<FaultDisk> disk_;
  Mutex mu_;
  Logs written_, durable_;
  bool sync_fails_ = false;
  std::unique_ptr<LogJournal> journal_;
};

TEST_F(LogJournalTest, LayoutIsGolden) {
  const LogJournal::Piece piece{{0x0102, 0x0304}, 0x0506, "bytes"};
  ASSERT_TRUE(journal_->Append({&piece, 1}).ok());
  auto file = *base_->Open("journal-0", /*writable=*/false);
  char b[104];
  ASSERT_TRUE(file->Read(0, sizeof(b), b).ok());
  EXPECT_EQ(std::string(b, 8), "novajrn1");
  EXPECT_EQ(DecodeFixed32(b + 24), Crc32c({b, 24}));
  EXPECT_EQ(std::string(b + 28, 36), std::string(36, '\0'));
  EXPECT_EQ(DecodeFixed32(b + 64), ExtendCrc32c(Crc32c({b + 8, 16}), b + 68, 33));
  EXPECT_EQ(DecodeFixed32(b + 68), 5u);
  EXPECT_EQ(DecodeFixed64(b + 72), 0x0102u);
  EXPECT_EQ(DecodeFixed64(b + 80), 0x0304u);
  EXPECT_EQ(DecodeFixed64(b + 88), 0x0506u);
  EXPECT_EQ(std::string(b + 96, 8), std::string("bytes\0\0\0", 8));
}

TEST_F(LogJournalTest, OneSyncForManyLogs) {
  ASSERT_TRUE(Append({1}, 10).ok());
  disk_->Add({.op = DiskOp::kSync, .action = FaultAction::kDelay});
  const uint64_t before = disk_->faults();
  ASSERT_TRUE(Append({1, 2, 3, 4, 5, 6, 7, 8}, 50).ok());
  EXPECT_EQ(disk_->faults(), before + 1);
}

TEST_F(LogJournalTest, WhatWasAppendedSurvivesEveryCrash) {  // D
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    for (uint64_t i = random.Uniform(200); i > 0; --i) {
      std::vector<uint64_t> logs;
      for (uint64_t n = 0; n < 5; ++n) {
        if (random.OneIn(2)) logs.push_back(n);
      }
      if (logs.empty()) continue;
      ASSERT_TRUE(Append(logs, 1 + random.Uniform(100)).ok());
    }
    const Logs expected = written_;
    Crash(&random);
    EXPECT_EQ(durable_, expected) << seed;
  }
}

TEST_F(LogJournalTest, WhatWasPutBackIsNotPutBackAgain) {
  ASSERT_TRUE(Append({1}, 10).ok());
  Crash();
  ASSERT_EQ(durable_.size(), 1u);
  durable_.clear();  // by hand
  Crash();
  EXPECT_TRUE(durable_.empty());
  ASSERT_TRUE(Append({2}, 10).ok());
  Crash();
  EXPECT_EQ(durable_.size(), 1u);
}

TEST_F(LogJournalTest, AHalfIsUsedAgainOnceItsLogsAreSynced) {
  SyncFails(true);
  Status s;
  for (int i = 0; i < 100 && s.ok(); ++i) s = Append({1, 2}, 100);
  EXPECT_FALSE(s.ok()) << "both halves are full of what is nowhere else";
  SyncFails(false);
  EXPECT_FALSE(Append({1}, 1).ok()) << "nor is it used again when a later sync says that all is well (S1)";
  Logs held;
  ASSERT_TRUE(Replay(&held).ok());
  EXPECT_GT(held[(Uuid{1, 1})].size(), options_.half_bytes / 3);
  EXPECT_TRUE(durable_.empty());
  Crash();
  EXPECT_EQ(durable_, held);
  EXPECT_TRUE(Append({1}, 100).ok());
}

TEST_F(LogJournalTest, AfterAFailureItTakesNoMore) {  // S1
  ASSERT_TRUE(Append({1}, 100).ok());
  disk_->Add({.op = DiskOp::kSync, .count = 1});
  EXPECT_TRUE(absl::IsDataLoss(Append({1}, 100)));
  EXPECT_FALSE(Append({1}, 100).ok());
  Crash();
  EXPECT_GE(durable_[(Uuid{1, 1})].size(), 100u);
}

TEST_F(LogJournalTest, AFullDiskIsNoFailure) {  // S2
  ASSERT_TRUE(Append({1}, 100).ok());
  disk_->Add({.path = "journal-1", .op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
  Status s;
  for (int i = 0; i < 100 && s.ok(); ++i) s = Append({1}, 100);
  EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
  disk_->Clear();
  EXPECT_TRUE(Append({2}, 100).ok());
  Crash();
  EXPECT_EQ(durable_[(Uuid{1, 2})], std::string(100, 'a'));
}

TEST_F(LogJournalTest, DamageEndsAHalfAndInventsNothing) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Append({1, 2, 3}, 20).ok());
  const Logs whole = written_;
  journal_ = nullptr;
  auto file = *base_->Open("journal-0", /*writable=*/true);
  const uint64_t size = *file->Size();
  for (uint64_t at = 0; at < size; at += 5) {
    char byte;
    ASSERT_TRUE(file->Read(at, 1, &byte).ok());
    const char flipped = static_cast<char>(byte ^ 0x10);
    ASSERT_TRUE(file->Write(at, {&flipped, 1}).ok());
    Logs held;
    ASSERT_TRUE(Replay(&held).ok());
    for (const auto& [log, bytes] : held) {
      ASSERT_TRUE(whole.contains(log)) << at;
      EXPECT_TRUE(whole.at(log).starts_with(bytes)) << at;
    }
    ASSERT_TRUE(file->Write(at, {&byte, 1}).ok());
  }
  Logs held;
  ASSERT_TRUE(Replay(&held).ok());
  EXPECT_EQ(held, whole);
}

}  // namespace
}  // namespace nova
