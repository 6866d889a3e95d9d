#include "ltc/engine/memtable.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
MemTable::MemTable(MemTableId id, ArenaPool* pool, size_t expected_bytes, bool scanned)
    : id_(id),
      pool_(pool),
      arena_(pool),
      // A bucket for each half kilobyte: entries of 1 KB leave half of them empty, of 100 B make chains of
      // two or three.
      bucket_mask_(std::bit_ceil(std::clamp(expected_bytes / 512, size_t{256}, kPieceBuckets << 10)) - 1),
      pieces_(NewBuckets()),
      order_(std::make_shared<KeyOrder>(NewHead())),
      latest_order_(order_.get()),
      list_(&order_->list),
      overhead_(arena_.bytes_used()),
      empty_bytes_(arena_.bytes_held()),
      listed_until_(scanned ? kListedAfterScan : 0) {}

MemTable::~MemTable() = default;

std::vector<std::atomic<BucketLink>*> MemTable::NewBuckets() {
  std::vector<std::atomic<BucketLink>*> pieces;
  const size_t bytes = std::min(bucket_mask_ + 1, kPieceBuckets) * sizeof(BucketLink);
  for (size_t done = 0; done <= bucket_mask_; done += kPieceBuckets) {
    char* piece = bytes == ArenaPool::kChunkBytes ? arena_.AllocateChunk() : arena_.Allocate(bytes);
    std::memset(piece, 0, bytes);
    pieces.push_back(reinterpret_cast<std::atomic<BucketLink>*>(piece));
  }
  return pieces;
}

KeyNode* MemTable::NewNode(std::string_view stored_key, uint64_t hash, int height) {
  auto* node = new (arena_.Allocate(KeyNode::Bytes(stored_key.size(), height))) KeyNode;
  node->newest.store(nullptr, std::memory_order_relaxed);
  node->next_in_bucket.store({}, std::memory_order_relaxed);
  node->key_size = static_cast<uint32_t>(stored_key.size());
  node->height = static_cast<uint16_t>(height);
  node->chained.store(false, std::memory_order_relaxed);
  node->hash = hash;
  if (!stored_key.empty())
    std::memcpy(const_cast<char*>(node->bytes()), stored_key.data(), stored_key.size());
  for (int i = 0; i < height; ++i) new (&node->next(i)) std::atomic<KeyNode*>(nullptr);
  return node;
}

KeyNode* MemTable::NewHead() { return NewNode({}, 0, KeyNode::kMaxHeight); }

// As good as random, and the same in every run: heights count into the bytes used, which decide when the
// table is full. The id makes a key's height another one in the next table.
int MemTable::HeightOf(uint64_t hash) const {
  uint64_t bits = (hash ^ id_.value() * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  bits ^= bits >> 32;
  int height = 1;
  while (height < KeyNode::kMaxHeight && (bits & 3) == 0) {
    ++height;
    bits >>= 2;
  }
  return height;
}

KeyVersion* MemTable::Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type,
                              std::string_view value) {
  const uint64_t hash = FilterHash(stored_key);
  PrefetchGet(hash);  // the bucket comes while the value is copied
  auto* entry = new (arena_.Allocate(sizeof(KeyVersion) + value.size())) KeyVersion;
  entry->trailer = PackTrailer(seq, type);
  entry->older.store(nullptr, std::memory_order_relaxed);
  entry->value_size = static_cast<uint32_t>(value.size());
  if (!value.empty()) std::memcpy(const_cast<char*>(entry->value().data()), value.data(), value.size());
  entry->node = FindInBucket(stored_key, hash);
  entry->brings_node = entry->node == nullptr;
  if (entry->brings_node) {
    entry->node = NewNode(stored_key, hash, HeightOf(hash));
    entry->node->newest.store(entry, std::memory_order_relaxed);
  }
  return entry;
}

void MemTable::Abandon(KeyVersion* entry) {
  KeyNode* const node = entry->node;
  if (entry->brings_node)
    arena_.GiveBack(reinterpret_cast<char*>(node), KeyNode::Bytes(node->key_size, node->height));
  arena_.GiveBack(reinterpret_cast<char*>(entry), sizeof(KeyVersion) + entry->value_size);
}

std::string_view MemTable::KeyOf(const KeyVersion* entry) { return entry->node->key(); }

size_t MemTable::bytes_of_one_version_each() const {
  const auto key_bytes = static_cast<double>(key_bytes_.load(std::memory_order_relaxed));
  const double version_bytes = std::max(0.0, static_cast<double>(bytes_used()) - key_bytes);
  const auto entries = static_cast<double>(std::max<uint64_t>(this->entries(), 1));
  return static_cast<size_t>(key_bytes + version_bytes / entries * static_cast<double>(keys()));
}

