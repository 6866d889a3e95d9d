#include "tests/cluster_sim/chaos.h"

#include <algorithm>
#include <set>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "logc/log_record.h"
#include "tests/cluster_sim/deletion_watch.h"
#include "tests/cluster_sim/nemesis.h"
#include "tests/cluster_sim/status_oracle.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {
namespace {

constexpr Nanos kOpenWithin = 60 * kSecond;     // after all healed
constexpr Nanos kWholeRun = 20 * 60 * kSecond;  // virtual: something hangs
constexpr int64_t kMostPending = 64;            // of a process of a cluster that nobody asks
constexpr int64_t kMostConnections = 40;

constexpr int64_t kImpatientMs = 500;         // clients that do not know, and ask others rather than wait
constexpr Nanos kLook = 200 * kMillisecond;   // at what holds at every moment
constexpr int kLooksAStatus = 5;              // of them, after which the status is held against the disks
constexpr Nanos kWholeWithin = 90 * kSecond;  // a cluster that is open: redundancy, orphans

std::string DescribeRecords(SimCluster* cluster) {
  std::string text;
  for (const auto& [id, r] : cluster->Records()) {
    absl::StrAppend(&text, " | range ", id.value(), " epoch ", r.epoch.value(),
                    r.state == RangeState::kOpen ? " OPEN" : " SEALING", r.released ? " released" : "",
                    " owner ", r.owner, "/", r.owner_incarnation.value(), " groups ", r.log_groups.size());
  }
  return text;
}

void StartWhatIsDown(SimCluster* cluster, const std::string& lost_stoc) {
  for (const char* kind : {"coordinator", "stoc", "ltc"}) {
    for (const std::string& name : cluster->Names(kind)) {
      for (int tries = 0; name != lost_stoc && !cluster->Runs(name) && !cluster->Start(name).ok(); ++tries) {
        NOVA_CHECK(tries < 300) << name << " does not start again";
        SleepFor(200 * kMillisecond);
      }
    }
  }
}

// A nemesis that was stopped has not come to it.
void UndrainStocs(SimCluster* cluster) {
  for (const std::string& name : cluster->Names("stoc")) {
    for (int tries = 0; tries < 300; ++tries) {
      const Status s = cluster->NewCoordinatorClient().Undrain(name, Now() + kSecond);
      if (s.ok() || absl::IsNotFound(s)) break;
      SleepFor(200 * kMillisecond);
    }
  }
}

// --- what an operator would look at when all is over; empty: it is well

std::string LogsNotWhole(SimCluster* cluster, const ChaosOptions& options) {
  std::map<StocId, NodeInfo> live;
  for (const std::string& name : cluster->Names("stoc")) {
    if (cluster->Runs(name)) live[cluster->stoc(name)->self().stoc_id] = cluster->stoc(name)->self();
  }
  const size_t wanted = std::min(live.size(), static_cast<size_t>(options.cluster.ltc.hosted.log_replicas));
  for (const auto& [id, r] : cluster->Records()) {
    if (r.log_groups.size() != 1)
      return StrCat("range ", id.value(), " lists ", r.log_groups.size(), " log groups");
    const LogGroup& group = r.log_groups[0];
    const std::vector<LogMember>& members = group.members;
    const auto there =
        static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](const LogMember& m) {
          const auto it = live.find(m.stoc);
          return it != live.end() && group.Holds(m, it->second.incarnation, it->second.store);
        }));
    if (there < wanted)
      return StrCat("range ", id.value(), ": ", there, " of ", wanted, " log members are there");
  }
  return "";
}

