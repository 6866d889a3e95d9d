#include "experiments/peers/workload.h"

#include <algorithm>
#include <cstring>

#include "common/base/random.h"
#include "common/base/zipfian.h"

namespace nova {

std::vector<Workload> AllWorkloads() { return {{"R100", 0, 0}, {"RW50", 50, 0}, {"SW50", 50, 50}, {"W100", 100, 0}}; }

Sequence::Sequence(Distribution distribution, uint64_t records, uint64_t seed) {
  Random random(seed);
  const Zipfian zipfian(records);
  numbers_.reserve(kLength);
  for (size_t i = 0; i < kLength; ++i) {
    const uint64_t n = distribution == Distribution::kUniform ? random.Uniform(records) : zipfian.Next(&random);
    numbers_.push_back(static_cast<uint32_t>(distribution == Distribution::kZipfianScrambled ? ScrambledRank(n) % records : n));
  }
}

Values::Values(size_t size) : size_(size) {
  Random random(1);
  noise_.resize(size + 4096);
  for (char& c : noise_) c = static_cast<char>(random.Next());
}

std::string_view Values::For(std::string_view key, uint64_t salt) {
  char* value = noise_.data() + salt % (noise_.size() - size_ + 1);
  std::memcpy(value, key.data(), std::min(key.size(), size_));
  return {value, size_};
}

bool IsValueOf(std::string_view key, std::string_view value, size_t size) {
  return value.size() == size && value.substr(0, key.size()) == key.substr(0, size);
}

}  // namespace nova
