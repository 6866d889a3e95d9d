#include "ltc/engine/round_iterator.h"

#include <utility>

#include "common/sstable/merging_iterator.h"

namespace nova {

RoundIterator::RoundIterator(std::shared_ptr<const Round> round, SequenceNumber at, Direction direction,
                             bool lazy, int* opened)
    : round_(std::move(round)),
      direction_(direction),
      lazy_(lazy),
      opened_(opened),
      at_(at),
      dranges_(round_->partition->dranges()) {}

// What is open shows the new moment when it is come to.
void RoundIterator::ReadAt(SequenceNumber at) {
  at_ = at;
  ahead_ = false;
  now_ = nullptr;
  passed_ = dranges_.size();
}

void RoundIterator::SeekToFirst() {
  passed_ = 0;
  OpenCurrent();
  now_->SeekToFirst();
  SkipEnds();
}

void RoundIterator::Seek(std::string_view internal_key) {
  const DrangeMapRef& map = round_->partition->map();
  const size_t drange = map == nullptr ? 0 : map->Of(StoredKeyOf(internal_key));
  passed_ = forward() ? drange : dranges_.size() - 1 - drange;
  OpenCurrent();
  now_->Seek(internal_key);
  SkipEnds();
}

void RoundIterator::Next() {
  now_->Next();
  SkipEnds();
}

void RoundIterator::Resume() {
  OpenCurrent();
  now_->SeekToFirst();
  SkipEnds();
}

Iterator::State RoundIterator::state() const {
  if (ahead_) return State::kAhead;
  return now_ == nullptr ? State::kEnd : State::kValid;
}

bool RoundIterator::HasEntries(size_t drange) const {
  const MemtablePartition::Siblings in = round_->partition->OfDrange(drange);
  for (uint32_t i = in.first; i < in.first + in.count; ++i) {
    if (round_->siblings[i]->entries() > 0) return true;
  }
  return false;
}

void RoundIterator::OpenCurrent() {
  ahead_ = false;
  const MemtablePartition::Siblings in = round_->partition->OfDrange(current());
  Opened& o = dranges_[current()];
  if (o.entries == nullptr) {
    std::vector<std::unique_ptr<Iterator>> children;
    for (uint32_t i = in.first; i < in.first + in.count; ++i) {
      auto child = round_->siblings[i]->NewIteratorAt(at_, round_, direction_);
      o.siblings.push_back(child.get());
      children.push_back(std::move(child));
    }
    o.entries = NewMergingIterator(std::move(children), direction_);
  } else if (o.at != at_) {
    for (MemTable::MomentIterator* sibling : o.siblings) sibling->ReadAt(at_);
  }
  o.at = at_;
  now_ = o.entries.get();
  *opened_ += static_cast<int>(in.count);
}

void RoundIterator::SkipEnds() {
  while (now_->state() == State::kEnd) {
    now_ = nullptr;
    do {
      if (++passed_ == dranges_.size()) return;
    } while (!HasEntries(current()));
    if (lazy_) {
      ahead_ = true;
      bound_ = MakeSeekKey(round_->partition->map()->First(forward() ? current() : current() + 1));
      return;
    }
    OpenCurrent();
    now_->SeekToFirst();
  }
}

}  // namespace nova
