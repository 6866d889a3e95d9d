// A range over local storage against a std::map: random operations, reopening, random options.
#include "ltc/engine/range.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <map>

#include "common/base/coding.h"
#include "common/base/failpoint.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/local_storage.h"
#include "tests/ltc/manual_executor.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

enum class Background { kThreads, kByHand };

// One range on a directory of its own; background work on threads of its own, or as the test says.
class LocalRange : RangeHost {
 public:
  explicit LocalRange(const RangeOptions& options, std::string lower = "", std::string upper = "",
                      Background background = Background::kThreads)
      : background_kind_(background),
        options_(options),
        lower_(std::move(lower)),
        upper_(std::move(upper)),
        arenas_(64 << 20),
        cache_(1 << 20) {
    char dir[] = "/tmp/nova-range-XXXXXX";
    directory_ = mkdtemp(dir);
    disk_ = std::move(OpenPosixDisk(directory_)).value();
    store_ = NewLocalTableStore(disk_.get());
    storage_ = std::make_unique<LocalManifestStorage>(disk_.get());
    services_.store = store_.get();
    services_.cache = &cache_;
    services_.arenas = &arenas_;
    services_.memtable_limit_bytes = 256 << 20;
    services_.executors = {&executor_};
    services_.host = this;
    services_.garbage = [this](const TableInfo& t) { store_->DropTable(t, {RangeId(1), Epoch(epoch_), 0}); };
    Open();
  }
  ~LocalRange() {
    Close();
    std::filesystem::remove_all(directory_);
  }

  void Open(std::unique_ptr<RangeLog> log = NewNullLog()) {
    RangeSpec spec;
    spec.id = RangeId(1);
    spec.epoch = Epoch(++epoch_);
    spec.lower = lower_;
    spec.upper = upper_;
    auto edits = storage_->ReadInstalled();
    ASSERT_TRUE(edits.ok()) << edits.status();
    auto range = Range::Recover(spec, options_, &services_, storage_.get(), *edits, {}, std::move(keep_));
    ASSERT_TRUE(range.ok()) << range.status();
    range_ = *std::move(range);
    ASSERT_TRUE(storage_->Install(range_->versions().manifest_group()).ok());
    range_->Activate(std::move(log));
    stop_ = false;
    for (int i = 0; i < (background_kind_ == Background::kThreads ? 2 : 0); ++i) {
      background_.push_back(std::make_unique<Thread>("background", [this] {
        while (!stop_) {
          const bool flushed = range_->FlushOne();
          if (!range_->CompactOne() && !flushed) SleepFor(100 * kMicrosecond);
        }
      }));
    }
  }
  void Close() {
    stop_ = true;
    background_.clear();
    range_->StopWrites();
    ASSERT_TRUE(range_->FlushAll(Now() + 60 * kSecond).ok());
    while (executor_.RunOnce()) {
    }
    range_ = nullptr;
  }

  // What a process does that dies without a log.
  void LoseMemory() {
    stop_ = true;
    background_.clear();
    range_->Abandon();
    while (executor_.RunOnce()) {
    }
    range_ = nullptr;
    Open();
  }

  Outcome Write(ValueType type, std::string_view key, std::string_view value, bool sync = false) {
    const WriteEntry entry{type, key, value};
    return Write({&entry, 1}, sync);
  }
  Outcome Write(std::span<const WriteEntry> entries, bool sync = false) {
    std::optional<Outcome> outcome;
    range_->Write(&executor_, {entries, 0, 0, Now() + 60 * kSecond, sync}, [&](Outcome o) { outcome = o; });
    executor_.RunUntil([&] { return outcome.has_value(); });
    return *outcome;
  }
  Outcome CompareAndSwap(std::string_view key, std::optional<std::string> expected,
                         std::optional<std::string> desired) {
    std::optional<Outcome> outcome;
    range_->CompareAndSwap(
        &executor_, {std::string(key), std::move(expected), std::move(desired), 0, 0, Now() + 60 * kSecond},
        [&](Outcome o) { outcome = o; });
    executor_.RunUntil([&] { return outcome.has_value(); });
    return *outcome;
  }
  std::shared_ptr<Snapshot> TakeSnapshot(Nanos expires_ns = kNever) {
    std::optional<std::shared_ptr<Snapshot>> snapshot;
    range_->TakeSnapshot(&executor_, expires_ns, [&](Outcome o, std::shared_ptr<Snapshot> s) {
      EXPECT_EQ(o, Outcome::kOk);
      snapshot = std::move(s);
    });
    executor_.RunUntil([&] { return snapshot.has_value(); });
    return *snapshot;
  }
  std::optional<std::string> Get(std::string_view key, const Snapshot* at = nullptr) {
    bool done = false;
    std::optional<std::string> value;
    const auto answer = [&](Outcome o, std::string_view v) {
      done = true;
      if (o == Outcome::kOk) value = std::string(v);
      EXPECT_TRUE(o == Outcome::kOk || o == Outcome::kNotFound) << OutcomeName(o);
    };
    at == nullptr ? range_->Get(&executor_, key, Now() + 60 * kSecond, answer)
                  : range_->GetAt(&executor_, *at, key, Now() + 60 * kSecond, answer);
    executor_.RunUntil([&] { return done; });
    return value;
  }
  std::vector<std::optional<std::string>> MultiGet(const std::vector<std::string>& keys,
                                                   std::shared_ptr<const Snapshot> at) {
    bool done = false;
    std::vector<std::optional<std::string>> values;
    range_->MultiGet(&executor_, keys, std::move(at), Now() + 60 * kSecond,
                     [&](Outcome o, std::vector<std::optional<std::string>> v, std::string_view) {
                       EXPECT_EQ(o, Outcome::kOk) << OutcomeName(o);
                       values = std::move(v);
                       done = true;
                     });
    executor_.RunUntil([&] { return done; });
    return values;
  }
  std::vector<std::pair<std::string, std::string>> Scan(std::string from, uint32_t limit,
                                                        std::shared_ptr<const Snapshot> at = nullptr,
                                                        bool reverse = false) {
    std::string to;
    std::vector<std::pair<std::string, std::string>> all;
    for (bool more = true; more && all.size() < limit;) {
      bool done = false;
      ScanPage page;
      range_->Scan(&executor_,
                   {from, to, limit - static_cast<uint32_t>(all.size()), Now() + 60 * kSecond, at, reverse},
                   [&](Outcome o, ScanPage p) {
                     EXPECT_EQ(o, Outcome::kOk) << OutcomeName(o);
                     page = std::move(p);
                     done = true;
                   });
      executor_.RunUntil([&] { return done; });
      std::string_view in = page.entries;
      std::string key, value;
      while (!in.empty()) {
        EXPECT_TRUE(GetLengthPrefixed(&in, &key) && GetLengthPrefixed(&in, &value));
        all.emplace_back(key, value);
      }
      more = page.more;
      if (more) reverse ? to = all.back().first : from = all.back().first + '\0';
    }
    return all;
  }
  std::set<std::string> TableFiles() {
    while (executor_.RunOnce()) {  // lets go of older views
    }
    const auto names = disk_->List("");
    std::set<std::string> files(names->begin(), names->end());
    std::erase_if(files, [](const std::string& n) { return !n.ends_with(".sst"); });
    return files;
  }
  void DeleteTableFiles() {
    for (const std::string& name : TableFiles()) EXPECT_TRUE(disk_->Delete(name).ok());
  }
  Range* range() { return range_.get(); }
  std::shared_ptr<Range> shared() { return range_; }
  std::weak_ptr<const void> kept() { return kept_; }
  ManualExecutor* executor() { return &executor_; }
  RangeServices* services() { return &services_; }
  void set_before_table(std::function<void()> fn) { before_table_ = std::move(fn); }

 private:
  size_t Disks() const override { return 4; }
  StatusOr<Placement> Place(uint64_t /*table_bytes*/) override {
    if (before_table_) before_table_();
    return Placement{};
  }
  void WorkDue(RangeId /*range*/) override {}
  void Fenced(RangeId /*range*/, const Status& why) override { ADD_FAILURE() << "lost: " << why; }
  void RunReader(std::function<void()> fn) override { fn(); }

  const Background background_kind_;
  const RangeOptions options_;
  const std::string lower_, upper_;
  std::string directory_;
  std::unique_ptr<Disk> disk_;
  std::unique_ptr<TableStore> store_;
  std::unique_ptr<LocalManifestStorage> storage_;
  ArenaPool arenas_;
  BlockCache cache_;
  ManualExecutor executor_;
  RangeServices services_;
  std::shared_ptr<Range> range_;
  std::vector<std::unique_ptr<Thread>> background_;
  std::atomic<bool> stop_{false};
  uint64_t epoch_ = 0;
  std::function<void()> before_table_;
  std::shared_ptr<const void> keep_ = std::make_shared<int>();  // passed to the first range
  const std::weak_ptr<const void> kept_ = keep_;
};

RangeOptions SmallOptions(Random* random) {
  RangeOptions o;
  o.memtable_size_bytes = 8 << 10 << random->Uniform(4);
  o.active_memtables = 1 + static_cast<int>(random->Uniform(3));
  if (random->OneIn(2)) o.memtable_partitioning = MemtablePartitioning::kDrange;
  o.max_rounds = 2 + static_cast<int>(random->Uniform(5));
  o.scan_page_bytes = 256 << random->Uniform(8);
  o.compaction.level0_runs_trigger = 1 + static_cast<int>(random->Uniform(4));
  o.compaction.level0_share = 0.5 * static_cast<double>(random->Uniform(5));
  o.compaction.dranges = random->OneIn(3) ? 1 : 1 << random->Uniform(7);
  o.compaction.least_table_bytes = 1 << random->Uniform(14);
  o.compaction.level1_bytes = 32 << 10 << random->Uniform(3);
  o.compaction.level_multiplier = 2 + static_cast<int>(random->Uniform(4));
  o.compaction.table_size_bytes = 4 << 10 << random->Uniform(4);
  o.compaction.max_parts = 1 + static_cast<int>(random->Uniform(5));
  o.table.block_size_bytes = 256 << random->Uniform(5);
  o.round_range_tombstones = 30 << random->Uniform(4);
  o.merge_rounds = random->OneIn(2) ? MergeRounds::kAlways : MergeRounds::kNever;
  o.log_share = 1 + static_cast<double>(random->Uniform(4));
  o.lookup_index = random->OneIn(2);
  return o;
}

