#include "common/sstable/table_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/sstable/block.h"
#include "common/sstable/block_crc.h"
#include "common/sstable/compression.h"
#include "common/sstable/filter.h"
#include "common/sstable/table_check.h"
#include "common/sstable/table_index.h"

namespace nova {
namespace {

Status TableError(const Uuid& uuid, absl::string_view what) {
  return absl::DataLossError(StrCat("table ", uuid.ToString(), ": ", what));
}

}  // namespace

// Whether the blocks of a mapped table are in memory when they are used: most tables' are; where data are far
// more than memory, most are not, whenever the table was written, and a block is better asked for as a whole,
// by a call that is dear where it is not needed. So one use of some is timed.
class Residency {
 public:
  // `cold`: nothing of the table is in memory. Else it is as other tables were found to be lately.
  void Assume(bool cold) {
    if (cold) lately_.store(kAll, std::memory_order_relaxed);
    missing_.store(lately_.load(std::memory_order_relaxed));
  }
  void AssumeWarm() { missing_.store(0); }
  static bool AnyIsWorthAsking() { return lately_.load(std::memory_order_relaxed) >= kWorthIt; }
  bool IsWorthAsking() const { return missing_.load(std::memory_order_relaxed) >= kWorthIt; }
  // Samples a block that is about to be asked for: at its use it may have come, and would pass for one that
  // was in memory.
  void OnAsk(std::string_view block) {
    thread_local uint32_t asks = 0;  // as in OnUse
    if (++asks % kSampled == 0) Note(ResidentPrefix(block) < block.size());
  }
  void OnUse(std::string_view block) {
    thread_local uint32_t uses = 0;  // of blocks of any table: threads that count together would wait for it
    const bool ask = IsWorthAsking();
    const bool sampled = ++uses % kSampled == 0;
    const Nanos begin = sampled ? Now() : 0;
    if (ask) PrefetchMapped(block);
    if (!sampled) return;
    static_cast<void>(*static_cast<const volatile char*>(block.data()));
    Note(Now() - begin >= kMiss);
  }

 private:
  static constexpr uint32_t kSampled = 32;
  static constexpr uint32_t kAll = 256, kWorthIt = kAll / 16;  // a miss costs a hundred times the call
  static constexpr Nanos kMiss = 10 * kMicrosecond;
  void Note(bool missed) {
    Add(missed ? kAll : 0, &missing_);
    Add(missed ? kAll : 0, &lately_);
  }
  static void Add(uint32_t missed, std::atomic<uint32_t>* mean) {
    const uint32_t before = mean->load(std::memory_order_relaxed);
    const uint32_t after = before + missed / 8 - before / 8;
    if (after != before) mean->store(after, std::memory_order_relaxed);
  }

  static std::atomic<uint32_t> lately_;  // of kAll, as far as is known; of all tables
  std::atomic<uint32_t> missing_{kAll};  // the same of this one
};
std::atomic<uint32_t> Residency::lately_{0};

struct TableReader::Rep {
  bool InBounds(std::string_view stored_key) const {
    return (info.use_from.empty() || stored_key >= info.use_from) &&
           (info.use_to.empty() || stored_key < info.use_to);
  }

  // The blocks that may hold a key within the use-bounds: [first, end).
  std::pair<size_t, size_t> UsedBlocks() const;
  // Why the bytes of a block as stored cannot be used; null: they can. *payload excludes the trailer, and
  // lies in `raw`, or, of a compressed block, in *buffer.
  const char* Damage(const BlockHandle& handle, std::string_view raw, std::string_view* payload,
                     std::string* buffer) const;
  // Asks the processor's cache for what is read first of a block. REQUIRES: the table is mapped.
  void PrefetchEnds(size_t i) const;
  // Asks for what is read first of a block, and of the blocks in as many bytes behind it: the processor's
  // cache, or the disk, where it may have to read them. REQUIRES: the table is mapped.
  void Prefetch(size_t i, uint64_t bytes_behind) const;
  // The block where the table is mapped; empty: it is not, or the block is damaged. Where it has to be read,
  // so many bytes behind it are read with it.
  std::string_view MappedBlock(size_t i, TableIterator::Check check, uint64_t bytes_behind = 0) const;

