// Every option of an embedded database at its limits: just inside it is taken, just outside one line names
// it, and nothing is made.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "ltc/embedded/db.h"
#include "ltc/engine/sequence_tracker.h"
#include "ltc/engine/version.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

// The tables below hold every field. Who adds one to a struct finds that this does not compile, and adds its
// row.
[[maybe_unused]] void FieldsAreCounted(const DbOptions& db, const RangeOptions& range,
                                       const CompactionOptions& compaction, const TableOptions& table) {
  [[maybe_unused]] const auto& [create, log, limit, memtables, cache, map, warm, files, flushes, compactions,
                                of_range, disk] = db;
  [[maybe_unused]] const auto& [tau, alpha, partitioning, rounds, slow, stop, lag, merge, logs, lookup, value,
                                batch, batch_bytes, tombstones, round_tombstones, page, budget, of_compaction,
                                of_table, compression] = range;
  [[maybe_unused]] const auto& [trigger, level0_max, share, level1, multiplier, table_size, parts, dranges,
                                least] = compaction;
  [[maybe_unused]] const auto& [block, restart, filter, of_one_table] = table;
}

struct Bounds {
  std::string name;
  int64_t low, high;
  std::function<void(DbOptions*, int64_t)> set;
  std::string bound = {};  // the option that this one bounds: it is the one named
};
// One below 0 of an unsigned field is far above its limit.
#define NOVA_BOUNDS(field, low, high, ...)                                                             \
  Bounds {                                                                                             \
#field, low, high,                                                                                 \
        [](DbOptions * o, int64_t v) { o->field = static_cast<decltype(o->field)>(v); } __VA_OPT__(, ) \
            __VA_ARGS__                                                                                \
  }

