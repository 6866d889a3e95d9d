// Tables over StoCs: scattered, copied, read back while StoCs are gone, slow or damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/base/fault_disk.h"
#include "stoc/stoc_table_store.h"
#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

using ::testing::HasSubstr;

constexpr Creator kCreator{RangeId(7), Epoch(3), 1};

// A table of that many blocks, a little more than `block_bytes` each.
TableBuilder::Output SomeTable(uint64_t n, size_t blocks = 200, size_t block_bytes = 4096) {
  TableBuilder builder({.block_size_bytes = block_bytes}, {0x7ab1e, n});
  for (size_t i = 0; i < blocks; ++i) {
    std::string key;
    AppendInternalKey(&key, StrCat("key", absl::Dec(i, absl::kZeroPad6)), 1, ValueType::kPut);
    builder.Add(key, Pattern(block_bytes, n * 1000 + i));
  }
  return builder.Finish();
}

BlockHandle BlockOf(const TableBuilder::Output& table, size_t i) {
  const uint64_t begin = i == 0 ? 0 : table.block_ends[i - 1];
  return {begin, static_cast<uint32_t>(table.block_ends[i] - begin)};
}
std::vector<BlockHandle> BlocksOf(const TableBuilder::Output& table) {
  std::vector<BlockHandle> all;
  for (size_t i = 0; i < table.block_ends.size(); ++i) all.push_back(BlockOf(table, i));
  return all;
}

class TableStoreTest : public testing::TestWithParam<FabricKind> {
 protected:
  void Run(const std::function<void(FabricWorld*)>& test) { InFabricWorld(GetParam(), test); }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, TableStoreTest, testing::ValuesIn(FabricKinds()),
                         [](const auto& param) { return FabricKindName(param.param); });

