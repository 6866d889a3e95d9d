// Level0 in columns (compaction order, K3c): plans of a random version, several at a time, ended in any order
// that their busy tables allow, under maps that change. After each edit every key is looked up in the way a
// get does, and its versions must become older from place to place (recency order, K3).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/level0_depth.h"

namespace nova {
namespace {

constexpr int kKeys = 120;

struct Entry {
  SequenceNumber sequence = 0;
  bool deleted = false;
};
using Entries = std::map<int, Entry>;  // by key

std::string Key(int key) { return absl::StrFormat("%03d", key); }

class Level0Model {
 public:
  explicit Level0Model(uint64_t seed) : random_(seed), newest_(kKeys) {
    options_.level0_runs_trigger = 1 + static_cast<int>(random_.Uniform(4));
    options_.level0_max_bytes = 100 << random_.Uniform(6);
    options_.level0_share = static_cast<double>(random_.Uniform(4));
    options_.level1_bytes = 200;
    options_.level_multiplier = 2;
  }

  // A run of keys that lie near one another, or anywhere.
  void Flush() {
    Entries run;
    const int from = static_cast<int>(random_.Uniform(kKeys));
    const int span = random_.OneIn(3) ? kKeys : 1 + static_cast<int>(random_.Uniform(kKeys / 3));
    for (uint64_t n = 1 + random_.Uniform(40); n > 0; --n) {
      const int key = (from + static_cast<int>(random_.Uniform(static_cast<uint64_t>(span)))) % kKeys;
      run[key] = newest_[static_cast<size_t>(key)] = {++sequence_, random_.OneIn(4)};
    }
    VersionEdit edit;
    AddTables(0, ++order_, run, &edit);
    Apply(edit);
  }

  void Reorganise() {
    std::vector<std::string> cuts;
    for (int key = 1; key < kKeys; ++key) {
      if (random_.OneIn(20)) cuts.push_back(Key(key));
    }
    VersionEdit edit;
    edit.dranges = DrangeMap(cuts, ++generation_).Encode();
    Apply(edit);
  }

  void Pick() {
    Level0Demand demand;
    demand.idle = random_.OneIn(4);
    if (random_.OneIn(4)) demand.paid_bytes = random_.Uniform(2000);
    if (auto plan = PickCompaction(*version_, options_, demand, &state_)) {
      running_.push_back(*std::move(plan));
      most_running_ = std::max(most_running_, running_.size());
    }
  }

  void End() {
    if (running_.empty()) return;
    const size_t i = random_.Uniform(running_.size());
    const CompactionPlan plan = running_[i];
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    if (!random_.OneIn(10)) Commit(plan);  // else it has failed
    EndCompaction(plan, &state_);
  }

  void CheckNothingIsBusy() {
    while (!running_.empty()) End();
    EXPECT_TRUE(state_.busy.empty());
    EXPECT_TRUE(state_.level0.empty());
  }
  uint64_t waits() const { return state_.waits; }
  size_t most_running() const { return most_running_; }
  size_t columns_merged() const { return columns_merged_; }
  size_t slowed() const { return slowed_; }  // versions that may slow writers down

 private:
  // At some of the map's cuts, and anywhere.
  void AddTables(int level, uint64_t order, const Entries& entries, VersionEdit* edit) {
    const bool by_map = !random_.OneIn(4);
    const uint64_t one_in = 5 + random_.Uniform(30);
    Entries table;
    int before = 0;
    const auto finish = [&] {
      if (table.empty()) return;
      TableInfo info;
      info.uuid = {++tables_, 0};
      AppendInternalKey(&info.smallest, Key(table.begin()->first), 9, ValueType::kPut);
      AppendInternalKey(&info.largest, Key(table.rbegin()->first), 1, ValueType::kPut);
      info.data_size = 10 * table.size();
      contents_[info.uuid] = std::move(table);
      edit->adds.push_back({level, order, info, nullptr});
      table.clear();
    };
    for (const auto& [key, entry] : entries) {
      const DrangeMapRef& map = version_->dranges();
      const bool crosses = by_map && map != nullptr && map->Of(Key(before)) != map->Of(Key(key));
      if (crosses || random_.OneIn(one_in)) finish();
      table[key] = entry;
      before = key;
    }
    finish();
  }