std::string KeyOf(uint64_t n) {
  const std::string digits = std::to_string(n);
  return std::string("\0user", 5) + std::string(6 - digits.size(), '0') + digits;
}

void ExpectSame(const Model& model, LocalRange* range, Random* random, uint64_t keys,
                std::shared_ptr<const Snapshot> at = nullptr) {
  const std::string from = KeyOf(random->Uniform(keys));
  const auto limit = static_cast<uint32_t>(1 + random->Uniform(50));
  const auto scanned = range->Scan(from, limit, at);
  auto it = model.lower_bound(from);
  for (const auto& [key, value] : scanned) {
    ASSERT_NE(it, model.end());
    ASSERT_EQ(key, it->first);
    ASSERT_EQ(value, it->second);
    ++it;
  }
  if (scanned.size() < limit) {
    ASSERT_EQ(it, model.end());
  }
  std::vector<std::string> some(random->Uniform(10));
  for (std::string& key : some) key = KeyOf(random->Uniform(keys));
  const auto values = range->MultiGet(some, at);
  ASSERT_EQ(values.size(), some.size());
  for (size_t i = 0; i < some.size(); ++i) {
    const auto expected = model.find(some[i]);
    ASSERT_EQ(values[i].has_value(), expected != model.end());
    ASSERT_TRUE(!values[i] || *values[i] == expected->second);
    ASSERT_EQ(range->Get(some[i], at.get()), values[i]);
  }
}

constexpr char kText[] =
    "what the values of batches are cut from: each begins somewhere in here and goes on to the end";

class RangeModelTest : public ::testing::TestWithParam<int> {};

TEST_P(RangeModelTest, AgreesWithAMapOverRandomOperationsOptionsAndReopens) {
  Random random(static_cast<uint64_t>(GetParam()));
  Model model;
  LocalRange range(SmallOptions(&random));
  const uint64_t keys = 50 + random.Uniform(2000);
  // held over flushes and compactions (K4)
  std::vector<std::pair<std::shared_ptr<const Snapshot>, Model>> snapshots;
  std::map<std::string, Model> checkpoints;  // held over reopening too (M2)
  for (int i = 0; i < 6000; ++i) {
    const std::string key = KeyOf(random.Uniform(keys));
    const uint64_t dice = random.Uniform(100);
    if (dice < 50) {
      const std::string value(random.Uniform(random.OneIn(50) ? 20'000 : 300),
                              static_cast<char>('a' + random.Uniform(26)));
      ASSERT_EQ(range.Write(ValueType::kPut, key, value), Outcome::kOk);
      model[key] = value;
    } else if (dice < 53) {  // K7: of none, few or many keys
      const std::string end =
          KeyOf(random.Uniform(keys + 1) / (random.OneIn(20) ? 1 : 1 + random.Uniform(30)));
      const std::string begin = random.OneIn(10) ? KeyOf(0) : end < key ? end : key;
      const std::string upto = end < key ? key : end;
      if (begin < upto) {
        ASSERT_EQ(range.Write(ValueType::kDeleteRange, begin, upto), Outcome::kOk);
        model.erase(model.lower_bound(begin), model.lower_bound(upto));
      } else {
        ASSERT_EQ(range.Write(ValueType::kDeleteRange, begin, upto), Outcome::kInvalidArgument);
      }
    } else if (dice < 62) {
      ASSERT_EQ(range.Write(ValueType::kDelete, key, ""), Outcome::kOk);
      model.erase(key);
    } else if (dice < 70) {  // K6; with few keys a batch often has one of them twice
      std::vector<std::string> strings(1 + random.Uniform(30));
      std::deque<std::string> ends;
      std::vector<WriteEntry> batch;
      for (std::string& s : strings) {
        s = KeyOf(random.Uniform(keys));
        if (random.OneIn(12)) {  // of what is there, and of what the batch wrote before
          ends.push_back(KeyOf(random.Uniform(keys)));
          if (ends.back() <= s) ends.back() = s + '\0';
          batch.push_back({ValueType::kDeleteRange, s, ends.back()});
          model.erase(model.lower_bound(s), model.lower_bound(ends.back()));
          continue;
        }
        const std::string_view value = std::string_view(kText).substr(random.Uniform(sizeof(kText)));
        const ValueType type = random.OneIn(4) ? ValueType::kDelete : ValueType::kPut;
        batch.push_back({type, s, type == ValueType::kDelete ? "" : value});
        if (type == ValueType::kPut) {
          model[s] = value;
        } else {
          model.erase(s);
        }
      }
      ASSERT_EQ(range.Write(batch), Outcome::kOk);
    } else if (dice < 73) {  // K7: expired as soon as it is there, or not within this test
      const std::string value(random.Uniform(300), 't');
      const int64_t ttl_ms = random.OneIn(2) ? 0 : 3'600'000;
      const WriteEntry entry{ValueType::kPutTtl, key, value, ttl_ms};
      ASSERT_EQ(range.Write({&entry, 1}), Outcome::kOk);
      if (ttl_ms > 0) {
        model[key] = value;
      } else {
        model.erase(key);
      }
    } else if (dice < 78) {  // K6
      const auto it = model.find(key);
      std::optional<std::string> expected, desired;
      if (it != model.end()) expected = it->second;
      const bool wrong = random.OneIn(4);
      if (wrong) expected = expected ? std::nullopt : std::optional<std::string>("what is not there");
      if (!random.OneIn(4)) desired = std::string(random.Uniform(300), 'c');
      ASSERT_EQ(range.CompareAndSwap(key, expected, desired),
                wrong ? Outcome::kConditionFailed : Outcome::kOk)
          << "seed " << GetParam() << " step " << i;
      if (!wrong && desired) model[key] = *desired;
      if (!wrong && !desired) model.erase(key);
    } else if (dice < 97) {
      const auto value = range.Get(key);
      const auto it = model.find(key);
      ASSERT_EQ(value.has_value(), it != model.end()) << "seed " << GetParam() << " step " << i;
      ASSERT_TRUE(!value || *value == it->second) << "seed " << GetParam() << " step " << i;
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectSame(model, &range, &random, keys))
          << "seed " << GetParam() << " step " << i;
    }
    if (random.OneIn(150)) {
      if (snapshots.size() < 6) snapshots.emplace_back(range.TakeSnapshot(), model);
      const size_t which = random.Uniform(snapshots.size());
      for (int n = 0; n < 5; ++n) {
        ASSERT_NO_FATAL_FAILURE(
            ExpectSame(snapshots[which].second, &range, &random, keys, snapshots[which].first))
            << "seed " << GetParam() << " step " << i << ", snapshot " << snapshots[which].first->sequence();
      }
      if (random.OneIn(3)) snapshots.erase(snapshots.begin() + static_cast<ptrdiff_t>(which));
    }
    if (random.OneIn(400)) {  // M2
      const std::string name = StrCat("checkpoint-", random.Uniform(4));
      const auto it = checkpoints.find(name);
      if (it == checkpoints.end()) {
        ASSERT_EQ(range.range()->checkpoints().Restore(name, Now() + 60 * kSecond).code(),
                  absl::StatusCode::kNotFound);
        const Status s = range.range()->checkpoints().Create(name, Now() + 60 * kSecond);
        ASSERT_TRUE(s.ok()) << s << ", seed " << GetParam() << " step " << i;
        checkpoints[name] = model;
      } else if (random.OneIn(3)) {
        ASSERT_EQ(range.range()->checkpoints().Create(name, Now() + 60 * kSecond).code(),
                  absl::StatusCode::kAlreadyExists);
        ASSERT_TRUE(range.range()->checkpoints().Delete(name).ok());
        ASSERT_EQ(range.range()->checkpoints().Delete(name).code(), absl::StatusCode::kNotFound);
        checkpoints.erase(it);
      } else {
        const auto before = range.TakeSnapshot();
        const Status s = range.range()->checkpoints().Restore(name, Now() + 60 * kSecond);
        ASSERT_TRUE(s.ok()) << s << ", seed " << GetParam() << " step " << i;
        EXPECT_FALSE(before->live(Now()));
        snapshots.clear();
        model = it->second;
        const auto all = range.Scan("", 1'000'000);
        ASSERT_EQ(Model(all.begin(), all.end()), model) << "seed " << GetParam() << " step " << i;
      }
      ASSERT_EQ(range.range()->checkpoints().List().size(), checkpoints.size());
    }
    if (random.OneIn(1500)) {
      snapshots.clear();  // they are of the range that was opened
      range.Close();
      ASSERT_NO_FATAL_FAILURE(range.Open());
    }
  }
  for (const auto& [snapshot, then] : snapshots) {
    const auto all = range.Scan("", 1'000'000, snapshot);
    EXPECT_EQ(Model(all.begin(), all.end()), then)
        << "seed " << GetParam() << ", snapshot " << snapshot->sequence();
  }
  const auto all = range.Scan("", 1'000'000);
  EXPECT_EQ(Model(all.begin(), all.end()), model) << "seed " << GetParam();
  EXPECT_EQ(all.size(), model.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RangeModelTest, ::testing::Range(1, 13));

// A read that still waits for the disk when its range is let go (R5): whose tables those are now may delete
// them, and that is no damage.
TEST(RangeTest, R5AReadThatOutlivesItsRangeTellsOfNoDamage) {
  for (const bool let_go : {false, true}) {
    LocalRange local({}, "", "", Background::kByHand);
    ASSERT_EQ(local.Write(ValueType::kPut, "k", "v"), Outcome::kOk);
    local.Close();
    local.Open();
    local.DeleteTableFiles();
    std::vector<Outcome> outcomes;
    local.range()->Get(local.executor(), "k", Now() + 60 * kSecond,
                       [&](Outcome o, std::string_view) { outcomes.push_back(o); });
    local.range()->Scan(local.executor(), {"", "", 10, Now() + 60 * kSecond, nullptr, false},
                        [&](Outcome o, const ScanPage&) { outcomes.push_back(o); });
    ASSERT_TRUE(outcomes.empty());
    if (let_go) {
      ASSERT_TRUE(local.range()->BeginRelease());
      local.range()->StopReads();
    }
    local.executor()->RunUntil([&] { return outcomes.size() == 2; });
    for (const Outcome o : outcomes)
      EXPECT_EQ(o, let_go ? Outcome::kNotOwner : Outcome::kCorruption) << OutcomeName(o);
  }
}

TEST(RangeTest, WritesAfterStopWritesAreNotOwner) {
  LocalRange range(RangeOptions{});
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), "x"), Outcome::kOk);
  range.range()->StopWrites();
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), "y"), Outcome::kNotOwner);
  EXPECT_EQ(range.Get(KeyOf(1)), "x");
}

