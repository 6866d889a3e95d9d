// SortedKeys: keys of a memtable in order, as an array: made of the chain of keys in one go, which costs a
// tenth of an insertion into a list for each key.
//
// An element is 16 bytes: a node and 8 bytes of its key, taken behind the bytes that all keys share. They
// tell most keys apart without a look at the node, which would be a cache miss, and they are sorted by radix.
//
// Thread safety: immutable once constructed.
// Ownership: nodes are the memtable's. The pool outlives it.
// Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ltc/engine/arena.h"
#include "ltc/engine/key_node.h"

namespace nova {

class SortedKeys {
 public:
  SortedKeys() = default;  // none
  // The keys on the chain from `from` on, and before `until`; null: the end of the chain. `expected`: about
  // how many. `pool`: where the array counts; null: nowhere.
  SortedKeys(KeyNode* from, const KeyNode* until, size_t expected, ArenaPool* pool);
  ~SortedKeys();
  SortedKeys(const SortedKeys&) = delete;
  SortedKeys& operator=(const SortedKeys&) = delete;

  size_t size() const { return keys_.size(); }
  KeyNode* operator[](size_t i) const { return keys_[i].node; }
  // How many keys are smaller; they are the first ones.
  size_t CountBefore(std::string_view stored_key) const;

 private:
  struct Key {
    uint64_t prefix;  // big-endian, so that integers compare as bytes do
    KeyNode* node;
  };

  // The prefix of a key, behind the first shared_ bytes.
  uint64_t PrefixOf(std::string_view stored_key) const;
  // Fills keys_ as the chain is, and sets shared_.
  void Gather(KeyNode* from, const KeyNode* until);
  // Sorts keys_ by prefix.
  void SortByPrefix();
  // Sorts those of equal prefixes by the rest of their keys.
  void SortEqualPrefixes();

  ArenaPool* const pool_ = nullptr;  // null: the array counts nowhere
  size_t shared_ = 0;                // bytes with which all keys begin
  std::vector<Key> keys_;
};

}  // namespace nova
