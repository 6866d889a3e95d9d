// Decisions of the engine as text in, text out: compaction picking, placement, write control. testdata/*.txt,
// --rewrite updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ltc/engine/compaction_limit.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/disk_turns.h"
#include "ltc/engine/write_controller.h"
#include "ltc/server/placement.h"
#include "tests/ltc/data_driven.h"

namespace nova {
namespace {

// Lines "L0:<order> name[from-to]=bytes ..." and "L<n> ..." make a version; "busy name ..." and options
// follow. "cuts c f" cuts Level0 into Dranges. A table (from-to) reaches further on both sides, and only
// [from, to) of it is used (M4).
std::string PickFromText(const std::vector<std::string>& lines) {
  VersionEdit edit;
  CompactionOptions options;
  options.level1_bytes = 100;
  options.table_size_bytes = 10;
  CompactionState state;
  std::map<Uuid, std::string> names;
  std::map<std::string, Uuid> uuids;
  int picks = 1;
  Level0Demand demand;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "busy") {
      for (size_t i = 1; i < words.size(); ++i) state.busy.insert(uuids.at(words[i]));
    } else if (words[0] == "cuts") {
      edit.dranges = DrangeMap({words.begin() + 1, words.end()}, 1).Encode();
    } else if (words[0] == "trigger") {
      options.level0_runs_trigger = std::stoi(words[1]);
    } else if (words[0] == "level0_max") {
      options.level0_max_bytes = std::stoull(words[1]);
    } else if (words[0] == "level0_share") {
      options.level0_share = std::stod(words[1]);
    } else if (words[0] == "paid") {
      demand.paid_bytes = std::stoull(words[1]);
    } else if (words[0] == "idle") {
      demand.idle = true;
    } else if (words[0] == "picks") {
      picks = std::stoi(words[1]);
    } else {
      const std::vector<std::string> head = absl::StrSplit(words[0].substr(1), ':');
      for (size_t i = 1; i < words.size(); ++i) {
        const size_t open = words[i].find_first_of("[("), dash = words[i].find('-'),
                     close = words[i].find_first_of("])");
        const std::string from = words[i].substr(open + 1, dash - open - 1),
                          to = words[i].substr(dash + 1, close - dash - 1);
        const bool bounds = words[i][open] == '(';
        TableInfo t;
        t.uuid = {uuids.size() + 1, 0};
        AppendInternalKey(&t.smallest, bounds ? "A" : from, 9, ValueType::kPut);
        AppendInternalKey(&t.largest, bounds ? "zz" : to, 1, ValueType::kPut);
        t.data_size = std::stoull(words[i].substr(close + 2));
        if (bounds) {
          t.use_from = from;
          t.use_to = to;
          SetUsedBytes(t.data_size, &t);
          t.data_size *= 10;
        }
        const std::string name = words[i].substr(0, open);
        names[t.uuid] = name;
        uuids[name] = t.uuid;
        edit.adds.push_back({std::stoi(head[0]), head.size() > 1 ? std::stoull(head[1]) : 0, t, nullptr});
      }
    }
  }
  const auto version = Version().Apply(edit, {});
  if (!version.ok()) return StrCat("error: ", version.status().message(), "\n");
  const auto list = [&](const std::vector<TableRef>& tables) {
    std::vector<std::string> out;
    for (const TableRef& t : tables) out.push_back(names[t->info().uuid]);
    return absl::StrJoin(out, " ");
  };
  std::string out;
  for (int i = 0; i < picks; ++i) {
    const auto plan = PickCompaction(**version, options, demand, &state);
    if (!plan) {
      out += "nothing\n";
      continue;
    }
    out += StrCat("L", plan->level, " {", list(plan->inputs), "} + L", plan->output_level,
                  plan->output_level == 0 ? StrCat(":", plan->output_order) : "", " {", list(plan->overlaps),
                  "}", plan->trivial_move ? " move" : "", plan->bottom ? " bottom" : "",
                  plan->paid_for ? " paid for" : "", "\n");
  }
  return out;
}

TEST(DecisionsTest, CompactionPicker) { RunFile("compaction_picker.txt", PickFromText); }

