// Memtables partitioned by Drange: which siblings take a key for the writes that were seen, and rounds whose
// siblings share the versions of a hot key (siblings by Drange, K3d).
#include "ltc/engine/memtable_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/zipfian.h"
#include "tests/ltc/range_parts.h"

namespace nova {
namespace {

std::string Key(uint64_t i) { return absl::StrFormat("key%06d", i); }

WriteHistogram Seen(const std::map<std::string, double>& loads) {
  WriteHistogram seen(2048);
  for (const auto& [key, load] : loads) seen.Add(key, load);
  return seen;
}

// One write of each of 1,000 keys, and `more` of a key in the middle.
std::map<std::string, double> HotSpot(double more) {
  std::map<std::string, double> loads;
  for (uint64_t i = 0; i < 1000; ++i) loads[Key(i)] = 1;
  loads[Key(500)] += more;
  return loads;
}

RangeOptions ByDrange(int siblings) {
  RangeOptions o = RangeParts::SmallRounds();
  o.active_memtables = siblings;
  o.memtable_partitioning = MemtablePartitioning::kDrange;
  o.max_rounds = 8;
  return o;
}

TEST(MemtablePartitionTest, SiblingsGetEqualPartsOfTheWrites) {
  const WriteHistogram seen = Seen(HotSpot(0));
  const MemtablePartitionRef p = PartitionFor(nullptr, seen, 10);
  EXPECT_EQ(p->dranges(), 10u);
  EXPECT_EQ(p->siblings(), 10u);
  EXPECT_LT(p->ImbalanceOf(seen), 0.002);
  EXPECT_EQ(p->Of(Key(0)).first, 0u);
  EXPECT_EQ(p->Of(Key(999)).first, 9u);
  EXPECT_EQ(PartitionFor(p, seen, 10), p) << "nothing asks for another one";
}

TEST(MemtablePartitionTest, NothingSeenIsNoPartition) {
  EXPECT_EQ(PartitionFor(nullptr, WriteHistogram(16), 4), nullptr);
}

TEST(MemtablePartitionTest, AHotKeyHasASiblingForEachEqualPartOfTheWritesUntilItCools) {
  const WriteHistogram hot = Seen(HotSpot(500));  // a third, of ten siblings
  const MemtablePartitionRef p = PartitionFor(nullptr, hot, 10);
  EXPECT_EQ(p->Of(Key(500)).count, 3u);
  EXPECT_EQ(p->Of(Key(499)).count, 1u);
  EXPECT_EQ(p->Of(Key(501)).count, 1u);
  EXPECT_LE(p->siblings(), 10u);
  EXPECT_LT(p->ImbalanceOf(hot), 0.03);
  const WriteHistogram cool = Seen(HotSpot(0));
  const MemtablePartitionRef q = PartitionFor(p, cool, 10);
  EXPECT_NE(q, p);
  EXPECT_EQ(q->Of(Key(500)).count, 1u);
}

TEST(MemtablePartitionTest, AKeyOfAllWritesSharesAsManySiblingsAsAGetMayAsk) {
  const MemtablePartitionRef few = PartitionFor(nullptr, Seen({{Key(1), 1000}}), 4);
  EXPECT_EQ(few->Of(Key(1)).count, 4u);
  const MemtablePartitionRef many = PartitionFor(nullptr, Seen({{Key(1), 1000}}), 64);
  EXPECT_EQ(many->Of(Key(1)).count, MemtablePartition::kMostCopies);
}

TEST(MemtablePartitionTest, HotKeysAreApartWhereOthersHaveNextToNothing) {
  const WriteHistogram seen =
      Seen({{"k1", 1e-30}, {"k2", 1}, {"k3", 1e-30}, {"k4", 1}, {"k5", 1e-30}, {"k6", 1}, {"k7", 1e-30}});
  const MemtablePartitionRef p = PartitionFor(nullptr, seen, 4);
  EXPECT_EQ(p->siblings(), 4u);
  EXPECT_LT(p->Of("k2").first, p->Of("k4").first);
  EXPECT_LT(p->Of("k4").first, p->Of("k6").first);
}

// It was one of a wide bucket.
TEST(MemtablePartitionTest, K3dAKeyThatBecomesHotHasSeveralSiblings) {
  const auto pass = [](double more) {
    WriteHistogram h(32 * 10);
    for (const auto& [key, load] : HotSpot(more)) h.Add(key, load);
    return h;
  };
  WriteHistogram seen(32 * 10);
  seen.Merge(pass(0), 0.5);
  MemtablePartitionRef p = PartitionFor(nullptr, seen, 10);
  for (int i = 0; i < 20; ++i) {
    seen.Merge(pass(1000), 0.5);
    p = PartitionFor(p, seen, 10);
  }
  EXPECT_EQ(p->Of(Key(500)).count, 5u);
}

// Loads of other keys fall by half with each walk.
TEST(MemtablePartitionTest, WritesOfOneKeyAloneAfterOthersHaveAllSiblings) {
  WrittenLoad written(ByDrange(2));
  const auto walk = [&](uint64_t from, uint64_t to, uint64_t versions) {
    const auto counter = written.NewCounter({});
    SequenceNumber number = 1'000'000;
    for (uint64_t i = from; i < to; ++i) {
      for (uint64_t n = 0; n < versions; ++n) counter->Add({Key(i), --number, ValueType::kPut});
    }
    written.Add(counter.get());
  };
  walk(0, 1000, 1);
  for (int i = 0; i < 1200; ++i) {  // to nothing, even of a double
    walk(500, 501, 1000);
    ASSERT_LE(written.PartitionOf(2)->siblings(), 2u);
  }
  EXPECT_EQ(written.PartitionOf(2)->Of(Key(500)).count, 2u);
}

TEST(MemtablePartitionTest, WritesOfAHotKeyGoToItsSiblingsEquallyAlsoWhereBatchesAreOfEqualSize) {
  const MemtablePartition::Siblings four{.first = 3, .count = 4};
  for (const uint64_t step : {1, 2, 4, 64}) {
    std::map<uint32_t, int> taken;
    for (uint64_t i = 0; i < 4000; ++i) ++taken[four.Pick(1 + i * step)];
    ASSERT_EQ(taken.size(), 4u) << step;
    EXPECT_EQ(taken.begin()->first, 3u);
    for (const auto& [sibling, n] : taken) EXPECT_NEAR(n, 1000, 100) << "sibling " << sibling << ", " << step;
  }
}

// Whatever was seen, and however it changes.
TEST(MemtablePartitionTest, NeverTakesMoreSiblingsThanThereAre) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const auto siblings = static_cast<uint32_t>(2 + random.Uniform(63));
    MemtablePartitionRef p;
    for (int pass = 0; pass < 4; ++pass) {
      std::map<std::string, double> loads;
      for (uint64_t n = 1 + random.Uniform(300); n > 0; --n)
        loads[Key(random.Uniform(1000))] =
            static_cast<double>(1 + random.Uniform(1ull << random.Uniform(16)));
      p = PartitionFor(p, Seen(loads), siblings);
      ASSERT_LE(p->siblings(), siblings);
      for (size_t d = 0; d < p->dranges(); ++d) {
        ASSERT_GE(p->OfDrange(d).count, 1u);
        ASSERT_LE(p->OfDrange(d).count, siblings);
      }
    }
  }
}

