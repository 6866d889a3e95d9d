// Time. Now() is CLOCK_BOOTTIME (lease, C3: it goes on while a machine is suspended) or, in a simulation,
// virtual time.
//
// Nanoseconds everywhere, as int64_t `..._ns`; leases and options as `..._ms`. Only common/base reads a
// clock.
#pragma once

#include <cstdint>

namespace nova {

using Nanos = int64_t;
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kNever = INT64_MAX;  // as a deadline: wait for ever

Nanos Now();
int64_t WallNowMs();  // for people, TTL and logs; may jump
// how long the calling thread has run, or wanted to: what is left, it waited; 0 in a simulation
Nanos ThreadBusy();
void SleepFor(Nanos ns);  // a yield point of a simulation
void SleepUntil(Nanos deadline_ns);

}  // namespace nova
