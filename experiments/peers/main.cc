// nova_peers: this engine beside RocksDB, LevelDB and LMDB: the same keys, values, memory and disk,
// interleaved in one run.
//
//   nova_peers --engines=nova,rocksdb-tuned --workloads=RW50,W100 --distributions=uniform --seconds=10
//   --runs=3
//
// Each cell: open an empty engine, load every record in random order, wait until it is idle, run the mix for
// --seconds, wait until it is idle again, read everything back by one scan. Printed: thousand operations per
// second (completions), the same over the time until the engine was idle, CPU microseconds per operation (the
// whole process), latencies, and the fewest puts that any second saw; medians over the runs. The load runs at
// the disk's own speed, and does not count. Each run is a process of its own.
//
//   nova_peers --cell=cold --directory=/data/scratch --runs=3
//
// measures something else (experiments/peers/cell.h); the cell sets what no flag says, and prints it.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/exit.h"
#include "common/base/flags.h"
#include "common/base/histogram.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"
#include "experiments/peers/page_cache.h"
#include "experiments/peers/plot.h"
#include "experiments/peers/process.h"
#include "experiments/peers/store.h"
#include "experiments/peers/workload.h"

DEFINE_string(cell, "mix", "what is measured: mix, cold, beyond-memory, churn, reopen, parked, grid");
DEFINE_string(engines, "nova,rocksdb-tuned,rocksdb-mmap,leveldb-small,leveldb-big",
              "engines to compare; rocksdb-all: every setting of RocksDB that was tried, with a modelled "
              "disk those that map no files");
DEFINE_string(workloads, "R100,RW50,SW50,W100",
              "of R100, M100, S100, RW50, SW50, W100; of the grid: rows (cell.h)");
DEFINE_string(distributions, "uniform,ranked", "of uniform, ranked, scrambled (zipfian 0.99)");
DEFINE_string(directory, "", "where the engines' directories are made; default: a new one under /tmp");
DEFINE_string(csv, "", "a file that gets one line a cell and run");
DEFINE_string(plot, "", "a PNG file that shows the medians, by gnuplot");
DEFINE_uint64(records, 1'000'000, "records loaded before each run");
DEFINE_uint64(value_bytes, 1024, "bytes of a value");
DEFINE_uint64(scan_length, 10, "records a scan wants, and a multi-get");
DEFINE_uint64(memory_mb, 512, "of memtables and what indexes them");
DEFINE_uint64(cache_mb, 512, "of block cache");
DEFINE_double(seconds, 10, "of each run");
DEFINE_double(skip_seconds, 0, "at the start of each run that do not count for kops/s");
DEFINE_bool(settle, true, "wait for background work at the end of each run");
DEFINE_int32(threads, 2, "that put, get and scan");
DEFINE_uint64(rate, 0,
              "operations per second of all threads, each due at its own time whether or not the one before "
              "has ended; latency "
              "counts from then (open loop); 0: one after another, as fast as they go");
DEFINE_int32(runs, 3, "of each cell, engines interleaved");
DEFINE_bool(log, false, "write a log");
DEFINE_uint64(disk_mb_per_second, 0,
              "of one modelled disk, which reads and writes share; 0: the machine's own");
DEFINE_bool(sync, false, "sync it at every write of a run (the load before is not synced)");
DEFINE_uint64(data_per_memory, 4, "beyond-memory: how often the records are the memory there is");
DEFINE_string(
    limit_by, "any",
    "beyond-memory: group (a control group), locked (another process locks the rest of the machine's "
    "memory), any: the first of them that can be had");
DEFINE_int32(threads_gone, 63, "churn: threads that come and go between the first phase and the second");
DEFINE_uint64(log_mb, 256, "reopen: of log when the writer is killed");
DEFINE_int32(writers, 2, "parked: threads that put, and stand");
DEFINE_int32(write_delay_ms, 1000, "parked: how much longer a write to a table's file takes");