struct Rig {
  // `deadline_ns` is what a write and a read have at most.
  explicit Rig(FabricWorld* w, uint32_t count = 4, Nanos deadline_ns = 3 * kSecond) : world(w) {
    for (uint32_t i = 0; i < count; ++i) {
      media.push_back(std::make_unique<SimDisk>());
      bases.push_back(media.back()->Mount());
      disks.push_back(std::make_unique<FaultDisk>(bases.back().get()));
      stocs.push_back(std::make_unique<TestStoc>(w, i + 1, 100, disks.back().get()));
    }
    client = std::make_unique<TestClient>(w, "ltc-1", 10);
    store = NewStocTableStore(
        client->stocs.get(), [](Executor* e) { return static_cast<TestExecutor*>(e)->xchg(); },
        {.write_deadline_ns = deadline_ns,
         .read_deadline_ns = deadline_ns * std::max<int64_t>(1, w->patience() / 5),
         .damaged =
             [this](const Uuid& table) {
               MutexLock lock(&mu);
               damaged.insert(table);
             }},
        &metrics);
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
    return ReadStretch(info, {handle}, deadline_ns);
  }
  StatusOr<std::string> ReadStretch(const TableInfo& info, std::vector<BlockHandle> blocks,
                                    Nanos deadline_ns) {
    return Fetched([&](Executor* on, TableStore::ReadDone done) {
      store->FetchBlocks(on, info, std::move(blocks), deadline_ns, std::move(done));
    });
  }
  StatusOr<std::string> FetchMetadata(const TableInfo& info, Nanos deadline_ns) {
    return Fetched([&](Executor* on, TableStore::ReadDone done) {
      store->FetchMetadata(on, info, deadline_ns, std::move(done));
    });
  }
  // What `fetch` brings, which does not wait.
  StatusOr<std::string> Fetched(const std::function<void(Executor*, TableStore::ReadDone)>& fetch) {
    StatusOr<std::string> result = absl::InternalError("not called");
    Notification done;
    client->On(0, [&] {
      fetch(client->executors[0].get(), [&](StatusOr<std::string> bytes) {
        EXPECT_TRUE(client->xchgs[0]->IsCurrentThread());
        result = std::move(bytes);
        done.Notify();
      });
      EXPECT_FALSE(done.HasBeenNotified());
    });
    done.Wait();
    return result;
  }
  // All of a table, in every way there is.
  void ExpectReads(const TableInfo& info, const TableBuilder::Output& table) {
    const auto metadata = store->ReadMetadata(info);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    EXPECT_TRUE(*metadata == table.metadata);
    const auto fetched = FetchMetadata(info, Now() + 3 * kSecond);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_TRUE(*fetched == table.metadata);
    const auto data = store->ReadBlocks(info, BlocksOf(table));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_TRUE(*data == table.data);
    Random random(1);
    for (int i = 0; i < 20; ++i) {
      const BlockHandle block = BlockOf(table, random.Uniform(table.block_ends.size()));
      const auto bytes = ReadBlock(info, block, Now() + 3 * kSecond);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == table.data.substr(block.offset, block.size));
    }
    for (int i = 0; i < 20; ++i) {
      const size_t first = random.Uniform(table.block_ends.size());
      std::vector<BlockHandle> blocks;
      for (size_t b = first; b < table.block_ends.size() && b < first + 1 + random.Uniform(8); ++b)
        blocks.push_back(BlockOf(table, b));
      const auto bytes = ReadStretch(info, blocks, Now() + 3 * kSecond);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == table.data.substr(blocks[0].offset, bytes->size()));
      EXPECT_TRUE(std::any_of(blocks.begin(), blocks.end(), [&](const BlockHandle& b) {
        return b.offset + b.size == blocks[0].offset + bytes->size();
      })) << "whole blocks, the first one at least";
    }
  }
  // Bit rot: inverts a bit of the file on that StoC's disk.
  void Damage(size_t i, const StocFileId& file, uint64_t offset) {
    const auto opened = bases[i]->Open("files/" + file.ToString(), /*writable=*/true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    char byte;
    ASSERT_TRUE((*opened)->Read(kFileHeaderBytes + offset, 1, &byte).ok());
    byte = static_cast<char>(byte ^ 4);
    ASSERT_TRUE((*opened)->Write(kFileHeaderBytes + offset, {&byte, 1}).ok());
    ASSERT_TRUE((*opened)->Sync().ok());
  }
  std::string CopyAt(size_t i, const StocFileId& file) {
    return client->stocs->ReadFileBlocking(StocId(static_cast<uint32_t>(i + 1)), file, 0, UINT64_MAX, Soon())
        .value_or("(none)");
  }
  uint64_t Count(const std::string& what) {
    return metrics.counter("nova_table_" + what + "_total")->value();
  }
  std::set<Uuid> Damaged() {
    MutexLock lock(&mu);
    return damaged;
  }
  size_t FilesAt(size_t i) const { return stocs[i]->files->List(kCreator.range, Epoch(100)).size(); }
  size_t Files() const {
    size_t n = 0;
    for (size_t i = 0; i < stocs.size(); ++i) n += stocs[i] == nullptr ? 0 : FilesAt(i);
    return n;
  }

  FabricWorld* const world;
  Metrics metrics;
  Mutex mu;
  std::set<Uuid> damaged ABSL_GUARDED_BY(mu);
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> bases;
  std::vector<std::unique_ptr<FaultDisk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  std::unique_ptr<TestClient> client;
  std::unique_ptr<TableStore> store;
};

