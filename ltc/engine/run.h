// Run: tables of a range in key order (sorted runs, M5), and TableHandle: one table in it.
//
// Tables of a run do not overlap. A table may be shared with other ranges (shared table, M4); this range then
// uses a part of its keys, and every question about keys here is about that part.
//
// Thread safety: all methods of TableHandle from any thread. A Run that is part of a version is immutable.
// Locks: a handle's, a leaf, not held while the garbage sink is called.
// Ownership: a run holds its tables. A table's files go to the GarbageSink once an acknowledged edit has left
//   it in no run and its last reference is gone (edit first, M2).
// Errors: none.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/sstable/key_pieces.h"
#include "common/sstable/table_reader.h"

namespace nova {

// Takes a table whose files are to be deleted; must not wait.
using GarbageSink = std::function<void(const TableInfo&)>;

// A table as this range uses it, and its reader once that is loaded. One table has one handle, in all
// versions and checkpoints: two would delete its files for one another. When copies of it move to other StoCs
// (rebuild, S5) the next version has a new handle, its successor, which the old one keeps: nothing is deleted
// while an older version is read.
class TableHandle {
 public:
  TableHandle(TableInfo info, std::shared_ptr<const TableReader> reader, GarbageSink garbage)
      : info_(std::move(info)),
        keys_(UsedKeys(info_)),
        expires_by_ms_(ExpiresByMs(info_)),
        garbage_(std::move(garbage)) {
    if (reader != nullptr) SetReader(std::move(reader));
  }
  // Hands the table to garbage_ if it was dropped.
  ~TableHandle();
  const TableInfo& info() const { return info_; }           // where it is, what it holds, what is used of it
  const KeyInterval& keys() const { return keys_; }         // stored keys, within the use-bounds
  int64_t expires_by_ms() const { return expires_by_ms_; }  // see ExpiresByMs
  std::shared_ptr<const TableReader> reader() const;        // null: not loaded
  void SetReader(std::shared_ptr<const TableReader> reader);  // only the first one stays
  // The reader if its data is mapped: gets use it without a lock. Null: not loaded, or not mapped.
  const TableReader* mapped_reader() const { return mapped_.load(std::memory_order_acquire); }
  // An acknowledged edit dropped it (M2); its files go with the last reference.
  void MarkDropped() { dropped_.store(true); }
  // An acknowledged edit put `next` in its place, once: the same table with other places (S5).
  void SetSuccessor(std::shared_ptr<TableHandle> next);
  std::shared_ptr<TableHandle> successor() const;  // null: none

 private:
  const TableInfo info_;
  const KeyInterval keys_;                           // views into info_
  const int64_t expires_by_ms_;                      // of info_
  const GarbageSink garbage_;                        // given the table by the destructor, if it was dropped
  std::atomic<bool> dropped_{false};                 // see MarkDropped
  std::atomic<const TableReader*> mapped_{nullptr};  // reader_ if that is mapped; never reset
  mutable Mutex mu_;
  std::shared_ptr<const TableReader> reader_ ABSL_GUARDED_BY(mu_);  // null: not loaded; never reset
  std::shared_ptr<TableHandle> successor_ ABSL_GUARDED_BY(mu_);     // null: it has none; never reset
};
using TableRef = std::shared_ptr<TableHandle>;

// A sorted run (M5).
struct Run {
  int level = 0;
  uint64_t order = 0;            // Level0: the round number; else 0
  std::vector<TableRef> tables;  // by first key
  KeyPieces last_keys = {};      // of the tables; none where the run is not part of a version
  double share = 0;              // of the bytes of its version; 0: it is not part of one
  uint64_t bytes() const;        // of the parts that this range uses
  // The table whose keys would include this one; null: none.
  TableHandle* Find(std::string_view stored_key) const;
  // Index of the first table that does not end before stored_key.
  size_t FirstNotBefore(std::string_view stored_key) const;
};

}  // namespace nova
