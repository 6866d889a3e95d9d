// Cores: where the two ends run, fabric and bare loop alike. Left to the scheduler they share a core or not
// by chance, which is worth a factor of four on a latency asleep.
//
// Thread safety: all, each for its own thread.   Errors: one core only, or none to be chosen: stays where it
//                is.
#pragma once

#include <sched.h>

namespace nova {

// Puts the calling thread on the n-th (0, 1) of the cores the process may use.
inline void RunOnCore(int n) {
  static const cpu_set_t allowed = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}
inline constexpr int kClientCore = 0;
inline constexpr int kServerCore = 1;

}  // namespace nova