// As SomeTable, with keys so long that its metadata are more than one read may have.
TableBuilder::Output TableOfLongKeys() {
  TableBuilder builder({.block_size_bytes = 64}, {0x7ab1e, 77});
  for (int i = 0; i < 5'000; ++i) {
    std::string key;
    AppendInternalKey(&key, StrCat(std::string(4'000, 'k'), absl::Dec(i, absl::kZeroPad6)), 1,
                      ValueType::kPut);
    builder.Add(key, "v");
  }
  return builder.Finish();
}

Placement Scattered(size_t fragments, size_t copies, size_t stocs = 4) {
  Placement p;
  for (size_t f = 0; f < fragments; ++f) {
    auto& to = p.fragments.emplace_back();
    for (size_t c = 0; c < copies; ++c) to.emplace_back(static_cast<uint32_t>((f + c) % stocs + 1));
  }
  for (size_t c = 0; c < copies; ++c) p.metadata.emplace_back(static_cast<uint32_t>(c + 1));
  return p;
}

TEST_P(TableStoreTest, MetadataThatNoReadHoldsAreFetchedInPieces) {
  Run([](FabricWorld* world) {
    const Nanos enough = 20 * kSecond * world->patience();
    Rig rig(world, 4, enough);
    const TableBuilder::Output table = TableOfLongKeys();
    ASSERT_GT(table.metadata.size(), kMaxReadBytes) << "the test tests nothing";
    const auto info = rig.store->WriteTable(table, Scattered(2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const auto expect_all = [&] {
      for (int i = 0; i < 2; ++i) {  // from either copy first
        const auto fetched = rig.FetchMetadata(*info, Now() + enough);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        EXPECT_TRUE(*fetched == table.metadata);
      }
    };
    expect_all();
    rig.Damage(0, {info->uuid, kMetadataPart}, kMaxReadBytes + 100);
    expect_all();
    EXPECT_GT(rig.Count("reads_from_other_copy"), 0u);
    rig.Kill(1);
    EXPECT_FALSE(rig.FetchMetadata(*info, Now() + kSecond).ok()) << "the only copy that answers is damaged";
  });
}

TEST_P(TableStoreTest, FragmentsAndCopiesDoNotChangeAnswers) {
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

TEST_P(TableStoreTest, FewBlocksMakeFewFragments) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1, 2, 100);
    const auto info = rig.store->WriteTable(table, Scattered(4, 1), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->fragments.size(), 2u);
    rig.ExpectReads(*info, table);
  });
}

TEST_P(TableStoreTest, ABlockIsReadThoughAllCopiesOfOneBehindItAreDamaged) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const std::vector<BlockHandle> blocks = {BlockOf(table, 0), BlockOf(table, 1), BlockOf(table, 2)};
    const auto whole = rig.ReadStretch(*info, blocks, Soon());
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->size(), blocks[2].offset + blocks[2].size);
    for (const size_t copy : {0, 1}) rig.Damage(copy, {info->uuid, 0}, blocks[1].offset + 5);
    const auto first = rig.ReadStretch(*info, blocks, Soon());
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(*first == table.data.substr(0, blocks[0].size));
    EXPECT_TRUE(absl::IsDataLoss(rig.ReadStretch(*info, {blocks[1], blocks[2]}, Soon()).status()));
  });
}

TEST_P(TableStoreTest, ABlockIsReadThoughOneBehindItIsDamagedAndTheOtherCopyIsAway) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.Damage(0, {info->uuid, 0}, BlockOf(table, 1).offset + 5);
    rig.Kill(1);
    const auto first = rig.ReadStretch(*info, {BlockOf(table, 0), BlockOf(table, 1)}, Soon());
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(*first == table.data.substr(0, BlockOf(table, 0).size));
  });
}

TEST_P(TableStoreTest, ReadsGoToTheOtherCopyWhileAStocIsGone) {  // row 18
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
    const BlockHandle first = BlockOf(table, 0);
    const std::vector<BlockHandle> all = BlocksOf(table);
    const BlockHandle gone = *std::find_if(
        all.begin(), all.end(), [&](const BlockHandle& b) { return b.offset == info->fragments[1].offset; });
    EXPECT_TRUE(rig.ReadBlock(*info, first, Now() + 2 * kSecond).ok());
    const Status s = rig.ReadBlock(*info, gone, Now() + kSecond).status();
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_THAT(std::string(s.message()), testing::AllOf(HasSubstr("stoc 2"), HasSubstr("stoc 3")));
    // it comes back with its files
    rig.stocs[1] = std::make_unique<TestStoc>(world, 2, 101, rig.disks[1].get());
    rig.Update();
    EXPECT_TRUE(rig.ReadBlock(*info, gone, Now() + 2 * kSecond).ok());
  });
}

// Row 18. The coordinator will know of the death later.
TEST_P(TableStoreTest, OfAStocWhoseConnectionBrokeNothingIsReadUntilItAnswersAgain) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.ExpectReads(*info, table);
    rig.Kill(1);
    for (int i = 0; i < 5; ++i) rig.ExpectReads(*info, table);
    EXPECT_LE(rig.Count("reads_from_other_copy"), 1u) << "it was asked again";
    rig.stocs[1] = std::make_unique<TestStoc>(world, 2, 100, rig.disks[1].get());
    rig.Update();  // where it is to be reached now; no other process, and it was not away
    const auto first = [&] { return rig.client->stocs->InOrderOfReading({StocId(2), StocId(1)}).front(); };
    for (const Nanos until = Now() + 10 * kSecond; first() != StocId(2) && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_EQ(first(), StocId(2)) << "nobody has asked whether it answers";
    rig.ExpectReads(*info, table);
  });
}

