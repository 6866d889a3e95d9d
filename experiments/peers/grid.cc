#include <algorithm>
#include <filesystem>
#include <numeric>

#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/measurement.h"
#include "experiments/peers/process.h"

namespace nova {
namespace {

// A row of the grid: a workload and what is different in it.
struct Row {
  enum class Kind { kMix, kHalfDeleted, kQueue, kFirstScan };
  Kind kind = Kind::kMix;
  Workload workload;
  Distribution distribution = Distribution::kUniform;
  bool after_puts = false;  // RW50 runs first, and nobody waits for what it leaves to do
  RecordOptions records;
  int threads = 0;
};

// As many records as take the bytes that the given ones take, where those of the row are larger or smaller.
void KeepDataBytes(const RecordOptions& given, RecordOptions* records) {
  constexpr uint64_t kMost = 4;  // times: small records take long to load
  const uint64_t each = records->DataBytes() / records->count;
  records->count = std::clamp<uint64_t>(given.DataBytes() / each, 1, kMost * given.count);
}

Row RowNamed(const std::string& name, const CellOptions& options) {
  Row row;
  row.records = options.records;
  row.threads = options.threads;
  if (name == "half-deleted" || name == "queue" || name == "first-scan") {
    row.kind = name == "queue"        ? Row::Kind::kQueue
               : name == "first-scan" ? Row::Kind::kFirstScan
                                      : Row::Kind::kHalfDeleted;
    row.workload = WorkloadNamed("R100");
    if (row.kind == Row::Kind::kFirstScan) row.records.value_bytes = 100;
    return row;
  }
  const std::vector<std::string> parts = SplitAt(name, '-');
  row.workload = WorkloadNamed(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    const auto number = [&](size_t from) -> int {
      const std::string digits = part.substr(from);
      if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
        Fail(StrCat("row ", name, ": ", part, " has no number"));
      return std::stoi(digits);
    };
    if (part == "ranked") {
      row.distribution = Distribution::kZipfianRanked;
    } else if (part == "after") {
      row.after_puts = true;
    } else if (part == "ended") {
      row.workload.without_limit = true;
    } else if (part == "hot") {
      row.records.one_hot = true;
    } else if (part == "mixed") {
      row.records.value_bytes = 100;
      row.records.max_value_bytes = 100'000;
    } else if (part.starts_with("shared")) {
      row.records.shared_bytes = static_cast<size_t>(number(6));
      row.records.key_bytes = row.records.shared_bytes + kKeyBytes;
    } else if (part[0] == 'v') {
      row.records.value_bytes = static_cast<size_t>(number(1));
    } else if (part[0] == 'k') {
      row.records.key_bytes = static_cast<size_t>(number(1));
    } else if (part[0] == 't') {
      row.threads = number(1);
    } else if (part.starts_with("len")) {
      row.records.scan_length = static_cast<uint64_t>(number(3));
    } else {
      Fail(StrCat("row ", name, ": ", part,
                  " is none of ranked, after, ended, hot, mixed, sharedN, vN, kN, tN, lenN"));
    }
  }
  if (row.records.key_bytes < row.records.shared_bytes + 12)
    Fail(StrCat("row ", name, ": keys are too short"));
  KeepDataBytes(options.records, &row.records);
  return row;
}

class GridCell : public Cell {
 public:
  explicit GridCell(const CellOptions& options) : options_(options) {}

  std::string Describe() const override {
    return StrCat(options_.records.count, " records of ", options_.records.value_bytes,
                  " bytes, or as many others as take that space; memtables ",
                  options_.store.memtable_bytes >> 20, " MiB, cache ", options_.store.cache_bytes >> 20,
                  " MiB; ", options_.threads, " clients, ", Seconds(options_.duration), " s");
  }
  Report Run(const Engine& engine, const std::string& name) override {
    const Row row = RowNamed(name, options_);
    StoreOptions store = options_.store;
    store.directory += "/" + engine.name;
    std::filesystem::remove_all(store.directory);
    std::filesystem::create_directories(store.directory);
    Report report = ReportInChild([&] { return Measure(engine, store, row); });
    std::filesystem::remove_all(store.directory);
    return report;
  }

 private:
  Report Measure(const Engine& engine, const StoreOptions& store, const Row& row) const {
    const auto database = engine.open(store);
    Measurement measurement(static_cast<uint64_t>(row.threads) * Sequence::kMemoryBytes);
    Report report = row.kind == Row::Kind::kFirstScan ? MeasureFirstScans(database.get(), row, &measurement)
                                                      : MeasureClients(database.get(), row, &measurement);
    const uint64_t asked = store.memtable_bytes + store.cache_bytes;
    report.Add("peak of the process without files", "MiB", Megabytes(measurement.peak_anonymous_bytes()));
    report.Add("of what it was given", "",
               Ratio(static_cast<double>(measurement.peak_anonymous_bytes()), static_cast<double>(asked)));
    return report;
  }

