#include "stoc/write_pace.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nova {

void WritePace::Begin(Nanos now_ns) {
  MutexLock lock(&mu_);
  Advance(now_ns);
  ++files_;
  until_ns_ = std::max(until_ns_, now_ns);
}

// What is old counts less by what is stored, too: else a fast StoC would be taken for slow for gigabytes
// after it had stood still for some seconds.
void WritePace::End(uint64_t stored_bytes, Nanos now_ns) {
  MutexLock lock(&mu_);
  Advance(now_ns);
  --files_;
  const double left = std::exp2(-static_cast<double>(stored_bytes) / kHalfLifeBytes);
  busy_ns_ *= left;
  bytes_ = (bytes_ + static_cast<double>(stored_bytes)) * left;
}

StocPace WritePace::Get(Nanos now_ns) {
  // Less of both tells nothing.
  constexpr double kEnoughBytes = 256 << 10, kEnoughNs = kSecond;
  MutexLock lock(&mu_);
  Advance(now_ns);
  if (bytes_ < kEnoughBytes && busy_ns_ < kEnoughNs) return {};
  return {busy_ns_ / std::max(bytes_, 1.0), std::max<Nanos>(0, now_ns - until_ns_)};
}

void WritePace::Advance(Nanos now_ns) {
  if (files_ == 0 || now_ns <= until_ns_) return;
  constexpr double kMost = kHalfLife / std::numbers::ln2;  // comes together if time passes in small steps
  const auto passed = static_cast<double>(now_ns - until_ns_);
  const double left = std::exp2(-passed / kHalfLife);
  busy_ns_ = busy_ns_ * left + std::min(passed, kMost);
  bytes_ *= left;
  until_ns_ = now_ns;
}

}  // namespace nova