namespace nova {

void Fail(const std::string& what) {
  std::fprintf(stderr, "nova_peers: %s\n", what.c_str());
  std::_Exit(kExitBadInput);
}

namespace {

constexpr Nanos kProgress = 10 * kSecond;  // between two lines of it

struct Result {
  double load_kops = 0;     // of the load, until its end
  double load_cpu_us = 0;   // an operation of it, background work until idle included
  double kops = 0;          // of the timed part
  double kops_settled = 0;  // the same operations over the time until idle
  double cpu_us = 0;        // an operation
  uint64_t put_p999_us = 0;
  uint64_t get_p999_us = 0;
  uint64_t max_us = 0;
  uint64_t least_puts = 0;  // of any second
};

RecordOptions Records() { return {FLAGS_records, FLAGS_value_bytes, FLAGS_scan_length}; }

void VerifyAll(Store* store, const std::string& engine) {
  uint64_t record = 0;
  char key[kKeyBytes];
  store->Scan("", UINT64_MAX, [&](std::string_view k, std::string_view v) {
    WriteKey(record++, key);
    if (k != std::string_view(key, kKeyBytes))
      Fail(engine + ": a scan of everything misses " + std::string(key, kKeyBytes));
    if (!IsValueOf(k, v, Records())) Fail(engine + ": a wrong value of " + std::string(k));
    return true;
  });
  if (record != FLAGS_records)
    Fail(engine + ": a scan of everything ends at record " + std::to_string(record));
}

// What the client threads count.
struct Timed {
  struct Second {
    uint64_t puts = 0, others = 0;
  };
  Histogram put, get, scan;
  Mutex mu;
  // since the start; a client tells of a second when it is over
  std::vector<Second> seconds ABSL_GUARDED_BY(mu);

  void Add(size_t second, const Second& s) {
    MutexLock lock(&mu);
    seconds.resize(std::max(seconds.size(), second + 1));
    seconds[second].puts += s.puts;
    seconds[second].others += s.others;
  }
  // For whoever waits.
  std::string Progress(Nanos from, Nanos to) {
    Second sum;
    MutexLock lock(&mu);
    for (auto i = static_cast<size_t>(from / kSecond);
         i < std::min(static_cast<size_t>(to / kSecond), seconds.size()); ++i) {
      sum.puts += seconds[i].puts;
      sum.others += seconds[i].others;
    }
    const double per = static_cast<double>(to - from) / 1e6;  // thousands of operations a second
    return absl::StrFormat("%lld s to %lld s: %.1f k puts/s, %.1f k reads/s", from / kSecond, to / kSecond,
                           static_cast<double>(sum.puts) / per, static_cast<double>(sum.others) / per);
  }
};

void RunClient(Store* store, const Workload& workload, Sequence sequence, uint64_t seed, Nanos start,
               Nanos until, Timed* timed) {
  Mix mix(store, workload, Records(), std::move(sequence), seed);
  Timed::Second counted;
  size_t counted_second = 0;
  const Nanos pace = FLAGS_rate == 0 ? 0 : kSecond * FLAGS_threads / static_cast<Nanos>(FLAGS_rate);
  for (Nanos now = Now(), due = now; now < until;) {
    if (pace > 0) {
      due += pace;
      if (due > now) SleepFor(due - now);
      now = due;
    }
    const Mix::Operation done = mix.RunOne();
    const Nanos end = Now();
    Histogram* const histogram = done == Mix::Operation::kPut    ? &timed->put
                                 : done == Mix::Operation::kScan ? &timed->scan
                                                                 : &timed->get;
    histogram->Add(static_cast<uint64_t>(end - now));
    const auto second = static_cast<size_t>((end - start) / kSecond);
    if (second != counted_second) {
      timed->Add(counted_second, counted);
      counted = {};
      counted_second = second;
    }
    ++(done == Mix::Operation::kPut ? counted.puts : counted.others);
    now = end;
  }
  timed->Add(counted_second, counted);
}

StoreOptions OptionsAt(const std::string& directory) {
  StoreOptions options;
  options.directory = directory;
  options.memtable_bytes = FLAGS_memory_mb << 20;
  options.cache_bytes = FLAGS_cache_mb << 20;
  options.log = FLAGS_log;
  return options;
}

Result RunMix(const Engine& engine, const Workload& workload, Distribution distribution,
              const std::string& directory) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  StoreOptions options = OptionsAt(directory);
  if (FLAGS_disk_mb_per_second > 0)
    options.disk = std::make_shared<DiskBandwidth>(LimitedDiskOptions{FLAGS_disk_mb_per_second << 20});
  Result result;
  {
    const auto store = engine.open(options);
    if (options.disk != nullptr) options.disk->SetLimited(false);
    const Nanos load_start = Now();
    const double load_cpu = CpuSeconds();
    Load(store.get(), Records());
    result.load_kops =
        static_cast<double>(FLAGS_records) / (static_cast<double>(Now() - load_start) * 1e-9) / 1e3;
    store->WaitIdle();
    result.load_cpu_us = (CpuSeconds() - load_cpu) / static_cast<double>(FLAGS_records) * 1e6;
    store->SetSync(FLAGS_sync);
    if (options.disk != nullptr) options.disk->SetLimited(true);
    std::vector<Sequence> sequences;
    for (int t = 0; t < FLAGS_threads; ++t)
      sequences.emplace_back(distribution, FLAGS_records, static_cast<uint64_t>(t) + 1);
    const Nanos start = Now();
    const double cpu = CpuSeconds();
    Timed timed;
    {
      std::vector<std::unique_ptr<Thread>> clients;
      const Nanos until = start + static_cast<Nanos>(FLAGS_seconds * 1e9);
      for (int t = 0; t < FLAGS_threads; ++t) {
        clients.push_back(std::make_unique<Thread>("client", [&, t] {
          RunClient(store.get(), workload, std::move(sequences[static_cast<size_t>(t)]),
                    static_cast<uint64_t>(t) + 1, start, until, &timed);
        }));
      }
      for (Nanos said = start; until - said > kProgress; said += kProgress) {
        // by then every client that is not stuck has told of those seconds
        SleepFor(said + kProgress + kSecond - Now());
        std::fprintf(stderr, "  %s %s: %s\n", engine.name.c_str(), workload.name.c_str(),
                     timed.Progress(said - start, said - start + kProgress).c_str());
      }
    }
    const double seconds = static_cast<double>(Now() - start) * 1e-9;
    if (FLAGS_settle) store->WaitIdle();
    MutexLock lock(&timed.mu);
    double operations = 0, counted = 0;
    result.least_puts = workload.write_percent > 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < timed.seconds.size(); ++i) {
      const auto both = static_cast<double>(timed.seconds[i].puts + timed.seconds[i].others);
      operations += both;
      if (static_cast<double>(i) >= FLAGS_skip_seconds) counted += both;
      if (static_cast<double>(i + 1) <= FLAGS_seconds)
        result.least_puts = std::min(result.least_puts, timed.seconds[i].puts);
    }
    result.kops = counted / (seconds - FLAGS_skip_seconds) / 1e3;
    result.kops_settled = operations / (static_cast<double>(Now() - start) * 1e-9) / 1e3;
    result.cpu_us = (CpuSeconds() - cpu) / operations * 1e6;
    result.put_p999_us = timed.put.Percentile(99.9) / 1000;
    result.get_p999_us = std::max(timed.get.Percentile(99.9), timed.scan.Percentile(99.9)) / 1000;
    result.max_us = std::max({timed.put.max(), timed.get.max(), timed.scan.max()}) / 1000;
    const std::string statistics = store->Statistics();
    if (!statistics.empty()) std::fprintf(stderr, "  %s\n", statistics.c_str());
    if (options.disk != nullptr) options.disk->SetLimited(false);
    VerifyAll(store.get(), engine.name);
  }
  std::filesystem::remove_all(directory);
  return result;
}