// After a restart it takes no appends to a manifest that it has. It is there, and answers.
TEST_P(TableStoreTest, AStocThatAnswersThatItCannotIsReadAsBefore) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const auto append = [&](uint64_t offset, bool create) {
      return rig.client->stocs->AppendFile({StocId(2)}, {Uuid{1, 1}, 0}, kCreator, offset, create, "edit",
                                           Now() + 10 * kSecond);
    };
    ASSERT_TRUE(append(0, true).ok());
    rig.Kill(1);
    rig.stocs[1] = std::make_unique<TestStoc>(world, 2, 101, rig.disks[1].get());
    rig.Update();
    const Status s = append(4, false);
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_EQ(rig.client->stocs->InOrderOfReading({StocId(2), StocId(1)}).front(), StocId(2));
  });
}

TEST_P(TableStoreTest, ASilentCopyCostsAThirdOfTheDeadline) {  // row 26
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.disks[0]->Add({.op = DiskOp::kRead, .action = FaultAction::kDelay, .delay_ns = 4 * kSecond});
    const Nanos deadline = world->patience() == 1 ? 900 * kMillisecond : 6 * kSecond;
    for (int i = 0; i < 2; ++i) {  // each copy is first in turn
      const Nanos begin = Now();
      const auto bytes = rig.ReadBlock(*info, BlockOf(table, 0), Now() + deadline);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_LT(Now() - begin, deadline * 2 / 3);
    }
  });
}

TEST_P(TableStoreTest, AReadErrorOrAShortFileGoesToTheOtherCopy) {  // row 21
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.disks[0]->Add({.op = DiskOp::kRead, .action = FaultAction::kEio});
    rig.ExpectReads(*info, table);
    rig.disks[0]->Clear();
    ASSERT_TRUE(rig.client->stocs
                    ->DropReferences(StocId(1), kCreator.range, kCreator.epoch,
                                     {{info->uuid, 0}, {info->uuid, kMetadataPart}}, Soon())
                    .ok());
    rig.ExpectReads(*info, table);
    ASSERT_TRUE(rig.client->stocs
                    ->DropReferences(StocId(2), kCreator.range, kCreator.epoch, {{info->uuid, 0}}, Soon())
                    .ok());
    const std::vector<BlockHandle> all = BlocksOf(table);
    const Status s = rig.store->ReadBlocks(*info, {all.data(), 1}).status();
    EXPECT_TRUE(absl::IsDataLoss(s)) << s;
  });
}

TEST_P(TableStoreTest, S3ADamagedBlockIsReadFromTheOtherCopy) {  // row 25
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.ExpectReads(*info, table);
    EXPECT_EQ(rig.Count("blocks_damaged"), 0u);
    EXPECT_EQ(rig.Count("reads_from_other_copy"), 0u);
    const BlockHandle block = BlockOf(table, 30);
    rig.Damage(0, {info->uuid, 0}, block.offset + 100);
    for (int i = 0; i < 4; ++i) {  // each copy is first in turn
      const auto bytes = rig.ReadBlock(*info, block, Soon());
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_TRUE(*bytes == table.data.substr(block.offset, block.size));
    }
    EXPECT_GE(rig.Count("blocks_damaged"), 1u);
    EXPECT_EQ(rig.Count("reads_from_other_copy"), rig.Count("blocks_damaged"));
    EXPECT_EQ(rig.Damaged(), std::set<Uuid>({info->uuid}));
    rig.Damage(0, {info->uuid, kMetadataPart}, 7);
    for (int i = 0; i < 4; ++i) rig.ExpectReads(*info, table);
    EXPECT_EQ(rig.Count("reads_without_good_copy"), 0u);
  });
}

TEST_P(TableStoreTest, S3EachBlockIsReadFromTheCopyThatHasIt) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    for (const size_t block : {3, 50, 199}) rig.Damage(0, {info->uuid, 0}, BlockOf(table, block).offset);
    for (const size_t block : {4, 51, 0}) rig.Damage(1, {info->uuid, 0}, BlockOf(table, block).offset);
    for (int i = 0; i < 2; ++i) rig.ExpectReads(*info, table);
    EXPECT_EQ(rig.Count("reads_without_good_copy"), 0u);
  });
}

