#include "common/base/clock.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/simulation.h"

namespace nova {

Nanos Now() {
  if (const Simulation* sim = Simulation::Current()) return sim->LocalNow();
  timespec ts;
  clock_gettime(CLOCK_BOOTTIME, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

int64_t WallNowMs() {
  if (const Simulation* sim = Simulation::Current()) return sim->LocalWallMs();
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / kMillisecond;
}

Nanos ThreadBusy() {
  if (Simulation::Current() != nullptr) return 0;
  if (FILE* file = std::fopen("/proc/thread-self/schedstat", "r"); file != nullptr) {
    long long ran, queued;
    const bool read = std::fscanf(file, "%lld %lld", &ran, &queued) == 2;
    std::fclose(file);
    if (read) return ran + queued;
  }
  timespec ts;  // a kernel without it: less than it is
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return ts.tv_sec * kSecond + ts.tv_nsec;
}

void SleepUntil(Nanos deadline_ns) { SleepFor(deadline_ns - Now()); }

void SleepFor(Nanos ns) {
  if (ns <= 0) return;
  if (Simulation* sim = Simulation::Current()) {
    sim->Block(nullptr, sim->LocalNow() + ns);
    return;
  }
  timespec ts{ns / kSecond, ns % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR) {
  }
}

uint64_t RandomSeed() {
  if (Simulation* sim = Simulation::Current()) return sim->random().Next();
  uint64_t seed;
  NOVA_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  return seed;
}

Uuid Uuid::Generate() {
  const uint64_t hi = RandomSeed();
  return Uuid{hi, RandomSeed()};
}

bool Uuid::Parse(std::string_view text, Uuid* out) {
  if (text.size() != 32) return false;
  uint64_t half[2] = {0, 0};
  for (size_t i = 0; i < 32; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    half[i / 16] = half[i / 16] << 4 | static_cast<unsigned>(digit);
  }
  *out = {half[0], half[1]};
  return true;
}

}  // namespace nova