// Whoever holds the last reference, in work under way or in a request: the services go after the range.
TEST(RangeTest, KeepsItsServicesUntilItEnds) {
  LocalRange range(RangeOptions{});
  std::shared_ptr<Range> work = range.shared();
  range.Close();
  EXPECT_FALSE(range.kept().expired());
  work = nullptr;
  EXPECT_TRUE(range.kept().expired());
  range.Open();
}

TEST(RangeTest, K7RangeDeletionsAreBounded) {
  RangeOptions options;
  options.max_range_tombstones = 4;
  LocalRange range(options);
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(50), "x"), Outcome::kOk);
  auto snapshot = range.TakeSnapshot();
  for (uint64_t i = 0; i < 4; ++i)
    ASSERT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(10 * i), KeyOf(100)), Outcome::kOk);
  EXPECT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(0), KeyOf(100)), Outcome::kBusy);
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(51), "y"), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(51)), "y");
  EXPECT_EQ(range.Get(KeyOf(50), snapshot.get()), "x");
  snapshot = nullptr;
  range.range()->SealActive();
  while (range.Write(ValueType::kDeleteRange, KeyOf(0), KeyOf(100)) == Outcome::kBusy) SleepFor(kMillisecond);
  EXPECT_EQ(range.Get(KeyOf(51)), std::nullopt);
}

TEST(RangeTest, K7ACheckpointKeepsTheRangeDeletionsOfItsMoment) {
  LocalRange range(RangeOptions{});
  const auto deadline = [] { return Now() + 60 * kSecond; };
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(50), "x"), Outcome::kOk);
  ASSERT_TRUE(range.range()->checkpoints().Create("before", deadline()).ok());
  auto snapshot = range.TakeSnapshot();  // keeps what is hidden, and so the deletion
  ASSERT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(0), KeyOf(100)), Outcome::kOk);
  ASSERT_TRUE(range.range()->checkpoints().Create("after", deadline()).ok());
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(60), "y"), Outcome::kOk);
  for (const bool reopen : {false, true}) {
    ASSERT_TRUE(range.range()->checkpoints().Restore("before", deadline()).ok());
    EXPECT_EQ(range.Get(KeyOf(50)), "x");
    EXPECT_EQ(range.Get(KeyOf(60)), std::nullopt);
    EXPECT_EQ(range.range()->stats().range_tombstones, 0u);
    if (reopen) {
      range.Close();
      ASSERT_NO_FATAL_FAILURE(range.Open());
    }
    ASSERT_TRUE(range.range()->checkpoints().Restore("after", deadline()).ok());
    EXPECT_EQ(range.Get(KeyOf(50)), std::nullopt);
    EXPECT_EQ(range.Scan("", 10).size(), 0u);
  }
}

TEST(RangeTest, K7ARangeDeletionBeyondTheRangeIsRefused) {
  LocalRange range(RangeOptions{}, KeyOf(10), KeyOf(20));
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(15), "x"), Outcome::kOk);
  EXPECT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(9), KeyOf(16)), Outcome::kInvalidArgument);
  EXPECT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(15), KeyOf(21)), Outcome::kInvalidArgument);
  EXPECT_EQ(range.Get(KeyOf(15)), "x");
  EXPECT_EQ(range.Write(ValueType::kDeleteRange, KeyOf(10), KeyOf(20)), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(15)), std::nullopt);
}

TEST(RangeTest, OversizedValueWritesNothing) {
  RangeOptions options;
  options.max_value_bytes = 1000;
  LocalRange range(options);
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), std::string(1001, 'x')), Outcome::kInvalidArgument);
  EXPECT_EQ(range.Get(KeyOf(1)), std::nullopt);
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), std::string(1000, 'x')), Outcome::kOk);
}

TEST(RangeTest, ASnapshotsLeaseEnds) {  // K4: what is forgotten pins nothing
  RangeOptions options;
  options.compaction.level0_runs_trigger = 1;
  LocalRange range(options);
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(1), "old"), Outcome::kOk);
  const auto forgotten = range.TakeSnapshot(Now() + 200 * kMillisecond),
             kept = range.TakeSnapshot(Now() + 200 * kMillisecond);
  ASSERT_TRUE(kept->Renew(Now(), kNever));
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(1), "new"), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(1), forgotten.get()), "old");
  SleepUntil(Now() + 250 * kMillisecond);
  std::optional<Outcome> outcome;
  range.range()->GetAt(range.executor(), *forgotten, KeyOf(1), kNever,
                       [&](Outcome o, std::string_view) { outcome = o; });
  EXPECT_EQ(outcome, Outcome::kSnapshotEnded);
  outcome.reset();
  range.range()->Scan(range.executor(), {"", "", 10, kNever, forgotten},
                      [&](Outcome o, ScanPage) { outcome = o; });
  EXPECT_EQ(outcome, Outcome::kSnapshotEnded);
  outcome.reset();
  range.range()->MultiGet(
      range.executor(), {KeyOf(1)}, forgotten, kNever,
      [&](Outcome o, std::vector<std::optional<std::string>>, std::string_view) { outcome = o; });
  EXPECT_EQ(outcome, Outcome::kSnapshotEnded);
  range.range()->SealActive();
  while (range.range()->stats().rounds > 1) SleepFor(kMillisecond);
  EXPECT_FALSE(forgotten->Renew(Now(), kNever));
  EXPECT_EQ(range.Get(KeyOf(1), kept.get()), "old");
  EXPECT_EQ(range.Get(KeyOf(1)), "new");
}

// K7: the newest version hides older ones also when it has expired, and the wall clock may not bring back
// what was dropped.
TEST(RangeTest, AnExpiredVersionHidesOlderOnesAndIsDropped) {
  RangeOptions options;
  options.compaction.level0_runs_trigger = 1;
  LocalRange range(options);
  const auto put = [&](std::string_view value, int64_t ttl_ms) {
    const std::string key = KeyOf(1);
    const WriteEntry entry{ValueType::kPutTtl, key, value, ttl_ms};
    return range.Write({&entry, 1});
  };
  const auto drain = [&] {
    range.range()->SealActive();
    while (range.range()->stats().rounds > 1 || range.range()->stats().level0_runs > 0)
      SleepFor(kMillisecond);
  };
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(1), "older"), Outcome::kOk);
  drain();
  EXPECT_EQ(put("soon gone", 300), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(1)), "soon gone");
  EXPECT_EQ(range.CompareAndSwap(KeyOf(1), "soon gone?", "x"), Outcome::kConditionFailed);
  SleepFor(350 * kMillisecond);
  EXPECT_EQ(range.Get(KeyOf(1)), std::nullopt);
  EXPECT_EQ(range.Scan("", 10).size(), 0u);
  drain();
  EXPECT_EQ(range.Get(KeyOf(1)), std::nullopt);
  EXPECT_EQ(range.range()->stats().tables, 0u) << "the bottom keeps nothing of an expired key";
  EXPECT_EQ(range.CompareAndSwap(KeyOf(1), std::nullopt, "there again"), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(1)), "there again");
  EXPECT_EQ(put("x", -1), Outcome::kInvalidArgument);
}

