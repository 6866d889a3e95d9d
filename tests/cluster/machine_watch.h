// MachineWatch: the longest that the machine itself has held up a thread that writes and syncs 4 KB again and
// again. What a client waits is judged by what it is beyond that: hosts of virtual machines take processors
// and disks away for seconds.
//
// Thread safety: all.   Ownership: its file goes with it.   Errors: where it cannot write it knows of no
//                hold-up.
#pragma once

#include <atomic>
#include <memory>

#include "common/base/clock.h"
#include "common/base/disk.h"
#include "common/base/thread.h"

namespace nova {

class MachineWatch {
 public:
  explicit MachineWatch(const std::string& directory);
  ~MachineWatch();
  Nanos worst() const;  // since it began, a hold-up under way included

 private:
  void Watch();

  std::unique_ptr<Disk> disk_;
  std::unique_ptr<DiskFile> file_;
  std::atomic<Nanos> worst_ns_{0};
  std::atomic<Nanos> begun_ns_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Thread> thread_;
};

}  // namespace nova
