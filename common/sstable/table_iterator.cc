#include "common/sstable/table_iterator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/log.h"
#include "common/sstable/block.h"
#include "common/sstable/read_ahead.h"
#include "common/sstable/table_check.h"
#include "common/sstable/table_reader_rep.h"

namespace nova {

struct TableIterator::Rep {
  explicit Rep(bool is_backward)
      : backward(is_backward), read_ahead(0, is_backward), blocks_ahead(is_backward) {}
  void Open(std::shared_ptr<const TableReader> another);
  void SeekTo(std::string_view internal_key);
  void PrepareSeek(std::string_view internal_key);
  // What is expected reaches no further than the end that was named. For a block that is asked for.
  void BoundExpected(size_t position);
  void EnterBlocks(size_t first);
  void EnterBlock(BlockRef ref);
  void Settle(BlockCursor::Result result);
  size_t NextPosition() const;
  void AppendBehind(std::vector<BlockHandle>* out) const;
  void AppendBefore(std::vector<BlockHandle>* out) const;
  void Fail(absl::string_view what);
  bool OutOfBounds(std::string_view stored_key) const {
    return backward ? stored_key < info().use_from : stored_key >= info().use_to;
  }
  const TableIndex& index() const { return table->rep_->index; }
  const TableInfo& info() const { return table->rep_->info; }