const std::vector<Bounds>& AllBounds() {
  static const auto* all = new std::vector<Bounds>{
      NOVA_BOUNDS(log, 0, 1),
      NOVA_BOUNDS(memtable_bytes, 1 << 20, int64_t{1} << 40),
      NOVA_BOUNDS(memory_limit_bytes, 64 << 20, int64_t{1} << 41),
      NOVA_BOUNDS(cache_bytes, 0, int64_t{1} << 40),
      NOVA_BOUNDS(max_open_files, 1, 1 << 20),
      NOVA_BOUNDS(flush_threads, 1, 64),
      NOVA_BOUNDS(compaction_threads, 1, 64),
      NOVA_BOUNDS(range.memtable_size_bytes, 64 << 10, int64_t{4} << 30),
      NOVA_BOUNDS(range.active_memtables, 1, 64),
      NOVA_BOUNDS(range.memtable_partitioning, 0, 1),
      NOVA_BOUNDS(range.max_rounds, 2, 1024),
      // the default trigger, the default stop
      NOVA_BOUNDS(range.level0_slow_runs, 16, 60, "range.level0_stop_runs"),
      NOVA_BOUNDS(range.level0_stop_runs, 40, 20'000),  // the default slow-down
      NOVA_BOUNDS(range.max_value_bytes, 1, 1 << 30),
      NOVA_BOUNDS(range.max_batch_entries, 1, SequenceTracker::kWindow / 4),
      NOVA_BOUNDS(range.max_batch_bytes, 1, 1 << 30),
      // the default of a round
      NOVA_BOUNDS(range.max_range_tombstones, 256, 1 << 16, "range.round_range_tombstones"),
      NOVA_BOUNDS(range.round_range_tombstones, 1, 4096),  // the default of all
      NOVA_BOUNDS(range.scan_page_bytes, 1, 1 << 30),
      NOVA_BOUNDS(range.scan_budget_ns, 0, 1'000'000'000),
      NOVA_BOUNDS(range.table_lag_ns, 0, 3'600'000'000'000),
      NOVA_BOUNDS(range.merge_rounds, 0, 2),
      NOVA_BOUNDS(range.log_share, 1, 1000),
      // the default slow-down
      NOVA_BOUNDS(range.compaction.level0_runs_trigger, 1, 40, "range.level0_slow_runs"),
      NOVA_BOUNDS(range.compaction.dranges, 1, 1024),
      NOVA_BOUNDS(range.compaction.least_table_bytes, 1, int64_t{1} << 32),
      NOVA_BOUNDS(range.compaction.level0_max_bytes, 0, int64_t{1} << 50),
      NOVA_BOUNDS(range.compaction.level0_share, 0, 10),
      NOVA_BOUNDS(range.compaction.level1_bytes, 64 << 10, int64_t{1} << 50),
      NOVA_BOUNDS(range.compaction.level_multiplier, 2, 100),
      NOVA_BOUNDS(range.compaction.table_size_bytes, 64 << 10, int64_t{1} << 32),
      NOVA_BOUNDS(range.compaction.max_parts, 1, 256),
      NOVA_BOUNDS(range.table.block_size_bytes, 512, 1 << 24),
      NOVA_BOUNDS(range.table.restart_interval, 1, 1024),
      NOVA_BOUNDS(range.table.filter_bits_per_key, 0, 64),
      NOVA_BOUNDS(range.table.compression, 0, 2),
      {"range.compression", 0, 2,
       [](DbOptions* o, int64_t v) {
         o->range.compression = {Compression::kNone, static_cast<Compression>(v)};
       }},
  };
  return *all;
}

Status CheckWith(const Bounds& b, int64_t value) {
  DbOptions options;
  b.set(&options, value);
  return options.Check();
}

TEST(OptionsTest, TakeACompressionForEachLevelAndNoMore) {
  DbOptions options;
  options.range.compression.resize(kLevels);
  EXPECT_TRUE(options.Check().ok());
  options.range.compression.resize(kLevels + 1);
  EXPECT_EQ(options.Check().message(), "range.compression.size() = 8: must be in [0, 7]");
}

TEST(OptionsTest, LevelsFollowTheMemtables) {
  DbOptions options;
  options.memtable_bytes = size_t{1} << 30;
  const CompactionOptions large = options.Derived().range.compaction;
  EXPECT_EQ(large.level1_bytes, uint64_t{2} << 30);
  EXPECT_EQ(large.level0_max_bytes, uint64_t{8} << 30);
  EXPECT_EQ(large.table_size_bytes, 32u << 20) << "of a round of an eighth";
  options.memtable_bytes = 1 << 20;
  const CompactionOptions small = options.Derived().range.compaction;
  EXPECT_EQ(small.level1_bytes, 64u << 20);
  EXPECT_EQ(small.table_size_bytes, 4u << 20);
  options.range.compaction.level1_bytes = 128 << 20;
  EXPECT_EQ(options.Derived().range.compaction.level1_bytes, 128u << 20) << "what is given stays";
}

TEST(OptionsTest, AreTakenAtTheirLimits) {
  EXPECT_TRUE(DbOptions().Check().ok()) << DbOptions().Check();
  for (const Bounds& b : AllBounds()) {
    EXPECT_TRUE(CheckWith(b, b.low).ok()) << b.name << ": " << CheckWith(b, b.low);
    EXPECT_TRUE(CheckWith(b, b.high).ok()) << b.name << ": " << CheckWith(b, b.high);
  }
}

TEST(OptionsTest, OutOfRangeAreNamedOnOneLineAndNothingIsMade) {
  Directory dir;
  for (const Bounds& b : AllBounds()) {
    for (const int64_t value : {b.low - 1, b.high + 1}) {
      DbOptions options;
      b.set(&options, value);
      const auto db = Db::Open(dir.path() + "/db", options);
      ASSERT_TRUE(absl::IsInvalidArgument(db.status())) << b.name << " = " << value << ": " << db.status();
      const std::string message(db.status().message());
      EXPECT_TRUE(message.find(b.name + " = ") != message.npos ||
                  (!b.bound.empty() && message.find(b.bound + " = ") != message.npos))
          << message;
      EXPECT_NE(message.find(": must be in ["), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_FALSE(std::filesystem::exists(dir.path() + "/db")) << message;
    }
  }
}

}  // namespace
}  // namespace nova