  void Commit(const CompactionPlan& plan) {
    VersionEdit edit;
    Entries merged;
    for (const auto* side : {&plan.inputs, &plan.overlaps}) {
      for (const TableRef& t : *side) {
        edit.drops.push_back(t->info().uuid);
        for (const auto& [key, entry] : contents_.at(t->info().uuid)) {
          Entry& kept = merged[key];
          if (entry.sequence > kept.sequence) kept = entry;
        }
      }
    }
    if (plan.bottom) std::erase_if(merged, [](const auto& e) { return e.second.deleted; });
    columns_merged_ += plan.level == 0 && plan.output_level == 0;
    if (plan.trivial_move) {
      edit.adds.push_back({plan.output_level, 0, plan.inputs[0]->info(), nullptr});
    } else {
      AddTables(plan.output_level, plan.output_order, merged, &edit);
    }
    Apply(edit);
  }

  void Apply(const VersionEdit& edit) {
    auto next = version_->Apply(edit, {});
    ASSERT_TRUE(next.ok()) << next.status();
    version_ = *std::move(next);
    for (int key = 0; key < kKeys; ++key) Check(key);
    if (Level0Depth(*version_) < options_.level0_runs_trigger) return;
    // the lowest limit at which writers may be slowed down
    ++slowed_;
    ASSERT_GE(CompactionScores(*version_, options_, {})[0], 1) << "writers wait for nothing";
  }

  // All places of the key, the youngest first.
  void Check(int key) {
    SequenceNumber above = kMaxSequenceNumber;
    const Entry& newest = newest_[static_cast<size_t>(key)];
    bool found = false;
    const std::span<const uint32_t> asked = version_->index().RunsAt(Key(key));
    for (uint32_t i = 0; i < version_->runs().size(); ++i) {
      const TableHandle* table = version_->runs()[i].Find(Key(key));
      if (table == nullptr) continue;
      ASSERT_NE(std::find(asked.begin(), asked.end(), i), asked.end())
          << "key " << key << ": a get passes its table by";
      const Entries& entries = contents_.at(table->info().uuid);
      const auto entry = entries.find(key);
      if (entry == entries.end()) continue;
      ASSERT_LT(entry->second.sequence, above)
          << "key " << key << ": an older version lies above a newer one";
      ASSERT_TRUE(found || entry->second.sequence == newest.sequence) << "key " << key << " is stale";
      above = entry->second.sequence;
      found = true;
    }
    ASSERT_TRUE(found || newest.deleted || newest.sequence == 0) << "key " << key << " is lost";
  }

