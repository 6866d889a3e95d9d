#include "coordinator/status_text.h"

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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

std::string StateOf(const ClusterState::Range& range) {
  const RangeRecord& r = range.record;
  if (range.moving) return "moving";
  if (r.released) return "released";
  if (r.owner_incarnation == Incarnation()) return "no owner";
  return r.state == RangeState::kOpen ? "open" : "opening";
}

struct Logs {
  size_t replicas = 0;   // the largest group there is
  size_t groups = 0;
  size_t degraded = 0;
  size_t open = 0;
  size_t open_without = 0;
  std::array<size_t, 3> open_with{};  // by the LogMedia of the group that takes the writes
};

class Renderer {
 public:
  Renderer(const ClusterOptions& options, const ClusterState& state, Nanos now) : options_(options), s_(state), now_(now) {
    for (const auto& [name, node] : s_.nodes) {
      if (node.role == Role::kStoc) stocs_[node.stoc_id] = &node;
    }
    for (const auto& [id, range] : s_.ranges) {
      for (const LogGroup& g : range.record.log_groups) logs_.replicas = std::max(logs_.replicas, g.members.size());
    }
    for (const auto& [id, range] : s_.ranges) {
      const bool open = range.record.state == RangeState::kOpen && !range.record.released;
      logs_.open += open;
      logs_.open_without += open && range.record.log_groups.empty();
      if (open && !range.record.log_groups.empty()) ++logs_.open_with[static_cast<size_t>(range.record.log_groups.back().media)];
      for (const LogGroup& g : range.record.log_groups) {
        ++logs_.groups;
        logs_.degraded += IsDegraded(g);
      }
    }
  }

  std::string Nodes() const {
    std::string out = absl::StrFormat("%-6s %-16s %-12s %-24s %-10s %s\n", "role", "node", "incarnation", "address", "lease", "");
    for (const auto& [name, node] : s_.nodes) {
      const auto lease = s_.leases.find(node.incarnation);
      const Nanos left = lease == s_.leases.end() ? 0 : lease->second.heard_ns + options_.lease_ns - now_;
      std::string note;
      if (node.role == Role::kStoc) absl::StrAppend(&note, "stoc ", node.stoc_id.value());
      const auto owned = s_.owned.find(node.incarnation);
      if (node.role == Role::kLtc) {
        absl::StrAppend(&note, owned == s_.owned.end() ? 0 : owned->second.size(), " ranges");
      }
      if (node.draining) {
        const std::string left = DrainLeft(s_, node);
        absl::StrAppend(&note, left.empty() ? ", drained" : StrCat(", draining: ", left, " left"));
      }
      note += MemoryOf(name);
      absl::StrAppend(&out, absl::StrFormat("%-6s %-16s %-12d %-24s %-10s %s\n", RoleName(node.role), name,
                                            node.incarnation.value(), node.address, left > 0 ? Seconds(left) : "none", note));
    }
    return out;
  }

  std::string Ranges() const {
    std::string out = absl::StrFormat("%-6s %-26s %-26s %-6s %-11s %-16s %s\n", "range", "from", "to", "epoch", "state", "owner",
                                      "log groups");
    for (const auto& [id, range] : s_.ranges) {
      const RangeRecord& r = range.record;
      std::vector<std::string> groups;
      for (const LogGroup& g : r.log_groups) groups.push_back(Group(g));
      absl::StrAppend(&out, absl::StrFormat("%-6d %-26s %-26s %-6d %-11s %-16s %s\n", id.value(), Printable(r.lower, "(first)"),
                                            Printable(r.upper, "(last)"), r.epoch.value(),
                                            WhyUnavailable(r).empty() ? StateOf(range) : "UNAVAILABLE",
                                            r.owner.empty() ? "-" : r.owner, absl::StrJoin(groups, " ")));
    }
    return out;
  }

  // A line a range that nobody can open: why, and what to do.
  std::string Unavailable() const {
    std::string out;
    for (const auto& [id, range] : s_.ranges) {
      const std::string why = WhyUnavailable(range.record);
      if (why.empty()) continue;
      absl::StrAppend(&out, "range ", id.value(), " is UNAVAILABLE: ", why, "; it opens if one comes back with its memory, or by: nova force-open ", id.value(),
                      "\n");
    }
    return out.empty() ? out : out + "\n";
  }