// Keys that ascend, as times do: nothing ever overlaps their tables, which no merge reads again.
TEST(RangeTest, K7TablesThatHaveExpiredGoUnread) {
  RangeOptions options;
  options.compaction.level0_runs_trigger = 1;
  LocalRange range(options);
  const auto put = [&](int i, int64_t ttl_ms) {
    const std::string key = KeyOf(i);
    const WriteEntry entry{ttl_ms == 0 ? ValueType::kPut : ValueType::kPutTtl, key, "value", ttl_ms};
    ASSERT_EQ(range.Write({&entry, 1}), Outcome::kOk);
  };
  const auto drain = [&] {
    range.range()->SealActive();
    while (range.range()->stats().rounds > 1 || range.range()->stats().level0_runs > 0)
      SleepFor(kMillisecond);
  };
  constexpr int kTables = 8;
  constexpr int64_t kTtlMs = 1000;
  const int64_t begin = WallNowMs();
  for (int i = 0; i < kTables; ++i) {
    put(2 * i, kTtlMs);
    if (i == 3) put(2 * i + 1, 0);  // stays, and its table with it
    drain();
  }
  const int64_t end = WallNowMs();
  const bool in_time = end < begin + kTtlMs;  // else some went while others were put
  EXPECT_TRUE(!in_time || range.range()->stats().tables == kTables);
  SleepFor((kTtlMs + 50) * kMillisecond);
  put(100, 0);
  drain();
  for (const Nanos until = Now() + 20 * kSecond; range.range()->stats().tables > 2 && Now() < until;)
    SleepFor(kMillisecond);
  EXPECT_EQ(range.range()->stats().tables, 2u);
  EXPECT_GE(range.range()->points().published_now_ms(), begin + kTtlMs);
  EXPECT_LE(range.range()->points().published_now_ms(), end + kTtlMs);
  EXPECT_EQ(range.Get(KeyOf(7)), "value");
  EXPECT_EQ(range.Get(KeyOf(6)), std::nullopt);
  EXPECT_EQ(range.Get(KeyOf(100)), "value");
}

// A merge publishes no time of the clock, which may be ahead for a moment: only what it has dropped by it.
TEST(RangeTest, K7AMergePublishesTheExpiryOfWhatItDropped) {
  RangeOptions options;
  options.compaction.level0_runs_trigger = 1;
  LocalRange range(options);
  const auto drain = [&] {
    range.range()->SealActive();
    while (range.range()->stats().rounds > 1 || range.range()->stats().level0_runs > 0)
      SleepFor(kMillisecond);
  };
  for (const char* value : {"older", "newer"}) {
    ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(1), value), Outcome::kOk);
    drain();
  }
  EXPECT_EQ(range.range()->points().published_now_ms(), 0) << "nothing had expired";
  constexpr int64_t kTtlMs = 100;
  const std::string key = KeyOf(1);
  const WriteEntry entry{ValueType::kPutTtl, key, "soon gone", kTtlMs};
  const int64_t before = WallNowMs();
  ASSERT_EQ(range.Write({&entry, 1}), Outcome::kOk);
  const int64_t after = WallNowMs();
  SleepFor((kTtlMs + 50) * kMillisecond);
  drain();
  EXPECT_EQ(range.range()->stats().tables, 0u);
  EXPECT_GE(range.range()->points().published_now_ms(), before + kTtlMs);
  EXPECT_LE(range.range()->points().published_now_ms(), after + kTtlMs);
}

// A log that promises more of synced records than of others, as one on a disk does, and notes which rounds
// are deleted, and the bytes of keys and values of those that are not.
class LogThatSyncs : public RangeLog {
 public:
  explicit LogThatSyncs(std::vector<RoundNumber>* deleted = nullptr) : deleted_(deleted) {}
  Outcome Append(Executor* on, const LogRecord& r, absl::AnyInvocable<void(Outcome)> done) override {
    for (const LogEntry& e : r.entries) bytes_[r.round] += e.key.size() + e.value.size();
    return log_->Append(on, r, std::move(done));
  }
  void DeleteRound(RoundNumber round) override {
    if (deleted_ != nullptr) deleted_->push_back(round);
    bytes_.erase(round);
  }
  size_t bytes_kept() const {
    size_t n = 0;
    for (const auto& [round, bytes] : bytes_) n += bytes;
    return n;
  }
  void Fence() override {}
  size_t bytes_in_flight() const override { return 0; }
  bool sync_matters() const override { return true; }

 private:
  const std::unique_ptr<RangeLog> log_ = NewNullLog();
  std::vector<RoundNumber>* const deleted_;
  std::map<RoundNumber, size_t> bytes_;
};

// Two rounds of the same ten keys, the older one sealed, flushed while the younger one is in memory.
class ReplacedTest : public testing::Test {
 protected:
  static RangeOptions Options() {
    RangeOptions options;
    options.max_rounds = 12;
    options.level0_slow_runs = 100;  // one round a flush
    options.level0_stop_runs = 200;
    return options;
  }
  void Write(const std::string& value, bool sync = false) {
    for (uint64_t i = 0; i < 10; ++i)
      ASSERT_EQ(range_.Write(ValueType::kPut, KeyOf(i), value, sync), Outcome::kOk);
  }
  void Expect(const std::string& value, const Snapshot* at = nullptr) {
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(range_.Get(KeyOf(i), at), value);
  }
  // How many tables the flush of the oldest round makes.
  size_t Flush() {
    const size_t before = range_.range()->stats().tables;
    const int rounds = range_.range()->stats().rounds;
    EXPECT_TRUE(range_.range()->FlushOne());
    EXPECT_EQ(range_.range()->stats().rounds, rounds - 1);
    return range_.range()->stats().tables - before;
  }

  LocalRange range_{Options(), "", "", Background::kByHand};
};

TEST_F(ReplacedTest, K4AFlushLeavesOutWhatAYoungerRoundHasReplaced) {
  Write("old");
  ASSERT_TRUE(range_.range()->SealActive());
  Write("new");
  EXPECT_EQ(Flush(), 0u);
  Expect("new");
  range_.Close();  // flushes what is left
  range_.Open();
  Expect("new");
}

TEST_F(ReplacedTest, K4NotWhatASnapshotSees) {
  Write("old");
  ASSERT_TRUE(range_.range()->SealActive());
  const auto snapshot = range_.TakeSnapshot();
  Write("new");
  EXPECT_EQ(Flush(), 1u);
  Expect("old", snapshot.get());
  Expect("new");
}

TEST_F(ReplacedTest, M2NotWhatACheckpointPins) {
  Write("old");
  Status made;
  {
    Thread checkpoint("checkpoint",
                      [&] { made = range_.range()->checkpoints().Create("old", Now() + 60 * kSecond); });
    while (range_.range()->stats().rounds < 2) SleepFor(kMillisecond);  // until it has sealed what it wants
    Write("new");
    EXPECT_EQ(Flush(), 1u);
  }
  ASSERT_TRUE(made.ok()) << made;
  ASSERT_TRUE(range_.range()->checkpoints().Restore("old", Now() + 60 * kSecond).ok());
  Expect("old");
}

TEST_F(ReplacedTest, NotWhatWasThereWhenAFlushWasAskedFor) {
  Write("old");
  const SequenceNumber upto = range_.range()->BeginFlush();
  ASSERT_TRUE(range_.range()->SealUpTo(upto));
  Write("new");
  EXPECT_FALSE(range_.range()->FlushedUpTo(upto));
  EXPECT_EQ(Flush(), 1u);
  EXPECT_TRUE(range_.range()->FlushedUpTo(upto));
  // What is younger has no part in that.
  ASSERT_TRUE(range_.range()->SealActive());
  Write("newer");
  EXPECT_EQ(Flush(), 0u);
  Expect("newer");
}

TEST_F(ReplacedTest, NotForWhatIsLessDurable) {
  range_.Close();
  range_.Open(std::make_unique<LogThatSyncs>());
  Write("old", /*sync=*/true);
  ASSERT_TRUE(range_.range()->SealActive());
  Write("new", /*sync=*/false);
  EXPECT_EQ(Flush(), 1u);
  ASSERT_TRUE(range_.range()->SealActive());
  Write("newer", /*sync=*/true);
  EXPECT_EQ(Flush(), 0u);
  Expect("newer");
}

// Tables hold keys that are never left alone, too, however their writes fall between flushes: a loss of all
// memory sets none back far.
TEST_F(ReplacedTest, NothingIsOverdueForLongerThanTheLag) {
  constexpr int kRounds = 40, kInMemory = 5;
  const auto number = [](int n) { return StrCat(std::string(n < 10 ? 1 : 0, '0'), n); };
  for (const Nanos lag : {Nanos{0}, 3600 * kSecond}) {
    RangeOptions options = Options();
    options.table_lag_ns = lag;
    LocalRange range(options, "", "", Background::kByHand);
    for (int round = 0; round < kRounds; ++round) {
      for (int every = 1; every <= 4; ++every) {
        if (round % every == 0) {
          ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(every), number(round)), Outcome::kOk);
        }
      }
      ASSERT_TRUE(range.range()->SealActive());
      if (round >= kInMemory) {
        ASSERT_TRUE(range.range()->FlushOne());
      }
    }
    range.LoseMemory();
    for (int every = 1; every <= 4; ++every) {
      const std::string value = range.Get(KeyOf(every)).value_or("");
      if (lag == 0) {
        EXPECT_GE(value, number(kRounds - 2 * kInMemory - 4)) << "written every " << every << " rounds";
      } else {
        EXPECT_EQ(value, "") << "written every " << every << " rounds, and always replaced";
      }
    }
  }
}

// The disk below a range: a table takes it 100 ms, and it can stand still.
class SlowDisk {
 public:
  explicit SlowDisk(LocalRange* range) : range_(range) {
    range->set_before_table([this] {
      writing_ = true;
      SleepFor(100 * kMillisecond);
      while (stands_still_.load()) SleepFor(kMillisecond);
    });
  }
  ~SlowDisk() { range_->set_before_table(nullptr); }
  // Runs `fn` while another thread's flush waits for the disk.
  void DuringAFlush(const std::function<void()>& fn) {
    writing_ = false;
    stands_still_ = true;
    Thread flush("flush", [&] { EXPECT_TRUE(range_->range()->FlushOne()); });
    while (!writing_.load()) SleepFor(kMillisecond);
    fn();
    stands_still_ = false;
  }

 private:
  LocalRange* const range_;
  std::atomic<bool> writing_{false}, stands_still_{false};
};

