// nova_memtables: memtables of a round partitioned by a hash of the key, and by Drange (paper section 4.1),
// side by side: puts of one embedded database a row, uniform or zipfian in the order of the keys ("ranked").
//
//   nova_memtables --puts=3000000 --records=1000000 --memory_mb=64 --merge=true
//
// A row: entries that flushes wrote to Level0 for each put, the runs that these are in, entries that merges
// in memory left out for each put, CPU time of the whole process a put; of scans of ten keys afterwards,
// memtables that each opened. "spread": the standard deviation of the siblings' shares of --spread_puts puts
// (the paper has 2.9e-4 uniform and 1.7e-3 ranked, of 64 Dranges and a million writes), in rounds of
// --spread_round puts; it is of WrittenLoad by itself, without a database.
#include <gflags/gflags.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/zipfian.h"
#include "ltc/embedded/db.h"
#include "ltc/engine/written_load.h"

DEFINE_uint64(puts, 3'000'000, "of a row");
DEFINE_uint64(records, 1'000'000, "keys");
DEFINE_uint64(value_bytes, 100, "of a put");
DEFINE_uint64(memory_mb, 64, "of memtables");
DEFINE_uint64(scans, 2'000, "after the puts, from random keys, each beside a put; 0: none");
DEFINE_bool(merge, true, "rounds are merged in memory whenever they share keys");
DEFINE_int32(runs, 1, "times that each row is measured, in turn");
DEFINE_uint64(spread_puts, 1'000'000, "of which the spread is");
DEFINE_uint64(spread_round, 60'000, "puts of a round there");

namespace nova {
namespace {

struct Row {
  MemtablePartitioning partitioning;
  int siblings;
  bool ranked;
};

std::string KeyOf(uint64_t n) {
  char key[24];
  std::snprintf(key, sizeof(key), "user%016llu", static_cast<unsigned long long>(n));
  return key;
}

class Keys {
 public:
  explicit Keys(bool ranked) : ranked_(ranked), zipfian_(ranked ? FLAGS_records : 1) {}
  uint64_t Next() { return ranked_ ? zipfian_.Next(&random_) : random_.Uniform(FLAGS_records); }

 private:
  const bool ranked_;
  const Zipfian zipfian_;
  Random random_{1};
};

double CpuSeconds() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

double StandardDeviation(const std::vector<uint64_t>& counts, uint64_t all) {
  const double mean = 1.0 / static_cast<double>(counts.size());
  double sum = 0;
  for (const uint64_t n : counts) {
    const double off = static_cast<double>(n) / static_cast<double>(all) - mean;
    sum += off * off;
  }
  return std::sqrt(sum * mean);
}

// Rounds of puts, each counted when it ends, as a flush does. The first one has no partition yet; its puts
// are not among those of the spread.
double Spread(const Row& row) {
  RangeOptions options;
  options.memtable_partitioning = row.partitioning;
  options.active_memtables = row.siblings;
  WrittenLoad written(options);
  Keys keys(row.ranked);
  std::vector<uint64_t> counts(static_cast<size_t>(row.siblings));
  uint64_t all = 0;
  for (SequenceNumber sequence = 0; all < FLAGS_spread_puts;) {
    const MemtablePartitionRef partition = written.partition();
    std::vector<std::string> round;
    for (uint64_t i = 0; i < FLAGS_spread_round; ++i) {
      round.push_back(KeyOf(keys.Next()));
      ++sequence;
      if (sequence <= FLAGS_spread_round) continue;
      const size_t sibling = partition != nullptr ? partition->Of(round.back()).Pick(sequence)
                                                  : std::hash<std::string>{}(round.back()) % counts.size();
      ++counts[sibling];
      ++all;
    }
    const auto counter = written.NewCounter({});
    if (counter == nullptr) continue;
    std::sort(round.begin(), round.end());
    for (const std::string& key : round) counter->Add({key, 1, ValueType::kPut});
    written.Add(counter.get());
  }
  return StandardDeviation(counts, all);
}

void Check(const Status& s) { NOVA_CHECK(s.ok()) << s; }

void Measure(const Row& row) {
  char directory[] = "/tmp/nova-memtables-XXXXXX";
  NOVA_CHECK(mkdtemp(directory) != nullptr);
  DbOptions options;
  options.log = DbLog::kNone;
  options.memtable_bytes = FLAGS_memory_mb << 20;
  options.range.active_memtables = row.siblings;
  options.range.memtable_partitioning = row.partitioning;
  options.range.merge_rounds = FLAGS_merge ? MergeRounds::kAlways : MergeRounds::kNever;
  auto db = Db::Open(directory, options);
  Check(db.status());
  Keys keys(row.ranked);
  const std::string value(FLAGS_value_bytes, 'v');
  const double begin = CpuSeconds();
  for (uint64_t i = 0; i < FLAGS_puts; ++i) Check((*db)->Put(KeyOf(keys.Next()), value));
  const double cpu = CpuSeconds() - begin;
  const RangeStats s = (*db)->stats();
  Random random(2);
  for (uint64_t i = 0; i < FLAGS_scans; ++i) {
    Check((*db)->Put(KeyOf(keys.Next()), value));
    Check((*db)->Scan(KeyOf(random.Uniform(FLAGS_records)), 10,
                      [](std::string_view, std::string_view) { return true; }));
  }
  const RangeStats after = (*db)->stats();
  const auto a_put = [](uint64_t n) { return static_cast<double>(n) / static_cast<double>(FLAGS_puts); };
  const double a_scan = static_cast<double>(after.scan_memtables - s.scan_memtables) /
                        static_cast<double>(std::max<uint64_t>(after.scans - s.scans, 1));
  std::printf("%-6s %8d %-8s %8.4f %6llu %8.4f %7.2f %8.1f %8llu %9.1e\n",
              row.partitioning == MemtablePartitioning::kDrange ? "drange" : "hash", row.siblings,
              row.ranked ? "ranked" : "uniform", a_put(s.flushed_entries),
              static_cast<unsigned long long>(s.flushed_runs), a_put(s.merged_away_entries),
              cpu * 1e6 / static_cast<double>(FLAGS_puts), a_scan,
              static_cast<unsigned long long>(s.memtable_reorganisations), Spread(row));
  std::fflush(stdout);
  *db = nullptr;
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) {
  nova::ParseFlags("memtables partitioned by hash and by Drange, side by side", &argc, &argv);
  std::printf("%-6s %8s %-8s %8s %6s %8s %7s %8s %8s %9s\n", "by", "siblings", "keys", "Level0", "runs",
              "merged", "CPU us", "a scan", "reorgan.", "spread");
  using nova::MemtablePartitioning;
  for (int run = 0; run < FLAGS_runs; ++run) {
    for (const bool ranked : {false, true}) {
      for (const int siblings : {8, 64}) {
        nova::Measure({MemtablePartitioning::kHash, siblings, ranked});
        nova::Measure({MemtablePartitioning::kDrange, siblings, ranked});
      }
    }
  }
  return 0;
}