  TableInfo info;
  std::atomic<const TableInfo*> places{&info};
  Filter filter;
  TableIndex index;
  SharedBytes mapped;
  mutable Residency residency;                       // of a mapped table
  std::unique_ptr<std::atomic<uint64_t>[]> checked;  // of a mapped table: one bit a block
  Mutex places_mu;
  // What `places` has pointed to since the reader was opened: reads under way may still look there.
  std::vector<std::unique_ptr<const TableInfo>> moved ABSL_GUARDED_BY(places_mu);
};

TableReader::TableReader() : rep_(std::make_unique<Rep>()) {}
TableReader::~TableReader() = default;

StatusOr<std::shared_ptr<const TableReader>> TableReader::Open(const TableInfo& info,
                                                               std::string_view metadata, SharedBytes mapped,
                                                               bool cold) {
  NOVA_ASSIGN_OR_RETURN(MetadataSections sections, CheckRawMetadata(info, metadata));
  if (info.smallest.size() < kInternalTrailerBytes || info.largest.size() < kInternalTrailerBytes) {
    return TableError(info.uuid, "no key range");
  }
  std::shared_ptr<TableReader> reader(new TableReader());
  Rep& r = *reader->rep_;
  r.info = info;
  if (!r.filter.Parse(sections.filter)) return TableError(info.uuid, "malformed filter");
  if (!r.index.Parse(sections.index, info.data_size)) return TableError(info.uuid, "malformed index");
  NOVA_ASSIGN_OR_RETURN(const TableInfo as_built, TableInfo::Parse(&sections.properties));
  if (as_built.uuid != info.uuid || !sections.properties.empty())
    return TableError(info.uuid, "malformed properties");
  if (mapped.data.size() == info.data_size && info.compression == 0) {
    r.mapped = std::move(mapped);
    r.residency.Assume(cold);
    r.checked.reset(new std::atomic<uint64_t>[r.index.blocks() / 64 + 1]());
  }
  return std::shared_ptr<const TableReader>(std::move(reader));
}

const TableInfo& TableReader::info() const { return rep_->info; }

const TableInfo& TableReader::places() const { return *rep_->places.load(std::memory_order_acquire); }

void TableReader::SetPlaces(const TableInfo& info) const {
  MutexLock lock(&rep_->places_mu);
  rep_->moved.push_back(std::make_unique<const TableInfo>(info));
  rep_->places.store(rep_->moved.back().get(), std::memory_order_release);
}

size_t TableReader::memory_bytes() const {
  return sizeof(Rep) + rep_->filter.memory_bytes() + rep_->index.memory_bytes();
}

void TableReader::PrefetchFilter(uint64_t hash) const { rep_->filter.Prefetch(hash); }

bool TableReader::MayContain(std::string_view stored_key, uint64_t hash) const {
  const Rep& r = *rep_;
  if (!r.InBounds(stored_key)) return false;
  if (!r.filter.empty()) return r.filter.MayContain(hash);
  return stored_key >= StoredKeyOf(r.info.smallest) && stored_key <= StoredKeyOf(r.info.largest);
}

bool TableReader::FindBlock(std::string_view stored_key, SequenceNumber seq, BlockHandle* handle) const {
  const Rep& r = *rep_;
  if (!r.InBounds(stored_key)) return false;
  const size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
  if (i == r.index.blocks()) return false;
  *handle = r.index.Handle(i);
  return true;
}

bool TableReader::FindNextBlock(const BlockHandle& handle, BlockHandle* next) const {
  const TableIndex& index = rep_->index;
  const size_t i = index.FindOffset(handle.offset + handle.size);
  if (i == index.blocks()) return false;
  *next = index.Handle(i);
  return true;
}

std::vector<std::string> TableReader::SplitKeys(size_t n) const {
  const auto [first, end] = rep_->UsedBlocks();
  std::vector<std::string> keys;
  for (size_t i = 1; first < end && i < n + 1; ++i) {
    std::string key(rep_->index.SeparatorStoredKey(std::min(end - 1, first + (end - first) * i / (n + 1))));
    if ((keys.empty() || key > keys.back()) && rep_->InBounds(key)) keys.push_back(std::move(key));
  }
  return keys;
}

void TableReader::ForEachBlock(const std::function<void(const BlockHandle&)>& fn) const {
  for (size_t i = 0; i < rep_->index.blocks(); ++i) fn(rep_->index.Handle(i));
}

void TableReader::ForEachUsedBlock(const std::function<void(const BlockHandle&)>& fn) const {
  const auto [first, end] = rep_->UsedBlocks();
  for (size_t i = first; i < end; ++i) fn(rep_->index.Handle(i));
}

std::pair<size_t, size_t> TableReader::Rep::UsedBlocks() const {
  constexpr uint64_t kNewest = UINT64_MAX;
  const size_t first = info.use_from.empty() ? 0 : index.Find(info.use_from, kNewest);
  if (info.use_to.empty()) return {first, index.blocks()};
  // that one may begin below the bound
  return {first, std::min(index.blocks(), index.Find(info.use_to, kNewest) + 1)};
}

const char* TableReader::Rep::Damage(const BlockHandle& handle, std::string_view raw,
                                     std::string_view* payload, std::string* buffer) const {
  if (const char* damage = RawBlockDamage(info.uuid, handle, raw)) return damage;
  const size_t payload_size = raw.size() - kBlockTrailerBytes;
  *payload = raw.substr(0, payload_size);
  const auto compression = static_cast<Compression>(raw[payload_size]);
  if (compression != Compression::kNone) {
    if (compression > Compression::kZstd) return "unknown compression";
    if (!DecompressBlock(compression, *payload, buffer)) return "does not decompress";
    *payload = *buffer;
  }
  BlockView view;
  return view.Init(*payload) ? nullptr : "malformed";
}

StatusOr<BlockRef> TableReader::CheckBlock(const BlockHandle& handle, std::string raw) const {
  std::string_view payload;
  std::string buffer;
  if (const char* damage = rep_->Damage(handle, raw, &payload, &buffer)) {
    return TableError(rep_->info.uuid, StrCat("block at ", handle.offset, " of ", handle.size, " bytes, got ",
                                              raw.size(), ": ", damage));
  }
  if (payload.data() == buffer.data()) return SharedBytes::Of(std::move(buffer));
  raw.resize(payload.size());
  return SharedBytes::Of(std::move(raw));
}

// A block is parsed from its end, where the restart points are, and then from its beginning, mostly.
void TableReader::Rep::PrefetchEnds(size_t i) const {
  const BlockHandle at = index.Handle(i);
  const char* const begin = mapped.data.data() + at.offset;
  __builtin_prefetch(begin);
  __builtin_prefetch(begin + at.size - kBlockTrailerBytes - sizeof(uint32_t));
}

void TableReader::Rep::Prefetch(size_t i, uint64_t bytes_behind) const {
  const BlockHandle at = index.Handle(i);
  if (!residency.IsWorthAsking()) {
    constexpr size_t kMostBehind = 4;  // blocks: what is read later is asked for when its time comes
    PrefetchEnds(i);
    for (size_t n = 1; n <= kMostBehind && i + n < index.blocks(); ++n) {
      if (index.Handle(i + n).offset - at.offset >= at.size + bytes_behind) break;
      PrefetchEnds(i + n);
    }
    return;
  }
  residency.OnAsk(mapped.data.substr(at.offset, at.size));
  PrefetchMapped(mapped.data.substr(at.offset, at.size + bytes_behind));
}

std::string_view TableReader::Rep::MappedBlock(size_t i, TableIterator::Check check,
                                               uint64_t bytes_behind) const {
  if (!mapped) return {};
  const BlockHandle handle = index.Handle(i);
  const std::string_view raw = mapped.data.substr(handle.offset, handle.size);
  const std::string_view to_read = mapped.data.substr(handle.offset, handle.size + bytes_behind);
  std::atomic<uint64_t>& word = checked[i / 64];
  const uint64_t bit = uint64_t{1} << (i % 64);
  residency.OnUse(to_read);
  if (check == TableIterator::Check::kOnce && (word.load(std::memory_order_relaxed) & bit) != 0)
    return raw.substr(0, raw.size() - kBlockTrailerBytes);
  std::string_view payload;
  std::string buffer;
  if (Damage(handle, raw, &payload, &buffer) != nullptr || !buffer.empty()) return {};
  word.fetch_or(bit, std::memory_order_relaxed);
  return payload;
}

bool TableReader::entries_are_large() const {
  const uint64_t blocks = rep_->index.blocks(), entries = rep_->info.entries;
  return entries <= 4 * blocks && 2 * entries >= 3 * blocks;
}

bool TableReader::mapped() const { return static_cast<bool>(rep_->mapped); }

std::string_view TableReader::mapped_data() const { return rep_->mapped.data; }

void TableReader::MarkWarm() const { rep_->residency.AssumeWarm(); }

TableReader::Found TableReader::Search(std::string_view stored_key, uint64_t hash, SequenceNumber seq,
                                       Hit* hit) const {
  const Rep& r = *rep_;
  if (!MayContain(stored_key, hash)) return Found::kAbsent;
  for (size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
       i < r.index.blocks(); ++i) {
    r.PrefetchEnds(i);
    const std::string_view block = r.MappedBlock(i, TableIterator::Check::kOnce);
    if (block.empty()) return Found::kCorrupt;
    const Found found = SearchBlock(block, stored_key, seq, hit);
    if (found != Found::kNextBlock) return found;
  }
  return Found::kAbsent;
}

bool TableReader::PrefetchBlock(std::string_view stored_key, uint64_t hash, SequenceNumber seq) const {
  const Rep& r = *rep_;
  if (!MayContain(stored_key, hash)) return false;
  const size_t i = r.index.Find(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)));
  if (i >= r.index.blocks()) return false;
  r.Prefetch(i, 0);
  return true;
}

