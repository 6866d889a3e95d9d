// Store: what a benchmark asks of a key-value engine; one file an engine.
//
// Thread safety: Put, Get and Scan from any number of threads.
// Ownership: the directory is the caller's, and at Open empty or what the same engine left there.
// Errors: an engine that fails ends the program with one line: a figure from a run with errors is no figure.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/disk.h"
#include "common/base/limited_disk.h"

namespace nova {

struct StoreOptions {
  std::string directory;
  size_t memtable_bytes = 512 << 20;  // all memtables together, with what indexes them
  size_t cache_bytes = 512 << 20;
  bool log = false;
  int filter_bits_per_key = 10;
  // of the modelled disk that all reads and writes of files go through; null: none
  std::shared_ptr<DiskBandwidth> disk;
  Disk* files = nullptr;  // instead of the directory's own, if the engine takes_files; outlives the store
};

class Store {
 public:
  virtual ~Store() = default;
  virtual void SetSync(bool on) = 0;  // whether later writes are synced to the log; no operation is under way
  virtual void Put(std::string_view key, std::string_view value) = 0;
  virtual void Delete(std::string_view key) = 0;
  // [begin, end); no end: to the last key
  virtual void DeleteRange(std::string_view begin, std::string_view end) = 0;
  virtual bool Get(std::string_view key, std::string* value) = 0;  // false: there is no such key
  // All at one moment, as far as the engine can. nullopt: there is no such key.
  virtual void MultiGet(std::span<const std::string> keys, std::vector<std::optional<std::string>>* values);
  // Up to `limit` entries from `from` on; stops early when `entry` returns false.
  virtual void Scan(std::string_view from, uint64_t limit,
                    const std::function<bool(std::string_view, std::string_view)>& entry) = 0;
  virtual void WaitIdle() = 0;  // until no flush and no compaction is due
  virtual std::string Statistics() { return ""; }
};

struct Engine {
  std::string name;  // "nova", "rocksdb", "rocksdb-tuned", ...
  std::function<std::unique_ptr<Store>(const StoreOptions&)> open;
  bool maps_files = false;                        // and reads them past a modelled disk: open fails with one
  bool takes_files = false;                       // StoreOptions::files
  std::function<std::string()> absent = nullptr;  // why it is not on this machine; empty, or null: it is
};
std::vector<Engine> NovaEngines();
std::vector<Engine> RocksdbEngines();
std::vector<Engine> Rocksdb10Engines();  // a newer version; only one of the two in a process
std::vector<Engine> LeveldbEngines();
std::vector<Engine> LmdbEngines();

std::vector<std::string> SplitAt(const std::string& text, char separator);
inline std::vector<std::string> SplitList(const std::string& list) { return SplitAt(list, ','); }
// Fails on an unknown name. Says in one line which is not on this machine, and leaves it out.
// `modelled_disk`: "rocksdb-all" leaves out what maps files.
std::vector<Engine> EnginesNamed(const std::string& comma_separated, bool modelled_disk = false);
[[noreturn]] void Fail(const std::string& what);  // one line; the exit code is not 0

}  // namespace nova
