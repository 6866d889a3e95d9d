#include "tests/cluster_sim/scenario.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr int kKeyStep = 12;  // spreads 80 keys over all ranges

thread_local uint64_t g_seed = 0;  // of the running simulation

bool Verbose() {
  static const bool verbose = std::getenv("NOVA_SIM_LOG") != nullptr;
  return verbose;
}

void PrintLog(LogSeverity severity, const char* file, int line, std::string_view text) {
  if (!Verbose() && severity < LogSeverity::kFatal) return;
  if (severity == LogSeverity::kFatal) std::fprintf(stderr, "NOVA_SIM_SEED=%llu\n", static_cast<unsigned long long>(g_seed));
  const Simulation* const sim = Simulation::Current();
  std::fprintf(stderr, "%12.6f %s:%d] %.*s\n", sim == nullptr ? 0.0 : static_cast<double>(sim->now()) / kSecond, file, line,
               static_cast<int>(text.size()), text.data());
}

}  // namespace

std::optional<uint64_t> SeedFromEnvironment() {
  const char* const text = std::getenv("NOVA_SIM_SEED");
  uint64_t seed = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &seed)) return std::nullopt;
  return seed;
}

void SetUpSimLog(Simulation* sim, uint64_t seed) {
  g_seed = seed;
  SetLogOutput(PrintLog);
  if (!Verbose()) return;
  sim->set_trace_output([sim](std::string_view line) {
    if (line.starts_with("net ") && !line.starts_with("net kills")) return;
    std::fprintf(stderr, "%12.6f trace: %.*s\n", static_cast<double>(sim->now()) / kSecond, static_cast<int>(line.size()), line.data());
  });
}

void Simulate(uint64_t seed, const std::function<void()>& body) {
  Simulation sim(seed);
  SetUpSimLog(&sim, seed);
  sim.Run(body);
}

OneRange::OneRange(const SimClusterOptions& options, int ranges) : cluster(options) {
  cluster.StartAll();
  client = cluster.NewClient("client-0");
  const Status created = client->CreateRanges(SplitKeys(ranges));
  NOVA_CHECK(created.ok()) << created;
  NOVA_CHECK(cluster.WaitOpen(static_cast<size_t>(ranges), 30 * kSecond)) << "the ranges do not open";
}

bool OneRange::WaitFor(Nanos within, const std::function<bool(const RangeRecord&)>& wanted) {
  for (const Nanos until = Now() + within; Now() < until; SleepFor(20 * kMillisecond)) {
    if (wanted(Record())) return true;
  }
  return false;
}

bool OneRange::WaitForOtherOwner(const std::string& than) {
  return WaitFor(30 * kSecond, [&](const RangeRecord& r) { return r.state == RangeState::kOpen && r.owner != than; });
}

std::string OneRange::StocOf(StocId id) {
  for (const std::string& name : cluster.Names("stoc")) {
    if (cluster.Runs(name) && cluster.stoc(name)->self().stoc_id == id) return name;
  }
  return "";
}

void OneRange::LosePower() {
  for (const char* kind : {"stoc", "ltc"}) {
    for (const std::string& name : cluster.Names(kind)) cluster.Kill(name);
  }
}

void OneRange::Restart() {
  for (const char* kind : {"stoc", "ltc"}) {
    for (const std::string& name : cluster.Names(kind)) {
      if (cluster.Runs(name)) continue;
      const Status started = cluster.Start(name);
      NOVA_CHECK(started.ok()) << name << ": " << started;
    }
  }
}

std::vector<std::string> SplitKeys(int ranges) {
  std::vector<std::string> splits;
  for (int i = 1; i < ranges; ++i) splits.push_back(KeyOf(i * 1000 / ranges));
  return splits;
}

std::string KeyOf(int i) { return StrCat("key", absl::Dec(i, absl::kZeroPad3)); }

Load::Load(Client* client, History* history, const LoadOptions& options, std::string* violation)
    : client_(client), history_(history), options_(options), violation_(violation) {}

void Load::Violation(const std::string& text) {
  if (violation_->empty()) *violation_ = text;
  Simulation::Current()->Trace("VIOLATION " + text);
}

