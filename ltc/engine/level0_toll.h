// Level0Toll: what reads have paid because Level0 is of many runs, so that it is merged down once they have
// paid as much as the merge costs, though it is not yet due by its number of runs.
//
// A get looks into a filter of each run that has a table at its key, a scan opens that table and reads a
// block of it: from the disk, where it is not in memory. Where nobody reads, runs are merged when there are
// many, for then the least is written; where many scan, a merge that is put off costs more than it saves. To
// merge when what was paid equals the price is never twice as dear as the best that could have been done with
// knowledge of the reads to come (ski rental).
//
//   paid     time that reads have spent on runs of Level0 since it was merged last; of all request threads
//   price    time to merge the bytes of the job: measured, of the jobs so far
//
// The jobs so far may have run on an idle disk, and the next one shares it with requests. So a merge that
// was begun for what reads have paid is watched, and given up early if it turns out dear: then reads go on
// paying, by the price that was seen.
//
// Ownership: none taken.   Errors: none.
// Thread safety: all. OnGet and OnScan on the executor they name.
// Units: nanoseconds, bytes.
#pragma once

#include <algorithm>
#include <atomic>

#include "ltc/engine/lane_counts.h"
#include "ltc/engine/range_context.h"

namespace nova {

class Level0Toll {
 public:
  // What one run costs: filter and table bounds out of the processor's cache, and two blocks besides.
  static constexpr Nanos kOfGet = 100;
  static constexpr Nanos kOfScan = 1500;
  // What a page of a scan pays for at most of the time that its reads took. A disk or a StoC that hangs is no
  // reason to merge.
  static constexpr Nanos kMostOfReads = 50 * kMillisecond;

  explicit Level0Toll(const RangeContext* context)
      : context_(context), paid_(context->services->executors.size()) {}

  // A get has looked for its key in so many tables of Level0 in vain.
  void OnGet(const Executor* on, int tables) {
    if (tables > 0) Pay(on, tables * kOfGet);
  }
  // A page of a scan has opened so many runs of Level0, for the first time in the scan.
  void OnScan(const Executor* on, int runs) {
    if (runs > 1) Pay(on, runs * kOfScan);
  }
  // A page of a scan took so long until its first entry was found. Of the tables that it opened so many are
  // of Level0, and were not in memory: they pay by their part, for all are read at once. One table is read
  // where Level0 is merged, too.
  void OnReads(const Executor* on, int runs, int tables, Nanos took_ns) {
    if (tables > 1) Pay(on, std::min(took_ns, kMostOfReads) * std::min(runs, tables - 1) / tables);
  }
  // A job of Level0 has merged `bytes`, which had this part of Level0: of what was paid before as much is
  // settled.
  void OnMerged(uint64_t bytes, Nanos took_ns, double part) {
    constexpr double kFastest =
        0.4;  // bytes a ns: threads that share a job take more of the processor than that
    const Nanos settled = settled_ns_.load(std::memory_order_relaxed);
    const auto unsettled = static_cast<double>(Unsettled());
    settled_ns_.store(settled + static_cast<Nanos>(unsettled * part), std::memory_order_relaxed);
    if (bytes < kLeastJudged) return;
    const double rate =
        std::min(kFastest, static_cast<double>(bytes) / static_cast<double>(std::max<Nanos>(took_ns, 1)));
    rate_.store((rate_.load(std::memory_order_relaxed) + rate) / 2, std::memory_order_relaxed);
  }
  // A job that was begun for what reads have paid has read `read` of its `bytes` in `took_ns`; of what was
  // paid it has this part. True: at this rate what is left would take kMostOverrun times that, and the job is
  // to be given up. From now on merges cost as much; but not at once all that a disk or a StoC which hangs
  // would have them cost.
  bool TurnsOutDear(uint64_t bytes, uint64_t read, Nanos took_ns, double part) {
    constexpr double kMostOverrun = 2;
    constexpr double kMostDearer = 16;
    if (read < kLeastJudged) return false;
    const double rate = static_cast<double>(read) / static_cast<double>(std::max<Nanos>(took_ns, 1));
    const double left_ns = static_cast<double>(bytes - std::min(bytes, read)) / rate;
    if (left_ns <= kMostOverrun * static_cast<double>(Unsettled()) * part) return false;
    const double before = rate_.load(std::memory_order_relaxed);
    rate_.store(std::clamp(rate, before / kMostDearer, before), std::memory_order_relaxed);
    return true;
  }
  // The bytes that could have been merged in the time that was paid.
  uint64_t PaidBytes() const {
    return static_cast<uint64_t>(static_cast<double>(Unsettled()) * rate_.load(std::memory_order_relaxed));
  }

 private:
  static constexpr uint64_t kLeastJudged = 16 << 20;  // what is moved in a shorter time tells no rate

  enum Count { kPaidNs, kCounts };

  // Adds to what the executor's reads have paid, and has it looked now and then whether a merge is due.
  void Pay(const Executor* on, Nanos ns) {
    constexpr Nanos kLook = 100 * kMillisecond;  // so often it is looked whether a merge is due
    const auto now = static_cast<Nanos>(paid_.Of(on).Add(kPaidNs, static_cast<uint64_t>(ns)));
    if ((now - ns) / kLook != now / kLook) context_->WorkDue();
  }
  // What was paid since merges were made for it.
  Nanos Unsettled() const {
    // A thread may see less of the lanes than the one that settled them.
    const auto paid = static_cast<Nanos>(paid_.Sum(kPaidNs));
    return std::max<Nanos>(0, paid - settled_ns_.load(std::memory_order_relaxed));
  }

  const RangeContext* const context_;
  LaneCounts<Count> paid_;            // all that was ever paid
  std::atomic<Nanos> settled_ns_{0};  // of it: what merges have been made for
  std::atomic<double> rate_{0.3};     // bytes a ns, of Level0 jobs; a running mean
};

}  // namespace nova
