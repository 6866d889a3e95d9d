// Gets of a Range, one key or several, now or at a moment.
#include <algorithm>

#include "common/base/coding.h"
#include "common/base/disk.h"
#include "common/base/log.h"
#include "ltc/engine/range_view.h"

namespace nova {

// --- get

// How far the search of the tables has come.
struct Range::TablePosition {
  size_t run = 0;
  TableHandle* table = nullptr;  // of that run
  bool in_table = false;         // `handle` is of the block to be looked into
  BlockHandle handle;
  BlockRef block;  // that block, once it is here
};

// A get that waits.
struct Range::GetState {
  std::shared_ptr<Range> range;
  std::shared_ptr<const View> view;
  Executor* on = nullptr;
  SequenceNumber at = 0;
  std::string key;
  Nanos deadline_ns = kNever;
  GetDone done;
  TablePosition position;
};

// K3 against a full search of the sealed rounds and of Level0's bounds: what debug and simulation builds
// check of every hit.
bool Range::IsNewest(const View& view, std::string_view key, SequenceNumber at,
                     SequenceNumber sequence) const {
  MemTable::Hit other;
  for (const auto& round : view.sealed) {
    if (round->SiblingOf(key)->Get(key, at, &other) && other.sequence > sequence) return false;
  }
  if (at != kMaxSequenceNumber) return true;  // the bounds of tables say nothing of older numbers
  for (const Run& run : view.version->runs()) {
    const TableHandle* table = run.Find(key);
    if (table != nullptr && table->info().min_sequence > sequence) return false;
  }
  return true;
}

void Range::Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done) {
  if (!serves_reads()) return done(Outcome::kNotOwner, {});
  reads_.fetch_add(1, std::memory_order_relaxed);
  LaneView(on);
  Search(on, lanes_[on->index()].view, kMaxSequenceNumber, key, deadline_ns, std::move(done));
}

void Range::GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns,
                  GetDone done) {
  if (!serves_reads()) return done(Outcome::kNotOwner, {});
  reads_.fetch_add(1, std::memory_order_relaxed);
  LaneView(on);
  // Asked after the view is in hand: whatever changed the view spared a snapshot that is live now.
  if (!snapshots_.IsLive(snapshot, Now())) return done(Outcome::kSnapshotEnded, {});
  Search(on, lanes_[on->index()].view, snapshot.sequence(), key, deadline_ns, std::move(done));
}

// False: a deletion, or expired (K7: an expired newest version hides older ones). Takes the expiry off the
// value.
bool Range::Shows(ValueType type, std::string_view* value) const {
  if (type == ValueType::kPut) return true;
  if (type != ValueType::kPutTtl || value->size() < kExpiryBytes) return false;
  if (static_cast<int64_t>(DecodeFixed64(value->data())) <= NowMs()) return false;
  value->remove_prefix(kExpiryBytes);
  return true;
}

// The newest version at or below `at`. K3 makes the first hit the newest: what an older round or run holds
// has lower numbers.
void Range::Search(Executor* on, const std::shared_ptr<const View>& in, SequenceNumber at,
                   std::string_view key, Nanos deadline_ns, GetDone done) {
  const View& view = *in;
  const uint64_t hash = FilterHash(key);
  MemTable::Hit hit;
  if (view.active->SiblingOf(key)->Get(key, hash, at, &hit)) {
    NOVA_DCHECK(IsNewest(view, key, at, hit.sequence)) << "an older round holds a newer version (K3)";
    return Answer(view, key, at, hit, &done);
  }
  for (const auto& round : view.sealed) {
    if (!round->SiblingOf(key)->Get(key, hash, at, &hit)) continue;
    NOVA_DCHECK(IsNewest(view, key, at, hit.sequence)) << "an older round holds a newer version (K3)";
    return Answer(view, key, at, hit, &done);
  }
  TablePosition position;
  TableReader::Hit found;
  const TableAnswer tables = SearchTables(view, at, key, &position, &found);
  if (tables == TableAnswer::kFound)
    return Answer(view, key, at, {found.sequence, found.type, found.value}, &done);
  if (tables == TableAnswer::kAbsent) return done(Outcome::kNotFound, {});
  if (tables == TableAnswer::kCorrupt) return done(Outcome::kCorruption, {});
  auto get = std::make_unique<GetState>();
  get->range = shared_from_this();
  get->view = in;
  get->on = on;
  get->at = at;
  get->key = std::string(key);
  get->deadline_ns = deadline_ns;
  get->done = std::move(done);
  get->position = std::move(position);
  Fetch(tables, std::move(get));
}

