// Random: a small seeded generator (xoshiro256**). Not for secrets.
//
// Thread safety: none; one for each owner. A simulation seeds all of them from its own (RandomSeed), so that
//   a seed is a run.
// Errors: none.
#pragma once

#include <cstdint>

namespace nova {

uint64_t RandomSeed();  // from the kernel, or from the simulation that runs the caller

class Random {
 public:
  explicit Random(uint64_t seed = RandomSeed()) {
    for (auto& s : state_) {  // splitmix64
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      s = z ^ (z >> 31);
    }
  }
  uint64_t Next() {
    const uint64_t result = Rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = Rotl(state_[3], 45);
    return result;
  }
  // A number in [0, n). REQUIRES: n > 0.
  uint64_t Uniform(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }
  bool OneIn(uint64_t n) { return Uniform(n) == 0; }  // true once in n calls, on average
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // in [0, 1)

 private:
  static uint64_t Rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace nova
