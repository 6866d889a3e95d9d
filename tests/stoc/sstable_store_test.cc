// Tables over StoCs: scattered, copied, read back while StoCs are gone, slow or damaged.
#include "stoc/sstable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/base/fault_disk.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::HasSubstr;

constexpr Creator kCreator{RangeId(7), Epoch(3), 1};

// Bytes that stand for blocks: nobody here looks into them.
TableBuilder::Output SomeTable(uint64_t n, size_t blocks = 200, size_t block_bytes = 4096) {
  TableBuilder::Output output;
  output.info.uuid = {0x7ab1e, n};
  output.data = Pattern(blocks * block_bytes, n);
  output.metadata = Pattern(10'000, n + 1000);
  for (size_t i = 1; i <= blocks; ++i) output.block_ends.push_back(i * block_bytes);
  output.info.data_size = output.data.size();
  output.info.metadata_size = output.metadata.size();
  return output;
}

class SstableStoreTest : public testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SstableStoreTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

struct Rig {
  explicit Rig(FabricWorld* w, uint32_t count = 4) : world(w) {
    for (uint32_t i = 0; i < count; ++i) {
      media.push_back(std::make_unique<SimDisk>());
      bases.push_back(media.back()->Mount());
      disks.push_back(std::make_unique<FaultDisk>(bases.back().get()));
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100, disks.back().get()));
    }
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    store = NewStocSstableStore(client->stocs.get(), [](Executor* e) { return static_cast<TestExecutor*>(e)->xchg(); },
                                {.write_deadline_ns = 3 * kSecond, .read_deadline_ns = 3 * kSecond});
    Update();
  }
  void Update() {
    std::vector<TestStoc*> live;
    for (auto& s : stocs) {
      if (s != nullptr) live.push_back(s.get());
    }
    client->Update(live);
  }
  void Kill(size_t i) { stocs[i] = nullptr; }
  StatusOr<std::string> ReadBlock(const TableInfo& info, const BlockHandle& handle, Nanos deadline_ns) {
    StatusOr<std::string> result = absl::InternalError("not called");
    Notification done;
    client->On(0, [&] {
      bool inside = true;
      store->ReadBlock(client->executors[0].get(), info, handle, deadline_ns, [&](StatusOr<std::string> bytes) {
        EXPECT_TRUE(client->xchgs[0]->IsCurrentThread());
        result = std::move(bytes);
        done.Notify();
      });
      inside = false;
      EXPECT_FALSE(inside || done.HasBeenNotified());
    });
    done.Wait();
    return result;
  }
  // All of a table, in every way there is.
  void ExpectReads(const TableInfo& info, const TableBuilder::Output& table) {
    const auto metadata = store->ReadMetadata(info);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    EXPECT_TRUE(*metadata == table.metadata);
    const auto data = store->ReadData(info, 0, table.data.size());
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_TRUE(*data == table.data);
    Random random(1);
    for (int i = 0; i < 20; ++i) {
      const size_t block = random.Uniform(table.block_ends.size());
      const uint64_t begin = block == 0 ? 0 : table.block_ends[block - 1];
      const auto bytes = ReadBlock(info, {begin, static_cast<uint32_t>(table.block_ends[block] - begin)}, Now() + 3 * kSecond);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == table.data.substr(begin, bytes->size()));
    }
  }
  size_t FilesAt(size_t i) const { return stocs[i]->files->List(kCreator.range, Epoch(100)).size(); }
  size_t Files() const {
    size_t n = 0;
    for (size_t i = 0; i < stocs.size(); ++i) n += stocs[i] == nullptr ? 0 : FilesAt(i);
    return n;
  }

  FabricWorld* const world;
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> bases;
  std::vector<std::unique_ptr<FaultDisk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> client;
  std::unique_ptr<SstableStore> store;
};

Placement Scattered(size_t fragments, size_t copies, size_t stocs = 4) {
  Placement p;
  for (size_t f = 0; f < fragments; ++f) {
    auto& to = p.fragments.emplace_back();
    for (size_t c = 0; c < copies; ++c) to.emplace_back(static_cast<uint32_t>((f + c) % stocs + 1));
  }
  for (size_t c = 0; c < copies; ++c) p.metadata.emplace_back(static_cast<uint32_t>(c + 1));
  return p;
}

TEST_P(SstableStoreTest, FragmentsAndCopiesDoNotChangeAnswers) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    uint64_t n = 0;
    for (const size_t fragments : {1, 3, 4}) {
      for (const size_t copies : {1, 2, 3}) {
        const TableBuilder::Output table = SomeTable(++n);
        const auto info = rig.store->WriteTable(table, Scattered(fragments, copies), kCreator);
        ASSERT_TRUE(info.ok()) << info.status();
        EXPECT_EQ(info->fragments.size(), fragments);
        for (const Fragment& f : info->fragments) EXPECT_EQ(f.stocs.size(), copies);
        EXPECT_EQ(info->metadata_stocs.size(), copies);
        rig.ExpectReads(*info, table);
      }
    }
  });
}

TEST_P(SstableStoreTest, FewBlocksMakeFewFragments) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1, 2, 100);
    const auto info = rig.store->WriteTable(table, Scattered(4, 1), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->fragments.size(), 2u);
    rig.ExpectReads(*info, table);
  });
}