// Goes on from *p until the answer is known or something is not in memory. A value found lies in p->block, or
// is mapped. Allocates nothing.
Range::TableAnswer Range::SearchTables(const View& view, SequenceNumber at, std::string_view key,
                                       TablePosition* p, TableReader::Hit* hit) const {
  const std::vector<Run>& runs = view.version->runs();
  for (; p->run < runs.size(); ++p->run) {
    if (!p->in_table) {
      p->table = runs[p->run].Find(key);
      if (p->table == nullptr) continue;
      if (const TableReader* mapped = p->table->mapped_reader()) {
        const auto found = mapped->Search(key, at, hit);
        if (found == TableReader::Found::kFound) return TableAnswer::kFound;
        // else it is damaged: it is read again, by a way that can say more
        if (found == TableReader::Found::kAbsent) continue;
      }
    }
    const auto reader = p->table->reader();
    if (reader == nullptr) return TableAnswer::kNeedsReader;
    if (!p->in_table && (!reader->MayContain(key) || !reader->FindBlock(key, at, &p->handle))) continue;
    for (p->in_table = true; p->in_table;) {
      if (!p->block) p->block = services_->cache->Lookup(p->table->info().uuid, p->handle.offset);
      if (!p->block) return TableAnswer::kNeedsBlock;
      const auto found = reader->SearchBlock(p->block.data, key, at, hit);
      if (found == TableReader::Found::kFound) return TableAnswer::kFound;
      if (found == TableReader::Found::kCorrupt) return TableAnswer::kCorrupt;
      p->in_table = found == TableReader::Found::kNextBlock && reader->FindNextBlock(p->handle, &p->handle);
      p->block = {};
    }
  }
  return TableAnswer::kAbsent;
}

void Range::ContinueGet(std::unique_ptr<GetState> get) {
  TableReader::Hit hit;
  const TableAnswer tables = SearchTables(*get->view, get->at, get->key, &get->position, &hit);
  switch (tables) {
    case TableAnswer::kFound:
      return Answer(*get->view, get->key, get->at, {hit.sequence, hit.type, hit.value}, &get->done);
    case TableAnswer::kAbsent:
      return get->done(Outcome::kNotFound, {});
    case TableAnswer::kCorrupt:
      return get->done(Outcome::kCorruption, {});
    case TableAnswer::kNeedsReader:
    case TableAnswer::kNeedsBlock:
      return Fetch(tables, std::move(get));
  }
}

// What SearchTables found missing; then goes on.
void Range::Fetch(TableAnswer missing, std::unique_ptr<GetState> get) {
  GetState* const state = get.get();
  TablePosition* const position = &state->position;
  if (missing == TableAnswer::kNeedsReader) {
    const Run& run = state->view->version->runs()[position->run];
    LoadReader(state->on, run.tables[run.FirstNotBefore(state->key)],
               [this, get = std::move(get)](Status s) mutable {
                 if (!s.ok()) return get->done(OutcomeOfRead(s), {});
                 ContinueGet(std::move(get));
               });
    return;
  }
  FetchBlock(state->on, *position->table->reader(), position->handle, state->deadline_ns,
             [this, get = std::move(get)](StatusOr<BlockRef> block) mutable {
               if (!block.ok()) return get->done(OutcomeOfRead(block.status()), {});
               get->position.block = *std::move(block);
               ContinueGet(std::move(get));
             });
}

// Once the range is let go or lost, its next owner may have deleted what this read was looking for.
Outcome Range::OutcomeOfRead(const Status& failure) const {
  return serves_reads() ? ToOutcome(failure) : Outcome::kNotOwner;
}

// From the store into the cache. `done` keeps `table`.
void Range::FetchBlock(Executor* on, const TableReader& table, const BlockHandle& handle, Nanos deadline_ns,
                       absl::AnyInvocable<void(StatusOr<BlockRef>)> done) {
  services_->store->ReadBlock(
      on, table.info(), handle, deadline_ns,
      [this, &table, handle, begin = Now(), done = std::move(done)](StatusOr<std::string> raw) mutable {
        const Nanos now = Now();
        disk_turns_.OnRead(now - begin, now);
        if (!raw.ok()) return done(raw.status());
        auto block = table.CheckBlock(handle, *std::move(raw));
        if (block.ok()) services_->cache->Insert(table.info().uuid, handle.offset, *block);
        done(std::move(block));
      });
}

