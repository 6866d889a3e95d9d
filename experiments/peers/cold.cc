#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/page_cache.h"
#include "experiments/peers/process.h"

namespace nova {
namespace {

constexpr Nanos kStart = kSecond / 2;  // of a run, which is told by itself
constexpr ptrdiff_t kSecondOfWindows = kSecond / kWindow;
constexpr double kWarmShare = 0.9;

// What has happened since the opening.
struct Sample {
  Nanos at = 0;
  uint64_t operations = 0;
  uint64_t read_bytes = 0;          // of the process
  uint64_t workers_read_bytes = 0;  // of its clients alone
  Nanos longest = 0;                // operation since the sample before
};

Sample SampleNow(const Clients& clients, Nanos origin) {
  Sample s;
  for (const auto& c : clients) s.workers_read_bytes += DeviceReadBytesOf(c->thread());
  s.at = Now() - origin;
  s.operations = OperationsOf(clients);
  s.read_bytes = DeviceReadBytes();
  s.longest = TakeLongestOf(clients);
  return s;
}

std::vector<uint64_t> WindowsOf(const Clients& clients, Nanos duration) {
  std::vector<uint64_t> sum(static_cast<size_t>(duration / kWindow));
  for (const auto& c : clients) {
    for (size_t i = 0; i < std::min(sum.size(), c->windows().size()); ++i) sum[i] += c->windows()[i];
  }
  return sum;
}

// Of a second of them.
double Mean(const std::vector<uint64_t>& windows, ptrdiff_t first) {
  const auto begin = windows.begin() + first;
  return static_cast<double>(std::accumulate(begin, begin + kSecondOfWindows, uint64_t{0})) /
         kSecondOfWindows;
}

double LastSecond(const std::vector<uint64_t>& windows) {
  return Mean(windows, std::ssize(windows) - kSecondOfWindows);
}

// Seconds until a window has the share of the last second's rate, and the second that begins with it has it
// too.
double WarmAfter(const std::vector<uint64_t>& windows) {
  const double wanted = kWarmShare * LastSecond(windows);
  for (ptrdiff_t i = 0; i + kSecondOfWindows <= std::ssize(windows); ++i) {
    if (static_cast<double>(windows[static_cast<size_t>(i)]) >= wanted && Mean(windows, i) >= wanted)
      return Seconds(i * kWindow);
  }
  return kNotReached;
}

void AddPart(const std::string& part, const Sample& s, Report* report) {
  const auto operations = static_cast<double>(s.operations);
  report->Add(part + ": operations", "K op/s", operations / Seconds(s.at) / 1e3);
  report->Add(part + ": read from the device", "KiB/op",
              Ratio(static_cast<double>(s.read_bytes) / 1024, operations));
  report->Add(part + ": of that by the clients", "KiB/op",
              Ratio(static_cast<double>(s.workers_read_bytes) / 1024, operations));
  report->Add(part + ": longest operation", "ms", Milliseconds(s.longest));
}

class ColdCell : public Cell {
 public:
  explicit ColdCell(const CellOptions& options)
      : options_(options), databases_(options.store, options.records) {}

  std::string Describe() const override {
    return StrCat(options_.records.count, " records of ", options_.records.value_bytes, " bytes, memtables ",
                  options_.store.memtable_bytes >> 20, " MiB, cache ", options_.store.cache_bytes >> 20,
                  " MiB, ", options_.threads, " clients; warm: the rate of the last second of ",
                  Seconds(options_.duration), " s");
  }
  Report Run(const Engine& engine, const std::string& name) override {
    const Workload workload = WorkloadNamed(name);
    const StoreOptions& store = databases_.Of(engine);
    const std::string dropped = DropPageCache(store.directory);
    std::fprintf(stderr, "  %s: page cache dropped %s\n", engine.name.c_str(), dropped.c_str());
    const uint64_t cached = CachedBytes(store.directory);
    Report report = ReportInChild([&] { return Measure(engine, store, workload); });
    report.Add("in the page cache when it was opened", "MiB", Megabytes(cached));
    return report;
  }

 private:
  Report Measure(const Engine& engine, const StoreOptions& store, const Workload& workload) const {
    std::vector<Sequence> sequences = SequencesFor(options_.threads, options_.records);
    const Nanos begin = Now();
    const auto database = engine.open(store);
    const Nanos origin = Now();
    const uint64_t read_by_open = DeviceReadBytes();
    Clients clients =
        StartClients(database.get(), workload, options_.records, std::move(sequences), {.origin = origin});
    SleepUntil(origin + kStart);
    Sample first = SampleNow(clients, origin);
    SleepUntil(origin + options_.duration);
    Sample whole = SampleNow(clients, origin);
    whole.longest = std::max(whole.longest, first.longest);
    for (const auto& c : clients) c->End();

    Report report;
    report.per_100_ms = WindowsOf(clients, options_.duration);
    report.Add("open", "ms", Milliseconds(origin - begin));
    report.Add("open: read from the device", "MiB", Megabytes(read_by_open));
    first.read_bytes -= read_by_open;
    whole.read_bytes -= read_by_open;
    AddPart("first 0.5 s", first, &report);
    AddPart("whole", whole, &report);
    const auto& windows = report.per_100_ms;
    report.Add("warm: operations", "K op/s", LastSecond(windows) / Seconds(kWindow) / 1e3);
    report.Add("until it stays at 90 % of warm", "s", WarmAfter(windows));
    return report;
  }

  const CellOptions options_;
  LoadedDatabases databases_;
};

}  // namespace

std::unique_ptr<Cell> NewColdCell(const CellOptions& options) { return std::make_unique<ColdCell>(options); }

}  // namespace nova
