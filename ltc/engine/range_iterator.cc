#include "ltc/engine/range_iterator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"

namespace nova {

// The tables of one run, one after another. Waits (kNeedBlocks) for the reader of a table that is not loaded.
class RangeIterator::LevelIterator : public Iterator {
 public:
  LevelIterator(const Run* run, BlockLookup lookup, Direction direction)
      : run_(run), lookup_(std::move(lookup)), direction_(direction) {}
  void SeekToFirst() override {
    passed_ = 0;
    prepared_ = false;
    seek_key_.clear();
    OpenCurrent();
  }
  void Seek(std::string_view internal_key) override {
    if (!std::exchange(prepared_, false)) GoTo(internal_key);
    seek_key_.clear();
    if (table_) {
      table_->Seek(internal_key);
      SkipEnds();
    } else if (passed_ < run_->tables.size()) {
      seek_key_ = internal_key;  // for when its reader is loaded
    }
  }
  void PrepareSeek(std::string_view internal_key) override {
    GoTo(internal_key);
    if (table_) table_->PrepareSeek(internal_key);
    prepared_ = true;
  }
  void Next() override {
    table_->Next();
    SkipEnds();
  }
  void Resume() override {
    if (!table_) return OpenCurrent();
    table_->Resume();
    SkipEnds();
  }
  State state() const override {
    if (passed_ >= run_->tables.size()) return State::kEnd;
    return table_ ? table_->state() : State::kNeedBlocks;
  }
  void AppendNeeded(std::vector<BlockRequest>* out) override {
    if (table_) table_->AppendNeeded(out);
  }
  // The table whose reader has to be loaded before Resume; null: none.
  TableRef table_to_load() const { return passed_ < run_->tables.size() && !table_ ? current() : nullptr; }
  std::string_view key() const override { return table_->key(); }
  std::string_view value() const override { return table_->value(); }
  const std::shared_ptr<const void>* value_keeper() const override {
    if (!table_->value_is_mapped()) return nullptr;
    if (keeper_ != current()) keeper_ = current();
    return &keeper_;
  }
  Status status() const override { return table_ ? table_->status() : OkStatus(); }
  // Lets go of the blocks that it keeps; a Seek has to follow.
  void Rest() {
    prepared_ = false;
    table_ = nullptr;
    if (iterator_ && !iterator_->value_is_mapped()) iterator_.reset();
  }

 private:
  const TableRef& current() const {
    return run_->tables[direction_ == Direction::kForward ? passed_ : run_->tables.size() - 1 - passed_];
  }
  // Opens the table that may hold the key, or the first one behind it.
  void GoTo(std::string_view internal_key) {
    const size_t n = run_->tables.size(), found = run_->FirstNotBefore(StoredKeyOf(internal_key));
    passed_ = direction_ == Direction::kForward ? found : n - std::min(n, found + 1);
    OpenReader();
  }
  // Sets table_, unless there is none, or its reader is not loaded.
  void OpenReader() {
    table_ = nullptr;
    if (passed_ >= run_->tables.size()) return;
    // The view keeps the table, and that its reader.
    const TableReader* const mapped = current()->mapped_reader();
    auto reader = mapped != nullptr ? std::shared_ptr<const TableReader>(std::shared_ptr<void>(), mapped)
                                    : current()->reader();
    if (reader == nullptr) return;
    if (iterator_) {
      iterator_->Open(std::move(reader));
    } else {
      iterator_.emplace(std::move(reader), lookup_, TableIterator::Check::kOnce, direction_);
    }
    table_ = &*iterator_;
  }
  void OpenCurrent() {
    OpenReader();
    if (!table_) return;
    seek_key_.empty() ? table_->SeekToFirst() : table_->Seek(seek_key_);
    SkipEnds();
  }
  void SkipEnds() {
    while (table_ != nullptr && table_->state() == State::kEnd) {
      ++passed_;
      seek_key_.clear();
      OpenCurrent();
    }
  }