std::vector<StocChoice> Stocs(const std::vector<uint32_t>& queues, bool one_host = true) {
  std::vector<StocChoice> stocs;
  for (size_t i = 0; i < queues.size(); ++i) {
    const StocLoad load{0, queues[i], queues[i], 0};
    stocs.push_back({StocId(static_cast<uint32_t>(i + 1)), one_host ? "h" : StrCat("h", i), load});
  }
  return stocs;
}

TEST(PlacementTest, CopiesOfAFragmentAreOnDistinctStocs) {
  Random random(1);
  PlacementOptions options{3, false, 2, 2, 100};
  for (int i = 0; i < 200; ++i) {
    const Placement p = PlaceTable(Stocs({0, 3, 1, 0, 7}), 100'000, options, &random);
    ASSERT_EQ(p.fragments.size(), 3u);
    std::set<StocId> firsts;
    for (const auto& copies : p.fragments) {
      ASSERT_EQ(copies.size(), 2u);
      ASSERT_NE(copies[0], copies[1]);
      firsts.insert(copies[0]);
    }
    ASSERT_EQ(firsts.size(), 3u);
    ASSERT_EQ(p.metadata.size(), 2u);
  }
}

TEST(PlacementTest, PowerOfTwoAvoidsTheBusyStoc) {
  Random random(2);
  int busy = 0;
  for (int i = 0; i < 1000; ++i) busy += PickStocs(Stocs({0, 0, 100}), 1, 1, 2, &random)[0] == StocId(3);
  EXPECT_EQ(busy, 0) << "one of the two looked at is always idle";
  for (int i = 0; i < 1000; ++i) busy += PickStocs(Stocs({0, 0, 100}), 1, 1, 1, &random)[0] == StocId(3);
  EXPECT_NEAR(busy, 333, 80) << "random placement takes it a third of the time";
}

// Three hosts with three StoCs each: whatever is drawn, a copy comes to a host that has none.
TEST(PlacementTest, ACopyGoesToAHostThatHasNone) {
  Random random(5);
  std::vector<StocChoice> stocs = Stocs({0, 0, 0, 0, 0, 0, 0, 0, 0});
  for (size_t i = 0; i < stocs.size(); ++i) stocs[i].host = StrCat("host-", i / 3);
  const auto host_of = [&](StocId id) { return stocs[id.value() - 1].host; };
  for (int choices = 1; choices <= 2; ++choices) {
    for (int i = 0; i < 300; ++i) {
      std::set<std::string> hosts;
      for (const StocId id : PickStocs(stocs, 3, 1, choices, &random)) hosts.insert(host_of(id));
      EXPECT_EQ(hosts.size(), 3u);
      const std::vector<StocId> one = PickStocs(stocs, 1, 1, choices, &random, {"host-0", "host-1"});
      ASSERT_EQ(one.size(), 1u);
      EXPECT_EQ(host_of(one[0]), "host-2");
      EXPECT_EQ(PickStocs(stocs, 1, 1, choices, &random, {"host-0", "host-1", "host-2"}).size(), 1u)
          << "a second copy on a host is better than none";
    }
  }
}

TEST(PlacementTest, WhatIsOnItsWayCountsAtOnceAndAnOldDepthSaysNothing) {
  std::vector<StocChoice> stocs = Stocs({0, 8, 1, 3});
  EXPECT_EQ(Backlogs(stocs, 100), (std::vector<double>{0, 800, 100, 300}));
  stocs[0].load.bytes_in_flight = 5000;
  EXPECT_EQ(Backlogs(stocs, 100), (std::vector<double>{5000, 800, 100, 300}));
  for (StocChoice& s : stocs) s.load.age_ns = kDepthHalfLife;
  EXPECT_EQ(Backlogs(stocs, 100), (std::vector<double>{5150, 550, 200, 300})) << "half way to the mean, 3";
  for (StocChoice& s : stocs) s.load.age_ns = 100 * kDepthHalfLife;
  EXPECT_NEAR(Backlogs(stocs, 100)[1], 300, 0.1);
  // Of 30 tables that are placed before any of them is written each StoC gets about as many.
  Random random(7);
  const PlacementOptions options{1, false, 2, 1, 1000};
  std::map<StocId, int> tables;
  for (const Placement& p : PlaceTables(Stocs({0, 0, 0}), 4000, 30, options, &random))
    ++tables[p.fragments.at(0).at(0)];
  ASSERT_EQ(tables.size(), 3u);
  for (const auto& [stoc, count] : tables) EXPECT_NEAR(count, 10, 1) << stoc.value();
  EXPECT_TRUE(PlaceTables({}, 4000, 30, options, &random).empty());
}

TEST(PlacementTest, SlownessIsBesideTheMedianAndIsForgotten) {
  std::vector<StocChoice> stocs = Stocs({0, 0, 0, 0, 0});
  EXPECT_EQ(Slowness(stocs), std::vector<double>(5, 1)) << "nothing is known";
  const double paces[] = {10, 12, 10, 40, 0};
  for (size_t i = 0; i < 5; ++i) stocs[i].load.pace.ns_per_byte = paces[i];
  EXPECT_EQ(Slowness(stocs), (std::vector<double>{1, 1, 1, 4, 1})) << "a fifth may be chance";
  stocs[3].load.pace.age_ns = kPaceHalfLife;
  EXPECT_EQ(Slowness(stocs)[3], 2);
  stocs[3].load.pace.age_ns = 100 * kPaceHalfLife;
  EXPECT_NEAR(Slowness(stocs)[3], 1, 1e-9);
  stocs[3].load.pace = {2.5, 0};
  EXPECT_EQ(Slowness(stocs)[3], 0.25) << "four times as fast as the others";
}

// Ten StoCs whose disks store a byte a tick, but the first, which stores a quarter of one. Two flushes are
// under way, of ten tables each; one whose tables are all stored is followed by another. Returns how much of
// what all disks can do they do.
double UseOfDisks(bool paces_known) {
  constexpr uint64_t kBytes = 400;
  constexpr size_t kFlushes = 2;
  constexpr int kTables = 10, kTicks = 200'000;
  constexpr double kRates = 9.25;  // of all
  Random random(9);
  const PlacementOptions options{1, true, 2, 1, kBytes / 2};
  std::vector<StocChoice> stocs = Stocs(std::vector<uint32_t>(10, 0));
  for (StocChoice& s : stocs) s.load.pace.ns_per_byte = !paces_known ? 0 : s.id == StocId(1) ? 4 : 1;
  std::vector<std::deque<size_t>> queues(10);  // of each StoC the flushes whose tables wait there
  std::vector<double> done(10, 0);             // of its first table
  std::vector<int> left(kFlushes, 0);          // tables of each flush
  int stored = 0;
  for (int tick = 0; tick < kTicks; ++tick) {
    for (size_t flush = 0; flush < kFlushes; ++flush) {
      if (left[flush] > 0) continue;
      for (left[flush] = 0; left[flush] < kTables; ++left[flush]) {
        const size_t at = PlaceTable(stocs, kBytes, options, &random).fragments.at(0).at(0).value() - 1;
        stocs[at].load.bytes_in_flight += kBytes;
        queues[at].push_back(flush);
      }
    }
    for (size_t i = 0; i < queues.size(); ++i) {
      if (queues[i].empty()) continue;
      done[i] += i == 0 ? 0.25 : 1;
      if (done[i] < kBytes) continue;
      done[i] = 0;
      stocs[i].load.bytes_in_flight -= kBytes;
      --left[queues[i].front()];
      queues[i].pop_front();
      ++stored;
    }
  }
  return stored * static_cast<double>(kBytes) / (kRates * kTicks);
}

TEST(PlacementTest, NoFlushWaitsForASlowStoc) {
  const double unknown = UseOfDisks(/*paces_known=*/false), known = UseOfDisks(/*paces_known=*/true);
  EXPECT_LT(unknown, 0.6) << "the slow one holds up no flush: the test tests nothing";
  EXPECT_GT(known, 1.3 * unknown);
}

TEST(PlacementTest, ATableIsScatteredOverAsManyStocsAsHaveItStoredFirst) {
  Random random(8);
  PlacementOptions options{10, true, 2, 1, 1000};
  const auto width_of = [&](const std::vector<uint32_t>& queues) {
    return PlaceTable(Stocs(queues), 100'000, options, &random).fragments.size();
  };
  EXPECT_EQ(width_of({0, 0, 0, 0}), 4u);
  EXPECT_EQ(width_of({0, 5, 0, 5}), 4u) << "a short queue is worth a quarter of the table";
  EXPECT_EQ(width_of({0, 60, 0, 60}), 2u) << "a long one is not";
  EXPECT_EQ(width_of({0, 60, 60, 60}), 4u) << "a quarter behind 60 is there before all of 100";
  EXPECT_EQ(width_of({0, 900, 900, 900}), 1u) << "at least one";
  EXPECT_EQ(width_of({900, 900, 900, 900}), 4u) << "all have as much to do";
  std::vector<StocChoice> one_slow = Stocs({0, 0, 0, 0});
  for (StocChoice& s : one_slow) s.load.pace.ns_per_byte = s.id == StocId(2) ? 3 : 1;
  EXPECT_EQ(PlaceTable(one_slow, 100'000, options, &random).fragments.size(), 3u);
  options.scatter_by_load = false;
  EXPECT_EQ(width_of({0, 900, 0, 900}), 4u);
}

TEST(PlacementTest, SmallTablesUseFewerFragmentsAndOtherHostsComeFirst) {
  Random random(3);
  PlacementOptions options{10, false, 2, 1, 1000};
  EXPECT_EQ(PlaceTable(Stocs({0, 0, 0, 0}), 2500, options, &random).fragments.size(), 2u);
  EXPECT_EQ(PlaceTable(Stocs({0, 0, 0, 0}), 1, options, &random).fragments.size(), 1u);
  EXPECT_TRUE(PlaceTable({}, 1, options, &random).fragments.empty());
  std::vector<StocChoice> two_hosts = Stocs({0, 0, 0, 0});
  two_hosts[3].host = "other";
  options = {1, false, 2, 2, 1000};
  for (int i = 0; i < 50; ++i) {
    const auto copies = PlaceTable(two_hosts, 5000, options, &random).fragments[0];
    EXPECT_TRUE((copies[0] == StocId(4)) != (copies[1] == StocId(4))) << "one copy on each host";
  }
}

TEST(PlacementTest, FirstCopiesLieOnTheHostThatIsNamedAsLongAsItTakesTables) {
  Random random(5);
  std::vector<StocChoice> stocs = Stocs({9, 9, 0, 0, 0}, /*one_host=*/false);
  stocs[1].host = stocs[0].host = "near";
  PlacementOptions options{3, false, 2, 2, 1000, "near"};
  for (int i = 0; i < 50; ++i) {
    const Placement placed = PlaceTable(stocs, 9000, options, &random);
    EXPECT_EQ(placed.fragments.size(), 2u) << "one on each StoC of the host";
    for (const auto& copies : placed.fragments) {
      EXPECT_LE(copies.at(0), StocId(2));
      EXPECT_GT(copies.at(1), StocId(2)) << "the second copy elsewhere";
    }
    EXPECT_LE(placed.metadata.at(0), StocId(2));
    EXPECT_GT(placed.metadata.at(1), StocId(2));
  }
  options.replicas = 1;
  stocs[0].disk = stocs[1].disk = DiskState::kFailing;
  EXPECT_GT(PlaceTable(stocs, 1, options, &random).fragments.at(0).at(0), StocId(2)) << "its disks are ill";
  stocs.erase(stocs.begin(), stocs.begin() + 2);
  EXPECT_EQ(PlaceTable(stocs, 9000, options, &random).fragments.size(), 3u) << "no StoC of it lives";
}

TEST(PlacementTest, AnIllDiskIsTakenOnlyWhereOthersAreTooFew) {
  Random random(4);
  std::vector<StocChoice> stocs = Stocs({90, 90, 0, 0, 0});
  stocs[2].disk = DiskState::kSlow;
  stocs[3].disk = DiskState::kFailing;
  stocs[4].disk = DiskState::kFull;
  const PlacementOptions options{10, false, 2, 2, 1000};
  std::set<StocId> taken;
  for (int i = 0; i < 50; ++i) {
    const Placement placed = PlaceTable(stocs, 9000, options, &random);
    EXPECT_EQ(placed.fragments.size(), 2u) << "as many as there are good disks";
    for (const auto& copies : placed.fragments) taken.insert(copies.begin(), copies.end());
    taken.insert(placed.metadata.begin(), placed.metadata.end());
  }
  EXPECT_EQ(taken, (std::set{StocId(1), StocId(2)}));
  // The next worse ones, and no worse than needed.
  for (int i = 0; i < 50; ++i) {
    std::vector<StocId> picked = PickStocs(stocs, 4, 1, 2, &random);
    std::sort(picked.begin(), picked.end());
    EXPECT_EQ(picked, (std::vector{StocId(1), StocId(2), StocId(3), StocId(5)}));
  }
  EXPECT_EQ(PickStocs(stocs, 9, 1, 2, &random).size(), 5u);
  // Several are as bad: the best of all is among those that are picked.
  for (StocChoice& s : stocs) s.disk = s.id == StocId(3) ? DiskState::kOk : DiskState::kSlow;
  for (int i = 0; i < 50; ++i) {
    const std::vector<StocId> picked = PickStocs(stocs, 2, 1, 1, &random);
    EXPECT_TRUE(std::find(picked.begin(), picked.end(), StocId(3)) != picked.end());
  }
}

// Lines "stocs 1 2@h2 3- 4~ 5! 6." name the StoCs that live, on host h but for @; - lost, ~ draining, %
// emptied, ! takes nothing new, ^ slow, . away; "replicas n"; and parts of a table, "part 1 2 ...". Out come
// the changes of each part.
std::string CopiesFromText(const std::vector<std::string>& lines) {
  StocStates stocs;
  int replicas = 2;
  TableInfo table;
  table.uuid = {7, 7};
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "replicas") replicas = std::stoi(words[1]);
    std::vector<StocId> copies;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const StocId stoc(static_cast<uint32_t>(std::stoul(word)));
      copies.push_back(stoc);
      if (words[0] != "stocs") continue;
      if (word.back() == '-') stocs.lost.insert(stoc);
      if (word.back() == '-' || word.back() == '.') continue;
      stocs.live[stoc] = word.find('@') == std::string::npos ? "h" : word.substr(word.find('@'));
      if (word.back() == '~') stocs.draining.insert(stoc);
      if (word.back() == '%') stocs.emptied.insert(stoc);
      if (word.back() == '^') stocs.slow.insert(stoc);
      if (word.back() == '!') stocs.avoided.insert(stoc);
    }
    if (words[0] == "part") table.fragments.push_back({0, 1, copies});
    if (words[0] == "metadata") table.metadata_stocs = copies;
  }
  std::string out;
  TableInfo after = table;
  const std::vector<PartCopy> plan = PlanCopies(table, stocs, replicas);
  EXPECT_TRUE(MoveCopies(plan, &after));
  EXPECT_EQ(PlanCopies(after, stocs, replicas), std::vector<PartCopy>()) << "one plan is enough";
  const auto name = [](StocId stoc) { return stoc == StocId() ? "none" : StrCat(stoc.value()); };
  for (const PartCopy& c : plan) {
    out += StrCat(c.part == kMetadataPart ? "metadata" : StrCat("part ", c.part), ": ", name(c.from), " -> ",
                  name(c.to), "\n");
  }
  return out.empty() ? "nothing\n" : out;
}

TEST(DecisionsTest, S5CopiesThatATableLacks) { RunFile("plan_copies.txt", CopiesFromText); }

TEST(PlacementTest, S5WhatALostStocHadGoesToAllTheOthersAlike) {
  StocStates stocs;
  for (uint32_t i = 2; i <= 6; ++i) stocs.live[StocId(i)] = "h";
  stocs.lost = {StocId(1)};
  std::map<StocId, int> got;
  for (uint64_t i = 0; i < 4000; ++i) {
    TableInfo table;
    table.uuid = {i, 1};
    table.metadata_stocs = {StocId(1), StocId(2)};
    const auto plan = PlanCopies(table, stocs, 2);
    ASSERT_EQ(plan.size(), 1u);
    ASSERT_EQ(plan[0].from, StocId(1));
    ++got[plan[0].to];
  }
  EXPECT_FALSE(got.contains(StocId(2))) << "it has the other copy";
  for (const auto& [stoc, n] : got) EXPECT_NEAR(n, 1000, 120) << stoc.value();
}

TEST(CompactionLimitTest, TwoForEachDiskAsLongAsHalfOfTheProcessorsIsLeft) {
  CompactionLimit limit(2, 32, /*processors=*/4);
  EXPECT_EQ(limit.value(), 2) << "nothing is known";
  EXPECT_TRUE(limit.SetDisks(10));
  EXPECT_FALSE(limit.SetDisks(10));
  EXPECT_EQ(limit.value(), 2) << "as if none ever waited";
  for (int i = 0; i < 100; ++i) limit.OnWork(kSecond, kSecond / 8);
  EXPECT_EQ(limit.value(), 16) << "an eighth each, two processors in all";
  for (int i = 0; i < 100; ++i) limit.OnWork(kSecond, kSecond / 100);
  EXPECT_EQ(limit.value(), 20);
  EXPECT_TRUE(limit.SetDisks(100));
  EXPECT_EQ(limit.value(), 32);
  for (int i = 0; i < 100; ++i) limit.OnWork(kSecond, 0);
  EXPECT_TRUE(limit.SetDisks(0));
  EXPECT_EQ(limit.value(), 2) << "no StoC is there";
  EXPECT_EQ(CompactionLimit(3, 0, 64).value(), 3) << "a number that was asked for";
}

TEST(DiskTurnsTest, NobodyPausesForReadsThatAreQuickOrLongAgo) {
  DiskTurns turns;
  Nanos now = kSecond;
  for (int i = 0; i < 1000; ++i) {
    turns.OnRead(DiskTurns::kSlowRead - 1, now);
    EXPECT_EQ(turns.Pause(now += 10 * kMillisecond), 0);
  }
  turns.OnRead(DiskTurns::kSlowRead, now);
  EXPECT_EQ(turns.Pause(now += kSecond), 0);
  EXPECT_EQ(turns.paused_ns(), 0);
}

TEST(DiskTurnsTest, HalfOfTheTimeIsForReadsThatWait) {
  DiskTurns turns;
  Nanos now = kSecond, working = 0;
  turns.Pause(now);  // a turn begins
  while (working < 10 * kSecond) {
    turns.OnRead(20 * kMillisecond, now);  // behind a megabyte at 50 MB/s
    if (const Nanos pause = turns.Pause(now); pause > 0) {
      EXPECT_GE(pause, DiskTurns::kTurn);
      EXPECT_LE(pause, DiskTurns::kLongPause);
      EXPECT_EQ(turns.Pause(now + pause / 4), pause - pause / 4) << "another thread: as long as this one";
      now += pause;
      EXPECT_EQ(turns.Pause(now), 0);
    }
    now += 15 * kMillisecond;
    working += 15 * kMillisecond;
  }
  EXPECT_NEAR(static_cast<double>(turns.paused_ns()), 10e9, 0.1e9);
}

TEST(DiskTurnsTest, ALongTurnIsNoReasonForAPauseAsLong) {
  DiskTurns turns;
  turns.Pause(kSecond);
  turns.OnRead(kSecond, 9 * kSecond);
  EXPECT_EQ(turns.Pause(9 * kSecond), DiskTurns::kLongPause);
}

TEST(WriteControllerTest, NoPressureNoWait) {
  WriteController c;
  c.SetPressure({0.4, 0.5, 0.1}, 0);
  uint64_t credit = 0;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(c.Admit(1 << 20, 4, 0, &credit), 0);
  EXPECT_EQ(credit, 0u);
}

// Bytes that one writer at a time gets in within a second.
uint64_t AdmittedInASecond(WriteController* c, double room, Nanos now) {
  uint64_t admitted = 0, credit = 0;
  for (const Nanos end = now + kSecond; now < end;) {
    const Nanos wait = c->Admit(1000, room, now, &credit);
    EXPECT_LT(wait, 50 * kMillisecond) << "one writer at a time waits for its turn only";
    now += wait == 0 ? 10 * kMicrosecond : wait;
    admitted += 1000;
  }
  return admitted;
}

// A flush that writes so much in steps of 1 MB.
void Flush(WriteController* c, uint64_t bytes, Nanos each, Nanos* now) {
  for (; bytes > 0; bytes -= 1'000'000) c->OnFlushed(1'000'000, *now += each);
}

TEST(WriteControllerTest, UnderPressureTheRateFollowsTheFlush) {
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({1.0, 0, 0}, now);
  Flush(&c, 60'000'000, 100 * kMillisecond, &now);
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 0.5, now)), 5e6, 1e6)
      << "half a round left: half as fast";
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 1, now += 2 * kSecond)), 10e6, 1e6)
      << "one: as fast as it drains";
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 0.1, now += 2 * kSecond)), 1e6, 0.2e6)
      << "never all of the room";
}

