#include "ltc/engine/range_iterator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/sstable/merging_iterator.h"
#include "common/sstable/table_iterator.h"
#include "ltc/engine/round_iterator.h"

namespace nova {
namespace {

// Of a round: one for each memtable that has entries; one for all of them, where they are partitioned by
// Drange. A memtable may get its first entry at any time.
size_t IteratorsOf(const Round& round) {
  if (round.partition != nullptr) return 1;
  return static_cast<size_t>(std::count_if(round.siblings.begin(), round.siblings.end(),
                                           [](const auto& m) { return m->entries() > 0; }));
}

size_t IteratorsOfRounds(const RangeView& view) {
  size_t n = IteratorsOf(*view.active);
  for (const auto& round : view.sealed) n += IteratorsOf(*round);
  return n;
}

}  // namespace

// The tables of one run, one after another. Waits (kNeedBlocks) for the reader of a table that is not loaded.
//
// Lazy, a table is opened when the merge comes to its first key (kAhead): a scan of a few keys opens of each
// run the table that has keys there, if one does, and lets go of it at its end.
class RangeIterator::LevelIterator : public Iterator {
 public:
  // `end`: a stored key, kept: tables at or behind it (backwards: before it) are as if they were not there;
  // empty: no such key. `opened` counts what is opened.
  LevelIterator(const Run* run, BlockLookup lookup, Direction direction, bool lazy, const std::string* end,
                Opened* opened)
      : run_(run),
        lookup_(std::move(lookup)),
        direction_(direction),
        lazy_(lazy),
        end_(end),
        opened_(opened) {}
  void SeekToFirst() override {
    is_new_ = is_unread_ = true;
    passed_ = 0;
    prepared_ = false;
    seek_key_.clear();
    Reach({});
    if (!ahead_) OpenCurrent();
  }
  void Seek(std::string_view internal_key) override {
    if (!std::exchange(prepared_, false)) GoTo(internal_key);
    seek_key_.clear();
    if (table_) {
      table_->Seek(internal_key);
      SkipEnds();
    } else if (!ahead_ && !done()) {
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
    ahead_ = false;
    if (!table_) return OpenCurrent();
    table_->Resume();
    SkipEnds();
  }
  State state() const override {
    if (table_) return table_->state();
    if (done()) return State::kEnd;
    return ahead_ ? State::kAhead : State::kNeedBlocks;
  }
  void AppendNeeded(std::vector<BlockRequest>* out) override {
    if (table_) table_->AppendNeeded(out);
  }
  // The seek that follows is for so many entries, of all runs.
  void Expect(uint64_t wanted) { expected_ = static_cast<double>(wanted) * run_->share; }
  // What was sought is not in memory.
  void CountRead() {
    if (std::exchange(is_unread_, false) && run_->level == 0) ++opened_->level0_reads;
  }
  // The table whose reader has to be loaded before Resume; null: none.
  TableRef table_to_load() const { return state() == State::kNeedBlocks && !table_ ? current() : nullptr; }
  std::string_view key() const override { return ahead_ ? FirstOf(*current()) : table_->key(); }
  std::string_view value() const override { return table_->value(); }
  const std::shared_ptr<const void>* value_keeper() const override {
    if (!table_->value_is_mapped()) return nullptr;
    if (keeper_ != current()) keeper_ = current();
    return &keeper_;
  }
  Status status() const override { return table_ ? table_->status() : OkStatus(); }
  // Lets go of the blocks that it keeps; a Seek has to follow.
  void Rest() {
    prepared_ = ahead_ = false;
    Close();
  }

 private:
  bool forward() const { return direction_ == Direction::kForward; }
  bool done() const { return passed_ >= run_->tables.size(); }
  const TableRef& current() const {
    return run_->tables[forward() ? passed_ : run_->tables.size() - 1 - passed_];
  }
  // The first internal key of a table in this direction.
  std::string_view FirstOf(const TableHandle& table) const {
    return forward() ? table.info().smallest : table.info().largest;
  }
  // The iterator's first entry in the table is the table's own.
  bool HasFirstOf(const TableHandle& table) const {
    return forward() ? StoredKeyOf(table.info().smallest) == table.keys().first
                     : StoredKeyOf(table.info().largest) == table.keys().last && !table.keys().open_end;
  }
  // No entry of the table is wanted, nor of those that follow.
  bool IsBehindEnd(const TableHandle& table) const {
    if (end_->empty()) return false;
    return forward() ? table.keys().first >= *end_ : table.keys().EndsBefore(*end_);
  }
  // A move to `internal_key` (empty: to the first entry) has come to the current table: it is ahead, or
  // nothing is left, or it is to be opened.
  void Reach(std::string_view internal_key) {
    Close();
    if (!done() && IsBehindEnd(*current())) passed_ = run_->tables.size();
    ahead_ = lazy_ && !done() && HasFirstOf(*current()) && !IsPast(internal_key, FirstOf(*current()));
  }
  // The move to `internal_key` begins behind `first`.
  bool IsPast(std::string_view internal_key, std::string_view first) const {
    if (internal_key.empty()) return false;
    const int c = CompareInternalKeys(internal_key, first);
    return forward() ? c > 0 : c <= 0;
  }
  // Comes to the table that may hold the key, or to the first one behind it.
  void GoTo(std::string_view internal_key) {
    is_new_ = is_unread_ = true;
    const size_t n = run_->tables.size(), found = run_->FirstNotBefore(StoredKeyOf(internal_key));
    passed_ = forward() ? found : n - std::min(n, found + 1);
    const bool begins_behind =
        !forward() && !done() && CompareInternalKeys(current()->info().smallest, internal_key) >= 0;
    if (begins_behind) ++passed_;
    Reach(internal_key);
    if (!ahead_) OpenReader();
  }
  // Sets table_, unless there is none, or its reader is not loaded.
  void OpenReader() {
    if (done()) return;
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
    table_->Expect(expected_, *end_);
    ++opened_->tables;
    if (std::exchange(is_new_, false) && run_->level == 0) ++opened_->level0_runs;
    if (table_->is_on_disk()) CountRead();
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
      Reach({});
      if (!ahead_) OpenCurrent();
    }
  }
  void Close() {
    table_ = nullptr;
    if (iterator_ && !iterator_->value_is_mapped()) iterator_.reset();
  }

