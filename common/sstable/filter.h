// Filter: which stored keys a table may hold. A Bloom filter whose bits for one key all lie in one line of 64
// bytes, so that a question costs one cache miss.
//
//   filter    line 0 | line 1 | ... (64 bytes each) | u8 probes     1 <= probes <= 7
//             no bytes at all: no filter
//
// A key hashes to h = XXH3-64. Its line is the high half of h * lines; its bits are `probes` pieces of 9 bits
// of Mix(h), taken from the low end; bit b is bit b % 8 of byte b / 8. Measured (filter_test.cc): 1 % false
// positives at 10 bits a key.
//
// Thread safety: Filter is immutable, FilterBuilder one thread's.
// Ownership: copies the bytes it is given.
// Errors: Parse returns false on bytes that are no filter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nova {

// The hash of filters, memtables and latches.
uint64_t FilterHash(std::string_view stored_key);

// Collects a table's keys.
class FilterBuilder {
 public:
  explicit FilterBuilder(int bits_per_key) : bits_per_key_(bits_per_key) {}  // 0: no filter is made
  void Add(std::string_view stored_key) {
    if (bits_per_key_ > 0) hashes_.push_back(FilterHash(stored_key));
  }
  void AppendTo(std::string* dst) const;  // the filter's bytes

 private:
  int bits_per_key_;
  std::vector<uint64_t> hashes_;
};

class Filter {
 public:
  bool Parse(std::string_view bytes);  // false: no filter
  bool empty() const { return lines_.empty(); }
  size_t memory_bytes() const { return lines_.size() * sizeof(Line); }
  // True without a filter. `hash` is the key's FilterHash.
  bool MayContain(uint64_t hash) const;
  // Asks the processor's cache for what MayContain will look at.
  void Prefetch(uint64_t hash) const;

 private:
  struct alignas(64) Line {
    uint64_t words[8];
  };
  static_assert(sizeof(Line) == 64);
  std::vector<Line> lines_;
  int probes_ = 0;  // bits looked at for a key
};

}  // namespace nova
