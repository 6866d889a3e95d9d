// Rebuilds (S5) on the LTC's side: the edit that moves copies, and who makes them.
#include "ltc/engine/rebuilder.h"

#include <gtest/gtest.h>

#include "common/base/failpoint.h"
#include "tests/ltc/range_parts.h"

namespace nova {
namespace {

constexpr StocId kA(1), kB(2), kC(3), kD(4);

TableInfo TableOn(const std::vector<StocId>& copies, char key = 'a') {
  TableInfo t;
  t.uuid = Uuid::Generate();
  t.data_size = 1000;
  t.metadata_size = 10;
  AppendInternalKey(&t.smallest, std::string(1, key), 2, ValueType::kPut);
  AppendInternalKey(&t.largest, std::string(2, key), 1, ValueType::kPut);
  t.fragments.push_back({0, 1000, copies});
  t.metadata_stocs = copies;
  return t;
}

VersionEdit Adding(const TableInfo& t) {
  VersionEdit edit;
  edit.adds.push_back({1, 0, t, nullptr});
  return edit;
}

std::vector<PartCopy> BothParts(StocId from, StocId to) { return {{0, from, to}, {kMetadataPart, from, to}}; }

// --- the edit

TEST(MoveEditTest, S5SurvivesItsEncodingAndNoOtherBytesParse) {
  VersionEdit edit;
  edit.moves.push_back({Uuid::Generate(), BothParts(kA, kB)});
  edit.moves.push_back({Uuid::Generate(), {{7, StocId(), kC}}});
  const std::string bytes = edit.Encode();
  const auto back = VersionEdit::Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(back->moves.size(), 2u);
  EXPECT_EQ(back->moves[0].table, edit.moves[0].table);
  EXPECT_EQ(back->moves[0].copies, edit.moves[0].copies);
  EXPECT_EQ(back->moves[1].copies, edit.moves[1].copies);
  EXPECT_EQ(back->Encode(), bytes);
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(VersionEdit::Decode(std::string_view(bytes).substr(0, n)).ok()) << n;
  }
}

TEST(MoveEditTest, S5MovesATableInRunsAndCheckpointsToOneNewHandle) {
  const TableInfo table = TableOn({kA, kB}), other = TableOn({kA, kB}, 'x');
  VersionEdit first = Adding(table);
  first.adds.push_back({1, 0, other, nullptr});
  auto version = Version().Apply(first, {});
  ASSERT_TRUE(version.ok());
  VersionEdit pin;
  pin.pins.push_back((*version)->PinRuns("c", 9, 0));
  version = (*version)->Apply(pin, {});
  ASSERT_TRUE(version.ok());

  VersionEdit move;
  move.moves.push_back({table.uuid, BothParts(kA, kC)});
  const auto moved = (*version)->Apply(move, {});
  ASSERT_TRUE(moved.ok()) << moved.status();
  const TableRef handle = (*moved)->FindHandle(table.uuid);
  EXPECT_EQ(handle->info().fragments[0].stocs, std::vector({kB, kC}));
  EXPECT_EQ(handle->info().metadata_stocs, std::vector({kB, kC}));
  EXPECT_EQ((*moved)->FindCheckpoint("c")->runs[0].tables[0], handle);
  EXPECT_EQ((*moved)->FindHandle(other.uuid), (*version)->FindHandle(other.uuid));
  EXPECT_EQ((*version)->FindHandle(table.uuid)->info(), table) << "a version never changes";

  // The whole version, as a manifest's first record, says the same.
  const auto again = Version().Apply((*moved)->Snapshot(), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->FindHandle(table.uuid)->info(), handle->info());
}

TEST(MoveEditTest, S5AMoveOfWhatIsNotThereIsDataLoss) {
  const TableInfo table = TableOn({kA, kB});
  const auto version = Version().Apply(Adding(table), {});
  const std::vector<VersionEdit::Move> bad = {
      {Uuid::Generate(), BothParts(kA, kC)},     // no such table
      {table.uuid, BothParts(kC, kD)},           // no copy there
      {table.uuid, BothParts(kA, kB)},           // one is there already
      {table.uuid, {{5, kA, kC}}},               // no such part
      {table.uuid, {{0, kA, {}}, {0, kB, {}}}},  // none would be left
      {table.uuid, {{0, StocId(), StocId()}}},   // nothing
  };
  for (const VersionEdit::Move& m : bad) {
    VersionEdit edit;
    edit.moves.push_back(m);
    EXPECT_TRUE(absl::IsDataLoss((*version)->Apply(edit, {}).status()));
  }
}

// --- VersionSet

TEST(VersionSetTest, S5AnOlderVersionThatIsReadKeepsTheFilesOfAMovedTable) {
  RangeParts parts;
  const TableInfo table = TableOn({kA, kB});
  ASSERT_TRUE(parts.versions.Commit(Adding(table)).ok());
  std::shared_ptr<const Version> old = parts.versions.current();
  ASSERT_TRUE(parts.versions.CommitCopies(table, BothParts(kA, kC)).ok());
  NamedFiles named = parts.versions.ReferencedFiles();
  for (const StocId stoc : {kA, kB, kC}) EXPECT_TRUE(named.NamedOn(stoc, {table.uuid, 0})) << stoc.value();
  EXPECT_FALSE(named.NamedOn(kD, {table.uuid, 0}));

  VersionEdit drop;
  drop.drops.push_back(table.uuid);
  ASSERT_TRUE(parts.versions.Commit(drop).ok());
  while (parts.executor.RunOnce()) {
  }
  parts.view();
  EXPECT_TRUE(parts.garbage.empty()) << "the old version still reads it";
  EXPECT_TRUE(parts.versions.ReferencedFiles().NamedOn(kA, {table.uuid, 0}));
  old = nullptr;
  EXPECT_EQ(parts.garbage, std::vector({table.uuid}));
  EXPECT_FALSE(parts.versions.ReferencedFiles().contains({table.uuid, 0}));
}

TEST(VersionSetTest, S5CopiesOfATableThatChangedMeanwhileAreNotNamed) {
  RangeParts parts;
  const TableInfo table = TableOn({kA, kB});
  EXPECT_TRUE(absl::IsAborted(parts.versions.CommitCopies(table, BothParts(kA, kC))));
  ASSERT_TRUE(parts.versions.Commit(Adding(table)).ok());
  ASSERT_TRUE(parts.versions.CommitCopies(table, BothParts(kA, kC)).ok());
  EXPECT_TRUE(absl::IsAborted(parts.versions.CommitCopies(table, BothParts(kB, kD))));
  EXPECT_FALSE(parts.versions.ReferencedFiles().NamedOn(kD, {table.uuid, 0}));
}

TEST(VersionSetTest, S5CopiesOfAnEditInDoubtAreNamedUntilALaterOneCounts) {
  RangeParts parts;
  const TableInfo table = TableOn({kA, kB});
  ASSERT_TRUE(parts.versions.Commit(Adding(table)).ok());
  const auto fail = [] { return absl::UnavailableError("no answer"); };
  ASSERT_TRUE(ArmFailPoint("manifest.append_written", 0, fail).ok());
  ASSERT_TRUE(ArmFailPoint("manifest.created", 0, fail).ok());
  EXPECT_FALSE(parts.versions.CommitCopies(table, BothParts(kA, kC)).ok());
  DisarmFailPoints();
  EXPECT_TRUE(parts.versions.ReferencedFiles().NamedOn(kC, {table.uuid, 0}));
  EXPECT_TRUE(parts.versions.ReferencedFiles().NamedOn(kA, {table.uuid, 0}));
  ASSERT_TRUE(parts.versions.Commit(Adding(TableOn({kA}, 'x'))).ok());
  EXPECT_FALSE(parts.versions.ReferencedFiles().NamedOn(kC, {table.uuid, 0}));
}

// --- Rebuilder

// Tables on StoCs without StoCs: notes what is asked, and answers as it is told.
class CopyingStore : public TableStore {
 public:
  StatusOr<TableInfo> WriteTable(TableBuilder::Output, const Placement&, const Creator&) override {
    return absl::UnimplementedError("");
  }
  StatusOr<std::string> ReadMetadata(const TableInfo&) override { return absl::UnimplementedError(""); }
  StatusOr<std::string> ReadBlocks(const TableInfo&, std::span<const BlockHandle>) override {
    return absl::UnimplementedError("");
  }
  void FetchBlocks(Executor*, const TableInfo&, std::vector<BlockHandle>, Nanos, ReadDone) override {}
  void FetchMetadata(Executor*, const TableInfo&, Nanos, ReadDone) override {}
  StatusOr<int> Repair(const TableInfo&, const Creator&) override { return 0; }
  Status AddReferences(std::span<const TableInfo>, const Creator&) override { return OkStatus(); }
  void DropTable(const TableInfo&, const Creator&) override { ADD_FAILURE() << "nothing is deleted"; }
  Status MakeCopies(const TableInfo& info, std::span<const PartCopy> copies,
                    const Creator& creator) override {
    asked.push_back({info.uuid, {copies.begin(), copies.end()}, creator.job});
    if (meanwhile) meanwhile();
    return answer;
  }