// What was measured when disks were fast is no measure of a flush that has got nowhere for a second, nor of
// one that goes on in large steps.
TEST(WriteControllerTest, AFlushThatGetsNowhereIsNoticedBeforeItsFirstStep) {
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({1.0, 0, 0}, now);
  Flush(&c, 1'000'000'000, 10 * kMillisecond, &now);  // 100 MB/s
  for (int i = 0; i < 50; ++i) c.SetPressure({1.0, 0, 0}, now += 20 * kMillisecond);
  EXPECT_LT(AdmittedInASecond(&c, 0.9, now), 8'000'000u);
  EXPECT_GT(AdmittedInASecond(&c, 1, now += 2 * kSecond), 900'000u) << "where there is room nobody starves";
  Flush(&c, 20'000'000, 4 * kSecond, &now);
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 0.8, now)), 200e3, 20e3);
}

// Flushes got on at 1.5 GB/s, and from here on at 50 MB/s: a cloud's disk whose credits are spent. Writers as
// fast as before would fill 500 MB in a third of a second.
TEST(WriteControllerTest, AFlushThatBecomesSlowInAnInstantIsNoticedBeforeMemoryIsFull) {
  for (const Nanos phase : {0, 30, 60, 90}) {  // of the window in which it happens
    WriteController c;
    Nanos now = kSecond;
    c.SetPressure({0.6, 0, 0}, now);
    Flush(&c, 1'500'000'000 + phase * 1'500'000, 670 * kMicrosecond, &now);
    ASSERT_GT(c.rate(), 1e9);
    uint64_t admitted = 0, credit = 0;
    for (const Nanos end = now + 500 * kMillisecond; now < end;) {
      const Nanos step_ends = now + 20 * kMillisecond;
      while (now < step_ends) {
        const Nanos wait = c.Admit(1000, 4, now, &credit);
        now += wait == 0 ? 500 : wait;
        admitted += 1000;
      }
      c.OnFlushed(1'000'000, now);
    }
    EXPECT_LT(admitted, 400'000'000u) << phase;
    EXPECT_LT(c.rate(), 100e6) << phase;
  }
}

// A store that takes tables whole tells of each when it is there: in between nothing has become slow.
TEST(WriteControllerTest, LargeStepsAreNoSignOfASlowDisk) {
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({0.6, 0, 0}, now);
  double least = 1e12;
  for (int i = 0; i < 40; ++i) {
    for (int looks = 0; looks < 8; ++looks) {
      c.SetPressure({0.6, 0, 0}, now += 10 * kMillisecond);
      if (i > 10) least = std::min(least, c.rate());
    }
    c.OnFlushed(16'000'000, now);
  }
  EXPECT_GT(least, 100e6) << "of 200 MB/s";
}

// Of many writers each waits for every one of its turns: the fewer turns the better, but no more gets in.
TEST(WriteControllerTest, WhoWaitsPaysForItsNextWritesToo) {
  constexpr int kWriters = 128;
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({1.0, 0, 0}, now);
  Flush(&c, 1'000'000'000, 4 * kMillisecond, &now);  // 250 MB/s
  std::vector<uint64_t> credits(kWriters, 0);
  std::vector<Nanos> ready(kWriters, now);
  int waits = 0, writes = 0;
  Nanos longest = 0;
  for (const Nanos end = now + kSecond; now < end;) {
    const auto next = std::min_element(ready.begin(), ready.end());
    now = std::max(now, *next);
    const Nanos wait = c.Admit(1000, 1, now, &credits[static_cast<size_t>(next - ready.begin())]);
    *next = now + wait + kMicrosecond;
    longest = std::max(longest, wait);
    waits += wait > 0;
    ++writes;
  }
  EXPECT_NEAR(writes, 250'000, 25'000);
  EXPECT_LT(waits, writes / 10);
  EXPECT_LT(longest, 15 * kMillisecond);
}

// Two writers as fast as two cores write: a put in a thousand may be slow, the others are not to be.
TEST(WriteControllerTest, OfFastWritesFewerThanOneInAThousandWaits) {
  for (const Nanos cost : {200, 1000, 2000, 3000}) {  // of a write, at the rate of the flush
    WriteController c;
    Nanos now = kSecond;
    c.SetPressure({1.0, 0, 0}, now);
    Flush(&c, 10'000'000'000, 1000 * cost, &now);
    std::array<uint64_t, 2> credits{};
    std::array<Nanos, 2> ready{now, now};
    int waits = 0, writes = 0;
    Nanos longest = 0;
    for (const Nanos end = now + kSecond; now < end;) {
      const size_t writer = ready[0] <= ready[1] ? 0 : 1;
      now = std::max(now, ready[writer]);
      const Nanos wait = c.Admit(1000, 1, now, &credits[writer]);
      ready[writer] = now + wait + cost;  // alone, each would write at this rate
      longest = std::max(longest, wait);
      waits += wait > 0;
      ++writes;
    }
    EXPECT_NEAR(writes, kSecond / cost, 0.1 * static_cast<double>(kSecond / cost)) << cost;
    EXPECT_GT(waits, 0) << cost;
    EXPECT_LT(waits, writes / 1000) << cost;
    EXPECT_LE(longest, 12 * kMillisecond) << cost;
  }
}

// Many writers come in a moment without room. None of them gets a turn that is minutes away, and whoever
// comes when there is room again does not wait behind them.
TEST(WriteControllerTest, AMomentWithoutRoomIsNotPaidForLater) {
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({1.0, 2.0, 0}, now);
  Nanos longest = 0;
  uint64_t credit = 0;
  for (int i = 0; i < 1000; ++i) longest = std::max(longest, c.Admit(100'000, 0.0, now, &credit));
  EXPECT_GT(longest, 100 * kMillisecond) << "the test tests nothing";
  EXPECT_LE(longest, 250 * kMillisecond);
  c.SetPressure({0.6, 0, 0}, now += 300 * kMillisecond);
  Nanos sum = 0;
  for (int i = 0; i < 10; ++i) sum += c.Admit(1000, 4, now += 10 * kMillisecond, &credit);
  EXPECT_LT(sum, kSecond);
}

TEST(WriteControllerTest, WhatFlushesDoIsMeasuredWhileMemtablesWaitForThem) {
  WriteController c;
  Nanos now = kSecond;
  for (int round = 0; round < 4; ++round) {  // with pauses in between, in which there is nothing to flush
    c.SetPressure({0.2, 0, 0}, now += 10 * kSecond);
    Flush(&c, 20'000'000, 25 * kMillisecond, &now);
    c.SetPressure({0, 0, 0}, now);
  }
  c.SetPressure({.memtables = 0.4, .held = true}, now);  // they could be flushed, and are not
  c.SetPressure({1.0, 0, 0}, now += 10 * kSecond);
  Flush(&c, 10'000'000, 25 * kMillisecond, &now);
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 0.5, now)), 20e6, 2e6);
  now += 2 * kSecond;
  Flush(&c, 10'000'000, 250 * kMillisecond, &now);
  EXPECT_NEAR(static_cast<double>(AdmittedInASecond(&c, 0.5, now)), 2e6, 0.4e6)
      << "a slow one is known to be slow before it ends";
}

TEST(WriteControllerTest, Level0SlowsWritersTheMoreTheFurtherItIsBehind) {
  WriteController c;
  Nanos now = kSecond;
  c.SetPressure({0.2, 0, 0}, now);
  Flush(&c, 60'000'000, 100 * kMillisecond, &now);  // 10 MB/s
  double before = 20e6;
  for (const double level0 : {0.6, 0.8, 1.0, 1.2, 1.5}) {
    Flush(&c, 20'000'000, 100 * kMillisecond, &now);
    c.SetPressure({0.2, level0, 0}, now);
    const auto admitted = static_cast<double>(AdmittedInASecond(&c, 8, now));
    EXPECT_LT(admitted, before * 0.95);
    before = admitted;
    if (level0 == 1.0) {
      EXPECT_NEAR(admitted, 10e6, 1e6) << "the stop limit: as flushes get on";
    }
  }
  EXPECT_GT(before, 1e6) << "never quite";
}

}  // namespace
}  // namespace nova