// Flushes that wait for one disk, and find some of their entries replaced, wait for one another.
TEST(RangeTest, FlushesThatWaitForOneDiskGoOneAfterAnother) {
  RangeOptions options;
  options.max_rounds = 8;
  options.merge_rounds = MergeRounds::kNever;
  LocalRange range(options, "", "", Background::kByHand);
  range.services()->one_disk = true;
  for (uint64_t round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i < 10 ? i : 100 * round + i),
                            "ten of each round are replaced by the next"),
                Outcome::kOk);
    }
    ASSERT_TRUE(range.range()->SealActive());
  }
  SlowDisk disk(&range);
  ASSERT_TRUE(range.range()->FlushOne());
  disk.DuringAFlush([&] { EXPECT_FALSE(range.range()->FlushOne()); });
  EXPECT_TRUE(range.range()->FlushOne());
  EXPECT_EQ(range.range()->stats().rounds, 2);
}

// Rounds that writers take their time for, above a disk that flushes wait for.
class HeldRoundsTest : public testing::Test {
 public:
  static RangeOptions Options(Nanos lag = 3600 * kSecond, MergeRounds merges = MergeRounds::kAuto) {
    RangeOptions options;
    options.memtable_size_bytes = 64 << 10;
    options.active_memtables = 1;
    options.max_rounds = 8;
    options.table_lag_ns = lag;
    options.merge_rounds = merges;
    return options;
  }

 protected:
  // of a round, which no other round has, and which nearly fill it: to merge them gains nothing
  static constexpr uint64_t kKeys = 55;
  void Open(const RangeOptions& options, std::unique_ptr<RangeLog> log = nullptr) {
    disk_ = nullptr;
    range_ = std::make_unique<LocalRange>(options, "", "", Background::kByHand);
    range_->services()->one_disk = true;
    if (log != nullptr) {
      range_->Close();
      range_->Open(std::move(log));
    }
    disk_ = std::make_unique<SlowDisk>(range_.get());
    rounds_ = 0;
    WriteAndSeal();
    const Nanos begin = Now();
    ASSERT_TRUE(range_->range()->FlushOne()) << "nothing is known of the disk";
    flush_ns_ = Now() - begin;
  }
  void TearDown() override { disk_ = nullptr; }
  void WriteAndSeal() {
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_EQ(
          range_->Write(ValueType::kPut, KeyOf(rounds_ * kKeys + i), std::string(1000, 'v'), /*sync=*/true),
          Outcome::kOk);
    }
    SleepFor(2 * flush_ns_);
    ++rounds_;
    ASSERT_TRUE(range_->range()->SealActive());
  }
  void WriteAndSealQuickly() {
    flush_ns_ = 0;
    WriteAndSeal();
  }
  void ExpectHeld(int rounds) {
    EXPECT_FALSE(range_->range()->FlushOne());
    EXPECT_EQ(range_->range()->stats().rounds, rounds + 1);
  }
  void ExpectFlushedTogether() {
    const int runs = range_->range()->stats().level0_runs;
    EXPECT_TRUE(range_->range()->FlushOne());
    EXPECT_EQ(range_->range()->stats().rounds, 1);
    EXPECT_EQ(range_->range()->stats().level0_runs, runs + 1);
    EXPECT_EQ(range_->Scan("", 10'000).size(), rounds_ * kKeys);
  }

  std::unique_ptr<LocalRange> range_;
  std::unique_ptr<SlowDisk> disk_;
  Nanos flush_ns_ = 0;
  uint64_t rounds_ = 0;
};

TEST_F(HeldRoundsTest, StayInMemoryWhileItLasts) {
  Open(Options());
  for (int held = 1; held <= 3; ++held) {
    WriteAndSeal();
    ExpectHeld(held);
  }
  EXPECT_LE(range_->range()->stats().pressure, WriteController::kSoft);
  WriteAndSeal();  // half of what may wait
  ExpectFlushedTogether();
  WriteAndSeal();
  ExpectHeld(1);
}

TEST_F(HeldRoundsTest, GoWhenWritersBecomeFaster) {
  Open(Options());
  WriteAndSeal();
  ExpectHeld(1);
  WriteAndSealQuickly();
  EXPECT_TRUE(range_->range()->FlushOne()) << "memory would be full before the disk has taken what is in it";
}

TEST_F(HeldRoundsTest, GoWhenTheyAreAskedFor) {
  Open(Options());
  WriteAndSeal();
  WriteAndSeal();
  ExpectHeld(2);
  range_->range()->FlushHeld();
  ExpectFlushedTogether();
  WriteAndSeal();
  ExpectHeld(1);
  const SequenceNumber upto = range_->range()->BeginFlush();
  ExpectFlushedTogether();
  EXPECT_TRUE(range_->range()->FlushedUpTo(upto));
  WriteAndSeal();
  ExpectHeld(1);
}

TEST_F(HeldRoundsTest, GoAfterTheLag) {
  Open(Options(/*lag=*/500 * kMillisecond));
  WriteAndSeal();
  SleepFor(500 * kMillisecond);
  ExpectFlushedTogether();
}

TEST_F(HeldRoundsTest, AreNotHeldWithRangeDeletionsOrALogOrByChoice) {
  Open(Options());
  ASSERT_EQ(range_->Write(ValueType::kDeleteRange, KeyOf(900'000), KeyOf(990'000)), Outcome::kOk);
  WriteAndSeal();
  ExpectFlushedTogether();  // K7: the list of them is bounded
  Open(Options(), std::make_unique<LogThatSyncs>());
  WriteAndSeal();
  ExpectFlushedTogether();  // whose logs are to stay no longer than without merges
  Open(Options(3600 * kSecond, MergeRounds::kNever));
  WriteAndSeal();
  ExpectFlushedTogether();
}

TEST_F(HeldRoundsTest, StayWithALogThatMayStay) {
  RangeOptions options = Options();
  options.log_share = 2;
  Open(options, std::make_unique<LogThatSyncs>());
  WriteAndSeal();
  ExpectHeld(1);
  WriteAndSeal();
  ExpectHeld(2);
}

TEST_F(HeldRoundsTest, M2ACheckpointIsNotHeldBack) {
  Open(Options());
  WriteAndSeal();
  ExpectHeld(1);
  Status made;
  {
    Thread checkpoint("checkpoint",
                      [&] { made = range_->range()->checkpoints().Create("one", Now() + 60 * kSecond); });
    for (const Nanos until = Now() + 30 * kSecond; !range_->range()->FlushOne() && Now() < until;)
      SleepFor(kMillisecond);
  }
  EXPECT_TRUE(made.ok()) << made;
}

// Rounds that hold the same hundred keys twice each, merged in memory as the test says.
class MergedRoundsTest : public testing::Test {
 public:
  static RangeOptions Options(MergeRounds merges = MergeRounds::kNever) {  // but by hand
    RangeOptions options;
    options.max_rounds = 8;
    options.merge_rounds = merges;
    return options;
  }

 protected:
  void WriteRound(int round) {
    for (uint64_t i = 0; i < 200; ++i)
      ASSERT_EQ(range_.Write(ValueType::kPut, KeyOf(i % 100), StrCat("round ", round)), Outcome::kOk);
  }
  void WriteAndSeal(int round) {
    WriteRound(round);
    ASSERT_TRUE(range_.range()->SealActive());
  }
  void ExpectAll(int round, std::shared_ptr<const Snapshot> at = nullptr) {
    const std::string value = StrCat("round ", round);
    auto all = range_.Scan("", 1000, at);
    ASSERT_EQ(all.size(), 100u);
    for (const auto& [key, v] : all) EXPECT_EQ(v, value) << key;
    auto reverse = range_.Scan("", 1000, at, /*reverse=*/true);
    std::reverse(reverse.begin(), reverse.end());
    EXPECT_EQ(reverse, all);
    for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(range_.Get(KeyOf(i), at.get()), value);
  }
  size_t MemtableBytes() { return range_.range()->stats().memtable_bytes; }
  int Rounds() { return range_.range()->stats().rounds; }

  std::vector<RoundNumber> deleted_;  // logs
  LocalRange range_{Options(), "", "", Background::kByHand};
};

TEST_F(MergedRoundsTest, K3TakeThePlaceOfWhatTheyWere) {
  for (int round = 1; round <= 3; ++round) WriteAndSeal(round);
  const size_t before = MemtableBytes();
  ASSERT_TRUE(range_.range()->MergeSealed());
  EXPECT_EQ(Rounds(), 2);
  EXPECT_LT(MemtableBytes(), before / 4);
  ExpectAll(3);
  EXPECT_FALSE(range_.range()->MergeSealed()) << "all of its keys are different ones";
  for (int round = 4; round <= 5; ++round) {
    WriteAndSeal(round);
    ASSERT_TRUE(range_.range()->MergeSealed()) << "with what was merged before";
    ExpectAll(round);
  }
  EXPECT_EQ(Rounds(), 2);
  EXPECT_EQ(range_.range()->stats().merges, 3u);
  WriteRound(6);
  ASSERT_TRUE(range_.range()->FlushOne());
  EXPECT_EQ(Rounds(), 1);
  ExpectAll(6);
  range_.Close();
  range_.Open();
  ExpectAll(6);
}

TEST_F(MergedRoundsTest, HoldDeletionsAndTimesToLive) {
  WriteAndSeal(1);
  ASSERT_TRUE(range_.range()->FlushOne());
  for (const char* value : {"soon replaced", "lives long"}) {
    const std::string key = KeyOf(1);
    const WriteEntry entry{ValueType::kPutTtl, key, value, 3'600'000};
    ASSERT_EQ(range_.Write({&entry, 1}), Outcome::kOk);
    for (uint64_t i = 2; i < 50; ++i) ASSERT_EQ(range_.Write(ValueType::kDelete, KeyOf(i), ""), Outcome::kOk);
    ASSERT_EQ(range_.Write(ValueType::kDeleteRange, KeyOf(50), KeyOf(100)), Outcome::kOk);
    ASSERT_EQ(range_.Write(ValueType::kPut, KeyOf(60), value), Outcome::kOk);
  }
  ASSERT_TRUE(range_.range()->SealActive());
  ASSERT_TRUE(range_.range()->MergeSealed());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {KeyOf(0), "round 1"}, {KeyOf(1), "lives long"}, {KeyOf(60), "lives long"}};
  EXPECT_EQ(range_.Scan("", 1000), expected);
  ASSERT_TRUE(range_.range()->FlushOne());
  EXPECT_EQ(range_.Scan("", 1000), expected);
  range_.Close();
  range_.Open();
  EXPECT_EQ(range_.Scan("", 1000), expected);
}

