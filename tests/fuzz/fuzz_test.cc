// The fuzz targets without a fuzzer: each is given random inputs for seconds, so that every build compiles
// them and runs them under its sanitizers. It does not see what an input reaches; tests/fuzz/run.sh, which
// does, finds more.
//   NOVA_FUZZ_SEED=n   the inputs of a run that printed n
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"

#define FUZZ_TARGET(name) extern "C" int name(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace nova {
namespace {

struct Target {
  const char* name;
  int (*run)(const uint8_t* data, size_t size);
};
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

constexpr Target kTargets[] = {
#define FUZZ_TARGET(name) {#name, &name},
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
};

constexpr Nanos kTime = 5 * kSecond;
constexpr size_t kMaxBytes = 2048;
constexpr size_t kKept = 64;  // inputs that later ones are made of

class FuzzTest : public ::testing::TestWithParam<Target> {
 protected:
  // Numbers that formats count with are small, zero or the largest, more often than chance has it.
  char Byte() {
    switch (random_.Uniform(4)) {
      case 0:
        return static_cast<char>(random_.Uniform(4));
      case 1:
        return static_cast<char>(0xff);
      default:
        return static_cast<char>(random_.Next());
    }
  }
  std::string Fresh() {
    std::string input(random_.Uniform(random_.OneIn(4) ? kMaxBytes : 80), 0);
    for (char& c : input) c = Byte();
    return input;
  }
  // An older input with a few changes: a byte, a piece more or less, an end of another.
  std::string Next() {
    if (kept_.size() < kKept || random_.OneIn(8)) return Fresh();
    std::string input = kept_[random_.Uniform(kept_.size())];
    for (uint64_t changes = 1 + random_.Uniform(4); changes > 0; --changes) {
      const size_t at = random_.Uniform(input.size() + 1);
      switch (random_.Uniform(4)) {
        case 0:
          if (at < input.size()) input[at] = Byte();
          break;
        case 1:
          input.insert(at, std::string(1 + random_.Uniform(8), Byte()));
          break;
        case 2:
          input.erase(at, 1 + random_.Uniform(8));
          break;
        case 3: {
          const std::string& other = kept_[random_.Uniform(kept_.size())];
          input.resize(at);
          input += other.substr(std::min(at, other.size()));
          break;
        }
      }
    }
    input.resize(std::min(input.size(), kMaxBytes));
    return input;
  }

  static uint64_t Seed() {
    const char* const given = std::getenv("NOVA_FUZZ_SEED");
    return given == nullptr ? RandomSeed() : std::strtoull(given, nullptr, 10);
  }

  const uint64_t seed_ = Seed();
  Random random_{seed_};
  std::vector<std::string> kept_;
};

TEST_P(FuzzTest, TakesAnyBytes) {
  std::printf("NOVA_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed_));
  std::fflush(stdout);
  uint64_t runs = 0;
  for (const Nanos end = Now() + kTime; Now() < end; ++runs) {
    std::string input = Next();
    // Memory of just that size: a sanitizer sees the first byte that is read behind it.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    ASSERT_EQ(0, GetParam().run(bytes.data(), bytes.size()));
    kept_.size() < kKept ? kept_.push_back(std::move(input)) : kept_[random_.Uniform(kKept)].swap(input);
  }
  EXPECT_GT(runs, 100u);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTest, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nova
