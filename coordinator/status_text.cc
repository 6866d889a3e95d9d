#include "coordinator/status_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "coordinator/drain.h"
#include "coordinator/range_condition.h"
#include "coordinator/redundancy.h"

namespace nova {
namespace {

constexpr size_t kMaxBoundShown = 24;

const char* RoleName(Role role) {
  switch (role) {
    case Role::kClient:
      return "client";
    case Role::kLtc:
      return "ltc";
    case Role::kStoc:
      return "stoc";
    case Role::kTool:
      return "tool";
  }
  return "?";
}

// A stored key for people: without its keyspace, printable, cut.
std::string Printable(std::string_view stored_key, const char* when_empty) {
  if (stored_key.empty()) return when_empty;
  const uint8_t keyspace = static_cast<uint8_t>(stored_key.front());
  std::string_view key = stored_key;
  if (keyspace < 0x80) key.remove_prefix(1);
  const bool cut = key.size() > kMaxBoundShown;
  if (cut) key = key.substr(0, kMaxBoundShown);
  return StrCat(keyspace == 0 || keyspace >= 0x80 ? "" : StrCat(static_cast<int>(keyspace), ":"),
                absl::CEscape(absl::string_view(key.data(), key.size())), cut ? "..." : "");
}

std::string Seconds(Nanos ns) { return absl::StrFormat("%.1f s", static_cast<double>(ns) / kSecond); }

// Of open ranges, by the group that takes their writes.
struct Logs {
  struct Kind {  // of one LogMedia
    size_t ranges = 0;
    size_t fewest = 0;  // living copies of the group with the fewest
    size_t wanted = 0;  // R
  };
  size_t open = 0;
  size_t open_without = 0;
  std::array<Kind, 3> with{};
};

std::string Plural(uint64_t n, const char* what) { return StrCat(n, " ", what, n == 1 ? "" : "s"); }

std::string OfWanted(const char* letter, size_t there, size_t wanted) {
  return there < wanted ? StrCat(letter, "=", there, " of ", wanted) : StrCat(letter, "=", wanted);
}

std::string WallTime(int64_t ms) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%SZ", absl::FromUnixMillis(ms), absl::UTCTimeZone());
}

std::string Row(const std::string& role, const std::string& name, const std::string& incarnation,
                const std::string& address, const std::string& lease, const std::string& note) {
  return absl::StrFormat("%-6s %-16s %-12s %-24s %-10s %s\n", role, name, incarnation, address, lease, note);
}
// `left`: DrainLeft.
std::string Draining(const std::string& left) {
  return left.empty() ? ", drained" : StrCat(", draining: ", left, " left");
}
// Rounded up: what is to be done is never shown as nothing.
uint64_t Megabytes(uint64_t bytes) { return (bytes >> 20) + (bytes % (1 << 20) != 0); }

// Of the table with the fewest; where there is none yet, what the next one gets.
uint32_t TableCopiesOf(const CopyCounts& tables) {
  return tables.all == 0 ? tables.wanted : std::min(tables.fewest, tables.wanted);
}

void Tell(const char* what, const CopyCounts& c, std::string* out) {
  absl::StrAppend(out, what, ": ", c.all, ", degraded: ", c.degraded);
  if (c.degraded > 0) absl::StrAppend(out, ", the fewest copies: ", c.fewest, " of ", c.wanted);
  out->push_back('\n');
}

nlohmann::ordered_json CountsJson(const CopyCounts& c) {
  return {{"all", c.all}, {"degraded", c.degraded}, {"fewest", c.fewest}, {"configured", c.wanted}};
}

class Renderer {
 public:
  Renderer(const ClusterOptions& options, const ClusterState& state, Nanos now)
      : options_(options), s_(state), now_(now) {
    for (const auto& [id, range] : s_.ranges) {
      if (!range.record.IsOpen()) continue;
      ++logs_.open;
      if (range.record.log_groups.empty()) {
        ++logs_.open_without;
        continue;
      }
      const LogGroup& group = range.record.log_groups.back();
      Logs::Kind& kind = logs_.with[static_cast<size_t>(group.media)];
      const size_t living = LivingCopies(group, living_);
      kind.fewest = kind.ranges == 0 ? living : std::min(kind.fewest, living);
      const uint32_t configured = CopiesWanted(s_, range).log;
      kind.wanted = std::max<size_t>(kind.wanted, configured > 0 ? configured : group.members.size());
      ++kind.ranges;
    }
  }

