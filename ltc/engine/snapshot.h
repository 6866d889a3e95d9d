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
// Locks: the list's, a leaf, held while Enter reads the number. The last holder of a handle takes it, under
//   whatever that one holds.
// Ownership: shared_ptr. A handle may outlive the range; the list holds none, and forgets one with its last
//   handle, so that a range that nobody writes to does not collect those of its scans.
// Errors: false: it has ended.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "ltc/engine/hidden_keys.h"

namespace nova {

class Snapshot {
 public:
  ~Snapshot() {
    MutexLock lock(&members_->mu);
    members_->snapshots.erase(place_);
  }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  SequenceNumber sequence() const { return sequence_; }  // versions at or below it are seen
  // What scans at it have found.
  HiddenKeys& hidden_keys() const { return hidden_keys_; }
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
  // The snapshots of one list that somebody holds.
  struct Members {
    Mutex mu;
    std::list<Snapshot*> snapshots ABSL_GUARDED_BY(mu);  // ascending by number
  };

  Snapshot(std::shared_ptr<Members> members, SequenceNumber sequence, Nanos expires_ns)
      : members_(std::move(members)), sequence_(sequence), expires_ns_(expires_ns) {}

  const std::shared_ptr<Members> members_;  // of the list that made it
  std::list<Snapshot*>::iterator place_;    // where it stands among them
  const SequenceNumber sequence_;           // see sequence()
  mutable HiddenKeys hidden_keys_;          // see hidden_keys()
  std::atomic<Nanos> expires_ns_;           // end of the lease; kNever: none; 0: it has ended
};

// The live snapshots of one opening of a range.
class SnapshotList {
 public:
  // Makes a snapshot. `sequence()` is read and the list entered in one step, so that a job which does not see
  // the snapshot has only older inputs. `expires_ns`: end of the lease; kNever: none.
  template <typename Sequence>
  std::shared_ptr<Snapshot> Enter(const Sequence& sequence, Nanos expires_ns) {
    MutexLock lock(&members_->mu);
    std::shared_ptr<Snapshot> snapshot(new Snapshot(members_, sequence(), expires_ns));
    snapshot->place_ = members_->snapshots.insert(members_->snapshots.end(), snapshot.get());
    return snapshot;
  }
  // It was made here and is live. A snapshot of another opening or another range says nothing about the
  // versions kept here.
  bool IsLive(const Snapshot& snapshot, Nanos now_ns) const {
    return Made(snapshot) && snapshot.live(now_ns);
  }
  bool Made(const Snapshot& snapshot) const { return snapshot.members_ == members_; }  // it was made here
  // Numbers of the live snapshots, ascending. Snapshots whose lease is over end by this call, for the caller
  // drops the versions they kept.
  std::vector<SequenceNumber> Live(Nanos now_ns) {
    std::vector<SequenceNumber> live;
    MutexLock lock(&members_->mu);
    for (Snapshot* const s : members_->snapshots) {
      Nanos expires = s->expires_ns_.load();
      while (now_ns >= expires && !s->expires_ns_.compare_exchange_weak(expires, 0)) {
      }
      if (now_ns < expires) live.push_back(s->sequence());
    }
    return live;
  }

  // Ends all, for the versions they see go (a checkpoint is restored).
  void EndAll() {
    MutexLock lock(&members_->mu);
    for (Snapshot* const s : members_->snapshots) s->expires_ns_.store(0);
  }

 private:
  const std::shared_ptr<Snapshot::Members> members_ = std::make_shared<Snapshot::Members>();
};

}  // namespace nova
