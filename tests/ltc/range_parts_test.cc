// The parts of a range, each driven by itself: what it promises to those that stand above it.
#include "tests/ltc/range_parts.h"

#include <gtest/gtest.h>

#include "common/base/coding.h"
#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/sstable/merging_iterator.h"
#include "ltc/engine/background.h"
#include "ltc/engine/range.h"

namespace nova {
namespace {

// --- LookupIndex

RangeOptions WithLookupIndex(bool on) {
  RangeOptions options = RangeParts::SmallRounds();
  options.max_rounds = 8;
  options.compaction.level0_runs_trigger = 8;
  options.lookup_index = on;
  return options;
}

// A sealed round of a key of its own, and of two that every round has.
void WriteRound(RangeParts* parts, int key) {
  for (const std::string& k : {std::string("0"), StrCat(key), std::string("9")})
    ASSERT_EQ(parts->Put(k, StrCat("of ", key)), Outcome::kOk);
  ASSERT_TRUE(parts->rounds.SealActive());
}

TEST(ReaderTest, K5AGetAsksNoRoundAndNoTableThatIsYoungerThanItsKey) {
  for (const bool on : {false, true}) {
    RangeParts parts(WithLookupIndex(on));
    uint64_t memtables = 0, tables = 0;
    const auto expect_asks = [&](const std::string& key, const std::string& value, uint64_t m, uint64_t t) {
      EXPECT_EQ(parts.Get(key), value) << key;
      EXPECT_EQ(parts.reader.memtables() - std::exchange(memtables, parts.reader.memtables()), m) << key;
      EXPECT_EQ(parts.reader.tables() - std::exchange(tables, parts.reader.tables()), t) << key;
    };
    for (int key = 1; key <= 3; ++key) {  // a run of Level0 each
      WriteRound(&parts, key);
      parts.rounds.FlushHeld();
      ASSERT_TRUE(parts.flusher.FlushOne());
    }
    ASSERT_EQ(parts.view().version->Level0Runs(), 3);
    for (int key = 4; key <= 6; ++key) WriteRound(&parts, key);
    const std::string none(OutcomeName(Outcome::kNotFound));
    expect_asks("5", "of 5", on ? 1 : 3, 0);
    expect_asks("0", "of 6", on ? 1 : 2, 0);
    expect_asks("2", "of 2", on ? 0 : 4, on ? 1 : 2);
    expect_asks("7", none, on ? 0 : 4, on ? 0 : 3);
    EXPECT_EQ(parts.Put("2", "again"), Outcome::kOk);
    expect_asks("2", "again", 1, 0);
  }
}

TEST(ReaderTest, K5ASnapshotSeesWhatLiesBelowTheKeysBound) {
  RangeParts parts(WithLookupIndex(true));
  WriteRound(&parts, 1);
  const auto first = parts.points.snapshots().Enter([&] { return parts.points.sequences().last(); }, kNever);
  WriteRound(&parts, 2);
  parts.rounds.FlushHeld();
  ASSERT_TRUE(parts.flusher.FlushOne());
  WriteRound(&parts, 3);
  const auto seen = [&](const std::string& key) {
    std::optional<std::string> answer;
    parts.reader.GetAt(&parts.executor, *first, key, Now() + kSecond, [&](Outcome o, std::string_view v) {
      answer = o == Outcome::kOk ? std::string(v) : std::string(OutcomeName(o));
    });
    parts.executor.RunUntil([&] { return answer.has_value(); });
    return *answer;
  };
  EXPECT_EQ(seen("0"), "of 1") << "its bound is the active round's";
  EXPECT_EQ(seen("1"), "of 1");
  EXPECT_EQ(seen("2"), OutcomeName(Outcome::kNotFound));
  EXPECT_EQ(parts.Get("0"), "of 3");
}

// --- JobBook

TEST(JobBookTest, N4TheFirstUnfinishedJobIsTheOldestUnderWay) {
  JobBook book;
  EXPECT_EQ(book.FirstUnfinished(), 1u);
  std::optional<JobBook::Job> first(std::in_place, &book), second(std::in_place, &book);
  EXPECT_EQ(book.FirstUnfinished(), first->id());
  const uint64_t kept = second->Keep();
  first.reset();
  second.reset();
  EXPECT_EQ(book.FirstUnfinished(), kept) << "a job that is kept lasts until End";
  book.End(kept);
  EXPECT_TRUE(book.empty());
  EXPECT_EQ(book.FirstUnfinished(), kept + 1);
}

TEST(JobBookTest, AJobThatBeganBeforeAStocWasLeftMayPlaceThere) {
  JobBook book;
  const JobBook::Job early(&book);
  EXPECT_EQ(book.MayPlaceOn(StocId(7)), 1u) << "nobody has named it";
  book.LeaveStocs({StocId(7)});
  const JobBook::Job late(&book);
  EXPECT_EQ(book.MayPlaceOn(StocId(7)), 1u);
  book.LeaveStocs({StocId(7), StocId(8)});
  EXPECT_EQ(book.MayPlaceOn(StocId(7)), 1u) << "it is left since the first call";
  EXPECT_EQ(book.MayPlaceOn(StocId(8)), 2u);
  book.LeaveStocs({});
  EXPECT_EQ(book.MayPlaceOn(StocId(8)), 1u) << "it is named no longer";
}

// --- ReadPoints

TEST(ReadPointsTest, K7AnExpiredValueIsNotVisibleAndTheClockNeverGoesBehindWhatWasPublished) {
  ReadPoints points(0);
  std::string stored;
  PutFixed64(&stored, static_cast<uint64_t>(points.NowMs() + 1'000'000));
  stored += "value";
  std::string_view value = stored;
  EXPECT_TRUE(points.IsVisible(ValueType::kPutTtl, &value));
  EXPECT_EQ(value, "value");
  points.PublishNow(points.NowMs() + 2'000'000);
  points.PublishNow(1);
  value = stored;
  EXPECT_FALSE(points.IsVisible(ValueType::kPutTtl, &value));
  EXPECT_FALSE(points.IsVisible(ValueType::kDelete, &value));
}

TEST(ReadPointsTest, K4WhatLiveSnapshotsSeeIsKept) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  const auto snapshot = parts.points.snapshots().Enter([] { return SequenceNumber{1}; }, kNever);
  ASSERT_EQ(parts.Put("a", "2"), Outcome::kOk);
  const DropRules rules = parts.points.RulesOf(parts.view());
  EXPECT_EQ(rules.snapshots, std::vector<SequenceNumber>{1});
  EXPECT_EQ(rules.floor, 2u);
}

// --- RoundSet

TEST(RoundSetTest, K3ASealedRoundEndsAtItsBoundaryAndItsSuccessorBeginsBehindIt) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  ASSERT_EQ(parts.Put("b", "1"), Outcome::kOk);
  const uint64_t before = parts.view().generation;
  ASSERT_TRUE(parts.rounds.SealActive());
  const RangeView& view = parts.view();
  EXPECT_EQ(view.generation, before + 1);
  ASSERT_EQ(view.sealed.size(), 1u);
  EXPECT_EQ(view.sealed[0]->boundary, 2u);
  EXPECT_EQ(view.active->number, 3u);
  EXPECT_TRUE(parts.rounds.SealActive()) << "nothing is in it";
  EXPECT_EQ(parts.view().sealed.size(), 1u);
}

TEST(RoundSetTest, ThereIsNoRoomForMoreRoundsThanTheOptionSays) {
  RangeParts parts;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive()) << i;
  }
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  EXPECT_FALSE(parts.rounds.SealActive());
  EXPECT_EQ(parts.view().sealed.size(), 3u);
  EXPECT_EQ(parts.Get("a"), "1");
}

TEST(RoundSetTest, FlushesClaimTheOldestRoundsOnceAndMergesTakeTheirPlace) {
  RangeOptions options = RangeParts::SmallRounds();
  options.max_rounds = 8;
  RangeParts parts(options);
  for (int i = 0; i < 3; ++i) {
    for (int n = 0; n < 20; ++n) ASSERT_EQ(parts.Put("a", StrCat(i)), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
  }
  const RoundGroup flushed = parts.rounds.ClaimFlush({});
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0], parts.view().sealed.back());
  double share = 0;
  const RoundGroup merged = parts.rounds.ClaimMerge(&share);
  ASSERT_EQ(merged.size(), 2u) << "but not the one that is being flushed";
  EXPECT_EQ(merged[0]->number, 21u) << "the oldest first";
  EXPECT_TRUE(parts.rounds.ClaimMerge(&share).empty()) << "one at a time";
  auto copy = std::make_shared<Round>();
  copy->number = merged[0]->number;
  copy->siblings.push_back(std::make_unique<MemTable>(MemTableId(99), &parts.arenas));
  ASSERT_TRUE(parts.rounds.PublishMerged(merged, copy));
  ASSERT_EQ(parts.view().sealed.size(), 2u);
  EXPECT_EQ(parts.view().sealed[0], copy) << "younger than the flushed one";
  EXPECT_EQ(parts.view().sealed[1], flushed[0]);
}

