// RecoveredEntries: what the logs of a range held that no table has (read, R3), in the order of tables: by
// key, of a key the newest first.
//
// Sorted once, at O(n log n) however small the entries are, and read in place: no memtable is built of them.
//
// Thread safety: immutable.   Ownership: of the logs; an iterator must not outlive it.
#pragma once

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/log/recovered_logs.h"
#include "common/sstable/iterator.h"
#include "common/sstable/range_tombstones.h"
#include "ltc/engine/version.h"

namespace nova {

class RecoveredEntries {
 public:
  // Leaves out what is in tables already (done memtables, M3), and all but one of equal records: a record may
  // be found in two groups (group change, L4).
  RecoveredEntries(RecoveredLogs logs, const DoneMemTables& done);

  bool empty() const { return sorted_.empty(); }
  size_t size() const { return sorted_.size(); }
  SequenceNumber first() const { return first_; }  // the lowest number; 0: empty
  SequenceNumber last() const { return last_; }    // the highest
  // The range deletions among them (range deletion, K7). DataLoss: one that ends before it begins.
  StatusOr<std::vector<RangeTombstoneRef>> RangeDeletions() const;
  // The others. Forward only, never kNeedBlocks.
  std::unique_ptr<Iterator> NewIterator() const { return NewIterator(0, 1); }
  // The part-th of `parts` about equal ones, in order; the versions of a key are in one.
  std::unique_ptr<Iterator> NewIterator(size_t part, size_t parts) const;

 private:
  class EntryIterator;
  // Eight bytes of a key, behind what all keys share, tell most keys apart without a look at the key.
  struct Sorted {
    uint64_t prefix;
    const RecoveredRecord* record;
    bool operator<(const Sorted& other) const;
  };

  size_t BeginOf(size_t part, size_t parts) const;

  RecoveredLogs logs_;
  std::vector<Sorted> sorted_;
  SequenceNumber first_ = 0, last_ = 0;
};

}  // namespace nova
