// Scanner: scans of a range, forward and in reverse, in pages.
//
// A scan merges iterators over the rounds and the runs of one view at one number, a moment (K4). It runs
// on its request thread as far as blocks in memory allow, for a short time at once; what is missing is
// fetched in parallel, and the last block to arrive goes on.
//
// Thread safety: on the executor that Scan names.
// Ownership:     the operation is copied; the page is the callback's.
// Errors:        outcomes; kNotOwner once the range does not serve reads (release, R5); kUnavailable at the
//                deadline; kCorruption.
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

  void Scan(Executor* on, ScanOp op, ScanDone done);
  uint64_t scans() const { return scans_.load(std::memory_order_relaxed); }

 private:
  struct ScanState;
  class LevelIterator;

  void Start(std::shared_ptr<ScanState> scan);            // its view and number are known
  void Continue(const std::shared_ptr<ScanState>& scan);  // steps until it ends or goes on by itself
  // As far as blocks in memory allow. True: what was missing arrived meanwhile. False: it ended, or goes on
  // by itself.
  bool Step(const std::shared_ptr<ScanState>& scan);
  bool Resume(ScanState* scan);  // what it waited for is here, or failed; false: it ended
  // The newest visible version of a key, unless a range deletion (K7) hides it, or it has expired.
  void AppendEntry(ScanState* scan, std::string_view stored_key, SequenceNumber sequence, ValueType type,
                   std::string_view value) const;
  // Reverse: the versions of a key are all passed, the last visible one is its newest.
  void AppendLast(ScanState* scan) const;
  static bool End(ScanState* scan, Outcome outcome, ScanPage page);

  const RangeContext* const context_;
  ReadPoints* const points_;
  RoundSet* const rounds_;
  TableAccess* const tables_;
  std::atomic<uint64_t> scans_{0};
};

}  // namespace nova