TEST(RoundSetTest, ARoundFullOfWhatItsLogRefusedIsReplacedAndItsLogDeleted) {
  RangeParts parts;
  const std::string value(20'000, 'v');
  parts.log_notes.answer = Outcome::kBusy;
  for (int i = 0; i < 40; ++i) EXPECT_EQ(parts.Put(StrCat("key", i), value), Outcome::kBusy);
  parts.log_notes.answer = Outcome::kOk;
  EXPECT_EQ(parts.Put("a", "1"), Outcome::kOk);
  EXPECT_TRUE(parts.view().sealed.empty()) << "what holds nothing needs no flush";
}

TEST(RoundSetTest, M2ACheckpointIsOfARoundOrOfWhatIsAllInTables) {
  RangeParts parts;
  const auto request = std::make_shared<PendingCheckpoint>("c");
  SequenceNumber upto = 99;
  EXPECT_EQ(parts.rounds.AttachCheckpoint(request, &upto), RoundSet::Attached::kAllInTables);
  EXPECT_EQ(upto, 0u);
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  EXPECT_EQ(parts.rounds.AttachCheckpoint(request, &upto), RoundSet::Attached::kToRound);
  ASSERT_EQ(parts.view().sealed.size(), 1u) << "it seals what is written";
  EXPECT_EQ(parts.view().sealed[0]->checkpoints.size(), 1u);
  parts.rounds.DetachCheckpoint(request);
  EXPECT_TRUE(parts.view().sealed[0]->checkpoints.empty());
}

// --- OverwriteProbe

TEST(OverwriteProbeTest, AVersionIsReplacedByAYoungerRoundsUpToTheBarrierAndTheSnapshots) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "old"), Outcome::kOk);
  ASSERT_TRUE(parts.rounds.SealActive());
  const RoundGroup rounds = {parts.view().sealed[0]};
  ASSERT_EQ(parts.Put("a", "new"), Outcome::kOk);
  const ParsedInternalKey old{"a", 1, ValueType::kPut}, other{"b", 1, ValueType::kPut};
  OverwriteProbe probe;
  EXPECT_FALSE(probe.Replaces(old)) << "it looks nowhere yet";
  parts.rounds.LookForYounger(rounds, &probe);
  EXPECT_TRUE(probe.Replaces(old));
  EXPECT_FALSE(probe.Replaces(other));
  const auto snapshot = parts.points.snapshots().Enter([] { return SequenceNumber{1}; }, kNever);
  parts.rounds.LookForYounger(rounds, &probe);
  EXPECT_FALSE(probe.Replaces(old)) << "the snapshot sees it";
}

TEST(OverwriteProbeTest, AFlushBarrierKeepsWhatIsWrittenByThen) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "old"), Outcome::kOk);
  ASSERT_TRUE(parts.rounds.SealActive());
  const RoundGroup rounds = {parts.view().sealed[0]};
  parts.rounds.AddFlushBarrier();
  ASSERT_EQ(parts.Put("a", "new"), Outcome::kOk);
  OverwriteProbe probe;
  parts.rounds.LookForYounger(rounds, &probe);
  EXPECT_FALSE(probe.Replaces({"a", 1, ValueType::kPut}));
}

// Two runs in Level0.
void WriteRuns(RangeParts* parts) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(parts->Put("a", StrCat(i)), Outcome::kOk);
    ASSERT_EQ(parts->Put(StrCat("b", i), "x"), Outcome::kOk);
    ASSERT_TRUE(parts->flusher.FlushAll(Now() + kSecond, false).ok());
  }
}

// --- Pacer

TEST(PacerTest, AFailureThatFencesTheEpochEndsTheRangeAndAnotherIsToldToWriters) {
  RangeParts parts;
  EXPECT_EQ(parts.pacer.WhyWorkFails(), Outcome::kOk);
  parts.pacer.CompactionFailed(absl::UnavailableError("the disk"));
  EXPECT_EQ(parts.pacer.WhyWorkFails(), Outcome::kUnavailable);
  parts.pacer.FlushFailed(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(parts.pacer.WhyWorkFails(), Outcome::kNoSpace) << "what flushes say comes first";
  parts.pacer.FlushDone();
  EXPECT_EQ(parts.pacer.WhyWorkFails(), Outcome::kUnavailable);
  EXPECT_TRUE(parts.lost.ok());
  parts.pacer.FlushFailed(absl::FailedPreconditionError("fenced"));
  EXPECT_FALSE(parts.lost.ok());
}

TEST(PacerTest, WritersAreSlowedDownWhileRoundsWaitForAFlush) {
  RangeParts parts;
  EXPECT_EQ(parts.pacer.Admit(&parts.executor, 1 << 20), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
  }
  parts.pacer.UpdatePressure();
  EXPECT_GT(parts.pacer.pressure(), 0.5);
  EXPECT_FALSE(parts.pacer.FlushIsBehind()) << "no flush has begun";
  parts.view().sealed.back()->flushing.store(true);
  EXPECT_TRUE(parts.pacer.FlushIsBehind());
}

// What a writer waits behind another one of 8 MB; then nobody waits any more.
Nanos WaitBehindAWrite(RangeParts* parts) {
  constexpr uint64_t kBytes = 8 << 20;
  parts->pacer.Admit(&parts->executor, kBytes);
  const Nanos wait = parts->pacer.Admit(&parts->executor, kBytes);
  SleepFor(2 * wait);
  return wait;
}

// Memory for a third of the rounds is left, and that of twice as many comes back when all of those are
// written.
TEST(PacerTest, AGroupThatIsWrittenSharesTheRoomThatThereIs) {
  RangeOptions options = RangeParts::SmallRounds();
  options.max_rounds = 30;
  RangeParts parts(options);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(parts.Put(StrCat(i), "1"), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
  }
  parts.pacer.UpdatePressure();
  const Nanos before = WaitBehindAWrite(&parts);
  ASSERT_GT(before, 20 * kMillisecond) << "the test tests nothing";
  const auto round_bytes = static_cast<double>(parts.context.RoundBytes());
  parts.pacer.SetToWrite(1, 20 * round_bytes);
  EXPECT_GT(WaitBehindAWrite(&parts), 2 * before);
  parts.pacer.SetToWrite(1, 8 * round_bytes);
  EXPECT_LT(WaitBehindAWrite(&parts), before * 3 / 2) << "there is room for the rest";
  parts.pacer.EndToWrite(1);
  parts.place_answers = absl::UnavailableError("no StoC");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(parts.flusher.FlushOne());
  EXPECT_NEAR(parts.pacer.bytes_to_write(), 0, 1e-6) << "a flush that has failed writes no more";
  parts.place_answers = OkStatus();
  EXPECT_TRUE(parts.flusher.FlushOne());
  EXPECT_NEAR(parts.pacer.bytes_to_write(), 0, 1e-6);
  EXPECT_NEAR(parts.arenas.bytes_to_write(), 0, 1e-6);
}

// Memory comes back when the oldest flush is through, in which time another one has written as much.
TEST(PacerTest, RoomLastsUntilTheOldestFlushIsThrough) {
  RangeParts parts;
  parts.pacer.SetToWrite(7, 300);
  EXPECT_EQ(parts.pacer.bytes_to_write(), 300);
  parts.pacer.SetToWrite(9, 900);
  EXPECT_EQ(parts.pacer.bytes_to_write(), 600);
  EXPECT_EQ(parts.arenas.bytes_to_write(), 1200);
  parts.pacer.SetToWrite(7, 0);
  EXPECT_EQ(parts.pacer.bytes_to_write(), 0) << "it waits for its commit";
  parts.pacer.EndToWrite(7);
  parts.pacer.EndToWrite(7);
  EXPECT_EQ(parts.pacer.bytes_to_write(), 900);
  parts.pacer.SetToWrite(9, 200);
  parts.pacer.SetToWrite(11, 100);
  EXPECT_EQ(parts.pacer.bytes_to_write(), 300) << "the younger one is through before";
  parts.pacer.EndToWrite(11);
  parts.pacer.EndToWrite(9);
  EXPECT_EQ(parts.arenas.bytes_to_write(), 0);
}

// Writes of 4 KB to as many keys, `bytes` in all.
void Fill(RangeParts* parts, size_t bytes) {
  for (size_t i = 0; i < bytes / 4096; ++i)
    ASSERT_EQ(parts->Put(StrCat("key", i), std::string(4096, 'x')), Outcome::kOk);
}

// A flush makes it no less.
TEST(PacerTest, WhatAnEmptyRoundTakesSlowsNoWriterDown) {
  RangeOptions options = RangeParts::SmallRounds();
  options.memtable_size_bytes = 4 << 20;
  options.active_memtables = 16;
  options.lookup_index = true;
  RangeParts parts(options);
  const size_t empty = parts.arenas.bytes_used();
  EXPECT_EQ(parts.arenas.bytes_fixed(), empty);
  parts.pacer.UpdatePressure();
  const double none = parts.pacer.pressure();
  parts.services.memtable_limit_bytes = empty;
  parts.pacer.UpdatePressure();
  EXPECT_EQ(parts.pacer.pressure(), none) << "nothing is written";
  Fill(&parts, 1 << 20);
  parts.pacer.UpdatePressure();
  EXPECT_EQ(parts.pacer.pressure(), none) << "it fits into what the round has";
  EXPECT_EQ(parts.view().active->freeable_bytes(), 0u);
  ASSERT_TRUE(parts.rounds.SealActive());
  parts.pacer.UpdatePressure();
  EXPECT_GT(parts.pacer.pressure(), 0.5) << "the round that is sealed will be freed";
  ASSERT_TRUE(parts.flusher.FlushOne());
  parts.view();  // no lane has the round now
  EXPECT_EQ(parts.arenas.bytes_used(), empty);
  EXPECT_EQ(parts.arenas.bytes_fixed(), empty);
  Fill(&parts, 8 << 20);
  parts.pacer.UpdatePressure();
  EXPECT_GT(parts.view().active->freeable_bytes(), 3u << 20);
  EXPECT_GT(parts.pacer.pressure(), 0.5) << "what is written counts";
}

// alpha is lowered: the active round has the memtables that it was opened with.
TEST(PacerTest, TheActiveRoundIsAPartOfItsOwnSize) {
  RangeOptions options = RangeParts::SmallRounds();
  options.active_memtables = 16;
  RangeParts parts(options);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
  }
  Fill(&parts, 400 << 10);  // of 1 MB
  parts.context.active_memtables.store(1);
  parts.pacer.UpdatePressure();
  ASSERT_GT(parts.pacer.pressure(), 0.5);
  EXPECT_EQ(parts.pacer.Admit(&parts.executor, 1 << 20), 0);
  // behind the first, at about the flush rate
  EXPECT_LT(parts.pacer.Admit(&parts.executor, 1 << 20), 100 * kMillisecond);
}