TEST_P(TableStoreTest, S3WithoutAGoodCopyTheErrorNamesTableAndStocs) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const BlockHandle block = BlockOf(table, 5);
    for (const size_t stoc : {0, 1}) rig.Damage(stoc, {info->uuid, 0}, block.offset + block.size - 1);
    const std::vector<BlockHandle> all = BlocksOf(table);
    for (const Status& s :
         {rig.ReadBlock(*info, block, Soon()).status(), rig.store->ReadBlocks(*info, all).status()}) {
      EXPECT_TRUE(absl::IsDataLoss(s)) << s;
      EXPECT_EQ(ToOutcome(s), Outcome::kCorruption);
      EXPECT_THAT(std::string(s.message()),
                  testing::AllOf(HasSubstr(info->uuid.ToString()), HasSubstr("stoc 1 (stoc-1)"),
                                 HasSubstr("stoc 2 (stoc-2)"), HasSubstr("checksum mismatch")));
    }
    EXPECT_EQ(rig.Count("reads_without_good_copy"), 2u);
    EXPECT_TRUE(rig.ReadBlock(*info, BlockOf(table, 4), Soon()).ok()) << "only what is damaged";
    // One of the two may be good again: it does not answer, so nothing is known to be lost.
    rig.Kill(1);
    EXPECT_TRUE(absl::IsUnavailable(rig.ReadBlock(*info, block, Now() + 500 * kMillisecond).status()));
  });
}

TEST_P(TableStoreTest, S3RepairWritesDamagedAndMissingCopiesAnew) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(2, 3), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    ASSERT_EQ(*rig.store->Repair(*info, kCreator), 0);
    const StocFileId first{info->uuid, 0}, second{info->uuid, 1}, metadata{info->uuid, kMetadataPart};
    rig.Damage(0, first, 10);
    rig.Damage(1, first, 50'000);  // another block
    rig.Damage(2, metadata, 10);
    ASSERT_TRUE(
        rig.client->stocs->DropReferences(StocId(2), kCreator.range, kCreator.epoch, {second}, Soon()).ok());
    // A later epoch, as after a failover, heals what an older one wrote.
    const Creator healer{kCreator.range, Epoch(kCreator.epoch.value() + 2), 0};
    const auto written = rig.store->Repair(*info, healer);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, 4);
    EXPECT_EQ(rig.Count("copies_repaired"), 4u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(rig.CopyAt(i, first) == table.data.substr(0, info->fragments[0].size)) << i;
      EXPECT_TRUE(rig.CopyAt(i + 1, second) == table.data.substr(info->fragments[1].offset)) << i;
      EXPECT_TRUE(rig.CopyAt(i, metadata) == table.metadata) << i;
    }
    EXPECT_EQ(*rig.store->Repair(*info, healer), 0);
    // What is down is left alone; what can be healed is.
    rig.Damage(0, first, 10);
    rig.Kill(1);
    rig.Update();
    EXPECT_EQ(*rig.store->Repair(*info, healer), 1);
    // A block without a good copy is an error, and no copy is made of it.
    for (const size_t i : {0, 2}) rig.Damage(i, first, 10);
    EXPECT_TRUE(absl::IsDataLoss(rig.store->Repair(*info, healer).status()));
    // F1: a fenced owner heals nothing.
    ASSERT_TRUE(rig.client->stocs->Fence(StocId(3), kCreator.range, Epoch(99), Soon()).ok());
    rig.Damage(2, metadata, 10);
    EXPECT_TRUE(absl::IsFailedPrecondition(rig.store->Repair(*info, healer).status()));
  });
}

// A disk that failed: its copies are read last, and left as they are.
TEST_P(TableStoreTest, S3NothingIsRepairedOnAStocThatIsEmptied) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const StocFileId metadata{info->uuid, kMetadataPart};
    rig.Damage(0, metadata, 10);
    std::vector<NodeInfo> live = rig.client->stocs->live();
    NodeInfo& ill = live[live[0].stoc_id == StocId(1) ? 0 : 1];
    ill.disk = DiskState::kFailing;
    ill.emptied = true;
    rig.client->stocs->UpdateStocs(live);
    for (int i = 0; i < 10; ++i) rig.ExpectReads(*info, table);
    EXPECT_EQ(rig.Count("blocks_damaged"), 0u) << "the bad disk was read first";
    EXPECT_EQ(*rig.store->Repair(*info, kCreator), 0);
    ill.disk = DiskState::kOk;
    ill.emptied = false;
    rig.client->stocs->UpdateStocs(live);
    EXPECT_EQ(*rig.store->Repair(*info, kCreator), 1);
  });
}

