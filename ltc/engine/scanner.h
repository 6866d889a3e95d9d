// Scanner: scans of a range, forward and in reverse, in pages.
//
// A scan runs a RangeIterator at one number: a moment (K4). It runs on its request thread as far as blocks in
// memory allow, and lets other requests run after scan_budget_ns. Blocks and table readers that are missing
// are fetched in parallel; the scan goes on when the last of them has arrived.
//
// Thread safety: each call, and its `done`, on the executor it names.
// Ownership: the operation is copied; the page is the callback's.
// Errors: outcomes in `done`. kNotOwner: the range does not serve reads (release, R5). kSnapshotEnded.
//   kUnavailable: what it needs has not come by the deadline. kCorruption.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ltc/engine/lane_counts.h"
#include "ltc/engine/level0_toll.h"
#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/range_iterator.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/scan_cursor.h"
#include "ltc/engine/table_access.h"

namespace nova {

class Scanner {
 public:
  Scanner(const RangeContext* context, Level0Toll* toll, ReadPoints* points, RoundSet* rounds,
          TableAccess* tables);

  // Calls `done` once: with a page, which says whether more follows, or with an error. A page ends at the
  // limit, at the operation's page_bytes or the range's scan_page_bytes, or at the end of the keys asked for;
  // at the deadline with what there is, which of a scan at a snapshot may be nothing and more.
  void Scan(Executor* on, ScanOp op, ScanDone done);
  uint64_t scans() const { return counts_.Sum(kScans); }  // scans begun; a metric
  // Memtables and tables that scans have opened; metrics.
  uint64_t memtables() const { return counts_.Sum(kMemtables); }
  uint64_t tables() const { return counts_.Sum(kTables); }

 private:
  enum Count { kScans, kMemtables, kTables, kCounts };
  struct ScanState;  // a scan under way: its iterator and its page

  // Begins to read; the scan's iterator is where its page begins.
  void Start(const std::shared_ptr<ScanState>& scan);
  // An iterator at the first key of the scan, in the view of `at`.
  std::unique_ptr<RangeIterator> Seek(Executor* on, const ScanOp& op, ReadPoint at);
  // Keeps the iterator of a scan that has ended for the next one of its request thread.
  void Spare(ScanState* scan);
  void Continue(const std::shared_ptr<ScanState>& scan);  // steps until the scan ends or waits
  // Goes on as far as blocks in memory allow. True: the missing blocks arrived meanwhile, so the caller steps
  // again. False: the scan has ended, or goes on by itself.
  bool Step(const std::shared_ptr<ScanState>& scan);
  // Has the blocks read that the scan waits for. As Step.
  bool Fetch(const std::shared_ptr<ScanState>& scan);
  // Calls `done` with the page, whose place the cursor keeps if there is more; returns false, for callers to
  // return.
  bool EndPage(ScanState* scan, bool more);
  // Ends the page of a scan that cannot go on now, with what was found; where that is nothing, what it has
  // passed is in the snapshot's HiddenKeys for the next page, and if that is nothing the scan fails. Returns
  // false.
  bool EndEarly(ScanState* scan, std::string why = {});
  // Calls `done` for a scan that could not read what it needs; returns false.
  bool Fail(ScanState* scan, Outcome outcome, std::string why = {});

  const RangeContext* const context_;
  Level0Toll* const toll_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  TableAccess* const tables_;
  LaneCounts<Count> counts_;  // see scans(), memtables(), tables()
  struct alignas(64) Lane {
    std::unique_ptr<ScanCursor> spare;  // keeps the iterator of the last scan: the next one allocates little
    int waiting = 0;                    // scans that wait for blocks
  };
  std::vector<Lane> lanes_;  // [i] belongs to executor i
};

}  // namespace nova