void Load::Step() {
  SleepFor(static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(options_.pause_max_us) + 1)) * kMicrosecond);
  const int own = static_cast<int>(random_.Uniform(static_cast<uint64_t>(options_.keys)));
  const std::string key = OwnKey(own);
  const uint64_t dice = random_.Uniform(100);
  if (dice < 50) {
    Write(key, /*remove=*/false);
  } else if (dice < 56) {
    Write(key, /*remove=*/true);
  } else if (dice < 58) {
    DeleteRange(own, own + 1 + static_cast<int>(random_.Uniform(static_cast<uint64_t>(options_.keys - own))));
  } else if (dice < 95) {
    const std::vector<std::string> all = history_->Keys();  // also those of others: C3
    Read(random_.OneIn(2) || all.empty() ? key : all[random_.Uniform(all.size())], "get");
  } else {
    Scan(key, 1 + random_.Uniform(30), "scan");
  }
}

std::string Load::OwnKey(int i) const { return KeyOf((options_.first_key + i) * kKeyStep); }

void Load::Write(const std::string& key, bool remove) {
  const uint64_t version = history_->Begin(key, remove);
  const Result r = remove ? client_->Delete(key) : client_->Put(key, History::ValueOf(key, version, options_.value_bytes));
  history_->End(key, version, r.effect());
  Simulation::Current()->Trace(StrCat("write ", key, " ", version, remove ? " remove " : " ", static_cast<int>(r.outcome)));
}

// The keys of a client are neighbours: what it deletes is its own. Over two ranges it is two deletions, of one outcome.
void Load::DeleteRange(int from, int to) {
  std::vector<std::pair<std::string, uint64_t>> versions;
  for (int i = from; i < to; ++i) versions.emplace_back(OwnKey(i), history_->Begin(OwnKey(i), /*remove=*/true));
  const Result r = client_->DeleteRange(OwnKey(from), OwnKey(to));
  for (const auto& [key, version] : versions) history_->End(key, version, r.effect());
  Simulation::Current()->Trace(StrCat("delete-range ", from, " ", to, " ", static_cast<int>(r.outcome)));
}

bool Load::Read(const std::string& key, const char* how) {
  const History::Place settled = history_->Settled(key);
  const GetResult r = client_->Get(key);
  Simulation::Current()->Trace(StrCat(how, " ", key, " ", static_cast<int>(r.outcome), " ", r.value.substr(0, 12)));
  if (!r.ok() && r.outcome != Outcome::kNotFound) {
    if (r.outcome == Outcome::kCorruption || r.outcome == Outcome::kInternal) Violation(r.message);
    return false;
  }
  const std::string wrong = history_->Check(key, settled, r.ok() ? std::optional(r.value) : std::nullopt);
  if (!wrong.empty()) Violation(StrCat(how, " of ", wrong));
  return true;
}

bool Load::Scan(const std::string& from, size_t limit, const char* how) {
  std::map<std::string, History::Place> settled;
  for (const std::string& key : history_->Keys()) settled[key] = history_->Settled(key);
  const ScanResult r = client_->Scan(from, limit);
  Simulation::Current()->Trace(StrCat(how, " ", from, " ", static_cast<int>(r.outcome), " ", r.entries.size()));
  if (!r.ok()) {
    if (r.outcome == Outcome::kCorruption || r.outcome == Outcome::kInternal) Violation(r.message);
    return false;
  }
  std::map<std::string, std::string> found;
  for (const auto& [key, value] : r.entries) {
    if (key < from || (!found.empty() && key <= found.rbegin()->first)) Violation(StrCat(how, " out of order at ", key));
    found.emplace(key, value);
    settled.try_emplace(key);
  }
  for (const auto& [key, before] : settled) {
    if (key < from || (r.entries.size() == limit && key > found.rbegin()->first)) continue;
    const auto it = found.find(key);
    const std::string wrong = history_->Check(key, before, it == found.end() ? std::nullopt : std::optional(it->second));
    if (!wrong.empty()) Violation(StrCat(how, " of ", wrong));
  }
  return true;
}

void Load::Verify() {
  const Nanos until = Now() + 60 * kSecond;  // reads wait for leases, and these for a leader: one may have died last
  for (const std::string& key : history_->Keys()) {
    while (!Read(key, "final get")) {
      if (Now() > until) return Violation(StrCat("the final get of ", key, " failed"));
    }
  }
  while (!Scan("", 100'000, "final scan")) {
    if (Now() > until) return Violation("the final scan failed");
  }
}

}  // namespace nova