// --- rounds of a range

// The siblings of a round that hold the key.
int Holders(const Round& round, std::string_view key) {
  MemTable::Hit hit;
  return static_cast<int>(std::count_if(round.siblings.begin(), round.siblings.end(), [&](const auto& m) {
    return m->Get(key, kMaxSequenceNumber, &hit);
  }));
}

// A range of whose writes half were of Key(5): the active round has a partition for that.
void HeatUp(RangeParts* parts) {
  for (uint64_t i = 0; i < 200; ++i)
    ASSERT_EQ(parts->Put(Key(i % 2 == 0 ? 5 : i % 20), StrCat("old", i)), Outcome::kOk);
  ASSERT_TRUE(parts->rounds.SealActive());
  ASSERT_TRUE(parts->flusher.FlushOne());
  ASSERT_EQ(parts->view().active->partition, nullptr) << "it was opened before the flush";
  ASSERT_EQ(parts->Put("last", "of the round"), Outcome::kOk);
  ASSERT_TRUE(parts->rounds.SealActive());
  ASSERT_NE(parts->view().active->partition, nullptr);
  ASSERT_EQ(parts->view().active->partition->Of(Key(5)).count, 2u);
}

// Forward or backward, "key=value" for each entry.
std::vector<std::string> Scan(RangeParts* parts, bool reverse, std::shared_ptr<const Snapshot> at = nullptr) {
  std::vector<std::string> all;
  ScanOp op;
  op.limit = 1000;
  op.reverse = reverse;
  op.snapshot = std::move(at);
  bool done = false;
  parts->scanner.Scan(&parts->executor, std::move(op), [&](Outcome o, ScanPage page) {
    EXPECT_EQ(o, Outcome::kOk);
    std::string_view entries = page.entries, key, value;
    while (GetLengthPrefixed(&entries, &key) && GetLengthPrefixed(&entries, &value))
      all.push_back(StrCat(std::string(key), "=", std::string(value)));
    done = true;
  });
  parts->executor.RunUntil([&] { return done; });
  return all;
}

