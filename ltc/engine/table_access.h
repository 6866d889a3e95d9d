// TableAccess: opens, reads and stores the tables of a range, through the table store and the block cache.
//
// Thread safety: all methods from any thread. FetchBlocks and LoadReader are called on `on`, call `done`
//   there and do not wait; the others wait for the tables' store, on threads that may.
// Ownership: readers count as memory of the cache for as long as they live.
// Errors: the table store's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "ltc/engine/disk_turns.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_view.h"

namespace nova {

class TableAccess {
 public:
  // `turns` is told how long each read of a block took.
  TableAccess(const RangeContext* context, DiskTurns* turns) : context_(context), turns_(turns) {}

  // Reads blocks that follow one another from the store, the first one and what can be had with it, and
  // checks them. `done` must keep `table` alive. What is to be cached its caller gives to KeepBlock.
  void FetchBlocks(Executor* on, const TableReader& table, std::vector<BlockHandle> blocks, Nanos deadline_ns,
                   absl::AnyInvocable<void(StatusOr<std::vector<BlockRef>>)> done);
  void KeepBlock(const TableReader& table, const BlockHandle& handle, BlockRef block) {
    context_->services->cache->Insert(table.info().uuid, handle.offset, std::move(block));
  }
  // Has the reader of a table loaded: once for all who ask for it meanwhile, and each waits until its own
  // deadline, about. FailedPrecondition: the range was lost.
  void LoadReader(Executor* on, TableRef table, Nanos deadline_ns, absl::AnyInvocable<void(Status)> done);
  // Waits; at once if it is loaded.
  StatusOr<std::shared_ptr<const TableReader>> LoadReaderBlocking(TableHandle* table);
  // Chooses StoCs for a finished table, writes it, and opens it; *reader is its reader. After an error the
  // table's files are deleted. Waits.
  StatusOr<TableInfo> StoreTable(TableBuilder::Output output, const Creator& creator,
                                 std::shared_ptr<const TableReader>* reader);
  // The options of tables at a level, which has a compression of its own.
  TableOptions OptionsAt(int level) const;

  // Both go through the tables of `view` until `stop` is true, skip tables that were dropped meanwhile or
  // cannot be read, and wait.
  //
  // LoadReaders loads the index and the filter of each.
  void LoadReaders(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop);
  // Reads mapped tables whole into memory, one after another, at the disk's rate.
  void Warm(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop);

 private:
  struct Load;  // a table whose reader is being loaded, and who waits for it
  // Tries to, on a waiter's executor.
  void StartLoad(Executor* on, std::shared_ptr<Load> load, Nanos deadline_ns);
  // Tells the waiters. Where this try had too little time, those that have more wait for another one.
  void EndLoad(const std::shared_ptr<Load>& load, StatusOr<std::shared_ptr<const TableReader>> reader);
  // `cold`: see TableReader::Open. Counts index and filter in the cache for as long as the reader lives.
  StatusOr<std::shared_ptr<const TableReader>> OpenReader(const TableInfo& info, std::string_view metadata,
                                                          bool cold);
  // Calls `fn` with the reader of each table of the runs. Lets go of `view` first, so tables may be dropped.
  void ForEachTable(std::shared_ptr<const RangeView> view, const std::function<bool()>& stop,
                    const std::function<void(const TableReader&)>& fn);

  const RangeContext* const context_;
  DiskTurns* const turns_;
  Mutex mu_;
  // By the table whose metadata is read. What goes on with a load owns it, so that one whose work is dropped
  // goes with who waits for it.
  std::map<const TableHandle*, std::weak_ptr<Load>> loads_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
