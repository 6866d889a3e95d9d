// Workload: the operations of one cell of the comparison: a mix over records drawn uniformly or by rank
// (zipfian 0.99).
//
// The records a thread will touch are drawn beforehand: the generator is no part of what is measured.
//
// Thread safety: a Sequence and a Mix are one thread's.   Errors: a wrong answer of a store ends the program
// with one line.   Keys: 20 bytes, "user" and 16 digits, in the order of the record numbers; or as
// RecordOptions says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "experiments/peers/store.h"

namespace nova {

// ranked: record 0 is the hottest, hot keys are neighbours
enum class Distribution { kUniform, kZipfianRanked, kZipfianScrambled };

struct Workload {
  std::string name;  // R100, M100, S100, RW50, SW50, W100
  int write_percent = 0;
  int scan_percent = 0;
  int multiget_percent = 0;    // the rest are gets
  bool without_limit = false;  // of scans: asked for without one, and ended by who reads them
};
std::vector<Workload> AllWorkloads();
Workload WorkloadNamed(const std::string& name);  // fails on an unknown one

class Sequence {
 public:
  Sequence(Distribution distribution, uint64_t records, uint64_t seed);
  uint64_t Next() { return numbers_[at_++ % kLength]; }
  static constexpr uint64_t kMemoryBytes = uint64_t{4} << 20;

 private:
  static constexpr size_t kLength = kMemoryBytes / sizeof(uint32_t);
  std::vector<uint32_t> numbers_;
  size_t at_ = 0;
};

inline constexpr size_t kKeyBytes = 20;
inline void WriteKey(uint64_t record, char* key) {
  key[0] = 'u', key[1] = 's', key[2] = 'e', key[3] = 'r';
  for (int i = 19; i >= 4; --i, record /= 10) key[i] = static_cast<char>('0' + record % 10);
}

struct RecordOptions {
  uint64_t count = 1'000'000;
  size_t value_bytes = 1024;
  uint64_t scan_length = 10;  // records a scan wants, and a multi-get
  size_t max_value_bytes =
      0;  // values have from value_bytes to so many, small ones more often; 0: all value_bytes
  size_t shared_bytes = 0;  // with which all keys begin
  size_t key_bytes = kKeyBytes;
  // The same record is asked for again and again, all others never; or any is.
  bool one_hot = false;

  uint64_t DataBytes() const {  // about, where values have many sizes
    return count * (key_bytes + (max_value_bytes > 0 ? max_value_bytes / 5 : value_bytes));
  }
};

// The keys of records: shared_bytes, "user", up to 16 digits, and filler.
class Keys {
 public:
  explicit Keys(const RecordOptions& options);
  std::string_view Of(uint64_t record);  // valid until the next call

 private:
  const size_t digits_begin_, digits_end_;
  std::string key_;
};

// A value that starts with its key, so that a reader can tell whose it is; the rest is noise.
class Values {
 public:
  explicit Values(const RecordOptions& options);
  std::string_view For(std::string_view key, uint64_t salt);  // valid until the next call

 private:
  const size_t least_, most_;
  std::string noise_;
};
bool IsValueOf(std::string_view key, std::string_view value, const RecordOptions& options);

void Load(Store* store, const RecordOptions& options);  // each record once, in random order

// A thread's operations on a store that holds every record; each answer is looked at.
class Mix {
 public:
  enum class Operation { kPut, kGet, kScan, kMultiGet };
  Mix(Store* store, const Workload& workload, const RecordOptions& options, Sequence sequence, uint64_t seed);
  Operation RunOne();

 private:
  void ScanFrom(std::string_view key);
  void GetSeveral();

  Store* const store_;
  const Workload workload_;
  const RecordOptions options_;
  Sequence sequence_;
  Random random_;
  Keys keys_;
  Values values_;
  std::string value_;
  std::vector<std::string> several_;  // keys
  std::vector<std::optional<std::string>> values_of_several_;
};

}  // namespace nova