Result MedianOf(std::vector<Result> results) {
  std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) { return a.kops < b.kops; });
  return results[results.size() / 2];
}

void CheckFlags() {
  CheckFlagOneOf("cell", FLAGS_cell, {"mix", "cold", "beyond-memory", "churn", "reopen", "parked", "grid"});
  CheckFlagRange("records", FLAGS_records, 1, uint64_t{UINT32_MAX});
  CheckFlagRange("value_bytes", FLAGS_value_bytes, 0, 1 << 20);
  CheckFlagRange("scan_length", FLAGS_scan_length, 1, 1'000'000);
  CheckFlagRange("memory_mb", FLAGS_memory_mb, 1, 1 << 20);
  CheckFlagRange("cache_mb", FLAGS_cache_mb, 0, 1 << 20);
  CheckFlagRange("seconds", FLAGS_seconds, 0.001, 1e6);
  CheckFlagRange("skip_seconds", FLAGS_skip_seconds, 0, FLAGS_seconds);
  CheckFlagRange("threads", FLAGS_threads, 1, 1024);
  CheckFlagRange("rate", FLAGS_rate, 0, 1'000'000'000);
  CheckFlagRange("runs", FLAGS_runs, 1, 1000);
  CheckFlagRange("disk_mb_per_second", FLAGS_disk_mb_per_second, 0, 1 << 20);
  CheckFlagRange("threads_gone", FLAGS_threads_gone, 0, 10'000);
  CheckFlagRange("log_mb", FLAGS_log_mb, 1, 1 << 20);
  CheckFlagRange("writers", FLAGS_writers, 1, 1024);
  CheckFlagRange("write_delay_ms", FLAGS_write_delay_ms, 1, 10'000);
  if (FLAGS_cell == "cold") CheckFlagRange("seconds", FLAGS_seconds, 2, 1e6);
  if (FLAGS_sync && !FLAGS_log) ExitWithError("--sync needs --log");
}

std::vector<Engine> Engines() {
  std::vector<Engine> engines = EnginesNamed(FLAGS_engines, FLAGS_disk_mb_per_second > 0);
  if (engines.empty()) ExitWithError("no engine is left to measure");
  return engines;
}

// A new directory, unless one was named.
std::string Root() {
  if (!FLAGS_directory.empty()) {
    std::error_code error;
    if (std::filesystem::create_directories(FLAGS_directory, error); error) {
      ExitWithError(StrCat("--directory=", FLAGS_directory, ": ", error.message()));
    }
    return FLAGS_directory;
  }
  char made[] = "/tmp/nova-peers-XXXXXX";
  if (mkdtemp(made) == nullptr) ExitWithError("no directory can be made under /tmp");
  return made;
}

std::ofstream OpenCsv(const char* columns) {
  std::ofstream csv;
  if (FLAGS_csv.empty()) return csv;
  csv.open(FLAGS_csv);
  if (!csv) ExitWithError("cannot write " + FLAGS_csv);
  csv << columns << std::endl;
  return csv;
}

int RunMixes() {
  const std::vector<Engine> engines = Engines();
  const std::string root = Root();
  std::ofstream csv = OpenCsv(
      "workload,distribution,engine,run,load_kops,load_cpu_us,kops,kops_settled,cpu_us,put_p999_us,"
      "read_p999_us,max_us,least_puts");
  const std::map<std::string, Distribution> distributions = {{"uniform", Distribution::kUniform},
                                                             {"ranked", Distribution::kZipfianRanked},
                                                             {"scrambled", Distribution::kZipfianScrambled}};
  std::vector<PlotRow> rows;
  std::printf("%-6s %-10s %-26s %10s %10s %10s %10s %10s %12s %12s %10s %12s\n", "", "", "engine", "load k/s",
              "cpu us/op", "kops/s", "settled", "cpu us/op", "put p99.9 us", "read p99.9", "max us",
              "least puts/s");
  for (const std::string& w : SplitList(FLAGS_workloads)) {
    const Workload workload = WorkloadNamed(w);
    for (const std::string& d : SplitList(FLAGS_distributions)) {
      if (!distributions.contains(d)) Fail("there is no distribution " + d);
      std::map<std::string, std::vector<Result>> results;
      for (int run = 0; run < FLAGS_runs; ++run) {
        for (const Engine& engine : engines) {
          const auto run_one = [&] {
            return RunMix(engine, workload, distributions.at(d), root + "/" + engine.name);
          };
          const Result r = ValueInChild<Result>(run_one);
          std::fprintf(stderr, "  %s %s %s run %d: %.0f kops/s, %.1f us\n", w.c_str(), d.c_str(),
                       engine.name.c_str(), run + 1, r.kops, r.cpu_us);
          if (csv.is_open()) {
            csv << w << ',' << d << ',' << engine.name << ',' << run << ',' << r.load_kops << ','
                << r.load_cpu_us << ',' << r.kops << ',' << r.kops_settled << ',' << r.cpu_us << ','
                << r.put_p999_us << ',' << r.get_p999_us << ',' << r.max_us << ',' << r.least_puts
                << std::endl;
          }
          results[engine.name].push_back(r);
        }
      }
      rows.push_back({w + " " + d, {}});
      for (const Engine& engine : engines) {
        const Result r = MedianOf(results[engine.name]);
        rows.back().values.push_back(r.kops);
        std::printf("%-6s %-10s %-26s %10.0f %10.2f %10.0f %10.0f %10.2f %12llu %12llu %10llu %12llu\n",
                    w.c_str(), d.c_str(), engine.name.c_str(), r.load_kops, r.load_cpu_us, r.kops,
                    r.kops_settled, r.cpu_us, static_cast<unsigned long long>(r.put_p999_us),
                    static_cast<unsigned long long>(r.get_p999_us), static_cast<unsigned long long>(r.max_us),
                    static_cast<unsigned long long>(r.least_puts));
      }
      std::fflush(stdout);
    }
  }
  if (!FLAGS_plot.empty()) {
    std::vector<std::string> names;
    for (const Engine& engine : engines) names.push_back(engine.name);
    const std::string disk = FLAGS_disk_mb_per_second == 0
                                 ? ""
                                 : ", disk of " + std::to_string(FLAGS_disk_mb_per_second) + " MB/s";
    PlotBars(FLAGS_plot, std::string(FLAGS_log ? FLAGS_sync ? "log, synced" : "log" : "no log") + disk, names,
             rows);
  }
  if (FLAGS_directory.empty()) std::filesystem::remove_all(root);
  return 0;
}

// A cell, and the flags that it sets where the command line does not.
struct CellKind {
  const char* name;
  std::vector<std::pair<const char*, const char*>> defaults;
  std::vector<std::string> workloads;  // that it knows; empty: it says so itself
  std::unique_ptr<Cell> (*make)(const CellOptions&);
  bool slows_files = false;  // of engines that take them
};

BeyondMemoryOptions BeyondMemory() {
  const LimitBy by = FLAGS_limit_by == "group"    ? LimitBy::kGroup
                     : FLAGS_limit_by == "locked" ? LimitBy::kLockedMemory
                                                  : LimitBy::kAny;
  return {FLAGS_records * (kKeyBytes + FLAGS_value_bytes) / FLAGS_data_per_memory, by};
}

const std::vector<CellKind>& CellKinds() {
  static const auto* kinds = new std::vector<CellKind>{
      {"cold",
       {{"engines", "nova,rocksdb-mmap,rocksdb-tuned,rocksdb10,leveldb-small,lmdb"},
        {"workloads", "R100,S100"},
        {"records", "2000000"},
        {"memory_mb", "256"},
        {"cache_mb", "256"},
        {"seconds", "20"}},
       {"R100", "M100", "S100"},
       NewColdCell},
      {"beyond-memory",
       {{"engines", "nova,rocksdb-mmap,rocksdb-tuned,rocksdb10,leveldb-small,lmdb"},
        {"workloads", "R100"},
        {"records", "4000000"},
        {"seconds", "60"}},
       {"R100", "M100", "S100", "RW50", "SW50", "W100"},
       [](const CellOptions& o) { return NewBeyondMemoryCell(o, BeyondMemory()); }},
      {"churn",
       {{"engines", "nova,rocksdb-mmap,rocksdb10"},
        {"workloads", "R100"},
        {"records", "1000000"},
        {"seconds", "5"}},
       {"R100"},
       [](const CellOptions& o) { return NewChurnCell(o, {.threads_gone = FLAGS_threads_gone}); }},
      {"reopen",
       {{"engines", "nova,rocksdb,rocksdb10,leveldb-big"},
        {"workloads", "W100"},
        {"value_bytes", "8"},
        {"memory_mb", "6144"}},  // one memtable of any engine holds what the log holds
       {"W100"},
       [](const CellOptions& o) { return NewReopenCell(o, {.log_bytes = FLAGS_log_mb << 20}); }},
      {"parked",
       {{"engines", "nova"},
        {"workloads", "R100"},
        {"records", "200000"},
        {"memory_mb", "256"},
        {"cache_mb", "256"},
        {"seconds", "5"}},
       {"R100"},
       [](const CellOptions& o) {
         return NewParkedCell(o,
                              {.writers = FLAGS_writers, .write_delay = FLAGS_write_delay_ms * kMillisecond});
       },
       /*slows_files=*/true},
      {"grid",
       {{"engines", "nova,rocksdb-mmap,rocksdb10,leveldb-small,lmdb"},
        {"workloads",
         "M100,M100-ranked,S100,S100-len1000,S100-ended,SW50-after,SW50-ranked-after,SW50-k16,R100-v100,RW50-"
         "v100,W100-v100,"
         "RW50-v100000,RW50-mixed,RW50-k100,R100-shared80,R100-t1,R100-t32,R100-t128,W100-t1,W100-t8,W100-"
         "t32,"
         "W100-t128,W100-t500,S100-v100000,RW50-hot,half-deleted,queue,first-scan"},
        {"records", "500000"},
        {"seconds", "5"}},
       {},
       NewGridCell},
  };
  return *kinds;
}

const CellKind* Kind() {
  for (const CellKind& kind : CellKinds()) {
    if (FLAGS_cell == kind.name) return &kind;
  }
  return nullptr;  // the mix
}

void SetUnlessGiven(const char* flag, const std::string& value) {
  gflags::SetCommandLineOptionWithMode(flag, value.c_str(), gflags::SET_FLAG_IF_DEFAULT);
}

// What an engine plans with has to fit beside what it does not count, and pages of files.
void ShareOutMemory() {
  CheckFlagRange("data_per_memory", FLAGS_data_per_memory, 1, 1000);
  CheckFlagOneOf("limit_by", FLAGS_limit_by, {"any", "group", "locked"});
  const uint64_t memory_mb = BeyondMemory().memory_bytes >> 20;
  constexpr uint64_t kLeast = 64;
  if (memory_mb < kLeast) {
    ExitWithError(StrCat("memory of ", memory_mb, " MiB: at least ", kLeast, ", by more --records"));
  }
  SetUnlessGiven("memory_mb", StrCat(memory_mb / 4));
  SetUnlessGiven("cache_mb", StrCat(memory_mb / 4));
  if (FLAGS_memory_mb + FLAGS_cache_mb > memory_mb / 2) {
    ExitWithError(
        StrCat("--memory_mb and --cache_mb together over half of the memory, which is ", memory_mb, " MiB"));
  }
}

void SetDefaults(const CellKind& kind) {
  for (const char* flag :
       {"distributions", "skip_seconds", "settle", "rate", "sync", "disk_mb_per_second", "plot"}) {
    if (IsFlagGiven(flag)) ExitWithError(StrCat("--", flag, " is of --cell=mix"));
  }
  for (const auto& [flag, value] : kind.defaults) SetUnlessGiven(flag, value);
  if (FLAGS_cell == "beyond-memory") ShareOutMemory();
}

void CheckWorkloads(const CellKind& kind) {
  if (kind.workloads.empty()) return;
  for (const std::string& w : SplitList(FLAGS_workloads)) {
    if (std::find(kind.workloads.begin(), kind.workloads.end(), w) == kind.workloads.end()) {
      ExitWithError(StrCat("--cell=", kind.name, " does not know the workload ", w));
    }
  }
}

int RunCells(const CellKind& kind) {
  const std::vector<Engine> engines = Engines();
  std::vector<std::string> names;
  for (const Engine& engine : engines) {
    names.push_back(engine.name);
    if (kind.slows_files && !engine.takes_files) {
      ExitWithError(engine.name + " cannot be given a slow disk for its flushes: --engines=nova");
    }
  }
  const std::string root = Root();
  if (IsInMemory(root)) {
    ExitWithError(root + " is in memory (tmpfs): name a directory on a disk with --directory");
  }
  std::ofstream csv = OpenCsv("cell,engine,run,figure,unit,value");
  const CellOptions options{OptionsAt(root), Records(), FLAGS_threads,
                            static_cast<Nanos>(FLAGS_seconds * 1e9)};
  std::unique_ptr<Cell> cell = kind.make(options);
  std::printf("%s: %s; medians of %d runs\n", kind.name, cell->Describe().c_str(), FLAGS_runs);
  std::fflush(stdout);
  for (const std::string& w : SplitList(FLAGS_workloads)) {
    const std::string title = StrCat(kind.name, " ", w);
    std::vector<std::vector<Report>> reports(engines.size());
    for (int run = 0; run < FLAGS_runs; ++run) {
      for (size_t i = 0; i < engines.size(); ++i) {
        reports[i].push_back(cell->Run(engines[i], w));
        if (csv.is_open()) WriteCsv(csv, title, names[i], run, reports[i].back());
        std::fprintf(stderr, "  %s %s run %d\n", title.c_str(), names[i].c_str(), run + 1);
      }
    }
    std::vector<Report> medians;
    for (const auto& of_engine : reports) medians.push_back(MedianOf(of_engine));
    PrintTable(title, names, medians);
    for (size_t i = 0; i < engines.size(); ++i) PrintSeries(names[i], reports[i].back());
  }
  cell = nullptr;
  if (FLAGS_directory.empty()) std::filesystem::remove_all(root);
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) {
  nova::ParseFlags("this engine beside RocksDB, LevelDB and LMDB", &argc, &argv);
  nova::RefuseArguments(argc, argv);
  const nova::CellKind* kind = nova::Kind();
  if (kind != nullptr) nova::SetDefaults(*kind);
  nova::CheckFlags();
  if (kind == nullptr) return nova::RunMixes();
  nova::CheckWorkloads(*kind);
  return nova::RunCells(*kind);
}
