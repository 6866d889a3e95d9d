// RecordKeeper: the range record (N3) of an owned range. It changes by compare-and-set (authority, C1) under
// our epoch, one change at a time.
//
// Thread safety: all; Update and UpdateOrCancel wait for the store.
// Locks: the record's, a leaf: nobody waits for the store under it.
// Ownership: the services outlive it.
// Errors: those of Update and UpdateOrCancel.
#pragma once

#include <functional>
#include <utility>

#include "common/base/mutex.h"
#include "ltc/server/host_services.h"

namespace nova {

class RecordKeeper {
 public:
  RecordKeeper(const HostServices* services, RangeRecord record)
      : services_(services), record_(std::move(record)) {}
  // The record as this LTC last wrote or read it.
  RangeRecord Get() const;
  // Changes the record. `change` edits a copy, or refuses by an error, which is returned. It runs again, on a
  // fresh copy, when an earlier change of ours turns out to have been written after all. Unavailable: this
  // change may have been written or not.
  Status Update(const std::function<Status(RangeRecord*)>& change);
  // Changes the record while something stands still: requests of a range that is given away (release, R5), or
  // edits of a manifest (M1). `before` runs first, and makes it stand still. A change that stays in doubt for
  // kMostDoubt is cancelled. If another change is under way this one waits for it as long, and is then
  // cancelled too, without `before`. Cancelled: the change was not made, and never will be. Any other error:
  // it may have been made, or somebody else changed the record.
  Status UpdateOrCancel(const std::function<void()>& before, const std::function<void(RangeRecord*)>& change);

 private:
  static constexpr Nanos kMostDoubt = kSecond;  // how long a change may stay in doubt before it is cancelled
  class Turn;  // the right to change the record: waited for, and given back when destroyed
  // After a compare-and-set was refused: takes over the stored record if an earlier update of ours wrote it.
  // FailedPrecondition: somebody else did; the epoch is no longer ours.
  Status TakeLateUpdate(NodeSession* session, RangeId id);

  const HostServices* const services_;
  mutable Mutex mu_;
  bool changing_ ABSL_GUARDED_BY(mu_) = false;  // a Turn is held, for the time of a compare-and-set
  CondVar change_ended_;                        // signalled when changing_ becomes false; with mu_
  RangeRecord record_ ABSL_GUARDED_BY(mu_);     // as this LTC last knew it in the store
};

}  // namespace nova