  struct Asked {
    Uuid table;
    std::vector<PartCopy> copies;
    uint64_t job;
  };
  std::vector<Asked> asked;
  Status answer;
  std::function<void()> meanwhile;
};

class RebuilderTest : public testing::Test {
 protected:
  RebuilderTest() {
    parts.services.store = &store;
    // Off A: to C, or to D.
    parts.plan_copies = [](const TableInfo& table, const std::set<StocId>& avoid) {
      CopyPlan plan;
      const StocId to = avoid.contains(kC) ? kD : kC;
      const auto& copies = table.metadata_stocs;
      if (copies[0] != kA || (avoid.contains(kC) && avoid.contains(kD))) return plan;
      return CopyPlan{BothParts(kA, to), 1010, static_cast<uint32_t>(copies.size() - 1)};
    };
  }
  void Add(const TableInfo& table) { ASSERT_TRUE(parts.versions.Commit(Adding(table)).ok()); }
  const std::vector<StocId>& Places(const TableInfo& table) {
    return parts.versions.current()->FindHandle(table.uuid)->info().metadata_stocs;
  }

  RangeParts parts;
  CopyingStore store;
  Rebuilder& rebuilder = parts.rebuilder;
};

TEST_F(RebuilderTest, S5TheMostEndangeredGoFirstUnderJobsOfTheirOwn) {
  const TableInfo whole = TableOn({kB}, 'a'), two = TableOn({kA, kB}, 'b'), one = TableOn({kA}, 'c');
  for (const TableInfo& t : {whole, two, one}) Add(t);
  EXPECT_FALSE(rebuilder.NeedsRebuild());
  rebuilder.Look();
  EXPECT_EQ(rebuilder.progress().left, 2020u);
  EXPECT_EQ(rebuilder.TablesLeft({kA}).at(kA), 3u) << "two tables, and the job that may begin yet";
  store.meanwhile = [&] { EXPECT_EQ(parts.jobs.FirstUnfinished(), store.asked.back().job); };
  while (rebuilder.NeedsRebuild()) EXPECT_TRUE(rebuilder.RebuildOne());
  ASSERT_EQ(store.asked.size(), 2u);
  EXPECT_EQ(store.asked[0].table, one.uuid);
  EXPECT_EQ(store.asked[1].table, two.uuid);
  EXPECT_GT(store.asked[1].job, store.asked[0].job);
  EXPECT_GT(store.asked[0].job, 0u);
  EXPECT_EQ(Places(one), std::vector({kC}));
  EXPECT_EQ(Places(two), std::vector({kB, kC}));
  EXPECT_EQ(rebuilder.progress().done, 2020u);
  EXPECT_EQ(rebuilder.progress().left, 0u);
  EXPECT_TRUE(parts.jobs.empty());
  rebuilder.Look();
  EXPECT_FALSE(rebuilder.NeedsRebuild());
}

TEST_F(RebuilderTest, S5TablesAreCountedOnceForEachStocThatIsLeft) {
  const TableInfo both = TableOn({kA, kB}, 'a'), one = TableOn({kB}, 'b');
  parts.jobs.LeaveStocs({kA, kB, kC});
  const auto left = [&] { return rebuilder.TablesLeft({kA, kB, kC}); };
  Add(both);
  EXPECT_EQ(left(), (std::map<StocId, uint64_t>{{kA, 1}, {kB, 1}, {kC, 0}}))
      << "by its data and its metadata";
  Add(one);
  EXPECT_EQ(left(), (std::map<StocId, uint64_t>{{kA, 1}, {kB, 2}, {kC, 0}}));
  EXPECT_EQ(rebuilder.TablesLeft({kB}), (std::map<StocId, uint64_t>{{kB, 2}})) << "of others";
  EXPECT_EQ(rebuilder.TablesLeft({}), (std::map<StocId, uint64_t>()));
}

// Lost StoCs stay in the list until somebody forgets them, and each heartbeat asks of all of them.
TEST_F(RebuilderTest, S5HeartbeatsDoNotLookAtAllTablesAgainAndAgain) {
  VersionEdit edit;
  for (int i = 0; i < 2000; ++i) {
    edit.adds.push_back({1, 0, TableOn({kA, kB}), nullptr});
    std::string key = StrCat(100000 + i);
    edit.adds.back().table.smallest.clear();
    edit.adds.back().table.largest.clear();
    AppendInternalKey(&edit.adds.back().table.smallest, key, 2, ValueType::kPut);
    AppendInternalKey(&edit.adds.back().table.largest, key, 1, ValueType::kPut);
  }
  ASSERT_TRUE(parts.versions.Commit(edit).ok());
  std::vector<StocId> lost;
  for (uint32_t id = 1; id <= 64; ++id) lost.emplace_back(id);
  const auto time = [&](const std::vector<StocId>& stocs, int heartbeats) {
    const Nanos begin = Now();
    for (int i = 0; i < heartbeats; ++i) EXPECT_GE(rebuilder.TablesLeft(stocs).at(kA), 2000u);
    return Now() - begin;
  };
  const Nanos one = time({kA}, 1);
  EXPECT_LT(time(lost, 64), 200 * one) << "each StoC's tables at each heartbeat would be 4096 times as many";
}

// Whoever works as long as it needs a rebuild would never end.
TEST_F(RebuilderTest, S5ARangeThatIsLostNeedsNone) {
  Add(TableOn({kA, kB}));
  rebuilder.Look();
  EXPECT_TRUE(rebuilder.NeedsRebuild());
  parts.context.state.Set(ServingState::kLost);
  EXPECT_FALSE(rebuilder.NeedsRebuild());
  EXPECT_FALSE(rebuilder.RebuildOne());
  EXPECT_TRUE(store.asked.empty());
}

TEST_F(RebuilderTest, S5AfterAFailureATablePausesAndTakesOtherStocs) {
  const TableInfo table = TableOn({kA, kB});
  Add(table);
  store.answer = absl::DeadlineExceededError("no answer");
  const auto try_after = [&](Nanos pause) {
    rebuilder.Look();
    EXPECT_FALSE(rebuilder.NeedsRebuild()) << "it pauses";
    SleepFor(pause);
    rebuilder.Look();
    return rebuilder.RebuildOne();
  };
  rebuilder.Look();
  EXPECT_FALSE(rebuilder.RebuildOne());
  EXPECT_EQ(Places(table), std::vector({kA, kB}));
  EXPECT_FALSE(try_after(1100 * kMillisecond));
  store.answer = OkStatus();
  EXPECT_TRUE(try_after(2100 * kMillisecond));
  ASSERT_EQ(store.asked.size(), 3u);
  EXPECT_EQ(store.asked[0].copies, BothParts(kA, kC));
  EXPECT_EQ(store.asked[1].copies, BothParts(kA, kD));
  EXPECT_EQ(store.asked[2].copies, BothParts(kA, kC)) << "from the first one again";
  EXPECT_LT(store.asked[0].job, store.asked[2].job) << "the collection tells them apart (N4)";
  EXPECT_EQ(Places(table), std::vector({kB, kC}));
}

TEST_F(RebuilderTest, S5AStocThatFailedOneTableIsPassedOverByOthers) {
  const TableInfo first = TableOn({kA}, 'a'), second = TableOn({kA, kB}, 'b');
  Add(first);
  Add(second);
  rebuilder.Look();
  store.answer = absl::DeadlineExceededError("it hangs");
  EXPECT_FALSE(rebuilder.RebuildOne());
  store.answer = OkStatus();
  EXPECT_TRUE(rebuilder.RebuildOne());
  ASSERT_EQ(store.asked.size(), 2u);
  EXPECT_EQ(store.asked[0].copies, BothParts(kA, kC));
  EXPECT_EQ(store.asked[1].copies, BothParts(kA, kD));
}

TEST_F(RebuilderTest, S5ATableThatIsCompactedAwayMeanwhileIsNoFailure) {
  const TableInfo table = TableOn({kA, kB});
  Add(table);
  rebuilder.Look();
  store.meanwhile = [&] {
    VersionEdit drop;
    drop.drops.push_back(table.uuid);
    EXPECT_TRUE(parts.versions.Commit(drop).ok());
    while (parts.executor.RunOnce()) {
    }
    parts.view();  // no thread keeps the older version
    EXPECT_TRUE(parts.garbage.empty()) << "deleted while a StoC fetches it: that passes for damage";
  };
  EXPECT_TRUE(rebuilder.RebuildOne());
  EXPECT_EQ(parts.garbage, std::vector({table.uuid}));
  EXPECT_EQ(rebuilder.progress().done, 0u);
  EXPECT_EQ(parts.versions.current()->TableCount(), 0u);
}

TEST_F(RebuilderTest, S5ACopyThatOnlyGoesIsAnEditAlone) {
  const TableInfo table = TableOn({kA, kB});
  Add(table);
  parts.plan_copies = [](const TableInfo& t, const std::set<StocId>&) {
    return t.metadata_stocs.size() == 2 ? CopyPlan{BothParts(kA, {}), 0, 1} : CopyPlan{};
  };
  rebuilder.Look();
  EXPECT_TRUE(rebuilder.RebuildOne());
  EXPECT_TRUE(store.asked.empty());
  EXPECT_EQ(Places(table), std::vector({kB}));
}

TEST_F(RebuilderTest, S5WithAnErrorBetweenCopyAndEditTheTableStaysWhereItWas) {
  const TableInfo table = TableOn({kA, kB});
  Add(table);
  rebuilder.Look();
  ASSERT_TRUE(ArmFailPoint("rebuild.copied", 1, [] { return absl::UnavailableError("no"); }).ok());
  EXPECT_FALSE(rebuilder.RebuildOne());
  DisarmFailPoints();
  EXPECT_EQ(Places(table), std::vector({kA, kB}));
  EXPECT_FALSE(parts.versions.ReferencedFiles().NamedOn(kC, {table.uuid, 0})) << "no edit has named it";
}

}  // namespace
}  // namespace nova
