#include "ltc/engine/reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "common/sstable/block.h"

namespace nova {
namespace {

constexpr size_t kBlockOfOneBytes = 32;  // of a block with one entry, beside its key and value, at most

std::string_view Why(const Status& s) { return {s.message().data(), s.message().size()}; }

}  // namespace

// How far the search of the tables has come.
struct Reader::TablePosition {
  static constexpr size_t kMostPrepared = 16;  // runs

  // Tables that begin above it are passed by (lookup index, K5).
  SequenceNumber upto = kMaxSequenceNumber;
  std::span<const uint32_t> runs;                           // RangeIndex::RunsAt the key
  size_t prepared = 0;                                      // of runs, the first so many
  std::array<TableHandle*, kMostPrepared> prepared_tables;  // of them, what Run::Find finds
  size_t next = 0;                                          // of runs
  TableHandle* table = nullptr;                             // of that run
  int in_vain = 0;                                          // tables of Level0 that do not have the key
  uint64_t asked = 0;     // tables that were looked into, and not counted yet
  bool in_table = false;  // `handle` is of the block to be looked into
  BlockHandle handle;
  BlockRef block;        // that block, once it is here
  bool fetched = false;  // `block` came from the store just now

  const Run& RunIn(const std::vector<Run>& all) const { return all[runs[next]]; }
  // The table of a run that may have the key; null: none.
  TableHandle* TableOf(const Run& run, std::string_view key) const {
    TableHandle* const found = run.Find(key);
    const bool too_young = found != nullptr && found->info().min_sequence > upto;
    return too_young ? nullptr : found;
  }
  // Goes on to the next run, for this one does not have the key.
  void Pass(const std::vector<Run>& all) {
    in_vain += table != nullptr && RunIn(all).level == 0 ? 1 : 0;
    ++next;
  }
};

std::string Reader::DamagedBlock(const TablePosition& at) {
  return StrCat("table ", at.table->info().uuid.ToString(), ": the block at ", at.handle.offset,
                " is damaged");
}

// A get that waits.
struct Reader::GetState {
  std::shared_ptr<const void> range;  // kept
  std::shared_ptr<const RangeView> view;
  Executor* on = nullptr;
  SequenceNumber at = 0;
  std::string key;
  uint64_t hash = 0;  // of the key, as filters and memtables take it
  Nanos deadline_ns = kNever;
  GetDone done;
  TablePosition position;
};

// Of the sealed rounds and of Level0's bounds.
bool Reader::IsNewest(const RangeView& view, std::string_view key, SequenceNumber at,
                      SequenceNumber sequence) const {
  MemTable::Hit other;
  for (const auto& round : view.sealed) {
    if (round->Get(key, FilterHash(key), at, &other) && other.sequence > sequence) return false;
  }
  if (at != kMaxSequenceNumber) return true;  // the bounds of tables say nothing of older numbers
  for (const Run& run : view.version->runs()) {
    const TableHandle* table = run.Find(key);
    if (table != nullptr && table->info().min_sequence > sequence) return false;
  }
  return true;
}

void Reader::Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done) {
  if (!context_->state.serves_reads()) return done(Outcome::kNotOwner, {});
  Search(on, rounds_->ViewOf(on), kMaxSequenceNumber, key, deadline_ns, std::move(done));
}

void Reader::GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns,
                   GetDone done) {
  if (!context_->state.serves_reads()) return done(Outcome::kNotOwner, {});
  const std::shared_ptr<const RangeView>& view = rounds_->ViewOf(on);
  // Asked after the view is in hand: whatever changed the view spared a snapshot that is live now.
  if (!points_->snapshots().IsLive(snapshot, Now())) return done(Outcome::kSnapshotEnded, {});
  Search(on, view, snapshot.sequence(), key, deadline_ns, std::move(done));
}

SequenceNumber Reader::UpperBound(uint64_t hash) const {
  const LookupIndex* const index = rounds_->lookup_index();
  return index == nullptr ? kMaxSequenceNumber : index->UpperBound(hash);
}

// The index is asked after a version was found: one that is linked meanwhile was inserted before.
bool Reader::IsBounded(const RangeView& view, std::string_view key, uint64_t hash) const {
  const auto bounded = [&](const Round& round) {
    MemTable::Hit hit;
    return !round.Get(key, hash, kMaxSequenceNumber, &hit) || hit.sequence <= UpperBound(hash);
  };
  return bounded(*view.active) && std::all_of(view.sealed.begin(), view.sealed.end(),
                                              [&](const auto& round) { return bounded(*round); });
}

