#include "ltc/memtable.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"

namespace nova {

// One version of a key. In the arena: this struct, the value.
struct MemTable::Entry {
  uint64_t trailer;
  std::atomic<Entry*> older;
  Node* node;            // of the key; not in the table yet if brings_node
  uint32_t value_size;
  bool brings_node;      // its first version, as far as Prepare saw

  SequenceNumber sequence() const { return trailer >> 8; }
  std::string_view value() const { return {reinterpret_cast<const char*>(this + 1), value_size}; }
};

// One key. In the arena: this struct, the stored key up to a multiple of 8 bytes, `height` links.
struct MemTable::Node {
  std::atomic<Entry*> newest;
  std::atomic<Node*> next_in_bucket;
  uint32_t key_size;
  uint16_t height;
  std::atomic<bool> listed;  // it is in the list, on every level
  uint64_t hash;

  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  std::string_view key() const { return {bytes(), key_size}; }
  std::atomic<Node*>& next(int level) const {
    const size_t links = (key_size + size_t{7}) & ~size_t{7};
    return reinterpret_cast<std::atomic<Node*>*>(const_cast<char*>(bytes()) + links)[level];
  }
  static size_t Bytes(size_t key_size, int height) {
    return sizeof(Node) + ((key_size + 7) & ~size_t{7}) + sizeof(void*) * static_cast<size_t>(height);
  }
};

MemTable::MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes)
    : id_(id),
      arena_(pool),
      // A bucket for each half kilobyte: entries of 1 KB leave half of them empty, of 100 B make chains of two or three.
      bucket_mask_(std::bit_ceil(std::clamp(expected_bytes / 512, size_t{256}, kPieceBuckets << 10)) - 1),
      pieces_(NewBuckets()),
      head_(NewNode({}, 0, kMaxHeight)),
      overhead_(arena_.bytes_used()) {
  static_assert(sizeof(Entry) == 32 && sizeof(Node) == 32);
}

std::vector<std::atomic<MemTable::Node*>*> MemTable::NewBuckets() {
  std::vector<std::atomic<Node*>*> pieces;
  const size_t bytes = std::min(bucket_mask_ + 1, kPieceBuckets) * sizeof(void*);
  for (size_t done = 0; done <= bucket_mask_; done += kPieceBuckets) {
    char* piece = bytes == ArenaPool::kChunkBytes ? arena_.AllocateChunk() : arena_.Allocate(bytes);
    std::memset(piece, 0, bytes);
    pieces.push_back(reinterpret_cast<std::atomic<Node*>*>(piece));
  }
  return pieces;
}

MemTable::Node* MemTable::NewNode(std::string_view stored_key, uint64_t hash, int height) {
  auto* node = new (arena_.Allocate(Node::Bytes(stored_key.size(), height))) Node;
  node->newest.store(nullptr, std::memory_order_relaxed);
  node->next_in_bucket.store(nullptr, std::memory_order_relaxed);
  node->key_size = static_cast<uint32_t>(stored_key.size());
  node->height = static_cast<uint16_t>(height);
  node->listed.store(false, std::memory_order_relaxed);
  node->hash = hash;
  if (!stored_key.empty()) std::memcpy(const_cast<char*>(node->bytes()), stored_key.data(), stored_key.size());
  for (int i = 0; i < height; ++i) new (&node->next(i)) std::atomic<Node*>(nullptr);
  return node;
}

int MemTable::RandomHeight() {
  // Heights only shape the list: no answer depends on them, so a thread's own seed is fine, in a simulation too.
  static thread_local Random random(0x5eed);
  uint64_t bits = random.Next();
  int height = 1;
  while (height < kMaxHeight && (bits & 3) == 0) {
    ++height;
    bits >>= 2;
  }
  return height;
}

MemTable::Entry* MemTable::Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type, std::string_view value) {
  auto* entry = new (arena_.Allocate(sizeof(Entry) + value.size())) Entry;
  entry->trailer = PackTrailer(seq, type);
  entry->older.store(nullptr, std::memory_order_relaxed);
  entry->value_size = static_cast<uint32_t>(value.size());
  if (!value.empty()) std::memcpy(const_cast<char*>(entry->value().data()), value.data(), value.size());
  const uint64_t hash = FilterHash(stored_key);
  entry->node = FindInBucket(stored_key, hash);
  entry->brings_node = entry->node == nullptr;
  if (entry->brings_node) {
    entry->node = NewNode(stored_key, hash, RandomHeight());
    entry->node->newest.store(entry, std::memory_order_relaxed);
  }
  return entry;
}