  Report MeasureClients(Store* store, const Row& row, Measurement* measurement) const {
    if (row.kind != Row::Kind::kQueue) {
      Load(store, row.records);
      store->WaitIdle();
    }
    if (row.after_puts) {
      Clients before = StartMix(store, WorkloadNamed("RW50"), row, /*seed=*/1000);
      measurement->WaitUntil(Now() + options_.duration);
      for (const auto& c : before) c->End();
    }
    Clients clients = row.kind == Row::Kind::kHalfDeleted ? StartScansOfHalf(store, row)
                      : row.kind == Row::Kind::kQueue     ? StartQueue(store, row)
                                                          : StartMix(store, row.workload, row, /*seed=*/1);
    measurement->Begin(clients);
    measurement->WaitUntil(Now() + options_.duration);
    return measurement->End(clients);
  }

  static Clients StartMix(Store* store, const Workload& workload, const Row& row, uint64_t seed) {
    return StartClients(store, workload, row.records,
                        SequencesFor(row.threads, row.records, seed, row.distribution), {.origin = Now()});
  }

  // Every second record is deleted; then everything is scanned, again and again. An operation is ten thousand
  // records of that.
  static Clients StartScansOfHalf(Store* store, const Row& row) {
    Keys keys(row.records);
    for (uint64_t record = 1; record < row.records.count; record += 2) store->Delete(keys.Of(record));
    Clients clients;
    clients.push_back(std::make_unique<Client>(
        [store, records = row.records, next = uint64_t{0}]() mutable {
          constexpr uint64_t kEach = 10'000;
          Keys keys(records);
          if (next >= records.count) next = 0;
          const std::string from(keys.Of(next));
          store->Scan(from, kEach, [&](std::string_view key, std::string_view) {
            if (key != keys.Of(next)) Fail("a scan of what is left misses a record, or finds a deleted one");
            next += 2;
            return true;
          });
        },
        nova::ClientOptions{.origin = Now()}));
    return clients;
  }

  // One client appends records, another takes the first one away, with a scan of one and a deletion. The
  // queue is never long.
  static Clients StartQueue(Store* store, const Row& row) {
    constexpr uint64_t kLongest = 10'000;
    struct Queue {
      std::atomic<uint64_t> head{0}, tail{0};
    };
    auto queue = std::make_shared<Queue>();
    Clients clients;
    clients.push_back(std::make_unique<Client>(
        [store, queue, records = row.records] {
          while (queue->tail - queue->head >= kLongest) SleepFor(100 * kMicrosecond);
          static thread_local Keys keys(records);
          static thread_local Values values(records);
          const std::string_view key = keys.Of(queue->tail);
          store->Put(key, values.For(key, queue->tail));
          ++queue->tail;
        },
        nova::ClientOptions{.origin = Now()}));
    clients.push_back(std::make_unique<Client>(
        [store, queue, records = row.records] {
          while (queue->tail == queue->head) SleepFor(100 * kMicrosecond);
          static thread_local Keys keys(records);
          const std::string_view expected = keys.Of(queue->head);
          bool found = false;
          store->Scan("", 1, [&](std::string_view key, std::string_view) { return found = key == expected; });
          if (!found) Fail("a queue whose first record is not there, or not the first");
          store->Delete(expected);
          ++queue->head;
        },
        nova::ClientOptions{.origin = Now()}));
    return clients;
  }

  // Bursts of puts, each with a scan of ten right behind it, and another one.
  Report MeasureFirstScans(Store* store, const Row& row, Measurement* measurement) const {
    constexpr uint64_t kBurst = 50'000;
    Load(store, row.records);
    store->WaitIdle();
    Keys keys(row.records);
    Values values(row.records);
    Random random(3);
    Histogram first, second;
    const double cpu = CpuSeconds();
    uint64_t puts = 0;
    for (const Nanos until = Now() + options_.duration; Now() < until;) {
      for (uint64_t i = 0; i < kBurst; ++i, ++puts) {
        const std::string_view key = keys.Of(random.Uniform(row.records.count));
        store->Put(key, values.For(key, random.Next()));
      }
      for (Histogram* const histogram : {&first, &second}) {
        const std::string from(keys.Of(random.Uniform(row.records.count)));
        const Nanos begin = Now();
        store->Scan(from, row.records.scan_length, [](std::string_view, std::string_view) { return true; });
        histogram->Add(static_cast<uint64_t>(Now() - begin));
      }
      measurement->WaitUntil(Now());
    }
    Report report;
    report.Add("first scan after a burst: median", "ms", static_cast<double>(first.Percentile(50)) * 1e-6);
    report.Add("first scan after a burst: longest", "ms", static_cast<double>(first.max()) * 1e-6);
    report.Add("the scan behind it: median", "ms", static_cast<double>(second.Percentile(50)) * 1e-6);
    report.Add("CPU with background work", "us/put", (CpuSeconds() - cpu) * 1e6 / static_cast<double>(puts));
    return report;
  }

  const CellOptions options_;
};

}  // namespace

std::unique_ptr<Cell> NewGridCell(const CellOptions& options) { return std::make_unique<GridCell>(options); }

}  // namespace nova