  Random random_;
  CompactionOptions options_;
  std::shared_ptr<const Version> version_ = std::make_shared<const Version>();
  std::map<Uuid, Entries> contents_;
  std::vector<Entry> newest_;  // by key
  SequenceNumber sequence_ = 0;
  uint64_t order_ = 0, generation_ = 0, tables_ = 0;
  CompactionState state_;
  std::vector<CompactionPlan> running_;
  size_t most_running_ = 0, columns_merged_ = 0, slowed_ = 0;
};

TEST(ColumnsTest, K3cNoPlanPutsAnOlderVersionAboveANewerOne) {
  size_t most_running = 0, merged = 0, slowed = 0;
  uint64_t waits = 0;
  for (uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Level0Model model(seed);
    Random random(seed * 1'000'003);
    for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) {
      switch (random.Uniform(8)) {
        case 0:
        case 1:
          model.Flush();
          break;
        case 2:
          if (random.OneIn(4)) model.Reorganise();
          break;
        case 3:
        case 4:
        case 5:
          model.Pick();
          break;
        default:
          model.End();
      }
    }
    model.CheckNothingIsBusy();
    most_running = std::max(most_running, model.most_running());
    merged += model.columns_merged();
    slowed += model.slowed();
    waits += model.waits();
  }
  EXPECT_GE(most_running, 4u) << "plans hardly ran side by side: the test tests little";
  EXPECT_GT(merged, 50u);
  EXPECT_GT(slowed, 1'000u);
  EXPECT_GT(waits, 50u);
}

TableInfo Table(uint64_t id, const char* from, const char* to) {
  TableInfo info;
  info.uuid = {id, 0};
  AppendInternalKey(&info.smallest, from, 9, ValueType::kPut);
  AppendInternalKey(&info.largest, to, 1, ValueType::kPut);
  info.data_size = 10;
  return info;
}

// An older version below would come to light, and what a table has above it is newer.
TEST(ColumnsTest, K7ATableThatHasExpiredStaysWhileAnythingIsBelowIt) {
  const auto expiring = [](uint64_t id, const char* from, const char* to, int64_t ms) {
    TableInfo info = Table(id, from, to);
    SetExpiresByMs(ms, &info);
    info.max_sequence = id;
    return info;
  };
  VersionEdit edit;
  edit.adds = {{0, 10, expiring(1, "a", "c", 5), nullptr},  // of Level0: older runs may be below it
               {1, 0, expiring(2, "a", "c", 5), nullptr},
               {1, 0, expiring(3, "e", "g", 6), nullptr},
               {1, 0, expiring(4, "k", "m", 100), nullptr},
               {1, 0, expiring(50, "o", "p", 5), nullptr},  // above the stable number
               {2, 0, Table(6, "b", "d"), nullptr},
               {2, 0, expiring(7, "x", "z", 4), nullptr}};
  const auto version = Version().Apply(edit, {});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ((*version)->first_expired_ms(), 4);
  CompactionState state;
  EXPECT_FALSE(HoldsExpired(**version, 3, 10));
  EXPECT_FALSE(PickExpired(**version, 3, 10, &state));
  EXPECT_TRUE(HoldsExpired(**version, 10, 10));
  const auto plan = PickExpired(**version, 10, 10, &state);
  ASSERT_TRUE(plan);
  std::set<uint64_t> picked;
  for (const TableRef& t : plan->inputs) picked.insert(t->info().uuid.hi);
  EXPECT_EQ(picked, (std::set<uint64_t>{3, 7}));
  EXPECT_TRUE(plan->drop_only);
  EXPECT_EQ(plan->expired_by_ms, 6);
  EXPECT_FALSE(PickExpired(**version, 10, 10, &state)) << "they are busy";
}

// A plan that fails, for its table is damaged or there is no space, keeps no other one from being made.
TEST(ColumnsTest, APlanThatHasFailedIsPassedOver) {
  VersionEdit edit;
  edit.adds = {{0, 10, Table(1, "a", "c"), nullptr},
               {0, 10, Table(2, "k", "m"), nullptr},
               {0, 20, Table(3, "a", "c"), nullptr},
               {2, 0, Table(4, "x", "z"), nullptr}};
  edit.dranges = DrangeMap({"j"}, 1).Encode();
  const auto version = Version().Apply(edit, {});
  ASSERT_TRUE(version.ok()) << version.status();
  CompactionOptions options;
  options.level0_runs_trigger = 1;
  options.level1_bytes = 1;
  options.level_multiplier = 1;
  const auto first_input = [&](const std::set<Uuid>& resting) {
    CompactionState state;
    state.resting = resting;
    const auto plan = PickCompaction(**version, options, {}, &state);
    return plan ? plan->inputs[0]->info().uuid.hi : 0;
  };
  const uint64_t first = first_input({});
  EXPECT_NE(first, 0u);
  std::set<uint64_t> picked;
  std::set<Uuid> resting;
  for (uint64_t n = first; n != 0 && picked.size() < 10; n = first_input(resting)) {
    picked.insert(n);
    resting.insert({n, 0});
  }
  EXPECT_EQ(picked, (std::set<uint64_t>{1, 2, 4}));
}

// Two tables with nothing between them become one table of Level1, which reaches over the gap. Meanwhile the
// map changes, and a column lies in the gap: its table would go to Level1 under the first plan's output.
TEST(ColumnsTest, K3cAPlanKeepsClearOfTheHullsOfOthersThoughNoTableIsInBoth) {
  VersionEdit edit;
  edit.adds = {{0, 10, Table(1, "a", "c"), nullptr}, {0, 20, Table(2, "k", "m"), nullptr}};
  auto version = Version().Apply(edit, {});
  ASSERT_TRUE(version.ok()) << version.status();
  CompactionOptions options;
  options.level0_runs_trigger = 1;
  CompactionState state;
  const auto first = PickCompaction(**version, options, {}, &state);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->inputs.size(), 2u);
  VersionEdit flush;
  flush.adds = {{0, 30, Table(3, "e", "f"), nullptr}};
  flush.dranges = DrangeMap({"d", "j"}, 1).Encode();
  version = (*version)->Apply(flush, {});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_FALSE(PickCompaction(**version, options, {}, &state));
  EXPECT_EQ(state.waits, 1u) << "of the one between the two columns of the first plan";
  VersionEdit down;
  down.drops = {{1, 0}, {2, 0}};
  down.adds = {{1, 0, Table(4, "a", "m"), nullptr}};
  version = (*version)->Apply(down, {});
  ASSERT_TRUE(version.ok()) << version.status();
  EndCompaction(*first, &state);
  const auto second = PickCompaction(**version, options, {}, &state);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->overlaps.size(), 1u);
}

