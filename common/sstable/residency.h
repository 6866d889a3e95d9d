// Residency: whether the blocks of a mapped table are in memory when they are used. Most tables' are; where
// data are far more than memory, most are not, whenever the table was written, and a block is better asked
// for as a whole, by a call that is dear where it is not needed. So one use of some is timed.
//
// Thread safety: all.   Ownership, errors: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/disk.h"

namespace nova {

class Residency {
 public:
  // `cold`: nothing of the table is in memory. Else it is as other tables were found to be lately.
  void Assume(bool cold) {
    if (cold) lately_.store(kAll, std::memory_order_relaxed);
    missing_.store(lately_.load(std::memory_order_relaxed));
  }
  void AssumeWarm() { missing_.store(0); }
  static bool AnyIsWorthAsking() { return lately_.load(std::memory_order_relaxed) >= kWorthIt; }
  bool IsWorthAsking() const { return missing_.load(std::memory_order_relaxed) >= kWorthIt; }
  // Samples a block that is about to be asked for: at its use it may have come, and would pass for one that
  // was in memory.
  void OnAsk(std::string_view block) {
    thread_local uint32_t asks = 0;  // as in OnUse
    if (++asks % kSampled == 0) Note(ResidentPrefix(block) < block.size());
  }
  void OnUse(std::string_view block) {
    thread_local uint32_t uses = 0;  // of blocks of any table: threads that count together would wait for it
    const bool ask = IsWorthAsking();
    const bool sampled = ++uses % kSampled == 0;
    const Nanos begin = sampled ? Now() : 0;
    if (ask) PrefetchMapped(block);
    if (!sampled) return;
    static_cast<void>(*static_cast<const volatile char*>(block.data()));
    Note(Now() - begin >= kMiss);
  }

 private:
  static constexpr uint32_t kSampled = 32;
  static constexpr uint32_t kAll = 256, kWorthIt = kAll / 16;  // a miss costs a hundred times the call
  static constexpr Nanos kMiss = 10 * kMicrosecond;
  void Note(bool missed) {
    Add(missed ? kAll : 0, &missing_);
    Add(missed ? kAll : 0, &lately_);
  }
  static void Add(uint32_t missed, std::atomic<uint32_t>* mean) {
    const uint32_t before = mean->load(std::memory_order_relaxed);
    const uint32_t after = before + missed / 8 - before / 8;
    if (after != before) mean->store(after, std::memory_order_relaxed);
  }

  static inline std::atomic<uint32_t> lately_{0};  // of kAll, as far as is known; of all tables
  std::atomic<uint32_t> missing_{kAll};            // the same of this one
};

}  // namespace nova
