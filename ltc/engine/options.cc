// What the options of a range may be. The bounds shut out what cannot work, and what overflows; not what is
// merely slow.
#include "common/base/check_between.h"
#include "ltc/engine/compaction_picker.h"
#include "ltc/engine/range_options.h"
#include "ltc/engine/sequence_tracker.h"

namespace nova {

Status CompactionOptions::Check() const {
  constexpr uint64_t kMost = uint64_t{1} << 50;
  NOVA_RETURN_IF_ERROR(CheckBetween("level0_runs_trigger", level0_runs_trigger, 1, 1000));
  NOVA_RETURN_IF_ERROR(CheckBetween("level0_max_bytes", level0_max_bytes, 0, kMost));
  NOVA_RETURN_IF_ERROR(CheckBetween("level0_share", level0_share, 0, 10));
  NOVA_RETURN_IF_ERROR(CheckBetween("level1_bytes", level1_bytes, 64 << 10, kMost));
  NOVA_RETURN_IF_ERROR(CheckBetween("level_multiplier", level_multiplier, 2, 100));
  NOVA_RETURN_IF_ERROR(CheckBetween("table_size_bytes", table_size_bytes, 64 << 10, uint64_t{1} << 32));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_parts", max_parts, 1, 256));
  NOVA_RETURN_IF_ERROR(CheckBetween("dranges", dranges, 1, int{DrangeMap::kMostDranges}));
  return CheckBetween("least_table_bytes", least_table_bytes, 1, uint64_t{1} << 32);
}

Status RangeOptions::Check() const {
  NOVA_RETURN_IF_ERROR(CheckBetween("memtable_size_bytes", memtable_size_bytes, 64 << 10, size_t{4} << 30));
  NOVA_RETURN_IF_ERROR(CheckBetween("active_memtables", active_memtables, 1, 64));
  NOVA_RETURN_IF_ERROR(CheckBetween("memtable_partitioning", static_cast<int>(memtable_partitioning), 0,
                                    static_cast<int>(MemtablePartitioning::kDrange)));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_rounds", max_rounds, 2, 1024));
  // Fewer runs than start a compaction must not slow writers down: nothing would ever speed them up again.
  NOVA_RETURN_IF_ERROR(InGroup("compaction", compaction.Check()));
  NOVA_RETURN_IF_ERROR(
      CheckBetween("level0_slow_runs", level0_slow_runs, compaction.level0_runs_trigger, 10'000));
  NOVA_RETURN_IF_ERROR(CheckBetween("level0_stop_runs", level0_stop_runs, level0_slow_runs, 20'000));
  NOVA_RETURN_IF_ERROR(CheckBetween("table_lag_ns", table_lag_ns, 0, 3600 * kSecond));
  NOVA_RETURN_IF_ERROR(CheckBetween("merge_rounds", static_cast<int>(merge_rounds), 0,
                                    static_cast<int>(MergeRounds::kAlways)));
  NOVA_RETURN_IF_ERROR(CheckBetween("log_share", log_share, 1, 1000));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_value_bytes", max_value_bytes, 1, 1 << 30));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_batch_entries", max_batch_entries, 1, SequenceTracker::kWindow / 4));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_batch_bytes", max_batch_bytes, 1, 1 << 30));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_range_tombstones", max_range_tombstones, 1, 1 << 16));
  NOVA_RETURN_IF_ERROR(
      CheckBetween("round_range_tombstones", round_range_tombstones, 1, max_range_tombstones));
  NOVA_RETURN_IF_ERROR(CheckBetween("scan_page_bytes", scan_page_bytes, 1, 1 << 30));
  NOVA_RETURN_IF_ERROR(CheckBetween("scan_budget_ns", scan_budget_ns, 0, kSecond));
  NOVA_RETURN_IF_ERROR(InGroup("table", table.Check()));
  NOVA_RETURN_IF_ERROR(CheckBetween("compression.size()", compression.size(), 0, kLevels));
  for (const Compression c : compression)
    NOVA_RETURN_IF_ERROR(CheckBetween("compression", static_cast<int>(c), 0, kCompressions - 1));
  return OkStatus();
}

}  // namespace nova
