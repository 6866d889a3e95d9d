// StorageTester: one tester for any ordered key-value store behind a small interface, after the
// ReadWriteStorageTester of "LSMTree" (Hagy): random puts, deletes, range deletes, gets and scans, each
// answer compared with a std::map.
//
// Two dials decide what a run is good at: the mix of operations, and the rate at which keys that are known to
// be there are chosen (a tester of fresh random keys alone finds almost nothing). The same options and seed
// give the same operations on every store, so the transcripts of two correct stores are equal.
//
// Thread safety: one thread.   Ownership: the store is the caller's.
// Errors: Internal: a wrong answer; says the operation, its number, what was expected and what came. Others:
//         the store's own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace nova {

class TestedStore {
 public:
  using Entries = std::vector<std::pair<std::string, std::string>>;
  virtual ~TestedStore() = default;
  virtual Status Put(const std::string& key, const std::string& value) = 0;
  virtual Status Delete(const std::string& key) = 0;
  // [begin, end); no end: to the last key
  virtual Status DeleteRange(const std::string& begin, const std::string& end) = 0;
  virtual StatusOr<std::string> Get(const std::string& key) = 0;  // NotFound
  virtual StatusOr<Entries> Scan(const std::string& from, size_t limit) = 0;
  virtual Status Disturb() { return OkStatus(); }  // flush, compact, reopen: whatever must change no answer
};

struct OperationMix {
  int put = 400, remove = 100, remove_range = 10, get = 400, scan = 100;  // weights
  static OperationMix Balanced() { return {}; }
  static OperationMix WriteHeavy() { return {800, 100, 5, 50, 50}; }
  static OperationMix DeleteHeavy() { return {450, 400, 50, 50, 50}; }
  static OperationMix ReadHeavy() { return {100, 20, 2, 700, 180}; }
};

struct StorageTesterOptions {
  uint64_t seed = 1;
  uint64_t operations = 10'000;
  OperationMix mix;
  double known_key_rate = 0.5;  // of the operations that choose a key which is in the store
  // at least 1; short ones are likely, so that keys collide and are prefixes of one another
  size_t max_key_bytes = 24;
  size_t max_value_bytes = 1024;
  size_t max_scan = 50;
  size_t max_removed_keys = 100;   // by one range delete, as far as the store knows keys
  uint64_t disturb_every = 1'000;  // operations; 0: never
};

// The store must be empty. Returns the transcript's digest: of every answer, and of what is left at the end.
StatusOr<uint64_t> TestStorage(TestedStore* store, const StorageTesterOptions& options);

}  // namespace nova
