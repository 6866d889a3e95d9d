#include "ltc/engine/write_controller.h"

#include <cmath>

namespace nova {
namespace {

// What a write pays that has to wait; the writes that its caller makes next use up what it pays beyond its
// own cost. Where writes are fast that is thousands of them, so that fewer than one in a thousand waits, for
// milliseconds. Where milliseconds pay for too few of them, or several wait already, waits are short.
Nanos PaidAtOnce(Nanos cost, Nanos wait) {
  constexpr Nanos kShort = 64 * kMicrosecond;
  constexpr Nanos kLong = 4 * kMillisecond;
  constexpr Nanos kFewestWrites = 1250, kMostWrites = 2500;
  const bool fast = cost * kFewestWrites <= kLong && wait < 2 * kLong;
  return std::max(cost, fast ? std::min(kLong, cost * kMostWrites) : kShort);
}

}  // namespace

void WriteController::SetPressure(const WritePressure& p, Nanos now_ns) {
  constexpr double kHalvings = 6;  // of the rate, as Level0's pressure rises by one beyond the stop limit
  pressure_.store(std::max({p.memtables, p.level0, p.memory}), std::memory_order_relaxed);
  const double of_level0 = p.level0 <= 1 ? 2.0 - 2.0 * std::max(0.0, p.level0 - kSoft)
                                         : std::exp2(-kHalvings * std::min(p.level0 - 1, 1.5));
  const double of_memory = std::max(0.5, 2.0 - 3.0 * std::max(0.0, p.memory - kSoft));
  scale_.store(std::min(of_level0, of_memory), std::memory_order_relaxed);
  MutexLock lock(&mu_);
  MeasureRate(now_ns);  // a flush that gets nowhere tells nothing
  const bool waiting = p.memtables > 0 && !p.held;
  if (waiting && !waiting_) waiting_since_ns_ = now_ns;
  if (!waiting && waiting_) window_ns_ += now_ns - waiting_since_ns_;
  waiting_ = waiting;
}

void WriteController::OnFlushed(uint64_t bytes, Nanos now_ns) {
  MutexLock lock(&mu_);
  window_bytes_ += bytes;
  step_bytes_ = std::max(bytes, step_bytes_ - step_bytes_ / 16);
  MeasureRate(now_ns);
}

void WriteController::MeasureRate(Nanos now_ns) {
  const Nanos elapsed = window_ns_ + (waiting_ ? now_ns - waiting_since_ns_ : 0);
  if (elapsed < kWindow / 2) return;
  const auto rate_of = [elapsed](uint64_t bytes) {
    return static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed);
  };
  double rate = rate_.load(std::memory_order_relaxed);
  if (const double most = rate_of(window_bytes_ + step_bytes_); most < rate / kFall) {
    rate = most;
  } else if (elapsed >= kWindow) {
    const double older = std::exp2(-static_cast<double>(elapsed) / static_cast<double>(kHalfLife));
    rate = older * rate + (1 - older) * rate_of(window_bytes_);
  }
  rate_.store(rate, std::memory_order_relaxed);
  if (elapsed < kWindow) return;
  window_bytes_ = 0;
  window_ns_ = 0;
  waiting_since_ns_ = now_ns;
}

// No turn is farther away than kLongest: the rate of this moment may be a hundredth of the next one's, and a
// write that has its turn keeps it. Where there is no room at all, writes wait for that besides.
Nanos WriteController::Admit(uint64_t bytes, double room, Nanos now_ns, uint64_t* credit) {
  constexpr Nanos kShortest = 100 * kMicrosecond;
  constexpr Nanos kLongest = 250 * kMillisecond;
  constexpr double kLeastRate = 4 << 10;  // bytes/s
  if (!pressed()) return 0;
  if (*credit >= bytes) {
    *credit -= bytes;
    return 0;
  }
  const double rate = std::max(rate_.load(std::memory_order_relaxed), room >= 1 ? kMinRate : kLeastRate);
  const double scale = std::min(scale_.load(std::memory_order_relaxed), std::max(0.01, room));
  const double bytes_per_ns = rate * scale * 1e-9;
  const auto cost = static_cast<Nanos>(static_cast<double>(bytes) / bytes_per_ns);
  Nanos free = next_free_ns_.load(std::memory_order_relaxed);
  Nanos wait, paid;
  do {
    wait = std::clamp<Nanos>(free - now_ns, 0, kLongest);
    paid = wait < kShortest ? cost : PaidAtOnce(cost, wait);
  } while (!next_free_ns_.compare_exchange_weak(free, now_ns + wait + paid, std::memory_order_relaxed));
  if (wait < kShortest) return 0;
  *credit += static_cast<uint64_t>(static_cast<double>(paid - cost) * bytes_per_ns);
  AddStalled(wait);
  return wait;
}

}  // namespace nova
