// Options must not matter: the same operations, drawn from a seed, under options drawn from another, give the
// same answers.
//
// An operation is drawn before it runs and from its own seed only, so that nothing an option changes (timing,
// what is in memory, how many threads share work whose order is irrelevant) can change what comes next.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <filesystem>

#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"

namespace nova {
namespace {

int SomeDranges(Random* random) { return std::array{1, 4, 64}[random->Uniform(3)]; }

DbOptions DrawOptions(Random* random) {
  DbOptions o;
  o.memtable_bytes = 2 << 20 << random->Uniform(4);
  o.cache_bytes = random->OneIn(3) ? 0 : 64 << 10 << random->Uniform(6);
  o.log = random->OneIn(3) ? DbLog::kNone : DbLog::kPersistent;
  o.map_tables = random->OneIn(2);
  o.warm_tables = random->OneIn(2);
  if (random->OneIn(2)) o.max_open_files = 1 + random->Uniform(4);
  o.flush_threads = 1 + static_cast<int>(random->Uniform(3));
  o.compaction_threads = 1 + static_cast<int>(random->Uniform(3));
  RangeOptions& r = o.range;
  r.memtable_size_bytes = 64 << 10 << random->Uniform(4);
  r.active_memtables = 1 + static_cast<int>(random->Uniform(4));
  if (random->OneIn(2)) r.memtable_partitioning = MemtablePartitioning::kDrange;
  r.max_rounds = 2 + static_cast<int>(random->Uniform(6));
  r.compaction.level0_runs_trigger = 1 + static_cast<int>(random->Uniform(6));
  r.level0_slow_runs = r.compaction.level0_runs_trigger + static_cast<int>(random->Uniform(8));
  r.level0_stop_runs = r.level0_slow_runs + 1 + static_cast<int>(random->Uniform(10));
  r.scan_page_bytes = 256 << random->Uniform(10);
  r.merge_rounds = random->OneIn(2) ? MergeRounds::kAlways : MergeRounds::kNever;
  r.log_share = 1 + static_cast<double>(random->Uniform(4));
  r.table_lag_ns = static_cast<Nanos>(random->Uniform(3)) * 10 * kMillisecond;
  r.scan_budget_ns = static_cast<Nanos>(random->Uniform(100)) * kMicrosecond;
  r.round_range_tombstones = 16 << random->Uniform(5);
  r.compaction.level0_max_bytes = 64 << 10 << random->Uniform(8);
  r.compaction.level0_share = 0.5 * static_cast<double>(random->Uniform(5));
  r.compaction.level1_bytes = 64 << 10 << random->Uniform(5);
  r.compaction.level_multiplier = 2 + static_cast<int>(random->Uniform(9));
  r.compaction.table_size_bytes = 64 << 10 << random->Uniform(3);
  r.compaction.max_parts = 1 + static_cast<int>(random->Uniform(4));
  r.compaction.dranges = SomeDranges(random);
  r.compaction.least_table_bytes = 1 << 10 << random->Uniform(8);
  r.table.block_size_bytes = 512 << random->Uniform(6);
  r.table.restart_interval = 1 + static_cast<int>(random->Uniform(20));
  r.table.filter_bits_per_key = static_cast<int>(random->Uniform(3) * 7);
  const Compression all[] = {Compression::kNone, Compression::kLz4, Compression::kZstd};
  for (uint64_t n = random->Uniform(4); n > 0; --n) r.compression.push_back(all[random->Uniform(3)]);
  r.lookup_index = random->OneIn(2);
  return o;
}

// A database under drawn options, and what it answers, an entry an operation.
class Database {
 public:
  Database(uint64_t option_seed, int operations) : options_(option_seed), operations_(operations) {
    char dir[] = "/tmp/nova-metamorphic-XXXXXX";
    directory_ = mkdtemp(dir);
    Open();
  }
  ~Database() {
    snapshots_.clear();
    db_ = nullptr;
    std::filesystem::remove_all(directory_);
  }
  std::vector<std::string> Answers(uint64_t seed) {
    std::vector<std::string> answers;
    for (int i = 0; i < operations_ && !testing::Test::HasFatalFailure(); ++i) {
      Random random(seed * 1'000'003 + static_cast<uint64_t>(i));
      answers.push_back(Operation(&random));
    }
    answers.push_back(Scan({}, {}));
    return answers;
  }
  std::string what() const { return what_; }