// The same of manifests (M1): M members that live, or as many as there are StoCs.
std::string ManifestsNotWhole(SimCluster* cluster, const ChaosOptions& options) {
  std::set<StocId> live;
  for (const std::string& name : cluster->Names("stoc")) {
    if (cluster->Runs(name)) live.insert(cluster->stoc(name)->self().stoc_id);
  }
  const auto most = static_cast<size_t>(options.cluster.ltc.hosted.manifest_replicas);
  const auto wanted = std::min(live.size(), most);
  for (const auto& [id, r] : cluster->Records()) {
    const auto& members = r.manifest.members;
    const auto there = static_cast<size_t>(
        std::count_if(members.begin(), members.end(), [&](StocId stoc) { return live.contains(stoc); }));
    if (there < wanted) {
      return StrCat("range ", id.value(), ": ", there, " of ", wanted, " copies of its manifest are there");
    }
  }
  return "";
}

// Each part of a table has the copies that are configured, on StoCs that run (rebuild, S5); files that no
// manifest names there are gone (collection, N4). A StoC that is lost, and whose absence is waited for, has
// what it has. What no job of this epoch has made is left to the next one.
std::string TablesNotWhole(SimCluster* cluster, const ChaosOptions& options, bool waits_for_a_stoc) {
  const TableFiles tables = LookAtTables(cluster);
  if (!tables.error.empty()) return tables.error;
  const auto wanted = static_cast<size_t>(options.cluster.ltc.hosted.placement.replicas);
  if (tables.Missing() > 0 || (!waits_for_a_stoc && tables.ShortOf(wanted) > 0))
    return tables.ToString(wanted);
  const std::map<RangeId, RangeRecord> records = cluster->Records();
  for (const auto& [stoc, files] : tables.files) {
    for (const auto& [file, header] : files) {
      const Creator& creator = header.creator;
      const auto owner = records.find(creator.range);
      const auto named = tables.named.find(file);
      if (owner == records.end() || (named != tables.named.end() && named->second.contains(stoc))) continue;
      if (creator.epoch > owner->second.epoch || (creator.epoch == owner->second.epoch && creator.job == 0))
        continue;
      return StrCat("file ", file.ToString(), " of range ", owner->first.value(), " epoch ",
                    creator.epoch.value(), " job ", creator.job, ", the range's being ",
                    owner->second.epoch.value(), ", is left on StoC ", stoc.value());
    }
  }
  return "";
}

// --- what holds at every moment

// A member of a log has in its memory whatever was acknowledged: write-all (L3); and nobody else's bytes:
// revocation (F1), new key (F2). What was acknowledged, the records themselves say.
std::string CopiesThatLack(SimCluster* cluster) {
  const Simulation::Undisturbed all_of_one_moment;
  std::map<std::pair<Uuid, std::string>, std::set<uint64_t>> copies;  // of a log, on a StoC: whole records
  std::map<Uuid, uint64_t> acknowledged;                              // up to that record
  for (const std::string& name : cluster->Names("stoc")) {
    if (!cluster->Runs(name) || cluster->stoc(name) == nullptr) continue;
    cluster->stoc(name)->segments().ForEach([&](const Uuid& log, uint32_t, std::string_view bytes) {
      std::set<uint64_t>& whole = copies[{log, name}];
      for (;;) {
        const size_t length = PlausibleLogRecord(bytes, UINT32_MAX);
        const auto record = length == 0 ? std::nullopt : CheckLogRecord(log, bytes, length);
        if (!record) return;
        whole.insert(record->lsn);
        uint64_t& up_to = acknowledged[log];
        up_to = std::max(up_to, record->marks.acknowledged);
        bytes.remove_prefix(length);
      }
    });
  }
  for (const auto& [copy, whole] : copies) {
    for (uint64_t lsn = 1; lsn <= acknowledged[copy.first]; ++lsn) {
      if (whole.contains(lsn)) continue;
      return StrCat("log ", copy.first.ToString(), ": record ", lsn, " of ", acknowledged[copy.first],
                    " that were acknowledged is not on ", copy.second);
    }
  }
  return "";
}

// --- when all is over