  std::shared_ptr<const TableReader> table;
  BlockLookup lookup;
  Check check = Check::kOnce;
  const bool backward;
  MappedReadAhead read_ahead;
  BlocksAhead blocks_ahead;
  bool asks_ahead = false;        // by Expect
  uint64_t expected_bytes = 0;    // see Expect; what is left of it beyond the block at `position`
  std::string_view expected_end;  // the same; forward and empty: end_block tells it
  size_t end_block = SIZE_MAX;    // no block from there on is wanted
  uint64_t needed_ahead = 0;      // bytes that are wanted beyond the block that is needed
  State state = State::kEnd;
  Status status;
  size_t prepared = SIZE_MAX;  // where a Seek will begin, by PrepareSeek; SIZE_MAX: not looked up
  size_t position = 0;         // of `block` among the table's blocks, or of the block that is needed
  BlockHandle handle;          // of the block that is needed
  BlockRef block;              // what `cursor` walks
  BlockCursor cursor;          // of a forward iterator, the other of a backward one
  BackwardBlockCursor back;
  bool check_bound = false;  // the block at `position` may reach past the use-bound that lies ahead
  bool seeking = false;      // the move under way looks for `target`, else for the first entry of the block
  std::string_view target;   // the caller's during a Seek, kept_target where that has to wait or differs
  std::string kept_target;
  BlockRef supplied;
};

void TableIterator::Rep::Open(std::shared_ptr<const TableReader> another) {
  read_ahead.Leave();
  table = std::move(another);
  read_ahead = MappedReadAhead(0, backward);
  blocks_ahead = BlocksAhead(backward);
  asks_ahead = false;
  expected_bytes = 0;
  expected_end = {};
  end_block = SIZE_MAX;
  state = State::kEnd;
  status = OkStatus();
  prepared = SIZE_MAX;
  block = supplied = {};
}

void TableIterator::Rep::SeekTo(std::string_view internal_key) {
  const std::string_view stored_key = StoredKeyOf(internal_key);
  // Versions of the key of the lower bound are in the table's part: backwards some of them may still lie
  // ahead.
  const bool past_bound = backward ? !info().use_from.empty() &&
                                         CompareInternalKeys(internal_key, MakeSeekKey(info().use_from)) <= 0
                                   : !info().use_to.empty() && stored_key >= info().use_to;
  if (past_bound) return EnterBlocks(index().blocks());
  target = internal_key;
  if (!backward && stored_key < info().use_from) {
    target = kept_target = MakeSeekKey(info().use_from);
  } else if (backward && !info().use_to.empty() && stored_key >= info().use_to) {
    target = kept_target = MakeSeekKey(info().use_to);
  }
  seeking = true;
  const size_t found = prepared != SIZE_MAX ? std::exchange(prepared, SIZE_MAX)
                                            : index().Find(StoredKeyOf(target), TrailerOf(target));
  EnterBlocks(backward ? std::min(found, index().blocks() - 1) : found);
}

void TableIterator::Rep::PrepareSeek(std::string_view internal_key) {
  const std::string_view stored_key = StoredKeyOf(internal_key);
  const bool bounded = !info().use_from.empty() || !info().use_to.empty();
  if (bounded || !table->rep_->mapped) return;
  prepared = index().Find(stored_key, TrailerOf(internal_key));
  const size_t position = std::min(prepared, index().blocks() - 1);
  if (table->rep_->residency.IsWorthAsking()) BoundExpected(position);
  table->rep_->Prefetch(position, expected_bytes);
}

void TableIterator::Rep::BoundExpected(size_t position) {
  if (backward) return;
  if (!expected_end.empty()) {
    constexpr uint64_t kNewest = UINT64_MAX;
    end_block = index().Find(std::exchange(expected_end, {}), kNewest) + 1;  // that one may begin before it
  }
  if (end_block >= index().blocks()) return;
  const BlockHandle at = index().Handle(position), end = index().Handle(end_block);
  const uint64_t behind = at.offset + at.size;
  expected_bytes = std::min(expected_bytes, end.offset - std::min(end.offset, behind));
}

// Goes to the first entry looked for, in the blocks from `first` on.
void TableIterator::Rep::EnterBlocks(size_t first) {
  position = first;
  supplied = {};
  if (position == index().blocks()) {
    read_ahead.Leave();
    state = State::kEnd;
    block = {};
    return;
  }
  handle = index().Handle(position);
  const bool is_mapped = static_cast<bool>(table->rep_->mapped);
  const bool follows = blocks_ahead.Enter(position);
  if (follows) {
    expected_bytes -= std::min<uint64_t>(expected_bytes, handle.size);
  } else if (is_mapped && !table->rep_->residency.IsWorthAsking()) {
    expected_bytes = 0;  // it is in memory, as far as is known
  } else {
    BoundExpected(position);
  }
  if (is_mapped) {
    read_ahead.Enter(position, handle, table->rep_->mapped.data, expected_bytes);
    if (!seeking && !backward && position + 1 < index().blocks()) table->rep_->PrefetchEnds(position + 1);
  }
  // kept by `table`
  BlockRef ref{table->rep_->MappedBlock(position, check, follows ? 0 : expected_bytes), nullptr};
  if (!ref && lookup) ref = lookup(*table, handle);
  if (!ref) {
    needed_ahead = asks_ahead ? blocks_ahead.Ask(expected_bytes) : 0;
    if (seeking && target.data() != kept_target.data()) target = kept_target.assign(target);
    state = State::kNeedBlocks;
    return;
  }
  EnterBlock(std::move(ref));
}

void TableIterator::Rep::EnterBlock(BlockRef ref) {
  block = std::move(ref);
  if (backward) {
    check_bound = !info().use_from.empty();
    if (!back.Init(block.data)) return Fail("malformed");
    return Settle(seeking ? back.SeekBefore(target) : back.Last());
  }
  check_bound = !info().use_to.empty() && index().SeparatorStoredKey(position) >= info().use_to;
  if (!cursor.Init(block.data)) return Fail("malformed");
  Settle(seeking ? cursor.Seek(target) : cursor.First());
}

void TableIterator::Rep::Settle(BlockCursor::Result result) {
  switch (result) {
    case BlockCursor::Result::kFound:
      state = check_bound && OutOfBounds(StoredKeyOf(backward ? back.key() : cursor.key())) ? State::kEnd
                                                                                            : State::kValid;
      return;
    case BlockCursor::Result::kEnd:
      seeking = false;
      return EnterBlocks(NextPosition());
    case BlockCursor::Result::kCorrupt:
      return Fail("malformed entry");
  }
}

// The block behind the one that ended; blocks(): there is none, or all it holds is out of bounds.
size_t TableIterator::Rep::NextPosition() const {
  if (!backward) return check_bound ? index().blocks() : position + 1;
  return position == 0 || index().SeparatorStoredKey(position - 1) < info().use_from ? index().blocks()
                                                                                     : position - 1;
}

// What is wanted behind the block that is needed.
void TableIterator::Rep::AppendBehind(std::vector<BlockHandle>* out) const {
  const size_t end = std::min(index().blocks(), end_block);
  uint64_t bytes = 0;
  for (size_t i = position + 1; i < end && bytes < needed_ahead; ++i) {
    const BlockHandle at = index().Handle(i);
    if (lookup && lookup(*table, at)) return;
    bytes += at.size;
    out->push_back(at);
  }
}

// Backwards, in the order of the table: of the same fragment, so that no other StoC is waited for.
void TableIterator::Rep::AppendBefore(std::vector<BlockHandle>* out) const {
  uint64_t fragment_begin = 0, bytes = 0;
  for (const Fragment& f : info().fragments) {
    if (f.offset <= handle.offset) fragment_begin = f.offset;
  }
  const std::string_view first = std::max<std::string_view>(info().use_from, expected_end);
  for (size_t i = position; i > 0 && bytes < needed_ahead; --i) {
    const BlockHandle at = index().Handle(i - 1);
    if (at.offset < fragment_begin || index().SeparatorStoredKey(i - 1) < first) break;
    if (lookup && lookup(*table, at)) break;
    bytes += at.size;
    out->push_back(at);
  }
  std::reverse(out->begin(), out->end());
}

void TableIterator::Rep::Fail(absl::string_view what) {
  state = State::kError;
  status = TableError(info().uuid, StrCat("block at ", index().Handle(position).offset, ": ", what));
}

TableIterator::TableIterator(std::shared_ptr<const TableReader> table, BlockLookup lookup, Check check,
                             Direction direction)
    : rep_(std::make_unique<Rep>(direction == Direction::kBackward)) {
  rep_->check = check;
  rep_->table = std::move(table);
  rep_->lookup = std::move(lookup);
}
TableIterator::~TableIterator() { rep_->read_ahead.Leave(); }

void TableIterator::Open(std::shared_ptr<const TableReader> table) { rep_->Open(std::move(table)); }

void TableIterator::ReadAll(size_t ahead_bytes) {
  rep_->read_ahead = MappedReadAhead(ahead_bytes, rep_->backward);
}

// They begin at an unknown place in the first block, which is read whole beside them.
void TableIterator::Expect(double entries, std::string_view end) {
  constexpr double kMost = 256 << 10;  // read-ahead of blocks in a row goes on from there
  const TableInfo& info = rep_->info();
  const double entry_bytes = static_cast<double>(info.data_size) / static_cast<double>(info.entries);
  rep_->asks_ahead = true;
  rep_->expected_bytes = 0;
  rep_->expected_end = end;
  if (rep_->backward && rep_->table->rep_->mapped)
    return;  // with a mapped block only what lies behind it is read
  const double most_likely = entries + 2 * std::sqrt(entries);  // two standard deviations, were it by chance
  rep_->expected_bytes = static_cast<uint64_t>(std::min(kMost, most_likely * entry_bytes));
}

void TableIterator::SeekToFirst() {
  rep_->prepared = SIZE_MAX;
  const std::string& bound = rep_->backward ? rep_->info().use_to : rep_->info().use_from;
  if (!bound.empty()) return rep_->SeekTo(MakeSeekKey(bound));
  rep_->seeking = false;
  rep_->EnterBlocks(rep_->backward ? rep_->index().blocks() - 1 : 0);
}

void TableIterator::Seek(std::string_view internal_key) {
  NOVA_DCHECK(internal_key.size() >= kInternalTrailerBytes);
  rep_->SeekTo(internal_key);
}

void TableIterator::PrepareSeek(std::string_view internal_key) { rep_->PrepareSeek(internal_key); }

void TableIterator::Next() {
  NOVA_DCHECK(Valid());
  rep_->Settle(rep_->backward ? rep_->back.Previous() : rep_->cursor.Next());
}

void TableIterator::AppendNeeded(std::vector<BlockRequest>* out) {
  NOVA_DCHECK(state() == State::kNeedBlocks);
  out->push_back({this, rep_->table.get(), rep_->handle});
  if (!rep_->backward) return rep_->AppendBehind(&out->back().behind);
  std::vector<BlockHandle> before;
  rep_->AppendBefore(&before);
  if (before.empty()) return;
  out->push_back({nullptr, rep_->table.get(), before.front(), {before.begin() + 1, before.end()}});
}

void TableIterator::Supply(const BlockHandle& handle, BlockRef block) {
  NOVA_DCHECK(state() == State::kNeedBlocks && handle == rep_->handle);
  if (handle == rep_->handle) rep_->supplied = std::move(block);
}

void TableIterator::Resume() {
  NOVA_DCHECK(state() == State::kNeedBlocks);
  if (!rep_->supplied) return rep_->EnterBlocks(rep_->position);
  rep_->EnterBlock(std::move(rep_->supplied));
}

TableIterator::State TableIterator::state() const { return rep_->state; }
std::string_view TableIterator::key() const { return rep_->backward ? rep_->back.key() : rep_->cursor.key(); }
std::string_view TableIterator::value() const {
  return rep_->backward ? rep_->back.value() : rep_->cursor.value();
}
Status TableIterator::status() const { return rep_->status; }
bool TableIterator::is_on_disk() const {
  return rep_->table->rep_->mapped && rep_->table->rep_->residency.IsWorthAsking();
}
bool TableIterator::value_is_mapped() const { return rep_->block.keep == nullptr; }

}  // namespace nova
