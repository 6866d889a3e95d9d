// TableAccess: the tables of a range, opened, read and stored through the table store and the block cache.
//
// Thread safety: all. FetchBlock and LoadReader call `done` on `on`; what says so waits.
// Ownership:     readers count as memory of the cache for as long as they live.
// Errors:        the store's.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "ltc/engine/disk_turns.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_view.h"

namespace nova {

class TableAccess {
 public:
  // `turns` is told how long reads of blocks take.
  TableAccess(const RangeContext* context, DiskTurns* turns) : context_(context), turns_(turns) {}

  // From the store into the cache. `done` keeps `table`.
  void FetchBlock(Executor* on, const TableReader& table, const BlockHandle& handle, Nanos deadline_ns,
                  absl::AnyInvocable<void(StatusOr<BlockRef>)> done);
  // Has the reader of a table loaded on a thread that may wait.
  void LoadReader(Executor* on, TableRef table, absl::AnyInvocable<void(Status)> done);
  StatusOr<std::shared_ptr<const TableReader>> LoadReaderBlocking(TableHandle* table);  // waits
  // Places a finished table, writes it, and opens it. After an error nothing of it stays. Waits.
  StatusOr<TableInfo> StoreTable(TableBuilder::Output output, const Creator& creator,
                                 std::shared_ptr<const TableReader>* reader);
  TableOptions OptionsAt(int level) const;

  // Of the tables of `view`, until `stop` says so. Waits.
  // The index and the filter of each.
  void LoadReaders(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop);
  // Mapped tables as a whole, one after another, at the disk's rate.
  void Warm(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop);

 private:
  StatusOr<std::shared_ptr<const TableReader>> OpenReader(const TableInfo& info, std::string_view metadata,
                                                          bool cold);
  void ForEachTable(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop,
                    const std::function<void(const TableReader&)>& fn);

  const RangeContext* const context_;
  DiskTurns* const turns_;
};

}  // namespace nova
