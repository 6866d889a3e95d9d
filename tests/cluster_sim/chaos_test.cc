// Random faults against the history of what clients did. A few seeds are always the same, the others are new
// in every run and are printed. Every failure names its seed: NOVA_SIM_SEED=n runs that one alone,
// NOVA_SIM_SEEDS=n as many from there on, NOVA_SIM_JOBS=n in n processes.
#include "tests/cluster_sim/chaos.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <sstream>

#include "common/base/log.h"
#include "common/base/random.h"

namespace nova {
namespace {

constexpr Nanos kTestTime = 70 * kSecond;  // real
constexpr uint64_t kFixedSeeds = 8;
constexpr uint64_t kEnoughForEachKind = 150;  // seeds over which every kind of step is met

// Of the seeds that are new in this run.
uint64_t FirstNewSeed() { return 1000 + RandomSeed() % 1'000'000'000; }

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// What many seeds came to.
struct Sum {
  uint64_t seeds = 0, acknowledged = 0, unknown = 0, refused = 0, faults = 0;
  Counts counts;
  std::vector<std::pair<uint64_t, std::string>> violations;  // by seed

  void Add(uint64_t seed, const ChaosResult& r) {
    ++seeds;
    acknowledged += r.acknowledged;
    unknown += r.unknown;
    refused += r.refused;
    faults += r.faults;
    for (const auto& [kind, n] : r.counts) counts[kind] += n;
    if (r.violation.empty()) return;
    violations.emplace_back(seed, r.violation);
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), r.violation.c_str());
    std::fflush(stdout);
  }
  void Add(const Sum& other) {
    seeds += other.seeds;
    acknowledged += other.acknowledged;
    unknown += other.unknown;
    refused += other.refused;
    faults += other.faults;
    for (const auto& [kind, n] : other.counts) counts[kind] += n;
    violations.insert(violations.end(), other.violations.begin(), other.violations.end());
  }
  // Lines, for a pipe.
  std::string ToText() const {
    std::string text = StrCat(seeds, " ", acknowledged, " ", unknown, " ", refused, " ", faults, "\n");
    for (const auto& [kind, n] : counts) absl::StrAppend(&text, "count ", n, " ", kind, "\n");
    for (const auto& [seed, what] : violations) absl::StrAppend(&text, "violation ", seed, " ", what, "\n");
    return text;
  }
  static Sum Of(const std::string& text) {
    Sum sum;
    std::istringstream lines(text);
    std::string line;
    lines >> sum.seeds >> sum.acknowledged >> sum.unknown >> sum.refused >> sum.faults;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string what, rest;
      uint64_t n = 0;
      words >> what >> n;
      std::getline(words >> std::ws, rest);
      if (what == "count") sum.counts[rest] = n;
      if (what == "violation") sum.violations.emplace_back(n, rest);
    }
    return sum;
  }
};

// The seeds of `seed_of` at `first`, first + step ... below `most`, until then.
Sum RunSeeds(const std::function<uint64_t(uint64_t)>& seed_of, uint64_t first, uint64_t step, uint64_t most,
             Nanos until) {
  Sum sum;
  for (uint64_t i = first; i < most && Now() < until; i += step)
    sum.Add(seed_of(i), RunChaos(seed_of(i), ChaosOf(seed_of(i))));
  return sum;
}

// The same in so many processes.
Sum RunSeedsIn(uint64_t jobs, const std::function<uint64_t(uint64_t)>& seed_of, uint64_t most, Nanos until) {
  if (jobs <= 1) return RunSeeds(seed_of, 0, 1, most, until);
  std::vector<std::pair<pid_t, int>> children;  // and what they say
  for (uint64_t job = 0; job < jobs; ++job) {
    int ends[2];
    NOVA_CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      const std::string text = RunSeeds(seed_of, job, jobs, most, until).ToText();
      for (size_t at = 0; at < text.size();) {
        const ssize_t n = write(ends[1], text.data() + at, text.size() - at);
        if (n <= 0) _exit(1);
        at += static_cast<size_t>(n);
      }
      _exit(0);
    }
    close(ends[1]);
    children.emplace_back(child, ends[0]);
  }
  Sum sum;
  for (const auto& [child, from] : children) {
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(from, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<size_t>(n));
    close(from);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a process of seeds died, which it names";
    sum.Add(Sum::Of(text));
  }
  return sum;
}

TEST(ChaosTest, EveryAcknowledgedWriteIsFound) {
  const auto only = SeedFromEnvironment();
  const uint64_t count = NumberFromEnvironment("NOVA_SIM_SEEDS", 0);
  const uint64_t first_new = FirstNewSeed();
  const uint64_t most = count > 0 ? count : only ? 1 : UINT64_MAX;
  const Nanos begin = Now(), until = count > 0 ? kNever : begin + kTestTime;
  const auto seed_of = [&](uint64_t i) { return only ? *only + i : i < kFixedSeeds ? i + 1 : first_new + i; };
  Sum sum = RunSeedsIn(NumberFromEnvironment("NOVA_SIM_JOBS", 1), seed_of, most, until);
  for (const auto& [seed, violation] : sum.violations) {
    ADD_FAILURE() << violation << "\nNOVA_SIM_SEED=" << seed << ", log mode "
                  << static_cast<int>(ChaosOf(seed).cluster.ltc.hosted.log_mode);
  }
  for (const std::string& kind : ChaosKinds()) sum.counts.try_emplace(kind, 0);
  if (!only)
    std::printf("seeds 1 to %llu, and from %llu on\n", static_cast<unsigned long long>(kFixedSeeds),
                static_cast<unsigned long long>(first_new + kFixedSeeds));
  std::printf("%llu seeds in %lld s, %llu acknowledged writes, %llu unknown, %llu refused, %llu faults\n",
              static_cast<unsigned long long>(sum.seeds), static_cast<long long>((Now() - begin) / kSecond),
              static_cast<unsigned long long>(sum.acknowledged), static_cast<unsigned long long>(sum.unknown),
              static_cast<unsigned long long>(sum.refused), static_cast<unsigned long long>(sum.faults));
  for (const auto& [kind, n] : sum.counts) {
    std::printf("  %8llu %s\n", static_cast<unsigned long long>(n), kind.c_str());
    if (sum.seeds >= kEnoughForEachKind) {
      EXPECT_GT(n, 0u) << kind;
    }
  }
  EXPECT_GT(sum.acknowledged, sum.seeds * 20);
  EXPECT_GT(sum.faults, sum.seeds * 2);
}

}  // namespace
}  // namespace nova