// With nobody asking: requests end, and what they held is let go.
std::string StillHeld(SimCluster* cluster, const ChaosOptions& options) {
  // Of each range and thread an open log and a spare one on R members; twice, for a round that was sealed.
  // Segments that are kept for the next logs of a session are not among them: a StoC keeps as many as its log
  // memory has room for.
  const double segments = cluster->Metric("stoc", "nova_stoc_segments");
  if (segments >
      4.0 * options.ranges * options.cluster.ltc.xchg_threads * options.cluster.ltc.hosted.log_replicas) {
    return StrCat(segments, " log segments are open");
  }
  for (const char* kind : {"ltc", "stoc"}) {
    for (const std::string& name : cluster->Names(kind)) {
      if (!cluster->Runs(name)) continue;
      const FabricCounters c = cluster->fabric_counters(name);
      if (c.pending_requests > kMostPending)
        return StrCat(name, ": ", c.pending_requests, " requests are pending");
      if (c.connections > kMostConnections) return StrCat(name, ": ", c.connections, " connections are up");
    }
  }
  return "";
}

std::string WaitUntilEmpty(const std::function<std::string()>& wrong, Nanos within) {
  std::string text;
  for (const Nanos until = Now() + within; !(text = wrong()).empty() && Now() < until;) SleepFor(kSecond);
  return text;
}

// While nothing happens any more: for as long as it takes until a promise is broken.
std::string BrokenPromise(StatusOracle* oracle) {
  std::string text;
  for (const Nanos until = Now() + StatusOracle::kLate + 2 * kSecond; text.empty() && Now() < until;) {
    text = oracle->Look();
    SleepFor(kSecond);
  }
  return text;
}

// Behind the last key of each client that deletes its own.
std::vector<std::string> KeysBetweenClients(const ChaosOptions& options) {
  std::vector<std::string> keys;
  for (int i = 0; i < options.clients; ++i) {
    for (int n = 1; n <= 3; ++n) keys.push_back(KeyBetween(options.keys_per_client * (i + 1), n));
  }
  return keys;
}

