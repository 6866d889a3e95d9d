// DiskProbe: asks a StoC's disk once a second how much of it is free, and where nobody else has had it sync
// anything for a while, writes and syncs a block: so that an idle disk that hangs, fails or became read-only
// is seen as well, and one that was slow is seen to be well again. One sync that took long is followed by
// others, a second apart, for it says little by itself. Its file, PROBE, means nothing to anybody.
//
// Thread safety: all.
// Ownership:     the watch outlives it. The destructor waits for the disk.
// Errors:        none: the watch notes what the disk says.
#pragma once

#include <memory>

#include "common/base/thread.h"
#include "stoc/disk_watch.h"

namespace nova {

class DiskProbe {
 public:
  // `sync_period_ns`: without another's sync for so long it makes one itself.
  DiskProbe(DiskWatch* watch, Nanos sync_period_ns);
  ~DiskProbe();

 private:
  void Run();   // the thread: once a second
  void Sync();  // one block

  DiskWatch* const watch_;
  const Nanos sync_period_ns_;
  std::unique_ptr<DiskFile> file_;  // null: not open. Of the thread
  Notification stop_;
  Thread thread_;  // last: it uses the others
};

}  // namespace nova
