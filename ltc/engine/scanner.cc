#include "ltc/engine/scanner.h"

#include <algorithm>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/sstable/iterator.h"

namespace nova {

// The tables of one run, one after another. Waits (kNeedBlocks) for the reader of a table that is not loaded.
class Scanner::LevelIterator : public Iterator {
 public:
  LevelIterator(const Run* run, BlockLookup lookup, Direction direction)
      : run_(run), lookup_(std::move(lookup)), direction_(direction) {}
  void SeekToFirst() override {
    passed_ = 0;
    seek_key_.clear();
    OpenCurrent();
  }
  void Seek(std::string_view internal_key) override {
    const size_t n = run_->tables.size(), found = run_->FirstNotBefore(StoredKeyOf(internal_key));
    passed_ = direction_ == Direction::kForward ? found : n - std::min(n, found + 1);
    seek_key_ = internal_key;
    OpenCurrent();
  }
  void Next() override {
    table_->Next();
    SkipEnds();
  }
  void Resume() override {
    if (table_ == nullptr) return OpenCurrent();
    table_->Resume();
    SkipEnds();
  }
  State state() const override {
    if (passed_ >= run_->tables.size()) return State::kEnd;
    return table_ == nullptr ? State::kNeedBlocks : table_->state();
  }
  void AppendNeeded(std::vector<BlockRequest>* out) override {
    if (table_ != nullptr) table_->AppendNeeded(out);
  }
  // The table whose reader has to be loaded before Resume; null: none.
  TableRef table_to_load() const {
    return passed_ < run_->tables.size() && table_ == nullptr ? current() : nullptr;
  }
  std::string_view key() const override { return table_->key(); }
  std::string_view value() const override { return table_->value(); }
  Status status() const override { return table_ == nullptr ? OkStatus() : table_->status(); }