// A range deletion may hide the hit (K7).
void Range::Answer(const View& view, std::string_view key, SequenceNumber at, MemTable::Hit hit,
                   GetDone* done) const {
  const bool hidden = view.tombstones != nullptr && view.tombstones->Covering(key, at) > hit.sequence;
  !hidden&& Shows(hit.type, &hit.value) ? (*done)(Outcome::kOk, hit.value) : (*done)(Outcome::kNotFound, {});
}

StatusOr<std::shared_ptr<const TableReader>> Range::LoadReaderBlocking(TableHandle* table) {
  if (auto reader = table->reader()) return reader;
  NOVA_ASSIGN_OR_RETURN(const std::string metadata, services_->store->ReadMetadata(table->info()));
  NOVA_ASSIGN_OR_RETURN(auto reader, OpenReader(table->info(), metadata, /*cold=*/true));
  table->SetReader(reader);
  return reader;
}

// Its index and filter count as memory of the cache for as long as it lives.
StatusOr<std::shared_ptr<const TableReader>> Range::OpenReader(const TableInfo& info,
                                                               std::string_view metadata, bool cold) {
  NOVA_ASSIGN_OR_RETURN(auto reader,
                        TableReader::Open(info, metadata, services_->store->MapData(info), cold));
  BlockCache* const cache = services_->cache;
  const TableReader* const opened = reader.get();
  cache->Pin(opened->memory_bytes());
  return std::shared_ptr<const TableReader>(
      opened, [cache, reader = std::move(reader)](const TableReader* r) { cache->Unpin(r->memory_bytes()); });
}

// Of a range that is lost nobody waits for it: a node that ends, and whose StoCs are away, need not try one
// after another.
void Range::LoadReader(Executor* on, TableRef table, absl::AnyInvocable<void(Status)> done) {
  auto shared_done = std::make_shared<absl::AnyInvocable<void(Status)>>(std::move(done));
  services_->run_blocking([self = shared_from_this(), on, table = std::move(table), shared_done] {
    const bool lost = self->state_.load() == State::kLost;
    const Status s = lost ? absl::FailedPreconditionError("the range was lost")
                          : self->LoadReaderBlocking(table.get()).status();
    on->Submit([shared_done, s] { (*shared_done)(s); });
  });
}

// Those that are dropped meanwhile are of no interest. A table that cannot be read is passed over: who asks
// for it will be told why.
void Range::ForEachTableNow(const std::function<bool()>& stop,
                            const std::function<void(const TableReader&)>& fn) {
  std::vector<std::weak_ptr<TableHandle>> tables;
  const auto view = CurrentView();
  for (const Run& run : view->version->runs())
    tables.insert(tables.end(), run.tables.begin(), run.tables.end());
  for (const auto& weak : tables) {
    if (stop()) return;
    const TableRef table = weak.lock();
    if (table == nullptr) continue;
    if (const auto reader = LoadReaderBlocking(table.get()); reader.ok()) fn(**reader);
  }
}

void Range::LoadReaders(const std::function<bool()>& stop) {
  ForEachTableNow(stop, [](const TableReader&) {});
}

// While the disk reads the pieces ahead, which takes little of a processor, the piece that came is mapped:
// gets that come later do not fault for each few of its pages.
void Range::WarmTables(const std::function<bool()>& stop) {
  constexpr size_t kPieceBytes = 4 << 20, kAheadBytes = 2 * kPieceBytes;
  ForEachTableNow(stop, [&](const TableReader& table) {
    const std::string_view data = table.mapped_data();
    PrefetchMapped(data.substr(0, kAheadBytes));
    for (size_t at = 0; at < data.size() && !stop(); at += kPieceBytes) {
      if (at + kAheadBytes < data.size()) PrefetchMapped(data.substr(at + kAheadBytes, kPieceBytes));
      LoadMapped(data.substr(at, kPieceBytes));
    }
    table.MarkWarm();
  });
}

// --- moments (K4)

// View and number must belong together: a round that opened between the two could hold numbers the view does
// not see.
Range::Moment Range::MomentOf(Executor* on) {
  Moment m;
  do {
    LaneView(on);
    m.view = lanes_[on->index()].view;
    m.sequence = sequences_.last();
  } while (view_generation_.load(std::memory_order_seq_cst) != m.view->generation);
  return m;
}

