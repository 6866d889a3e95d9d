// RangeLedger: which ranges an LTC opens, holds and gives back. It decides and makes nothing: opening,
// serving and giving back are its caller's, who tells it how they ended.
//
// A range at an epoch is a handle, H: HostedRange; tests have one of their own. H has id(), epoch(), and
// Abandon(), which does not wait, may be called twice, and after which abandoned() is true; it may become so
// by itself too.
//
//   a range              is             until
//   assigned             opening        Opened, or NotBegun
//   open                 held           it is dropped, excluded or assigned at a later epoch
//   lost, or not opened  to give back   GaveBack: its record names this LTC no longer, or is SEALING, and is
//                                       assigned again with the next heartbeat
//   taken from us        excluded       for ever: its highest epoch that is not served any more
//
// What holds at each moment (tests/ltc/range_ledger_test.cc): a held handle's epoch is above the excluded one
// of its range, or it is abandoned (lease, C3); no range that is being given back begins to open; each handle
// that began to open is held, or abandoned; each that is abandoned is given back, unless the range was
// assigned again at its epoch or a later one.
//
// Thread safety: all; nothing waits.
// Locks: its own, held while `held_changed` runs (which may take locks that call nobody back) and handles are
//   abandoned (which fences logs). On a fence it is taken under the locks of a range's edits, so nothing that
//   runs under it may take those.
// Ownership: shares the handles.
// Errors: none.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace nova {

template <typename H>
class RangeLedger {
 public:
  using Ref = std::shared_ptr<H>;
  using Held = std::map<RangeId, Ref>;

  // `held_changed` is called with what is held after each change of it, one change after another.
  explicit RangeLedger(std::function<void(const Held&)> held_changed)
      : held_changed_(std::move(held_changed)) {}

  // The range is ours at an epoch; it comes again until the range is open. True: it is to be opened.
  bool Assigned(RangeId id, Epoch epoch) {
    MutexLock lock(&mu_);
    if (giving_back_.contains(id)) return false;
    const auto held = held_.find(id);
    if (held != held_.end() && held->second->epoch() >= epoch) return false;
    const auto excluded = excluded_.find(id);
    if (excluded != excluded_.end() && excluded->second >= epoch) return false;
    Opening& opening = opening_[id];
    if (opening.epoch >= epoch) return false;
    if (opening.handle != nullptr) opening.handle->Abandon();
    opening = {epoch, nullptr};
    return true;
  }

  // Nobody will begin to open what Assigned asked for: it may be assigned again.
  void NotBegun(RangeId id, Epoch epoch) {
    MutexLock lock(&mu_);
    const auto opening = opening_.find(id);
    if (opening == opening_.end() || opening->second.epoch != epoch) return;
    if (opening->second.handle == nullptr) opening_.erase(opening);
  }

  // Opening `handle` begins, and Opened has to follow. False: it was excluded, or assigned at a later epoch,
  // meanwhile. REQUIRES: what is held of the range at an earlier epoch was dropped.
  bool BeginToOpen(const Ref& handle) {
    MutexLock lock(&mu_);
    const auto opening = opening_.find(handle->id());
    if (opening == opening_.end() || opening->second.epoch != handle->epoch()) return false;
    opening->second.handle = handle;
    return true;
  }

  // Opening has ended. True: it is held now. False: it is abandoned, and to be given back.
  bool Opened(const Ref& handle, bool ok) {
    MutexLock lock(&mu_);
    const auto opening = opening_.find(handle->id());
    if (opening != opening_.end() && opening->second.handle == handle) opening_.erase(opening);
    if (ok && !handle->abandoned()) {
      held_[handle->id()] = handle;
      held_changed_(held_);
      return true;
    }
    handle->Abandon();
    to_give_back_.push_back(handle);
    return false;
  }