TEST_F(MergedRoundsTest, K4KeepWhatASnapshotSees) {
  WriteAndSeal(1);
  const auto first = range_.TakeSnapshot();
  WriteAndSeal(2);
  WriteRound(3);
  const auto third = range_.TakeSnapshot();
  WriteRound(4);
  ASSERT_TRUE(range_.range()->SealActive());
  ASSERT_TRUE(range_.range()->MergeSealed());
  EXPECT_FALSE(range_.range()->MergeSealed())
      << "once: what snapshots see would be copied for as long as they live";
  EXPECT_EQ(Rounds(), 2);
  ExpectAll(1, first);
  ExpectAll(3, third);
  WriteAndSeal(5);
  ASSERT_TRUE(range_.range()->MergeSealed());
  ExpectAll(1, first);
  ExpectAll(3, third);
  ExpectAll(5);
  EXPECT_EQ(Rounds(), 2);
  ASSERT_TRUE(range_.range()->FlushOne());
  ExpectAll(1, first);
  ExpectAll(3, third);
  ExpectAll(5);
}

// What was merged has the memory that it needs, no round's; all of it stays within what rounds may have.
TEST(RangeTest, MergedRoundsTakeTheMemoryThatTheyNeed) {
  constexpr uint64_t kKeys = 500, kWrites = 40'000;
  constexpr int kRounds = 4;
  RangeOptions options;
  options.memtable_size_bytes = 2 << 20;
  options.active_memtables = 1;
  options.max_rounds = kRounds;
  options.merge_rounds = MergeRounds::kNever;  // but by hand
  LocalRange range(options, "", "", Background::kByHand);
  const auto value = [](uint64_t i) { return StrCat(i, std::string(1000, 'v')); };
  for (uint64_t i = 0; range.range()->stats().rounds < kRounds; ++i) {
    ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i % kKeys), value(i)), Outcome::kOk);
  }
  EXPECT_FALSE(range.range()->MergeSealed()) << "there is no room for a copy";
  ASSERT_TRUE(range.range()->FlushOne());
  const size_t tables = range.range()->stats().tables;
  size_t most = 0;
  for (uint64_t i = 0; i < kWrites; ++i) {
    ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i % kKeys), value(i)), Outcome::kOk);
    if (range.range()->stats().rounds > 2) {
      ASSERT_TRUE(range.range()->MergeSealed());
    }
    most = std::max(most, range.services()->arenas->bytes_used());
  }
  EXPECT_LE(most, kRounds * (options.memtable_size_bytes + ArenaPool::kChunkBytes));
  EXPECT_EQ(range.range()->stats().tables, tables)
      << "five times the memory was written, and nothing had to be flushed";
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(range.Get(KeyOf(i)), value(kWrites - kKeys + i));
}

// A key of its own takes as much memory as a small value: it is there once, and not once a version.
TEST(RangeTest, RoundsOfSmallValuesAreMerged) {
  RangeOptions options;
  options.memtable_size_bytes = 2 << 20;
  options.active_memtables = 1;
  options.max_rounds = 8;
  options.merge_rounds = MergeRounds::kNever;  // but by hand
  LocalRange range(options, "", "", Background::kByHand);
  uint64_t writes = 0;
  while (range.range()->stats().rounds < 4) {
    ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(writes++ / 3), std::string(100, 'v')), Outcome::kOk);
  }
  EXPECT_TRUE(range.range()->MergeSealed());
  EXPECT_EQ(range.range()->stats().merges, 1u);
}

// Logs of rounds that are merged stay, and are bounded: what they take counts as memory would, so that rounds
// are flushed before it is too much.
TEST(RangeTest, LogsOfMergedRoundsAreBounded) {
  constexpr uint64_t kKeys = 300, kWrites = 20'000, kRounds = 4;
  for (const double log_share : {1.0, 3.0}) {
    RangeOptions options;
    options.memtable_size_bytes = 1 << 20;
    options.active_memtables = 1;
    options.max_rounds = kRounds;
    options.merge_rounds = MergeRounds::kAlways;
    options.log_share = log_share;
    LocalRange range(options, "", "", Background::kByHand);
    range.Close();
    auto owned = std::make_unique<LogThatSyncs>();
    const LogThatSyncs* const log = owned.get();
    range.Open(std::move(owned));
    size_t most = 0;
    for (uint64_t i = 0; i < kWrites; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i % kKeys), std::string(1000, 'v')), Outcome::kOk);
      most = std::max(most, log->bytes_kept());
      if (range.range()->stats().rounds > 1) range.range()->FlushOne();
    }
    const double memory = static_cast<double>(kRounds * options.memtable_size_bytes);
    EXPECT_LE(static_cast<double>(most), log_share * memory);
    const RangeStats stats = range.range()->stats();
    if (log_share == 1) {
      EXPECT_EQ(stats.merges, 0u) << "a merge would gain nothing";
    } else {
      EXPECT_GT(static_cast<double>(most), memory) << "logs never stayed for a merge";
      EXPECT_GT(stats.merged_away_entries, kWrites / 2);
      EXPECT_GT(stats.merged_away_bytes, 1000 * kWrites / 2);
    }
  }
}

// Who has to wait for another flush merges meanwhile, whether flushes wait for one disk or for several; not
// where a log would have to stay for it, and may not.
TEST(RangeTest, RoundsAreMergedWhileAFlushWaitsForDisks) {
  struct Case {
    bool one_disk, with_log;
    double log_share;
    bool merges;
  };
  for (const Case& c :
       {Case{true, false, 1, true}, Case{true, true, 1, false}, Case{true, true, 2, true},
        Case{false, false, 1, true}, Case{false, true, 1, false}, Case{false, true, 2, true}}) {
    RangeOptions options = MergedRoundsTest::Options(MergeRounds::kAuto);
    options.log_share = c.log_share;
    options.max_rounds = 9;
    LocalRange range(options, "", "", Background::kByHand);
    range.services()->one_disk = c.one_disk;
    if (c.with_log) {
      range.Close();
      range.Open(std::make_unique<LogThatSyncs>());
    }
    uint64_t number = 0;
    const auto write = [&](int rounds) {
      for (; rounds > 0; --rounds) {
        number += 100;
        for (uint64_t i = 0; i < 40; ++i) {  // each twice, half of them in every round
          ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i % 20 < 10 ? i % 20 : number + i % 20), "value",
                                /*sync=*/true),
                    Outcome::kOk);
        }
        ASSERT_TRUE(range.range()->SealActive());
      }
    };
    write(2);
    SlowDisk disk(&range);
    ASSERT_TRUE(range.range()->FlushOne());
    write(4);  // one more than a flush takes, with the one that is left
    disk.DuringAFlush([&] {
      EXPECT_EQ(range.range()->FlushOne(), c.merges);
      EXPECT_EQ(range.range()->stats().merges, c.merges ? 1u : 0u);
    });
  }
}

// On several disks each table has one of its own: stored one after another they would wait for each in turn.
TEST(RangeTest, TablesOfAFlushAreStoredSideBySideWhereThereAreSeveralDisks) {
  for (const bool one_disk : {false, true}) {
    RangeOptions options = MergedRoundsTest::Options(MergeRounds::kNever);
    options.memtable_size_bytes = 4 << 20;
    options.compaction.table_size_bytes = 64 << 10;
    LocalRange range(options, "", "", Background::kByHand);
    range.services()->one_disk = one_disk;
    const auto value_of = [](int i) { return std::string(10'000, static_cast<char>('a' + i % 26)); };
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(static_cast<uint64_t>(i)), value_of(i)), Outcome::kOk);
    Mutex mu;
    CondVar changed;
    int under_way = 0, most = 0, tables = 0;
    range.set_before_table([&] {
      const Nanos until = Now() + 10 * kSecond;
      MutexLock lock(&mu);
      ++tables;
      most = std::max(most, ++under_way);
      changed.SignalAll();
      while (!one_disk && most < 3 && changed.WaitUntil(&mu, until)) {
      }
      --under_way;
    });
    ASSERT_TRUE(range.range()->SealActive());
    ASSERT_TRUE(range.range()->FlushOne());
    range.set_before_table({});
    EXPECT_GT(tables, 8);
    EXPECT_EQ(range.range()->stats().level0_runs, 1);
    EXPECT_EQ(most >= 3, !one_disk) << most;
    for (int i = 0; i < 100; ++i) EXPECT_EQ(range.Get(KeyOf(static_cast<uint64_t>(i))), value_of(i));
  }
}

TEST_F(MergedRoundsTest, M2AreNotMergedAcrossACheckpoint) {
  WriteAndSeal(1);
  WriteRound(2);
  Status made;
  {
    Thread checkpoint("checkpoint",
                      [&] { made = range_.range()->checkpoints().Create("two", Now() + 60 * kSecond); });
    while (Rounds() < 3) SleepFor(kMillisecond);  // until it has sealed what it wants
    EXPECT_FALSE(range_.range()->MergeSealed());
    WriteAndSeal(3);
    WriteAndSeal(4);
    ASSERT_TRUE(range_.range()->MergeSealed());
    EXPECT_EQ(Rounds(), 4);
    ASSERT_TRUE(range_.range()->FlushOne());
    ASSERT_TRUE(range_.range()->FlushOne());
  }
  ASSERT_TRUE(made.ok()) << made;
  ExpectAll(4);
  ASSERT_TRUE(range_.range()->checkpoints().Restore("two", Now() + 60 * kSecond).ok());
  ExpectAll(2);
}

