// WriteBatch: puts and deletions, of keys and of ranges of keys, that are written together or not at all
// (atomicity, K6), in the order they were added.
//
// Thread safety: none.
// Ownership: copies keys and values.
// Errors: none here; writing it checks each key and value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/keys.h"

namespace nova {

inline constexpr int64_t kMaxTtlMs = int64_t{1} << 50;  // the longest time to live; the shortest is 1

class WriteBatch {
 public:
  void Put(std::string_view key, std::string_view value) { Add(ValueType::kPut, key, value); }
  void PutTtl(std::string_view key, std::string_view value, int64_t ttl_ms) {
    Add(ValueType::kPutTtl, key, value, ttl_ms);
  }
  void Delete(std::string_view key) { Add(ValueType::kDelete, key, {}); }
  // Deletes [begin, end).
  void DeleteRange(std::string_view begin, std::string_view end) { Add(ValueType::kDeleteRange, begin, end); }
  void Clear() {
    entries_.clear();
    bytes_.clear();
  }
  size_t count() const { return entries_.size(); }
  size_t bytes() const { return bytes_.size(); }  // of keys and values together

  // An entry; it views the batch.
  struct Entry {
    ValueType type;
    std::string_view key;    // user key
    std::string_view value;  // of kDeleteRange: the end, a user key; empty: to the last key
    int64_t ttl_ms;          // of kPutTtl: milliseconds
  };
  Entry entry(size_t i) const {
    const Place& p = entries_[i];
    const std::string_view all = bytes_;
    return {p.type, all.substr(p.offset, p.key_size), all.substr(p.offset + p.key_size, p.value_size),
            p.ttl_ms};
  }

 private:
  // An entry's place in bytes_.
  struct Place {
    ValueType type;
    size_t offset, key_size, value_size;
    int64_t ttl_ms;
  };
  void Add(ValueType type, std::string_view key, std::string_view value, int64_t ttl_ms = 0) {
    entries_.push_back({type, bytes_.size(), key.size(), value.size(), ttl_ms});
    bytes_.append(key).append(value);
  }

  std::vector<Place> entries_;
  std::string bytes_;  // keys and values, one after another
};

}  // namespace nova
