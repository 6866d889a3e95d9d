#include "stoc/write_pace.h"

#include <algorithm>
#include <cmath>

namespace nova {

void WritePace::Begin(Nanos now_ns) {
  MutexLock lock(&mu_);
  Advance(now_ns);
  ++files_;
  until_ns_ = std::max(until_ns_, now_ns);
}

void WritePace::End(uint64_t stored_bytes, Nanos now_ns) {
  MutexLock lock(&mu_);
  Advance(now_ns);
  --files_;
  bytes_ += static_cast<double>(stored_bytes);
}

StocPace WritePace::Get(Nanos now_ns) {
  constexpr double kEnough = 256 << 10;  // bytes: fewer tell nothing
  MutexLock lock(&mu_);
  Advance(now_ns);
  if (bytes_ < kEnough) return {};
  return {busy_ns_ / bytes_, std::max<Nanos>(0, now_ns - until_ns_)};
}

void WritePace::Advance(Nanos now_ns) {
  if (files_ == 0 || now_ns <= until_ns_) return;
  const auto passed = static_cast<double>(now_ns - until_ns_);
  const double left = std::exp2(-passed / static_cast<double>(kHalfLife));
  busy_ns_ = busy_ns_ * left + passed;
  bytes_ *= left;
  until_ns_ = now_ns;
}

}  // namespace nova
