#include "tests/cluster/fault_rounds.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"

namespace nova {
namespace {

constexpr int kRanges = 16;
constexpr int kLtcs = 3;
constexpr int kStocs = 4;
// Each StoC keeps one to each other that it has copied from or compacted with; both ends count it.
constexpr int kConnectionsAmongStocs = 2 * kStocs * (kStocs - 1);
constexpr int kCoordinators = 2;
constexpr Nanos kLease = 2 * kSecond;
constexpr Nanos kCalm = 6 * kSecond;              // under load, before anything is counted
constexpr Nanos kUntilCollected = 240 * kSecond;  // a StoC's garbage: its grace is 60 s

size_t EntriesOf(const std::string& directory) {
  std::error_code ignored;
  size_t n = 0;
  for (auto it = std::filesystem::directory_iterator(directory, ignored);
       it != std::filesystem::directory_iterator(); it.increment(ignored))
    ++n;
  return n;
}

int64_t ResidentMb(pid_t pid) {
  std::ifstream statm(StrCat("/proc/", pid, "/statm"));
  int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

std::string RoleOf(const std::string& name) { return name.substr(0, name.find('-')); }

}  // namespace

ProcessClusterOptions FaultRounds::ClusterOptions() {
  ProcessClusterOptions options;
  options.coordinators = kCoordinators;
  options.ltcs = kLtcs;
  options.stocs = kStocs;
  options.ranges = kRanges;
  options.stoc_flags = {"--open_files=16"};  // descriptors that are kept are not ones that leaked
  options.ltc_flags = {"--table_replicas=2", "--memtable_mb=1", "--table_mb=1", "--level1_mb=4"};
  // Ranges go from an LTC with Dranges in memory and in Level0 to others, one of which has StoCs compact, and
  // back.
  options.node_flags["ltc-1"] = {"--dranges=16", "--least_table_kb=64", "--memtable_partitioning=drange",
                                 "--active_memtables=4", "--lookup_index"};
  options.node_flags["ltc-0"] = {"--compaction_offload=round_robin"};
  return options;
}

FaultRounds::FaultRounds(ProcessCluster* cluster, uint64_t seed) : cluster_(cluster), random_(seed) {}

const std::vector<FaultRounds::Fault>& FaultRounds::Faults() {
  static const auto* const faults = new std::vector<Fault>{
      {"an LTC is killed", 4, &FaultRounds::LtcKilled},
      {"a StoC is killed", 5, &FaultRounds::StocKilled},
      {"the leading coordinator is killed", 2, &FaultRounds::LeaderKilled},
      {"ZooKeeper is killed", 1, &FaultRounds::ZookeeperKilled},
      {"an LTC stands still", 3, &FaultRounds::LtcStandsStill},
      {"an LTC stands still past its lease", 3, &FaultRounds::LtcSleepsPastItsLease},
      {"a StoC stands still", 4, &FaultRounds::StocStandsStill},
      {"the leading coordinator stands still", 2, &FaultRounds::LeaderStandsStill},
      {"ZooKeeper stands still", 1, &FaultRounds::ZookeeperStandsStill},
      {"an LTC ends in order", 3, &FaultRounds::LtcEnds},
      {"a StoC ends in order", 3, &FaultRounds::StocEnds},
      {"a coordinator ends in order", 1, &FaultRounds::CoordinatorEnds},
      {"an LTC is drained", 2, &FaultRounds::LtcDrained},
      {"a StoC is drained", 1, &FaultRounds::StocDrained},
      {"an LTC and a StoC are killed", 2, &FaultRounds::LtcAndStocKilled},
      {"an LTC is killed while a StoC stands still", 1, &FaultRounds::LtcKilledWhileAStocStandsStill},
      {"an LTC and the leading coordinator are killed", 1, &FaultRounds::LtcAndLeaderKilled},
      {"everything is killed", 1, &FaultRounds::EverythingKilled},
  };
  return *faults;
}

const FaultRounds::Fault& FaultRounds::Deal() {
  if (deck_.empty()) {
    for (const Fault& f : Faults()) deck_.insert(deck_.end(), static_cast<size_t>(f.cards), &f);
    for (size_t i = deck_.size() - 1; i > 0; --i) std::swap(deck_[i], deck_[random_.Uniform(i + 1)]);
  }
  const Fault* const top = deck_.back();
  deck_.pop_back();
  return *top;
}

std::string FaultRounds::Any(const std::string& role) {
  return StrCat(role, "-", random_.Uniform(role == "ltc" ? kLtcs : role == "stoc" ? kStocs : kCoordinators));
}

// Waits for an election that is under way.
std::string FaultRounds::Leader() {
  for (const Nanos until = Now() + 30 * kSecond; Now() < until; SleepFor(50 * kMillisecond)) {
    const std::string leader = cluster_->LeadingCoordinator();
    if (!leader.empty()) return leader;
  }
  ADD_FAILURE() << "no coordinator leads";
  return "coordinator-0";
}

Nanos FaultRounds::Between(Nanos least, Nanos most) {
  return least + static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(most - least)));
}

