#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "common/base/exit.h"
#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/process.h"

namespace nova {
namespace {

constexpr uint64_t kBetweenLooks = 4096;  // records, at the size of the log
constexpr uint64_t kRecordsChecked = 1000;

struct OnDisk {
  uint64_t log_bytes = 0;
  uint64_t tables = 0;
};

bool IsLog(const std::filesystem::path& file) {
  return file.extension() == ".log" || file.filename().string().starts_with("log-");
}

// Files may go while they are looked at.
OnDisk Look(const std::string& directory) {
  OnDisk seen;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::error_code gone;
    if (IsLog(entry.path())) {
      const uint64_t size = entry.file_size(gone);
      if (!gone) seen.log_bytes += size;
    }
    if (entry.path().extension() == ".sst" || entry.path().extension() == ".ldb") ++seen.tables;
  }
  return seen;
}

class ReopenCell : public Cell {
 public:
  ReopenCell(const CellOptions& options, const ReopenOptions& reopen) : options_(options), reopen_(reopen) {
    options_.store.log = true;
  }

  std::string Describe() const override {
    return StrCat("log of ", reopen_.log_bytes >> 20, " MiB, values of ", options_.records.value_bytes,
                  " bytes, no sync, memtables ", options_.store.memtable_bytes >> 20,
                  " MiB; the process that wrote it was killed by SIGKILL");
  }
  Report Run(const Engine& engine, const std::string& /*workload*/) override {
    StoreOptions store = options_.store;
    store.directory += "/" + engine.name;
    std::filesystem::remove_all(store.directory);
    std::filesystem::create_directories(store.directory);
    RunUntilKilled([&] { WriteAndDie(engine, store); });
    const OnDisk killed = Look(store.directory);
    Report report = ReportInChild([&] { return Measure(engine, store); });
    report.Add("log when it was killed", "MiB", Megabytes(killed.log_bytes));
    report.Add("tables when it was killed", "", static_cast<double>(killed.tables));
    std::filesystem::remove_all(store.directory);
    return report;
  }

 private:
  // Record after record, until the log is as long.
  void WriteAndDie(const Engine& engine, const StoreOptions& store) const {
    const auto database = engine.open(store);
    Values values(options_.records);
    char bytes[kKeyBytes];
    const std::string_view key(bytes, kKeyBytes);
    for (uint64_t record = 0;; ++record) {
      WriteKey(record, bytes);
      database->Put(key, values.For(key, record));
      if (record % kBetweenLooks != 0) continue;
      if (Look(store.directory).log_bytes >= reopen_.log_bytes) kill(getpid(), SIGKILL);
      if (record * (kKeyBytes + options_.records.value_bytes) > reopen_.log_bytes) {
        ExitWithError(StrCat(engine.name, ": the log does not grow to ", reopen_.log_bytes >> 20,
                             " MiB: flushes empty it; more --memory_mb"));
      }
    }
  }

  Report Measure(const Engine& engine, const StoreOptions& store) const {
    const double cpu = CpuSeconds();
    const Nanos begin = Now();
    const auto database = engine.open(store);
    const Nanos opened = Now();
    const double cpu_opened = CpuSeconds();
    const uint64_t peak = PeakResidentBytes();
    for (uint64_t record = 0; record < kRecordsChecked; ++record) CheckRecord(database.get(), engine, record);
    const Nanos checked = Now();
    uint64_t records = 0;
    database->Scan("", UINT64_MAX, [&](std::string_view, std::string_view) { return ++records > 0; });
    CheckRecord(database.get(), engine, records - 1);

    Report report;
    report.Add("open", "ms", Milliseconds(opened - begin));
    report.Add("open: CPU", "ms", (cpu_opened - cpu) * 1e3);
    report.Add("open: peak memory of the process", "MiB", Megabytes(peak));
    report.Add("then the first 1000 gets", "ms", Milliseconds(checked - opened));
    report.Add("open: a record", "us", Ratio(Seconds(opened - begin) * 1e6, static_cast<double>(records)));
    report.Add("records found", "", static_cast<double>(records));
    return report;
  }

  void CheckRecord(Store* database, const Engine& engine, uint64_t record) const {
    char bytes[kKeyBytes];
    std::string value;
    WriteKey(record, bytes);
    const std::string_view key(bytes, kKeyBytes);
    if (!database->Get(key, &value) || !IsValueOf(key, value, options_.records)) {
      Fail(StrCat(engine.name, ": record ", record, " is lost"));
    }
  }

  CellOptions options_;
  const ReopenOptions reopen_;
};

}  // namespace

std::unique_ptr<Cell> NewReopenCell(const CellOptions& options, const ReopenOptions& reopen) {
  return std::make_unique<ReopenCell>(options, reopen);
}

}  // namespace nova
