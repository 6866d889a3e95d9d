// Cell: one kind of measurement that every engine goes through, each run in a process of its own (child.h).
//
//   cold           a loaded database is opened with nothing of it in the page cache, and read at once
//   beyond-memory  there are several times as many data as memory
//   churn          reads before and after many threads came and went, and while others keep coming
//   reopen         the database of a process that was killed is opened: its log is read
//   parked         reads while the writes of other threads stand still, because flushes are slow
//   grid           mixes over other sizes, lengths, counts of threads, and after other things
//
// Thread safety: the only thread of its process.   Ownership: a cell makes directory/ENGINE, and removes it
// in its destructor. Errors: one line ends the program with exit code 2.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "experiments/peers/client.h"
#include "experiments/peers/figures.h"
#include "experiments/peers/memory_limit.h"
#include "experiments/peers/store.h"
#include "experiments/peers/workload.h"

namespace nova {

struct CellOptions {
  StoreOptions store;  // its directory is where the engines' are made
  RecordOptions records;
  int threads = 2;
  Nanos duration = 10 * kSecond;  // of a run, or of each of its phases
};

class Cell {
 public:
  virtual ~Cell() = default;
  virtual std::string Describe() const = 0;  // what holds for every engine: a line or more
  // `workload`: the name of one, or in the grid of a row.
  virtual Report Run(const Engine& engine, const std::string& workload) = 0;
};

// Rows are workloads with what is different in them, "SW50-ranked-after-k16": ranked; after (RW50 ran
// before, on the same database); ended (scans without a limit, which their caller ends); hot (one record);
// mixed (values of 100 bytes to 100 KB); vN, kN (bytes of a value, a key); sharedN (bytes with which all
// keys begin); tN (threads); lenN (records a scan wants, or a multi-get). And three more: half-deleted (every
// second record, then scans of everything), queue (a record goes in behind, one is taken from the front),
// first-scan (after 50,000 puts).
std::unique_ptr<Cell> NewGridCell(const CellOptions& options);

std::unique_ptr<Cell> NewColdCell(const CellOptions& options);

struct BeyondMemoryOptions {
  uint64_t memory_bytes = 512 << 20;  // of the process and of the pages of files that it reads
  LimitBy limit_by = LimitBy::kAny;
};
std::unique_ptr<Cell> NewBeyondMemoryCell(const CellOptions& options, const BeyondMemoryOptions& beyond);

struct ChurnOptions {
  int threads_gone = 63;       // all there at once, each for a few operations
  int operations_each = 8;     // gets, and as many puts
  Nanos pause = kMillisecond;  // between two threads that come, do one get and go
};
std::unique_ptr<Cell> NewChurnCell(const CellOptions& options, const ChurnOptions& churn);

struct ReopenOptions {
  uint64_t log_bytes = 256 << 20;
};
std::unique_ptr<Cell> NewReopenCell(const CellOptions& options, const ReopenOptions& reopen);

struct ParkedOptions {
  int writers = 2;
  Nanos write_delay = kSecond;  // of each write to a table's file
};
// Of engines that take files.
std::unique_ptr<Cell> NewParkedCell(const CellOptions& options, const ParkedOptions& parked);

// Databases that hold every record, one an engine; idle when they were closed.
class LoadedDatabases {
 public:
  LoadedDatabases(const StoreOptions& store, const RecordOptions& records)
      : store_(store), records_(records) {}
  ~LoadedDatabases();
  const StoreOptions& Of(const Engine& engine);  // loads it unless it is there
  void Discard(const Engine& engine);            // the next Of loads it again

 private:
  const StoreOptions store_;
  const RecordOptions records_;
  std::map<std::string, StoreOptions> loaded_;  // by engine
};

inline double Seconds(Nanos ns) { return static_cast<double>(ns) * 1e-9; }
inline double Milliseconds(Nanos ns) { return static_cast<double>(ns) * 1e-6; }
inline double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace nova