// One that ends takes back what it had read, and no more.
TEST(PacerTest, WhatJobsOfLevel0HaveReadSumsUp) {
  RangeOptions options = RangeParts::SmallRounds();
  options.compaction.level0_runs_trigger = 100;
  options.level0_slow_runs = 0;
  options.level0_stop_runs = 10;
  RangeParts parts(options);
  WriteRuns(&parts);
  parts.pacer.UpdatePressure();
  const double none = parts.pacer.pressure();
  parts.pacer.ConsumeLevel0(0.5);
  const double one = parts.pacer.pressure();
  EXPECT_LT(one, none);
  parts.pacer.ConsumeLevel0(0.5);
  EXPECT_LT(parts.pacer.pressure(), one);
  parts.pacer.ConsumeLevel0(-0.5);
  EXPECT_DOUBLE_EQ(parts.pacer.pressure(), one);
  parts.pacer.ConsumeLevel0(-0.5);
  EXPECT_DOUBLE_EQ(parts.pacer.pressure(), none);
}

// --- VersionSet

TEST(VersionSetTest, M2AnEditIsVisibleOnceItIsInTheManifestAndKeepsWhatAFailedOneMayHave) {
  RangeParts parts;
  TableInfo info;
  info.uuid = Uuid::Generate();
  AppendInternalKey(&info.smallest, "a", 2, ValueType::kPut);
  AppendInternalKey(&info.largest, "b", 1, ValueType::kPut);
  VersionEdit edit;
  edit.adds.push_back({1, 0, info, nullptr});
  ASSERT_TRUE(parts.versions.Commit(edit).ok());
  EXPECT_EQ(parts.view().version->TableCount(), 1u);
  EXPECT_TRUE(parts.versions.ReferencedFiles().contains({info.uuid, kMetadataPart}));

  TableInfo lost = info;
  lost.uuid = Uuid::Generate();
  parts.versions.KeepUntilNextEdit({lost});
  EXPECT_TRUE(parts.versions.ReferencedFiles().contains({lost.uuid, kMetadataPart}));
  EXPECT_TRUE(parts.garbage.empty());
  VersionEdit drop;
  drop.drops.push_back(info.uuid);
  ASSERT_TRUE(parts.versions.Commit(drop).ok());
  EXPECT_EQ(parts.garbage.front(), lost.uuid) << "a later edit counts: the failed one does not";
  while (parts.executor.RunOnce()) {
  }
  parts.view();
  EXPECT_EQ(parts.garbage.size(), 2u) << "what was dropped goes with its last reader";
}

TEST(VersionSetTest, AnEditThatDropsWhatIsNotThereChangesNothing) {
  RangeParts parts;
  VersionEdit edit;
  edit.drops.push_back(Uuid::Generate());
  EXPECT_TRUE(absl::IsDataLoss(parts.versions.Commit(edit)));
  EXPECT_EQ(parts.view().version->TableCount(), 0u);
}

// --- Flusher

TEST(FlusherTest, M3AFlushedRoundIsInATableAndItsLogIsDeleted) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  EXPECT_FALSE(parts.flusher.FlushOne()) << "nothing is sealed";
  ASSERT_TRUE(parts.rounds.SealActive());
  EXPECT_TRUE(parts.flusher.NeedsFlush());
  ASSERT_TRUE(parts.flusher.FlushOne());
  EXPECT_TRUE(parts.view().sealed.empty());
  EXPECT_EQ(parts.view().version->Level0Runs(), 1);
  EXPECT_EQ(parts.log_notes.deleted, std::vector<RoundNumber>{1});
  EXPECT_TRUE(parts.jobs.empty());
  EXPECT_EQ(parts.Get("a"), "1");
}

TEST(FlusherTest, L6ARoundWithAWriteOnItsWayIsNotFlushed) {
  for (const Outcome end : {Outcome::kOk, Outcome::kNotOwner}) {
    SCOPED_TRACE(OutcomeName(end));
    RangeParts parts;
    ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
    parts.log_notes.holds = true;
    const WriteEntry entry{ValueType::kPut, "b", "2"};
    std::optional<Outcome> outcome;
    parts.writes.Write(&parts.executor, {{&entry, 1}, 0, 0, Now() + kSecond},
                       [&](Outcome o) { outcome = o; });
    ASSERT_EQ(parts.log_notes.held.size(), 1u);
    ASSERT_TRUE(parts.rounds.SealActive());
    EXPECT_FALSE(parts.flusher.NeedsFlush());
    EXPECT_TRUE(parts.rounds.ClaimFlush({}).empty());
    EXPECT_FALSE(parts.flusher.FlushOne());
    EXPECT_FALSE(outcome.has_value());
    std::exchange(parts.log_notes.held, {})[0](end);
    if (end == Outcome::kNotOwner) {  // the next owner decides: it stays pinned for ever
      EXPECT_EQ(outcome, Outcome::kUnknown);
      EXPECT_FALSE(parts.flusher.FlushOne());
      EXPECT_TRUE(parts.log_notes.deleted.empty());
      continue;
    }
    EXPECT_EQ(outcome, Outcome::kOk);
    EXPECT_TRUE(parts.flusher.NeedsFlush());
    EXPECT_TRUE(parts.flusher.FlushOne());
    EXPECT_EQ(parts.log_notes.deleted.size(), 1u);
    EXPECT_EQ(parts.view().version->TableCount(), 1u);
    EXPECT_EQ(parts.Get("b"), "2");
  }
}

TEST(FlusherTest, AFlushThatCannotPlaceItsTableIsTriedAgain) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  ASSERT_TRUE(parts.rounds.SealActive());
  parts.place_answers = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(parts.flusher.FlushOne());
  EXPECT_EQ(parts.pacer.flush_failure(), Outcome::kNoSpace);
  EXPECT_TRUE(parts.jobs.empty());
  EXPECT_EQ(parts.Get("a"), "1");
  parts.place_answers = OkStatus();
  EXPECT_TRUE(parts.flusher.FlushOne());
  EXPECT_EQ(parts.pacer.flush_failure(), Outcome::kOk);
  EXPECT_EQ(parts.Get("a"), "1");
}

// A store that takes tables whole, as StoCs do.
class WholeTables : public TableStore {
 public:
  explicit WholeTables(TableStore* base) : base_(base) {}
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                 const Creator& creator) override {
    const uint64_t entries = output.info.entries;
    auto info = base_->WriteTable(std::move(output), placement, creator);
    stored.fetch_add(entries);
    return info;
  }
  StatusOr<std::string> ReadMetadata(const TableInfo& info) override { return base_->ReadMetadata(info); }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    return base_->ReadBlocks(info, blocks);
  }
  void FetchBlocks(Executor* on, const TableInfo& info, std::vector<BlockHandle> blocks, Nanos deadline_ns,
                   ReadDone done) override {
    ++fetches;
    if (together_fail && blocks.size() > 1) return done(absl::DataLossError("one of them is damaged"));
    base_->FetchBlocks(on, info, std::move(blocks), deadline_ns, std::move(done));
  }
  void FetchMetadata(Executor* on, const TableInfo& info, Nanos deadline_ns, ReadDone done) override {
    base_->FetchMetadata(on, info, deadline_ns, std::move(done));
  }
  StatusOr<int> Repair(const TableInfo& info, const Creator& c) override { return base_->Repair(info, c); }
  Status MakeCopies(const TableInfo& info, std::span<const PartCopy> copies, const Creator& c) override {
    return base_->MakeCopies(info, copies, c);
  }
  Status AddReferences(std::span<const TableInfo> tables, const Creator& c) override {
    return base_->AddReferences(tables, c);
  }
  void DropTable(const TableInfo& info, const Creator& c) override { base_->DropTable(info, c); }

  std::atomic<uint64_t> stored{0};  // entries of tables
  int fetches = 0;
  bool together_fail = false;  // fetches of several blocks

 private:
  TableStore* const base_;
};

