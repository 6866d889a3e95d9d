// KeyOrder: the order of a memtable's keys as it is at one time: an array of those that were sorted in one
// go, and a list of those that came since. A key is in one of the two. A memtable makes a new order when the
// list would outgrow the array; whoever reads in the old one goes on there.
//
// KeyCursor: a place in it.
//
// Thread safety: KeyOrder: as KeyList. KeyCursor: one thread.
// Ownership: nodes are the memtable's. A cursor does not keep its order.
// Errors: none.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/sstable/iterator.h"
#include "ltc/engine/key_list.h"
#include "ltc/engine/key_node.h"
#include "ltc/engine/sorted_keys.h"

namespace nova {

struct KeyOrder {
  // As KeyList's and SortedKeys' constructors.
  explicit KeyOrder(KeyNode* head) : list(head) {}
  KeyOrder(KeyNode* head, KeyNode* youngest, size_t expected, ArenaPool* pool)
      : sorted(youngest, nullptr, expected, pool), list(head) {}

  const SortedKeys sorted;
  KeyList list;
};

class KeyCursor {
 public:
  KeyCursor(const KeyOrder* order, Direction direction) : order_(order), direction_(direction) {}

  // The place is another order's from here on; a move to some place has to follow.
  void Use(const KeyOrder* order);
  void SeekToFirst();  // backwards to the last key
  // Looks up where the Seek that follows begins, and fetches what it will look at. Forward only.
  void PrepareSeek(std::string_view stored_key);
  // To the first key that is not smaller; backwards to the last one that is smaller.
  void Seek(std::string_view stored_key);
  void Next();                                   // backwards to the key before. REQUIRES: node() is not null
  const KeyNode* node() const { return node_; }  // null: the end

 private:
  // Sets node_ to the nearer one of sorted_node_ and listed_.
  void Settle();
  // The key of the array at sorted_; null: there is none. Fetches those that follow.
  const KeyNode* SortedNode() const;

  const KeyOrder* order_;
  const Direction direction_;
  size_t sorted_ = 0;                // keys of the array before the place; backwards with the one there
  const KeyNode* listed_ = nullptr;  // the key of the list that is next
  const KeyNode* node_ = nullptr;    // see node()
  bool at_listed_ = false;           // node_ is listed_
  // Of the Seek that follows.
  struct Prepared {
    bool done = false;
    size_t sorted = 0;
    KeyList::Start start;
  } prepared_;
};

}  // namespace nova
