#include "tests/cluster_sim/scenario.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr int kKeyStep = 12;  // spreads 80 keys over all ranges

// Keys beside those of the history have this in them.
constexpr char kOther = '~';
bool IsOther(const std::string& key) { return key.find(kOther) != std::string::npos; }

thread_local uint64_t g_seed = 0;  // of the running simulation

bool Verbose() {
  static const bool verbose = std::getenv("NOVA_SIM_LOG") != nullptr;
  return verbose;
}

void PrintLog(LogSeverity severity, const char* file, int line, std::string_view text) {
  if (!Verbose() && severity < LogSeverity::kFatal) return;
  if (severity == LogSeverity::kFatal)
    std::fprintf(stderr, "NOVA_SIM_SEED=%llu\n", static_cast<unsigned long long>(g_seed));
  const Simulation* const sim = Simulation::Current();
  std::fprintf(stderr, "%12.6f %s:%d] %.*s\n",
               sim == nullptr ? 0.0 : static_cast<double>(sim->now()) / kSecond, file, line,
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
    std::fprintf(stderr, "%12.6f trace: %.*s\n", static_cast<double>(sim->now()) / kSecond,
                 static_cast<int>(line.size()), line.data());
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
  return WaitFor(30 * kSecond,
                 [&](const RangeRecord& r) { return r.state == RangeState::kOpen && r.owner != than; });
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

std::string KeyBetween(int first_key, int n) { return KeyOf((first_key - 1) * kKeyStep + n); }

std::string SharedKeys::CheckAll() const {
  for (const auto& [key, shared] : keys) {
    if (const std::string wrong = shared.CheckAll(); !wrong.empty()) return StrCat(key, ": ", wrong);
  }
  return "";
}

Load::Load(Client* client, History* history, const LoadOptions& options, std::string* violation,
           SharedKeys* shared, Counts* counts)
    : client_(client),
      history_(history),
      options_(options),
      violation_(violation),
      shared_(shared),
      counts_(counts) {}

void Load::Violation(const std::string& text) {
  if (violation_->empty()) *violation_ = text;
  Simulation::Current()->Trace("VIOLATION " + text);
}

bool Load::Failed(const Result& r) {
  if (r.ok() || r.outcome == Outcome::kNotFound) return false;
  if (r.outcome == Outcome::kCorruption || r.outcome == Outcome::kInternal) Violation(r.message);
  return true;
}

void Load::Step() {
  SleepFor(static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(options_.pause_max_us) + 1)) *
           kMicrosecond);
  if (!options_.puts_only.empty())
    return Write(options_.puts_only[random_.Uniform(options_.puts_only.size())], /*remove=*/false);
  if (options_.reads_only) {
    const std::vector<std::string> all = history_->Keys();
    if (!all.empty()) Read(all[random_.Uniform(all.size())], "get by a reader");
    return;
  }
  const int own = static_cast<int>(random_.Uniform(static_cast<uint64_t>(options_.keys)));
  const std::string key = OwnKey(own);
  if (options_.all_kinds && random_.OneIn(3)) return StepOfAnyKind(own);
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

// Between the last own key and the next client's first: what no deletion of a range takes away.
std::string Load::BeyondOwnKeys() const { return KeyOf((options_.first_key + options_.keys) * kKeyStep - 1); }

void Load::Write(const std::string& key, bool remove) {
  const uint64_t version = history_->Begin(key, remove);
  const bool large = options_.large_value_bytes > 0 && random_.OneIn(40);
  Count(remove ? "delete" : large ? "put of a large value" : "put");
  const size_t bytes = large ? 2 * options_.large_value_bytes : options_.value_bytes;
  const Result r = remove ? client_->Delete(key) : client_->Put(key, History::ValueOf(key, version, bytes));
  history_->End(key, version, r.effect());
  Simulation::Current()->Trace(
      StrCat("write ", key, " ", version, remove ? " remove " : " ", static_cast<int>(r.outcome)));
}

// The keys of a client are neighbours: what it deletes is its own. Over two ranges it is two deletions, of
// one outcome.
void Load::DeleteRange(int from, int to) {
  std::vector<std::pair<std::string, uint64_t>> versions;
  for (int i = from; i < to; ++i)
    versions.emplace_back(OwnKey(i), history_->Begin(OwnKey(i), /*remove=*/true));
  Count("delete range");
  // not what lies beyond the last key
  const Result r = client_->DeleteRange(OwnKey(from), OwnKey(to - 1) + "!");
  for (const auto& [key, version] : versions) history_->End(key, version, r.effect());
  Simulation::Current()->Trace(StrCat("delete-range ", from, " ", to, " ", static_cast<int>(r.outcome)));
}

bool Load::Read(const std::string& key, const char* how) {
  const History::Place settled = history_->Settled(key);
  Count("get");
  const GetResult r = client_->Get(key);
  Simulation::Current()->Trace(
      StrCat(how, " ", key, " ", static_cast<int>(r.outcome), " ", r.value.substr(0, 12)));
  if (Failed(r)) return false;
  const std::string wrong = history_->Check(key, settled, r.ok() ? std::optional(r.value) : std::nullopt);
  if (!wrong.empty()) Violation(StrCat(how, " of ", wrong));
  return true;
}

ScanResult Load::Iterate(const std::string& from, size_t limit) {
  ScanResult all;
  const auto it = client_->NewIterator({.lower = from});
  for (it->SeekToFirst(); it->Valid() && all.entries.size() < limit; it->Next())
    all.entries.emplace_back(it->key(), it->value());
  if (all.entries.size() < limit) static_cast<Result&>(all) = it->result();
  return all;
}

bool Load::Scan(const std::string& from, size_t limit, const char* how) {
  std::map<std::string, History::Place> settled;
  for (const std::string& key : history_->Keys()) settled[key] = history_->Settled(key);
  Count("scan");
  const ScanResult r = random_.OneIn(3) ? Iterate(from, limit) : client_->Scan(from, limit);
  Simulation::Current()->Trace(
      StrCat(how, " ", from, " ", static_cast<int>(r.outcome), " ", r.entries.size()));
  if (Failed(r) || !r.ok()) return false;
  std::map<std::string, std::string> found;
  for (const auto& [key, value] : r.entries) {
    if (key < from || (!found.empty() && key <= found.rbegin()->first))
      Violation(StrCat(how, " out of order at ", key));
    found.emplace(key, value);
    if (!IsOther(key)) settled.try_emplace(key);
  }
  for (const auto& [key, before] : settled) {
    if (key < from || (r.entries.size() == limit && key > found.rbegin()->first)) continue;
    const auto it = found.find(key);
    const std::string wrong =
        history_->Check(key, before, it == found.end() ? std::nullopt : std::optional(it->second));
    if (!wrong.empty()) Violation(StrCat(how, " of ", wrong));
  }
  return true;
}

// --- all kinds

void Load::StepOfAnyKind(int i) {
  switch (random_.Uniform(10)) {
    case 0:
      return CompareAndSwap(OwnKey(i));
    case 1:
      return Batch(i);
    case 2:
      return WritePair(i);
    case 3:
      return ReadPair(i);
    case 4:
      return MultiGet();
    case 5:
      return Snapshot(i);
    case 6:
      return TimeToLive(i);
    default:
      return Shared();
  }
}

void Load::CompareAndSwap(const std::string& key) {
  const History::Place settled = history_->Settled(key);
  const GetResult was = client_->Get(key);
  if (Failed(was)) return;
  const auto expected = was.ok() ? std::optional<std::string>(was.value) : std::nullopt;
  const std::string wrong = history_->Check(key, settled, expected);
  if (!wrong.empty()) return Violation(StrCat("get before a swap of ", wrong));
  const uint64_t version = history_->Begin(key, /*remove=*/false);
  Count("compare and swap");
  const Result r =
      client_->CompareAndSwap(key, expected, History::ValueOf(key, version, options_.value_bytes));
  history_->End(key, version, r.effect());
}

// Of neighbours, which may lie in two ranges: then it is refused.
void Load::Batch(int i) {
  WriteBatch batch;
  std::vector<std::pair<std::string, uint64_t>> versions;
  for (int n = i; n < std::min(i + 3, options_.keys); ++n) {
    const std::string key = OwnKey(n);
    const bool remove = random_.OneIn(6);
    versions.emplace_back(key, history_->Begin(key, remove));
    remove ? batch.Delete(key)
           : batch.Put(key, History::ValueOf(key, versions.back().second, options_.value_bytes));
  }
  Count("batch");
  const Result r = client_->Write(batch);
  for (const auto& [key, version] : versions) history_->End(key, version, r.effect());
}

void Load::WritePair(int i) {
  const std::string key = OwnKey(i) + kOther;
  const std::string value = StrCat(++pairs_[key], std::string(100, 'p'));
  WriteBatch batch;
  batch.Put(key + "a", value);
  batch.Put(key + "b", value);
  Count("batch");
  client_->Write(batch);
}

void Load::ReadPair(int i) {
  const std::string key = OwnKey(i) + kOther, first = key + "a", second = key + "b";
  const std::string_view keys[] = {first, second};
  Count("multi-get");
  const MultiGetResult r = client_->MultiGet(keys);
  Failed(r);
  if (r.ok() && r.values[0] != r.values[1]) {
    Violation(StrCat("a part of a batch: ", first, " ", r.values[0].value_or("-").substr(0, 12), ", ", second,
                     " ", r.values[1].value_or("-").substr(0, 12)));
  }
}

void Load::MultiGet() {
  std::vector<std::string> keys = history_->Keys();
  if (keys.empty()) return;
  std::vector<std::string> some;
  for (int n = 0; n < 5; ++n) some.push_back(keys[random_.Uniform(keys.size())]);
  std::vector<History::Place> settled;
  for (const std::string& key : some) settled.push_back(history_->Settled(key));
  Count("multi-get");
  const MultiGetResult r = client_->MultiGet(std::vector<std::string_view>(some.begin(), some.end()));
  Failed(r);
  for (size_t n = 0; r.ok() && n < some.size(); ++n) {
    const std::string wrong = history_->Check(some[n], settled[n], r.values[n]);
    if (!wrong.empty()) return Violation(StrCat("multi-get of ", wrong));
  }
}

// What it shows at first is as a read's; later it shows the same, whatever was written.
void Load::Snapshot(int i) {
  const std::string key = OwnKey(i);
  const History::Place settled = history_->Settled(key);
  const SnapshotResult taken = client_->TakeSnapshot();
  if (!taken.ok()) return;
  Count("snapshot");
  const GetResult first = client_->Get(key, {taken.snapshot});
  if (Failed(first)) return;
  const std::string wrong =
      history_->Check(key, settled, first.ok() ? std::optional(first.value) : std::nullopt);
  if (!wrong.empty()) return Violation(StrCat("snapshot of ", wrong));
  Write(key, /*remove=*/false);
  SleepFor(static_cast<Nanos>(random_.Uniform(200)) * kMillisecond);
  const GetResult again = client_->Get(key, {taken.snapshot});
  if (Failed(again)) return;
  if (again.outcome != first.outcome || again.value != first.value)
    Violation(StrCat("a snapshot of ", key, " has changed"));
}

// A key of its own each time: written once, and not found later than its time and the errors of clocks allow.
void Load::TimeToLive(int i) {
  const std::string key = StrCat(BeyondOwnKeys(), std::string(1, kOther), "t", i, "-", pairs_["ttl"]++);
  const auto ttl_ms = static_cast<int64_t>(20 + random_.Uniform(600));
  Count("time to live");
  const int64_t begin = WallNowMs();
  const Result put = client_->Put(key, "short-lived", {.ttl_ms = ttl_ms});
  const int64_t put_end = WallNowMs();
  SleepFor(static_cast<Nanos>(random_.Uniform(800)) * kMillisecond);
  const int64_t read_begin = WallNowMs();
  const GetResult r = client_->Get(key);
  if (Failed(r)) return;
  if (r.ok() && put.ok() && read_begin > put_end + ttl_ms) Violation(StrCat(key, " outlives its time"));
  if (!r.ok() && put.ok() && WallNowMs() < begin + ttl_ms) Violation(StrCat(key, " is gone before its time"));
}

void Load::Shared() {
  if (shared_ == nullptr) return;
  const auto whose = static_cast<int>(random_.Uniform(4));
  const std::string key = StrCat(KeyOf(whose * options_.keys * kKeyStep + options_.keys * kKeyStep - 1),
                                 std::string(1, kOther), "s");
  SharedRegister& shared = shared_->keys[key];
  Nanos begin = Now();
  const bool swap = random_.OneIn(3);
  std::optional<std::string> expected;
  if (swap || random_.OneIn(2)) {
    Count("get of a shared key");
    const GetResult r = client_->Get(key);
    if (Failed(r)) return;
    if (r.ok()) expected = r.value;
    shared.Read(expected, begin, Now());
    if (!swap) return;
  }
  const std::string value = StrCat(key, " ", ++shared_->writes);
  begin = Now();
  const auto operation = shared.BeginWrite(value, begin);
  Count(swap ? "compare and swap of a shared key" : "put of a shared key");
  const Result r = swap ? client_->CompareAndSwap(key, expected, value) : client_->Put(key, value);
  shared.EndWrite(operation, r.effect(), Now());
  if (swap && r.ok()) shared.Read(expected, begin, Now());  // it found what it expected
}

void Load::Verify() {
  // reads wait for leases, and these for a leader: one may have died last
  const Nanos until = Now() + 60 * kSecond;
  for (const std::string& key : history_->Keys()) {
    while (!Read(key, "final get")) {
      if (Now() > until) return Violation(StrCat("the final get of ", key, " failed"));
    }
  }
  while (!Scan("", 100'000, "final scan")) {
    if (Now() > until) return Violation("the final scan failed");
  }
  if (shared_ == nullptr) return;
  for (auto& [key, shared] : shared_->keys) {
    for (;;) {
      const Nanos begin = Now();
      const GetResult r = client_->Get(key);
      if (r.ok() || r.outcome == Outcome::kNotFound) {
        shared.Read(r.ok() ? std::optional(r.value) : std::nullopt, begin, Now());
        break;
      }
      if (Now() > until) return Violation(StrCat("the final get of ", key, " failed"));
    }
  }
  if (const std::string wrong = shared_->CheckAll(); !wrong.empty()) Violation(wrong);
}

}  // namespace nova
