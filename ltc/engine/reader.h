// Reader: gets of a range, of one key or several, now or at a snapshot.
//
// A get looks into the active round, the sealed rounds from young to old, the runs from young to old; the
// first hit is the newest, by recency order (K3). Only a block that is not in the cache leaves the thread,
// and comes back to it.
//
// Thread safety: each call on the executor it names.   Ownership: keys and values are copied, or valid during
//                the call.   Errors: outcomes; kNotOwner once the range does not serve reads (release, R5).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/table_access.h"

namespace nova {

class Reader {
 public:
  Reader(const RangeContext* context, ReadPoints* points, RoundSet* rounds, TableAccess* tables)
      : context_(context), points_(points), rounds_(rounds), tables_(tables) {}

  void Get(Executor* on, std::string_view key, Nanos deadline_ns, GetDone done);  // the newest
  void GetAt(Executor* on, const Snapshot& snapshot, std::string_view key, Nanos deadline_ns, GetDone done);
  // All of one moment: the snapshot's, or (null) now: a moment (K4).
  void MultiGet(Executor* on, std::vector<std::string> keys, std::shared_ptr<const Snapshot> snapshot,
                Nanos deadline_ns, MultiGetDone done);
  uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

 private:
  struct TablePosition;
  struct GetState;
  struct MultiGetState;
  enum class TableAnswer { kFound, kAbsent, kCorrupt, kNeedsReader, kNeedsBlock };

  // The newest version at or below `at`.
  void Search(Executor* on, const std::shared_ptr<const RangeView>& view, SequenceNumber at,
              std::string_view key, Nanos deadline_ns, GetDone done);
  // Each key of a MultiGet whose moment is known.
  void SearchAll(const std::shared_ptr<MultiGetState>& get);
  // K3 against a full search, in debug and simulation builds.
  bool IsNewest(const RangeView& view, std::string_view key, SequenceNumber at,
                SequenceNumber sequence) const;
  // Goes on from *position until the answer is known or something is not in memory.
  TableAnswer SearchTables(const RangeView& view, SequenceNumber at, std::string_view key,
                           TablePosition* position, TableReader::Hit* hit) const;
  // Asks for what SearchTables found missing, then goes on.
  void Fetch(TableAnswer missing, std::unique_ptr<GetState> get);
  void Continue(std::unique_ptr<GetState> get);
  // Ends a get whose newest version is `hit`.
  void Answer(const RangeView& view, std::string_view key, SequenceNumber at, MemTable::Hit hit,
              GetDone* done) const;

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  TableAccess* const tables_;
  std::atomic<uint64_t> reads_{0};
};

}  // namespace nova
