// ClusterState, text in, text out: testdata/*.txt. A block is commands, "----", and what they say, each line
// with the time and the command; "# ..." is a comment. With --rewrite the files get what the code says now.
//
//   at 2500                                       the time, in ms
//   elect epoch=1 longest_ms=2000
//   authority until=9000
//   node ltc-1 role=ltc inc=1 [draining] [stoc=3] [store=7] [host=h]
//   gone ltc-1
//   stoc 3 version=1 [name=stoc-3] [store=7] [host=h] [draining] [presence=away away_ms=1000] [early]
//   stoc-gone 3
//   stoc-done 3 | stoc-refused 3                  the outcome of the last change of StoC 3's record
//   range 1 version=3 epoch=2 [open] [owner=ltc-1 inc=1] [released] [groups=4:1/9,2/8;5:3/7] [manifest=1,2]
//                                                 a member's store, 3/7/77: its log is in files too; 3/0/77:
//                                                 in files alone
//   heartbeat ltc-1 inc=1 [has=1@2,2@2] [stocs=VERSION] [left=STOC:TABLES,...] [memory=POOL:MB,...]
//             [stopping] [failed=1@3,...] [damaged=2@3,...]   ranges that it could not open
//       [requests=RANGE:NUMBER,...]               since each was opened, as writes
//       [keeps=R/M/TABLE COPIES] [tables=RANGE:TABLES/DEGRADED/FEWEST COPIES[/MB TO REBUILD/MB REBUILT],...]
//       [counted=now | before]                    by which list of StoCs: told; the leader's, or one before
//   tick [deaf=8000]                              the leader stood still for so long; the wall clock says
//                                                 what `at` does
//   done 1 | refused 1                            the outcome of the last move of range 1
//   force 1
//   drain WORD [force]                            which node that is, and why it may not be drained
//   left stoc-1 | left 1                          what is left on a draining node
//   told stoc-1                                   whether nodes and clients are told that it drains
//   lists                                         the StoCs that nodes are told of, at a new version
//   redundancy                                    what has fewer copies than configured
//   status
//   json                                          of StoCs and rebuilds, what `status --json` says
#include "coordinator/cluster_state.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/drain.h"
#include "coordinator/range_condition.h"
#include "coordinator/redundancy.h"
#include "coordinator/status_text.h"

namespace nova {
namespace {

bool g_rewrite = false;

// "name arg key=value flag": words by position, the rest by key.
class Command {
 public:
  explicit Command(const std::string& line) {
    const std::vector<std::string> parsed = absl::StrSplit(line, ' ', absl::SkipEmpty());
    for (const std::string& word : parsed) {
      const size_t eq = word.find('=');
      if (eq == std::string::npos) {
        words_.push_back(word);
      } else {
        values_[word.substr(0, eq)] = word.substr(eq + 1);
      }
    }
  }
  const std::string& name() const { return words_.at(0); }
  std::string arg() const { return words_.size() > 1 ? words_[1] : ""; }
  std::string Text(const std::string& key) const {
    const auto it = values_.find(key);
    return it == values_.end() ? "" : it->second;
  }
  uint64_t Number(const std::string& key) const { return ToNumber(Text(key)); }
  bool Has(const std::string& flag) const {
    return std::find(words_.begin() + 1, words_.end(), flag) != words_.end();
  }
  static uint64_t ToNumber(const std::string& text) {
    uint64_t n = 0;
    EXPECT_TRUE(text.empty() || absl::SimpleAtoi(text, &n)) << text;
    return n;
  }

