// ReadPoints: what readers may see, and so what background work may leave out (snapshots, K4; expiry,
// K7): the sequence numbers handed out and finished, the live snapshots, the published clock.
//
// Thread safety: all.   Ownership: none taken.   Errors: none.
#pragma once

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/keys.h"
#include "ltc/engine/range_view.h"
#include "ltc/engine/sequence_tracker.h"
#include "ltc/engine/snapshot.h"

namespace nova {

// What a flush or compaction may leave out.
struct DropRules {
  std::vector<SequenceNumber> snapshots;  // live, ascending
  SequenceNumber floor = 0;
  int64_t now_ms = 0;
  RangeTombstonesRef tombstones;
  // What range tombstones up to this number hide is left out, all of it.
  SequenceNumber tombstones_applied = 0;
};

class ReadPoints {
 public:
  explicit ReadPoints(SequenceNumber last) : sequences_(last) {}

  SequenceTracker& sequences() { return sequences_; }
  const SequenceTracker& sequences() const { return sequences_; }
  SnapshotList& snapshots() { return snapshots_; }
  const SnapshotList& snapshots() const { return snapshots_; }
  std::vector<SequenceNumber> LiveSnapshots() { return snapshots_.Live(Now()); }

  // K7: the wall clock, which never goes behind what an edit has published.
  int64_t NowMs() const { return std::max(WallNowMs(), published_now_ms()); }
  int64_t published_now_ms() const { return published_now_ms_.load(std::memory_order_relaxed); }
  // What had expired by then may be gone from now on. One thread at a time.
  void PublishNow(int64_t now_ms) {
    if (now_ms > published_now_ms()) published_now_ms_.store(now_ms);
  }

  // False: a deletion, or expired (K7: an expired newest version hides older ones). Takes the expiry off the
  // value.
  bool IsVisible(ValueType type, std::string_view* value) const;
  // Runs `fn` on `on`: now, if `seq` is stable.
  void WhenStable(Executor* on, SequenceNumber seq, absl::AnyInvocable<void()> fn);

  // Of a compaction of tables that `view` or an earlier one has.
  DropRules RulesOf(const RangeView& view);
  // Of a flush of `rounds`, which are in `view`.
  DropRules RulesOfFlush(const RangeView& view, const RoundGroup& rounds);

 private:
  SequenceTracker sequences_;
  SnapshotList snapshots_;
  std::atomic<int64_t> published_now_ms_{0};
};

}  // namespace nova
