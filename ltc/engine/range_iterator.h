// RangeIterator: the entries of a range that a reader at one moment sees (snapshot, K4), in key order or in
// reverse: of each key its newest version at or below the moment's number, unless that is deleted, has
// expired or is hidden by a range deletion (range deletion, expiry, K7).
//
// It merges iterators over the rounds and the runs of one view. Of a run it opens the table that has keys
// where it stands, and none while the run has no such table, so short scans open few. It never waits, as the
// iterators it merges do not (common/sstable/iterator.h):
//
//   it.SeekToFirst(wanted);
//   for (;; it.Next()) {
//     while (it.Settle(&steps) is kPaused or kNeedBlocks) { let others run, or Fetch; }
//     if (it is not kValid) break;
//     use it.key(), it.value();
//   }
//
// Thread safety: none; one thread at a time.
// Ownership: keeps its view, and so that view's rounds and tables. A key and a value are valid until the next
//   move.
// Errors: state kError, and status().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/sstable/iterator.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/read_points.h"
#include "ltc/engine/table_access.h"

namespace nova {

class RangeIterator {
 public:
  // kPaused: Settle has used up its steps before it came to an entry.
  enum class State { kValid, kEnd, kPaused, kNeedBlocks, kError };

  // Over the stored keys in [from, to); an empty `to` is the end.
  RangeIterator(const RangeContext* context, const ReadPoints* points, TableAccess* tables, ReadPoint at,
                std::string_view from, std::string_view to, Direction direction);
  ~RangeIterator();
  RangeIterator(const RangeIterator&) = delete;
  RangeIterator& operator=(const RangeIterator&) = delete;

  // Between two scans: lets go of blocks, and of all else that only an iterator in use should keep.
  void Rest();
  // Makes of a forward iterator that rests, or has not moved, a new one, which keeps the memory that it has.
  // False: it cannot, for the moment's view is another one, or has come by a memtable's first entry since.
  bool Renew(ReadPoint* at, std::string_view from, std::string_view to);
  // Begins; backwards at the last entry. Of tables that have to be read from a disk what a run is likely to
  // have of `wanted` entries is read at once.
  void SeekToFirst(uint64_t wanted);
  void Next();  // leaves an entry. REQUIRES: kValid
  // Goes on to the next entry. Passes at most *steps versions, and counts them down.
  State Settle(int* steps);
  std::string_view key() const { return key_; }      // a stored key. REQUIRES: kValid
  std::string_view value() const { return value_; }  // REQUIRES: kValid
  // See Iterator::value_keeper. Backwards nothing keeps a value. REQUIRES: kValid.
  const std::shared_ptr<const void>* value_keeper() const {
    return direction_ == Direction::kForward ? merged_->value_keeper() : nullptr;
  }
  // In kPaused and kNeedBlocks: how far it has come. Forward no entry before that key is left to be found,
  // backwards none from it on. None: it has passed nothing.
  std::optional<std::string> Passed() const;
  const Status& status() const { return error_; }               // the error of kError
  uint64_t generation() const { return at_.view->generation; }  // of the view it keeps
  // What it has opened since SeekToFirst, or since it was asked last.
  struct Opened {
    int memtables = 0;
    int tables = 0;
    int level0_runs = 0;   // runs of Level0 whose first table since SeekToFirst is among them
    int level0_reads = 0;  // the same runs, as far as what was sought in them was not in memory
  };
  Opened TakeOpened() { return std::exchange(opened_, Opened()); }

  // Has all that is missing read, in parallel. True: it has arrived already, so Settle may be called. False:
  // `arrived` is called on `on`, once; until then the caller keeps the iterator alive. REQUIRES: kNeedBlocks.
  bool Fetch(Executor* on, Nanos deadline_ns, std::function<void()> arrived);

 private:
  class LevelIterator;  // the tables of one run, one after another
  using MomentIterator = MemTable::MomentIterator;
  struct Waiting;  // for blocks and readers of tables

  // The version is an entry that the reader sees. Takes the expiry off its value.
  bool IsSeen(std::string_view stored_key, SequenceNumber sequence, ValueType type,
              std::string_view* value) const;
  // Settle, in one direction: the newest version of a key comes first.
  State SettleForward(int* steps);
  // The newest version of a key comes last: the versions of a key are kept, one after another, until the next
  // key shows that the last one kept is the newest.
  State SettleBackward(int* steps);
  // Backwards: makes the version that is kept the entry. False: it is not seen, or none is kept.
  bool TakeKept();
  State StateOfMerged();   // where it is not kValid
  State Fail(Status why);  // kError, with that status

  const RangeContext* const context_;
  const ReadPoints* const points_;
  TableAccess* const tables_;
  ReadPoint at_;           // what is seen: versions at or below its number, in its view
  std::string from_, to_;  // stored keys, [from, to)
  const Direction direction_;
  // Over a memtable each, or a round (RoundIterator); owned by merged_.
  std::vector<MomentIterator*> memtables_;
  int whole_memtables_ = 0;             // of memtables_: over a memtable each
  std::vector<LevelIterator*> levels_;  // owned by merged_
  Opened opened_;                       // see TakeOpened
  std::unique_ptr<Iterator> merged_;    // all versions of all rounds and runs, in internal key order
  std::string seek_key_;                // where SeekToFirst seeks
  std::string last_key_;  // forward: of the last version at or below the number; backward: of the one kept
  bool has_last_key_ = false;  // last_key_ was set
  // Backward: a version is kept, which is last_key_ and these.
  bool kept_ = false;
  SequenceNumber kept_sequence_ = 0;
  ValueType kept_type_ = ValueType::kPut;
  std::string kept_value_;
  std::string_view key_, value_;  // the entry, in kValid
  Status error_;                  // see status()
};

}  // namespace nova
