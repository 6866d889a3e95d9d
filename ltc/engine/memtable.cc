#include "ltc/engine/memtable.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/sstable/key_pieces.h"

namespace nova {
namespace {

constexpr size_t kNodesAhead = 8;  // sorted keys that are fetched ahead

}  // namespace

// One version of a key. In the arena: this struct, the value.
struct MemTable::Entry {
  uint64_t trailer;
  std::atomic<Entry*> older;
  Node* node;  // of the key; not in the table yet if brings_node
  uint32_t value_size;
  bool brings_node;  // its first version, as far as Prepare saw

  SequenceNumber sequence() const { return trailer >> 8; }
  std::string_view value() const { return {reinterpret_cast<const char*>(this + 1), value_size}; }
};

// One key. In the arena: this struct, the stored key up to a multiple of 8 bytes, `height` links.
struct MemTable::Node {
  std::atomic<Entry*> newest;
  std::atomic<Node*> next_in_bucket;
  Node* older_in_chain;
  uint32_t key_size;
  uint16_t height;
  std::atomic<bool> chained;
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

MemTable::MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes, bool scanned)
    : id_(id),
      arena_(pool),
      // A bucket for each half kilobyte: entries of 1 KB leave half of them empty, of 100 B make chains of
      // two or three.
      bucket_mask_(std::bit_ceil(std::clamp(expected_bytes / 512, size_t{256}, kPieceBuckets << 10)) - 1),
      pieces_(NewBuckets()),
      head_(NewNode({}, 0, kMaxHeight)),
      overhead_(arena_.bytes_used()),
      listed_until_(scanned ? kListedAfterScan : 0) {
  static_assert(sizeof(Entry) == 32 && sizeof(Node) == 40);
}

MemTable::~MemTable() = default;

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
  node->chained.store(false, std::memory_order_relaxed);
  node->hash = hash;
  if (!stored_key.empty())
    std::memcpy(const_cast<char*>(node->bytes()), stored_key.data(), stored_key.size());
  for (int i = 0; i < height; ++i) new (&node->next(i)) std::atomic<Node*>(nullptr);
  return node;
}

// As good as random, and the same in every run: heights count into the bytes used, which decide when the
// table is full. The id makes a key's height another one in the next table.
int MemTable::HeightOf(uint64_t hash) const {
  uint64_t bits = (hash ^ id_.value() * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  bits ^= bits >> 32;
  int height = 1;
  while (height < kMaxHeight && (bits & 3) == 0) {
    ++height;
    bits >>= 2;
  }
  return height;
}

MemTable::Entry* MemTable::Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type,
                                   std::string_view value) {
  auto* entry = new (arena_.Allocate(sizeof(Entry) + value.size())) Entry;
  entry->trailer = PackTrailer(seq, type);
  entry->older.store(nullptr, std::memory_order_relaxed);
  entry->value_size = static_cast<uint32_t>(value.size());
  if (!value.empty()) std::memcpy(const_cast<char*>(entry->value().data()), value.data(), value.size());
  const uint64_t hash = FilterHash(stored_key);
  entry->node = FindInBucket(stored_key, hash);
  entry->brings_node = entry->node == nullptr;
  if (entry->brings_node) {
    entry->node = NewNode(stored_key, hash, HeightOf(hash));
    entry->node->newest.store(entry, std::memory_order_relaxed);
  }
  return entry;
}

void MemTable::Abandon(Entry* entry) {
  Node* const node = entry->node;
  if (entry->brings_node)
    arena_.GiveBack(reinterpret_cast<char*>(node), Node::Bytes(node->key_size, node->height));
  arena_.GiveBack(reinterpret_cast<char*>(entry), sizeof(Entry) + entry->value_size);
}

std::string_view MemTable::KeyOf(const Entry* entry) { return entry->node->key(); }