void MemTable::Link(Entry* entry) {
  entries_.fetch_add(1, std::memory_order_relaxed);
  if (entry->brings_node) {
    Node* other = InsertInBucket(entry->node);
    if (other == nullptr) {
      InsertInList(entry->node);
      entry->node->listed.store(true, std::memory_order_release);
      return;
    }
    entry->node = other;  // another writer brought the key meanwhile
  }
  for (std::atomic<Entry*>* at = &entry->node->newest;;) {
    Entry* next = at->load(std::memory_order_acquire);
    if (next != nullptr && next->trailer > entry->trailer) {
      at = &next->older;
      continue;
    }
    entry->older.store(next, std::memory_order_relaxed);
    if (at->compare_exchange_weak(next, entry, std::memory_order_release, std::memory_order_relaxed)) break;
  }
  // The version may be acknowledged once this returns, so scans must find the key: its first writer is about to list it.
  for (int spins = 0; !entry->node->listed.load(std::memory_order_acquire); ++spins) {
    spins < 1'000 ? __builtin_ia32_pause() : SleepFor(kMicrosecond);
  }
}

std::atomic<MemTable::Node*>* MemTable::BucketOf(uint64_t hash) const {
  const uint64_t bucket = hash & bucket_mask_;
  return &pieces_[bucket / kPieceBuckets][bucket % kPieceBuckets];
}

MemTable::Node* MemTable::FindInBucket(std::string_view stored_key, uint64_t hash) const {
  for (Node* n = BucketOf(hash)->load(std::memory_order_acquire); n != nullptr; n = n->next_in_bucket.load(std::memory_order_relaxed)) {
    if (n->hash == hash && n->key() == stored_key) return n;
  }
  return nullptr;
}

MemTable::Node* MemTable::InsertInBucket(Node* node) {
  std::atomic<Node*>* const bucket = BucketOf(node->hash);
  Node* seen = nullptr;  // it and all behind it are other keys
  for (Node* first = bucket->load(std::memory_order_acquire);;) {
    for (Node* n = first; n != seen; n = n->next_in_bucket.load(std::memory_order_relaxed)) {
      if (n->hash == node->hash && n->key() == node->key()) return n;
    }
    seen = first;
    node->next_in_bucket.store(first, std::memory_order_relaxed);
    if (bucket->compare_exchange_strong(first, node, std::memory_order_acq_rel, std::memory_order_acquire)) return nullptr;
  }
}

void MemTable::FindOnLevel(std::string_view stored_key, int level, Node* from, Node** before, Node** after) {
  Node* n = from;
  for (;;) {
    Node* next = n->next(level).load(std::memory_order_acquire);
    if (next == nullptr || next->key() >= stored_key) {
      *before = n;
      *after = next;
      return;
    }
    n = next;
  }
}

void MemTable::InsertInList(Node* node) {
  const std::string_view key = node->key();
  const int height = node->height;
  int top = height_.load(std::memory_order_relaxed);
  while (height > top && !height_.compare_exchange_weak(top, height, std::memory_order_relaxed)) {
  }
  if (height > top) top = height;
  Node* before[kMaxHeight];
  Node* after[kMaxHeight];
  Node* from = head_;
  for (int level = top - 1; level >= 0; --level) {
    FindOnLevel(key, level, from, &before[level], &after[level]);
    from = before[level];
  }
  for (int level = 0; level < height; ++level) {
    for (;;) {
      node->next(level).store(after[level], std::memory_order_relaxed);
      if (before[level]->next(level).compare_exchange_strong(after[level], node, std::memory_order_release)) break;
      FindOnLevel(key, level, before[level], &before[level], &after[level]);
    }
  }
}

MemTable::Node* MemTable::FindGreaterOrEqual(std::string_view stored_key) const {
  Node* before = head_;
  Node* after = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    FindOnLevel(stored_key, level, before, &before, &after);
  }
  return after;
}

const MemTable::Node* MemTable::FindLess(std::string_view stored_key) const {
  Node* before = head_;
  Node* after = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    FindOnLevel(stored_key, level, before, &before, &after);
  }
  return before == head_ ? nullptr : before;
}