TEST_F(MergedRoundsTest, M2ACheckpointThatComesMeanwhileComesFirst) {
  WriteAndSeal(1);
  WriteAndSeal(2);
  Status made;
  std::unique_ptr<Thread> checkpoint;
  ASSERT_TRUE(ArmFailPoint("rounds.merged", 1, [&] {
                checkpoint = std::make_unique<Thread>("checkpoint", [&] {
                  made = range_.range()->checkpoints().Create("two", Now() + 60 * kSecond);
                });
                // it is attached, or else it finds one round and this shows nothing
                SleepFor(100 * kMillisecond);
                return OkStatus();
              }).ok());
  EXPECT_FALSE(range_.range()->MergeSealed());
  DisarmFailPoints();
  EXPECT_EQ(Rounds(), 3);
  WriteAndSeal(3);
  ASSERT_TRUE(range_.range()->FlushOne());
  ASSERT_TRUE(range_.range()->FlushOne());
  checkpoint = nullptr;  // joins
  ASSERT_TRUE(made.ok()) << made;
  ASSERT_TRUE(range_.range()->checkpoints().Restore("two", Now() + 60 * kSecond).ok());
  ExpectAll(2);
}

// M3: what the manifest calls done, and the logs that go, are those of all rounds that were merged.
TEST_F(MergedRoundsTest, M3LeaveNoLogBehind) {
  range_.Close();
  range_.Open(std::make_unique<LogThatSyncs>(&deleted_));
  const RoundNumber first = range_.range()->points().sequences().last() + 1;
  for (int round = 1; round <= 3; ++round) WriteAndSeal(round);
  ASSERT_TRUE(range_.range()->MergeSealed());
  EXPECT_TRUE(deleted_.empty()) << "what they hold is in no table yet";
  WriteAndSeal(4);
  ASSERT_TRUE(range_.range()->FlushOne());
  EXPECT_EQ(deleted_, (std::vector<RoundNumber>{first, first + 200, first + 400}));
}

TEST_F(MergedRoundsTest, AreFlushedBeforeAFlushThatWasAskedForEnds) {
  WriteRound(1);
  const SequenceNumber upto = range_.range()->BeginFlush();
  ASSERT_TRUE(range_.range()->SealUpTo(upto));
  WriteAndSeal(2);
  ASSERT_TRUE(range_.range()->MergeSealed());
  WriteRound(3);
  EXPECT_FALSE(range_.range()->FlushedUpTo(upto));
  ASSERT_TRUE(range_.range()->FlushOne());
  EXPECT_TRUE(range_.range()->FlushedUpTo(upto));
  range_.LoseMemory();
  ExpectAll(2);
}

// Rounds that hold the same keys again and again go to Level0 as one run (K3b), but never past a checkpoint
// (M2).
TEST(RangeTest, K3bRoundsOfTheSameKeysAreFlushedTogether) {
  RangeOptions options;
  options.max_rounds = 8;
  LocalRange range(options, "", "", Background::kByHand);
  const auto write = [&](int round) {
    for (uint64_t i = 0; i < 200; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i % 100), StrCat("round ", round)), Outcome::kOk);
    }
  };
  const auto expect_all = [&](const std::string& value) {
    const auto all = range.Scan("", 1000);
    EXPECT_EQ(all.size(), 100u);
    for (const auto& [key, v] : all) EXPECT_EQ(v, value) << key;
    EXPECT_EQ(range.Get(KeyOf(7)), value);
  };
  for (int round = 1; round <= 7; ++round) {
    write(round);
    ASSERT_TRUE(range.range()->SealActive());
    if (round == 1) {
      ASSERT_TRUE(range.range()->FlushOne());  // by itself: nothing is known of the keys
    }
  }
  EXPECT_EQ(range.range()->stats().rounds, 7);
  ASSERT_TRUE(range.range()->FlushOne());  // half of the rounds there may be
  EXPECT_EQ(range.range()->stats().rounds, 3);
  EXPECT_EQ(range.range()->stats().level0_runs, 1) << "younger rounds have replaced all of it";
  expect_all("round 7");

  write(8);
  Status made;
  {
    Thread checkpoint("checkpoint",
                      [&] { made = range.range()->checkpoints().Create("eight", Now() + 60 * kSecond); });
    while (range.range()->stats().rounds < 4) SleepFor(kMillisecond);  // until it has sealed what it wants
    write(9);
    ASSERT_TRUE(range.range()->SealActive());
    ASSERT_TRUE(range.range()->FlushOne());
  }
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_EQ(range.range()->stats().rounds, 2);
  EXPECT_EQ(range.range()->stats().level0_runs, 2)
      << "three rounds are one run, and the ninth is younger than the checkpoint";
  expect_all("round 9");
  range.Close();
  range.Open();
  expect_all("round 9");
  ASSERT_TRUE(range.range()->checkpoints().Restore("eight", Now() + 60 * kSecond).ok());
  expect_all("round 8");
}

// M2: what a checkpoint pins stays, over compactions and an orderly close, and goes when the last that names
// it is deleted.
TEST(RangeTest, M2ACheckpointsTablesStayUntilItIsDeleted) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  options.compaction.level0_runs_trigger = 1;
  LocalRange range(options);
  const auto write_all = [&](const std::string& value) {
    for (uint64_t i = 0; i < 300; ++i)
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), value + std::string(500, 'v')), Outcome::kOk);
  };
  const Nanos deadline = Now() + 60 * kSecond;
  ASSERT_TRUE(range.range()->checkpoints().Create("empty", deadline).ok());
  write_all("first");
  ASSERT_TRUE(range.range()->checkpoints().Create("first", deadline).ok());
  ASSERT_TRUE(range.range()->checkpoints().Create("again", deadline).ok())
      << "nothing was written in between";
  for (const char* value : {"second", "third"}) write_all(value);
  range.Close();
  ASSERT_NO_FATAL_FAILURE(range.Open());
  std::set<std::string> pinned;
  {
    const auto checkpoints = range.range()->checkpoints().List();
    ASSERT_EQ(checkpoints.size(), 3u);
    EXPECT_EQ(checkpoints[0]->name, "again");
    EXPECT_EQ(checkpoints[0]->sequence, checkpoints[2]->sequence);
    for (const auto& run : checkpoints[0]->runs) {
      for (const TableRef& t : run.tables) pinned.insert(t->info().uuid.ToString() + ".sst");
    }
  }
  ASSERT_FALSE(pinned.empty());
  const auto all_there = [&] {
    const auto files = range.TableFiles();
    return std::includes(files.begin(), files.end(), pinned.begin(), pinned.end());
  };
  // Compactions that run now may still bring and take files.
  const auto only_the_versions = [&] {
    for (const Nanos until = Now() + 20 * kSecond; Now() < until; SleepFor(kMillisecond)) {
      if (range.TableFiles().size() == range.range()->stats().tables) return true;
    }
    return false;
  };
  EXPECT_TRUE(all_there());
  ASSERT_TRUE(range.range()->checkpoints().Delete("first").ok());
  EXPECT_TRUE(all_there()) << "another checkpoint has the same tables";
  ASSERT_TRUE(range.range()->checkpoints().Delete("again").ok());
  for (const Nanos until = Now() + 20 * kSecond; all_there() && Now() < until;) SleepFor(kMillisecond);
  EXPECT_FALSE(all_there());
  EXPECT_TRUE(only_the_versions());
  ASSERT_TRUE(range.range()->checkpoints().Restore("empty", Now() + 60 * kSecond).ok());
  EXPECT_TRUE(range.Scan("", 10).empty());
  EXPECT_EQ(range.range()->stats().tables, 0u);
  EXPECT_TRUE(only_the_versions());
  EXPECT_EQ(range.range()->checkpoints().Create("a/b", deadline).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(range.range()->checkpoints().Create("", deadline).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RangeTest, ABatchThatIsNoneWritesNothing) {  // K6
  RangeOptions options;
  options.max_value_bytes = 1000;
  options.max_batch_entries = 3;
  options.max_batch_bytes = 2000;
  LocalRange range(options, KeyOf(10), KeyOf(20));
  const std::string a = KeyOf(11), b = KeyOf(19), outside = KeyOf(20), big(1001, 'x'), half(900, 'x');
  const auto put = [](const std::string& key, std::string_view value) {
    return WriteEntry{ValueType::kPut, key, value};
  };
  const std::vector<std::vector<WriteEntry>> bad = {{},
                                                    {put(a, "1"), put(b, big)},
                                                    {put(a, "1"), put("", "2")},
                                                    {put(a, "1"), put(outside, "2")},
                                                    {put(a, "1"), put(b, "1"), put(a, "1"), put(b, "1")},
                                                    {put(a, half), put(b, half), put(b, half)}};
  for (const auto& batch : bad) EXPECT_EQ(range.Write(batch), Outcome::kInvalidArgument);
  EXPECT_EQ(range.Scan("", 10).size(), 0u);
  EXPECT_EQ(range.Write(std::vector<WriteEntry>{put(a, half), put(b, half)}), Outcome::kOk);
  EXPECT_EQ(range.Scan("", 10).size(), 2u);
}

TEST(RangeTest, ABatchLargerThanAMemtableIsKept) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  LocalRange range(options);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 10'000; ++i) keys.push_back(KeyOf(i));
  std::vector<WriteEntry> batch;
  const std::string value(300, 'v');
  for (const std::string& key : keys) batch.push_back({ValueType::kPut, key, value});
  for (int i = 0; i < 3; ++i) ASSERT_EQ(range.Write(batch), Outcome::kOk);
  EXPECT_EQ(range.Scan("", 100'000).size(), 10'000u);
}

// Half of the memtables wait for a flush that is under way: a compaction waits too, unless writers would be
// slowed down for its sake.
TEST(RangeTest, FlushesGoFirst) {
  for (const int slow_runs : {8, 1}) {
    RangeOptions options;
    options.memtable_size_bytes = 64 << 10;
    options.active_memtables = 1;
    options.max_rounds = 4;
    options.level0_slow_runs = slow_runs;
    options.compaction.level0_runs_trigger = 1;
    std::atomic<bool> writing{false}, go_on{false};  // used until the range is closed
    LocalRange range(options, "", "", Background::kByHand);
    const auto fill_rounds = [&range](int rounds) {
      for (uint64_t i = 0; range.range()->stats().rounds < rounds; ++i) {
        ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), std::string(1000, 'v')), Outcome::kOk);
      }
    };
    fill_rounds(2);
    ASSERT_TRUE(range.range()->FlushOne());
    ASSERT_EQ(range.range()->stats().level0_runs, 1);
    fill_rounds(3);  // two of them sealed
    range.set_before_table([&] {
      if (writing.exchange(true)) return;  // only the first table waits: the flush's
      while (!go_on) SleepFor(100 * kMicrosecond);
    });
    {
      Thread flush("flush", [&] { EXPECT_TRUE(range.range()->FlushOne()); });
      while (!writing) SleepFor(100 * kMicrosecond);
      EXPECT_EQ(range.range()->CompactOne(), slow_runs == 1);
      go_on = true;
    }
    EXPECT_TRUE(range.range()->CompactOne()) << "one round is left";
  }
}

