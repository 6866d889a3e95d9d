// KeyList: a skip list of keys of a memtable: for those that came since the others were sorted
// (ltc/engine/sorted_keys.h). A seek index of the keys on its second level lies in a dense array, where a
// search begins: it then takes about five nodes instead of twenty, each of which is two cache misses.
//
// Thread safety: one thread at a time inserts; all other methods from any thread meanwhile, which may or may
//   not find what is being inserted. Nothing is removed. InsertAll and size() under the caller's lock.
// Ownership: nodes are the memtable's; a node is in one list at most.
// Errors: none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ltc/engine/key_node.h"
#include "ltc/engine/sorted_keys.h"

namespace nova {

class KeyList {
 public:
  // `head`: a node of no key and kMaxHeight, for this list alone.
  explicit KeyList(KeyNode* head);
  ~KeyList();
  KeyList(const KeyList&) = delete;
  KeyList& operator=(const KeyList&) = delete;

  void InsertAll(const SortedKeys& keys);  // none of which is in it
  uint64_t size() const { return size_; }
  bool empty() const { return First() == nullptr; }

  // Where a search begins.
  struct Start {
    KeyNode* from = nullptr;         // the head, or a node before the key
    int level = 0;                   // of `from`
    const KeyNode* until = nullptr;  // a node that is known not to be before the key; null: none is known
  };
  // Where to search for a key, as the seek index tells. Reads no node.
  Start StartOf(std::string_view stored_key) const;
  // Null: there is none.
  const KeyNode* First() const { return head_->next(0).load(std::memory_order_acquire); }
  const KeyNode* Last() const;
  const KeyNode* Next(const KeyNode* node) const { return node->next(0).load(std::memory_order_acquire); }
  // The first key that is not smaller.
  const KeyNode* FindGreaterOrEqual(std::string_view stored_key, const Start& start) const;
  const KeyNode* FindLess(std::string_view stored_key) const;  // the last key that is smaller

 private:
  struct SeekIndex;  // keys of the second level, as it once was
  static constexpr int kMaxHeight = KeyNode::kMaxHeight;

  // `before`: on each level the last node at or before the key that was inserted last, which is smaller.
  void Insert(KeyNode* node, std::array<KeyNode*, kMaxHeight>* before);
  // Makes a new seek index where the list has grown to twice what the last one knew.
  void Index();
  // The node's key is smaller; false for null.
  static bool IsBefore(const KeyNode* node, std::string_view stored_key);
  // As FindLess, but the head for none.
  KeyNode* FindBefore(std::string_view stored_key, const Start& start) const;

  KeyNode* const head_;
  std::atomic<int> height_{1};                                  // levels in use
  std::atomic<const SeekIndex*> seek_index_{nullptr};           // the last of seek_indexes_; null: none yet
  uint64_t size_ = 0;                                           // keys in the list
  uint64_t indexed_ = 0;                                        // of them, when the last seek index was made
  std::vector<std::unique_ptr<const SeekIndex>> seek_indexes_;  // all: readers may still be in an older one
};

}  // namespace nova
