#include "ltc/engine/sorted_keys.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/keys.h"

namespace nova {
namespace {

constexpr size_t kByteValues = 256;

}  // namespace

SortedKeys::SortedKeys(KeyNode* from, const KeyNode* until, size_t expected, ArenaPool* pool) : pool_(pool) {
  if (from == until) return;
  keys_.reserve(expected);
  Gather(from, until);
  SortByPrefix();
  SortEqualPrefixes();
  if (pool_ != nullptr) pool_->AddLarge(static_cast<ptrdiff_t>(keys_.capacity() * sizeof(Key)));
}

SortedKeys::~SortedKeys() {
  if (pool_ != nullptr) pool_->AddLarge(-static_cast<ptrdiff_t>(keys_.capacity() * sizeof(Key)));
}

uint64_t SortedKeys::PrefixOf(std::string_view stored_key) const {
  const std::string_view rest = stored_key.substr(std::min(shared_, stored_key.size()), sizeof(uint64_t));
  uint64_t prefix = 0;
  if (!rest.empty()) std::memcpy(&prefix, rest.data(), rest.size());
  return __builtin_bswap64(prefix);
}

// Nodes lie in the arena about as they are chained, the older one before the younger one: so where the next
// ones will be found is guessed from the last two, and they are fetched while this one is looked at. What all
// keys share is guessed from the first ones, and where the guess is wrong the prefixes are taken anew.
void SortedKeys::Gather(KeyNode* from, const KeyNode* until) {
  constexpr size_t kGuessFrom = 64;  // keys
  constexpr uintptr_t kStepsAhead = 6;
  const std::string_view first = from->key();
  shared_ = first.size();
  KeyNode* n = from;
  for (size_t i = 0; i < kGuessFrom && n != until; ++i, n = n->older_in_chain)
    shared_ = std::min(shared_, CommonPrefix(first, n->key()));
  size_t shared = shared_;
  for (n = from; n != until; n = n->older_in_chain) {
    const auto at = reinterpret_cast<uintptr_t>(n), older = reinterpret_cast<uintptr_t>(n->older_in_chain);
    const uintptr_t guess = older - kStepsAhead * (at - older);
    __builtin_prefetch(reinterpret_cast<const void*>(guess));
    __builtin_prefetch(reinterpret_cast<const void*>(guess + 64));
    shared = std::min(shared, CommonPrefix(first, n->key()));
    keys_.push_back({PrefixOf(n->key()), n});
  }
  if (shared == shared_) return;
  shared_ = shared;
  for (size_t i = 0; i < keys_.size(); ++i) {
    constexpr size_t kNodesAhead = 8;
    if (i + kNodesAhead < keys_.size()) __builtin_prefetch(keys_[i + kNodesAhead].node);
    keys_[i].prefix = PrefixOf(keys_[i].node->key());
  }
}

// From the last byte to the first, each a stable distribution; bytes that are the same in all are passed
// over.
void SortedKeys::SortByPrefix() {
  constexpr size_t kFewKeys = 512;
  if (keys_.size() < kFewKeys) {
    std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) { return a.prefix < b.prefix; });
    return;
  }
  std::array<std::array<uint32_t, kByteValues>, sizeof(uint64_t)> counts{};
  for (const Key& k : keys_) {
    for (size_t byte = 0; byte < counts.size(); ++byte) ++counts[byte][k.prefix >> (8 * byte) & 0xff];
  }
  std::vector<Key> other(keys_.size());
  for (size_t byte = 0; byte < counts.size(); ++byte) {
    std::array<uint32_t, kByteValues>& places = counts[byte];
    if (places[keys_[0].prefix >> (8 * byte) & 0xff] == keys_.size()) continue;
    uint32_t place = 0;
    for (uint32_t& p : places) place += std::exchange(p, place);
    for (const Key& k : keys_) other[places[k.prefix >> (8 * byte) & 0xff]++] = k;
    keys_.swap(other);
  }
}

void SortedKeys::SortEqualPrefixes() {
  for (auto from = keys_.begin(); from != keys_.end();) {
    auto to = from + 1;
    while (to != keys_.end() && to->prefix == from->prefix) ++to;
    if (to - from > 1)
      std::sort(from, to, [](const Key& a, const Key& b) { return a.node->key() < b.node->key(); });
    from = to;
  }
}

size_t SortedKeys::CountBefore(std::string_view stored_key) const {
  if (keys_.empty()) return 0;
  const int order = stored_key.substr(0, shared_).compare(keys_[0].node->key().substr(0, shared_));
  if (order != 0) return order < 0 ? 0 : keys_.size();
  const uint64_t prefix = PrefixOf(stored_key);
  const auto at = std::partition_point(keys_.begin(), keys_.end(), [&](const Key& k) {
    return k.prefix != prefix ? k.prefix < prefix : k.node->key() < stored_key;
  });
  return static_cast<size_t>(at - keys_.begin());
}

}  // namespace nova