TEST_P(TableStoreTest, AFailedWriteLeavesNothing) {
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
    EXPECT_TRUE(
        absl::IsFailedPrecondition(rig.store->WriteTable(SomeTable(3), Scattered(1, 1), kCreator).status()));
  });
}

// --- copies (rebuild, S5)

constexpr Creator kRebuild{kCreator.range, kCreator.epoch, 9};

// The parts of a table of two fragments in two copies: the first on StoCs 1 and 2, the second on 2 and 3, the
// metadata on 1 and 2.
// Its disk does not answer. Where others are left for all copies the write ends when that is known, and not
// at its deadline; else it waits, for nobody else can have them.
TEST_P(TableStoreTest, AWriteToAHungDiskEndsEarlyWhereOthersAreLeft) {
  Run([&](FabricWorld* world) {
    for (const uint32_t stocs : {2u, 3u}) {
      Rig rig(world, stocs);
      rig.disks[0]->Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = 4 * kSecond});
      std::vector<NodeInfo> live;
      for (const auto& s : rig.stocs) live.push_back(s->info());
      live[0].disk = DiskState::kHung;
      rig.client->stocs->UpdateStocs(live);
      for (const size_t bytes : {100, 4096}) {     // in the request; through transfer memory
        if (stocs == 2 && bytes == 100) continue;  // one deadline is enough to wait for
        const Nanos begin = Now();
        const Status s =
            rig.store->WriteTable(SomeTable(bytes, 200, bytes), Scattered(1, 2, 2), kCreator).status();
        EXPECT_TRUE(absl::IsUnknown(s)) << s;
        if (stocs == 2) {
          EXPECT_GE(Now() - begin, 3 * kSecond) << s;
        } else {
          EXPECT_LT(Now() - begin, 2500 * kMillisecond) << s;
        }
      }
    }
  });
}

TEST_P(TableStoreTest, S5CopiesAreMadeOfEveryPartAndServeReads) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    auto info = rig.store->WriteTable(table, Scattered(2, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.Kill(1);
    rig.Update();
    const std::vector<PartCopy> copies = {
        {0, StocId(2), StocId(4)}, {1, StocId(2), StocId(4)}, {kMetadataPart, StocId(2), StocId(3)}};
    const Status made = rig.store->MakeCopies(*info, copies, kRebuild);
    ASSERT_TRUE(made.ok()) << made;
    EXPECT_EQ(rig.Count("copies_made"), 3u);
    EXPECT_EQ(rig.Count("copies_made_bytes"), table.data.size() + table.metadata.size());
    EXPECT_TRUE(rig.Damaged().empty());
    for (const FileSummary& f : rig.stocs[3]->files->List(kCreator.range, Epoch(100)))
      EXPECT_EQ(f.creator, kRebuild);
    EXPECT_EQ(rig.FilesAt(3), 2u);
    // What the edit of the manifest will say. The first copies go as well: the new ones serve alone.
    info->fragments[0].stocs = {StocId(4)};
    info->fragments[1].stocs = {StocId(4)};
    info->metadata_stocs = {StocId(3)};
    rig.ExpectReads(*info, table);
    ASSERT_TRUE(rig.store->MakeCopies(*info, {}, kRebuild).ok());
    EXPECT_EQ(rig.Count("copies_made"), 3u);
  });
}

TEST_P(TableStoreTest, S5ADamagedOrAbsentSourceIsPassedOverForAnother) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 3), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const StocFileId fragment{info->uuid, 0}, metadata{info->uuid, kMetadataPart};
    rig.Damage(0, fragment, 100);
    ASSERT_TRUE(
        rig.client->stocs->DropReferences(StocId(2), kCreator.range, kCreator.epoch, {fragment}, Soon())
            .ok());
    rig.Damage(1, metadata, 10);
    const std::vector<PartCopy> copies = {{0, {}, StocId(4)}, {kMetadataPart, {}, StocId(4)}};
    for (int i = 0; i < 3; ++i) {  // each source is first in turn
      const Status made = rig.store->MakeCopies(*info, copies, kRebuild);
      ASSERT_TRUE(made.ok()) << made;
      EXPECT_TRUE(rig.CopyAt(3, fragment) == table.data);
      EXPECT_TRUE(rig.CopyAt(3, metadata) == table.metadata);
      ASSERT_TRUE(
          rig.client->stocs
              ->DropReferences(StocId(4), kCreator.range, kCreator.epoch, {fragment, metadata}, Soon())
              .ok());
    }
    EXPECT_EQ(rig.Count("copies_made"), 6u);
    EXPECT_EQ(rig.Damaged(), std::set<Uuid>({info->uuid})) << "somebody is told, who has it repaired";
    EXPECT_GE(rig.Count("blocks_damaged"), 1u);
  });
}

