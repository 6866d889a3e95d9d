// RecoveredEntries: the entries of a range's logs that no table has (read, R3), in the order of tables: by
// key, and the newest of a key first. They are sorted once, in O(n log n) however small they are, and read in
// place: no memtable is built of them.
//
// Thread safety: immutable once constructed.
// Ownership: takes the logs; its iterators must not outlive it.
// Errors: DataLoss, of RangeDeletions.
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
  // Leaves out entries that are in tables already (done memtables, M3), and all but one of equal records, for
  // a record may be found in two log groups (group change, L4).
  RecoveredEntries(RecoveredLogs logs, const DoneMemTables& done);

  bool empty() const { return sorted_.empty(); }
  size_t size() const { return sorted_.size(); }
  SequenceNumber first() const { return first_; }  // the lowest sequence number; 0: empty
  SequenceNumber last() const { return last_; }    // the highest; 0: empty
  // The range deletions (K7) among them. DataLoss: one ends before it begins.
  StatusOr<std::vector<RangeTombstoneRef>> RangeDeletions() const;
  // The other entries, ascending. Forward only; never kNeedBlocks.
  std::unique_ptr<Iterator> NewIterator() const { return NewIterator(0, 1); }
  // The part-th of `parts` about equal parts of them, from 0; all versions of a key are in one part.
  std::unique_ptr<Iterator> NewIterator(size_t part, size_t parts) const;

 private:
  class EntryIterator;
  // A record with 8 bytes of its key, taken behind the prefix that all keys share: they tell most keys apart
  // without a look at the record.
  struct Sorted {
    uint64_t prefix;  // big-endian, so that integers compare as bytes do
    const RecoveredRecord* record;
    bool operator<(const Sorted& other) const;
  };

  size_t BeginOf(size_t part, size_t parts) const;  // first index of a part

  RecoveredLogs logs_;          // sorted_ points into its records
  std::vector<Sorted> sorted_;  // by key, newest first
  SequenceNumber first_ = 0, last_ = 0;
};

}  // namespace nova