TEST(SiblingsByDrangeTest, APartitionIsOfRoundsThatOpenLater) {
  RangeParts parts(ByDrange(4));
  HeatUp(&parts);
  const MemtablePartitionRef p = parts.view().active->partition;
  ASSERT_EQ(parts.Put(Key(5), "new"), Outcome::kOk);
  ASSERT_TRUE(parts.flusher.FlushOne());  // the round before: other writes
  EXPECT_EQ(parts.view().active->partition, p);
  EXPECT_EQ(parts.Get(Key(5)), "new");
  EXPECT_EQ(parts.Get(Key(7)), "old187");
}

TEST(SiblingsByDrangeTest, OneSiblingOrAHashCountsNothing) {
  for (RangeOptions o : {ByDrange(1), ByDrange(4)}) {
    if (o.active_memtables > 1) o.memtable_partitioning = MemtablePartitioning::kHash;
    RangeParts parts(o);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(parts.Put("a", "1"), Outcome::kOk);
      ASSERT_TRUE(parts.rounds.SealActive());
      ASSERT_TRUE(parts.flusher.FlushOne());
    }
    EXPECT_EQ(parts.view().active->partition, nullptr);
  }
}

TEST(SiblingsByDrangeTest, K3dTheNewestOfAllSiblingsIsFoundByGetsScansAndSnapshots) {
  RangeParts parts(ByDrange(4));
  HeatUp(&parts);
  std::vector<std::shared_ptr<const Snapshot>> snapshots;
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(parts.Put(Key(5), StrCat("v", i)), Outcome::kOk);
    EXPECT_EQ(parts.Get(Key(5)), StrCat("v", i));
    snapshots.push_back(
        parts.points.snapshots().Enter([&] { return parts.points.sequences().last(); }, kNever));
  }
  EXPECT_EQ(Holders(*parts.view().active, Key(5)), 2) << "else this says nothing";
  const std::string newest = StrCat(Key(5), "=v29");
  for (const char* where : {"active", "sealed", "merged", "flushed"}) {
    for (const bool reverse : {false, true}) {
      const auto all = Scan(&parts, reverse);
      EXPECT_EQ(all.size(), 11u) << where;  // ten odd ones, and "last"
      EXPECT_EQ(std::count(all.begin(), all.end(), newest), 1) << where << ", reverse " << reverse;
      for (size_t i = 0; i < snapshots.size(); ++i) {
        const auto then = Scan(&parts, reverse, snapshots[i]);
        EXPECT_EQ(std::count(then.begin(), then.end(), StrCat(Key(5), "=v", i)), 1) << where;
        EXPECT_EQ(then.size(), all.size());
      }
    }
    EXPECT_EQ(parts.Get(Key(5)), "v29") << where;
    for (size_t i = 0; i < snapshots.size(); ++i) {
      std::string found;
      parts.reader.GetAt(&parts.executor, *snapshots[i], Key(5), Now() + kSecond,
                         [&](Outcome o, std::string_view value) {
                           EXPECT_EQ(o, Outcome::kOk);
                           found = std::string(value);
                         });
      EXPECT_EQ(found, StrCat("v", i)) << where;
    }
    if (std::string_view(where) == "active") {
      ASSERT_TRUE(parts.rounds.SealActive());
    } else if (std::string_view(where) == "sealed") {
      parts.merger.MergeOne();
    } else {
      while (parts.flusher.FlushOne()) {
      }
    }
  }
  EXPECT_TRUE(parts.view().sealed.empty());
}

