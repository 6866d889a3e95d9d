// MemTable: a concurrent ordered map of internal keys to values, a skip list over an arena.
//
// A write comes in two steps, because it is logged between them: Prepare copies key and value to their final place and makes
// nothing visible; Link makes the entry visible (K2: visible implies logged). An entry that is never linked is never seen.
//
// Thread safety: Prepare, Link, Get and iterators from any threads at once, no lock is held. Entries are never removed.
// Ownership:     views point into the arena: they live as long as the table. Entries sort as keys.h says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/keys.h"
#include "common/sstable/iterator.h"
#include "ltc/arena.h"

namespace nova {

class MemTable {
 public:
  struct Entry;

  MemTable(MemTableId id, ArenaPool* pool);
  MemTableId id() const { return id_; }

  Entry* Prepare(std::string_view stored_key, SequenceNumber seq, ValueType type, std::string_view value);
  void Link(Entry* entry);  // REQUIRES: from Prepare, once; no equal internal key is linked

  struct Hit {
    SequenceNumber sequence = 0;
    ValueType type = ValueType::kPut;
    std::string_view value;
  };
  // The newest version with sequence <= seq.
  bool Get(std::string_view stored_key, SequenceNumber seq, Hit* hit) const;
  // Never kNeedBlocks. The iterator must not outlive the table; `keep_alive` is held as long as the iterator is.
  std::unique_ptr<Iterator> NewIterator(std::shared_ptr<const void> keep_alive) const;

  size_t bytes_used() const { return arena_.bytes_used(); }
  uint64_t entries() const { return entries_.load(std::memory_order_relaxed); }

 private:
  class Iter;
  static constexpr int kMaxHeight = 12;
  static int RandomHeight();
  // The last entry before, and the first at or after, the key on one level, starting at `from`.
  void FindOnLevel(std::string_view stored_key, uint64_t trailer, int level, Entry* from, Entry** before, Entry** after) const;
  Entry* FindGreaterOrEqual(std::string_view stored_key, uint64_t trailer) const;

  const MemTableId id_;
  Arena arena_;
  Entry* const head_;
  std::atomic<int> height_{1};
  std::atomic<uint64_t> entries_{0};
};

}  // namespace nova