 private:
  std::vector<std::string> words_;
  std::map<std::string, std::string> values_;
};

std::string Describe(const RangeRecord& r) {
  std::string out = StrCat("range ", r.id.value(), " epoch ", r.epoch.value(),
                           r.state == RangeState::kOpen ? " OPEN" : " SEALING", " owner ",
                           r.owner.empty() ? "none" : StrCat(r.owner, "/", r.owner_incarnation.value()));
  if (r.released) out += " released";
  for (const LogGroup& g : r.log_groups)
    absl::StrAppend(&out, " group ", g.id.value(), ":", g.members.size());
  return out;
}

std::string Describe(const StocRecord& r) {
  std::string out = StrCat("StoC ", r.id.value(), " ", r.name, " ", PresenceName(r.presence));
  if (!r.host.empty()) absl::StrAppend(&out, " host ", r.host);
  if (r.draining) out += " draining";
  if (r.disk != DiskState::kOk)
    absl::StrAppend(&out, " disk ", DiskStateName(r.disk), " since ", r.disk_since_ms);
  if (r.presence != StocPresence::kUp)
    absl::StrAppend(&out, " since ", r.away_since_ms, " listened for ", r.away_ms, " ms");
  return out;
}

std::string DescribeRedundancy(const Redundancy& r) {
  const auto describe = [](const CopyCounts& c) {
    return StrCat(c.degraded, " of ", c.all, " degraded, fewest ", c.fewest, " of ", c.wanted);
  };
  return StrCat("logs: ", describe(r.logs), "\nmanifests: ", describe(r.manifests),
                "\ntables: ", describe(r.tables), r.unheard > 0 ? StrCat("\nnot heard: ", r.unheard) : "",
                "\n");
}

class Script {
 public:
  int64_t now_ms() const { return now_ / kMillisecond; }
  std::string Run(const Command& c) {
    if (c.name() == "at") {
      now_ = static_cast<Nanos>(Command::ToNumber(c.arg())) * kMillisecond;
      return "";
    }
    if (c.name() == "elect") return Do(ElectedEvent{CoordEpoch(c.Number("epoch")), Ms(c, "longest_ms")});
    if (c.name() == "authority") return Do(AuthorityEvent{Ms(c, "until")});
    if (c.name() == "left") {
      const auto node = state_.nodes.find(c.arg());
      const std::string left =
          node != state_.nodes.end() ? DrainLeft(state_, node->second) : DrainLeft(state_, Stoc(c.arg()));
      return left.empty() ? "nothing\n" : left + "\n";
    }
    if (c.name() == "told") return AsTold(state_, state_.nodes.at(c.arg())).draining ? "draining\n" : "not\n";
    if (c.name() == "lists") return Lists();
    if (c.name() == "drain") return WhetherToDrain(c);
    if (c.name() == "stoc") return Do(StocReadEvent{StocOf(c)});
    if (c.name() == "stoc-gone") return Do(StocGoneEvent{Stoc(c.arg())});
    if (c.name() == "stoc-done" || c.name() == "stoc-refused") {
      StocChangeDoneEvent done{Stoc(c.arg()), std::nullopt};
      if (c.name() == "stoc-done") {
        done.record = stoc_changes_.at(done.stoc).after;
        done.record->version = stoc_changes_.at(done.stoc).before.version + 1;
      }
      return Do(done);
    }
    if (c.name() == "node") return Do(NodeSeenEvent{Node(c)});
    if (c.name() == "gone") return Do(NodeGoneEvent{c.arg()});
    if (c.name() == "range") return Do(RangeReadEvent{Record(c)});
    if (c.name() == "heartbeat") return Do(Heartbeat(c));
    if (c.name() == "tick") return Do(TickEvent{Ms(c, "deaf"), now_ms()});
    if (c.name() == "done" || c.name() == "refused") {
      const RangeId id(Command::ToNumber(c.arg()));
      AssignDoneEvent done{id, std::nullopt};
      if (c.name() == "done") {
        done.record = moves_.at(id).after;
        done.record->version = moves_.at(id).before.version + 1;
      }
      return Do(done);
    }
    if (c.name() == "force") {
      const ForceOpenPlan plan = PlanForceOpen(options_, state_, RangeId(Command::ToNumber(c.arg())), now_);
      return StrCat(plan.report, plan.possible ? "possible\n" : "not possible\n",
                    plan.move.has_value() ? StrCat("becomes ", Describe(plan.move->after), "\n") : "");
    }
    if (c.name() == "redundancy") return DescribeRedundancy(CountRedundancy(state_));
    if (c.name() == "json") return Json();
    if (c.name() == "status") return RenderStatus(options_, state_, {Uuid{1, 2}, "coord-1", "h:1"}, now_);
    ADD_FAILURE() << "no command " << c.name();
    return "";
  }

 private:
  static Nanos Ms(const Command& c, const std::string& key) {
    return static_cast<Nanos>(c.Number(key)) * kMillisecond;
  }

