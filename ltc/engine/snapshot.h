// Snapshot (K4): a moment of a range that stays readable while somebody holds it.
//
// While a snapshot is live, flushes and compactions keep of each key the newest version at or below its
// number. It is live until it was let go or its lease ended, so a snapshot that a client forgot pins nothing
// for ever. A snapshot that has ended stays so, and reads at it are refused.
//
// A job asks for Live() when it has its inputs. A snapshot that enters later has a number above all of
// theirs, so it misses nothing that the job leaves out.
//
// Thread safety: all.
// Ownership: shared_ptr. The list knows its snapshots weakly, so a handle may outlive the range.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

class Snapshot {
 public:
  // `list`: the id of its SnapshotList. `expires_ns`: end of the lease; kNever: none.
  Snapshot(uint64_t list, SequenceNumber sequence, Nanos expires_ns)
      : list_(list), sequence_(sequence), expires_ns_(expires_ns) {}
  SequenceNumber sequence() const { return sequence_; }  // versions at or below it are seen
  // Its lease goes on; see SnapshotList::IsLive too.
  bool live(Nanos now_ns) const { return now_ns < expires_ns_.load(std::memory_order_acquire); }
  // Moves the end of the lease. False: it has ended already.
  bool Renew(Nanos now_ns, Nanos expires_ns) {
    Nanos old = expires_ns_.load(std::memory_order_relaxed);
    while (now_ns < old) {
      if (expires_ns_.compare_exchange_weak(old, expires_ns)) return true;
    }
    return false;
  }

 private:
  friend class SnapshotList;
  const uint64_t list_;            // the SnapshotList that made it
  const SequenceNumber sequence_;  // see sequence()
  std::atomic<Nanos> expires_ns_;  // 0: it has ended
};

// The live snapshots of one opening of a range.
class SnapshotList {
 public:
  // Makes a snapshot. `sequence()` is read and the list entered in one step, so that a job which does not see
  // the snapshot has only older inputs.
  template <typename Sequence>
  std::shared_ptr<Snapshot> Enter(const Sequence& sequence, Nanos expires_ns) {
    MutexLock lock(&mu_);
    auto snapshot = std::make_shared<Snapshot>(id_, sequence(), expires_ns);
    snapshots_.push_back(snapshot);
    return snapshot;
  }
  // It was made here and is live. A snapshot of another opening or another range says nothing about the
  // versions kept here.
  bool IsLive(const Snapshot& snapshot, Nanos now_ns) const {
    return snapshot.list_ == id_ && snapshot.live(now_ns);
  }
  bool Made(const Snapshot& snapshot) const { return snapshot.list_ == id_; }  // it was made here
  // Numbers of the live snapshots, ascending. Snapshots whose lease is over end by this call, for the caller
  // drops the versions they kept.
  std::vector<SequenceNumber> Live(Nanos now_ns) {
    std::vector<SequenceNumber> live;
    MutexLock lock(&mu_);
    std::erase_if(snapshots_, [&](const std::weak_ptr<Snapshot>& weak) {
      const std::shared_ptr<Snapshot> s = weak.lock();
      if (s == nullptr) return true;
      Nanos expires = s->expires_ns_.load();
      while (now_ns >= expires) {
        if (s->expires_ns_.compare_exchange_weak(expires, 0)) return true;
      }
      live.push_back(s->sequence());
      return false;
    });
    return live;
  }

  // Ends all, for the versions they see go (a checkpoint is restored).
  void EndAll() {
    MutexLock lock(&mu_);
    for (const std::weak_ptr<Snapshot>& weak : snapshots_) {
      if (const std::shared_ptr<Snapshot> s = weak.lock()) s->expires_ns_.store(0);
    }
  }

 private:
  inline static std::atomic<uint64_t> next_id_{1};  // ids in this process
  const uint64_t id_ = next_id_.fetch_add(1);
  Mutex mu_;
  // Ascending by number; those that are gone are removed by Live.
  std::vector<std::weak_ptr<Snapshot>> snapshots_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
