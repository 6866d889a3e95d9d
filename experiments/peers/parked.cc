#include <algorithm>
#include <filesystem>

#include "common/base/exit.h"
#include "common/base/fault_disk.h"
#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"

namespace nova {
namespace {

constexpr Nanos kStanding = kSecond / 2;  // without a put: the writers stand
constexpr Nanos kUntilTheyStand = 30 * kSecond;

struct Reads {
  double kops = 0;
  uint64_t p99 = 0;  // nanoseconds
  uint64_t longest = 0;
};

class ParkedCell : public Cell {
 public:
  ParkedCell(const CellOptions& options, const ParkedOptions& parked) : options_(options), parked_(parked) {}

  std::string Describe() const override {
    return StrCat(options_.records.count, " records of ", options_.records.value_bytes, " bytes, memtables ",
                  options_.store.memtable_bytes >> 20, " MiB, cache ", options_.store.cache_bytes >> 20,
                  " MiB; one reader, ", parked_.writers, " writers, a write to a table's file takes ",
                  Milliseconds(parked_.write_delay), " ms longer; phases of ", Seconds(options_.duration),
                  " s");
  }
  Report Run(const Engine& engine, const std::string& name) override {
    const Workload workload = WorkloadNamed(name);
    const std::string directory = options_.store.directory + "/" + engine.name;
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
    Report report = ReportInChild([&] { return Measure(engine, directory, workload); });
    std::filesystem::remove_all(directory);
    return report;
  }

 private:
  Report Measure(const Engine& engine, const std::string& directory, const Workload& workload) const {
    auto disk = OpenPosixDisk(directory);
    if (!disk.ok()) Fail(disk.status().ToString());
    FaultDisk slow(disk->get());
    StoreOptions store = options_.store;
    store.directory = directory;
    store.files = &slow;
    const auto database = engine.open(store);
    Load(database.get(), options_.records);
    database->WaitIdle();
    const Reads alone = ReadFor(database.get(), workload);
    slow.Add({.path = ".sst",
              .op = DiskOp::kWrite,
              .action = FaultAction::kDelay,
              .delay_ns = parked_.write_delay});
    Clients writers =
        StartClients(database.get(), WorkloadNamed("W100"), options_.records,
                     SequencesFor(parked_.writers, options_.records, /*seed=*/1000), {.origin = Now()});
    WaitUntilTheyStand(writers);
    TakeLongestOf(writers);
    const uint64_t puts = OperationsOf(writers);
    const Reads beside = ReadFor(database.get(), workload);
    const double puts_beside = static_cast<double>(OperationsOf(writers) - puts) / Seconds(options_.duration);
    slow.Clear();
    for (const auto& w : writers) w->End();

    Report report;
    report.Add("without writers: gets", "K op/s", alone.kops);
    report.Add("without writers: p99", "us", static_cast<double>(alone.p99) / 1e3);
    report.Add("without writers: longest", "us", static_cast<double>(alone.longest) / 1e3);
    report.Add("writers that stand: gets", "K op/s", beside.kops);
    report.Add("writers that stand: p99", "us", static_cast<double>(beside.p99) / 1e3);
    report.Add("writers that stand: longest", "us", static_cast<double>(beside.longest) / 1e3);
    report.Add("gets: standing / without", "", Ratio(beside.kops, alone.kops));
    report.Add("p99: standing / without", "",
               Ratio(static_cast<double>(beside.p99), static_cast<double>(alone.p99)));
    report.Add("puts beside", "1/s", puts_beside);
    report.Add("longest put", "ms", Milliseconds(TakeLongestOf(writers)));
    return report;
  }

  Reads ReadFor(Store* store, const Workload& workload) const {
    Clients reader =
        StartClients(store, workload, options_.records, SequencesFor(1, options_.records), {.origin = Now()});
    const Nanos begin = Now();
    SleepFor(options_.duration);
    reader[0]->End();
    const Histogram& latency = reader[0]->latency();
    return {static_cast<double>(latency.count()) / Seconds(Now() - begin) / 1e3, latency.Percentile(99),
            latency.max()};
  }

  static void WaitUntilTheyStand(const Clients& writers) {
    const Nanos deadline = Now() + kUntilTheyStand;
    for (uint64_t puts = UINT64_MAX; OperationsOf(writers) != puts; SleepFor(kStanding)) {
      if (Now() > deadline) {
        ExitWithError(
            "the writers do not come to stand: flushes keep up; more --write_delay_ms, less --memory_mb");
      }
      puts = OperationsOf(writers);
    }
  }

  const CellOptions options_;
  const ParkedOptions parked_;
};

}  // namespace

std::unique_ptr<Cell> NewParkedCell(const CellOptions& options, const ParkedOptions& parked) {
  return std::make_unique<ParkedCell>(options, parked);
}

}  // namespace nova
