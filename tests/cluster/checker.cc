// nova_checker: judges a cluster from outside: a process of its own that remembers every acknowledged write.
//
//   nova_checker COORDINATORS THREADS KEYS VALUE_BYTES
//
// Each thread owns its keys: puts, deletes and gets on them, one at a time, so that what a get may return is
// known exactly: the last acknowledged version, or one sent later whose outcome is unknown; a version once
// read stays (H6). Prints a line a second: "second S ok N failed N unknown N worst_ms M" (worst: the longest
// a thread went without a completed operation). On the line "verify" on stdin it stops, reads every key by
// get and by scan, prints "verified KEYS keys, W acknowledged writes" and exits 0. At the first violation it
// prints "VIOLATION ..." and exits 1.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/thread.h"

namespace nova {
namespace {

// What a key may hold. Versions count up; 0 is "never written".
struct KeyState {
  uint64_t next = 1;
  uint64_t settled = 0;              // acknowledged, or read
  bool settled_deleted = true;       // version 0 is absence
  std::map<uint64_t, bool> unknown;  // newer than settled, outcome unknown; true: a delete
};

struct Shared {
  Client* client;
  size_t value_bytes;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> ok{0}, failed{0}, unknown{0}, acknowledged{0};
};

[[noreturn]] void Violation(const std::string& text) {
  std::printf("VIOLATION %s\n", text.c_str());
  std::fflush(stdout);
  _exit(1);
}

std::string ValueOf(const std::string& key, uint64_t version, size_t bytes) {
  std::string value = StrCat(key, "=", version, ";");
  if (value.size() < bytes) value.append(bytes - value.size(), static_cast<char>('a' + version % 26));
  return value;
}

// What a read returned, against what may be there.
void Judge(const std::string& key, KeyState* state, const std::optional<std::string>& value,
           size_t value_bytes, const char* how) {
  uint64_t version = 0;
  if (value) {
    const std::string prefix = key + "=";
    const size_t end = value->find(';');
    if (!value->starts_with(prefix) || end == std::string::npos ||
        !absl::SimpleAtoi(value->substr(prefix.size(), end - prefix.size()), &version) ||
        *value != ValueOf(key, version, value_bytes)) {
      Violation(StrCat(how, " of ", key, " returned bytes nobody wrote"));
    }
    if (version == state->settled && !state->settled_deleted) return;
    const auto it = state->unknown.find(version);
    if (it == state->unknown.end() || it->second) {
      Violation(StrCat(how, " of ", key, " returned version ", version, ", the last acknowledged is ",
                       state->settled));
    }
    state->settled = version;
    state->settled_deleted = false;
  } else {
    if (state->settled_deleted) return;
    // An absent key: one of the deletes of unknown outcome; which, only the newest possible matters.
    const auto it =
        std::find_if(state->unknown.rbegin(), state->unknown.rend(), [](const auto& u) { return u.second; });
    if (it == state->unknown.rend()) {
      Violation(StrCat(how, " of ", key, " found nothing, version ", state->settled, " was acknowledged"));
    }
    // It may be any of them, so none newer than the oldest is ruled out.
    const auto oldest =
        std::find_if(state->unknown.begin(), state->unknown.end(), [](const auto& u) { return u.second; });
    state->settled = oldest->first;
    state->settled_deleted = true;
  }
  state->unknown.erase(state->unknown.begin(), state->unknown.upper_bound(state->settled));
}

class Worker {
 public:
  Worker(Shared* shared, std::vector<std::string> keys)
      : shared_(shared), keys_(std::move(keys)), states_(keys_.size()) {}

  void Run() {
    last_ns_.store(Now());
    while (!shared_->stop.load()) {
      Step(random_.Uniform(keys_.size()));
      const Nanos now = Now();
      const Nanos gap = now - last_ns_.exchange(now);
      if (gap > worst_ns_.load()) worst_ns_.store(gap);
    }
  }
  // The longest gap since the last call, the running one included.
  Nanos TakeWorst() { return std::max(worst_ns_.exchange(0), Now() - last_ns_.load()); }