  const Run* const run_;
  const BlockLookup lookup_;
  const Direction direction_;
  const bool lazy_;
  const std::string* const end_;
  Opened* const opened_;
  size_t passed_ = 0;      // tables it is through with
  bool prepared_ = false;  // by PrepareSeek: table_ is open, or ahead_ says why not
  bool is_new_ = true;     // no table was opened since the last seek
  bool is_unread_ = true;  // nothing was read from a disk or a StoC since the last seek
  bool ahead_ = false;     // the current table is not open yet: the move ends at its first entry
  double expected_ = 0;    // entries that will be read, as far as is known
  // Of a Seek that waits for a reader; empty: the move under way is to the first entry.
  std::string seek_key_;
  mutable std::shared_ptr<const void> keeper_;  // a table, once a value of it was to be kept
  std::optional<TableIterator> iterator_;       // none: no table was opened yet, or it was let go
  TableIterator* table_ = nullptr;  // iterator_; null: no table is left, it is ahead, or it is not loaded
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
  const std::vector<Run>& runs = at_.view->version->runs();
  const bool merges = IteratorsOfRounds(*at_.view) + runs.size() > 1;  // else nobody asks for what is ahead
  const auto add_round = [&](const std::shared_ptr<Round>& round) {
    if (round->partition != nullptr) {
      auto iterator =
          std::make_unique<RoundIterator>(round, at_.sequence, direction_, merges, &opened_.memtables);
      memtables_.push_back(iterator.get());
      children.push_back(std::move(iterator));
      return;
    }
    for (const auto& m : round->siblings) {
      if (m->entries() == 0) continue;
      auto iterator = m->NewIteratorAt(at_.sequence, round, direction_);
      memtables_.push_back(iterator.get());
      children.push_back(std::move(iterator));
      ++whole_memtables_;
    }
  };
  add_round(at_.view->active);
  for (const auto& round : at_.view->sealed) add_round(round);
  const BlockLookup lookup = [cache = context_->services->cache](const TableReader& table,
                                                                 const BlockHandle& handle) {
    return cache->Lookup(table.info().uuid, handle.offset);
  };
  const std::string* const end = direction_ == Direction::kForward ? &to_ : &from_;
  for (const Run& run : runs) {
    auto level = std::make_unique<LevelIterator>(&run, lookup, direction_, merges, end, &opened_);
    levels_.push_back(level.get());
    children.push_back(std::move(level));
  }
  merged_ = NewMergingIterator(std::move(children), direction_);
}

RangeIterator::~RangeIterator() = default;

void RangeIterator::Rest() {
  for (LevelIterator* level : levels_) level->Rest();
}

// The rounds are the same ones. Each may have come by a memtable's first entry: the active one, and a sealed
// one that a writer is still in (pin, L6), whose number is above the one that was read at before.
bool RangeIterator::Renew(ReadPoint* at, std::string_view from, std::string_view to) {
  if (at->view->generation != generation() || direction_ != Direction::kForward || !error_.ok()) return false;
  if (IteratorsOfRounds(*at->view) != memtables_.size()) return false;
  at_ = std::move(*at);
  for (MomentIterator* m : memtables_) m->ReadAt(at_.sequence);
  from_ = from;
  to_ = to;
  return true;
}

void RangeIterator::SeekToFirst(uint64_t wanted) {
  has_last_key_ = kept_ = false;
  last_key_.clear();
  for (LevelIterator* level : levels_) level->Expect(wanted);
  opened_ = {.memtables = whole_memtables_};
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

// The merge stands at a version that was not looked at, or, where it waits, at none.
std::optional<std::string> RangeIterator::Passed() const {
  std::string behind_last = last_key_ + '\0';  // the least key above it
  if (direction_ == Direction::kBackward && kept_) return behind_last;
  if (!merged_->Valid()) return last_key_.empty() ? std::nullopt : std::make_optional(std::move(behind_last));
  std::string next(StoredKeyOf(merged_->key()));
  const bool is_left = direction_ == Direction::kForward && next != last_key_;
  return is_left ? next : next + '\0';
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
    if (level->state() == Iterator::State::kNeedBlocks) level->CountRead();
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
    std::vector<BlockHandle> handles = {request.handle};
    handles.insert(handles.end(), request.behind.begin(), request.behind.end());
    tables_->FetchBlocks(on, *request.table, handles, deadline_ns,
                         [this, request, handles, answer](StatusOr<std::vector<BlockRef>> blocks) {
                           const bool waits = request.iterator != nullptr;
                           if (!blocks.ok()) return answer(waits ? blocks.status() : OkStatus());
                           for (size_t i = 0; i < blocks->size(); ++i)
                             tables_->KeepBlock(*request.table, handles[i], (*blocks)[i]);
                           if (waits) request.iterator->Supply(request.handle, blocks->front());
                           answer(OkStatus());
                         });
  }
  for (TableRef& table : to_load) tables_->LoadReader(on, std::move(table), deadline_ns, answer);
  return is_last(OkStatus());
}

}  // namespace nova