bool Reader::SearchRounds(const RangeView& view, SequenceNumber at, SequenceNumber upto, std::string_view key,
                          uint64_t hash, MemTable::Hit* hit, uint64_t* asked) {
  const auto finds = [&](const Round& round) {
    if (round.number > upto) return false;
    ++*asked;
    return round.Get(key, hash, at, hit);
  };
  for (const auto& round : view.sealed) {
    if (round->number <= upto) round->PrefetchGet(key, hash);
  }
  return finds(*view.active) || std::any_of(view.sealed.begin(), view.sealed.end(),
                                            [&](const auto& round) { return finds(*round); });
}

// Recency order (K3) makes the first hit the newest: what an older round or run holds has lower numbers.
void Reader::Search(Executor* on, const std::shared_ptr<const RangeView>& in, SequenceNumber at,
                    std::string_view key, Nanos deadline_ns, GetDone done) {
  const RangeView& view = *in;
  const uint64_t hash = FilterHash(key);
  const SequenceNumber upto = UpperBound(hash);
  MemTable::Hit hit;
  uint64_t memtables = 0;
  const bool in_memory = SearchRounds(view, at, upto, key, hash, &hit, &memtables);
  NOVA_DCHECK(IsBounded(view, key, hash)) << "a version lies above the bound of its key (K5)";
  auto& counts = counts_.Of(on);
  counts.Add(kReads, 1);
  counts.Add(kMemtables, memtables);
  if (in_memory) {
    NOVA_DCHECK(IsNewest(view, key, at, hit.sequence)) << "an older round holds a newer version (K3)";
    return Answer(view, key, at, hit, &done);
  }
  TablePosition position;
  position.upto = upto;
  Prepare(view, key, hash, &position);
  TableReader::Hit found;
  const TableAnswer tables = SearchTables(view, at, key, hash, &position, &found);
  counts.Add(kTables, std::exchange(position.asked, 0));
  toll_->OnGet(on, position.in_vain);
  if (tables == TableAnswer::kFound)
    return Answer(view, key, at, {found.sequence, found.type, found.value}, &done);
  if (tables == TableAnswer::kAbsent) return done(Outcome::kNotFound, {});
  if (tables == TableAnswer::kCorrupt) return done(Outcome::kCorruption, DamagedBlock(position));
  auto get = std::make_unique<GetState>();
  get->range = context_->KeepAlive();
  get->view = in;
  get->on = on;
  get->at = at;
  get->key = std::string(key);
  get->hash = hash;
  get->deadline_ns = WaitsUntil(deadline_ns, Now());
  get->done = std::move(done);
  get->position = std::move(position);
  Fetch(tables, std::move(get));
}

void Reader::Prepare(const RangeView& view, std::string_view key, uint64_t hash, TablePosition* position) {
  const std::vector<Run>& runs = view.version->runs();
  position->runs = view.version->index().RunsAt(key);
  position->prepared = std::min(position->runs.size(), TablePosition::kMostPrepared);
  for (size_t i = 0; i < position->prepared; ++i) {
    TableHandle* const table = position->prepared_tables[i] = position->TableOf(runs[position->runs[i]], key);
    const TableReader* const mapped = table == nullptr ? nullptr : table->mapped_reader();
    if (mapped != nullptr) mapped->PrefetchFilter(hash);
  }
}

// The entry is the table's newest of its key. A get at a snapshot from before it does not find it, and asks
// for the block.
bool Reader::FindCachedEntry(const TableReader& table, SequenceNumber at, std::string_view key, uint64_t hash,
                             TablePosition* p, TableReader::Hit* hit) const {
  if (!table.entries_are_large()) return false;
  p->block = context_->services->cache->LookupEntry(table.info().uuid, hash);
  if (p->block && table.SearchBlock(p->block.data, key, at, hit) == TableReader::Found::kFound) return true;
  p->block = {};
  return false;
}

