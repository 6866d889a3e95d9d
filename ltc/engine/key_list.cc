#include "ltc/engine/key_list.h"

#include <algorithm>

#include "common/sstable/key_pieces.h"

namespace nova {

// A quarter of the keys is on the second level. Their pieces lie side by side and stay in the processor's
// cache, where the nodes of a list never are.
struct KeyList::SeekIndex {
  KeyPieces pieces;
  std::vector<KeyNode*> nodes;

  // Counts the nodes before the key; they are the first ones.
  size_t CountBefore(std::string_view stored_key) const {
    auto [lo, hi] = pieces.Find(stored_key);
    const auto end = std::partition_point(nodes.begin() + static_cast<ptrdiff_t>(lo),
                                          nodes.begin() + static_cast<ptrdiff_t>(hi),
                                          [&](const KeyNode* n) { return n->key() < stored_key; });
    return static_cast<size_t>(end - nodes.begin());
  }
};

KeyList::KeyList(KeyNode* head) : head_(head) {}

KeyList::~KeyList() = default;

void KeyList::InsertAll(const SortedKeys& keys) {
  constexpr size_t kNodesAhead = 8;
  std::array<KeyNode*, kMaxHeight> before;
  before.fill(head_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kNodesAhead < keys.size()) {
      const auto* ahead = reinterpret_cast<const char*>(keys[i + kNodesAhead]);
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
    }
    Insert(keys[i], &before);
  }
  size_ += keys.size();
  Index();
}

void KeyList::Insert(KeyNode* node, std::array<KeyNode*, kMaxHeight>* before) {
  const std::string_view key = node->key();
  KeyNode* from = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    // Where a level above moved on, it is past what the levels below remember.
    KeyNode* n = from != nullptr ? from : (*before)[level];
    for (KeyNode* next; IsBefore(next = n->next(level).load(std::memory_order_relaxed), key);)
      from = n = next;
    (*before)[level] = n;
  }
  if (node->height > height_.load(std::memory_order_relaxed))
    height_.store(node->height, std::memory_order_relaxed);
  for (int level = 0; level < node->height; ++level) {
    node->next(level).store((*before)[level]->next(level).load(std::memory_order_relaxed),
                            std::memory_order_relaxed);
    (*before)[level]->next(level).store(node, std::memory_order_release);
    (*before)[level] = node;
  }
}

void KeyList::Index() {
  constexpr uint64_t kLeast = 1024;  // keys, that are worth it
  if (size_ < std::max(kLeast, 2 * indexed_)) return;
  auto index = std::make_unique<SeekIndex>();
  for (KeyNode* n = head_->next(1).load(std::memory_order_relaxed); n != nullptr;
       n = n->next(1).load(std::memory_order_relaxed)) {
    index->nodes.push_back(n);
  }
  index->pieces.Build(index->nodes.size(), [&](size_t i) { return index->nodes[i]->key(); });
  seek_index_.store(index.get(), std::memory_order_release);
  seek_indexes_.push_back(std::move(index));
  indexed_ = size_;
}

bool KeyList::IsBefore(const KeyNode* node, std::string_view stored_key) {
  return node != nullptr && node->key() < stored_key;
}

KeyList::Start KeyList::StartOf(std::string_view stored_key) const {
  Start start{head_, height_.load(std::memory_order_relaxed) - 1};
  const SeekIndex* const index = seek_index_.load(std::memory_order_acquire);
  if (index == nullptr) return start;
  const size_t before = index->CountBefore(stored_key);
  if (before < index->nodes.size()) start.until = index->nodes[before];
  if (before == 0) return start;
  start.from = index->nodes[before - 1];
  start.level = 1;  // there is about one key more on it for each one that the index knows
  return start;
}

// Each node is a cache miss, so `until` is told by its address.
KeyNode* KeyList::FindBefore(std::string_view stored_key, const Start& start) const {
  KeyNode* n = start.from;
  for (int level = start.level; level >= 0; --level) {
    for (;;) {
      KeyNode* const next = n->next(level).load(std::memory_order_acquire);
      if (next == start.until || !IsBefore(next, stored_key)) break;
      n = next;
    }
  }
  return n;
}

const KeyNode* KeyList::FindGreaterOrEqual(std::string_view stored_key, const Start& start) const {
  const KeyNode* n = Next(FindBefore(stored_key, start));
  while (n != start.until && IsBefore(n, stored_key)) n = Next(n);  // one that was listed meanwhile
  return n;
}

const KeyNode* KeyList::FindLess(std::string_view stored_key) const {
  const KeyNode* before = FindBefore(stored_key, StartOf(stored_key));
  return before == head_ ? nullptr : before;
}

const KeyNode* KeyList::Last() const {
  const KeyNode* last = head_;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    while (const KeyNode* next = last->next(level).load(std::memory_order_acquire)) last = next;
  }
  return last == head_ ? nullptr : last;
}

}  // namespace nova
