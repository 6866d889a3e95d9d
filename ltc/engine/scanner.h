// Scanner: scans of a range, forward and in reverse, in pages.
//
// A scan merges iterators over the rounds and the runs of one view, at one number: a moment (K4). It runs on
// its request thread as far as blocks in memory allow, and lets other requests run after scan_budget_ns.
// Blocks and table readers that are missing are fetched in parallel; the scan goes on when the last of them
// has arrived.
//
// Thread safety: each call, and its `done`, on the executor it names.
// Ownership: the operation is copied; the page is the callback's.
// Errors: outcomes in `done`. kNotOwner: the range does not serve reads (release, R5). kSnapshotEnded.
//   kUnavailable: the deadline passed. kCorruption.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "ltc/engine/operations.h"
#include "ltc/engine/range_context.h"
#include "ltc/engine/round_set.h"
#include "ltc/engine/table_access.h"

namespace nova {

class Scanner {
 public:
  Scanner(const RangeContext* context, ReadPoints* points, RoundSet* rounds, TableAccess* tables)
      : context_(context), points_(points), rounds_(rounds), tables_(tables) {}

  // Calls `done` once: with a page, which says whether more follows, or with an error. A page ends at the
  // limit, at the operation's page_bytes or the range's scan_page_bytes, or at the end of the keys asked for.
  void Scan(Executor* on, ScanOp op, ScanDone done);
  uint64_t scans() const { return scans_.load(std::memory_order_relaxed); }  // scans begun; a metric

 private:
  struct ScanState;     // a scan under way: its view, number, iterators, page
  class LevelIterator;  // the tables of one run, one after another

  // Begins to merge; the scan's view and number are set.
  void Start(std::shared_ptr<ScanState> scan);
  void Continue(const std::shared_ptr<ScanState>& scan);  // steps until the scan ends or waits
  // Goes on as far as blocks in memory allow. True: the missing blocks arrived meanwhile, so the caller steps
  // again. False: the scan has ended, or goes on by itself.
  bool Step(const std::shared_ptr<ScanState>& scan);
  // Fetches all that the iterators wait for, in parallel; the last to arrive goes on. Returns as Step does.
  bool FetchNeeded(const std::shared_ptr<ScanState>& scan);
  // Blocks it waited for are here, or failed; false: the scan has ended.
  bool Resume(ScanState* scan);
  // Appends the newest visible version of a key to the page, unless a range deletion hides it or it has
  // expired (range deletion, expiry, K7).
  void AppendEntry(ScanState* scan, std::string_view stored_key, SequenceNumber sequence, ValueType type,
                   std::string_view value) const;
  // Reverse: all versions of a key are passed; the last one seen that is visible is its newest, and is
  // appended.
  void AppendLast(ScanState* scan) const;
  // Calls `done`; returns false, for callers to return.
  static bool End(ScanState* scan, Outcome outcome, ScanPage page);
  // End, of a scan that could not read what it needs.
  bool Fail(ScanState* scan, const Status& why);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  TableAccess* const tables_;
  std::atomic<uint64_t> scans_{0};
};

}  // namespace nova