void MemTable::Link(Entry* entry) {
  const uint64_t before = entries_.fetch_add(1, std::memory_order_relaxed);
  if (entry->brings_node) {
    Node* other = InsertInBucket(entry->node);
    if (other == nullptr) {
      keys_.fetch_add(1, std::memory_order_relaxed);
      Chain(entry->node);
      if (before % kListEvery == 0 && before < listed_until_.load(std::memory_order_relaxed)) ListByWriter();
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
  // The version may be acknowledged once this returns, so scans must find the key: its first writer is about
  // to chain it.
  for (int spins = 0; !entry->node->chained.load(std::memory_order_acquire); ++spins) {
    spins < 1'000 ? __builtin_ia32_pause() : SleepFor(kMicrosecond);
  }
}

std::atomic<MemTable::Node*>* MemTable::BucketOf(uint64_t hash) const {
  const uint64_t bucket = hash & bucket_mask_;
  return &pieces_[bucket / kPieceBuckets][bucket % kPieceBuckets];
}

void MemTable::PrefetchGet(uint64_t hash) const { __builtin_prefetch(BucketOf(hash)); }

MemTable::Node* MemTable::FindInBucket(std::string_view stored_key, uint64_t hash) const {
  for (Node* n = BucketOf(hash)->load(std::memory_order_acquire); n != nullptr;
       n = n->next_in_bucket.load(std::memory_order_relaxed)) {
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
    if (bucket->compare_exchange_strong(first, node, std::memory_order_acq_rel, std::memory_order_acquire))
      return nullptr;
  }
}

// --- order

void MemTable::Chain(Node* node) {
  Node* youngest = youngest_.load(std::memory_order_relaxed);
  do {
    node->older_in_chain = youngest;
  } while (
      !youngest_.compare_exchange_weak(youngest, node, std::memory_order_acq_rel, std::memory_order_relaxed));
  node->chained.store(true, std::memory_order_release);
}

// Eight bytes of the key tell most keys apart without a look at the key; they begin where keys begin to
// differ.
struct MemTable::SortKey {
  uint64_t prefix;
  Node* node;

  bool operator<(const SortKey& other) const {
    return prefix != other.prefix ? prefix < other.prefix : node->key() < other.node->key();
  }
};

std::vector<MemTable::SortKey> MemTable::SortedChain(Node* from, const Node* until) {
  std::vector<SortKey> keys;
  size_t same = from == until ? 0 : from->key_size;
  for (Node* n = from; n != until; n = n->older_in_chain) {
    same = std::min(same, CommonPrefix(from->key(), n->key()));
    keys.push_back({0, n});
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kNodesAhead < keys.size()) __builtin_prefetch(keys[i + kNodesAhead].node);
    SortKey& k = keys[i];
    const std::string_view rest = k.node->key().substr(same, sizeof(k.prefix));
    std::memcpy(&k.prefix, rest.data(), rest.size());
    k.prefix = __builtin_bswap64(k.prefix);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void MemTable::List() {
  if (youngest_.load(std::memory_order_acquire) == ordered_.load(std::memory_order_acquire)) return;
  MutexLock lock(&list_mu_);
  Node* const from = youngest_.load(std::memory_order_acquire);
  std::array<Node*, kMaxHeight> before;
  before.fill(head_);
  const std::vector<SortKey> keys = SortedChain(from, ordered_.load(std::memory_order_relaxed));
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kNodesAhead < keys.size()) {
      const auto* ahead = reinterpret_cast<const char*>(keys[i + kNodesAhead].node);
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
    }
    InsertInList(keys[i].node, &before);
  }
  listed_ += keys.size();
  IndexList();
  ordered_.store(from, std::memory_order_release);
}

void MemTable::ListByWriter() {
  if (writer_lists_.exchange(true, std::memory_order_acquire)) return;
  List();
  writer_lists_.store(false, std::memory_order_release);
}

// A quarter of the keys is on the second level. Their pieces lie side by side and stay in the processor's
// cache, where the nodes of a list never are.
struct MemTable::SeekIndex {
  KeyPieces pieces;
  std::vector<Node*> nodes;

  // Counts the nodes before the key; they are the first ones.
  size_t CountBefore(std::string_view stored_key) const {
    auto [lo, hi] = pieces.Find(stored_key);
    const auto end = std::partition_point(nodes.begin() + static_cast<ptrdiff_t>(lo),
                                          nodes.begin() + static_cast<ptrdiff_t>(hi),
                                          [&](const Node* n) { return n->key() < stored_key; });
    return static_cast<size_t>(end - nodes.begin());
  }
};

struct MemTable::SearchStart {
  Node* from = nullptr;         // head_, or a node before the key
  int level = 0;                // where the search begins
  const Node* until = nullptr;  // a node that is known not to be before the key; null: none is known
};

void MemTable::IndexList() {
  constexpr uint64_t kLeast = 1024;  // keys, that are worth it
  if (listed_ < std::max(kLeast, 2 * indexed_)) return;
  auto index = std::make_unique<SeekIndex>();
  for (Node* n = head_->next(1).load(std::memory_order_relaxed); n != nullptr;
       n = n->next(1).load(std::memory_order_relaxed)) {
    index->nodes.push_back(n);
  }
  index->pieces.Build(index->nodes.size(), [&](size_t i) { return index->nodes[i]->key(); });
  seek_index_.store(index.get(), std::memory_order_release);
  seek_indexes_.push_back(std::move(index));
  indexed_ = listed_;
}

bool MemTable::IsBefore(const Node* node, std::string_view stored_key) {
  return node != nullptr && node->key() < stored_key;
}

// `before`: on each level the last node at or before the key that was inserted last, which is smaller.
void MemTable::InsertInList(Node* node, std::array<Node*, kMaxHeight>* before) {
  const std::string_view key = node->key();
  Node* from = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    // Where a level above moved on, it is past what the levels below remember.
    Node* n = from != nullptr ? from : (*before)[level];
    for (Node* next; IsBefore(next = n->next(level).load(std::memory_order_relaxed), key);) from = n = next;
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

MemTable::SearchStart MemTable::StartOf(std::string_view stored_key) const {
  SearchStart start{head_, height_.load(std::memory_order_relaxed) - 1};
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
MemTable::Node* MemTable::FindBefore(std::string_view stored_key, const SearchStart& start) const {
  Node* n = start.from;
  for (int level = start.level; level >= 0; --level) {
    for (;;) {
      Node* const next = n->next(level).load(std::memory_order_acquire);
      if (next == start.until || !IsBefore(next, stored_key)) break;
      n = next;
    }
  }
  return n;
}

MemTable::Node* MemTable::FindGreaterOrEqual(std::string_view stored_key, const SearchStart& start) const {
  Node* n = FindBefore(stored_key, start)->next(0).load(std::memory_order_acquire);
  // one that was listed meanwhile
  while (n != start.until && IsBefore(n, stored_key)) n = n->next(0).load(std::memory_order_acquire);
  return n;
}

const MemTable::Node* MemTable::FindLess(std::string_view stored_key) const {
  const Node* before = FindBefore(stored_key, StartOf(stored_key));
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
  for (const Entry* e = n->newest.load(std::memory_order_acquire); e != nullptr;
       e = e->older.load(std::memory_order_acquire)) {
    if (e->sequence() > seq) continue;
    *hit = {e->sequence(), static_cast<ValueType>(e->trailer & 0xff), e->value()};
    return true;
  }
  return false;
}

// A place at a version.
template <typename Base>
class MemTable::VersionIterator : public Base {
 public:
  using State = Iterator::State;
  explicit VersionIterator(std::shared_ptr<const void> keep_alive) : keep_alive_(std::move(keep_alive)) {}
  void Resume() final { NOVA_CHECK(false) << "a memtable iterator never needs blocks"; }
  State state() const final { return entry_ == nullptr ? State::kEnd : State::kValid; }
  void AppendNeeded(std::vector<BlockRequest>*) final {}
  std::string_view key() const final { return key_; }
  std::string_view value() const final { return entry_->value(); }
  Status status() const final { return OkStatus(); }

 protected:
  void Compose(const Node* node) {
    key_.assign(node->key());
    key_.append(reinterpret_cast<const char*>(&entry_->trailer), kInternalTrailerBytes);
  }
  const Entry* entry_ = nullptr;
  std::string key_;  // the internal key at this position

 private:
  const std::shared_ptr<const void> keep_alive_;
};

class MemTable::ScanIterator final : public VersionIterator<MomentIterator> {
 public:
  ScanIterator(MemTable* table, std::shared_ptr<const void> keep_alive, Direction direction)
      : VersionIterator(std::move(keep_alive)), table_(table), backward_(direction == Direction::kBackward) {}
  void ReadAt(SequenceNumber seq) override {
    table_->PrepareScan();
    at_ = seq;
    start_ = {};
    entry_ = nullptr;
  }
  void SeekToFirst() override {
    GoTo(backward_ ? table_->FindLast() : table_->head_->next(0).load(std::memory_order_acquire));
  }
  void PrepareSeek(std::string_view internal_key) override {
    if (backward_) return;
    start_ = table_->StartOf(StoredKeyOf(internal_key));
    __builtin_prefetch(start_.from);
    __builtin_prefetch(start_.from->bytes() + kNearBytes);
  }
  void Seek(std::string_view internal_key) override {
    const std::string_view key = StoredKeyOf(internal_key);
    if (backward_) return GoTo(table_->FindLess(key));
    if (start_.from == nullptr) start_ = table_->StartOf(key);
    GoTo(table_->FindGreaterOrEqual(key, std::exchange(start_, {})));
    if (entry_ != nullptr && node_->key() == key && entry_->trailer > TrailerOf(internal_key)) Next();
  }
  void Next() override { GoTo(After(node_)); }

 private:
  const Node* After(const Node* node) const {
    return backward_ ? table_->FindLess(node->key()) : node->next(0).load(std::memory_order_acquire);
  }
  // The first of `node` and those behind it with a version to show.
  void GoTo(const Node* node) {
    for (entry_ = nullptr; node != nullptr; node = After(node)) {
      entry_ = node->newest.load(std::memory_order_acquire);
      while (entry_ != nullptr && entry_->sequence() > at_)
        entry_ = entry_->older.load(std::memory_order_acquire);
      if (entry_ != nullptr) break;
    }
    node_ = node;
    if (entry_ != nullptr) Compose(node);
  }

  static constexpr size_t kNearBytes = 32;  // of a node's key: most keys and links end within 64 from there

  MemTable* const table_;
  const bool backward_;
  SequenceNumber at_ = 0;
  SearchStart start_;  // of the Seek that follows; no `from`: not looked up
  const Node* node_ = nullptr;
};

void MemTable::PrepareScan() {
  if (!scanned()) scanned_.store(true, std::memory_order_relaxed);
  const uint64_t until = entries() + kListedAfterScan;
  if (listed_until_.load(std::memory_order_relaxed) < until - kListedAfterScan / 2)
    listed_until_.store(until, std::memory_order_relaxed);
  List();
}

std::unique_ptr<MemTable::MomentIterator> MemTable::NewIteratorAt(SequenceNumber seq,
                                                                  std::shared_ptr<const void> keep_alive,
                                                                  Direction direction) {
  auto iterator = std::make_unique<ScanIterator>(this, std::move(keep_alive), direction);
  iterator->ReadAt(seq);
  return iterator;
}

// Every version, over keys sorted once. What it is about to show is fetched ahead: in key order, nothing lies
// where the cache expects it.
class MemTable::FlushIterator final : public VersionIterator<Iterator> {
 public:
  FlushIterator(std::vector<SortKey> keys, std::shared_ptr<const void> keep_alive)
      : VersionIterator(std::move(keep_alive)), keys_(std::move(keys)) {}
  void SeekToFirst() override { GoTo(0); }
  void Seek(std::string_view internal_key) override {
    const auto before = [](const SortKey& k, std::string_view key) { return k.node->key() < key; };
    const auto found = std::lower_bound(keys_.begin(), keys_.end(), StoredKeyOf(internal_key), before);
    GoTo(static_cast<size_t>(found - keys_.begin()));
    while (entry_ != nullptr && CompareInternalKeys(key_, internal_key) < 0) Next();
  }
  void Next() override {
    entry_ = entry_->older.load(std::memory_order_acquire);
    entry_ == nullptr ? GoTo(at_ + 1) : Compose(keys_[at_].node);
  }

 private:
  static constexpr size_t kValuesAhead = 4;

  void GoTo(size_t at) {
    at_ = at;
    entry_ = nullptr;
    if (at + kNodesAhead < keys_.size()) __builtin_prefetch(keys_[at + kNodesAhead].node);
    if (at + kValuesAhead < keys_.size()) {
      const auto* next = reinterpret_cast<const char*>(
          keys_[at + kValuesAhead].node->newest.load(std::memory_order_relaxed));
      for (size_t line = 0; line < 4; ++line) __builtin_prefetch(next + line * 64);
    }
    if (at == keys_.size()) return;
    entry_ = keys_[at].node->newest.load(std::memory_order_acquire);
    Compose(keys_[at].node);
  }

  const std::vector<SortKey> keys_;
  size_t at_ = 0;
};

std::unique_ptr<Iterator> MemTable::NewIterator(std::shared_ptr<const void> keep_alive) const {
  return std::make_unique<FlushIterator>(SortedChain(youngest_.load(std::memory_order_acquire), nullptr),
                                         std::move(keep_alive));
}

}  // namespace nova