// Logs answer in any order: the newest version may be linked first.
TEST(SiblingsByDrangeTest, K3dVersionsThatAreLinkedInAnyOrder) {
  RangeParts parts(ByDrange(4));
  HeatUp(&parts);
  parts.log_notes.holds = true;
  int answered = 0;
  std::vector<std::string> values;
  for (int i = 0; i < 20; ++i) values.push_back(StrCat("v", i));
  for (const std::string& value : values) {
    const std::string key = Key(5);
    const WriteEntry entry{ValueType::kPut, key, value};
    parts.writes.Write(&parts.executor, {{&entry, 1}, 0, 0, Now() + kSecond}, [&](Outcome o) {
      EXPECT_EQ(o, Outcome::kOk);
      ++answered;
    });
  }
  ASSERT_EQ(parts.log_notes.held.size(), values.size());
  Random random(3);
  int newest = -1;
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.Uniform(i + 1)]);
  for (const size_t i : order) {
    parts.log_notes.held[i](Outcome::kOk);
    newest = std::max(newest, static_cast<int>(i));
    EXPECT_EQ(parts.Get(Key(5)), values[static_cast<size_t>(newest)]);
  }
  EXPECT_EQ(answered, 20);
}

// The youngest is linked first, so that no get sees what the batch itself hides: that takes one memtable.
TEST(SiblingsByDrangeTest, K6VersionsOfOneKeyInABatchShareASibling) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    RangeParts parts(ByDrange(4));
    HeatUp(&parts);
    for (int i = 0; i < attempt; ++i) ASSERT_EQ(parts.Put("z", "shifts the numbers"), Outcome::kOk);
    const std::string key = Key(5);
    std::vector<WriteEntry> entries;
    for (const char* value : {"1", "2", "3", "4", "5", "6"}) entries.push_back({ValueType::kPut, key, value});
    Outcome outcome = Outcome::kUnknown;
    parts.writes.Write(&parts.executor, {entries, 0, 0, Now() + kSecond}, [&](Outcome o) { outcome = o; });
    ASSERT_EQ(outcome, Outcome::kOk);
    EXPECT_EQ(Holders(*parts.view().active, key), 1);
    EXPECT_EQ(parts.Get(key), "6");
  }
}

TEST(SiblingsByDrangeTest, AFlushLeavesOutWhatAnySiblingOfAYoungerRoundReplaces) {
  std::set<uint32_t> siblings;
  for (int i = 0; siblings.size() < 2; ++i) {  // the only younger version, once in either sibling
    RangeParts parts(ByDrange(4));
    HeatUp(&parts);
    const std::string key = Key(5);
    ASSERT_EQ(parts.Put(key, "older"), Outcome::kOk);
    const SequenceNumber older = parts.points.sequences().last();
    const RoundGroup rounds = {parts.view().active};
    ASSERT_TRUE(parts.rounds.SealActive());
    for (int n = 0; n < i; ++n) ASSERT_EQ(parts.Put("z", "shifts the numbers"), Outcome::kOk);
    ASSERT_EQ(parts.Put(key, "newer"), Outcome::kOk);
    siblings.insert(parts.view().active->partition->Of(key).Pick(parts.points.sequences().last()));
    OverwriteProbe probe;
    parts.rounds.LookForYounger(rounds, &probe);
    EXPECT_TRUE(probe.Replaces({key, older, ValueType::kPut}));
  }
}

