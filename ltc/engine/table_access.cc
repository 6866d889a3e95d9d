#include "ltc/engine/table_access.h"

#include <algorithm>
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

// Of a range that is lost nobody waits for it: a node that ends, and whose StoCs are away, need not try one
// after another.
void TableAccess::LoadReader(Executor* on, TableRef table, absl::AnyInvocable<void(Status)> done) {
  auto shared_done = std::make_shared<absl::AnyInvocable<void(Status)>>(std::move(done));
  context_->services->host->RunBlocking(
      [this, keep = context_->KeepAlive(), on, table = std::move(table), shared_done] {
        const bool lost = context_->state.Is(ServingState::kLost);
        const Status s = lost ? absl::FailedPreconditionError("the range was lost")
                              : LoadReaderBlocking(table.get()).status();
        on->Submit([shared_done, s] { (*shared_done)(s); });
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
