// KeyPieces: where a key lies among sorted keys, found without touching most of them: by 8-byte pieces, taken
// behind the bytes that all of them share.
//
// Thread safety: immutable once built.
// Ownership: copies what it needs of the keys.
// Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nova {

class KeyPieces {
 public:
  // Of `n` keys, ascending; key_at(i) is the i-th one.
  template <typename KeyAt>
  void Build(size_t n, const KeyAt& key_at) {
    shared_.clear();
    pieces_.clear();
    if (n == 0) return;
    const std::string_view smallest = key_at(0), largest = key_at(n - 1);
    size_t shared = 0;
    while (shared < smallest.size() && shared < largest.size() && smallest[shared] == largest[shared])
      ++shared;
    shared_ = smallest.substr(0, shared);
    pieces_.reserve(n);
    for (size_t i = 0; i < n; ++i) pieces_.push_back(PieceOf(key_at(i)));
  }
  size_t size() const { return pieces_.size(); }
  size_t memory_bytes() const { return pieces_.capacity() * sizeof(uint64_t); }

  // [first, second): the keys before it are below `key`, those from its end on above; those in it have the
  // piece of `key`.
  std::pair<size_t, size_t> Find(std::string_view key) const {
    const int c = key.substr(0, shared_.size()).compare(shared_);
    if (c != 0) return c < 0 ? std::pair<size_t, size_t>(0, 0) : std::pair(size(), size());
    const uint64_t piece = PieceOf(key);
    const auto first = std::lower_bound(pieces_.begin(), pieces_.end(), piece);
    auto last = first;
    if (first != pieces_.end() && *first == piece) last = std::upper_bound(first, pieces_.end(), piece);
    return {static_cast<size_t>(first - pieces_.begin()), static_cast<size_t>(last - pieces_.begin())};
  }

 private:
  // Eight bytes, big-endian, so that pieces order as the keys do; a shorter key is filled up with zeros.
  uint64_t PieceOf(std::string_view key) const {
    key.remove_prefix(std::min(shared_.size(), key.size()));
    uint64_t piece = 0;
    if (!key.empty()) std::memcpy(&piece, key.data(), std::min(key.size(), sizeof(piece)));
    return __builtin_bswap64(piece);
  }

  std::string shared_;            // bytes that all keys begin with
  std::vector<uint64_t> pieces_;  // of the keys
};

}  // namespace nova
