#include "ltc/write_controller.h"

namespace nova {

void WriteController::SetPressure(const WritePressure& p) {
  pressure_.store(std::max({p.memtables, p.level0, p.memory}), std::memory_order_relaxed);
}

void WriteController::OnDrained(uint64_t bytes, Nanos now_ns) {
  MutexLock lock(&mu_);
  window_bytes_ += bytes;
  const Nanos elapsed = now_ns - window_start_ns_;
  if (elapsed < kSecond) return;
  // Only a window under pressure says what the drain can do; an idle one says what the load was.
  if (elapsed < 4 * kSecond && pressure() > kSoft) {
    const double rate = static_cast<double>(window_bytes_) * 1e9 / static_cast<double>(elapsed);
    rate_.store(std::max(kMinRate, 0.5 * rate_.load() + 0.5 * rate), std::memory_order_relaxed);
  }
  window_bytes_ = 0;
  window_start_ns_ = now_ns;
}

Nanos WriteController::Admit(uint64_t bytes, Nanos now_ns) {
  const double p = pressure();
  if (p <= kSoft) return 0;
  // At the soft limit twice the drain rate, at the hard limit half of it.
  const double scale = std::max(0.5, 2.0 - 3.0 * (p - kSoft));
  const auto cost = static_cast<Nanos>(static_cast<double>(bytes) * 1e9 / (rate_.load(std::memory_order_relaxed) * scale));
  Nanos free = next_free_ns_.load(std::memory_order_relaxed);
  Nanos turn;
  do {
    turn = std::max(free, now_ns);
  } while (!next_free_ns_.compare_exchange_weak(free, turn + cost, std::memory_order_relaxed));
  const Nanos wait = turn - now_ns;
  if (wait < 100 * kMicrosecond) return 0;
  stalled_ns_.fetch_add(wait, std::memory_order_relaxed);
  return wait;
}

}  // namespace nova