  std::string Nodes() const {
    std::string out = Row("role", "node", "incarnation", "address", "lease", "");
    for (const auto& [name, node] : s_.nodes) {
      const Nanos left = LeaseLeft(node);
      std::string note;
      if (node.role == Role::kStoc) note = StocNote(node.stoc_id, RecordOf(node), AsTold(s_, node).draining);
      const auto owned = s_.owned.find(node.incarnation);
      if (node.role == Role::kLtc) {
        absl::StrAppend(&note, owned == s_.owned.end() ? 0 : owned->second.size(), " ranges");
      }
      if (node.role == Role::kLtc && node.draining) note += Draining(DrainLeft(s_, node));
      note += MemoryOf(name);
      absl::StrAppend(&out, Row(RoleName(node.role), name, StrCat(node.incarnation.value()), node.address,
                                left > 0 ? Seconds(left) : "none", note));
    }
    for (const auto& [id, stoc] : s_.stocs) {
      if (IsRegistered(stoc.record)) continue;
      const StocRecord& r = stoc.record;
      absl::StrAppend(&out, Row(RoleName(Role::kStoc), r.name, "-", r.host.empty() ? "-" : r.host, "none",
                                StocNote(id, &r, r.draining)));
    }
    return out;
  }

  std::string Ranges() const {
    std::string out = absl::StrFormat("%-6s %-26s %-26s %-6s %-11s %-16s %s\n", "range", "from", "to",
                                      "epoch", "state", "owner", "log groups");
    for (const auto& [id, range] : s_.ranges) {
      const RangeRecord& r = range.record;
      std::vector<std::string> groups;
      const uint32_t wanted = CopiesWanted(s_, range).log;
      for (const LogGroup& g : r.log_groups) groups.push_back(Group(g, wanted));
      absl::StrAppend(&out, absl::StrFormat("%-6d %-26s %-26s %-6d %-11s %-16s %s\n", id.value(),
                                            Printable(r.lower, "(first)"), Printable(r.upper, "(last)"),
                                            r.epoch.value(), ShownCondition(range),
                                            r.owner.empty() ? "-" : r.owner, absl::StrJoin(groups, " ")));
    }
    return out;
  }

  nlohmann::ordered_json Json(const StatusHeader& header) const {
    nlohmann::ordered_json out = {{"cluster", header.cluster.ToString()},
                                  {"coordinator",
                                   {{"name", header.leader},
                                    {"address", header.address},
                                    {"epoch", s_.coord_epoch.value()},
                                    {"leads_for_ms", (now_ - s_.elected_ns) / kMillisecond}}},
                                  {"nodes", nlohmann::json::array()},
                                  {"stocs", nlohmann::json::array()},
                                  {"ranges", nlohmann::json::array()}};
    for (const auto& [name, node] : s_.nodes) out["nodes"].push_back(JsonOf(name, node));
    for (const auto& [id, stoc] : s_.stocs) out["stocs"].push_back(JsonOf(stoc));
    for (const auto& [id, range] : s_.ranges) out["ranges"].push_back(JsonOf(id, range));
    out["settings"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : s_.settings.Given()) out["settings"][name] = value;
    const Redundancy copies = CountRedundancy(s_);
    out["copies"] = {{"log_groups", CountsJson(copies.logs)},
                     {"manifests", CountsJson(copies.manifests)},
                     {"tables", CountsJson(copies.tables)},
                     {"ranges_without_log", logs_.open_without},
                     {"ranges_whose_tables_are_not_heard_of", copies.unheard}};
    const double pace = s_.rebuild.BytesPerSecond();
    out["rebuild"] = {{"to_copy_bytes", copies.rebuild_bytes},
                      {"copied_bytes", copies.rebuilt_bytes},
                      {"bytes_per_second", static_cast<uint64_t>(pace)},
                      {"seconds_left", nullptr}};
    if (copies.rebuild_bytes == 0) out["rebuild"]["seconds_left"] = 0;
    if (copies.rebuild_bytes > 0 && pace >= 1)
      out["rebuild"]["seconds_left"] =
          static_cast<uint64_t>(static_cast<double>(copies.rebuild_bytes) / pace) + 1;
    return out;
  }