void FaultRounds::Serves(const std::string& after) {
  const Nanos took = probe_->Round(after);
  longest_ns_ = std::max(longest_ns_, took);
  absl::StrAppend(&told_, "; ", after, ": ", took / kMillisecond, " ms");
}

void FaultRounds::KillThem(const std::vector<std::string>& victims) {
  for (const std::string& v : victims) {
    cluster_->Kill(v);
    absl::StrAppend(&told_, " ", v);
  }
  Serves("without");
  for (const std::string& v : victims) {
    const Status back = cluster_->Restart(v);
    ASSERT_TRUE(back.ok()) << back;
  }
  Serves("back");
}

void FaultRounds::StandStill(const std::string& victim, Nanos for_ns) {
  absl::StrAppend(&told_, " ", victim, " for ", for_ns / kMillisecond, " ms");
  cluster_->Signal(victim, SIGSTOP);
  SleepFor(for_ns);
  cluster_->Signal(victim, SIGCONT);
  Serves("awake");
}

// 1: it had lost ranges just before, or could not hand all over.
void FaultRounds::EndInOrder(const std::string& victim) {
  absl::StrAppend(&told_, " ", victim);
  const auto code = cluster_->Stop(victim, Now() + 75 * kSecond);
  ASSERT_TRUE(code.ok()) << victim << ": " << code.status();
  EXPECT_LE(*code, 1) << victim;
  Serves("without");
  const Status back = cluster_->Restart(victim);
  ASSERT_TRUE(back.ok()) << back;
  Serves("back");
}

void FaultRounds::Drain(const std::string& victim) {
  // One that stood still in the round before may have to join again first.
  std::string said;
  int code = cluster_->Nova({"drain", "--force", victim}, &said);
  for (const Nanos until = Now() + 15 * kSecond; said.find("no node") != said.npos && Now() < until;) {
    SleepFor(200 * kMillisecond);
    said.clear();
    code = cluster_->Nova({"drain", "--force", victim}, &said);
  }
  EXPECT_EQ(code, 0) << victim << ": " << said;
  EndInOrder(victim);
  said.clear();
  EXPECT_EQ(cluster_->Nova({"undrain", victim}, &said), 0) << victim << ": " << said;
}

void FaultRounds::LtcKilled() { KillThem({Any("ltc")}); }
void FaultRounds::StocKilled() { KillThem({Any("stoc")}); }
void FaultRounds::LeaderKilled() { KillThem({Leader()}); }
void FaultRounds::LtcAndStocKilled() { KillThem({Any("ltc"), Any("stoc")}); }
void FaultRounds::LtcAndLeaderKilled() { KillThem({Any("ltc"), Leader()}); }

void FaultRounds::ZookeeperKilled() {
  cluster_->zookeeper()->Kill();
  SleepFor(Between(0, 2 * kSecond));
  const Status back = cluster_->zookeeper()->Restart();
  ASSERT_TRUE(back.ok()) << back;
  Serves("back");
}