TEST_P(TableStoreTest, S5WhereEveryCopyIsDamagedTheGoodBlocksOfAllAreCopied) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    const StocFileId fragment{info->uuid, 0};
    for (const size_t block : {3, 50, 199}) rig.Damage(0, fragment, BlockOf(table, block).offset);
    for (const size_t block : {4, 51, 0}) rig.Damage(1, fragment, BlockOf(table, block).offset);
    const PartCopy copy{0, {}, StocId(3)};
    const Status made = rig.store->MakeCopies(*info, {&copy, 1}, kRebuild);
    ASSERT_TRUE(made.ok()) << made;
    EXPECT_TRUE(rig.CopyAt(2, fragment) == table.data);
    EXPECT_EQ(rig.stocs[2]->files->Find(fragment)->creator, kRebuild);
    EXPECT_EQ(rig.Damaged(), std::set<Uuid>({info->uuid}));
    EXPECT_EQ(rig.Count("copies_made"), 1u);
    // One block is good nowhere.
    rig.Damage(0, fragment, BlockOf(table, 4).offset);
    const PartCopy next{0, {}, StocId(4)};
    const Status lost = rig.store->MakeCopies(*info, {&next, 1}, kRebuild);
    EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
    EXPECT_THAT(std::string(lost.message()),
                testing::AllOf(HasSubstr(info->uuid.ToString()), HasSubstr("stoc 1"), HasSubstr("stoc 2")));
    EXPECT_EQ(rig.CopyAt(3, fragment), "(none)");
    // One of the two may be good: it is not there, so nothing is known to be lost.
    rig.Kill(1);
    rig.Update();
    const Status silent = rig.store->MakeCopies(*info, {&next, 1}, kRebuild);
    EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
  });
}

TEST_P(TableStoreTest, S5WithoutALivingSourceNothingIsLostYet) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    rig.Kill(0);
    rig.Kill(1);
    const PartCopy copy{0, StocId(1), StocId(3)};
    for (const bool told : {false, true}) {
      if (told) rig.Update();
      const Status s = rig.store->MakeCopies(*info, {&copy, 1}, kRebuild);
      EXPECT_TRUE(absl::IsUnavailable(s)) << s;
      EXPECT_THAT(std::string(s.message()), HasSubstr(info->uuid.ToString()));
    }
    EXPECT_EQ(rig.FilesAt(2), 0u);
    EXPECT_TRUE(rig.Damaged().empty());
  });
}

// A StoC that drains may have the only copy: it is asked when no other can give one.
TEST_P(TableStoreTest, S5TheCopyThatIsReplacedIsTheLastToBeAsked) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2), kCreator);
    ASSERT_TRUE(info.ok()) << info.status();
    Counter* const read1 = rig.stocs[0]->metrics.counter("nova_stoc_requests_total{type=\"read_for_copy\"}");
    const PartCopy copy{0, StocId(1), StocId(3)};
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(rig.store->MakeCopies(*info, {&copy, 1}, kRebuild).ok());
      ASSERT_TRUE(rig.client->stocs
                      ->DropReferences(StocId(3), kCreator.range, kCreator.epoch, {{info->uuid, 0}}, Soon())
                      .ok());
    }
    EXPECT_EQ(read1->value(), 0u);
    rig.Damage(1, {info->uuid, 0}, 0);
    const Status made = rig.store->MakeCopies(*info, {&copy, 1}, kRebuild);
    ASSERT_TRUE(made.ok()) << made;
    EXPECT_GT(read1->value(), 0u);
    EXPECT_TRUE(rig.CopyAt(2, {info->uuid, 0}) == table.data);
  });
}

