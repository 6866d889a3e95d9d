#include "stoc/disk_probe.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nova {
namespace {

constexpr char kProbePath[] = "PROBE";
constexpr size_t kProbeBytes = 4096;
constexpr Nanos kPeriod = kSecond;
// A sync that takes longer may have been an exception: it is tried again.
constexpr Nanos kQuick = 20 * kMillisecond;

}  // namespace

DiskProbe::DiskProbe(DiskWatch* watch, Nanos sync_period_ns)
    : watch_(watch), sync_period_ns_(sync_period_ns), thread_("stoc.probe.0", [this] { Run(); }) {}

DiskProbe::~DiskProbe() {
  stop_.Notify();
  thread_.Join();
}

void DiskProbe::Run() {
  do {
    watch_->FreeBytes().IgnoreError();
    const Nanos period = watch_->Report().sync_ns > kQuick ? kPeriod : sync_period_ns_;
    if (Now() >= watch_->LastSyncedNs() + std::min(period, sync_period_ns_)) Sync();
  } while (!stop_.WaitUntil(Now() + kPeriod));
}

// After a failure the file is opened anew: what it holds does not matter.
void DiskProbe::Sync() {
  if (file_ == nullptr) {
    auto file = watch_->Open(kProbePath, /*writable=*/true);
    if (absl::IsNotFound(file.status())) file = watch_->Create(kProbePath);
    if (!file.ok()) return;
    file_ = *std::move(file);
  }
  Status s = file_->Write(0, std::string(kProbeBytes, 'p'));
  if (s.ok()) s = file_->Sync();
  if (!s.ok()) file_ = nullptr;
}

}  // namespace nova
