#include "ltc/memtable.h"

#include <cstring>
#include <new>

#include "common/base/log.h"
#include "common/base/random.h"

namespace nova {

// In the arena: this struct, height - 1 more links, the internal key, the value.
struct MemTable::Entry {
  uint64_t trailer;
  uint32_t key_size;  // of the stored key
  uint32_t value_size;
  uint32_t height;
  std::atomic<Entry*> next[1];

  const char* bytes() const { return reinterpret_cast<const char*>(&next[height]); }
  std::string_view stored_key() const { return {bytes(), key_size}; }
  std::string_view internal_key() const { return {bytes(), key_size + kInternalTrailerBytes}; }
  std::string_view value() const { return {bytes() + key_size + kInternalTrailerBytes, value_size}; }
  // Entries sort before (key, trailer): a smaller key, or the same key and a greater trailer.
  bool Before(std::string_view key, uint64_t other_trailer) const {
    const int c = stored_key().compare(key);
    return c != 0 ? c < 0 : trailer > other_trailer;
  }
};

namespace {

size_t EntryBytes(size_t height, size_t key_size, size_t value_size) {
  return sizeof(void*) * (height - 1) + 32 + key_size + kInternalTrailerBytes + value_size;
}

}  // namespace

MemTable::MemTable(MemTableId id, ArenaPool* pool)
    : id_(id), arena_(pool), head_(reinterpret_cast<Entry*>(arena_.Allocate(EntryBytes(kMaxHeight, 0, 0)))) {
  static_assert(sizeof(Entry) == 32);
  new (head_) Entry;
  head_->height = kMaxHeight;
  head_->key_size = head_->value_size = 0;
  for (int i = 0; i < kMaxHeight; ++i) new (&head_->next[i]) std::atomic<Entry*>(nullptr);
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
  const int height = RandomHeight();
  char* memory = arena_.Allocate(EntryBytes(static_cast<size_t>(height), stored_key.size(), value.size()));
  auto* e = new (memory) Entry;
  e->trailer = PackTrailer(seq, type);
  e->key_size = static_cast<uint32_t>(stored_key.size());
  e->value_size = static_cast<uint32_t>(value.size());
  e->height = static_cast<uint32_t>(height);
  for (int i = 1; i < height; ++i) new (&e->next[i]) std::atomic<Entry*>(nullptr);
  char* bytes = const_cast<char*>(e->bytes());
  std::memcpy(bytes, stored_key.data(), stored_key.size());
  std::memcpy(bytes + stored_key.size(), &e->trailer, kInternalTrailerBytes);
  if (!value.empty()) std::memcpy(bytes + stored_key.size() + kInternalTrailerBytes, value.data(), value.size());
  return e;
}

void MemTable::FindOnLevel(std::string_view stored_key, uint64_t trailer, int level, Entry* from, Entry** before,
                           Entry** after) const {
  Entry* e = from;
  for (;;) {
    Entry* next = e->next[level].load(std::memory_order_acquire);
    if (next == nullptr || !next->Before(stored_key, trailer)) {
      *before = e;
      *after = next;
      return;
    }
    e = next;
  }
}

void MemTable::Link(Entry* entry) {
  const std::string_view key = entry->stored_key();
  const int height = static_cast<int>(entry->height);
  int top = height_.load(std::memory_order_relaxed);
  while (height > top && !height_.compare_exchange_weak(top, height, std::memory_order_relaxed)) {
  }
  if (height > top) top = height;
  Entry* before[kMaxHeight];
  Entry* after[kMaxHeight];
  Entry* from = head_;
  for (int level = top - 1; level >= 0; --level) {
    FindOnLevel(key, entry->trailer, level, from, &before[level], &after[level]);
    from = before[level];
  }
  for (int level = 0; level < height; ++level) {
    for (;;) {
      entry->next[level].store(after[level], std::memory_order_relaxed);
      if (before[level]->next[level].compare_exchange_strong(after[level], entry, std::memory_order_release)) break;
      FindOnLevel(key, entry->trailer, level, before[level], &before[level], &after[level]);
    }
  }
  entries_.fetch_add(1, std::memory_order_relaxed);
}

MemTable::Entry* MemTable::FindGreaterOrEqual(std::string_view stored_key, uint64_t trailer) const {
  Entry* before = head_;
  Entry* after = nullptr;
  for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
    FindOnLevel(stored_key, trailer, level, before, &before, &after);
  }
  return after;
}

bool MemTable::Get(std::string_view stored_key, SequenceNumber seq, Hit* hit) const {
  const Entry* e = FindGreaterOrEqual(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
  if (e == nullptr || e->stored_key() != stored_key) return false;
  *hit = {e->trailer >> 8, static_cast<ValueType>(e->trailer & 0xff), e->value()};
  return true;
}

class MemTable::Iter : public Iterator {
 public:
  Iter(const MemTable* table, std::shared_ptr<const void> keep_alive) : table_(table), keep_alive_(std::move(keep_alive)) {}
  void SeekToFirst() override { at_ = table_->head_->next[0].load(std::memory_order_acquire); }
  void Seek(std::string_view internal_key) override {
    at_ = table_->FindGreaterOrEqual(StoredKeyOf(internal_key), TrailerOf(internal_key));
  }
  void Next() override { at_ = at_->next[0].load(std::memory_order_acquire); }
  void Resume() override { NOVA_CHECK(false) << "a memtable iterator never needs blocks"; }
  State state() const override { return at_ == nullptr ? State::kEnd : State::kValid; }
  void AppendNeeded(std::vector<BlockRequest>*) override {}
  std::string_view key() const override { return at_->internal_key(); }
  std::string_view value() const override { return at_->value(); }
  Status status() const override { return OkStatus(); }

 private:
  const MemTable* table_;
  std::shared_ptr<const void> keep_alive_;
  const Entry* at_ = nullptr;
};

std::unique_ptr<Iterator> MemTable::NewIterator(std::shared_ptr<const void> keep_alive) const {
  return std::make_unique<Iter>(this, std::move(keep_alive));
}

}  // namespace nova