void RunAll(const ChaosOptions& options, ChaosResult* result) {
  DeletionWatch deletions;
  SimClusterOptions watched = options.cluster;
  watched.wrap_disk = [&deletions](const std::string& stoc, Disk* disk) {
    return deletions.Wrap(stoc, disk);
  };
  SimCluster cluster(watched);
  deletions.set_cluster(&cluster);
  cluster.StartAll();
  const size_t ranges = static_cast<size_t>(options.ranges);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < options.clients; ++i) clients.push_back(cluster.NewClient(StrCat("client-", i)));
  Status created;
  do {  // a lost answer is no refusal
    created = clients[0]->CreateRanges(SplitKeys(options.ranges));
  } while (!created.ok() && !absl::IsAlreadyExists(created));
  if (!cluster.WaitOpen(ranges, kOpenWithin)) {
    result->violation = "the cluster did not come up" + DescribeRecords(&cluster);
    return;
  }
  History history;
  SharedKeys shared;
  Broken broken;
  StatusOracle oracle(&cluster);
  std::vector<std::unique_ptr<Load>> loads;
  for (int i = 0; i < options.clients; ++i) {
    const LoadOptions load{.keys = options.keys_per_client,
                           .first_key = i * options.keys_per_client,
                           .pause_max_us = 25'000,
                           .large_value_bytes = options.all_kinds ? options.cluster.ltc.log.segment_bytes : 0,
                           .all_kinds = options.all_kinds};
    loads.push_back(std::make_unique<Load>(clients[static_cast<size_t>(i)].get(), &history, load,
                                           &result->violation, &shared, &result->counts));
  }
  for (int i = 0; i < options.readers; ++i) {
    clients.push_back(cluster.NewClient(StrCat("client-reader-", i), kImpatientMs));
    const LoadOptions load{.pause_max_us = 10'000, .reads_only = true};
    loads.push_back(std::make_unique<Load>(clients.back().get(), &history, load, &result->violation, &shared,
                                           &result->counts));
  }
  clients.push_back(cluster.NewClient("client-writer", kImpatientMs));
  const LoadOptions writer{.pause_max_us = 20'000, .puts_only = KeysBetweenClients(options)};
  loads.push_back(std::make_unique<Load>(clients.back().get(), &history, writer, &result->violation, &shared,
                                         &result->counts));
  {
    Notification stop;
    std::vector<std::unique_ptr<Nemesis>> nemeses;
    const auto add = [&] {
      return nemeses
          .emplace_back(std::make_unique<Nemesis>(&cluster, &options, &stop, &result->counts, &broken))
          .get();
    };
    Nemesis* const between = add();
    NOVA_CHECK(ArmFailPoint("ltc.lease_checked", 0, [between] {
                 return between->StopHere("stop between lease check and answer", 500);
               }).ok());
    NOVA_CHECK(ArmFailPoint("ltc.record_released", 0, [between] {
                 return between->StopHere("stop between release and letting go", 2, true);
               }).ok());
    NOVA_CHECK(ArmFailPoint("rebuild.copied", 0, [between] {
                 return between->HoldHere("copies are made, their edit comes late", 3);
               }).ok());
    NOVA_CHECK(ArmFailPoint("stoc.drop_begun", 0, [between] {
                 return between->HoldHere("files are dropped late", 10);
               }).ok());
    std::vector<std::unique_ptr<Thread>> threads;
    for (auto& load : loads) {
      threads.push_back(std::make_unique<Thread>("chaos.load", [&, l = load.get()] {
        while (!stop.HasBeenNotified() && !l->Violated()) l->Step();
      }));
    }
    std::vector<void (Nemesis::*)()> runs = {
        &Nemesis::RunStocs,   &Nemesis::RunLtcs,      &Nemesis::RunCoordinators,
        &Nemesis::RunNetwork, &Nemesis::RunClocks,    &Nemesis::RunDisks,
        &Nemesis::RunClients, &Nemesis::RunDisasters, &Nemesis::RunScenes};
    if (options.settings) runs.push_back(&Nemesis::RunOperator);
    for (const auto run : runs)
      threads.push_back(std::make_unique<Thread>("chaos.nemesis", [run, n = add()] { (n->*run)(); }));
    const Nanos until = Now() + options.duration_ns;
    for (int look = 1; Now() < until && result->violation.empty(); ++look) {
      SleepFor(kLook);
      std::string lacking = CopiesThatLack(&cluster);
      if (!lacking.empty()) lacking = CopiesThatLack(&cluster);  // a look that had to wait saw two moments
      if (result->violation.empty()) result->violation = lacking;
      if (result->violation.empty()) result->violation = deletions.violation();
      if (result->violation.empty() && look % kLooksAStatus == 0) result->violation = oracle.Look();
    }
    stop.Notify();
    threads.clear();  // joins
    while (between->standing_still() > 0) SleepFor(kMillisecond);
    DisarmFailPoints();
    for (const auto& n : nemeses) result->faults += n->faults();
  }
  result->acknowledged = history.acknowledged();
  result->unknown = history.unknown();
  result->refused = history.refused();
  const auto judge = [result](const std::string& wrong) {
    if (result->violation.empty()) result->violation = wrong;
    return result->violation.empty();
  };
  cluster.HealAll();
  if (judge("")) {
    StartWhatIsDown(&cluster, broken.lost_stoc);
    UndrainStocs(&cluster);
    judge(cluster.WaitOpen(ranges, kOpenWithin)
              ? ""
              : "not every range is open again" + DescribeRecords(&cluster));
  }
  if (judge("")) loads[0]->Verify();
  if (judge("")) judge(WaitUntilEmpty([&] { return LogsNotWhole(&cluster, options); }, kWholeWithin));
  if (judge("")) judge(WaitUntilEmpty([&] { return ManifestsNotWhole(&cluster, options); }, kWholeWithin));
  loads.clear();
  clients.clear();
  const bool waits = !broken.lost_stoc.empty() && !cluster.Runs(broken.lost_stoc) &&
                     options.cluster.coordinator.cluster.stoc_down_after_ns > kWholeWithin;
  const auto tables = [&] { return TablesNotWhole(&cluster, options, waits); };
  if (judge("")) judge(WaitUntilEmpty(tables, kWholeWithin));
  if (judge("")) judge(BrokenPromise(&oracle));
  result->counts["seen: a status was held against the disks"] += oracle.looks();
  judge(deletions.violation());
  result->counts["seen: a deletion was held against the manifest"] += deletions.looks();
  result->counts["seen: a compaction ran on a StoC"] +=
      static_cast<uint64_t>(cluster.Metric("stoc", "nova_stoc_jobs_total"));
  if (judge("")) judge(WaitUntilEmpty([&] { return StillHeld(&cluster, options); }, kWholeWithin));
}

}  // namespace