// Calls `fn` with what is last() now, once it is stable. A range deletion below the number may have been
// under way when the view was taken: it is in a later view's list, unless one was dropped since, perhaps this
// one. Then the moment is a later one.
void Range::WithMoment(Executor* on, absl::AnyInvocable<void(Moment)> fn) {
  Moment moment = MomentOf(on);
  const SequenceNumber seq = moment.sequence;
  WhenStable(on, seq,
             [self = shared_from_this(), on, moment = std::move(moment), fn = std::move(fn)]() mutable {
               const View& now = self->LaneView(on);
               if (now.tombstones_dropped != moment.view->tombstones_dropped)
                 return self->WithMoment(on, std::move(fn));
               if (now.tombstones != moment.view->tombstones) {
                 auto view = std::make_shared<View>(*moment.view);
                 view->tombstones = now.tombstones;
                 moment.view = std::move(view);
               }
               fn(std::move(moment));
             });
}

// Runs `fn` on `on`: now, if seq is stable.
void Range::WhenStable(Executor* on, SequenceNumber seq, absl::AnyInvocable<void()> fn) {
  if (sequences_.stable() >= seq) return fn();
  sequences_.WhenStable(seq, [on, fn = std::move(fn)]() mutable { on->Submit(std::move(fn)); });
}

void Range::TakeSnapshot(Executor* on, Nanos expires_ns, SnapshotDone done) {
  if (!serves_reads()) return done(Outcome::kNotOwner, nullptr);
  auto snapshot = snapshots_.Enter([this] { return sequences_.last(); }, expires_ns);
  const SequenceNumber seq = snapshot->sequence();
  WhenStable(on, seq,
             [self = shared_from_this(), snapshot = std::move(snapshot), done = std::move(done)]() mutable {
               if (self->state_.load(std::memory_order_acquire) == State::kLost)
                 return done(Outcome::kNotOwner, nullptr);
               done(Outcome::kOk, std::move(snapshot));
             });
}

struct Range::MultiGetState {
  std::shared_ptr<Range> range;
  Moment moment;
  Executor* on = nullptr;
  std::vector<std::string> keys;
  Nanos deadline_ns = kNever;
  MultiGetDone done;
  std::vector<std::optional<std::string>> values;
  size_t waiting = 0;
  Outcome outcome = Outcome::kOk;
};

void Range::MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                     Nanos deadline_ns, MultiGetDone done) {
  if (!serves_reads()) return done(Outcome::kNotOwner, {});
  reads_.fetch_add(keys.size(), std::memory_order_relaxed);
  auto get = std::make_shared<MultiGetState>();
  get->range = shared_from_this();
  get->on = on;
  get->keys = std::move(keys);
  get->deadline_ns = deadline_ns;
  get->done = std::move(done);
  get->values.resize(get->keys.size());
  if (snapshot != nullptr) {
    LaneView(on);
    get->moment = {lanes_[on->index()].view, snapshot->sequence()};
    if (!snapshots_.IsLive(*snapshot, Now())) return get->done(Outcome::kSnapshotEnded, {});  // as in GetAt
    return SearchAll(get);
  }
  WithMoment(on, [get](Moment moment) {
    get->moment = std::move(moment);
    get->range->SearchAll(get);
  });
}

// The view holds all of the moment, so no snapshot has to be live meanwhile.
void Range::SearchAll(const std::shared_ptr<MultiGetState>& get) {
  if (state_.load(std::memory_order_acquire) == State::kLost) return get->done(Outcome::kNotOwner, {});
  const auto arrived = [](MultiGetState* g) {
    if (--g->waiting == 0) g->done(g->outcome, std::move(g->values));
  };
  get->waiting = get->keys.size() + 1;  // ours: answers may come at once
  for (size_t i = 0; i < get->keys.size(); ++i) {
    Search(get->on, get->moment.view, get->moment.sequence, get->keys[i], get->deadline_ns,
           [get, i, arrived](Outcome o, std::string_view value) {
             if (o == Outcome::kOk) get->values[i] = std::string(value);
             if (o != Outcome::kOk && o != Outcome::kNotFound) get->outcome = o;
             arrived(get.get());
           });
  }
  arrived(get.get());
}

}  // namespace nova