bool TableReader::AnyOnDisk() { return Residency::AnyIsWorthAsking(); }

TableReader::Found TableReader::SearchBlock(std::string_view block, std::string_view stored_key,
                                            SequenceNumber seq, Hit* hit) const {
  BlockView view;
  if (!view.Init(block)) return Found::kCorrupt;
  BlockEntry entry;
  bool ends_in_key;
  switch (view.Seek(stored_key, PackTrailer(seq, static_cast<ValueType>(0xff)), &entry, &ends_in_key)) {
    case BlockView::Result::kCorrupt:
      return Found::kCorrupt;
    case BlockView::Result::kEnd:
      return ends_in_key ? Found::kNextBlock : Found::kAbsent;
    case BlockView::Result::kFound:
      break;
  }
  if (std::string_view(entry.suffix, entry.unshared) != stored_key.substr(entry.shared))
    return Found::kAbsent;
  const uint64_t trailer = entry.trailer();
  if ((trailer & 0xff) > static_cast<uint8_t>(kMaxValueType)) return Found::kCorrupt;
  *hit = {trailer >> 8, static_cast<ValueType>(trailer & 0xff), entry.value};
  return Found::kFound;
}

// What an iterator over a mapped table asks for ahead of the block it enters: nothing for the first blocks in
// a row, as of a get or a short scan; then ever more. One that will read all of the table asks for as much as
// it may from the start, and lets go of what it brought into memory once it is past it: what is read once is
// not to take the place of what is read often.
class MappedReadAhead {
 public:
  // `of_all`: how much to ask for at once if all of the table will be read; 0: it may not be.
  MappedReadAhead(size_t of_all, bool backward)
      : reads_all_(of_all != 0), most_(reads_all_ ? of_all : kMost), backward_(backward) {}
  // `asked`: so many bytes behind the block were asked for already.
  void Enter(size_t position, const BlockHandle& handle, std::string_view data, uint64_t asked) {
    const bool follows = position == (backward_ ? position_ - 1 : position_ + 1);
    position_ = position;
    if (!follows) {
      in_a_row_ = 0;
      window_ = reads_all_ ? most_ / 2 : kFirst / 2;
      reached_ = backward_ || reads_all_ ? handle.offset : handle.offset + handle.size;
      looked_to_ = handle.offset + kLook;
    }
    if (reads_all_) {
      AskAgain(handle, data);
      LetGo(data.data() + handle.offset);
    }
    if (!reads_all_ && in_a_row_++ < kInARow) return;
    if (asked > 0) return;
    const uint64_t left = backward_ ? handle.offset - std::min(handle.offset, reached_)
                                    : reached_ - std::min(reached_, handle.offset + handle.size);
    if (left > window_ / 2) return;
    window_ = std::min(2 * window_, most_);
    if (backward_) {
      const uint64_t end = std::min(reached_, handle.offset);
      reached_ = end - std::min(end, window_);
      Ask(data.substr(reached_, end - reached_));
    } else {
      const uint64_t begin = std::max(reached_, handle.offset);
      reached_ = std::min<uint64_t>(data.size(), begin + window_);
      if (begin < reached_) Ask(data.substr(begin, reached_ - begin));
    }
  }
  // No block will be entered again. REQUIRES: the table is still mapped.
  void Leave() { LetGo(nullptr); }