 private:
  const TableRef& current() const {
    return run_->tables[direction_ == Direction::kForward ? passed_ : run_->tables.size() - 1 - passed_];
  }
  void OpenCurrent() {
    table_ = nullptr;
    if (passed_ >= run_->tables.size()) return;
    auto reader = current()->reader();
    if (reader == nullptr) return;
    table_ =
        std::make_unique<TableIterator>(std::move(reader), lookup_, TableIterator::Check::kOnce, direction_);
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
  size_t passed_ = 0;  // tables it is through with
  std::string seek_key_;
  std::unique_ptr<TableIterator> table_;
};

struct Scanner::ScanState {
  std::shared_ptr<const void> range;  // kept
  std::shared_ptr<const RangeView> view;
  SequenceNumber sequence = 0;  // the scan sees this and nothing newer
  Executor* on = nullptr;
  ScanOp op;
  ScanDone done;
  ScanPage page;
  std::vector<LevelIterator*> levels;  // owned by `merged`
  std::unique_ptr<Iterator> merged;
  // forward: its newest visible version was seen; reverse: versions of it are being passed, oldest first
  std::string last_key;
  bool has_last_key = false;
  bool has_last_value = false;  // reverse: the newest visible version so far
  SequenceNumber last_sequence = 0;
  ValueType last_type = ValueType::kPut;
  std::string last_value;
  int waiting = 0;
  Status error;
};

void Scanner::Scan(Executor* on, ScanOp op, ScanDone done) {
  if (!context_->state.serves_reads()) return done(Outcome::kNotOwner, {});
  scans_.fetch_add(1, std::memory_order_relaxed);
  auto scan = std::make_shared<ScanState>();
  scan->range = context_->KeepAlive();
  scan->on = on;
  scan->op = std::move(op);
  scan->op.deadline_ns = WaitsUntil(scan->op.deadline_ns, Now());
  scan->op.page_bytes = std::min(scan->op.page_bytes, context_->options.scan_page_bytes);
  scan->done = std::move(done);
  const std::string &lower = context_->spec.lower, &upper = context_->spec.upper;
  if (!upper.empty() && (scan->op.to.empty() || scan->op.to > upper)) scan->op.to = upper;
  if (scan->op.from < lower) scan->op.from = lower;
  if (scan->op.snapshot != nullptr) {
    scan->view = rounds_->ViewOf(on);
    scan->sequence = scan->op.snapshot->sequence();
    // as in Reader::GetAt
    if (!points_->snapshots().IsLive(*scan->op.snapshot, Now()))
      return scan->done(Outcome::kSnapshotEnded, {});
    return Start(std::move(scan));
  }
  rounds_->WithReadPoint(on, [this, scan](ReadPoint point) {
    scan->view = std::move(point.view);
    scan->sequence = point.sequence;
    Start(scan);
  });
}

void Scanner::Start(std::shared_ptr<ScanState> scan) {
  if (context_->state.Is(ServingState::kLost)) return scan->done(Outcome::kNotOwner, {});
  const Direction direction = scan->op.reverse ? Direction::kBackward : Direction::kForward;
  std::vector<std::unique_ptr<Iterator>> children;
  const auto add_round = [&](const std::shared_ptr<Round>& round) {
    for (const auto& m : round->siblings) {
      if (m->entries() > 0) children.push_back(m->NewIteratorAt(scan->sequence, round, direction));
    }
  };
  add_round(scan->view->active);
  for (const auto& round : scan->view->sealed) add_round(round);
  const BlockLookup lookup = [cache = context_->services->cache](const TableReader& table,
                                                                 const BlockHandle& handle) {
    return cache->Lookup(table.info().uuid, handle.offset);
  };
  for (const Run& run : scan->view->version->runs()) {
    auto level = std::make_unique<LevelIterator>(&run, lookup, direction);
    scan->levels.push_back(level.get());
    children.push_back(std::move(level));
  }
  scan->merged = NewMergingIterator(std::move(children), direction);
  const std::string& start = scan->op.reverse ? scan->op.to : scan->op.from;
  start.empty() ? scan->merged->SeekToFirst() : scan->merged->Seek(MakeSeekKey(start));
  Continue(scan);
}

void Scanner::Continue(const std::shared_ptr<ScanState>& scan) {
  while (Step(scan)) {
  }
}

// Goes on as far as blocks in memory allow. True: what was missing arrived meanwhile. False: it ended, or
// goes on by itself.
bool Scanner::Step(const std::shared_ptr<ScanState>& scan) {
  const Nanos until = Now() + context_->options.scan_budget_ns;
  Iterator* it = scan->merged.get();
  int steps = 0;
  for (; it->state() == Iterator::State::kValid; it->Next()) {
    if ((++steps & 63) == 0 && Now() > until) {
      scan->on->Submit([this, scan] { Continue(scan); });
      return false;
    }
    ParsedInternalKey key;
    if (!ParseInternalKey(it->key(), &key)) return End(scan.get(), Outcome::kCorruption, {});
    const bool outside = scan->op.reverse ? key.stored_key < scan->op.from
                                          : !scan->op.to.empty() && key.stored_key >= scan->op.to;
    if (outside) break;
    if (key.sequence > scan->sequence) continue;
    const bool same_key = scan->has_last_key && key.stored_key == scan->last_key;
    if (same_key && !scan->op.reverse) continue;
    if (!same_key) {
      if (scan->op.reverse) AppendLast(scan.get());
      if (scan->page.count >= scan->op.limit) return End(scan.get(), Outcome::kOk, std::move(scan->page));
      if (scan->page.entries.size() >= scan->op.page_bytes) {
        scan->page.more = true;
        return End(scan.get(), Outcome::kOk, std::move(scan->page));
      }
      scan->last_key.assign(key.stored_key);
      scan->has_last_key = true;
    }
    if (scan->op.reverse) {  // a newer version may follow
      scan->last_sequence = key.sequence;
      scan->last_type = key.type;
      scan->last_value.assign(it->value());
      scan->has_last_value = true;
      continue;
    }
    AppendEntry(scan.get(), key.stored_key, key.sequence, key.type, it->value());
    if (scan->page.count >= scan->op.limit) return End(scan.get(), Outcome::kOk, std::move(scan->page));
  }
  switch (it->state()) {
    case Iterator::State::kValid:  // outside
    case Iterator::State::kEnd:
      if (scan->op.reverse && scan->page.count < scan->op.limit) AppendLast(scan.get());
      return End(scan.get(), Outcome::kOk, std::move(scan->page));
    case Iterator::State::kError:
      return Fail(scan.get(), it->status());
    default:
      break;
  }
  if (Now() >= scan->op.deadline_ns) return End(scan.get(), Outcome::kUnavailable, {});
  return FetchNeeded(scan);
}

bool Scanner::FetchNeeded(const std::shared_ptr<ScanState>& scan) {
  std::vector<BlockRequest> needed;
  scan->merged->AppendNeeded(&needed);
  std::vector<TableRef> to_load;
  for (LevelIterator* level : scan->levels) {
    if (auto t = level->table_to_load()) to_load.push_back(std::move(t));
  }
  scan->waiting = static_cast<int>(needed.size() + to_load.size()) + 1;  // ours: an answer may come at once
  NOVA_CHECK(scan->waiting > 1) << "an iterator waits for nothing";
  const auto arrived = [this, scan](const Status& s) {
    if (!s.ok()) scan->error = s;
    if (--scan->waiting == 0 && Resume(scan.get())) Continue(scan);
  };
  for (const BlockRequest& request : needed) {
    tables_->FetchBlock(scan->on, *request.table, request.handle, scan->op.deadline_ns,
                        [request, arrived](StatusOr<BlockRef> block) {
                          if (block.ok()) request.iterator->Supply(request.handle, *block);
                          arrived(block.status());
                        });
  }
  for (TableRef& table : to_load) tables_->LoadReader(scan->on, std::move(table), arrived);
  return --scan->waiting == 0 && Resume(scan.get());
}

void Scanner::AppendEntry(ScanState* scan, std::string_view stored_key, SequenceNumber sequence,
                          ValueType type, std::string_view value) const {
  const RangeTombstones* tombstones = scan->view->tombstones.get();
  // range deletion (K7)
  if (tombstones != nullptr && tombstones->Covering(stored_key, scan->sequence) > sequence) return;
  if (!points_->IsVisible(type, &value)) return;
  PutLengthPrefixed(&scan->page.entries, stored_key);
  PutLengthPrefixed(&scan->page.entries, value);
  ++scan->page.count;
}

// Reverse: the versions of a key are all passed, the last visible one is its newest.
void Scanner::AppendLast(ScanState* scan) const {
  if (scan->has_last_value)
    AppendEntry(scan, scan->last_key, scan->last_sequence, scan->last_type, scan->last_value);
  scan->has_last_value = false;
}

bool Scanner::Resume(ScanState* scan) {
  if (!scan->error.ok()) return Fail(scan, scan->error);
  scan->merged->Resume();
  return true;
}

bool Scanner::Fail(ScanState* scan, const Status& why) {
  ScanPage page;
  page.why = std::string(why.message());
  return End(scan, context_->OutcomeOfRead(why), std::move(page));
}

bool Scanner::End(ScanState* scan, Outcome outcome, ScanPage page) {
  scan->done(outcome, std::move(page));
  return false;
}

}  // namespace nova
