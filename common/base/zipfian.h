// Zipfian: ranks 0, 1, ... with probability proportional to 1 / (rank + 1)^theta, by inversion without
// rejection (Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994).
//
// Thread safety: immutable; the Random is the caller's. Construction computes n powers.
// Errors: none. REQUIRES: n > 0, 0 < theta < 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/random.h"

namespace nova {

class Zipfian {
 public:
  static constexpr double kYcsbTheta = 0.99;  // YCSB's default, and the paper's

  // Ranks are in [0, n).
  explicit Zipfian(uint64_t n, double theta = kYcsbTheta)
      : n_(n), theta_(theta), weight_of_second_(std::pow(0.5, theta)) {
    for (uint64_t i = 1; i <= n; ++i) zeta_n_ += std::pow(1.0 / static_cast<double>(i), theta);
    const double zeta_2 = 1 + weight_of_second_;
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - theta)) / (1 - zeta_2 / zeta_n_);
  }
  uint64_t Next(Random* random) const {
    const double u = random->NextDouble();
    const double uz = u * zeta_n_;
    if (uz < 1) return 0;
    if (uz < 1 + weight_of_second_) return 1;
    const auto rank =
        static_cast<uint64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - theta_)));
    return rank < n_ ? rank : n_ - 1;
  }

 private:
  const uint64_t n_;
  const double theta_;
  const double weight_of_second_;  // of rank 1; that of rank 0 is 1
  double zeta_n_ = 0;              // the sum of the weights of all ranks
  double eta_ = 0;                 // of the paper
};

// FNV-1a of a rank's bytes: spreads hot ranks over the key space, as YCSB's scrambled generator does.
inline uint64_t ScrambledRank(uint64_t rank) {
  uint64_t h = 0xcbf29ce484222325;
  for (int i = 0; i < 8; ++i, rank >>= 8) h = (h ^ (rank & 0xff)) * 0x100000001b3;
  return h;
}

}  // namespace nova
