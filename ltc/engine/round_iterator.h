// RoundIterator: the entries of one round whose memtables are partitioned by Drange (MemtablePartition), for
// a reader at a moment, one Drange after another: of each key the newest version in each sibling at or below
// the moment's number. A short scan opens the memtable of the Drange it is in, and no other.
//
// Lazy, it opens the next Drange when the merge comes to that one's bound (kAhead,
// common/sstable/iterator.h). What it opens late it finds whole, for all of its moment is linked (stable
// number, K4).
//
// Thread safety: none; one thread at a time.
// Ownership: keeps the round.
// Errors: none; never kNeedBlocks.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ltc/engine/round.h"

namespace nova {

class RoundIterator final : public MemTable::MomentIterator {
 public:
  // REQUIRES: the round has a partition. `opened` counts memtables that are opened. Not `lazy`: never kAhead.
  RoundIterator(std::shared_ptr<const Round> round, SequenceNumber at, Direction direction, bool lazy,
                int* opened);

  void ReadAt(SequenceNumber at) override;
  void SeekToFirst() override;
  void Seek(std::string_view internal_key) override;
  void Next() override;
  void Resume() override;
  State state() const override;
  void AppendNeeded(std::vector<BlockRequest>* /*out*/) override {}
  std::string_view key() const override { return ahead_ ? bound_ : now_->key(); }
  std::string_view value() const override { return now_->value(); }
  const std::shared_ptr<const void>* value_keeper() const override { return now_->value_keeper(); }
  Status status() const override { return OkStatus(); }

 private:
  // The siblings of a Drange, once they were opened.
  struct Opened {
    std::unique_ptr<Iterator> entries;                // null: not yet
    std::vector<MemTable::MomentIterator*> siblings;  // owned by `entries`
    SequenceNumber at = 0;                            // whose moment they show
  };

  bool forward() const { return direction_ == Direction::kForward; }
  size_t current() const { return forward() ? passed_ : dranges_.size() - 1 - passed_; }
  bool HasEntries(size_t drange) const;
  // Sets now_ to the current Drange's entries; they have to be moved.
  void OpenCurrent();
  // Comes to the next entry, if now_ has none left.
  void SkipEnds();

  const std::shared_ptr<const Round> round_;
  const Direction direction_;
  const bool lazy_;
  int* const opened_;
  SequenceNumber at_;            // what is seen
  std::vector<Opened> dranges_;  // of the partition
  size_t passed_ = 0;            // Dranges it is through with
  bool ahead_ = false;           // the current Drange is not opened yet; its entries begin behind bound_
  std::string bound_;
  Iterator* now_ = nullptr;  // of the current Drange; null: ahead, or at the end
};

}  // namespace nova