TEST_P(TableStoreTest, S5ATargetThatDoesNotTakeItsCopyIsNoLossOfData) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(2, 1), kCreator);  // on 1 and 2
    ASSERT_TRUE(info.ok()) << info.status();
    const std::vector<PartCopy> both = {{0, {}, StocId(3)}, {1, {}, StocId(4)}};
    rig.disks[2]->Add({.op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
    Status s = rig.store->MakeCopies(*info, both, kRebuild);
    EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("stoc-3"));
    EXPECT_EQ(rig.FilesAt(3), 1u) << "the other was made beside it";
    rig.disks[2]->Clear();
    rig.disks[2]->Add({.op = DiskOp::kSync, .action = FaultAction::kEio});
    s = rig.store->MakeCopies(*info, both, kRebuild);
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    rig.disks[2]->Clear();
    rig.Kill(3);
    s = rig.store->MakeCopies(*info, {&both[1], 1}, kRebuild);
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_TRUE(rig.client->stocs->Fence(StocId(3), kCreator.range, Epoch(9), Soon()).ok());
    s = rig.store->MakeCopies(*info, both, kRebuild);
    EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    // What nobody can make.
    const PartCopy no_part{2, {}, StocId(3)}, there_already{0, {}, StocId(1)};
    EXPECT_TRUE(absl::IsInvalidArgument(rig.store->MakeCopies(*info, {&no_part, 1}, kRebuild)));
    EXPECT_TRUE(absl::IsInvalidArgument(rig.store->MakeCopies(*info, {&there_already, 1}, kRebuild)));
  });
}

TEST_P(TableStoreTest, DeletingATableRemovesEveryPart) {
  Run([&](FabricWorld* world) {
    Rig rig(world);
    const auto info = rig.store->WriteTable(SomeTable(1), Scattered(4, 3), kCreator);
    const auto other = rig.store->WriteTable(SomeTable(2), Scattered(4, 1), kCreator);
    ASSERT_TRUE(info.ok() && other.ok());
    EXPECT_EQ(rig.Files(), 4u * 3 + 3 + 4 + 1);
    rig.store->DropTable(*info, kCreator);
    for (const Nanos until = Soon(); rig.Files() > 5 && Now() < until;) SleepFor(10 * kMillisecond);
    EXPECT_EQ(rig.Files(), 5u);
    rig.ExpectReads(*other, SomeTable(2));
  });
}

TEST_P(TableStoreTest, ReadsPreferTheShorterQueue) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 2);
    const TableBuilder::Output table = SomeTable(1);
    const auto info = rig.store->WriteTable(table, Scattered(1, 2, 2), kCreator);
    ASSERT_TRUE(info.ok());
    const Nanos sync_ns = kSecond * std::max<int64_t>(1, world->patience() / 5);
    rig.disks[0]->Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = sync_ns});
    Thread busy("busy", [&] {
      rig.client->stocs->WriteFile(StocId(1), FileId(9), kCreator, "x", Soon()).IgnoreError();
    });
    for (const Nanos until = Soon(); rig.stocs[0]->server->queue_depth() == 0 && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_TRUE(PingOf(rig.client->stocs.get(), StocId(1), Soon()).ok());
    Counter* const read1 = rig.stocs[0]->metrics.counter("nova_stoc_disk_bytes_total{op=\"read\"}");
    const uint64_t before = read1->value();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(rig.ReadBlock(*info, BlockOf(table, 0), Soon()).ok());
    EXPECT_EQ(read1->value(), before);
    busy.Join();
  });
}

TEST_P(TableStoreTest, BadHandlesAreOutOfRange) {
  Run([&](FabricWorld* world) {
    Rig rig(world, 1);
    const TableBuilder::Output table = SomeTable(1, 10, 100);
    const auto info = rig.store->WriteTable(table, Scattered(2, 1, 1), kCreator);
    ASSERT_TRUE(info.ok());
    EXPECT_TRUE(absl::IsOutOfRange(rig.ReadBlock(*info, {table.data.size(), 1}, Soon()).status()));
    const uint64_t cut = info->fragments[1].offset;
    EXPECT_TRUE(absl::IsOutOfRange(rig.ReadBlock(*info, {cut - 50, 100}, Soon()).status()))
        << "a block lies in one fragment";
    const BlockHandle past{table.data.size() - 10, 20};
    EXPECT_TRUE(absl::IsOutOfRange(rig.store->ReadBlocks(*info, {&past, 1}).status()));
    EXPECT_TRUE(rig.store->ReadBlocks(*info, BlocksOf(table)).ok());
    EXPECT_TRUE(absl::IsUnavailable(rig.store->ReadMetadata(TableInfo{}).status()));
  });
}

}  // namespace
}  // namespace nova