  // A line where an operator has set something.
  std::string Settings() const {
    const std::string given = s_.settings.ToString();
    return given.empty() ? "" : StrCat("set for all LTCs: ", given, "\n\n");
  }

  // A line where disks are ill.
  std::string Disks() const {
    const StocCounts counts = CountStocs(s_);
    if (counts.ill() == 0) return "";
    std::vector<std::string> ill;
    for (size_t d = kDiskStates - 1; d > 0; --d) {
      if (counts.by_disk[d] > 0)
        ill.push_back(StrCat(counts.by_disk[d], " ", DiskStateName(static_cast<DiskState>(d))));
    }
    return StrCat("disks of StoCs: ", counts.all(), ", ", absl::StrJoin(ill, ", "), "\n\n");
  }

  // A line a range that nobody can open, or that was not opened when that was tried last: why, and what to
  // do.
  std::string NotOpened() const {
    std::string out;
    for (const auto& [id, range] : s_.ranges) {
      const RangeCondition condition = copies_.ConditionOf(range);
      if (condition == RangeCondition::kOpen) continue;
      const std::vector<RangeLack> lacks = copies_.LacksOf(range.record);
      const OpenFailure* const failure = LastFailureOf(s_, range);
      if (!lacks.empty()) {
        std::vector<std::string> why;
        for (const RangeLack& lack : lacks) why.push_back(Describe(lack));
        absl::StrAppend(&out, "range ", id.value(), " is UNAVAILABLE: ", absl::StrJoin(why, "; "),
                        MayForceOpen(lacks) ? StrCat(", or by: nova force-open ", id.value()) : "", "\n");
      } else if (failure != nullptr) {
        absl::StrAppend(&out, "range ", id.value(),
                        failure->data_loss ? " is UNAVAILABLE: DATA LOSS: " : " is not open yet: ",
                        failure->why, ", says ", range.record.owner, "\n");
      }
    }
    return out.empty() ? out : out + "\n";
  }

  // The table of durability (D), for what the open ranges have: first what holds for every write, before its
  // flush and after; then each kind of copy by itself.
  std::string Durability() const {
    if (logs_.open == 0) return "durability: no range is open\n" + Copies();
    std::string out = StrCat("durability: ", Fewest(), NotOpen(), "\n");
    const Logs::Kind& memory = logs_.with[static_cast<size_t>(LogMedia::kMemory)];
    if (memory.ranges > 0) {
      absl::StrAppend(&out, "  memory log, ", OfWanted("R", memory.fewest, memory.wanted), ": ");
      if (memory.fewest == 0) {
        out += "the log of a range is on no StoC that lives\n";
      } else {
        absl::StrAppend(&out, "an acknowledged write is delivered at ", Plural(memory.fewest, "StoC"),
                        "; until its flush it survives the LTC and ", Plural(memory.fewest - 1, "member"),
                        " of a group between repairs; lost when all ", memory.fewest, " go together\n");
      }
    }
    for (const auto& [media, name] : {std::pair{LogMedia::kFiles, "persistent"},
                                      std::pair{LogMedia::kMemoryAndFiles, "memory+persistent"}}) {
      const Logs::Kind& kind = logs_.with[static_cast<size_t>(media)];
      if (kind.ranges == 0) continue;
      absl::StrAppend(&out, "  ", name, " log, ", OfWanted("R", kind.fewest, kind.wanted), ": ");
      if (kind.fewest == 0) {
        out += "the log of a range is on no StoC that lives\n";
        continue;
      }
      absl::StrAppend(
          &out, "an acknowledged write is written and synced at ", Plural(kind.fewest, "StoC"),
          " (one of sync=false: written); until its flush it survives also a loss of power of everything "
          "(of sync=false: the death of all processes); lost with all ",
          Plural(kind.fewest, "disk"), "\n");
    }
    if (logs_.open_without > 0) {
      absl::StrAppend(&out, "  no log on ", logs_.open_without, " of ", logs_.open,
                      " open ranges: an acknowledged write survives an orderly stop; lost when the LTC dies "
                      "before its flush\n");
    }
    return out + Copies();
  }

