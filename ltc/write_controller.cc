#include "ltc/write_controller.h"

namespace nova {

void WriteController::SetPressure(const WritePressure& p, Nanos now_ns) {
  const double pressure = std::max({p.memtables, p.level0, p.memory});
  MutexLock lock(&mu_);
  const double before = pressure_.exchange(pressure, std::memory_order_relaxed);
  if ((before > kSoft) == (pressure > kSoft)) return;
  window_bytes_ = 0;
  window_start_ns_ = now_ns;
  first_window_ = true;
}

void WriteController::OnDrained(uint64_t bytes, Nanos now_ns) {
  MutexLock lock(&mu_);
  window_bytes_ += bytes;
  const Nanos elapsed = now_ns - window_start_ns_;
  if (elapsed < kWindow) return;
  const double rate = std::max(kMinRate, static_cast<double>(window_bytes_) * 1e9 / static_cast<double>(elapsed));
  const double known = rate_.load(std::memory_order_relaxed);
  rate_.store(!pressed() ? std::max(known, rate) : first_window_ ? rate : (known + rate) / 2, std::memory_order_relaxed);
  first_window_ = false;
  window_bytes_ = 0;
  window_start_ns_ = now_ns;
}

Nanos WriteController::Admit(uint64_t bytes, double room, Nanos now_ns) {
  const double p = pressure();
  if (p <= kSoft) return 0;
  // At the soft limit twice the drain rate, at the hard limit half of it; and what there is room for.
  const double scale = std::min(std::max(0.5, 2.0 - 3.0 * (p - kSoft)), std::max(0.01, room / 2));
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
