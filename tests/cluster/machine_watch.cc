#include "tests/cluster/machine_watch.h"

#include <unistd.h>

#include <algorithm>

namespace nova {
namespace {

std::string FileName() { return StrCat("nova-machine-watch-", getpid()); }

}  // namespace

MachineWatch::MachineWatch(const std::string& directory) : begun_ns_(Now()) {
  auto disk = OpenPosixDisk(directory);
  if (!disk.ok()) return;
  disk_ = *std::move(disk);
  disk_->Delete(FileName()).IgnoreError();
  auto file = disk_->Create(FileName());
  if (!file.ok()) return;
  file_ = *std::move(file);
  thread_ = std::make_unique<Thread>("test.machine_watch.0", [this] { Watch(); });
}

MachineWatch::~MachineWatch() {
  stop_.store(true);
  thread_.reset();
  if (file_ != nullptr) disk_->Delete(FileName()).IgnoreError();
}

Nanos MachineWatch::worst() const {
  return std::max(worst_ns_.load(), thread_ == nullptr ? 0 : Now() - begun_ns_.load());
}

void MachineWatch::Watch() {
  const std::string block(4096, 'w');
  for (uint64_t i = 0; !stop_.load(); ++i) {
    SleepFor(20 * kMillisecond);
    file_->Write(i % 256 * block.size(), block).IgnoreError();
    file_->Sync().IgnoreError();
    const Nanos now = Now();
    worst_ns_.store(std::max(worst_ns_.load(), now - begun_ns_.load()));
    begun_ns_.store(now);
  }
}

}  // namespace nova