  // What was flushed, and how many copies there are now.
  std::string Copies() const {
    const Redundancy copies = CountRedundancy(s_);
    std::string out;
    if (copies.manifests.wanted > 0 && copies.tables.wanted > 0) {
      const uint32_t manifest = std::min(copies.manifests.fewest, copies.manifests.wanted);
      const uint32_t table = TableCopiesOf(copies.tables);
      const uint32_t fewest = std::min(manifest, table);
      absl::StrAppend(&out, "  what was flushed lies in tables, ",
                      OfWanted("copies", table, copies.tables.wanted), ", which manifests name, ",
                      OfWanted("M", manifest, copies.manifests.wanted), ": it survives the loss of ",
                      Plural(fewest > 0 ? fewest - 1 : 0, "disk"), "\n");
    }
    Tell("log groups", copies.logs, &out);
    Tell("manifests", copies.manifests, &out);
    Tell("tables", copies.tables, &out);
    if (copies.unheard > 0) {
      absl::StrAppend(&out, "tables of ", Plural(copies.unheard, "range"), ": not heard of\n");
    }
    if (copies.rebuild_bytes > 0 || copies.rebuilt_bytes > 0) {
      absl::StrAppend(&out, "rebuild: ", Megabytes(copies.rebuild_bytes), " MB to copy, ",
                      Megabytes(copies.rebuilt_bytes), " copied", RebuildTime(copies.rebuild_bytes), "\n");
    }
    return out;
  }