const MemTable::Node* MemTable::FindLast() const {
  const Node* last = head_;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    while (const Node* next = last->next(level).load(std::memory_order_acquire)) last = next;
  }
  return last == head_ ? nullptr : last;
}

bool MemTable::Get(std::string_view stored_key, uint64_t hash, SequenceNumber seq, Hit* hit) const {
  const Node* n = FindInBucket(stored_key, hash);
  if (n == nullptr) return false;
  for (const Entry* e = n->newest.load(std::memory_order_acquire); e != nullptr; e = e->older.load(std::memory_order_acquire)) {
    if (e->sequence() > seq) continue;
    *hit = {e->sequence(), static_cast<ValueType>(e->trailer & 0xff), e->value()};
    return true;
  }
  return false;
}

class MemTable::Iter : public Iterator {
 public:
  static constexpr SequenceNumber kEvery = kMaxSequenceNumber + 1;
  // `at`: a reader's number; kEvery: all versions, forward only.
  Iter(const MemTable* table, SequenceNumber at, std::shared_ptr<const void> keep_alive, Direction direction)
      : table_(table), at_(at), backward_(direction == Direction::kBackward), keep_alive_(std::move(keep_alive)) {}
  void SeekToFirst() override { GoTo(backward_ ? table_->FindLast() : table_->head_->next(0).load(std::memory_order_acquire)); }
  void Seek(std::string_view internal_key) override {
    const std::string_view key = StoredKeyOf(internal_key);
    if (backward_) return GoTo(table_->FindLess(key));
    GoTo(table_->FindGreaterOrEqual(key));
    if (entry_ == nullptr || node_->key() != key) return;
    const uint64_t trailer = TrailerOf(internal_key);
    if (entry_->trailer <= trailer) return;
    if (newest_only()) return NextNode();
    while (entry_ != nullptr && entry_->trailer > trailer) entry_ = entry_->older.load(std::memory_order_acquire);
    entry_ == nullptr ? NextNode() : Compose();
  }
  void Next() override {
    entry_ = newest_only() ? nullptr : entry_->older.load(std::memory_order_acquire);
    entry_ == nullptr ? NextNode() : Compose();
  }
  void Resume() override { NOVA_CHECK(false) << "a memtable iterator never needs blocks"; }
  State state() const override { return entry_ == nullptr ? State::kEnd : State::kValid; }
  void AppendNeeded(std::vector<BlockRequest>*) override {}
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return entry_->value(); }
  Status status() const override { return OkStatus(); }

 private:
  bool newest_only() const { return at_ != kEvery; }
  const Node* After(const Node* node) const {
    return backward_ ? table_->FindLess(node->key()) : node->next(0).load(std::memory_order_acquire);
  }
  void NextNode() { GoTo(After(node_)); }
  // The first of `node` and those behind it with a version to show.
  void GoTo(const Node* node) {
    for (entry_ = nullptr; node != nullptr; node = After(node)) {
      entry_ = node->newest.load(std::memory_order_acquire);
      while (entry_ != nullptr && entry_->sequence() > at_) entry_ = entry_->older.load(std::memory_order_acquire);
      if (entry_ != nullptr) break;
    }
    node_ = node;
    if (entry_ == nullptr) return;
    key_.assign(node->key());
    key_.resize(node->key_size + kInternalTrailerBytes);
    Compose();
  }
  void Compose() { std::memcpy(key_.data() + node_->key_size, &entry_->trailer, kInternalTrailerBytes); }

  const MemTable* table_;
  const SequenceNumber at_;
  const bool backward_;
  std::shared_ptr<const void> keep_alive_;
  const Node* node_ = nullptr;
  const Entry* entry_ = nullptr;
  std::string key_;  // the internal key at this position
};

std::unique_ptr<Iterator> MemTable::NewIterator(std::shared_ptr<const void> keep_alive) const {
  return std::make_unique<Iter>(this, Iter::kEvery, std::move(keep_alive), Direction::kForward);
}

std::unique_ptr<Iterator> MemTable::NewIteratorAt(SequenceNumber seq, std::shared_ptr<const void> keep_alive, Direction direction) const {
  return std::make_unique<Iter>(this, seq, std::move(keep_alive), direction);
}

}  // namespace nova