void MemTable::Link(KeyVersion* entry, Linked* batch) {
  const uint64_t before = entries_.fetch_add(1, std::memory_order_relaxed);
  if (entry->brings_node) {
    KeyNode* other = InsertInBucket(entry->node);
    if (other == nullptr) {
      keys_.fetch_add(1, std::memory_order_relaxed);
      key_bytes_.fetch_add(KeyNode::Bytes(entry->node->key_size, entry->node->height),
                           std::memory_order_relaxed);
      if (batch != nullptr) batch->emplace(entry->node, entry);
      Chain(entry->node);
      if (before % kListEvery == 0 && before < listed_until_.load(std::memory_order_relaxed)) ListByWriter();
      return;
    }
    entry->node = other;  // another writer brought the key meanwhile
  }
  std::atomic<KeyVersion*>* at = &entry->node->newest;
  if (batch != nullptr) {
    const auto [of_key, first] = batch->emplace(entry->node, entry);
    if (!first) at = &std::exchange(of_key->second, entry)->older;
  }
  for (;;) {
    KeyVersion* next = at->load(std::memory_order_acquire);
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

std::atomic<BucketLink>* MemTable::BucketOf(uint64_t hash) const {
  const uint64_t bucket = hash & bucket_mask_;
  return &pieces_[bucket / kPieceBuckets][bucket % kPieceBuckets];
}

void MemTable::PrefetchGet(uint64_t hash) const { __builtin_prefetch(BucketOf(hash)); }

KeyNode* MemTable::FindInBucket(std::string_view stored_key, uint64_t hash) const {
  for (BucketLink at = BucketOf(hash)->load(std::memory_order_acquire); at.MayHold(hash);) {
    KeyNode* const n = at.node();
    if (n->hash == hash && n->key() == stored_key) return n;
    at = n->next_in_bucket.load(std::memory_order_relaxed);
  }
  return nullptr;
}

KeyNode* MemTable::InsertInBucket(KeyNode* node) {
  std::atomic<BucketLink>* const bucket = BucketOf(node->hash);
  KeyNode* seen = nullptr;  // it and all behind it are other keys
  for (BucketLink first = bucket->load(std::memory_order_acquire);;) {
    for (BucketLink at = first; at.node() != seen && at.MayHold(node->hash);) {
      KeyNode* const n = at.node();
      if (n->hash == node->hash && n->key() == node->key()) return n;
      at = n->next_in_bucket.load(std::memory_order_relaxed);
    }
    seen = first.node();
    node->next_in_bucket.store(first, std::memory_order_relaxed);
    if (bucket->compare_exchange_strong(first, BucketLink(node, node->hash, first), std::memory_order_acq_rel,
                                        std::memory_order_acquire))
      return nullptr;
  }
}

// --- order

void MemTable::Chain(KeyNode* node) {
  KeyNode* youngest = youngest_.load(std::memory_order_relaxed);
  do {
    node->older_in_chain = youngest;
  } while (
      !youngest_.compare_exchange_weak(youngest, node, std::memory_order_acq_rel, std::memory_order_relaxed));
  node->chained.store(true, std::memory_order_release);
}

std::shared_ptr<const KeyOrder> MemTable::Order() const {
  MutexLock lock(&order_mu_);
  return order_;
}

void MemTable::Sort() {
  KeyNode* const youngest = youngest_.load(std::memory_order_acquire);
  auto order = std::make_shared<KeyOrder>(NewHead(), youngest, keys(), pool_);
  list_ = &order->list;
  sorted_ = order->sorted.size();
  {
    MutexLock lock(&order_mu_);
    latest_order_.store(order.get(), std::memory_order_release);
    order_ = std::move(order);
  }
  NOVA_FP_VOID("memtable.sorted");
  // Last: a scan that finds nothing left to order reads in the latest order, without a lock.
  ordered_.store(youngest, std::memory_order_release);
}

void MemTable::List() {
  KeyNode* const youngest = youngest_.load(std::memory_order_acquire);
  list_->InsertAll(SortedKeys(youngest, ordered_.load(std::memory_order_relaxed), kListEvery, nullptr));
  ordered_.store(youngest, std::memory_order_release);
}

void MemTable::ListByWriter() {
  if (writer_lists_.exchange(true, std::memory_order_acquire)) return;
  {
    MutexLock lock(&list_mu_);
    List();
  }
  writer_lists_.store(false, std::memory_order_release);
}

bool MemTable::Get(std::string_view stored_key, uint64_t hash, SequenceNumber seq, Hit* hit) const {
  const KeyNode* n = FindInBucket(stored_key, hash);
  if (n == nullptr) return false;
  for (const KeyVersion* e = n->newest.load(std::memory_order_acquire); e != nullptr;
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
  void Compose(const KeyNode* node) {
    key_.assign(node->key());
    key_.append(reinterpret_cast<const char*>(&entry_->trailer), kInternalTrailerBytes);
  }
  const KeyVersion* entry_ = nullptr;
  std::string key_;  // the internal key at this position

 private:
  const std::shared_ptr<const void> keep_alive_;
};

class MemTable::ScanIterator final : public VersionIterator<MomentIterator> {
 public:
  ScanIterator(MemTable* table, std::shared_ptr<const void> keep_alive, Direction direction)
      : VersionIterator(std::move(keep_alive)),
        table_(table),
        backward_(direction == Direction::kBackward),
        order_(table->Order()),
        place_(order_.get(), direction) {}
  void ReadAt(SequenceNumber seq) override {
    table_->PrepareScan();
    if (order_.get() != table_->latest_order_.load(std::memory_order_acquire)) order_ = table_->Order();
    place_.Use(order_.get());
    at_ = seq;
    entry_ = nullptr;
  }
  void SeekToFirst() override {
    place_.SeekToFirst();
    SkipUnseen();
  }
  void PrepareSeek(std::string_view internal_key) override {
    if (!backward_) place_.PrepareSeek(StoredKeyOf(internal_key));
  }
  void Seek(std::string_view internal_key) override {
    const std::string_view key = StoredKeyOf(internal_key);
    place_.Seek(key);
    SkipUnseen();
    if (!backward_ && entry_ != nullptr && place_.node()->key() == key &&
        entry_->trailer > TrailerOf(internal_key))
      Next();
  }
  void Next() override {
    place_.Next();
    SkipUnseen();
  }

 private:
  // Goes on to the first key with a version to show, unless this is one.
  void SkipUnseen() {
    const KeyNode* node = place_.node();
    for (entry_ = nullptr; node != nullptr; place_.Next(), node = place_.node()) {
      entry_ = node->newest.load(std::memory_order_acquire);
      while (entry_ != nullptr && entry_->sequence() > at_)
        entry_ = entry_->older.load(std::memory_order_acquire);
      if (entry_ != nullptr) break;
    }
    if (entry_ != nullptr) Compose(node);
  }

  MemTable* const table_;
  const bool backward_;
  SequenceNumber at_ = 0;
  std::shared_ptr<const KeyOrder> order_;
  KeyCursor place_;
};

void MemTable::PrepareScan() {
  if (!scanned()) scanned_.store(true, std::memory_order_relaxed);
  const uint64_t until = entries() + kListedAfterScan;
  if (listed_until_.load(std::memory_order_relaxed) < until - kListedAfterScan / 2)
    listed_until_.store(until, std::memory_order_relaxed);
  if (youngest_.load(std::memory_order_acquire) == ordered_.load(std::memory_order_acquire)) return;
  MutexLock lock(&list_mu_);
  keys() - sorted_ > std::max(kMostListed, sorted_) ? Sort() : List();
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
  FlushIterator(std::shared_ptr<const KeyOrder> order, std::shared_ptr<const void> keep_alive)
      : VersionIterator(std::move(keep_alive)), order_(std::move(order)) {}
  void SeekToFirst() override { GoTo(0); }
  void Seek(std::string_view internal_key) override {
    GoTo(keys().CountBefore(StoredKeyOf(internal_key)));
    while (entry_ != nullptr && CompareInternalKeys(key_, internal_key) < 0) Next();
  }
  void Next() override {
    entry_ = entry_->older.load(std::memory_order_acquire);
    entry_ == nullptr ? GoTo(at_ + 1) : Compose(keys()[at_]);
  }

 private:
  static constexpr size_t kNodesAhead = 8, kValuesAhead = 4;

  const SortedKeys& keys() const { return order_->sorted; }
  void GoTo(size_t at) {
    at_ = at;
    entry_ = nullptr;
    if (at + kNodesAhead < keys().size()) __builtin_prefetch(keys()[at + kNodesAhead]);
    if (at + kValuesAhead < keys().size()) {
      const auto* next =
          reinterpret_cast<const char*>(keys()[at + kValuesAhead]->newest.load(std::memory_order_relaxed));
      for (size_t line = 0; line < 4; ++line) __builtin_prefetch(next + line * 64);
    }
    if (at == keys().size()) return;
    entry_ = keys()[at]->newest.load(std::memory_order_acquire);
    Compose(keys()[at]);
  }

  const std::shared_ptr<const KeyOrder> order_;
  size_t at_ = 0;
};

std::unique_ptr<Iterator> MemTable::NewIterator(std::shared_ptr<const void> keep_alive) {
  {
    MutexLock lock(&list_mu_);
    const bool whole = youngest_.load(std::memory_order_acquire) == ordered_.load(std::memory_order_relaxed);
    if (!whole || !list_->empty()) Sort();
  }
  return std::make_unique<FlushIterator>(Order(), std::move(keep_alive));
}

}  // namespace nova