  static NodeInfo Node(const Command& c) {
    NodeInfo n;
    n.name = c.arg();
    n.role = c.Text("role") == "stoc" ? Role::kStoc : Role::kLtc;
    n.incarnation = Incarnation(c.Number("inc"));
    n.address = n.name + ":1";
    n.stoc_id = StocId(static_cast<uint32_t>(c.Number("stoc")));
    n.draining = c.Has("draining");
    n.store = Uuid{0, c.Number("store")};
    n.host = c.Text("host");
    return n;
  }

  static StocId Stoc(const std::string& text) {
    return StocId(static_cast<uint32_t>(Command::ToNumber(text)));
  }

  static StocRecord StocOf(const Command& c) {
    StocRecord r;
    r.id = Stoc(c.arg());
    r.version = static_cast<int64_t>(c.Number("version"));
    r.name = c.Text("name").empty() ? "stoc-" + c.arg() : c.Text("name");
    r.host = c.Text("host");
    r.store = Uuid{0, c.Number("store")};
    r.draining = c.Has("draining");
    r.early = c.Has("early");
    for (const StocPresence p : {StocPresence::kAway, StocPresence::kLost}) {
      if (c.Text("presence") == PresenceName(p)) r.presence = p;
    }
    r.away_ms = static_cast<int64_t>(c.Number("away_ms"));
    if (!c.Text("disk").empty()) r.disk = DiskOf(c.Text("disk"));
    if (!c.Text("forgiven").empty()) {
      const std::pair<std::string, std::string> of = absl::StrSplit(c.Text("forgiven"), '/');
      r.forgiven_incarnation = Incarnation(Command::ToNumber(of.first));
      r.forgiven_faults = Command::ToNumber(of.second);
    }
    return r;
  }

  static DiskState DiskOf(const std::string& name) {
    for (size_t d = 0; d < kDiskStates; ++d) {
      if (name == DiskStateName(static_cast<DiskState>(d))) return static_cast<DiskState>(d);
    }
    ADD_FAILURE() << "no state of a disk: " << name;
    return DiskState::kOk;
  }

  // "disk=failing/3,full,hung/12000,read/3,sync/200": times in ms.
  static std::optional<DiskReport> DiskReportOf(const Command& c) {
    if (c.Text("disk").empty()) return std::nullopt;
    DiskReport report;
    for (const auto& part : absl::StrSplit(c.Text("disk"), ',')) {
      const std::vector<std::string> of = absl::StrSplit(part, '/');
      const uint64_t n = of.size() > 1 ? Command::ToNumber(of[1]) : 0;
      const Nanos ms = static_cast<Nanos>(n) * kMillisecond;
      if (of[0] == "hung") {
        report.hung_ns = ms;
      } else if (of[0] == "read") {
        report.read_ns = ms;
      } else if (of[0] == "sync") {
        report.sync_ns = ms;
      } else if (DiskOf(of[0]) == DiskState::kFull) {
        report.full = true;
      } else {
        report.fault = DiskOf(of[0]);
        report.faults = n;
      }
    }
    return report;
  }

  std::string Lists() {
    std::vector<std::string> live, lost;
    for (const NodeInfo& n : state_.live_stocs) {
      live.push_back(n.name + (n.draining ? "(draining)" : ""));
      if (n.disk != DiskState::kOk)
        absl::StrAppend(&live.back(), "(", DiskStateName(n.disk), n.emptied ? ", emptied)" : ")");
    }
    for (const StocId id : state_.lost_stocs) lost.push_back(StrCat(id.value()));
    const bool changed = std::exchange(listed_, state_.stocs_version) != state_.stocs_version;
    return StrCat(changed ? "changed: " : "", "live ", absl::StrJoin(live, " "), "; lost ",
                  absl::StrJoin(lost, " "), "\n");
  }

  std::string WhetherToDrain(const Command& c) const {
    const DrainTarget target = FindDrainTarget(state_, c.arg());
    if (target.empty()) return "no such node\n";
    if (!target.ltc.empty()) {
      const Status ltc_may = CheckMayDrain(state_, target.ltc);
      return StrCat("LTC ", target.ltc, ltc_may.ok() ? "" : StrCat(": ", ltc_may.message()), "\n");
    }
    std::vector<std::string> ids;
    for (const StocId id : target.stocs) ids.push_back(StrCat(id.value()));
    const Status may = CheckMayDrain(state_, target.stocs, c.Has("force"));
    return StrCat("StoC ", absl::StrJoin(ids, " and "), may.ok() ? "" : StrCat(": ", may.message()), "\n");
  }

