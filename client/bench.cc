#include "client/bench.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <optional>

#include "common/base/clock.h"
#include "common/base/histogram.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/base/zipfian.h"

namespace nova {
namespace {

enum OpType { kRead = 0, kWrite = 1, kScan = 2 };
constexpr std::array<const char*, 3> kOpNames = {"read", "write", "scan"};

struct Shared {
  const BenchOptions& options;
  Client* client;
  int write_percent;
  int scan_percent;
  const Zipfian* zipfian;  // null: uniform
  bool scrambled;
  Nanos start_ns;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> not_found{0};
  std::array<Histogram, 3> latency{};
  std::array<Histogram, 3> second{};  // of the running second, for progress
  Mutex mu{};
  std::string first_error{};
};

uint64_t PickRecord(Shared* s, Random* random) {
  if (s->zipfian == nullptr) return random->Uniform(s->options.records);
  const uint64_t rank = s->zipfian->Next(random);
  return s->scrambled ? ScrambledRank(rank) % s->options.records : rank;
}

// When operation i is to begin; of a closed loop now. None: it is no part of the load.
std::optional<Nanos> BeginOf(const Shared& s, uint64_t i) {
  const BenchOptions& o = s.options;
  if (o.stop != nullptr && o.stop->load()) return std::nullopt;
  const Nanos begin =
      o.rate > 0 ? s.start_ns + static_cast<Nanos>(static_cast<double>(i) / o.rate * 1e9) : Now();
  const uint64_t limit = o.workload == "LOAD" ? o.records : o.operations;
  const bool is_in = limit != 0 ? i < limit : begin < s.start_ns + static_cast<Nanos>(o.seconds * 1e9);
  return is_in ? std::optional(begin) : std::nullopt;
}

// Waits until an operation is due. False: no more operations begin; at a low rate that is long before.
bool WaitUntil(const Shared& s, Nanos begin) {
  constexpr Nanos kLook = 100 * kMillisecond;
  while (Now() < begin) {
    if (s.options.stop != nullptr && s.options.stop->load()) return false;
    SleepUntil(std::min(begin, Now() + kLook));
  }
  return true;
}

// A scan too is NotFound where the record that it begins with is missing.
Result Do(Shared* s, OpType type, const std::string& key, const std::string& value) {
  if (type == kRead) return s->client->Get(key);
  if (type == kWrite) return s->client->Put(key, value, s->options.write);
  ScanResult scan = s->client->Scan(key, s->options.scan_length);
  if (scan.ok() && (scan.entries.empty() || scan.entries[0].first != key)) scan.outcome = Outcome::kNotFound;
  return scan;
}

void Worker(Shared* s, uint64_t seed) {
  Random random(seed);
  std::string value(s->options.value_bytes, 'v');
  const bool load = s->options.workload == "LOAD";
  for (;;) {
    const uint64_t i = s->next.fetch_add(1, std::memory_order_relaxed);
    const auto begin = BeginOf(*s, i);
    if (!begin) return;
    // A load visits every record once, in an order that spreads over the key space (the prime divides no
    // record count in use).
    const uint64_t record =
        load ? static_cast<uint64_t>(static_cast<unsigned __int128>(i) * 2'654'435'761u % s->options.records)
             : PickRecord(s, &random);
    const std::string key = BenchKey(record, s->options.records);
    const uint64_t dice = random.Uniform(100);
    const OpType type = load || dice < static_cast<uint64_t>(s->write_percent)             ? kWrite
                        : dice < static_cast<uint64_t>(s->write_percent + s->scan_percent) ? kScan
                                                                                           : kRead;
    for (size_t b = 0; b + 8 <= value.size() && type == kWrite; b += 64) {  // no two values alike, cheaply
      const uint64_t r = random.Next();
      value.replace(b, 8, reinterpret_cast<const char*>(&r), 8);
    }
    if (s->options.rate > 0 && !WaitUntil(*s, *begin)) return;
    const Nanos start = s->options.rate > 0 ? *begin : Now();
    const Result r = Do(s, type, key, value);
    const auto took = static_cast<uint64_t>(Now() - start);
    s->latency[type].Add(took);
    s->second[type].Add(took);
    if (r.outcome == Outcome::kNotFound) s->not_found.fetch_add(1, std::memory_order_relaxed);
    if (!r.ok() && r.outcome != Outcome::kNotFound && s->failed.fetch_add(1) == 0) {
      MutexLock lock(&s->mu);
      s->first_error = r.message;
    }
  }
}

void Progress(Shared* s, Nanos start, const Notification* done) {
  for (int second = 1; !done->WaitUntil(start + second * kSecond); ++second) {
    uint64_t ops = 0, worst = 0;
    for (Histogram& h : s->second) {
      ops += h.count();
      worst = std::max(worst, h.max());
      h.Clear();
    }
    std::fprintf(stderr, "%4d s  %8llu ops/s  max %.1f ms\n", second, static_cast<unsigned long long>(ops),
                 static_cast<double>(worst) * 1e-6);
  }
}

std::string Report(const Shared& s, double seconds, uint64_t retries) {
  uint64_t ops = 0;
  for (const Histogram& h : s.latency) ops += h.count();
  char line[256];
  char skew[32] = "", loop[64] = "";
  if (s.zipfian != nullptr) std::snprintf(skew, sizeof(skew), " %g", s.options.zipf_constant);
  if (s.options.rate > 0)
    std::snprintf(loop, sizeof(loop), ", an open loop of %.0f a second", s.options.rate);
  std::snprintf(line, sizeof(line),
                "%s %s%s, %llu records of %zu B, %d threads%s: %llu operations in %.2f s, %.0f ops/s\n",
                s.options.workload.c_str(), s.options.distribution.c_str(), skew,
                static_cast<unsigned long long>(s.options.records), s.options.value_bytes, s.options.threads,
                loop, static_cast<unsigned long long>(ops), seconds, static_cast<double>(ops) / seconds);
  std::string out = line;
  for (size_t t = 0; t < kOpNames.size(); ++t) {
    const Histogram& h = s.latency[t];
    if (h.count() == 0) continue;
    std::snprintf(line, sizeof(line),
                  "%-6s n %9llu  mean %8.1f us  p50 %8.1f  p95 %8.1f  p99 %8.1f  p99.9 %8.1f  max %8.1f\n",
                  kOpNames[t], static_cast<unsigned long long>(h.count()), h.Mean() * 1e-3,
                  static_cast<double>(h.Percentile(50)) * 1e-3, static_cast<double>(h.Percentile(95)) * 1e-3,
                  static_cast<double>(h.Percentile(99)) * 1e-3,
                  static_cast<double>(h.Percentile(99.9)) * 1e-3, static_cast<double>(h.max()) * 1e-3);
    out += line;
  }
  std::snprintf(line, sizeof(line), "failed %llu  not found %llu  internal retries %llu\n",
                static_cast<unsigned long long>(s.failed.load()),
                static_cast<unsigned long long>(s.not_found.load()),
                static_cast<unsigned long long>(retries));
  out += line;
  if (s.not_found.load() != 0)
    out += StrCat("records are missing: `nova bench LOAD --records=", s.options.records, "` writes them\n");
  return out;
}

}  // namespace

std::string BenchKey(uint64_t n, uint64_t records) {
  constexpr uint64_t kFirst = 1'000'000'000'000'000'000, kSpan = 8'200'000'000'000'000'000;
  return StrCat("user", kFirst + n * (kSpan / records), "/bench");
}

StatusOr<BenchReport> RunBench(Client* client, const BenchOptions& options) {
  int write_percent = 0, scan_percent = 0;
  if (options.workload == "RW50") {
    write_percent = 50;
  } else if (options.workload == "SW50") {
    write_percent = scan_percent = 50;
  } else if (options.workload == "W100" || options.workload == "LOAD") {
    write_percent = 100;
  } else if (options.workload != "R100") {
    return absl::InvalidArgumentError(
        StrCat("workload ", options.workload, " must be R100, RW50, SW50, W100 or LOAD"));
  }
  if (options.distribution != "uniform" && options.distribution != "zipfian" &&
      options.distribution != "scrambled") {
    return absl::InvalidArgumentError(
        StrCat("distribution ", options.distribution, " must be uniform, zipfian or scrambled"));
  }
  std::unique_ptr<Zipfian> zipfian;
  if (options.distribution != "uniform") {
    if (options.zipf_constant <= 0 || options.zipf_constant >= 1)
      return absl::InvalidArgumentError(
          StrCat("zipf constant ", options.zipf_constant, " must be in (0, 1)"));
    zipfian = std::make_unique<Zipfian>(options.records, options.zipf_constant);
  }
  const uint64_t retries_before = client->retries();
  const Nanos start = Now();
  Shared shared{options,      client,        write_percent,
                scan_percent, zipfian.get(), options.distribution == "scrambled",
                start};
  Notification done;
  std::unique_ptr<Thread> progress;
  if (options.progress)
    progress = std::make_unique<Thread>("bench.progress", [&] { Progress(&shared, start, &done); });
  {
    std::vector<std::unique_ptr<Thread>> workers;
    for (int i = 0; i < options.threads; ++i) {
      workers.push_back(std::make_unique<Thread>(StrCat("bench.", i),
                                                 [&shared, seed = RandomSeed()] { Worker(&shared, seed); }));
    }
  }
  const double seconds = static_cast<double>(Now() - start) * 1e-9;
  done.Notify();
  progress = nullptr;
  BenchReport report{.text = Report(shared, seconds, client->retries() - retries_before),
                     .failed = shared.failed.load()};
  if (!shared.first_error.empty()) report.text += "first failure: " + shared.first_error + "\n";
  return report;
}

}  // namespace nova