 private:
  void Open() {
    snapshots_.clear();
    db_ = nullptr;
    const DbOptions o = DrawOptions(&options_);
    sync_one_in_ = options_.OneIn(2) ? 0 : 1 + options_.Uniform(50);
    threads_ = 1 + options_.Uniform(4);
    what_ += StrCat(
        what_.empty() ? "" : "; ", "memtable ", o.range.memtable_size_bytes, " x ", o.range.active_memtables,
        o.range.memtable_partitioning == MemtablePartitioning::kDrange ? " by Drange" : "", ", rounds ",
        o.range.max_rounds, o.range.merge_rounds == MergeRounds::kNever ? "" : " merged",
        o.range.lookup_index ? ", lookup index" : "", ", table ", o.range.compaction.table_size_bytes,
        ", Dranges ", o.range.compaction.dranges, ", block ", o.range.table.block_size_bytes, ", log ",
        static_cast<int>(o.log), ", mapped ", o.map_tables, ", files ", o.max_open_files, ", cache ",
        *o.cache_bytes, ", threads ", threads_);
    auto db = Db::Open(directory_, o);
    ASSERT_TRUE(db.ok()) << db.status() << " with " << what_;
    db_ = *std::move(db);
  }

  DbWriteOptions Sync() { return {sync_one_in_ > 0 && options_.OneIn(sync_one_in_)}; }
  static std::string Text(const Status& s) { return std::string(absl::StatusCodeToString(s.code())); }
  static std::string Key(Random* random) {
    return StrCat("k", absl::Dec(random->Uniform(2'000), absl::kZeroPad4));
  }
  static std::string Value(Random* random) {
    return std::string(random->Uniform(random->OneIn(20) ? 8'000 : 300),
                       static_cast<char>('a' + random->Uniform(26)));
  }

  std::string Operation(Random* random) {
    const uint64_t dice = random->Uniform(1'000);
    const std::string key = Key(random);
    if (dice < 350) return Text(db_->Put(key, Value(random), Sync()));
    if (dice < 430) return Text(db_->Delete(key, Sync()));
    if (dice < 450) return Text(db_->PutTtl(key, Value(random), 3'600'000, Sync()));
    if (dice < 465) {
      std::string end = Key(random);
      if (!random->OneIn(8)) end = StrCat(key, random->Uniform(10));
      return Text(db_->DeleteRange(key, end, Sync()));  // of some the end comes first
    }
    if (dice < 520) {
      WriteBatch batch;
      for (uint64_t n = 1 + random->Uniform(40); n > 0; --n) {
        const std::string k = Key(random);
        switch (random->Uniform(12)) {
          case 0:
            batch.DeleteRange(k, k + "~");
            break;
          case 1:
            batch.Delete(k);
            break;
          default:
            batch.Put(k, Value(random));
        }
      }
      return Text(db_->Write(batch, Sync()));
    }
    if (dice < 560) {
      std::string now;
      const bool there = db_->Get(key, &now).ok();
      std::optional<std::string> desired;
      if (!random->OneIn(3)) desired = Value(random);
      const bool wrong = random->OneIn(4);
      const std::string other = now + "?";
      const auto expected = wrong   ? std::optional<std::string_view>(other)
                            : there ? std::optional<std::string_view>(now)
                                    : std::nullopt;
      const auto swapped = db_->CompareAndSwap(
          key, expected, desired ? std::optional<std::string_view>(*desired) : std::nullopt, Sync());
      return swapped.ok() ? StrCat(*swapped) : Text(swapped.status());
    }
    if (dice < 570) return Together(random);
    if (dice < 800) {
      std::string value;
      const Status s = db_->Get(key, &value, SomeMoment(random));
      return s.ok() ? value : Text(s);
    }
    if (dice < 860) {
      std::vector<std::string> keys(random->Uniform(20));
      for (std::string& k : keys) k = Key(random);
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      std::vector<std::optional<std::string>> values;
      std::string answer = Text(db_->MultiGet(views, &values, SomeMoment(random)));
      for (const auto& v : values) answer += v ? "=" + *v : "-";
      return answer;
    }
    if (dice < 960) {
      DbScan scan;
      if (!random->OneIn(4)) scan.from = key;
      if (!random->OneIn(3)) scan.to = Key(random);
      if (!random->OneIn(6)) scan.limit = random->Uniform(100);
      scan.reverse = random->OneIn(2);
      return Scan(scan, SomeMoment(random));
    }
    if (dice < 985) {
      if (snapshots_.size() < 4) {
        snapshots_.push_back(*db_->TakeSnapshot());
      } else {
        snapshots_.erase(snapshots_.begin() + static_cast<ptrdiff_t>(random->Uniform(snapshots_.size())));
      }
      return "";
    }
    if (dice < 992) {
      const int dranges = SomeDranges(&options_);
      EXPECT_TRUE(db_->SetDranges(dranges).ok());
      return Text(db_->Flush());
    }
    if (dice < 996) return Text(db_->WaitForBackgroundWork());
    Open();
    return "";
  }

  // Puts and deletes of different keys, by as many threads as the options say.
  std::string Together(Random* random) {
    const std::string prefix = StrCat("t", random->Uniform(3));
    const uint64_t keys = 200 + random->Uniform(300), seed = random->Next();
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint64_t t = 0; t < threads_; ++t) {
      threads.push_back(std::make_unique<Thread>(StrCat("writer.", t), [&, t] {
        for (uint64_t i = t; i < keys; i += threads_) {
          Random of_key(seed + i);
          const std::string key = StrCat(prefix, absl::Dec(i, absl::kZeroPad4));
          EXPECT_TRUE((of_key.OneIn(5) ? db_->Delete(key) : db_->Put(key, Value(&of_key))).ok());
        }
      }));
    }
    threads.clear();
    return Scan(DbScan::OfPrefix(prefix), {});
  }

  DbReadOptions SomeMoment(Random* random) const {
    if (snapshots_.empty() || random->OneIn(2)) return {};
    return {snapshots_[random->Uniform(snapshots_.size())]};
  }
  std::string Scan(const DbScan& scan, const DbReadOptions& options) {
    std::string answer;
    if (by_iterator_.OneIn(3)) {
      const auto it = db_->NewIterator({scan.from, scan.to, options.snapshot});
      if (!it.ok()) return Text(it.status());
      uint64_t left = scan.limit;
      for (scan.reverse ? (*it)->SeekToLast() : (*it)->SeekToFirst(); (*it)->Valid() && left > 0;
           scan.reverse ? (*it)->Prev() : (*it)->Next(), --left) {
        answer.append((*it)->key()).append("=").append((*it)->value()).append("\n");
      }
      return (*it)->status().ok() ? answer : Text((*it)->status());
    }
    const Status s = db_->Scan(
        scan,
        [&answer](std::string_view key, std::string_view value) {
          answer.append(key).append("=").append(value).append("\n");
          return true;
        },
        options);
    return s.ok() ? answer : Text(s);
  }

  Random options_;
  Random by_iterator_{RandomSeed()};  // which scans are made by an iterator: no answer may tell
  const int operations_;
  std::string directory_;
  std::unique_ptr<Db> db_;
  std::vector<std::shared_ptr<const Snapshot>> snapshots_;
  uint64_t sync_one_in_ = 0;
  uint64_t threads_ = 1;
  std::string what_;
};

TEST(DbMetamorphicTest, OptionsChangeNoAnswer) {
  constexpr int kOperations = 1'000;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<std::string> first;
    std::string first_options;
    for (uint64_t options = 1; options <= 5; ++options) {
      Database run(seed * 100 + options, kOperations);
      std::vector<std::string> answers = run.Answers(seed);
      if (HasFatalFailure()) return;
      if (options == 1) {
        first = std::move(answers);
        first_options = run.what();
        EXPECT_GT(first.back().size(), 10'000u) << "nothing is left: the operations test little";
        continue;
      }
      ASSERT_EQ(answers.size(), first.size());
      for (size_t i = 0; i < first.size(); ++i) {
        ASSERT_TRUE(answers[i] == first[i])
            << "seed " << seed << ", operation " << i << ":\n"
            << answers[i].substr(0, 500) << "\nunder (" << run.what() << "), and\n"
            << first[i].substr(0, 500) << "\nunder (" << first_options << ")";
      }
    }
  }
}

}  // namespace
}  // namespace nova
