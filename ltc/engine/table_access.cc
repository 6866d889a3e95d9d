#include "ltc/engine/table_access.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/disk.h"

namespace nova {

void TableAccess::FetchBlocks(Executor* on, const TableReader& table, std::vector<BlockHandle> blocks,
                              Nanos deadline_ns,
                              absl::AnyInvocable<void(StatusOr<std::vector<BlockRef>>)> done) {
  context_->services->store->FetchBlocks(
      on, table.places(), blocks, deadline_ns,
      [this, &table, blocks, begin = Now(), done = std::move(done)](StatusOr<std::string> raw) mutable {
        const Nanos now = Now();
        turns_->OnRead(now - begin, now);
        if (!raw.ok()) return done(raw.status());
        std::vector<BlockRef> checked;
        for (const BlockHandle& b : blocks) {
          const uint64_t at = b.offset - blocks.front().offset;
          if (at == raw->size()) break;
          const bool is_all = b.size == raw->size();
          auto block = table.CheckBlock(b, is_all ? *std::move(raw) : raw->substr(at, b.size));
          if (!block.ok() && checked.empty()) return done(block.status());
          if (!block.ok()) break;
          checked.push_back(*std::move(block));
          if (is_all) break;
        }
        done(std::move(checked));
      });
}

// The waiters are looked at with the mutex of TableAccess; what else there is belongs to who goes on with it.
struct TableAccess::Load {
  struct Waiter {
    Executor* on = nullptr;
    TableRef table;  // the load's, or one that it is the successor of
    Nanos deadline_ns = kNever;
    absl::AnyInvocable<void(Status)> done;
  };
  explicit Load(TableRef t) : table(std::move(t)) {}
  const TableRef table;
  Nanos deadline_ns = kNever;  // of the try under way
  std::vector<Waiter> waiters = {};
};

void TableAccess::LoadReader(Executor* on, TableRef table, Nanos deadline_ns,
                             absl::AnyInvocable<void(Status)> done) {
  TableRef latest = table;
  while (TableRef next = latest->successor()) latest = std::move(next);  // the copies are where that says
  std::shared_ptr<Load> load;
  {
    MutexLock lock(&mu_);
    std::weak_ptr<Load>& known = loads_[latest.get()];
    load = known.lock();
    const bool under_way = load != nullptr;
    if (!under_way) known = load = std::make_shared<Load>(latest);
    load->waiters.push_back({on, std::move(table), deadline_ns, std::move(done)});
    if (under_way) return;
  }
  if (auto reader = latest->reader()) return EndLoad(load, std::move(reader));
  StartLoad(on, std::move(load), deadline_ns);
}

// Of a range that is lost nobody waits for it: a node that ends, and whose StoCs are away, need not try one
// after another. To open a reader takes as long as its index is long, so it is not done on a request thread.
void TableAccess::StartLoad(Executor* on, std::shared_ptr<Load> load, Nanos deadline_ns) {
  load->deadline_ns = deadline_ns;
  if (context_->state.Is(ServingState::kLost))
    return EndLoad(load, absl::FailedPreconditionError("the range was lost"));
  const TableInfo& info = load->table->info();
  auto done = [this, keep = context_->KeepAlive(), load](StatusOr<std::string> metadata) {
    if (!metadata.ok()) return EndLoad(load, metadata.status());
    context_->services->host->RunReader([this, keep, load, metadata = *std::move(metadata)] {
      EndLoad(load, OpenReader(load->table->info(), metadata, /*cold=*/true));
    });
  };
  context_->services->store->FetchMetadata(on, info, deadline_ns, std::move(done));
}

void TableAccess::EndLoad(const std::shared_ptr<Load>& load,
                          StatusOr<std::shared_ptr<const TableReader>> reader) {
  constexpr Nanos kPause = 10 * kMillisecond, kWorthATry = 5 * kPause;
  const Nanos now = Now();
  const bool out_of_time = absl::IsUnavailable(reader.status()) && load->deadline_ns <= now + kWorthATry;
  if (reader.ok()) load->table->SetReader(*reader);
  std::vector<Load::Waiter> ended;
  Executor* on = nullptr;  // of the first that waits on
  Nanos deadline_ns = 0;   // its own
  {
    MutexLock lock(&mu_);
    for (Load::Waiter& w : std::exchange(load->waiters, {})) {
      const bool waits_on = out_of_time && w.deadline_ns > now + kWorthATry;
      (waits_on ? load->waiters : ended).push_back(std::move(w));
    }
    if (load->waiters.empty()) {
      loads_.erase(load->table.get());
    } else {
      on = load->waiters.front().on;
      deadline_ns = load->waiters.front().deadline_ns;
    }
  }
  for (Load::Waiter& w : ended) {
    if (reader.ok()) w.table->SetReader(*reader);
    w.on->Submit([done = std::move(w.done), s = reader.status()]() mutable { done(s); });
  }
  if (on == nullptr) return;
  on->Submit([this, keep = context_->KeepAlive(), load, on, deadline_ns] {
    on->RunAt(Now() + kPause, [this, keep, load, on, deadline_ns] { StartLoad(on, load, deadline_ns); });
  });
}

StatusOr<std::shared_ptr<const TableReader>> TableAccess::LoadReaderBlocking(TableHandle* table) {
  if (auto reader = table->reader()) return reader;
  if (const TableRef successor = table->successor()) {  // the copies are where that says
    NOVA_ASSIGN_OR_RETURN(auto reader, LoadReaderBlocking(successor.get()));
    table->SetReader(reader);
    return reader;
  }
  NOVA_ASSIGN_OR_RETURN(const std::string metadata, context_->services->store->ReadMetadata(table->info()));
  NOVA_ASSIGN_OR_RETURN(auto reader, OpenReader(table->info(), metadata, /*cold=*/true));
  table->SetReader(reader);
  return reader;
}

// Its index and filter count as memory of the cache for as long as it lives.
StatusOr<std::shared_ptr<const TableReader>> TableAccess::OpenReader(const TableInfo& info,
                                                                     std::string_view metadata, bool cold) {
  NOVA_ASSIGN_OR_RETURN(auto reader,
                        TableReader::Open(info, metadata, context_->services->store->MapData(info), cold));
  BlockCache* const cache = context_->services->cache;
  const TableReader* const opened = reader.get();
  cache->Pin(opened->memory_bytes());
  return std::shared_ptr<const TableReader>(
      opened, [cache, reader = std::move(reader)](const TableReader* r) { cache->Unpin(r->memory_bytes()); });
}

StatusOr<TableInfo> TableAccess::StoreTable(TableBuilder::Output output, const Creator& creator,
                                            std::shared_ptr<const TableReader>* reader) {
  const RangeServices* const services = context_->services;
  NOVA_ASSIGN_OR_RETURN(const Placement placement, services->host->Place(output.info.data_size));
  const std::string metadata = output.metadata;
  NOVA_ASSIGN_OR_RETURN(TableInfo info, services->store->WriteTable(std::move(output), placement, creator));
  auto opened = OpenReader(info, metadata, /*cold=*/false);
  if (!opened.ok()) {
    services->garbage(info);
    return opened.status();
  }
  *reader = *std::move(opened);
  return info;
}

TableOptions TableAccess::OptionsAt(int level) const {
  TableOptions o = context_->options.table;
  const auto& list = context_->options.compression;
  o.compression =
      list.empty() ? Compression::kNone : list[std::min(static_cast<size_t>(level), list.size() - 1)];
  return o;
}

// Those that are dropped meanwhile are of no interest. A table that cannot be read is passed over: who asks
// for it will be told why.
void TableAccess::ForEachTable(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop,
                               const std::function<void(const TableReader&)>& fn) {
  std::vector<std::weak_ptr<TableHandle>> tables;
  for (const Run& run : view->version->runs())
    tables.insert(tables.end(), run.tables.begin(), run.tables.end());
  view = nullptr;
  for (const auto& weak : tables) {
    if (stop()) return;
    const TableRef table = weak.lock();
    if (table == nullptr) continue;
    if (const auto reader = LoadReaderBlocking(table.get()); reader.ok()) fn(**reader);
  }
}

void TableAccess::LoadReaders(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop) {
  ForEachTable(std::move(view), stop, [](const TableReader&) {});
}

// While the disk reads the pieces ahead, which takes little of a processor, the piece that came is mapped:
// gets that come later do not fault for each few of its pages.
void TableAccess::Warm(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop) {
  constexpr size_t kPieceBytes = 4 << 20, kAheadBytes = 2 * kPieceBytes;
  ForEachTable(std::move(view), stop, [&](const TableReader& table) {
    const std::string_view data = table.mapped_data();
    PrefetchMapped(data.substr(0, kAheadBytes));
    for (size_t at = 0; at < data.size() && !stop(); at += kPieceBytes) {
      if (at + kAheadBytes < data.size()) PrefetchMapped(data.substr(at + kAheadBytes, kPieceBytes));
      LoadMapped(data.substr(at, kPieceBytes));
    }
    table.MarkWarm();
  });
}

}  // namespace nova