 private:
  // How fast it goes, and how long that will take; empty where there is nothing to say.
  std::string RebuildTime(uint64_t left) const {
    const double pace = s_.rebuild.BytesPerSecond();
    if (left == 0 || pace < 1) return "";
    return absl::StrFormat(", %.1f MB/s, some %.0f s left", pace / (1 << 20),
                           static_cast<double>(left) / pace);
  }
  // The record of the StoC that is registered so; null: it has none, or the record is of another store.
  const StocRecord* RecordOf(const NodeInfo& node) const {
    const auto stoc = s_.stocs.find(node.stoc_id);
    return stoc != s_.stocs.end() && stoc->second.record.store == node.store ? &stoc->second.record : nullptr;
  }
  // It has a line of its own as a node.
  bool IsRegistered(const StocRecord& record) const {
    return std::any_of(s_.nodes.begin(), s_.nodes.end(), [&](const auto& entry) {
      return entry.second.role == Role::kStoc && RecordOf(entry.second) == &s_.stocs.at(record.id).record;
    });
  }
  // `record` may be null.
  std::string StocNote(StocId stoc, const StocRecord* record, bool draining) const {
    std::string note = StrCat("stoc ", stoc.value());
    if (record != nullptr && record->presence != StocPresence::kUp) {
      absl::StrAppend(&note, record->presence == StocPresence::kLost ? ", lost" : "", ", away since ",
                      WallTime(record->away_since_ms));
    }
    if (record != nullptr) note += DiskNote(s_.stocs.at(stoc));
    return draining ? note + Draining(DrainLeft(s_, stoc)) : note;
  }
  // What ails its disk, and what is done for it.
  std::string DiskNote(const StocWatch& stoc) const {
    if (stoc.told_disk == DiskState::kOk) return "";
    std::string note = StrCat(", disk ", DiskStateName(stoc.told_disk));
    if (stoc.record.disk == stoc.told_disk)
      absl::StrAppend(&note, " since ", WallTime(stoc.record.disk_since_ms));
    if (!stoc.emptied) return note + ": no new files";
    const std::string left = DrainLeft(s_, stoc.record.id);
    if (left.empty()) return note + ": emptied";
    absl::StrAppend(&note, ": being emptied, ", left, " left");
    const uint32_t wanted = std::max({most_kept_.log, most_kept_.manifest, most_kept_.table});
    return StocsToTakeIt() < wanted ? note + ", too few other StoCs to take all" : note;
  }
  // StoCs that live, and are left neither by an operator's word nor for their disks.
  uint64_t StocsToTakeIt() const {
    return static_cast<uint64_t>(
        std::count_if(s_.live_stocs.begin(), s_.live_stocs.end(),
                      [this](const NodeInfo& n) { return !AsTold(s_, n).IsLeft(); }));
  }
  // What is said of its disk; of one that is heard also what it says itself.
  nlohmann::ordered_json DiskJson(const StocWatch& stoc) const {
    nlohmann::ordered_json out = {{"state", DiskStateName(stoc.told_disk)}, {"since_ms", nullptr}};
    if (stoc.record.disk != DiskState::kOk) out["since_ms"] = stoc.record.disk_since_ms;
    out["emptied"] = stoc.emptied;
    if (!stoc.disk_heard) return out;
    const DiskReport& report = stoc.disk_heard->report;
    out["faults"] = report.faults;
    out["hung_ms"] = report.hung_ns / kMillisecond;
    out["read_us"] = report.read_ns / kMicrosecond;
    out["sync_us"] = report.sync_ns / kMicrosecond;
    return out;
  }
  // These three: an object of `stocs`, of `nodes`, of `ranges`.
  nlohmann::ordered_json JsonOf(const StocWatch& stoc) const {
    const StocRecord& r = stoc.record;
    const bool up = r.presence == StocPresence::kUp;
    const auto unless_up = [up](int64_t ms) {
      return up ? nlohmann::ordered_json() : nlohmann::ordered_json(ms);
    };
    return {{"stoc", r.id.value()},
            {"name", r.name},
            {"host", r.host},
            {"store", r.store.ToString()},
            {"presence", PresenceName(r.presence)},
            {"away_since_ms", unless_up(r.away_since_ms)},
            {"listened_in_vain_ms", unless_up(r.away_ms)},
            {"draining", r.draining},
            {"left", r.draining || stoc.emptied ? nlohmann::ordered_json(DrainLeft(s_, r.id))
                                                : nlohmann::ordered_json()},
            {"disk", DiskJson(stoc)}};
  }
  // A node that is registered.
  nlohmann::ordered_json JsonOf(const std::string& name, const NodeInfo& node) const {
    nlohmann::ordered_json out = {{"name", name},
                                  {"role", RoleName(node.role)},
                                  {"incarnation", node.incarnation.value()},
                                  {"address", node.address},
                                  {"lease_left_ms", LeaseLeft(node) / kMillisecond},
                                  {"draining", AsTold(s_, node).draining}};
    if (node.role == Role::kStoc) out["stoc"] = node.stoc_id.value();
    const auto owned = s_.owned.find(node.incarnation);
    if (node.role == Role::kLtc) out["ranges"] = owned == s_.owned.end() ? 0 : owned->second.size();
    return out;
  }
  // Keys with what is not printable as C escapes it; null: the first, the last.
  nlohmann::ordered_json JsonOf(RangeId id, const ClusterState::Range& range) const {
    const RangeRecord& r = range.record;
    const auto key = [](const std::string& stored) {
      return stored.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(absl::CEscape(stored));
    };
    const OpenFailure* const failure = LastFailureOf(s_, range);
    return {{"range", id.value()},
            {"from_stored_key", key(r.lower)},
            {"to_stored_key", key(r.upper)},
            {"epoch", r.epoch.value()},
            {"state", RangeConditionName(copies_.ConditionOf(range))},
            {"why_not_open",
             failure == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(failure->why)},
            {"owner", r.owner},
            {"log_groups", r.log_groups.size()},
            {"log_members",
             r.log_groups.empty() ? nlohmann::ordered_json::array() : NamesOf(r.log_groups.back())}};
  }
  // Of its members.
  nlohmann::ordered_json NamesOf(const LogGroup& g) const {
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const LogMember& m : g.members) names.push_back(StocName(s_, m.stoc));
    return names;
  }
  // 0: none.
  Nanos LeaseLeft(const NodeInfo& node) const {
    const auto lease = s_.leases.find(node.incarnation);
    return lease == s_.leases.end() ? 0
                                    : std::max<Nanos>(0, lease->second.heard_ns + options_.lease_ns - now_);
  }
  // A write is in its log, and after its flush in tables that a manifest names: the fewest copies of them, of
  // the ranges that are open.
  std::string Fewest() const {
    size_t log = logs_.open_without > 0 ? 0 : SIZE_MAX;
    for (const Logs::Kind& kind : logs_.with) {
      if (kind.ranges > 0) log = std::min(log, kind.fewest);
    }
    const Redundancy copies = CountRedundancyOfOpen(s_);
    // Groups that take no writes any more hold some that are in no table yet.
    if (copies.logs.all > 0) log = std::min<size_t>(log, copies.logs.fewest);
    const std::string known = StrCat("log ", log, ", manifests ", copies.manifests.fewest);
    if (log == 0)
      return StrCat("an acknowledged write has no other copy than its LTC's before its flush (", known,
                    "): lost when that dies");
    if (copies.unheard > 0 || copies.manifests.all == 0)
      return StrCat("not known yet: which tables there are is not heard of (", known, ")");
    const size_t table = TableCopiesOf(copies.tables);
    const size_t fewest = std::min<size_t>({log, table, copies.manifests.fewest});
    const std::string out =
        StrCat("an acknowledged write has ", fewest == 1 ? "1 copy" : StrCat(fewest, " copies"),
               " at least (", known, ", tables ", table, "): ");
    if (fewest == 0) return out + "some may be lost";
    return StrCat(out, "it survives the LTC and ", Plural(fewest - 1, "StoC"));
  }
  // Of what is said only of ranges that are open: how many others there are.
  std::string NotOpen() const {
    const size_t others = s_.ranges.size() - logs_.open;
    return others == 0 ? ""
                       : StrCat("; ", Plural(others, "range"), others == 1 ? " is" : " are", " not open");
  }
  // By pool, as the node last said.
  std::string MemoryOf(const std::string& node) const {
    const auto report = s_.reports.find(node);
    if (report == s_.reports.end() || report->second.memory.empty()) return "";
    std::vector<std::string> pools;
    for (const auto& [pool, bytes] : report->second.memory) pools.push_back(StrCat(pool, " ", bytes >> 20));
    return StrCat(", MB: ", absl::StrJoin(pools, " "));
  }
  // So that it is seen.
  const char* ShownCondition(const ClusterState::Range& range) const {
    const RangeCondition condition = copies_.ConditionOf(range);
    return condition == RangeCondition::kUnavailable ? "UNAVAILABLE" : RangeConditionName(condition);
  }
  // What is lacking, and what ends that.
  std::string Describe(const RangeLack& lack) const {
    const std::string remedy = copies_.Remedy(lack);
    if (lack.group == nullptr) return StrCat("no copy of its manifest is there: ", remedy);
    const std::string group = StrCat("log group ", Members(*lack.group));
    if (!lack.away.empty())
      return StrCat("no member of ", group, " is there, what was synced is on their disks: ", remedy);
    return StrCat("all members of ", group, remedy.empty() ? " are gone" : " are lost", "; it opens if one ",
                  remedy.empty() ? "comes back with its memory" : "still has its disk: " + remedy);
  }
  // The group's members, and whether fewer live than are wanted.
  std::string Group(const LogGroup& g, uint32_t wanted) const {
    const bool degraded = LivingCopies(g, living_) < (wanted > 0 ? wanted : g.members.size());
    return StrCat(Members(g), degraded ? " DEGRADED" : "");
  }
  // A group's id and members, with a word behind each that is not there as it was listed.
  std::string Members(const LogGroup& g) const {
    std::vector<std::string> members;
    for (const LogMember& m : g.members) members.push_back(StrCat(StocName(s_, m.stoc), Standing(g, m)));
    return StrCat(g.id.value(), "{", absl::StrJoin(members, ","), "}");
  }
  // What is said behind a member's name; nothing: all is well.
  const char* Standing(const LogGroup& g, const LogMember& m) const {
    switch (copies_.Of(g, m)) {
      case CopyState::kAway:
        return "(away)";
      case CopyState::kLost:
        return "(lost)";
      case CopyState::kGone:
        return "(gone)";
      case CopyState::kThere:
        break;
    }
    if (!copies_.IsRunning(m)) return "(restarted)";
    return living_.contains(m.stoc) ? "" : "(silent)";
  }

  const ClusterOptions& options_;
  const ClusterState& s_;
  const Nanos now_;
  const LivingStocs living_ = LivingStocsOf(s_);
  const CopiesKept most_kept_ = MostCopiesKept(s_);
  const RangeCopies copies_{s_};
  Logs logs_;
};

}  // namespace

std::string RenderStatus(const ClusterOptions& options, const ClusterState& state, const StatusHeader& header,
                         Nanos now) {
  const Renderer r(options, state, now);
  return StrCat("cluster ", header.cluster.ToString(), "\ncoordinator ", header.leader, " at ",
                header.address, ", coord_epoch ", state.coord_epoch.value(), ", leads for ",
                Seconds(now - state.elected_ns), "\n\n", r.Nodes(), "\n", r.Ranges(), "\n", r.NotOpened(),
                r.Disks(), r.Settings(), r.Durability());
}

std::string RenderStatusJson(const ClusterOptions& options, const ClusterState& state,
                             const StatusHeader& header, Nanos now) {
  return Renderer(options, state, now)
      .Json(header)
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace nova