 private:
  void Ask(std::string_view window) {
    if (reads_all_ && ResidentPrefix(window) < window.size() / 2) brought_in_.push_back(window);
    PrefetchMapped(window);
  }
  // Of the windows that end before a place, or of all (null): of those that were not in memory before.
  void LetGo(const char* before) {
    size_t n = 0;
    for (; n < brought_in_.size(); ++n) {
      const std::string_view window = brought_in_[n];
      if (before != nullptr && window.data() + window.size() > before) break;
      ReleaseMapped(window);
    }
    brought_in_.erase(brought_in_.begin(), brought_in_.begin() + static_cast<ptrdiff_t>(n));
  }
  // Asks again for what was asked for and is not there. Where memory is short, pages that are asked for are
  // not all read, nor kept until they are used; and each one that is missing then would be read by itself.
  void AskAgain(const BlockHandle& handle, std::string_view data) {
    if (handle.offset + handle.size <= looked_to_) return;
    const std::string_view look = data.substr(handle.offset, std::max<uint64_t>(kLook, handle.size));
    looked_to_ = handle.offset + look.size();
    if (const size_t there = ResidentPrefix(look); there < look.size())
      PrefetchMapped(data.substr(handle.offset + there, most_));
  }

  static constexpr uint64_t kLook = 64 << 10;  // looked at at once
  static constexpr int kInARow = 3;
  static constexpr uint64_t kFirst = 32 << 10, kMost = 1 << 20;
  bool reads_all_;
  uint64_t most_;  // of the windows
  bool backward_;
  size_t position_ = SIZE_MAX - 1;
  int in_a_row_ = 0;
  uint64_t window_ = 0;
  uint64_t reached_ = 0;    // what lies between the block and this offset was asked for
  uint64_t looked_to_ = 0;  // up to there it was looked whether what was asked for is there
  // Windows that were not in memory when they were asked for, and are not passed, in order.
  std::vector<std::string_view> brought_in_;
};

// What an iterator over a table that is not mapped asks for with a block that it needs: nothing for the first
// blocks in a row but what is expected, then ever more.
class BlocksAhead {
 public:
  explicit BlocksAhead(bool backward) : backward_(backward) {}
  // True: the block follows the one that was entered before.
  bool Enter(size_t position) {
    if (position == position_) return false;
    const bool follows = position == (backward_ ? position_ - 1 : position_ + 1);
    in_a_row_ = follows ? in_a_row_ + 1 : 0;
    if (!follows) window_ = 0;
    position_ = position;
    return follows;
  }
  // Bytes, when the block is needed, and so many behind it are expected to be read.
  uint64_t Ask(uint64_t expected) {
    if (expected > 0 || in_a_row_ < kInARow) return std::min(expected, kMost);
    return window_ = std::clamp(2 * window_, kFirst, kMost);
  }

 private:
  static constexpr int kInARow = 3;
  static constexpr uint64_t kFirst = 16 << 10, kMost = 64 << 10;
  bool backward_;
  size_t position_ = SIZE_MAX - 1;
  int in_a_row_ = 0;
  uint64_t window_ = 0;
};

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
