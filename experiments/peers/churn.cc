#include <filesystem>

#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"

namespace nova {
namespace {

// Waits until so many threads have come here; then all go on.
class Gathering {
 public:
  explicit Gathering(int threads) : missing_(threads) {}
  void Come() {
    MutexLock lock(&mu_);
    if (--missing_ == 0) all_here_.SignalAll();
    while (missing_ > 0) all_here_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar all_here_;
  int missing_ ABSL_GUARDED_BY(mu_);
};

// Threads that come, do one get and go, until it is destroyed.
class Passers {
 public:
  Passers(Store* store, const RecordOptions& records, Nanos pause)
      : thread_("passers", [this, store, records, pause] { Loop(store, records, pause); }) {}
  ~Passers() { End(); }
  uint64_t End() {  // how many there were
    ending_.store(true);
    thread_.Join();
    return came_;
  }

 private:
  void Loop(Store* store, const RecordOptions& records, Nanos pause) {
    Sequence sequence(Distribution::kUniform, records.count, 99);
    for (Nanos due = Now(); !ending_.load(); ++came_) {
      const uint64_t record = sequence.Next();
      Thread passer("passer", [&] {
        char key[kKeyBytes];
        std::string value;
        WriteKey(record, key);
        if (!store->Get({key, kKeyBytes}, &value)) Fail("a get of a thread that came returned nothing");
      });
      passer.Join();
      due += pause;
      SleepUntil(due);
    }
  }

  std::atomic<bool> ending_{false};
  uint64_t came_ = 0;  // read when thread_ has ended
  Thread thread_;
};

class ChurnCell : public Cell {
 public:
  ChurnCell(const CellOptions& options, const ChurnOptions& churn) : options_(options), churn_(churn) {}

  std::string Describe() const override {
    return StrCat(options_.records.count, " records of ", options_.records.value_bytes, " bytes, memtables ",
                  options_.store.memtable_bytes >> 20, " MiB, cache ", options_.store.cache_bytes >> 20,
                  " MiB; 2 readers, one of which leaves after the first phase; ", churn_.threads_gone,
                  " threads come and go, then another reader comes; phases of ", Seconds(options_.duration),
                  " s");
  }
  Report Run(const Engine& engine, const std::string& name) override {
    const Workload workload = WorkloadNamed(name);
    StoreOptions store = options_.store;
    store.directory += "/" + engine.name;
    std::filesystem::remove_all(store.directory);
    std::filesystem::create_directories(store.directory);
    Report report = ReportInChild([&] { return Measure(engine, store, workload); });
    std::filesystem::remove_all(store.directory);
    return report;
  }

 private:
  struct Phase {
    double kops = 0;
    Nanos longest = 0;
  };

  Report Measure(const Engine& engine, const StoreOptions& store, const Workload& workload) const {
    const auto database = engine.open(store);
    Load(database.get(), options_.records);
    database->WaitIdle();
    std::vector<Sequence> sequences = SequencesFor(3, options_.records);
    Clients readers;
    const auto come = [&] {  // one after another: who comes first is first for the engine too
      const size_t n = sequences.size();
      readers.push_back(std::make_unique<Client>(
          OperationOf(Mix(database.get(), workload, options_.records, std::move(sequences.back()), n)),
          ClientOptions{.origin = Now()}));
      sequences.pop_back();
      readers.back()->WaitForFirst();
    };
    come();
    come();
    const Phase before = Measured(readers);
    readers.erase(readers.begin());
    ComeAndGo(database.get());
    come();
    const Phase after = Measured(readers);
    Passers passers(database.get(), options_.records, churn_.pause);
    const Nanos from = Now();
    const Phase beside = Measured(readers);
    const double passed = static_cast<double>(passers.End()) / Seconds(Now() - from);
    readers.clear();

    Report report;
    report.Add("before", "K op/s", before.kops);
    report.Add("after", "K op/s", after.kops);
    report.Add("beside threads that come and go", "K op/s", beside.kops);
    report.Add("threads that came and went beside", "1/s", passed);
    report.Add("after / before", "", Ratio(after.kops, before.kops));
    report.Add("beside / before", "", Ratio(beside.kops, before.kops));
    report.Add("longest operation before", "ms", Milliseconds(before.longest));
    report.Add("longest operation after", "ms", Milliseconds(after.longest));
    report.Add("longest operation beside", "ms", Milliseconds(beside.longest));
    return report;
  }

  Phase Measured(const Clients& readers) const {
    TakeLongestOf(readers);
    const uint64_t operations = OperationsOf(readers);
    const Nanos begin = Now();
    SleepFor(options_.duration);
    return {static_cast<double>(OperationsOf(readers) - operations) / Seconds(Now() - begin) / 1e3,
            TakeLongestOf(readers)};
  }

  // Each thread reads and writes a few records; none goes before all are there.
  void ComeAndGo(Store* store) const {
    Gathering gathering(churn_.threads_gone);
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < churn_.threads_gone; ++t) {
      threads.push_back(std::make_unique<Thread>("short-lived", [&, t] {
        Random random(static_cast<uint64_t>(t) + 1);
        Values values(options_.records);
        std::string value;
        char bytes[kKeyBytes];
        const std::string_view key(bytes, kKeyBytes);
        for (int i = 0; i < churn_.operations_each; ++i) {
          WriteKey(random.Uniform(options_.records.count), bytes);
          if (!store->Get(key, &value)) Fail("a get of a short-lived thread returned nothing");
          store->Put(key, values.For(key, random.Next()));
        }
        gathering.Come();
      }));
    }
  }

  const CellOptions options_;
  const ChurnOptions churn_;
};

}  // namespace

std::unique_ptr<Cell> NewChurnCell(const CellOptions& options, const ChurnOptions& churn) {
  return std::make_unique<ChurnCell>(options, churn);
}

}  // namespace nova