  // The table of protocol D, for what the open ranges have.
  std::string Durability() const {
    if (logs_.open == 0) return "durability: no range is open\n";
    std::string out;
    if (logs_.open_with[static_cast<size_t>(LogMedia::kMemory)] > 0) {
      absl::StrAppend(&out, "durability: memory log, R=", logs_.replicas, ": an acknowledged write is delivered at ",
                      logs_.replicas, " StoCs; it survives the LTC and ", logs_.replicas - 1,
                      " members of a group between repairs; lost when all ", logs_.replicas, " go together\n");
    }
    for (const auto& [media, name] : {std::pair{LogMedia::kFiles, "persistent"}, std::pair{LogMedia::kMemoryAndFiles, "memory+persistent"}}) {
      if (logs_.open_with[static_cast<size_t>(media)] == 0) continue;
      absl::StrAppend(&out, "durability: ", name, " log, R=", logs_.replicas, ": an acknowledged write is written and synced at ",
                      logs_.replicas, " StoCs (one of sync=false: written); it survives also a loss of power of everything (of sync=false: the death of all processes); lost with all ",
                      logs_.replicas, " disks\n");
    }
    if (logs_.open_without > 0) {
      absl::StrAppend(&out, "durability: no log on ", logs_.open_without, " of ", logs_.open,
                      " open ranges: an acknowledged write survives an orderly stop; lost when the LTC dies before its flush\n");
    }
    absl::StrAppend(&out, "log groups: ", logs_.groups, ", degraded: ", logs_.degraded, "\n");
    return out;
  }

 private:
  bool MemberAlive(const LogMember& m) const {
    const auto it = stocs_.find(m.stoc);
    return it != stocs_.end() && it->second->incarnation == m.incarnation;
  }
  bool Holds(const LogGroup& g, const LogMember& m) const {
    const auto it = stocs_.find(m.stoc);
    return it != stocs_.end() && g.Holds(m, it->second->incarnation, it->second->store);
  }
  // By pool, as the node last said.
  std::string MemoryOf(const std::string& node) const {
    const auto report = s_.reports.find(node);
    if (report == s_.reports.end() || report->second.memory.empty()) return "";
    std::vector<std::string> pools;
    for (const auto& [pool, bytes] : report->second.memory) pools.push_back(StrCat(pool, " ", bytes >> 20));
    return StrCat(", MB: ", absl::StrJoin(pools, " "));
  }
  // What a range that is to be opened lacks: an open one has it in its LTC.
  std::string WhyUnavailable(const RangeRecord& r) const {
    if (r.state == RangeState::kOpen) return "";
    for (const LogGroup& g : r.log_groups) {
      const auto gone = [&](const LogMember& m) { return !Holds(g, m); };
      if (std::all_of(g.members.begin(), g.members.end(), gone)) return StrCat("all members of log group ", Members(g), " are gone");
    }
    const auto missing = [this](StocId stoc) { return !stocs_.contains(stoc); };
    if (!r.manifest.members.empty() && std::all_of(r.manifest.members.begin(), r.manifest.members.end(), missing)) {
      return "all StoCs with its manifest are gone";
    }
    return "";
  }
  bool IsDegraded(const LogGroup& g) const {
    return g.members.size() < logs_.replicas ||
           !std::all_of(g.members.begin(), g.members.end(), [this](const LogMember& m) { return MemberAlive(m); });
  }
  std::string Group(const LogGroup& g) const { return StrCat(Members(g), IsDegraded(g) ? " DEGRADED" : ""); }
  std::string Members(const LogGroup& g) const {
    std::vector<std::string> members;
    for (const LogMember& m : g.members) {
      const auto it = stocs_.find(m.stoc);
      members.push_back(StrCat(it != stocs_.end() ? it->second->name : StrCat("stoc ", m.stoc.value()),
                               MemberAlive(m) ? "" : Holds(g, m) ? "(restarted)" : "(gone)"));
    }
    return StrCat(g.id.value(), "{", absl::StrJoin(members, ","), "}");
  }

  const ClusterOptions& options_;
  const ClusterState& s_;
  const Nanos now_;
  std::map<StocId, const NodeInfo*> stocs_;
  Logs logs_;
};

}  // namespace

std::string RenderStatus(const ClusterOptions& options, const ClusterState& state, const StatusHeader& header, Nanos now) {
  const Renderer r(options, state, now);
  return StrCat("cluster ", header.cluster.ToString(), "\ncoordinator ", header.leader, " at ", header.address, ", coord_epoch ",
                state.coord_epoch.value(), ", leads for ", Seconds(now - state.elected_ns), "\n\n", r.Nodes(), "\n", r.Ranges(),
                "\n", r.Unavailable(), r.Durability());
}

}  // namespace nova