void FaultRounds::LtcStandsStill() { StandStill(Any("ltc"), Between(50 * kMillisecond, kLease)); }
void FaultRounds::StocStandsStill() { StandStill(Any("stoc"), Between(50 * kMillisecond, 6 * kSecond)); }
void FaultRounds::LeaderStandsStill() { StandStill(Leader(), Between(50 * kMillisecond, 6 * kSecond)); }

// Its ranges serve elsewhere by the time it wakes, and go on to when it has.
void FaultRounds::LtcSleepsPastItsLease() {
  const std::string victim = Any("ltc");
  absl::StrAppend(&told_, " ", victim);
  cluster_->Signal(victim, SIGSTOP);
  Serves("asleep");
  cluster_->Signal(victim, SIGCONT);
  Serves("awake");
}

void FaultRounds::ZookeeperStandsStill() {
  const Nanos for_ns = Between(50 * kMillisecond, 6 * kSecond);
  absl::StrAppend(&told_, " for ", for_ns / kMillisecond, " ms");
  cluster_->zookeeper()->Pause();
  SleepFor(for_ns);
  cluster_->zookeeper()->Resume();
  Serves("awake");
}

void FaultRounds::LtcEnds() { EndInOrder(Any("ltc")); }
void FaultRounds::StocEnds() { EndInOrder(Any("stoc")); }
void FaultRounds::CoordinatorEnds() { EndInOrder(Any("coordinator")); }
void FaultRounds::LtcDrained() { Drain(Any("ltc")); }
void FaultRounds::StocDrained() { Drain(Any("stoc")); }

void FaultRounds::LtcKilledWhileAStocStandsStill() {
  const std::string stoc = Any("stoc");
  absl::StrAppend(&told_, " ", stoc, " stands still,");
  cluster_->Signal(stoc, SIGSTOP);
  KillThem({Any("ltc")});
  cluster_->Signal(stoc, SIGCONT);
  Serves("awake");
}

void FaultRounds::EverythingKilled() {
  for (const std::string& name : cluster_->names()) cluster_->Kill(name);
  for (const char* role : {"coordinator-", "stoc-", "ltc-"}) {
    for (const std::string& name : cluster_->names()) {
      if (!name.starts_with(role)) continue;
      const Status back = cluster_->Restart(name);
      ASSERT_TRUE(back.ok()) << back;
    }
  }
  Serves("back");
}

FaultRounds::Counts FaultRounds::CountNow() const {
  Counts counts;
  const auto most = [&](const std::string& name, int64_t n) { counts[name] = std::max(counts[name], n); };
  for (const std::string& name : cluster_->names()) {
    const pid_t pid = cluster_->pid(name);
    const std::string role = RoleOf(name);
    most(role + " descriptors", static_cast<int64_t>(EntriesOf(StrCat("/proc/", pid, "/fd"))));
    most(role + " threads", static_cast<int64_t>(EntriesOf(StrCat("/proc/", pid, "/task"))));
    most(role + " resident MB", ResidentMb(pid));
    if (role != "stoc") continue;
    const std::string page = cluster_->metrics_address(name);
    counts["log segments"] += ReadMetric(page, "nova_stoc_segments");
    counts["files"] += ReadMetric(page, "nova_stoc_files");
    counts["stored MB"] += ReadMetric(page, "nova_stoc_stored_bytes") >> 20;
    counts["connections of StoCs"] += ReadMetric(page, "nova_fabric_connections");
  }
  counts["ZooKeeper nodes"] = cluster_->zookeeper()->NodeCount();
  return counts;
}

// Half as much again, and what a moment may differ from another by.
FaultRounds::Counts FaultRounds::Bounds(const Counts& before) {
  Counts bounds;
  for (const auto& [name, n] : before) {
    const int64_t slack = absl::EndsWith(name, " descriptors")   ? 24
                          : absl::EndsWith(name, " threads")     ? 8
                          : absl::EndsWith(name, " resident MB") ? 128
                          : name == "files"                      ? 20 * kRanges
                          : name == "stored MB"                  ? 64
                          : name == "log segments"               ? 8 * kRanges
                          : name == "connections of StoCs"       ? kConnectionsAmongStocs
                                                                 : 16;
    bounds[name] = n + n / 2 + slack;
  }
  return bounds;
}

