// Workload: the operations of one cell of the comparison: a mix over records drawn uniformly or by rank (zipfian 0.99).
//
// The records a thread will touch are drawn beforehand: the generator is no part of what is measured.
//
// Thread safety: Sequence is one thread's.   Keys: 20 bytes, "user" and 16 digits, in the order of the record numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nova {

enum class Distribution { kUniform, kZipfianRanked, kZipfianScrambled };  // ranked: record 0 is the hottest, hot keys are neighbours

struct Workload {
  std::string name;        // R100, RW50, SW50, W100
  int write_percent = 0;
  int scan_percent = 0;    // the rest are gets
};
std::vector<Workload> AllWorkloads();

class Sequence {
 public:
  Sequence(Distribution distribution, uint64_t records, uint64_t seed);
  uint64_t Next() { return numbers_[at_++ % kLength]; }

 private:
  static constexpr size_t kLength = 1 << 20;
  std::vector<uint32_t> numbers_;
  size_t at_ = 0;
};

inline constexpr size_t kKeyBytes = 20;
inline void WriteKey(uint64_t record, char* key) {
  key[0] = 'u', key[1] = 's', key[2] = 'e', key[3] = 'r';
  for (int i = 19; i >= 4; --i, record /= 10) key[i] = static_cast<char>('0' + record % 10);
}

// A value of `size` bytes that starts with its key, so that a reader can tell whose it is; the rest is noise.
class Values {
 public:
  explicit Values(size_t size);
  std::string_view For(std::string_view key, uint64_t salt);  // valid until the next call

 private:
  const size_t size_;
  std::string noise_;
};
bool IsValueOf(std::string_view key, std::string_view value, size_t size);

}  // namespace nova
