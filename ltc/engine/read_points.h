// ReadPoints: the versions that readers may see, and so those that background work may leave out (snapshots,
// K4; expiry, K7): the sequence numbers that were handed out and finished, the live snapshots, and the
// published clock.
//
// Thread safety: all.
// Ownership: none taken.
// Errors: none.
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

// The rules by which a flush or a compaction leaves out versions.
struct DropRules {
  std::vector<SequenceNumber> snapshots;  // live, ascending
  SequenceNumber floor = 0;               // the stable number (K4): a tombstone above it must stay
  int64_t now_ms = 0;                     // entries that expired by then may go
  RangeTombstonesRef tombstones;          // range deletions to apply; null: none
  // The job leaves out everything that range tombstones up to this number hide; its tables say so.
  SequenceNumber tombstones_applied = 0;
};

class ReadPoints {
 public:
  // `last`: the highest number in use; the next is one more.
  explicit ReadPoints(SequenceNumber last) : sequences_(last) {}

  // The parts; each has a header that says its rules.
  SequenceTracker& sequences() { return sequences_; }
  const SequenceTracker& sequences() const { return sequences_; }
  SnapshotList& snapshots() { return snapshots_; }
  const SnapshotList& snapshots() const { return snapshots_; }
  // Ascending; snapshots whose lease is over are not among them.
  std::vector<SequenceNumber> LiveSnapshots() { return snapshots_.Live(Now()); }

  // The wall clock in ms, but never behind the time that an edit has published (K7), so that nothing comes
  // back.
  int64_t NowMs() const { return std::max(WallNowMs(), published_now_ms()); }
  // The time that the latest edit published; 0: none.
  int64_t published_now_ms() const { return published_now_ms_.load(std::memory_order_relaxed); }
  // An edit was published: entries that had expired by `now_ms` may be gone. One thread at a time.
  void PublishNow(int64_t now_ms) {
    if (now_ms > published_now_ms()) published_now_ms_.store(now_ms);
  }

  // False: a deletion, or an entry that has expired; it hides older versions all the same (K7). Takes the
  // expiry off the value of one that has not.
  bool IsVisible(ValueType type, std::string_view* value) const;
  // Runs `fn` on `on` once every number up to `seq` is finished (K4); before it returns if they are.
  void WhenStable(Executor* on, SequenceNumber seq, absl::AnyInvocable<void()> fn);

  // For a compaction of tables that `view` or an earlier view has.
  DropRules RulesOf(const RangeView& view);
  // For a flush of `rounds`, which are in `view`.
  DropRules RulesOfFlush(const RangeView& view, const RoundGroup& rounds);

 private:
  SequenceTracker sequences_;                 // numbers handed out and finished
  SnapshotList snapshots_;                    // that are live, or whose lease is over and nobody has looked
  std::atomic<int64_t> published_now_ms_{0};  // the latest time that an edit published; never falls
};

}  // namespace nova
