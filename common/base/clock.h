// Time. Only common/base reads a clock.
//
// Units: nanoseconds everywhere, as int64_t `..._ns`; leases and options are `..._ms`.
// Thread safety: all.
// Errors: none.
#pragma once

#include <cstdint>

namespace nova {

using Nanos = int64_t;
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;  // as a deadline: wait for ever

// CLOCK_BOOTTIME, which goes on while a machine is suspended (lease, C3); in a simulation virtual time, by
// the clock of the fiber's host.
Nanos Now();
int64_t WallNowMs();  // wall clock since 1970; for people, time to live and logs; may jump
// How long the calling thread has run, or was ready to; the rest of its life it waited. 0 in a simulation.
Nanos ThreadBusy();
void SleepFor(Nanos ns);  // in a simulation a point where other fibers may run
void SleepUntil(Nanos deadline_ns);

}  // namespace nova
