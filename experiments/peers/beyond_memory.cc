#include "common/base/exit.h"
#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/measurement.h"
#include "experiments/peers/page_cache.h"
#include "experiments/peers/process.h"

namespace nova {
namespace {

class BeyondMemoryCell : public Cell {
 public:
  BeyondMemoryCell(const CellOptions& options, const BeyondMemoryOptions& beyond)
      : options_(options),
        beyond_(beyond),
        databases_(options.store, options.records),
        described_(NewLimit()->Describe()) {}

  std::string Describe() const override {
    return StrCat(options_.records.DataBytes() >> 20, " MiB of records, memory ", beyond_.memory_bytes >> 20,
                  " MiB by ", described_, "; memtables ", options_.store.memtable_bytes >> 20, " MiB, cache ",
                  options_.store.cache_bytes >> 20, " MiB; ", options_.threads,
                  " clients, the second half of ", Seconds(options_.duration), " s counts");
  }
  Report Run(const Engine& engine, const std::string& name) override {
    const Workload workload = WorkloadNamed(name);
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
    Measurement measurement;
    measurement.WaitUntil(half);
    measurement.Begin(clients);
    measurement.WaitUntil(origin + options_.duration);
    Report report = measurement.End(clients);
    report.Add("peak of the process with mapped files", "MiB", Megabytes(PeakResidentBytes()));
    report.Add("peak of the process without files", "MiB", Megabytes(measurement.peak_anonymous_bytes()));
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