TEST_P(SstableStoreTest, ReadsGoToTheOtherCopyWhileAStocIsGone) {  // row 18
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(4, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.Kill(1);
    rig.ExpectReads(*info, table);  // nobody has told us yet
    rig.Update();
    rig.ExpectReads(*info, table);
    rig.Kill(2);  // both copies of fragment 1
    const BlockHandle first{0, 4096}, gone{info->fragments[1].offset, 4096};
    EXPECT_TRUE(rig.ReadBlock(*info, first, Now() + 2 * kSecond).ok());
    const Status s = rig.ReadBlock(*info, gone, Now() + kSecond).status();
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_THAT(std::string(s.message()), testing::AllOf(HasSubstr("stoc 2"), HasSubstr("stoc 3")));
    rig.stocs[1] = std::make_unique<TestStoc>(world, 2, 101, rig.disks[1].get());  // it comes back with its files
    rig.Update();
    EXPECT_TRUE(rig.ReadBlock(*info, gone, Now() + 2 * kSecond).ok());
  });
}

TEST_P(SstableStoreTest, ASilentCopyCostsAThirdOfTheDeadline) {  // row 26
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.disks[0]->Add({.op = DiskOp::kRead, .action = FaultAction::kDelay, .delay_ns = 4 * kSecond});
    for (int i = 0; i < 2; ++i) {  // each copy is first in turn
      const Nanos begin = Now();
      const auto bytes = rig.ReadBlock(*info, {0, 4096}, Now() + 900 * kMillisecond);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_LT(Now() - begin, 600 * kMillisecond);
    }
  });
}

TEST_P(SstableStoreTest, AReadErrorOrAShortFileGoesToTheOtherCopy) {  // row 21
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.disks[0]->Add({.op = DiskOp::kRead, .action = FaultAction::kEio});
    rig.ExpectReads(*info, table);
    rig.disks[0]->Clear();
    ASSERT_TRUE(rig.client->stocs->DeleteFiles(StocId(1), {{info->uuid, 0}, {info->uuid, kMetadataPart}}, Soon()).ok());
    rig.ExpectReads(*info, table);
    ASSERT_TRUE(rig.client->stocs->DeleteFiles(StocId(2), {{info->uuid, 0}}, Soon()).ok());
    const Status s = rig.store->ReadData(*info, 0, 100).status();
    EXPECT_TRUE(absl::IsDataLoss(s)) << s;
  });
}

TEST_P(SstableStoreTest, AFailedWriteLeavesNothing) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    rig.disks[2]->Add({.op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
    const Status s = rig.store->WriteTable(SomeTable(1), Scattered(4, 2), kCreator).status();
    EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("stoc-3"));
    for (const Nanos until = Soon(); rig.Files() > 0 && Now() < until;) SleepFor(10 * kMillisecond);
    EXPECT_EQ(rig.Files(), 0u);
    rig.Kill(3);
    EXPECT_FALSE(rig.store->WriteTable(SomeTable(2), Scattered(4, 1), kCreator).ok());
    EXPECT_TRUE(rig.client->stocs->Fence(StocId(1), kCreator.range, Epoch(9), Soon()).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(rig.store->WriteTable(SomeTable(3), Scattered(1, 1), kCreator).status()));
  });
}

TEST_P(SstableStoreTest, DeletingATableRemovesEveryPart) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const auto info = rig.store->WriteTable(SomeTable(1), Scattered(4, 3), kCreator);
    const auto other = rig.store->WriteTable(SomeTable(2), Scattered(4, 1), kCreator);
    ASSERT_TRUE(info.ok() && other.ok());
    EXPECT_EQ(rig.Files(), 4u * 3 + 3 + 4 + 1);
    rig.store->DeleteTable(*info);
    for (const Nanos until = Soon(); rig.Files() > 5 && Now() < until;) SleepFor(10 * kMillisecond);
    EXPECT_EQ(rig.Files(), 5u);
    rig.ExpectReads(*other, SomeTable(2));
  });
}

TEST_P(SstableStoreTest, ReadsPreferTheShorterQueue) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const auto info = rig.store->WriteTable(SomeTable(1), Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok());
    rig.disks[0]->Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = kSecond});
    Thread busy("busy", [&] { rig.client->stocs->WriteFile(StocId(1), FileId(9), kCreator, "x", Soon()).IgnoreError(); });
    SleepFor(50 * kMillisecond);
    EXPECT_TRUE(rig.client->stocs->Ping(StocId(1), Soon()).ok());
    Counter* const read1 = rig.stocs[0]->metrics.counter("nova_stoc_disk_bytes_total{op=\"read\"}");
    const uint64_t before = read1->value();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(rig.ReadBlock(*info, {0, 4096}, Soon()).ok());
    EXPECT_EQ(read1->value(), before);
    busy.Join();
  });
}

TEST_P(SstableStoreTest, BadHandlesAreOutOfRange) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 1);
    const auto info = rig.store->WriteTable(SomeTable(1, 10, 100), Scattered(2, 1, 1), kCreator);
    ASSERT_TRUE(info.ok());
    EXPECT_TRUE(absl::IsOutOfRange(rig.ReadBlock(*info, {1000, 1}, Soon()).status()));
    EXPECT_TRUE(absl::IsOutOfRange(rig.ReadBlock(*info, {450, 100}, Soon()).status())) << "a block lies in one fragment";
    EXPECT_TRUE(absl::IsOutOfRange(rig.store->ReadData(*info, 990, 20).status()));
    EXPECT_TRUE(rig.store->ReadData(*info, 450, 100).ok());
    EXPECT_TRUE(absl::IsUnavailable(rig.store->ReadMetadata(TableInfo{}).status()));
  });
}

}  // namespace
}  // namespace nova