// A flush that fails, perhaps for want of space, stays at the front: a compaction, which frees some, does not
// wait for it.
TEST(RangeTest, ACompactionDoesNotWaitForAFlushThatFails) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  options.active_memtables = 1;
  options.max_rounds = 4;
  options.compaction.level0_runs_trigger = 2;
  LocalRange range(options, "", "", Background::kByHand);
  const auto fill_rounds = [&range](int rounds) {
    for (uint64_t i = 0; range.range()->stats().rounds < rounds; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), std::string(1000, 'v')), Outcome::kOk);
    }
  };
  for (int run = 1; run <= 2; ++run) {  // of the same keys: a merge of the two reads and writes
    fill_rounds(2);
    ASSERT_TRUE(range.range()->FlushOne());
    ASSERT_EQ(range.range()->stats().level0_runs, run);
  }
  fill_rounds(3);  // half of the memtables are sealed
  ASSERT_TRUE(ArmFailPoint("flush.written", 0, [] { return absl::ResourceExhaustedError("no space"); }).ok());
  range.range()->FlushOne();
  ASSERT_EQ(range.range()->stats().rounds, 3) << "the flush did not fail";
  EXPECT_TRUE(range.range()->CompactOne());
  EXPECT_EQ(range.range()->stats().level0_runs, 0);
  DisarmFailPoints();
  EXPECT_TRUE(range.range()->FlushOne());
  EXPECT_EQ(range.range()->stats().rounds, 1);
}

// A disk that has room for flushes, and none for the compaction that writers are slowed down for: they are
// told so.
TEST(RangeTest, WritersDoNotWaitForACompactionThatLacksSpace) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  options.active_memtables = 1;
  options.compaction.level0_runs_trigger = 2;
  options.level0_slow_runs = 2;
  options.level0_stop_runs = 20;
  LocalRange range(options, "", "", Background::kByHand);
  for (int run = 1; run <= 3; ++run) {  // of the same keys: a merge of them reads and writes
    for (uint64_t i = 0; range.range()->stats().rounds < 2; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), std::string(1000, 'v')), Outcome::kOk);
    }
    ASSERT_TRUE(range.range()->FlushOne());
    ASSERT_EQ(range.range()->stats().level0_runs, run);
  }
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), "slowed down"), Outcome::kOk);
  ASSERT_TRUE(
      ArmFailPoint("compaction.written", 0, [] { return absl::ResourceExhaustedError("no space"); }).ok());
  EXPECT_FALSE(range.range()->CompactOne());
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), "refused"), Outcome::kNoSpace);
  EXPECT_EQ(range.CompareAndSwap(KeyOf(1), "slowed down", "refused"), Outcome::kNoSpace);
  EXPECT_EQ(range.Get(KeyOf(1)), "slowed down");
  DisarmFailPoints();
  EXPECT_TRUE(range.range()->CompactOne());
  EXPECT_EQ(range.Write(ValueType::kPut, KeyOf(1), "there is room"), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(1)), "there is room");
}

// Nor until the end of a long compaction that has room again, but until it is further than the one that
// failed.
TEST(RangeTest, WritersGoOnOnceACompactionFindsSpace) {
  RangeOptions options;
  options.memtable_size_bytes = 256 << 10;
  options.active_memtables = 1;
  options.compaction.level0_runs_trigger = 2;
  options.compaction.table_size_bytes = 64 << 10;
  // not all of the runs: those that are left slow writers down still
  options.compaction.level0_max_bytes = 600 << 10;
  options.compaction.max_parts = 1;
  options.level0_slow_runs = 2;
  options.level0_stop_runs = 20;
  LocalRange range(options, "", "", Background::kByHand);
  for (int run = 1; run <= 8; ++run) {
    for (uint64_t i = 0; range.range()->stats().rounds < 2; ++i) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), std::string(1000, 'v')), Outcome::kOk);
    }
    ASSERT_TRUE(range.range()->FlushOne());
  }
  ASSERT_TRUE(ArmFailPoint("table.written", 2, [] { return absl::ResourceExhaustedError("no space"); }).ok());
  EXPECT_FALSE(range.range()->CompactOne()) << "at its second table";
  DisarmFailPoints();
  std::vector<Outcome> outcomes;  // before each table
  range.set_before_table([&] { outcomes.push_back(range.Write(ValueType::kPut, KeyOf(1), "a write")); });
  EXPECT_TRUE(range.range()->CompactOne());
  range.set_before_table(nullptr);
  ASSERT_GE(outcomes.size(), 3u);
  EXPECT_EQ(outcomes[0], Outcome::kNoSpace);
  EXPECT_EQ(outcomes[1], Outcome::kNoSpace) << "as far as it was";
  EXPECT_EQ(outcomes[2], Outcome::kOk);
}

// K3b: a group whose flush failed is flushed again while a younger group is under way, and takes none of its
// rounds.
TEST(RangeTest, AFlushThatIsTriedAgainLeavesAYoungerOneItsRounds) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  options.active_memtables = 1;
  options.max_rounds = 8;
  options.level0_slow_runs = 2;  // with one run there, rounds go together
  LocalRange range(options, "", "", Background::kByHand);
  uint64_t written = 0;
  const auto fill_rounds = [&](int rounds) {
    while (range.range()->stats().rounds < rounds) {
      ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(written++), std::string(1000, 'v')), Outcome::kOk);
    }
  };
  ASSERT_NO_FATAL_FAILURE(fill_rounds(2));
  ASSERT_TRUE(range.range()->FlushOne());
  ASSERT_NO_FATAL_FAILURE(fill_rounds(3));
  std::atomic<int> hits{0};
  Notification older, younger, fail_older, end_younger;
  ASSERT_TRUE(ArmFailPoint("table.written", 0, [&] {
                const int hit = ++hits;
                if (hit == 1) {
                  older.Notify();
                  fail_older.Wait();
                  return absl::DataLossError("failpoint");
                }
                if (hit == 2) {
                  younger.Notify();
                  end_younger.Wait();
                }
                return OkStatus();
              }).ok());
  Thread first("test.older", [&] { EXPECT_FALSE(range.range()->FlushOne()); });
  older.Wait();
  ASSERT_NO_FATAL_FAILURE(fill_rounds(6));
  Thread second("test.younger", [&] { range.range()->FlushOne(); });
  younger.Wait();
  fail_older.Notify();
  first.Join();
  EXPECT_TRUE(range.range()->FlushOne());
  EXPECT_EQ(range.range()->stats().rounds, 4) << "the older two are in Level0, three are under way";
  end_younger.Notify();
  second.Join();
  DisarmFailPoints();
  EXPECT_EQ(range.range()->stats().rounds, 1);
  EXPECT_EQ(range.range()->stats().level0_runs, 3);
  EXPECT_EQ(range.Scan("", written + 1).size(), written);
}

TEST(RangeTest, ScanSeesWhatWasAcknowledgedBeforeIt) {
  LocalRange range(RangeOptions{});
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), "v"), Outcome::kOk);
  EXPECT_EQ(range.Scan(KeyOf(0), 1000).size(), 100u);
  EXPECT_EQ(range.Scan(KeyOf(95), 3).size(), 3u);
}

TEST(RangeTest, ValueLargerThanAMemtableIsKept) {
  RangeOptions options;
  options.memtable_size_bytes = 64 << 10;
  options.max_value_bytes = 16 << 20;
  LocalRange range(options);
  const std::string big(5 << 20, 'b');
  ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(1), big), Outcome::kOk);
  for (uint64_t i = 2; i < 200; ++i)
    ASSERT_EQ(range.Write(ValueType::kPut, KeyOf(i), std::string(2000, 's')), Outcome::kOk);
  EXPECT_EQ(range.Get(KeyOf(1)), big);
  EXPECT_EQ(range.Scan(KeyOf(1), 1)[0].second, big);
}

}  // namespace
}  // namespace nova