  void Verify() {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const GetResult r = shared_->client->Get(keys_[i]);
      if (!r.ok() && r.outcome != Outcome::kNotFound)
        Violation(StrCat("final get of ", keys_[i], " failed: ", r.message));
      Judge(keys_[i], &states_[i], r.ok() ? std::optional(r.value) : std::nullopt, shared_->value_bytes,
            "final get");
    }
  }
  void VerifyScan(const std::map<std::string, std::string>& all) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const auto it = all.find(keys_[i]);
      Judge(keys_[i], &states_[i], it == all.end() ? std::nullopt : std::optional(it->second),
            shared_->value_bytes, "scan");
    }
  }

 private:
  void Step(size_t i) {
    const std::string& key = keys_[i];
    KeyState* state = &states_[i];
    const uint64_t dice = random_.Uniform(100);
    if (dice < 40) {
      const GetResult r = shared_->client->Get(key);
      if (r.ok() || r.outcome == Outcome::kNotFound) {
        Judge(key, state, r.ok() ? std::optional(r.value) : std::nullopt, shared_->value_bytes, "get");
        shared_->ok.fetch_add(1);
      } else {
        Failed(r);
      }
      return;
    }
    const bool remove = dice >= 92;
    const uint64_t version = state->next++;
    const Result r = remove ? shared_->client->Delete(key)
                            : shared_->client->Put(key, ValueOf(key, version, shared_->value_bytes));
    switch (r.effect()) {
      case Effect::kApplied:
        state->settled = version;
        state->settled_deleted = remove;
        state->unknown.clear();  // older ones cannot come up over it
        shared_->ok.fetch_add(1);
        shared_->acknowledged.fetch_add(1);
        break;
      case Effect::kNotApplied:
        Failed(r);
        break;
      case Effect::kUnknown:
        state->unknown[version] = remove;
        shared_->unknown.fetch_add(1);
        break;
    }
  }
  void Failed(const Result& r) {
    if (shared_->failed.fetch_add(1) < 5) std::fprintf(stderr, "failed: %s\n", r.message.c_str());
  }

  Shared* const shared_;
  const std::vector<std::string> keys_;
  std::vector<KeyState> states_;
  Random random_;
  std::atomic<Nanos> last_ns_{0};
  std::atomic<Nanos> worst_ns_{0};
};

void PrintSeconds(Shared* shared, const std::vector<std::unique_ptr<Worker>>* workers) {
  uint64_t ok = 0, failed = 0, unknown = 0;
  const Nanos start = Now();
  for (int second = 1; !shared->stop.load(); ++second) {
    SleepUntil(start + second * kSecond);
    Nanos worst = 0;
    for (const auto& w : *workers) worst = std::max(worst, w->TakeWorst());
    const uint64_t o = shared->ok.load(), f = shared->failed.load(), u = shared->unknown.load();
    std::printf("second %d ok %llu failed %llu unknown %llu worst_ms %lld\n", second,
                static_cast<unsigned long long>(o - ok), static_cast<unsigned long long>(f - failed),
                static_cast<unsigned long long>(u - unknown), static_cast<long long>(worst / kMillisecond));
    std::fflush(stdout);
    ok = o;
    failed = f;
    unknown = u;
  }
}

int Main(int argc, char** argv) {
  int threads;
  uint64_t keys, value_bytes;
  if (argc != 5 || !absl::SimpleAtoi(argv[2], &threads) || !absl::SimpleAtoi(argv[3], &keys) ||
      !absl::SimpleAtoi(argv[4], &value_bytes)) {
    std::fprintf(stderr, "usage: nova_checker COORDINATORS THREADS KEYS VALUE_BYTES\n");
    return 2;
  }
  ClientOptions options;
  options.coordinators = absl::StrSplit(argv[1], ',');
  const Nanos until = Now() + 30 * kSecond;  // an election may be under way
  auto client = Client::Connect(options);
  while (!client.ok() && Now() < until) {
    SleepFor(kSecond);
    client = Client::Connect(options);
  }
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", std::string(client.status().message()).c_str());
    return 2;
  }
  Shared shared{client->get(), value_bytes};
  std::vector<std::unique_ptr<Worker>> workers;
  for (int t = 0; t < threads; ++t) {
    std::vector<std::string> own;
    // Spread over the key space as YCSB's keys are, so that every range takes part.
    for (uint64_t k = static_cast<uint64_t>(t); k < keys; k += static_cast<uint64_t>(threads)) {
      own.push_back(StrCat("user", 1'000'000'000'000'000'000 + k * (8'200'000'000'000'000'000 / keys)));
    }
    workers.push_back(std::make_unique<Worker>(&shared, std::move(own)));
  }
  {
    std::vector<std::unique_ptr<Thread>> running;
    for (auto& w : workers)
      running.push_back(std::make_unique<Thread>("checker", [w = w.get()] { w->Run(); }));
    Thread printer("checker.print", [&] { PrintSeconds(&shared, &workers); });
    std::string line;
    while (std::getline(std::cin, line) && line != "verify") {
    }
    shared.stop.store(true);
  }
  for (auto& w : workers) w->Verify();
  const ScanResult scan = (*client)->Scan("", ScanOptions{});  // keys of others too
  if (!scan.ok()) Violation("final scan failed: " + scan.message);
  for (size_t i = 1; i < scan.entries.size(); ++i) {
    if (scan.entries[i - 1].first >= scan.entries[i].first)
      Violation("the scan is out of order at " + scan.entries[i].first);
  }
  const std::map<std::string, std::string> all(scan.entries.begin(), scan.entries.end());
  for (auto& w : workers) w->VerifyScan(all);
  std::printf("verified %llu keys, %llu acknowledged writes, %llu failed, %llu unknown, %llu retries\n",
              static_cast<unsigned long long>(keys),
              static_cast<unsigned long long>(shared.acknowledged.load()),
              static_cast<unsigned long long>(shared.failed.load()),
              static_cast<unsigned long long>(shared.unknown.load()),
              static_cast<unsigned long long>((*client)->retries()));
  std::fflush(stdout);
  return 0;
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) { return nova::Main(argc, argv); }