  const Run* const run_;
  const BlockLookup lookup_;
  const Direction direction_;
  size_t passed_ = 0;      // tables it is through with
  bool prepared_ = false;  // by PrepareSeek: table_ is open
  // Of a Seek that waits for a reader; empty: the move under way is to the first entry.
  std::string seek_key_;
  mutable std::shared_ptr<const void> keeper_;  // a table, once a value of it was to be kept
  std::optional<TableIterator> iterator_;       // none: no table was opened yet
  TableIterator* table_ = nullptr;  // iterator_; null: no table is left, or its reader is not loaded
};

RangeIterator::RangeIterator(const RangeContext* context, const ReadPoints* points, TableAccess* tables,
                             ReadPoint at, std::string_view from, std::string_view to, Direction direction)
    : context_(context),
      points_(points),
      tables_(tables),
      at_(std::move(at)),
      from_(from),
      to_(to),
      direction_(direction) {
  std::vector<std::unique_ptr<Iterator>> children;
  children.reserve(1 + at_.view->sealed.size() + at_.view->version->runs().size());
  levels_.reserve(at_.view->version->runs().size());
  const auto add_round = [&](const std::shared_ptr<Round>& round) {
    for (const auto& m : round->siblings) {
      if (m->entries() == 0) continue;
      auto iterator = m->NewIteratorAt(at_.sequence, round, direction_);
      memtables_.push_back(iterator.get());
      children.push_back(std::move(iterator));
    }
  };
  add_round(at_.view->active);
  active_memtables_ = memtables_.size();
  for (const auto& round : at_.view->sealed) add_round(round);
  const BlockLookup lookup = [cache = context_->services->cache](const TableReader& table,
                                                                 const BlockHandle& handle) {
    return cache->Lookup(table.info().uuid, handle.offset);
  };
  for (const Run& run : at_.view->version->runs()) {
    auto level = std::make_unique<LevelIterator>(&run, lookup, direction_);
    levels_.push_back(level.get());
    children.push_back(std::move(level));
  }
  merged_ = NewMergingIterator(std::move(children), direction_);
}

RangeIterator::~RangeIterator() = default;

void RangeIterator::Rest() {
  for (LevelIterator* level : levels_) level->Rest();
}

// A sealed round takes no entries.
bool RangeIterator::Renew(ReadPoint* at, std::string_view from, std::string_view to) {
  if (at->view->generation != generation() || direction_ != Direction::kForward || !error_.ok()) return false;
  size_t filled = 0;
  for (const auto& m : at->view->active->siblings) filled += m->entries() > 0 ? 1 : 0;
  if (filled != active_memtables_) return false;
  at_ = std::move(*at);
  for (MomentIterator* m : memtables_) m->ReadAt(at_.sequence);
  from_ = from;
  to_ = to;
  return true;
}

void RangeIterator::SeekToFirst() {
  has_last_key_ = kept_ = false;
  const std::string& start = direction_ == Direction::kBackward ? to_ : from_;
  if (start.empty()) return merged_->SeekToFirst();
  seek_key_.clear();
  AppendSeekKey(&seek_key_, start);
  merged_->Seek(seek_key_);
}

// Backwards the versions of the entry are passed already.
void RangeIterator::Next() {
  if (direction_ == Direction::kForward) merged_->Next();
}

RangeIterator::State RangeIterator::Settle(int* steps) {
  if (!error_.ok()) return State::kError;
  return direction_ == Direction::kForward ? SettleForward(steps) : SettleBackward(steps);
}

RangeIterator::State RangeIterator::SettleForward(int* steps) {
  for (; merged_->Valid(); merged_->Next()) {
    if (--*steps < 0) return State::kPaused;
    ParsedInternalKey version;
    if (!ParseInternalKey(merged_->key(), &version)) return Fail(absl::DataLossError("a malformed key"));
    if (!to_.empty() && version.stored_key >= to_) return State::kEnd;
    if (version.sequence > at_.sequence) continue;
    if (has_last_key_ && version.stored_key == last_key_) continue;  // a newer one was seen
    last_key_.assign(version.stored_key);
    has_last_key_ = true;
    value_ = merged_->value();
    if (!IsSeen(last_key_, version.sequence, version.type, &value_)) continue;
    key_ = last_key_;
    return State::kValid;
  }
  return StateOfMerged();
}

RangeIterator::State RangeIterator::SettleBackward(int* steps) {
  for (; merged_->Valid(); merged_->Next()) {
    if (--*steps < 0) return State::kPaused;
    ParsedInternalKey version;
    if (!ParseInternalKey(merged_->key(), &version)) return Fail(absl::DataLossError("a malformed key"));
    const bool outside = version.stored_key < from_;
    if (outside || version.stored_key != last_key_) {
      if (TakeKept()) return State::kValid;
    }
    if (outside) return State::kEnd;
    if (version.sequence > at_.sequence) continue;
    last_key_.assign(version.stored_key);
    kept_sequence_ = version.sequence;
    kept_type_ = version.type;
    kept_value_.assign(merged_->value());
    kept_ = true;
  }
  const State state = StateOfMerged();
  return state == State::kEnd && TakeKept() ? State::kValid : state;
}

bool RangeIterator::TakeKept() {
  if (!std::exchange(kept_, false)) return false;
  key_ = last_key_;
  value_ = kept_value_;
  return IsSeen(key_, kept_sequence_, kept_type_, &value_);
}

bool RangeIterator::IsSeen(std::string_view stored_key, SequenceNumber sequence, ValueType type,
                           std::string_view* value) const {
  const RangeTombstones* const tombstones = at_.view->tombstones.get();
  if (tombstones != nullptr && tombstones->Covering(stored_key, at_.sequence) > sequence) return false;
  return points_->IsVisible(type, value);
}

RangeIterator::State RangeIterator::StateOfMerged() {
  switch (merged_->state()) {
    case Iterator::State::kNeedBlocks:
      return State::kNeedBlocks;
    case Iterator::State::kError:
      return Fail(merged_->status());
    default:
      return State::kEnd;
  }
}

RangeIterator::State RangeIterator::Fail(Status why) {
  error_ = std::move(why);
  return State::kError;
}

struct RangeIterator::Waiting {
  int left = 0;  // answers that have not come
  Status error;  // of one of them
  std::function<void()> arrived;
};

bool RangeIterator::Fetch(Executor* on, Nanos deadline_ns, std::function<void()> arrived) {
  std::vector<BlockRequest> needed;
  merged_->AppendNeeded(&needed);
  std::vector<TableRef> to_load;
  for (LevelIterator* level : levels_) {
    if (auto t = level->table_to_load()) to_load.push_back(std::move(t));
  }
  NOVA_CHECK(!needed.empty() || !to_load.empty()) << "an iterator waits for nothing";
  auto waiting = std::make_shared<Waiting>();
  waiting->left = static_cast<int>(needed.size() + to_load.size()) + 1;  // ours: an answer may come at once
  waiting->arrived = std::move(arrived);
  const auto is_last = [this, waiting](const Status& s) {
    if (!s.ok()) waiting->error = s;
    if (--waiting->left > 0) return false;
    waiting->error.ok() ? merged_->Resume() : void(error_ = waiting->error);
    return true;
  };
  const auto answer = [is_last, waiting](const Status& s) {
    if (is_last(s)) waiting->arrived();
  };
  for (const BlockRequest& request : needed) {
    tables_->FetchBlock(on, *request.table, request.handle, deadline_ns,
                        [this, request, answer](StatusOr<BlockRef> block) {
                          if (block.ok()) {
                            tables_->KeepBlock(*request.table, request.handle, *block);
                            request.iterator->Supply(request.handle, *block);
                          }
                          answer(block.status());
                        });
  }
  for (TableRef& table : to_load) tables_->LoadReader(on, std::move(table), answer);
  return is_last(OkStatus());
}

}  // namespace nova
