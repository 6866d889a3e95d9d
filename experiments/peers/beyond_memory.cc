#include <algorithm>

#include "common/base/exit.h"
#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/page_cache.h"
#include "experiments/peers/process.h"

namespace nova {
namespace {

struct Counts {
  Nanos at = 0;
  double cpu_seconds = 0;
  uint64_t operations = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
};

Counts CountsOf(const Clients& clients) {
  return {Now(), CpuSeconds(), OperationsOf(clients), DeviceReadBytes(), DeviceWrittenBytes()};
}

uint64_t DataBytes(const RecordOptions& records) { return records.count * (kKeyBytes + records.value_bytes); }

// Waits, and looks now and then how much memory is in use that is no file's.
uint64_t PeakAnonymousBytesUntil(Nanos until) {
  uint64_t peak = AnonymousBytes();
  while (Now() < until) {
    SleepUntil(std::min(until, Now() + kWindow));
    peak = std::max(peak, AnonymousBytes());
  }
  return peak;
}

class BeyondMemoryCell : public Cell {
 public:
  BeyondMemoryCell(const CellOptions& options, const BeyondMemoryOptions& beyond)
      : options_(options),
        beyond_(beyond),
        databases_(options.store, options.records),
        described_(NewLimit()->Describe()) {}

  std::string Describe() const override {
    return StrCat(DataBytes(options_.records) >> 20, " MiB of records, memory ", beyond_.memory_bytes >> 20,
                  " MiB by ", described_, "; memtables ", options_.store.memtable_bytes >> 20, " MiB, cache ",
                  options_.store.cache_bytes >> 20, " MiB; ", options_.threads,
                  " clients, the second half of ", Seconds(options_.duration), " s counts");
  }
  Report Run(const Engine& engine, const Workload& workload) override {
    const StoreOptions& store = databases_.Of(engine);
    DropPageCache(store.directory);  // what the load read or wrote is not this group's
    const auto limit = NewLimit();
    Report report = ReportInChild([&] {
      limit->Enter();
      return Measure(engine, store, workload);
    });
    const auto peak = limit->PeakBytes();
    report.Add("peak of the group with page cache", "MiB", peak ? Megabytes(*peak) : kNotReached);
    if (workload.write_percent > 0) databases_.Discard(engine);
    return report;
  }

 private:
  std::unique_ptr<MemoryLimit> NewLimit() const {
    auto limit = MemoryLimit::Make(beyond_.memory_bytes, beyond_.limit_by);
    if (!limit.ok()) ExitWithError(StrCat("memory cannot be limited: ", limit.status().message()));
    return *std::move(limit);
  }

  Report Measure(const Engine& engine, const StoreOptions& store, const Workload& workload) const {
    std::vector<Sequence> sequences = SequencesFor(options_.threads, options_.records);
    const auto database = engine.open(store);
    const Nanos origin = Now();
    const Nanos half = origin + options_.duration / 2;
    Clients clients =
        StartClients(database.get(), workload, options_.records, std::move(sequences), {origin, half});
    uint64_t anonymous = PeakAnonymousBytesUntil(half);
    const Counts from = CountsOf(clients);
    anonymous = std::max(anonymous, PeakAnonymousBytesUntil(origin + options_.duration));
    const Counts to = CountsOf(clients);
    for (const auto& c : clients) c->End();

    Report report = PerOperation(from, to);
    Histogram latency;
    uint64_t stalls = 0;
    for (const auto& c : clients) {
      latency.Merge(c->latency());
      stalls += c->stalls();
    }
    report.Add("p99.9 of an operation", "ms", Milliseconds(static_cast<Nanos>(latency.Percentile(99.9))));
    report.Add("longest operation", "ms", Milliseconds(static_cast<Nanos>(latency.max())));
    report.Add("operations over 100 ms", "", static_cast<double>(stalls));
    report.Add("peak of the process with mapped files", "MiB", Megabytes(PeakResidentBytes()));
    report.Add("peak of the process without files", "MiB", Megabytes(anonymous));
    return report;
  }

  static Report PerOperation(const Counts& from, const Counts& to) {
    const auto operations = static_cast<double>(to.operations - from.operations);
    Report report;
    report.Add("operations", "K op/s", operations / Seconds(to.at - from.at) / 1e3);
    report.Add("CPU with background work", "us/op",
               Ratio((to.cpu_seconds - from.cpu_seconds) * 1e6, operations));
    report.Add("read from the device", "KiB/op",
               Ratio(static_cast<double>(to.read_bytes - from.read_bytes) / 1024, operations));
    report.Add("written to files", "KiB/op",
               Ratio(static_cast<double>(to.written_bytes - from.written_bytes) / 1024, operations));
    return report;
  }

  const CellOptions options_;
  const BeyondMemoryOptions beyond_;
  LoadedDatabases databases_;
  const std::string described_;  // the limit
};

}  // namespace

std::unique_ptr<Cell> NewBeyondMemoryCell(const CellOptions& options, const BeyondMemoryOptions& beyond) {
  return std::make_unique<BeyondMemoryCell>(options, beyond);
}

}  // namespace nova