  // Ends what is held at `up_to` or an earlier epoch.
  void Drop(RangeId id, Epoch up_to) {
    Ref dropped;  // outlives the lock
    MutexLock lock(&mu_);
    const auto it = held_.find(id);
    if (it == held_.end() || it->second->epoch() > up_to) return;
    dropped = it->second;
    dropped->Abandon();
    held_.erase(it);
    to_give_back_.push_back(dropped);
    held_changed_(held_);
  }

  // Epochs up to `epoch` were taken from us: what is held or opening at one of them is abandoned when it
  // returns. True: Drop has to follow, soon, where waiting is allowed.
  bool Excluded(RangeId id, Epoch epoch) {
    MutexLock lock(&mu_);
    Epoch& excluded = excluded_[id];
    excluded = std::max(excluded, epoch);
    const auto opening = opening_.find(id);
    if (opening != opening_.end() && opening->second.epoch <= epoch) {
      if (opening->second.handle != nullptr) opening->second.handle->Abandon();
      opening_.erase(opening);
    }
    const auto held = held_.find(id);
    if (held == held_.end() || held->second->epoch() > epoch) return false;
    held->second->Abandon();
    return true;
  }

  // Those to give back now; GaveBack has to follow for each. One that was assigned again at its epoch or a
  // later one is left out: its record names the later try, and given back, its range would go to another LTC
  // at once, and be read here under our lease all the same.
  std::vector<Ref> BeginToGiveBack() {
    MutexLock lock(&mu_);
    std::vector<Ref> begun;
    for (Ref& handle : std::exchange(to_give_back_, {})) {
      const auto held = held_.find(handle->id());
      const auto opening = opening_.find(handle->id());
      if (held != held_.end() && held->second->epoch() >= handle->epoch()) continue;
      if (opening != opening_.end() && opening->second.epoch >= handle->epoch()) continue;
      giving_back_.insert(handle->id());
      begun.push_back(std::move(handle));
    }
    return begun;
  }
  // `done` false: it has to be tried again.
  void GaveBack(const Ref& handle, bool done) {
    MutexLock lock(&mu_);
    giving_back_.erase(giving_back_.find(handle->id()));
    if (!done) to_give_back_.push_back(handle);
  }

  Ref Find(RangeId id) const {  // null: it is not held
    MutexLock lock(&mu_);
    const auto it = held_.find(id);
    return it == held_.end() ? nullptr : it->second;
  }
  std::vector<Ref> held() const {
    MutexLock lock(&mu_);
    std::vector<Ref> all;
    for (const auto& [id, handle] : held_) all.push_back(handle);
    return all;
  }

  // For the end of the LTC: abandons all that is held or opening, as a crash would.
  void AbandonAll() {
    MutexLock lock(&mu_);
    for (const auto& [id, handle] : held_) handle->Abandon();
    for (const auto& [id, opening] : opening_) {
      if (opening.handle != nullptr) opening.handle->Abandon();
    }
  }
  // Lets go of all handles. REQUIRES: nobody opens or gives back any more.
  void Clear() {
    MutexLock lock(&mu_);
    held_.clear();
    to_give_back_.clear();
  }

 private:
  struct Opening {
    Epoch epoch;
    Ref handle;  // null: nobody has begun with it
  };

  const std::function<void(const Held&)> held_changed_;
  mutable Mutex mu_;
  Held held_ ABSL_GUARDED_BY(mu_);                           // open, each at one epoch
  std::map<RangeId, Opening> opening_ ABSL_GUARDED_BY(mu_);  // assigned, and not held so far
  std::map<RangeId, Epoch> excluded_ ABSL_GUARDED_BY(mu_);   // the highest epoch that was taken from us
  std::vector<Ref> to_give_back_ ABSL_GUARDED_BY(mu_);       // abandoned; the record may still name us
  std::multiset<RangeId> giving_back_ ABSL_GUARDED_BY(mu_);  // between BeginToGiveBack and GaveBack
};

}  // namespace nova