// What a get at a snapshot finds may have a newer version in the table.
void Reader::KeepFetched(const TableReader& table, SequenceNumber at, std::string_view key, uint64_t hash,
                         const TablePosition& p, const TableReader::Hit* found) const {
  BlockCache* const cache = context_->services->cache;
  const bool whole = found == nullptr || at != kMaxSequenceNumber || !table.entries_are_large() ||
                     cache->WasReadLately(table.info().uuid, p.handle.offset);
  if (whole) return tables_->KeepBlock(table, p.handle, p.block);
  std::string internal_key, entry;
  AppendInternalKey(&internal_key, key, found->sequence, found->type);
  entry.reserve(internal_key.size() + found->value.size() + kBlockOfOneBytes);  // what it has it keeps
  BlockBuilder builder(&entry, /*restart_interval=*/1);
  builder.AddKey(internal_key, found->value.size());
  entry.append(found->value);
  builder.Finish();
  cache->InsertEntry(table.info().uuid, hash, SharedBytes::Of(std::move(entry)));
}

// A value found lies in p->block, or is mapped.
Reader::TableAnswer Reader::SearchTables(const RangeView& view, SequenceNumber at, std::string_view key,
                                         uint64_t hash, TablePosition* p, TableReader::Hit* hit) const {
  const std::vector<Run>& runs = view.version->runs();
  for (; p->next < p->runs.size(); p->Pass(runs)) {
    if (!p->in_table) {
      p->table = p->next < p->prepared ? p->prepared_tables[p->next] : p->TableOf(p->RunIn(runs), key);
      if (p->table == nullptr) continue;
      ++p->asked;
      if (const TableReader* mapped = p->table->mapped_reader()) {
        const auto found = mapped->Search(key, hash, at, hit);
        if (found == TableReader::Found::kFound) return TableAnswer::kFound;
        // else it is damaged: it is read again, by a way that can say more
        if (found == TableReader::Found::kAbsent) continue;
      }
    }
    const auto reader = p->table->reader();
    if (reader == nullptr) return TableAnswer::kNeedsReader;
    if (!p->in_table) {
      if (!reader->MayContain(key, hash)) continue;
      if (FindCachedEntry(*reader, at, key, hash, p, hit)) return TableAnswer::kFound;
      if (!reader->FindBlock(key, at, &p->handle)) continue;
    }
    for (p->in_table = true; p->in_table;) {
      if (!p->block) p->block = context_->services->cache->Lookup(p->table->info().uuid, p->handle.offset);
      if (!p->block) return TableAnswer::kNeedsBlock;
      const auto found = reader->SearchBlock(p->block.data, key, at, hit);
      if (std::exchange(p->fetched, false))
        KeepFetched(*reader, at, key, hash, *p, found == TableReader::Found::kFound ? hit : nullptr);
      if (found == TableReader::Found::kFound) return TableAnswer::kFound;
      if (found == TableReader::Found::kCorrupt) return TableAnswer::kCorrupt;
      p->in_table = found == TableReader::Found::kNextBlock && reader->FindNextBlock(p->handle, &p->handle);
      p->block = {};
    }
  }
  return TableAnswer::kAbsent;
}

void Reader::Continue(std::unique_ptr<GetState> get) {
  TableReader::Hit hit;
  const TableAnswer tables = SearchTables(*get->view, get->at, get->key, get->hash, &get->position, &hit);
  counts_.Of(get->on).Add(kTables, std::exchange(get->position.asked, 0));
  switch (tables) {
    case TableAnswer::kFound:
      return Answer(*get->view, get->key, get->at, {hit.sequence, hit.type, hit.value}, &get->done);
    case TableAnswer::kAbsent:
      return get->done(Outcome::kNotFound, {});
    case TableAnswer::kCorrupt:
      return get->done(Outcome::kCorruption, DamagedBlock(get->position));
    case TableAnswer::kNeedsReader:
    case TableAnswer::kNeedsBlock:
      return Fetch(tables, std::move(get));
  }
}

void Reader::Fetch(TableAnswer missing, std::unique_ptr<GetState> get) {
  GetState* const state = get.get();
  TablePosition* const position = &state->position;
  if (missing == TableAnswer::kNeedsReader) {
    const Run& run = position->RunIn(state->view->version->runs());
    tables_->LoadReader(state->on, run.tables[run.FirstNotBefore(state->key)], state->deadline_ns,
                        [this, get = std::move(get)](Status s) mutable {
                          if (!s.ok()) return get->done(context_->OutcomeOfRead(s), Why(s));
                          Continue(std::move(get));
                        });
    return;
  }
  tables_->FetchBlocks(state->on, *position->table->reader(), {position->handle}, state->deadline_ns,
                       [this, get = std::move(get)](StatusOr<std::vector<BlockRef>> block) mutable {
                         const Status& s = block.status();
                         if (!s.ok()) return get->done(context_->OutcomeOfRead(s), Why(s));
                         get->position.block = std::move(block->front());
                         get->position.fetched = true;
                         Continue(std::move(get));
                       });
}