ChaosOptions ChaosOf(uint64_t seed) {
  Random random(seed);
  ChaosOptions o;
  o.cluster.ltc.xchg_threads = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.stoc.xchg_threads = 1 + static_cast<int>(random.Uniform(2));
  o.cluster.ltc.hosted.range.active_memtables = 1 + static_cast<int>(random.Uniform(3));
  o.cluster.ltc.hosted.placement.replicas = 1 + static_cast<int>(random.Uniform(3));
  constexpr Nanos kDownAfter[] = {kSecond, 3 * kSecond, 3600 * kSecond};  // flapping around it, and never
  o.cluster.coordinator.cluster.stoc_down_after_ns = kDownAfter[random.Uniform(std::size(kDownAfter))];
  o.cluster.coordinator.cluster.share_after_ns = random.OneIn(2) ? kSecond : 10 * kSecond;
  if (random.OneIn(2)) {
    o.cluster.coordinator.cluster.open_within_ns = kSecond;
    o.cluster.coordinator.cluster.replay_within_ns = 2 * kSecond;
  }
  if (random.OneIn(5)) o.cluster.ltc.hosted.min_replicas = o.cluster.ltc.hosted.log_replicas;
  if (random.OneIn(3)) o.cluster.ltc.hosted.range.memtable_size_bytes = 2 << 10;
  if (random.OneIn(3)) o.cluster.disk.latency_ns = static_cast<Nanos>(random.Uniform(5 * kMillisecond));
  if (random.OneIn(3)) o.cluster.network.max_delay_ns = 3 * kMillisecond;
  if (random.OneIn(2)) o.ranges = 2;
  constexpr LogMode kModes[] = {LogMode::kMemory, LogMode::kMemory, LogMode::kPersistent,
                                LogMode::kMemoryAndPersistent};
  o.cluster.ltc.hosted.log_mode = kModes[random.Uniform(std::size(kModes))];
  if (random.OneIn(2)) o.cluster.ltc.heartbeat_ns = 100 * kMillisecond;
  o.cluster.coordinators = 2;
  o.cluster.ltcs = 3;
  o.cluster.stocs = 5;
  o.cluster.client.timeout_ms = 5000;
  if (random.OneIn(2)) o.cluster.clock_rate_error = 0.009;  // of the 1 % that is allowed for
  o.cluster.stoc.disk_watch.hung_after_ns = 2 * kSecond;
  o.cluster.stoc.disk_watch.well_after_ns = 2 * kSecond;
  o.cluster.stoc.disk_probe_period_ns = kSecond;
  o.cluster.coordinator.cluster.disk_slow_after_ns = kSecond;
  o.cluster.coordinator.cluster.disk_well_after_ns = 3 * kSecond;
  o.cluster.config.lost_reply_one_in = 50;
  o.cluster.control.drop_one_in = 100;
  o.cluster.control.duplicate_one_in = 100;
  o.disasters = random.OneIn(2);
  o.scenes = random.OneIn(2);
  if (random.OneIn(2)) o.cluster.stoc.scrub = {.period_ns = 3 * kSecond, .bytes_per_second = 100'000'000};
  if (random.OneIn(2)) {  // Level0 in columns, of tables as small as its flushes
    o.cluster.ltc.hosted.range.compaction.dranges = 2 << random.Uniform(5);
    o.cluster.ltc.hosted.range.compaction.least_table_bytes = 512;
  }
  if (random.OneIn(3)) {  // compactions on StoCs, which are given up soon
    constexpr OffloadPolicy kPolicies[] = {OffloadPolicy::kRoundRobin, OffloadPolicy::kLeastLoaded,
                                           OffloadPolicy::kMostInput, OffloadPolicy::kCost};
    o.cluster.ltc.offload = {.policy = kPolicies[random.Uniform(std::size(kPolicies))],
                             .least_deadline_ns = 5 * kSecond,
                             .pause_after_failure_ns = kSecond};
  }
  if (random.OneIn(2)) o.cluster.ltc.hosted.range.memtable_partitioning = MemtablePartitioning::kDrange;
  o.cluster.ltc.hosted.range.lookup_index = random.OneIn(2);
  return o;
}

