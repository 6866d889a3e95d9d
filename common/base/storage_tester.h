// StorageTester: a tester for any ordered key-value store behind a small interface, after the
// ReadWriteStorageTester of "LSMTree" (Hagy): random puts, deletes, range deletes, gets and scans, each
// answer compared with a std::map.
//
// Two dials decide which faults a run finds: the mix of operations, and the rate at which keys that are in
// the store are chosen (fresh random keys alone find almost nothing). The same options and seed give the same
// operations on every store, so the transcripts of two correct stores are equal.
//
// Thread safety: one thread.
// Ownership: the store is the caller's.
// Errors: Internal: a wrong answer; with the operation, its number, the expected and the actual answer.
//   Others: the store's own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace nova {

// The store under test.
class TestedStore {
 public:
  using Entries = std::vector<std::pair<std::string, std::string>>;
  virtual ~TestedStore() = default;
  virtual Status Put(const std::string& key, const std::string& value) = 0;
  virtual Status Delete(const std::string& key) = 0;
  // Deletes [begin, end); an empty end: to the last key.
  virtual Status DeleteRange(const std::string& begin, const std::string& end) = 0;
  virtual StatusOr<std::string> Get(const std::string& key) = 0;  // NotFound
  // Returns at most `limit` entries from `from` on, ascending.
  virtual StatusOr<Entries> Scan(const std::string& from, size_t limit) = 0;
  virtual Status Disturb() { return OkStatus(); }  // flush, compact, reopen: whatever must change no answer
};

struct OperationMix {
  int put = 400, remove = 100, remove_range = 10, get = 400, scan = 100;  // relative weights
  static OperationMix Balanced() { return {}; }
  static OperationMix WriteHeavy() { return {800, 100, 5, 50, 50}; }
  static OperationMix DeleteHeavy() { return {450, 400, 50, 50, 50}; }
  static OperationMix ReadHeavy() { return {100, 20, 2, 700, 180}; }
};

struct StorageTesterOptions {
  uint64_t seed = 1;
  uint64_t operations = 10'000;
  OperationMix mix;
  double known_key_rate = 0.5;  // of the keys chosen: the part that is in the store
  // At least 1. Short keys are likely, so that keys collide and are prefixes of one another.
  size_t max_key_bytes = 24;
  size_t max_value_bytes = 1024;
  size_t max_scan = 50;            // entries of one scan
  size_t max_removed_keys = 100;   // by one range deletion, as far as the tester knows keys
  uint64_t disturb_every = 1'000;  // operations between two calls of Disturb; 0: none
};

// Runs the operations. The store must be empty. Returns a digest of every answer and of the final content.
StatusOr<uint64_t> TestStorage(TestedStore* store, const StorageTesterOptions& options);

}  // namespace nova