// A range deletion (K7) may hide the hit.
void Reader::Answer(const RangeView& view, std::string_view key, SequenceNumber at, MemTable::Hit hit,
                    GetDone* done) const {
  const bool hidden = view.tombstones != nullptr && view.tombstones->Covering(key, at) > hit.sequence;
  if (hidden || !points_->IsVisible(hit.type, &hit.value)) return (*done)(Outcome::kNotFound, {});
  (*done)(Outcome::kOk, hit.value);
}

// --- several keys

struct Reader::MultiGetState {
  std::shared_ptr<const void> range;  // kept
  ReadPoint point;
  Executor* on = nullptr;
  std::vector<std::string> keys;
  Nanos deadline_ns = kNever;
  MultiGetDone done;
  std::vector<std::optional<std::string>> values;
  size_t waiting = 0;
  Outcome outcome = Outcome::kOk;
  std::string why;  // of the outcome, for people
};

void Reader::MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                      Nanos deadline_ns, MultiGetDone done) {
  if (!context_->state.serves_reads()) return done(Outcome::kNotOwner, {}, {});
  auto get = std::make_shared<MultiGetState>();
  get->range = context_->KeepAlive();
  get->on = on;
  get->keys = std::move(keys);
  get->deadline_ns = deadline_ns;
  get->done = std::move(done);
  get->values.resize(get->keys.size());
  if (snapshot != nullptr) {
    get->point = {rounds_->ViewOf(on), snapshot->sequence()};
    // as in GetAt
    if (!points_->snapshots().IsLive(*snapshot, Now())) return get->done(Outcome::kSnapshotEnded, {}, {});
    return SearchAll(get);
  }
  rounds_->WithReadPoint(on, [this, get](ReadPoint point) {
    get->point = std::move(point);
    SearchAll(get);
  });
}

// A filter that is wrong about a key costs that key's own wait later.
void Reader::AskForBlocks(const ReadPoint& at, std::span<const std::string> keys) const {
  if (keys.size() < 2 || !TableReader::AnyOnDisk()) return;
  const RangeView& view = *at.view;
  const std::vector<Run>& runs = view.version->runs();
  for (const std::string& key : keys) {
    const uint64_t hash = FilterHash(key);
    MemTable::Hit hit;
    uint64_t asked = 0;
    TablePosition p;
    p.upto = UpperBound(hash);
    if (SearchRounds(view, at.sequence, p.upto, key, hash, &hit, &asked)) continue;
    for (p.runs = view.version->index().RunsAt(key); p.next < p.runs.size(); p.Pass(runs)) {
      TableHandle* const table = p.TableOf(p.RunIn(runs), key);
      const TableReader* const mapped = table == nullptr ? nullptr : table->mapped_reader();
      if (mapped != nullptr && mapped->PrefetchBlock(key, hash, at.sequence)) break;
    }
  }
}

// The view holds all of the moment, so no snapshot has to be live meanwhile.
void Reader::SearchAll(const std::shared_ptr<MultiGetState>& get) {
  if (context_->state.Is(ServingState::kLost)) return get->done(Outcome::kNotOwner, {}, {});
  const auto arrived = [](MultiGetState* g) {
    if (--g->waiting == 0) g->done(g->outcome, std::move(g->values), g->why);
  };
  constexpr size_t kAskedAtOnce = 256;  // keys: what is asked for stays in memory until it is looked into
  const std::span<const std::string> keys(get->keys);
  get->waiting = get->keys.size() + 1;  // ours: answers may come at once
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % kAskedAtOnce == 0)
      AskForBlocks(get->point, keys.subspan(i, std::min(kAskedAtOnce, keys.size() - i)));
    Search(get->on, get->point.view, get->point.sequence, keys[i], get->deadline_ns,
           [get, i, arrived](Outcome o, std::string_view value) {
             if (o == Outcome::kOk) get->values[i] = std::string(value);
             if (o != Outcome::kOk && o != Outcome::kNotFound) {
               get->outcome = o;
               get->why = std::string(value);
             }
             arrived(get.get());
           });
  }
  arrived(get.get());
}

}  // namespace nova