  std::string Json() const {
    const auto all = nlohmann::json::parse(
        RenderStatusJson(options_, state_, {Uuid{1, 2}, "coord-1", "h:1"}, now_), nullptr, false);
    std::string out;
    for (const auto& stoc : all["stocs"]) absl::StrAppend(&out, stoc.dump(), "\n");
    return StrCat(out, all["rebuild"].dump(), "\n");
  }

  static RangeRecord Record(const Command& c) {
    RangeRecord r;
    r.id = RangeId(Command::ToNumber(c.arg()));
    r.lower = c.Text("lower").empty() ? "" : std::string(1, '\0') + c.Text("lower");
    r.upper = c.Text("upper").empty() ? "" : std::string(1, '\0') + c.Text("upper");
    r.version = static_cast<int64_t>(c.Number("version"));
    r.epoch = Epoch(c.Number("epoch"));
    r.state = c.Has("open") ? RangeState::kOpen : RangeState::kSealing;
    r.owner = c.Text("owner");
    r.owner_incarnation = Incarnation(c.Number("inc"));
    r.released = c.Has("released");
    for (const auto& group : absl::StrSplit(c.Text("groups"), ';', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> id_members = absl::StrSplit(group, ':');
      LogGroup g{GroupId(Command::ToNumber(id_members.first)), {}};
      for (const auto& member : absl::StrSplit(id_members.second, ',')) {
        const std::vector<uint64_t> m = Numbers(std::string(member));
        g.members.push_back({StocId(static_cast<uint32_t>(m.at(0))), Incarnation(m.at(1))});
        if (m.size() < 3) continue;
        g.members.back().store = Uuid{0, m[2]};
        g.media = m[1] == 0 ? LogMedia::kFiles : LogMedia::kMemoryAndFiles;
      }
      r.log_groups.push_back(g);
    }
    for (const auto& stoc : absl::StrSplit(c.Text("manifest"), ',', absl::SkipEmpty())) {
      r.manifest.members.emplace_back(static_cast<uint32_t>(Command::ToNumber(std::string(stoc))));
    }
    return r;
  }

  static std::vector<uint64_t> Numbers(const std::string& text) {
    std::vector<uint64_t> numbers;
    for (const auto& n : absl::StrSplit(text, '/', absl::SkipEmpty())) {
      numbers.push_back(Command::ToNumber(std::string(n)));
    }
    return numbers;
  }

  HeartbeatEvent Heartbeat(const Command& c) const {
    HeartbeatEvent e{c.arg(), Incarnation(c.Number("inc")), c.Number("stocs"), {}};
    e.report.stopping = c.Has("stopping");
    for (const auto& has : absl::StrSplit(c.Text("has"), ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> at = absl::StrSplit(has, '@');
      RangeLoad load;
      load.range = RangeId(Command::ToNumber(at.first));
      load.epoch = Epoch(Command::ToNumber(at.second));
      load.open = true;
      e.report.ranges.push_back(load);
    }
    for (const auto& [word, why] : {std::pair{"failed", "StoC 9 does not answer"},
                                    std::pair{"damaged", "all copies of log group 1 are damaged"}}) {
      for (const auto& failure : absl::StrSplit(c.Text(word), ',', absl::SkipEmpty())) {
        const std::pair<std::string, std::string> at = absl::StrSplit(failure, '@');
        e.report.not_opened.push_back(
            {RangeId(Command::ToNumber(at.first)), Epoch(Command::ToNumber(at.second)), word[0] == 'd', why});
      }
    }
    for (const auto& requests : absl::StrSplit(c.Text("requests"), ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> of = absl::StrSplit(requests, ':');
      for (RangeLoad& load : e.report.ranges) {
        if (load.range == RangeId(Command::ToNumber(of.first))) load.writes = Command::ToNumber(of.second);
      }
    }
    e.report.disk = DiskReportOf(c);
    const std::vector<uint64_t> keeps = Numbers(c.Text("keeps"));
    if (!keeps.empty()) {
      e.report.copies = CopiesKept{static_cast<uint32_t>(keeps.at(0)), static_cast<uint32_t>(keeps.at(1)),
                                   static_cast<uint32_t>(keeps.at(2))};
    }
    for (const auto& tables : absl::StrSplit(c.Text("tables"), ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> of = absl::StrSplit(tables, ':');
      const std::vector<uint64_t> counts = Numbers(of.second);
      for (RangeLoad& load : e.report.ranges) {
        if (load.range != RangeId(Command::ToNumber(of.first))) continue;
        load.tables = {counts.at(0), counts.at(1), static_cast<uint32_t>(counts.at(2))};
        if (counts.size() == 5) {
          load.tables.rebuild_bytes = counts[3] << 20;
          load.tables.rebuilt_bytes = counts[4] << 20;
        }
        if (const std::string counted = c.Text("counted"); !counted.empty())
          load.tables.stocs_version = state_.stocs_version - (counted == "before");
      }
    }
    for (const auto& left : absl::StrSplit(c.Text("left"), ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> tables = absl::StrSplit(left, ':');
      e.report.draining[StocId(static_cast<uint32_t>(Command::ToNumber(tables.first)))] =
          Command::ToNumber(tables.second);
    }
    for (const auto& pool : absl::StrSplit(c.Text("memory"), ',', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> mb = absl::StrSplit(pool, ':');
      e.report.memory.emplace_back(mb.first, Command::ToNumber(mb.second) << 20);
    }
    return e;
  }

  std::string Do(const ClusterEvent& event) {
    const ClusterDecisions d = Step(options_, &state_, event, now_);
    EXPECT_EQ(CheckInvariants(state_), "");
    std::string out;
    for (const RangeMove& m : d.moves) {
      moves_[m.before.id] = m;
      absl::StrAppend(&out, "move: ", Describe(m.after), "\n");
    }
    for (const StocChange& s : d.stoc_changes) {
      stoc_changes_[s.before.id] = s;
      absl::StrAppend(&out, "change: ", Describe(s.after), "\n");
    }
    if (!d.answer.has_value()) return out;
    const HeartbeatAnswer& a = *d.answer;
    if (a.standing != Standing::kRegistered)
      return a.standing == Standing::kUnknown ? "unknown\n" : "superseded\n";
    absl::StrAppend(&out, "lease ", a.lease_ns / kMillisecond, " ms");
    for (const auto& [r, e] : a.excluded) absl::StrAppend(&out, ", without ", r.value(), "@", e.value());
    for (const auto& [r, e] : a.release) absl::StrAppend(&out, ", release ", r.value(), "@", e.value());
    for (const auto& assigned : a.assigned) {
      absl::StrAppend(&out, ", open ", assigned.record.id.value(), "@", assigned.record.epoch.value(), " in ",
                      assigned.wait_ns / kMillisecond, " ms");
    }
    std::vector<std::string> stocs;
    for (const NodeInfo& n : a.stocs) stocs.push_back(n.name);
    if (!stocs.empty())
      absl::StrAppend(&out, ", stocs ", a.stocs_version & UINT32_MAX, ": ", absl::StrJoin(stocs, " "));
    for (const StocId id : a.lost_stocs) absl::StrAppend(&out, ", lost ", id.value());
    if (a.ask_again_soon) absl::StrAppend(&out, ", soon");
    if (a.forgiven_disk_faults > 0) absl::StrAppend(&out, ", forgives ", a.forgiven_disk_faults);
    return out + "\n";
  }

  ClusterOptions options_;
  ClusterState state_;
  std::map<RangeId, RangeMove> moves_;
  std::map<StocId, StocChange> stoc_changes_;
  uint64_t listed_ = 0;
  Nanos now_ = 0;
};

// The file as it would be with what the code says now.
std::string Replay(const std::string& text) {
  Script script;
  std::string out;
  std::string said;
  bool in_answer = false;
  for (const auto& view : absl::StrSplit(text, '\n')) {
    const std::string line(view);
    if (in_answer) {
      if (line.empty()) in_answer = false;
      continue;
    }
    if (line == "----") {
      absl::StrAppend(&out, "----\n", said, "\n");
      said.clear();
      in_answer = true;
      continue;
    }
    if (!line.empty() && line[0] != '#') {
      const Command command(line);
      const std::string answer = script.Run(command);
      const std::string who = command.name() == "status"
                                  ? ""
                                  : StrCat(script.now_ms(), " ", command.name(), " ", command.arg(), ": ");
      for (const auto& answer_line : absl::StrSplit(answer, '\n')) {
        // An empty line ends a block, so none is kept inside one.
        if (!answer_line.empty()) absl::StrAppend(&said, who, answer_line, "\n");
      }
    }
    absl::StrAppend(&out, line, "\n");
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

TEST(ClusterStateTest, DecidesAsWrittenDown) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(NOVA_SOURCE_DIR "/tests/coordinator/testdata")) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string now = Replay(text.str());
    if (g_rewrite) {
      std::ofstream(entry.path()) << now;
    } else {
      EXPECT_EQ(now, text.str()) << entry.path().filename();
    }
  }
  EXPECT_GT(files, 0);
}

// A leader answers before its first tick: an empty list would pass for a cluster without StoCs, and the next
// one for the return of them all.
TEST(ClusterStateTest, NobodyIsToldOfStocsBeforeTheLeaderHasLookedAtThem) {
  ClusterState state;
  const auto step = [&state](const ClusterEvent& event) { return Step({}, &state, event, kSecond); };
  NodeInfo stoc, ltc;
  stoc.name = "stoc-1";
  stoc.role = Role::kStoc;
  stoc.stoc_id = StocId(1);
  stoc.incarnation = Incarnation(1);
  ltc.name = "ltc-1";
  ltc.role = Role::kLtc;
  ltc.incarnation = Incarnation(2);
  step(ElectedEvent{CoordEpoch(3), 2 * kSecond});
  step(AuthorityEvent{100 * kSecond});
  step(NodeSeenEvent{stoc});
  step(NodeSeenEvent{ltc});
  const uint64_t known = CoordEpoch(2).value() << 32 | 7;
  const HeartbeatEvent heartbeat{ltc.name, ltc.incarnation, known, {}};
  const HeartbeatAnswer early = *step(heartbeat).answer;
  EXPECT_EQ(early.standing, Standing::kRegistered);
  EXPECT_GT(early.lease_ns, 0);
  EXPECT_EQ(early.stocs_version, known) << "what the LTC knows is left as it is";
  step(TickEvent{});
  const HeartbeatAnswer next = *step(heartbeat).answer;
  EXPECT_EQ(next.stocs_version >> 32, 3u);
  ASSERT_EQ(next.stocs.size(), 1u);
  EXPECT_EQ(next.stocs.front().name, "stoc-1");
}

// Where there is none a leader says so, and once.
TEST(ClusterStateTest, ThatThereAreNoStocsIsToldToo) {
  ClusterState state;
  NodeInfo ltc;
  ltc.name = "ltc-1";
  ltc.role = Role::kLtc;
  ltc.incarnation = Incarnation(2);
  Step({}, &state, ElectedEvent{CoordEpoch(3), 0}, 0);
  Step({}, &state, NodeSeenEvent{ltc}, 0);
  Step({}, &state, TickEvent{}, 0);
  const uint64_t listed = state.stocs_version;
  const HeartbeatEvent heartbeat{ltc.name, ltc.incarnation, CoordEpoch(2).value() << 32 | 7, {}};
  EXPECT_EQ(Step({}, &state, heartbeat, 0).answer->stocs_version, listed);
  EXPECT_EQ(listed >> 32, 3u);
  Step({}, &state, TickEvent{}, 0);
  EXPECT_EQ(state.stocs_version, listed);
}

// Two threads read the znode, and the one that read first tells it last.
TEST(ClusterStateTest, SettingsThatWereReadBeforeThoseItHasAreIgnored) {
  ClusterState state;
  const auto read = [&state](int dranges, int64_t version) {
    LtcSettings settings;
    settings.dranges = dranges;
    Step({}, &state, SettingsReadEvent{settings, version}, 0);
    return state.settings.dranges;
  };
  EXPECT_EQ(read(4, 1), 4);
  EXPECT_EQ(read(8, 2), 8);
  EXPECT_EQ(read(4, 1), 8);
  EXPECT_EQ(read(16, 3), 16);
}

}  // namespace
}  // namespace nova

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  nova::g_rewrite = argc > 1 && std::string(argv[1]) == "--rewrite";
  return RUN_ALL_TESTS();
}