// Writers are admitted at the rate of flushes: what waits for a disk is not written.
TEST(Level0WriterTest, AFlushIsAsFarAsItsTablesAreStored) {
  constexpr int kEntries = 2000;
  RangeOptions options = RangeParts::SmallRounds();
  options.memtable_size_bytes = 8 << 20;
  options.compaction.table_size_bytes = 64 << 10;
  RangeParts parts(options);
  WholeTables store(parts.store.get());
  parts.services.store = &store;
  for (int i = 0; i < kEntries; ++i)
    ASSERT_EQ(parts.Put(StrCat("k", 10'000 + i), std::string(1000, 'v')), Outcome::kOk);
  ASSERT_TRUE(parts.rounds.SealActive());
  const auto round = parts.view().sealed.front();
  std::vector<std::unique_ptr<Iterator>> children;
  for (const auto& m : round->siblings) children.push_back(m->NewIterator(round));
  const auto sorted = NewMergingIterator(std::move(children));
  const DropRules rules = parts.points.RulesOfFlush(parts.view(), {round});
  OverwriteProbe younger;
  uint64_t written = 0;
  int passed = 0, steps = 0;
  FlushProgress progress;
  progress.on_passed = [&] { ++passed; };
  progress.on_written = [&](const FlushedEntries& since) {
    ++steps;
    written += since.entries;
    EXPECT_LE(written, store.stored.load());
    EXPECT_EQ(since.stored, since.entries);
    EXPECT_GT(since.stored_bytes, since.stored * 1000);
  };
  const Level0Run run{1, sorted.get(), round->number, &rules};
  const auto edit = WriteLevel0(parts.context, &parts.tables, run, &younger, progress);
  ASSERT_TRUE(edit.ok()) << edit.status();
  EXPECT_EQ(written, static_cast<uint64_t>(kEntries));
  EXPECT_EQ(steps, static_cast<int>(edit->adds.size()));
  EXPECT_GT(passed, 5);
  for (const VersionEdit::Add& add : edit->adds) parts.store->DropTable(add.table, {});
}

// Hot keys lie before all others, as ten thousand entries of which ten are stored. Past them a flush has all
// of its work before it, and the memory of its rounds is far from coming back.
TEST(FlusherTest, AFlushThatHasPassedOnlyWhatItLeavesOutHasStillAllToWrite) {
  RangeOptions options = RangeParts::SmallRounds();
  options.memtable_size_bytes = 8 << 20;
  options.compaction.table_size_bytes = 64 << 10;
  RangeParts parts(options);
  class Watching : public WholeTables {
   public:
    explicit Watching(RangeParts* parts) : WholeTables(parts->store.get()), parts_(parts) {}
    StatusOr<TableInfo> WriteTable(TableBuilder::Output output, const Placement& placement,
                                   const Creator& creator) override {
      to_write.push_back(parts_->pacer.bytes_to_write());
      return WholeTables::WriteTable(std::move(output), placement, creator);
    }
    std::vector<double> to_write;  // as each table was stored

   private:
    RangeParts* const parts_;
  } store(&parts);
  parts.services.store = &store;
  parts.services.one_disk = true;
  for (const bool first : {true, false}) {  // the first one shows what flushes keep
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(parts.Put(StrCat("a", i % 10), "1"), Outcome::kOk);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(parts.Put(StrCat("k", i), std::string(1000, 'v')), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
    parts.rounds.FlushHeld();
    store.to_write.clear();
    ASSERT_TRUE(parts.flusher.FlushOne());
    const size_t tables = store.to_write.size();
    ASSERT_GT(tables, 10u);
    const double all = store.to_write.front();
    EXPECT_GT(all, 0);
    const auto left = [&](size_t of_tables) { return store.to_write[of_tables] / all; };
    if (first) {
      EXPECT_LT(left(1), 0.2) << "the test tests nothing";
    } else {
      EXPECT_GT(left(1), 0.8);
      EXPECT_NEAR(left(tables / 2), 0.5, 0.15);
      EXPECT_LT(left(tables - 1), 0.2);
    }
  }
}

// --- Scanner

// The fetches of a scan of 1,000 records of 1 KB, four in a block, from below one of them down.
int FetchesBackwards(int below, uint32_t limit, bool together_fail) {
  RangeOptions options = RangeParts::SmallRounds();
  options.memtable_size_bytes = 4 << 20;
  RangeParts parts(options);
  WholeTables store(parts.store.get());
  store.together_fail = together_fail;
  parts.services.store = &store;
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(parts.Put(StrCat("k", 10'000 + i), std::string(1000, 'v')), Outcome::kOk);
  EXPECT_TRUE(parts.flusher.FlushAll(Now() + kSecond, false).ok());
  ScanOp op = {"", StrCat("k", 10'000 + below), limit, Now() + 10 * kSecond};
  op.reverse = true;
  std::optional<ScanPage> page;
  parts.scanner.Scan(&parts.executor, op, [&](Outcome o, ScanPage p) {
    EXPECT_EQ(o, Outcome::kOk);
    page = std::move(p);
  });
  parts.executor.RunUntil([&] { return page.has_value(); });
  EXPECT_EQ(page->count, std::min<uint32_t>(limit, static_cast<uint32_t>(below)));
  return store.fetches;
}

// What is read ahead backwards nobody waits for: where it cannot be read the blocks come one by one.
TEST(ScannerTest, BackwardsBlocksAreReadTogetherAndNoneIsMissed) {
  EXPECT_LT(FetchesBackwards(1000, 2000, false), 250 / 5);
  EXPECT_LE(FetchesBackwards(700, 10, false), 3);
  EXPECT_GE(FetchesBackwards(1000, 2000, true), 250);
}

// --- Compactor

TEST(CompactorTest, RunsOfLevel0BecomeOneOfLevel1AndTheirTablesGo) {
  RangeOptions options = RangeParts::SmallRounds();
  options.compaction.level0_runs_trigger = 2;
  RangeParts parts(options);
  WriteRuns(&parts);
  ASSERT_TRUE(parts.compactor.NeedsCompaction());
  parts.compactor.Pause(true);
  EXPECT_FALSE(parts.compactor.CompactOne());
  parts.compactor.Pause(false);
  ASSERT_TRUE(parts.compactor.CompactOne());
  EXPECT_EQ(parts.view().version->Level0Runs(), 0);
  EXPECT_EQ(parts.view().version->TableCount(), 1u);
  EXPECT_EQ(parts.Get("a"), "1");
  EXPECT_EQ(parts.Get("b0"), "x");
}

TEST(CompactorTest, AJobThatEndsTakesBackWhatItHasReadOfLevel0) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    RangeOptions options = RangeParts::SmallRounds();
    options.compaction.level0_runs_trigger = 2;
    options.level0_slow_runs = 2;
    RangeParts parts(options);
    WriteRuns(&parts);
    parts.pacer.UpdatePressure();
    const double before = parts.pacer.pressure();
    if (fails) parts.place_answers = absl::UnavailableError("no StoC");
    EXPECT_EQ(parts.compactor.CompactOne(), !fails);
    parts.pacer.UpdatePressure();
    if (fails) {
      EXPECT_DOUBLE_EQ(parts.pacer.pressure(), before);
    } else {
      EXPECT_LT(parts.pacer.pressure(), before);
    }
    parts.place_answers = OkStatus();
    WriteRuns(&parts);
    EXPECT_GE(parts.pacer.pressure(), before);
  }
}

// Two runs are fewer than the trigger, and nothing more is written. Scans pay until they are merged.
TEST(CompactorTest, ReadsThatSufferFromRunsOfLevel0HaveThemMerged) {
  RangeParts parts;
  WriteRuns(&parts);
  ASSERT_EQ(parts.view().version->Level0Runs(), 2);
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
  EXPECT_FALSE(parts.compactor.CompactOne());
  const auto scan = [&parts](uint32_t limit) {
    parts.scanner.Scan(&parts.executor, {"a", "", limit, Now() + kSecond}, [&](Outcome o, ScanPage page) {
      EXPECT_EQ(o, Outcome::kOk);
      EXPECT_EQ(page.count, limit);
    });
  };
  // the first entry is of one run, and no other is opened for it
  for (int i = 0; i < 1'000; ++i) scan(1);
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
  for (int i = 0; i < 100 && !parts.compactor.NeedsCompaction(); ++i) scan(3);
  ASSERT_TRUE(parts.compactor.NeedsCompaction());
  ASSERT_TRUE(parts.compactor.CompactOne());
  EXPECT_EQ(parts.view().version->Level0Runs(), 0);
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
  EXPECT_EQ(parts.Get("a"), "1");
}

// The version of the parts as it is after it was opened: no reader is loaded.
std::shared_ptr<const Version> Reopened(RangeParts* parts) {
  VersionEdit edit;
  for (const Run& run : parts->view().version->runs())
    for (const TableRef& table : run.tables)
      edit.adds.push_back({run.level, run.order, table->info(), nullptr});
  return Version().Apply(edit, [](const TableInfo&) {}).value();
}

// What a scan of all adds to the bytes whose merge reads have paid for.
uint64_t PaidByScan(RangeParts* parts) {
  const uint64_t before = parts->toll.PaidBytes();
  bool ended = false;
  parts->scanner.Scan(&parts->executor, {"a", "", 3, Now() + kSecond}, [&](Outcome o, const ScanPage&) {
    EXPECT_EQ(o, Outcome::kOk);
    ended = true;
  });
  parts->executor.RunUntil([&] { return ended; });
  return parts->toll.PaidBytes() - before;
}

// What is waited for the disk is more than what a run costs in memory.
TEST(CompactorTest, AScanThatReadsRunsOfLevel0FromDiskPaysWhatThatTakes) {
  for (const bool map_tables : {true, false}) {
    RangeParts parts(RangeParts::SmallRounds(), map_tables);
    WriteRuns(&parts);
    parts.tables.Warm(parts.rounds.ViewOf(&parts.executor), [] { return false; });
    PaidByScan(&parts);
    const uint64_t in_memory = PaidByScan(&parts);
    ASSERT_GT(in_memory, 0u);
    EXPECT_EQ(PaidByScan(&parts), in_memory);
    ASSERT_TRUE(parts.versions.Start(Reopened(&parts), parts.points.sequences().last()).ok());
    parts.tables.LoadReaders(parts.rounds.ViewOf(&parts.executor), [] { return false; });
    parts.cache.Pin(1 << 20);  // all that it may have: the blocks go
    parts.cache.Unpin(1 << 20);
    EXPECT_GT(PaidByScan(&parts), in_memory);
  }
}

// Runs jobs here, after a wait.
class SlowJobs : public JobRunner {
 public:
  StatusOr<CompactionResult> RunJob(const CompactionJob& job, CompactionStorage* here,
                                    const std::function<bool()>& cancelled) override {
    SleepFor(takes);
    return RunCompaction(job, here, cancelled);
  }
  Nanos takes = 0;
};

// A merge was quick until now, and then the disk is as slow as its share beside requests.
TEST(CompactorTest, AMergeThatReadsHavePaidForIsGivenUpIfItTurnsOutDear) {
  RangeOptions options = RangeParts::SmallRounds();
  options.memtable_size_bytes = 32 << 20;
  options.compaction.max_parts = 1;
  RangeParts parts(options);
  SlowJobs jobs;
  parts.services.jobs = &jobs;
  for (int run = 0; run < 2; ++run) {
    for (int i = 0; i < 20; ++i)
      ASSERT_EQ(parts.Put(StrCat("k", 10 * i + run), std::string(1 << 20, 'v')), Outcome::kOk);
    ASSERT_TRUE(parts.flusher.FlushAll(Now() + 10 * kSecond, false).ok());
  }
  ASSERT_EQ(parts.view().version->Level0Runs(), 2);
  while (!parts.compactor.NeedsCompaction())
    parts.toll.OnReads(&parts.executor, 1, 2, Level0Toll::kMostOfReads);
  jobs.takes = 2 * kSecond;
  EXPECT_FALSE(parts.compactor.CompactOne());
  EXPECT_EQ(parts.view().version->Level0Runs(), 2);
  EXPECT_EQ(parts.pacer.LastingCompactionFailure(0), OkStatus()) << "it is no failure";
  EXPECT_FALSE(parts.compactor.NeedsCompaction()) << "reads have not paid what it costs";
  const size_t given_up = parts.garbage.size();

  for (int i = 0; i < 1'000 && !parts.compactor.NeedsCompaction(); ++i)
    parts.toll.OnReads(&parts.executor, 1, 2, Level0Toll::kMostOfReads);
  ASSERT_TRUE(parts.compactor.NeedsCompaction());
  EXPECT_TRUE(parts.compactor.CompactOne()) << "now they have";
  EXPECT_EQ(parts.view().version->Level0Runs(), 0);
  EXPECT_GT(parts.garbage.size(), given_up);
  EXPECT_EQ(parts.Get("k0").size(), 1u << 20);
}

TEST(CompactorTest, TheNextWriteEndsIdleness) {
  RangeParts parts;
  WriteRuns(&parts);
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
  parts.compactor.BeIdle();
  EXPECT_TRUE(parts.compactor.NeedsCompaction());
  ASSERT_EQ(parts.Put("c", "1"), Outcome::kOk);
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
}

// --- Dranges

RangeOptions FourDranges() {
  RangeOptions options = RangeParts::SmallRounds();
  options.compaction.dranges = 4;
  options.compaction.least_table_bytes = 1000;
  options.compaction.level0_runs_trigger = 2;
  options.compaction.level0_share = 0;
  return options;
}

// One run of Level0, of 200 keys all over the range.
void WriteColumns(RangeParts* parts, const std::string& value) {
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(parts->Put(StrCat("k", 100 + i), value + std::string(50, '.')), Outcome::kOk);
  ASSERT_TRUE(parts->flusher.FlushAll(Now() + kSecond, false).ok());
}

bool LiesInOneDrange(const Version& version, const TableRef& table) {
  return version.dranges()->Of(table->keys().first) == version.dranges()->Of(table->keys().last);
}

TEST(FlusherTest, AFlushEndsItsTablesAtTheDrangesThatTheOneBeforeItHasSeen) {
  RangeParts parts(FourDranges());
  ASSERT_EQ(parts.view().version->dranges(), nullptr);
  WriteColumns(&parts, "1");
  ASSERT_NE(parts.view().version->dranges(), nullptr);
  EXPECT_EQ(parts.view().version->dranges()->size(), 4u);
  EXPECT_EQ(parts.view().version->runs()[0].tables.size(), 1u);
  WriteColumns(&parts, "2");
  const nova::Run& youngest = parts.view().version->runs()[0];
  EXPECT_EQ(youngest.tables.size(), 4u);
  for (const TableRef& t : youngest.tables) EXPECT_TRUE(LiesInOneDrange(*parts.view().version, t));
  EXPECT_EQ(parts.load.reorganisations(), 1u) << "the load is as it was";
}

TEST(FlusherTest, ASmallFlushHasNoSmallTables) {
  RangeParts parts(FourDranges());
  WriteColumns(&parts, "1");
  for (int i = 0; i < 8; ++i) ASSERT_EQ(parts.Put(StrCat("k", 100 + 25 * i), "2"), Outcome::kOk);
  ASSERT_TRUE(parts.flusher.FlushAll(Now() + kSecond, false).ok());
  EXPECT_EQ(parts.view().version->runs()[0].tables.size(), 1u);
}

TEST(FlusherTest, WithOneDrangeNothingIsCountedOrCut) {
  RangeOptions options = FourDranges();
  options.compaction.dranges = 1;
  RangeParts parts(options);
  WriteColumns(&parts, "1");
  WriteColumns(&parts, "2");
  EXPECT_EQ(parts.view().version->dranges(), nullptr);
  EXPECT_EQ(parts.load.map(), nullptr);
  EXPECT_EQ(parts.view().version->runs()[0].tables.size(), 1u);
}

TEST(CompactorTest, AColumnGoesDownByItselfAndEndsAtItsDrange) {
  RangeOptions options = FourDranges();
  options.compaction.level0_runs_trigger = 1;
  RangeParts parts(options);
  WriteColumns(&parts, "1");  // before there were Dranges: one table
  while (parts.compactor.CompactOne()) {
  }
  ASSERT_EQ(parts.view().version->Level0Runs(), 0);
  WriteColumns(&parts, "2");
  ASSERT_EQ(parts.view().version->runs()[0].tables.size(), 4u);
  ASSERT_TRUE(parts.compactor.CompactOne());
  EXPECT_EQ(parts.view().version->runs()[0].level, 0);
  EXPECT_EQ(parts.view().version->runs()[0].tables.size(), 3u) << "one column of four is gone";
  for (const TableRef& t : parts.view().version->LevelRun(1)->tables)
    EXPECT_TRUE(LiesInOneDrange(*parts.view().version, t))
        << "so the other columns do not wait for each other";
  while (parts.compactor.CompactOne()) {
  }
  EXPECT_EQ(parts.view().version->Level0Runs(), 0);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(parts.Get(StrCat("k", 100 + i))[0], '2');
}

// Puts and scans of ten keys by halves, over uniform keys; one compaction for each flush that is not behind.
TEST(CompactorTest, AScanBesideUniformPutsOpensFewerTablesThanLevel0HasRuns) {
  constexpr uint64_t kKeys = 2'000, kOperations = 8'000;
  RangeOptions options = RangeParts::SmallRounds();
  options.compaction.dranges = 64;
  options.compaction.least_table_bytes = 1 << 10;
  options.compaction.table_size_bytes = 64 << 10;
  options.compaction.level0_runs_trigger = 16;
  options.compaction.level0_share = 1;
  RangeParts parts(options);
  Random random(1);
  const auto key = [&random] { return StrCat("k", 100'000 + random.Uniform(kKeys)); };
  double runs = 0;
  for (uint64_t i = 0; i < kOperations; ++i) {
    ASSERT_EQ(parts.Put(key(), std::string(250, 'v')), Outcome::kOk);
    parts.scanner.Scan(&parts.executor, {key(), "", 10, Now() + kSecond},
                       [](Outcome o, ScanPage) { EXPECT_EQ(o, Outcome::kOk); });
    runs += parts.view().version->Level0Runs();
    if (parts.flusher.FlushOne()) {
      for (int n = 0; n < 8 && parts.compactor.CompactOne(); ++n) {
      }
    }
  }
  const auto scans = static_cast<double>(parts.scanner.scans());
  const double memtables = static_cast<double>(parts.scanner.memtables()) / scans,
               tables = static_cast<double>(parts.scanner.tables()) / scans;
  runs /= kOperations;
  std::printf("%zu Dranges: a scan opens %.2f memtables and %.2f tables, of %.2f runs of Level0\n",
              parts.view().version->columns().size(), memtables, tables, runs);
  EXPECT_GE(parts.view().version->columns().size(), 16u);
  EXPECT_LT(tables, runs);
  EXPECT_LT(memtables + tables, 8);
}

TEST(RangeTest, AMapThatIsDamagedIsIgnoredAndCounted) {
  RangeParts parts;
  const auto recover = [&](int dranges, std::string map) {
    RangeOptions options = FourDranges();
    options.compaction.dranges = dranges;
    VersionEdit edit;
    edit.dranges = std::move(map);
    auto range =
        Range::Recover({RangeId(2), Epoch(2)}, options, &parts.services, parts.manifests.get(), {edit}, {});
    EXPECT_TRUE(range.ok()) << range.status();
    return (*range)->stats();
  };
  const std::string good = DrangeMap({"d", "j"}, 1).Encode();
  EXPECT_EQ(recover(4, good).dranges, 3);
  EXPECT_EQ(recover(4, good).damaged_maps, 0u);
  EXPECT_EQ(recover(1, good).dranges, 1) << "it is not wanted";
  EXPECT_EQ(recover(4, good + "x").dranges, 1);
  EXPECT_EQ(recover(4, good + "x").damaged_maps, 1u);
}

// It would be begun again and again, each time until the disk is full.
TEST(CompactorTest, AMergeThatFailedIsNotTriedAgainForTheSakeOfReadsOrIdleness) {
  RangeParts parts;
  WriteRuns(&parts);
  parts.compactor.BeIdle();
  ASSERT_TRUE(parts.compactor.NeedsCompaction());
  parts.place_answers = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(parts.compactor.CompactOne());
  EXPECT_EQ(parts.view().version->Level0Runs(), 2);
  parts.place_answers = OkStatus();
  parts.compactor.BeIdle();
  EXPECT_FALSE(parts.compactor.NeedsCompaction());
}

// --- Level0Toll

TEST(Level0TollTest, ReadsPayByTheRunsTheyMeetAndAMergeSettlesIt) {
  RangeParts parts;
  Level0Toll toll(&parts.context);
  EXPECT_EQ(toll.PaidBytes(), 0u);
  toll.OnGet(&parts.executor, 0);
  toll.OnScan(&parts.executor, 1);
  EXPECT_EQ(toll.PaidBytes(), 0u) << "no more than without Level0";
  for (int i = 0; i < 1000; ++i) toll.OnGet(&parts.executor, 3);
  const uint64_t of_gets = toll.PaidBytes();
  EXPECT_GT(of_gets, 0u);
  for (int i = 0; i < 1000; ++i) toll.OnScan(&parts.executor, 3);
  EXPECT_GT(toll.PaidBytes(), 10 * of_gets);
  toll.OnMerged(100, 1, 1);
  EXPECT_EQ(toll.PaidBytes(), 0u);
}

TEST(Level0TollTest, ThePriceIsOfTheDisk) {
  RangeParts parts;
  Level0Toll toll(&parts.context);
  for (int i = 0; i < 10; ++i) toll.OnMerged(50 << 20, kSecond, 1);  // 50 MiB/s
  for (int i = 0; i < 1'000'000; ++i) toll.OnGet(&parts.executor, 10);
  EXPECT_NEAR(static_cast<double>(toll.PaidBytes()), 50 << 20, 1 << 20) << "a second of gets buys a second";
}

TEST(Level0TollTest, WhatIsReadFromDiskPaysByItsPartOfTheTime) {
  RangeParts parts;
  Level0Toll toll(&parts.context);
  for (int i = 0; i < 10; ++i) toll.OnMerged(50 << 20, kSecond, 1);  // 50 MiB/s
  for (int i = 0; i < 10'000; ++i) toll.OnReads(&parts.executor, 3, 6, 200 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(toll.PaidBytes()), 50 << 20, 1 << 20) << "half of two seconds";
  const uint64_t before = toll.PaidBytes();
  toll.OnReads(&parts.executor, 1, 1, kSecond);
  EXPECT_EQ(toll.PaidBytes(), before) << "no more than without Level0";
  for (int i = 0; i < 100; ++i) toll.OnReads(&parts.executor, 2, 2, 20 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(toll.PaidBytes() - before), 50 << 20, 1 << 20) << "one of them";
}

TEST(Level0TollTest, WhatHangsIsNoReasonToMerge) {
  RangeParts parts;
  Level0Toll hung(&parts.context), slow(&parts.context);
  for (int i = 0; i < 64; ++i) hung.OnReads(&parts.executor, 1, 2, 10 * kSecond);
  for (int i = 0; i < 64; ++i) slow.OnReads(&parts.executor, 1, 2, Level0Toll::kMostOfReads);
  EXPECT_GT(hung.PaidBytes(), 0u);
  EXPECT_EQ(hung.PaidBytes(), slow.PaidBytes());
}

TEST(Level0TollTest, AMergeThatTakesFarLongerThanReadsHavePaidTurnsOutDear) {
  RangeParts parts;
  Level0Toll toll(&parts.context);
  for (int i = 0; i < 10; ++i) toll.OnMerged(300 << 20, kSecond, 1);  // 300 MiB/s
  const auto pay_a_second = [&] {
    for (int i = 0; i < 1'000'000; ++i) toll.OnGet(&parts.executor, 10);
  };
  pay_a_second();
  constexpr uint64_t kBytes = 300 << 20;
  EXPECT_FALSE(toll.TurnsOutDear(kBytes, 1 << 20, 10 * kSecond, 1)) << "too early to tell";
  EXPECT_FALSE(toll.TurnsOutDear(kBytes, 20 << 20, kSecond / 10, 1)) << "1.4 s are left";
  EXPECT_FALSE(toll.TurnsOutDear(kBytes, 280 << 20, 14 * kSecond, 1)) << "1 s is left, whatever it was";
  EXPECT_TRUE(toll.TurnsOutDear(kBytes, 20 << 20, kSecond / 10, 0.5))
      << "for a part that has paid half of it";
  EXPECT_TRUE(toll.TurnsOutDear(kBytes, 20 << 20, kSecond, 1)) << "14 s are left";
  EXPECT_NEAR(static_cast<double>(toll.PaidBytes()), 20 << 20, 1 << 20) << "the price from now on";
  EXPECT_TRUE(toll.TurnsOutDear(kBytes, 20 << 20, 1000 * kSecond, 1)) << "a StoC hangs";
  EXPECT_GT(toll.PaidBytes(), 1u << 20) << "and comes back";
  for (int i = 0; i < 6; ++i) pay_a_second();
  EXPECT_FALSE(toll.TurnsOutDear(kBytes, 20 << 20, kSecond, 1));
}

TEST(Level0TollTest, WhoPaysTellsThatAMergeMayBeDue) {
  RangeParts parts;
  Level0Toll toll(&parts.context);
  const int before = parts.work_due;
  for (int i = 0; i < 1000; ++i) toll.OnScan(&parts.executor, 200);  // 0.3 s
  EXPECT_EQ(parts.work_due - before, 3);
}

// --- WritePath, Reader, Scanner

TEST(WritePathTest, K2WhatTheLogDidNotTakeIsNeverSeen) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  parts.log_notes.takes = Outcome::kBusy;
  EXPECT_EQ(parts.Put("a", "2"), Outcome::kBusy);
  parts.log_notes.takes = Outcome::kOk;
  parts.log_notes.answer = Outcome::kUnavailable;
  EXPECT_EQ(parts.Put("a", "3"), Outcome::kUnavailable);
  EXPECT_EQ(parts.Get("a"), "1");
  EXPECT_EQ(parts.points.sequences().stable(), parts.points.sequences().last())
      << "numbers are given up (K4)";
  EXPECT_EQ(parts.view().active->pins.load(), 0) << "and pins (L6)";
}

TEST(WritePathTest, K3aAWriteWhoseRoundSealsBeforeItHasANumberGoesToTheSuccessor) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  const SequenceNumber boundary = parts.points.sequences().last();
  ASSERT_TRUE(ArmFailPoint("write.pinned", 1, [&] {
                EXPECT_TRUE(parts.rounds.SealActive());
                return OkStatus();
              }).ok());
  EXPECT_EQ(parts.Put("a", "2"), Outcome::kOk);
  EXPECT_EQ(FailPointHits("write.pinned"), 2u) << "it has taken another number";
  DisarmFailPoints();
  const RangeView& view = parts.view();
  ASSERT_EQ(view.sealed.size(), 1u);
  EXPECT_EQ(view.sealed[0]->boundary, boundary);
  EXPECT_EQ(view.sealed[0]->entries(), 1u) << "a number above the boundary is in a younger round";
  EXPECT_EQ(view.active->entries(), 1u);
  EXPECT_EQ(parts.points.sequences().stable(), parts.points.sequences().last())
      << "the number that was given up is finished";
  EXPECT_EQ(parts.Get("a"), "2");
}

TEST(WritePathTest, WritesWithoutRoomGoOnInTheirOrderAndEndAtTheirDeadlines) {
  RangeParts parts;
  std::vector<std::pair<std::string, Outcome>> answers;
  const auto begin = [&](const std::string& name, Nanos deadline_ns) {
    const std::string value(8 << 10, 'v');
    const WriteEntry entry{ValueType::kPut, name, value};
    parts.writes.Write(&parts.executor, {{&entry, 1}, 0, 0, deadline_ns},
                       [&answers, name](Outcome o) { answers.emplace_back(name, o); });
  };
  const auto run_for = [&](Nanos ns) {
    const Nanos until = Now() + ns;
    parts.executor.RunUntil([&] { return Now() >= until; });
  };
  size_t filled = 0;
  for (; answers.size() == filled && filled < 100; ++filled) {
    begin(StrCat("fill ", filled), Now() + 60 * kSecond);
    const Nanos until = Now() + 300 * kMillisecond;
    parts.executor.RunUntil([&] { return answers.size() > filled || Now() >= until; });
  }
  ASSERT_LT(filled, 100u) << "it never waits: the test tests nothing";
  answers.clear();
  begin("ends", Now() + 400 * kMillisecond);
  for (const char* name : {"a", "b", "c"}) begin(name, Now() + 60 * kSecond);
  run_for(500 * kMillisecond);  // no write is slowed down for so long
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0], std::make_pair(std::string("ends"), Outcome::kBusy));
  parts.rounds.FlushHeld();
  while (parts.flusher.FlushOne()) {
  }
  begin("late", Now() + 60 * kSecond);  // there is room, and others came before
  parts.executor.RunUntil([&] { return answers.size() == 6; });
  std::vector<std::string> order;
  for (const auto& [name, outcome] : std::span(answers).subspan(1)) {
    EXPECT_EQ(outcome, Outcome::kOk) << name;
    order.push_back(name);
  }
  EXPECT_EQ(order, (std::vector<std::string>{StrCat("fill ", filled - 1), "a", "b", "c", "late"}));
}

TEST(WritePathTest, AFencedLogEndsTheRangeAndLeavesTheWriteUnknown) {
  RangeParts parts;
  parts.log_notes.answer = Outcome::kNotOwner;
  EXPECT_EQ(parts.Put("a", "1"), Outcome::kUnknown);
  EXPECT_FALSE(parts.lost.ok());
  EXPECT_EQ(parts.Put("a", "2"), Outcome::kNotOwner);
  EXPECT_EQ(parts.Get("a"), OutcomeName(Outcome::kNotOwner));
}

TEST(WritePathTest, K6ASwapComparesWhatIsThere) {
  RangeParts parts;
  const auto swap = [&](std::optional<std::string> expected, std::optional<std::string> desired) {
    std::optional<Outcome> outcome;
    parts.writes.CompareAndSwap(&parts.executor, {"a", expected, desired, 0, 0, Now() + kSecond},
                                [&](Outcome o) { outcome = o; });
    parts.executor.RunUntil([&] { return outcome.has_value(); });
    return *outcome;
  };
  EXPECT_EQ(swap("1", "2"), Outcome::kConditionFailed);
  EXPECT_EQ(swap(std::nullopt, "1"), Outcome::kOk);
  EXPECT_EQ(swap("1", std::nullopt), Outcome::kOk);
  EXPECT_EQ(parts.Get("a"), OutcomeName(Outcome::kNotFound));
  EXPECT_FALSE(parts.writes.any_swap_under_way());
}

// A page of at most ten entries: "key=value key=value ".
std::string Scanned(RangeParts* parts, bool reverse, std::shared_ptr<const Snapshot> snapshot) {
  std::optional<ScanPage> page;
  ScanOp op{"", "", 10, Now() + kSecond};
  op.reverse = reverse;
  op.snapshot = std::move(snapshot);
  parts->scanner.Scan(&parts->executor, op, [&](Outcome o, ScanPage p) {
    EXPECT_EQ(o, Outcome::kOk);
    page = std::move(p);
  });
  parts->executor.RunUntil([&] { return page.has_value(); });
  std::string_view in = page->entries, key, value;
  std::string got;
  while (GetLengthPrefixed(&in, &key) && GetLengthPrefixed(&in, &value))
    got.append(key).append("=").append(value).append(" ");
  return got;
}

TEST(ScannerTest, AScanIsOfMemoryAndOfTablesInOrder) {
  RangeParts parts;
  for (const char* key : {"c", "a"}) ASSERT_EQ(parts.Put(key, "table"), Outcome::kOk);
  ASSERT_TRUE(parts.flusher.FlushAll(Now() + kSecond, false).ok());
  for (const char* key : {"b", "a"}) ASSERT_EQ(parts.Put(key, "memory"), Outcome::kOk);
  EXPECT_EQ(Scanned(&parts, /*reverse=*/false, nullptr), "a=memory b=memory c=table ");
  EXPECT_EQ(Scanned(&parts, /*reverse=*/true, nullptr), "c=table b=memory a=memory ");
}

// The time of each page is up before it begins, so it passes what it looks at between two looks at the clock.
TEST(ScannerTest, AScanWithoutTimeForAllThatIsHiddenGoesOnWhereItWas) {
  constexpr int kHidden = 1000;
  RangeParts parts;
  const auto key = [](int i) { return StrCat(1000 + i); };
  for (const int i : {0, kHidden}) ASSERT_EQ(parts.Put(key(i), "seen"), Outcome::kOk);
  for (int i = 1; i < kHidden; ++i) ASSERT_EQ(parts.Put(key(i), "", ValueType::kDelete), Outcome::kOk);
  for (const bool reverse : {false, true}) {
    const auto snapshot =
        parts.points.snapshots().Enter([&] { return parts.points.sequences().last(); }, kNever);
    ScanOp op{key(0) + '0', key(kHidden), 10, /*deadline_ns=*/1, snapshot, reverse};
    (reverse ? op.from : op.to) = reverse ? "" : "9";  // with the entry that lies behind what is hidden
    int pages = 0;
    std::string entries;
    for (bool more = true; more && pages < kHidden; ++pages) {
      std::optional<ScanPage> page;
      parts.scanner.Scan(&parts.executor, op, [&](Outcome o, ScanPage p) {
        EXPECT_EQ(o, Outcome::kOk);
        page = std::move(p);
      });
      parts.executor.RunUntil([&] { return page.has_value(); });
      more = page->more && page->count == 0;
      entries = page->entries;
    }
    EXPECT_GT(pages, 5) << "the test tests nothing";
    EXPECT_LT(pages, 50) << "each begins anew";
    std::string_view in = entries, found;
    EXPECT_TRUE(GetLengthPrefixed(&in, &found));
    EXPECT_EQ(found, key(reverse ? 0 : kHidden));
  }
}

// --- TableAccess

// Metadata come when the test says so.
class HeldMetadata : public WholeTables {
 public:
  using WholeTables::WholeTables;
  void FetchMetadata(Executor* on, const TableInfo& info, Nanos deadline_ns, ReadDone done) override {
    asked.push_back({on, info, deadline_ns, std::move(done)});
  }
  struct Asked {
    Executor* on;
    TableInfo info;
    Nanos deadline_ns;
    ReadDone done;
    void Fail(const Status& s) { done(s); }
  };
  void Answer(Asked* a) { WholeTables::FetchMetadata(a->on, a->info, a->deadline_ns, std::move(a->done)); }
  std::vector<Asked> asked;
};

TEST(TableAccessTest, AReaderIsLoadedOnceForAllWhoWaitAndEachWaitsForItsOwnTime) {
  RangeParts parts;
  HeldMetadata store(parts.store.get());
  for (const char* key : {"a", "b"}) {
    ASSERT_EQ(parts.Put(key, key), Outcome::kOk);
    ASSERT_TRUE(parts.rounds.SealActive());
    parts.rounds.FlushHeld();
    ASSERT_TRUE(parts.flusher.FlushOne());
  }
  parts.services.store = &store;
  std::vector<TableRef> tables;  // as they are when a range was opened
  for (const auto& run : parts.view().version->runs())
    tables.push_back(std::make_shared<TableHandle>(run.tables[0]->info(), nullptr, [](const TableInfo&) {}));
  ASSERT_EQ(tables.size(), 2u);
  std::vector<std::optional<Status>> answers(4);
  const auto load = [&](size_t i, const TableRef& table, Nanos deadline_ns) {
    parts.tables.LoadReader(&parts.executor, table, deadline_ns, [&answers, i](Status s) { answers[i] = s; });
  };
  const Nanos soon = Now() + 10 * kMillisecond;
  load(0, tables[0], soon);
  load(1, tables[0], Now() + 60 * kSecond);
  load(2, tables[1], Now() + 60 * kSecond);
  ASSERT_EQ(store.asked.size(), 2u) << "one read of each table";
  EXPECT_EQ(store.asked[0].deadline_ns, soon);
  store.Answer(&store.asked[1]);
  parts.executor.RunUntil([&] { return answers[2].has_value(); });
  EXPECT_TRUE(answers[2]->ok()) << "one table does not wait for another";
  EXPECT_NE(tables[1]->reader(), nullptr);
  while (Now() < soon) SleepFor(kMillisecond);
  store.asked[0].Fail(absl::UnavailableError("no copy answers"));
  parts.executor.RunUntil([&] { return answers[0].has_value() && store.asked.size() == 3; });
  EXPECT_TRUE(absl::IsUnavailable(*answers[0]));
  EXPECT_FALSE(answers[1].has_value()) << "its time is not up";
  store.Answer(&store.asked[2]);
  parts.executor.RunUntil([&] { return answers[1].has_value(); });
  EXPECT_TRUE(answers[1]->ok()) << *answers[1];
  load(3, tables[0], soon);
  parts.executor.RunUntil([&] { return answers[3].has_value(); });
  EXPECT_TRUE(answers[3]->ok()) << "it is loaded";
  EXPECT_EQ(store.asked.size(), 3u);
}

TEST(TableAccessTest, WhatNoTimeHelpsEndsEverybodysWait) {
  RangeParts parts;
  HeldMetadata store(parts.store.get());
  parts.services.store = &store;
  const auto table = std::make_shared<TableHandle>(TableInfo(), nullptr, [](const TableInfo&) {});
  std::vector<Status> answers;
  for (const Status& s : {absl::DataLossError("damaged"), absl::UnavailableError("at once")}) {
    for (int i = 0; i < 2; ++i) {
      parts.tables.LoadReader(&parts.executor, table, kNever, [&](Status got) {
        EXPECT_EQ(got, s);
        answers.push_back(got);
      });
    }
    ASSERT_EQ(store.asked.size(), 1u);
    store.asked[0].Fail(s);
    store.asked.clear();
    parts.executor.RunUntil([&] { return answers.size() == 2; });
    answers.clear();
  }
}

TEST(HiddenKeysTest, StretchesThatMeetAreOneAndTheEndIsAStretchsEnd) {
  HiddenKeys hidden;
  EXPECT_EQ(hidden.SkipForward("b"), "b");
  EXPECT_EQ(hidden.SkipBackward("b"), "b");
  hidden.Add("b", "d");
  hidden.Add("f", "h");
  EXPECT_EQ(hidden.SkipForward("a"), "a");
  EXPECT_EQ(hidden.SkipForward("b"), "d");
  EXPECT_EQ(hidden.SkipForward("c"), "d");
  EXPECT_EQ(hidden.SkipForward("d"), "d");
  EXPECT_EQ(hidden.SkipBackward("b"), "b");
  EXPECT_EQ(hidden.SkipBackward("c"), "b");
  EXPECT_EQ(hidden.SkipBackward("d"), "b");
  EXPECT_EQ(hidden.SkipBackward("e"), "e");
  hidden.Add("d", "f");
  EXPECT_EQ(hidden.SkipForward("c"), "h");
  EXPECT_EQ(hidden.SkipBackward("g"), "b");
  EXPECT_EQ(hidden.SkipBackward(""), "") << "nothing is known of the end";
  hidden.Add("g", "");
  EXPECT_EQ(hidden.SkipBackward(""), "b");
  EXPECT_EQ(hidden.SkipBackward("z"), "b");
  EXPECT_EQ(hidden.SkipForward("c"), "c") << "there is no key behind it";
  hidden.Add("", "c");
  EXPECT_EQ(hidden.SkipBackward("z"), "z") << "there is no key before it";
  HiddenKeys many;
  for (int i = 100; i < 200; i += 2) many.Add(StrCat(i), StrCat(i + 1));
  EXPECT_EQ(many.SkipForward("198"), "199");
  EXPECT_EQ(many.SkipForward("100"), "100") << "the first is forgotten";
}

// A round is sealed while a put to it waits for its log, and has nothing in one of its memtables yet. A scan
// at an older snapshot opens nothing there. The next scan, which takes over its iterator, sees the put, which
// was acknowledged since.
TEST(ScannerTest, K4SeesWhatCameToASealedMemtableAfterTheScanBefore) {
  RangeOptions options = RangeParts::SmallRounds();
  options.active_memtables = 2;
  RangeParts parts(options);
  const auto sibling_of = [](const std::string& key) { return std::hash<std::string_view>{}(key) % 2; };
  const std::string first = "a";
  std::string late = "b";
  while (sibling_of(late) == sibling_of(first)) late.push_back('b');

  ASSERT_EQ(parts.Put(first, "1"), Outcome::kOk);
  const auto snapshot =
      parts.points.snapshots().Enter([&] { return parts.points.sequences().last(); }, kNever);
  parts.log_notes.holds = true;
  std::optional<Outcome> outcome;
  const WriteEntry entry{ValueType::kPut, late, "1"};
  parts.writes.Write(&parts.executor, {{&entry, 1}, 0, 0, Now() + kSecond}, [&](Outcome o) { outcome = o; });
  ASSERT_TRUE(parts.rounds.SealActive());
  EXPECT_EQ(Scanned(&parts, /*reverse=*/false, snapshot), first + "=1 ");
  ASSERT_FALSE(outcome.has_value());
  ASSERT_EQ(parts.log_notes.held.size(), 1u);
  std::exchange(parts.log_notes.held, {})[0](Outcome::kOk);
  parts.executor.RunUntil([&] { return outcome.has_value(); });
  ASSERT_EQ(*outcome, Outcome::kOk);
  EXPECT_EQ(Scanned(&parts, /*reverse=*/false, nullptr), first + "=1 " + late + "=1 ");
}

TEST(ReaderTest, R5NoReadIsAnsweredOnceTheRangeIsSilent) {
  RangeParts parts;
  ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
  parts.context.state.Set(ServingState::kReadOnly);
  EXPECT_EQ(parts.Get("a"), "1");
  EXPECT_EQ(parts.Put("a", "2"), Outcome::kNotOwner);
  parts.context.state.Set(ServingState::kSilent);
  EXPECT_EQ(parts.Get("a"), OutcomeName(Outcome::kNotOwner));
}

// Threads count as at work while they look for the range; what takes 20 ms then is no work for a processor.
// A StoC that hangs holds up the audit of each range for seconds, and by the dozen where it hangs for all.
TEST(BackgroundWorkTest, AuditsThatHangHoldUpNoHousekeeping) {
  Notification hangs, kept_house;
  BackgroundWork work({.flush_threads = 0, .compaction_threads = 0, .control_threads = 1},
                      [](RangeId) -> std::shared_ptr<Range> { return nullptr; });
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(work.RunAudit([&] { hangs.Wait(); }));
  ASSERT_TRUE(work.RunControl([&] { kept_house.Notify(); }));
  kept_house.Wait();
  hangs.Notify();
}

TEST(BackgroundWorkTest, AsManyCompactionsWorkAsDisksAllow) {
  Mutex mu;
  int working = 0, most = 0, ended = 0;
  BackgroundWork work({.flush_threads = 0, .compaction_threads = 2, .most_compaction_threads = 8},
                      [&](RangeId) -> std::shared_ptr<Range> {
                        {
                          MutexLock lock(&mu);
                          most = std::max(most, ++working);
                        }
                        SleepFor(20 * kMillisecond);
                        MutexLock lock(&mu);
                        --working;
                        ++ended;
                        return nullptr;
                      });
  const auto keep_busy_until = [&](int at_once, int ends) {
    const Nanos until = Now() + 20 * kSecond;
    for (;; SleepFor(5 * kMillisecond)) {
      for (uint32_t id = 1; id <= 20; ++id) work.Due(RangeId(id));
      MutexLock lock(&mu);
      if ((most >= at_once && ended >= ends) || Now() >= until) return most;
    }
  };
  EXPECT_EQ(keep_busy_until(2, 100), 2) << "one disk";
  work.SetDisks(4);
  EXPECT_EQ(keep_busy_until(8, 200), 8);
}

}  // namespace
}  // namespace nova