void FaultRounds::ExpectWithin(const Counts& bounds) {
  const Nanos begun = Now();
  for (;;) {
    const Counts now = CountNow();
    std::string above;
    for (const auto& [name, bound] : bounds) {
      if (now.at(name) > bound) absl::StrAppend(&above, name, " ", now.at(name), " > ", bound, "; ");
    }
    if (above.empty() || Now() > begun + kUntilCollected) {
      EXPECT_EQ(above, "");
      for (const auto& [name, n] : now) {
        std::printf("%s: %lld, at most %lld\n", name.c_str(), static_cast<long long>(n),
                    static_cast<long long>(bounds.at(name)));
      }
      return;
    }
    SleepFor(kSecond);
  }
}

// Logs, manifests and tables are back to their number of copies: every StoC is, with its disk.
void FaultRounds::ExpectFullCopies() {
  std::string left;
  for (const Nanos until = Now() + 90 * kSecond; Now() < until; SleepFor(kSecond)) {
    left.clear();
    const std::string page = cluster_->metrics_address(Leader());
    for (const char* const what : {"log_groups", "manifests", "tables"}) {
      const int64_t n = ReadMetric(page, StrCat("nova_cluster_", what, "_degraded"));
      if (n != 0) absl::StrAppend(&left, what, " ", n, "; ");
    }
    if (left.empty()) return;
  }
  ADD_FAILURE() << "with fewer copies than there should be: " << left;
}

void FaultRounds::ExpectAllEndInOrder() {
  for (const std::string role : {"ltc-", "stoc-", "coordinator-"}) {
    for (const std::string& name : cluster_->names()) {
      if (!name.starts_with(role)) continue;
      EXPECT_TRUE(cluster_->Runs(name)) << name << " ended by itself";
      const auto code = cluster_->Stop(name, Now() + 60 * kSecond);
      ASSERT_TRUE(code.ok()) << name << ": " << code.status();
      EXPECT_EQ(*code, 0) << name;
    }
  }
}

void FaultRounds::Run(int rounds) {
  checker_ = std::make_unique<Checker>(cluster_->coordinators(), 4, 2000, 2000);
  writers_ = std::make_unique<Writers>(cluster_->coordinators(), &history_, 10 * kMillisecond);
  probe_ = std::make_unique<RangeProbe>(cluster_->coordinators(), kRanges);
  probe_->Round("the start");
  SleepFor(kCalm);
  const Counts before = CountNow();
  std::map<std::string, int> met;
  const Nanos begun = Now();
  int done = 0;
  for (; done < rounds && !testing::Test::HasFailure(); ++done) {
    const Fault& fault = Deal();
    const size_t operations = history_.size();
    told_.clear();
    (this->*fault.meet)();
    ++met[fault.name];
    checker_->SkipToNow();
    std::printf("round %d at %lld s: %s:%s; %zu operations\n", done + 1,
                static_cast<long long>((Now() - begun) / kSecond), fault.name, told_.c_str(),
                history_.size() - operations);
    std::fflush(stdout);
  }
  EXPECT_EQ(done, rounds);
  SleepFor(kCalm);
  ExpectWithin(Bounds(before));
  ExpectFullCopies();
  writers_ = nullptr;
  const std::string checked = checker_->Verify();
  EXPECT_TRUE(checked.starts_with("verified 2000 keys")) << checked;
  std::string linear;
  EXPECT_TRUE(history_.Judge(&linear)) << linear;
  EXPECT_EQ(probe_->stale(), 0);
  checker_ = nullptr;
  probe_ = nullptr;
  ExpectAllEndInOrder();
  for (const auto& [name, times] : met) std::printf("%3d times %s\n", times, name.c_str());
  std::printf("%d rounds in %lld s; longest time until all ranges served %lld ms\n%s\n%s\n", done,
              static_cast<long long>((Now() - begun) / kSecond),
              static_cast<long long>(longest_ns_ / kMillisecond), checked.c_str(), linear.c_str());
}

}  // namespace nova