// Three runs, none of which has a table where another has: a writer has nothing to wait for.
TEST(ColumnsTest, Level0IsAsDeepAsItsDeepestColumn) {
  VersionEdit edit;
  edit.dranges = DrangeMap({"d", "j"}, 1).Encode();
  edit.adds = {{0, 10, Table(1, "a", "c"), nullptr},
               {0, 20, Table(2, "e", "f"), nullptr},
               {0, 30, Table(3, "k", "m"), nullptr}};
  const auto version = Version().Apply(edit, {});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ((*version)->Level0Runs(), 3);
  EXPECT_EQ(Level0Depth(**version), 1);
  EXPECT_EQ(Level0Depth(*(*version)->WithoutDranges()), 3);
}

// The picture at the head of range_index.h.
TEST(ColumnsTest, TheRangeIndexNamesOfLevel0TheRunsWithATableInTheDrange) {
  VersionEdit edit;
  edit.dranges = DrangeMap({"d", "j"}, 1).Encode();
  edit.adds = {{0, 30, Table(1, "a", "c"), nullptr}, {0, 30, Table(2, "k", "m"), nullptr},
               {0, 20, Table(3, "b", "c"), nullptr}, {0, 10, Table(4, "e", "f"), nullptr},
               {0, 10, Table(5, "g", "l"), nullptr}, {1, 0, Table(6, "p", "q"), nullptr}};
  const auto version = Version().Apply(edit, {});
  ASSERT_TRUE(version.ok()) << version.status();
  const auto at = [](const Version& v, std::string_view key) {
    const auto runs = v.index().RunsAt(key);
    return std::vector<uint32_t>(runs.begin(), runs.end());
  };
  using Places = std::vector<uint32_t>;
  EXPECT_EQ(at(**version, "c"), (Places{0, 1, 3}));
  EXPECT_EQ(at(**version, "d"), (Places{2, 3}));
  EXPECT_EQ(at(**version, "z"), (Places{0, 2, 3})) << "a table over a cut is in both; a deeper run in all";
  EXPECT_EQ(at(*(*version)->WithoutDranges(), "d"), (Places{0, 1, 2, 3}));
  EXPECT_EQ((*version)->columns()[1].runs, 1);
  EXPECT_EQ((*version)->columns()[1].bytes, 15u) << "one table, and half of another";
}

}  // namespace
}  // namespace nova
