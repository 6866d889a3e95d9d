#include "ltc/server/range_totals.h"

#include <memory>
#include <utility>

namespace nova {
namespace {

constexpr std::pair<const char*, uint64_t RangeStats::*> kCounters[] = {
    {"nova_ltc_damaged_drange_maps_total", &RangeStats::damaged_maps},
    {"nova_ltc_drange_reorganisations_total", &RangeStats::reorganisations},
    {"nova_ltc_flushed_entries_total", &RangeStats::flushed_entries},
    {"nova_ltc_flushed_runs_total", &RangeStats::flushed_runs},
    {"nova_ltc_get_memtables_total", &RangeStats::get_memtables},
    {"nova_ltc_get_tables_total", &RangeStats::get_tables},
    {"nova_ltc_level0_waits_total", &RangeStats::level0_waits},
    {"nova_ltc_memtable_reorganisations_total", &RangeStats::memtable_reorganisations},
    {"nova_ltc_merged_away_bytes_total", &RangeStats::merged_away_bytes},
    {"nova_ltc_merged_away_entries_total", &RangeStats::merged_away_entries},
    {"nova_ltc_scan_memtables_total", &RangeStats::scan_memtables},
    {"nova_ltc_scan_pages_total", &RangeStats::scans},
    {"nova_ltc_scan_tables_total", &RangeStats::scan_tables},
};

}  // namespace

void RangeTotals::Drop(RangeId id, Epoch up_to) {
  std::shared_ptr<HostedRange> hosted;  // outlives the lock
  MutexLock lock(&mu_);
  hosted = ranges_->Find(id);
  ranges_->Drop(id, up_to);
  if (hosted == nullptr || ranges_->Find(id) == hosted) return;
  const RangeStats last = hosted->range()->stats();
  for (const auto& [name, counter] : kCounters) left_.*counter += last.*counter;
  left_.stalled_ns += last.stalled_ns;
}

uint64_t RangeTotals::Sum(uint64_t RangeStats::*counter) const {
  MutexLock lock(&mu_);
  uint64_t sum = left_.*counter;
  for (const auto& hosted : ranges_->held()) sum += hosted->range()->stats().*counter;
  return sum;
}

Nanos RangeTotals::StalledNs() const {
  MutexLock lock(&mu_);
  Nanos sum = left_.stalled_ns;
  for (const auto& hosted : ranges_->held()) sum += hosted->range()->stats().stalled_ns;
  return sum;
}

void RangeTotals::AddMetrics(Metrics* metrics) {
  metrics->AddCallback("nova_ltc_write_stall_seconds_total",
                       [this] { return static_cast<double>(StalledNs()) * 1e-9; });
  for (const auto& [name, counter] : kCounters) {
    metrics->AddCallback(name, [this, of = counter] { return static_cast<double>(Sum(of)); });
  }
}

}  // namespace nova
