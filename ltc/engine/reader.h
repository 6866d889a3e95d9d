// Reader: gets of a range, of one key or several, now or at a snapshot.
//
// A get looks into the active round, the sealed rounds from young to old, then the runs that may hold its key
// (range_index.h) from young to old; the first hit is the newest (recency order, K3). Where there is a lookup
// index (K5) it passes by those that are younger than the key. If everything it needs is in memory it ends
// within the call. Otherwise it asks the table store for a block, without waiting, or has a thread that may
// wait load a table's metadata; when that has come the get goes on on its own thread.
//
// Thread safety: each call, and its `done`, on the executor it names.
// Ownership: a key is copied when the get has to wait. The value given to `done` is valid during that call.
// Errors: outcomes. kNotOwner: the range does not serve reads (release, R5). kSnapshotEnded. kUnavailable:
//   no copy of what it needs has come by the deadline. kCorruption.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ltc/engine/lane_counts.h"
#include "ltc/engine/level0_toll.h"
#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/table_access.h"

namespace nova {

class Reader {
 public:
  Reader(const RangeContext* context, Level0Toll* toll, ReadPoints* points, RoundSet* rounds,
         TableAccess* tables)
      : context_(context),
        toll_(toll),
        points_(points),
        rounds_(rounds),
        tables_(tables),
        counts_(context->services->executors.size()) {}

  void Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done);  // the newest version
  // A get at a snapshot of this range.
  void GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns, GetDone done);
  // All at one moment (K4): the snapshot's, or now if that is null. Values come in the order of keys.
  void MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                Nanos deadline_ns, MultiGetDone done);
  uint64_t reads() const { return counts_.Sum(kReads); }  // keys asked for; a metric
  // Memtables and tables that gets have looked for their keys in; metrics.
  uint64_t memtables() const { return counts_.Sum(kMemtables); }
  uint64_t tables() const { return counts_.Sum(kTables); }

 private:
  enum Count { kReads, kMemtables, kTables, kCounts };

  struct TablePosition;  // how far a search of the tables has come
  // Finds the table to ask of each of the first runs, and asks the processor's cache for what its filter says
  // of the key: the misses of all runs come at the same time then.
  static void Prepare(const RangeView& view, std::string_view key, uint64_t hash, TablePosition* position);
  struct GetState;  // a get that waits
  struct MultiGetState;
  // kNeedsReader: the table's metadata is not loaded. kNeedsBlock: the block is neither mapped nor in the
  // cache.
  enum class TableAnswer { kFound, kAbsent, kCorrupt, kNeedsReader, kNeedsBlock };

  // Looks for the newest version at or below `at`, and ends or waits (Fetch).
  void Search(Executor* on, const std::shared_ptr<const RangeView>& view, SequenceNumber at,
              std::string_view key, Nanos deadline_ns, GetDone done);
  // Rounds and tables that begin above it do not have the key (lookup index, K5).
  SequenceNumber UpperBound(uint64_t hash) const;
  // The newest version at or below `at` in memory. `upto`: of UpperBound. False: there is none. *asked:
  // memtables that were looked into.
  static bool SearchRounds(const RangeView& view, SequenceNumber at, SequenceNumber upto,
                           std::string_view key, uint64_t hash, MemTable::Hit* hit, uint64_t* asked);
  // Checks that no round has a version above the key's bound (K5); in debug and simulation builds.
  bool IsBounded(const RangeView& view, std::string_view key, uint64_t hash) const;
  // Has the blocks that a MultiGet will look into for these keys read from the disk at the same time, as far
  // as they are of mapped tables and not in memory. Does not wait.
  void AskForBlocks(const ReadPoint& at, std::span<const std::string> keys) const;
  // Searches each key of a MultiGet, whose moment is set.
  void SearchAll(const std::shared_ptr<MultiGetState>& get);
  // Checks recency order (K3) by a full search of memory and of the tables' bounds; in debug and simulation
  // builds.
  bool IsNewest(const RangeView& view, std::string_view key, SequenceNumber at,
                SequenceNumber sequence) const;
  // Goes on from *position until the answer is known or a part is not in memory. Allocates nothing, but
  // where it keeps what was fetched. The value of *hit lies in position->block or in a mapped table.
  TableAnswer SearchTables(const RangeView& view, SequenceNumber at, std::string_view key, uint64_t hash,
                           TablePosition* position, TableReader::Hit* hit) const;
  // Whether the cache has the entry itself: its value lies in position->block then.
  bool FindCachedEntry(const TableReader& table, SequenceNumber at, std::string_view key, uint64_t hash,
                       TablePosition* position, TableReader::Hit* hit) const;
  // Puts what was fetched into the cache: of a get for the newest version the entry that was found, if those
  // are large and the block was not read for another one just before; else the block.
  void KeepFetched(const TableReader& table, SequenceNumber at, std::string_view key, uint64_t hash,
                   const TablePosition& position, const TableReader::Hit* found) const;
  // Of kCorrupt, for people.
  static std::string DamagedBlock(const TablePosition& at);
  // Has the missing part loaded, then calls Continue. Does not wait.
  void Fetch(TableAnswer missing, std::unique_ptr<GetState> get);
  // Searches on, and ends or fetches again.
  void Continue(std::unique_ptr<GetState> get);
  // Ends a get whose newest version is `hit`: the value, or kNotFound if that is deleted, hidden or expired
  // (range deletion, expiry, K7).
  void Answer(const RangeView& view, std::string_view key, SequenceNumber at, MemTable::Hit hit,
              GetDone* done) const;

  const RangeContext* const context_;
  Level0Toll* const toll_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  TableAccess* const tables_;
  LaneCounts<Count> counts_;  // see reads(), memtables(), tables()
};

}  // namespace nova