std::vector<std::string> ChaosKinds() {
  std::vector<std::string> kinds;
  for (const char* fault : {"StoC killed",
                            "two StoCs killed",
                            "StoC paused",
                            "StoC cut from coordinators or store",
                            "StoC hangs, and heartbeats go on",
                            "StoC drained",
                            "StoC drained to the end",
                            "StoC stopped",
                            "StoC lost for good",
                            "StoC back with an empty disk",
                            "StoC back with its old disk",
                            "wall clock jumps",
                            "LTC killed",
                            "LTC paused",
                            "LTC cut from coordinators or store",
                            "LTC cut from StoCs",
                            "LTC drained",
                            "LTC drained to the end",
                            "LTC stopped",
                            "coordinator killed",
                            "coordinator cut from coordinators or store",
                            "network loses and delays",
                            "disk fails",
                            "disk is full",
                            "disk is slow",
                            "disk hangs",
                            "disk fails reads",
                            "disk forgiven",
                            "WRITEs come late",
                            "several nodes at once",
                            "LTC is heard by clients alone",
                            "leader cut from the store, an LTC from the next one",
                            "LTC is slow to let go",
                            "StoC lost, and back when another one is lost",
                            "client cut from one LTC",
                            "client does not read",
                            "stop between lease check and answer",
                            "stop between release and letting go",
                            "copies are made, their edit comes late",
                            "files are dropped late",
                            "a setting of LTCs changes",
                            "clocks run wrong"}) {
    kinds.push_back(StrCat("fault: ", fault));
  }
  kinds.push_back("seen: a table was read from its other copy");
  kinds.push_back("seen: a status was held against the disks");
  kinds.push_back("seen: a deletion was held against the manifest");
  kinds.push_back("seen: a compaction ran on a StoC");
  for (const char* state : {"slow", "full", "hung", "failing"})
    kinds.push_back(StrCat("seen: a disk was ", state));
  for (const char* op : {"put", "put of a large value", "delete", "delete range", "get", "scan",
                         "compare and swap", "batch", "multi-get", "snapshot", "time to live",
                         "put of a shared key", "get of a shared key", "compare and swap of a shared key"}) {
    kinds.push_back(StrCat("op: ", op));
  }
  return kinds;
}

ChaosResult RunChaos(uint64_t seed, const ChaosOptions& options) {
  ChaosResult result;
  Simulation sim(seed);
  SetUpSimLog(&sim, seed);
  sim.Run([&] {
    Notification over;
    Thread watchdog("chaos.watchdog", [&over, seed] {
      NOVA_CHECK(over.WaitUntil(Now() + kWholeRun))
          << "seed " << seed << ": hangs" << Simulation::Current()->FibersText();
    });
    RunAll(options, &result);
    over.Notify();
  });
  if (options.cluster.clock_rate_error > 0) ++result.counts["fault: clocks run wrong"];
  result.trace_hash = sim.trace_hash();
  return result;
}

}  // namespace nova