TEST(SiblingsByDrangeTest, ACompareAndSwapComparesWithTheNewestOfAllSiblings) {
  RangeParts parts(ByDrange(4));
  HeatUp(&parts);
  ASSERT_EQ(parts.Put(Key(5), "0"), Outcome::kOk);
  for (int i = 0; i < 20; ++i) {
    std::optional<Outcome> outcome;
    CompareAndSwapOp op;
    op.key = Key(5);
    op.expected = StrCat(i);
    op.desired = StrCat(i + 1);
    op.deadline_ns = Now() + 10 * kSecond;
    parts.writes.CompareAndSwap(&parts.executor, std::move(op), [&](Outcome o) { outcome = o; });
    parts.executor.RunUntil([&] { return outcome.has_value(); });
    ASSERT_EQ(*outcome, Outcome::kOk) << i;
  }
  EXPECT_EQ(parts.Get(Key(5)), "20");
  EXPECT_EQ(Holders(*parts.view().active, Key(5)), 2) << "else this says nothing";
}

// alpha changes while the range is open: each round has the number, and a partition for it, that it was
// opened with.
TEST(SiblingsByDrangeTest, K3dTheNumberOfSiblingsChangesFromRoundToRound) {
  for (const MemtablePartitioning by : {MemtablePartitioning::kDrange, MemtablePartitioning::kHash}) {
    RangeOptions options = ByDrange(4);
    options.memtable_partitioning = by;
    RangeParts parts(options);
    Random random(7);
    std::map<std::string, std::string> model;
    std::set<size_t> partitions;
    for (int round = 0; round < 60; ++round) {
      const size_t next = std::array{1, 2, 3, 8, 64}[random.Uniform(5)];
      parts.context.active_memtables = static_cast<int>(next);
      parts.written.SetSiblings(static_cast<int>(next));
      for (int i = 0; i < 40; ++i) {
        const std::string key = Key(random.OneIn(2) ? 5 : static_cast<int>(random.Uniform(20)));
        ASSERT_EQ(parts.Put(key, StrCat(round, ".", i)), Outcome::kOk);
        model[key] = StrCat(round, ".", i);
      }
      ASSERT_TRUE(parts.rounds.SealActive());
      const Round& opened = *parts.view().active;
      ASSERT_EQ(opened.siblings.size(), next);
      if (opened.partition != nullptr) {
        ASSERT_LE(opened.partition->siblings(), next);
        partitions.insert(next);
      }
      if (random.OneIn(3)) parts.merger.MergeOne();
      while (parts.view().sealed.size() > 2) ASSERT_TRUE(parts.flusher.FlushOne());
      for (const auto& [key, value] : model) ASSERT_EQ(parts.Get(key), value) << round;
      std::vector<std::string> all;
      for (const auto& [key, value] : model) all.push_back(StrCat(key, "=", value));
      ASSERT_EQ(Scan(&parts, /*reverse=*/false), all) << round;
    }
    EXPECT_EQ(partitions,
              by == MemtablePartitioning::kDrange ? (std::set<size_t>{2, 3, 8, 64}) : std::set<size_t>());
  }
}

// What a merge has counted its flush does not count again.
TEST(SiblingsByDrangeTest, VersionsAreCountedOnceThoughTheirRoundsAreMergedFirst) {
  const auto counted = [](bool merge) {
    RangeParts parts(ByDrange(4));
    double load = 0;
    RoundGroup rounds;
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(parts.Put(Key(1), "v"), Outcome::kOk);
      EXPECT_TRUE(parts.rounds.SealActive());
    }
    if (merge) {
      EXPECT_TRUE(parts.merger.MergeOne());
      EXPECT_EQ(parts.view().sealed.size(), 1u);
      EXPECT_NE(parts.written.PartitionOf(4), nullptr);
    }
    const RoundGroup left(parts.view().sealed.rbegin(), parts.view().sealed.rend());
    const auto counter = parts.written.NewCounter(left);
    for (SequenceNumber s = 100; s > 0; --s) counter->Add({Key(1), s, ValueType::kPut});
    load = counter->Finish().load();
    return load;
  };
  EXPECT_EQ(counted(false), 100);
  EXPECT_EQ(counted(true), 0);
}

}  // namespace
}  // namespace nova
