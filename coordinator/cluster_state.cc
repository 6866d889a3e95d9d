#include "coordinator/cluster_state.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "coordinator/range_share.h"

namespace nova {
namespace {

constexpr double kPaceHalfLifeS = 10;
// After a try that did not succeed, or whose answer was lost.
constexpr Nanos kMakeRecordAgainNs = 10 * kSecond;
// After ranges changed owners: the next one may follow, and who was given the last one has to hear of it.
constexpr Nanos kHurryForNs = kSecond;
// Until LTCs hear that they are to ask again soon: a heartbeat, and a bit.
constexpr Nanos kHurryHeardNs = 600 * kMillisecond;

Nanos Stretched(const ClusterOptions& options, Nanos lease_ns) {
  return lease_ns + static_cast<Nanos>(static_cast<double>(lease_ns) * options.clock_rate_error) +
         options.lease_margin_ns;
}

// New leader (C2): when every lease that an earlier coordinator granted has ended.
Nanos EarlierLeasesEnd(const ClusterOptions& options, const ClusterState& state) {
  if (options.off.c2_wait) return 0;
  return state.elected_ns + Stretched(options, std::max(state.longest_lease_ns, options.lease_ns));
}

bool HasFreshLease(const ClusterOptions& options, const ClusterState& state, Incarnation incarnation,
                   Nanos now) {
  const auto it = state.leases.find(incarnation);
  return it != state.leases.end() && it->second.heard_ns + options.lease_ns > now;
}

class Stepper {
 public:
  Stepper(const ClusterOptions& options, ClusterState* state, Nanos now)
      : options_(options), s_(*state), now_(now) {}

  void operator()(const ElectedEvent& e) {
    s_ = ClusterState{};
    s_.coord_epoch = e.coord_epoch;
    s_.elected_ns = now_;
    s_.longest_lease_ns = e.longest_lease_ns;
  }

  void operator()(const AuthorityEvent& e) { s_.authority_until_ns = e.until_ns; }

  void operator()(const NodeSeenEvent& e) {
    const auto [it, added] = s_.nodes.try_emplace(e.node.name, e.node);
    if (!added && it->second == e.node) return;
    const Incarnation before = it->second.incarnation;
    it->second = e.node;
    NodeChanged(e.node.name, before);
    if (before != e.node.incarnation) NodeChanged(e.node.name, e.node.incarnation);
  }

  void operator()(const NodeGoneEvent& e) {
    const auto it = s_.nodes.find(e.name);
    if (it == s_.nodes.end()) return;
    const Incarnation incarnation = it->second.incarnation;
    s_.nodes.erase(it);
    s_.reports.erase(e.name);
    NodeChanged(e.name, incarnation);
  }

  void operator()(const RangeReadEvent& e) {
    const auto it = s_.ranges.find(e.record.id);
    if (it == s_.ranges.end()) {
      ClusterState::Range& range = s_.ranges[e.record.id];
      // Nobody knows who moved it, and when: the wait (R5) is that of a new leader (C2). Its first owner has
      // nobody to wait for.
      range.old_lease_ends_ns = e.record.epoch.value() <= 1 ? 0 : EarlierLeasesEnd(options_, s_);
      SetRecord(&range, e.record);
      range.found_without_owner = e.record.released || e.record.owner_incarnation == Incarnation();
      return;
    }
    ClusterState::Range& range = it->second;
    if (e.record.version <= range.record.version) return;
    if (e.record.epoch > range.record.epoch) {
      range.old_lease_ends_ns = std::max(range.old_lease_ends_ns, EarlierLeasesEnd(options_, s_));
    }
    SetRecord(&range, e.record);
  }

  void operator()(const RangeGoneEvent& e) {
    const auto it = s_.ranges.find(e.range);
    if (it == s_.ranges.end()) return;
    DisownRange(it->second);
    s_.ranges.erase(it);
    s_.changed_ranges.insert(e.range);
  }

  void operator()(const AssignDoneEvent& e) {
    const auto it = s_.ranges.find(e.range);
    if (it == s_.ranges.end()) return;
    ClusterState::Range& range = it->second;
    DisownRange(range);
    range.moving = false;
    range.moving_to = Incarnation();
    if (e.record.has_value() && e.record->version > range.record.version) {
      Replace(&range, *e.record);
    }
    OwnRange(range);
  }

  void operator()(const StocReadEvent& e) {
    const auto [it, added] = s_.stocs.try_emplace(e.record.id);
    StocWatch& stoc = it->second;
    s_.record_made_ns.erase(e.record.id);
    if (!added && e.record.version <= stoc.record.version) return;
    // Nobody knows which part of this leader's listening the record counts already: it begins anew.
    stoc.silent_from = {now_, s_.deaf_ns};
    SetStocRecord(&stoc, e.record);
  }

  void operator()(const StocGoneEvent& e) {
    if (s_.stocs.erase(e.stoc) > 0) StocChanged(e.stoc);
  }

  // A read that was begun before another one may end after it.
  void operator()(const SettingsReadEvent& e) {
    if (e.version < s_.settings_version) return;
    s_.settings = e.settings;
    s_.settings_version = e.version;
  }

  void operator()(const StocChangeDoneEvent& e) {
    const auto it = s_.stocs.find(e.stoc);
    if (it == s_.stocs.end()) {  // it was made, or is forgotten
      if (e.record.has_value() && s_.record_made_ns.contains(e.stoc)) (*this)(StocReadEvent{*e.record});
      return;
    }
    StocWatch& stoc = it->second;
    stoc.changing = false;
    const std::optional<StocWatch::Moment> counted_to = std::exchange(stoc.counted_to, std::nullopt);
    if (!e.record.has_value() || e.record->version <= stoc.record.version) return;
    // Unless it was heard meanwhile.
    if (counted_to && counted_to->at_ns > stoc.silent_from.at_ns) stoc.silent_from = *counted_to;
    SetStocRecord(&stoc, *e.record);
  }

  void operator()(const HeartbeatEvent& e) { out_.answer = Answer(e); }

  void operator()(const TickEvent& e) {
    if (e.deaf_ns > 0) NoteDeaf(e.deaf_ns);
    if (e.deaf_ns >= options_.lease_ns) s_.first_ltc_heard_ns = 0;  // all come anew
    s_.rebuild.Tick(now_);
    WatchStocs(e.wall_ms);
    RefreshStocs();
    MoveRanges();
    s_.share = now_ < s_.authority_until_ns ? NextShare(options_, s_, now_) : std::nullopt;
    if (ChangesAreAhead()) {
      if (s_.hurry_until_ns <= now_) s_.hurry_since_ns = now_;
      s_.hurry_until_ns = now_ + kHurryForNs;
    }
    ForgetEndedLeases();
  }

  ClusterDecisions Take() { return std::move(out_); }

 private:
  // The node's standing; of a registered one its lease, StoCs, exclusions, assignments and releases.
  HeartbeatAnswer Answer(const HeartbeatEvent& e) {
    HeartbeatAnswer answer;
    const bool has_list = s_.stocs_version != 0;
    answer.stocs_version = has_list ? s_.stocs_version : e.stocs_version;
    const auto node = s_.nodes.find(e.name);
    if (node == s_.nodes.end() || node->second.incarnation < e.incarnation) return answer;
    if (node->second.incarnation > e.incarnation) {
      answer.standing = Standing::kSuperseded;
      return answer;
    }
    answer.standing = Standing::kRegistered;
    TakeReport(e);
    if (node->second.role == Role::kLtc) {
      answer.settings = s_.settings;
      answer.draining = node->second.draining;
    }
    if (has_list && e.stocs_version != s_.stocs_version) {
      answer.stocs = s_.live_stocs;
      answer.lost_stocs = s_.lost_stocs;
    }
    if (now_ >= s_.authority_until_ns) return answer;  // Lease (C3): no grant without a session
    ClusterState::Lease& lease = s_.leases[e.incarnation];
    if (node->second.role == Role::kLtc) NoteLtcHeard(lease);
    lease.name = e.name;
    if (lease.heard_ns + options_.lease_ns <= now_) lease.heard_since_ns = now_;
    lease.heard_ns = now_;
    lease.stopping = e.report.stopping;
    lease.deaf_before_ns = s_.deaf_ns;
    lease.ends_ns = std::max(lease.ends_ns, now_ + Stretched(options_, options_.lease_ns));
    answer.lease_ns = options_.lease_ns;
    answer.forgiven_disk_faults = ForgivenFaults(node->second);
    if (node->second.role != Role::kLtc) return answer;
    answer.ask_again_soon = now_ < s_.hurry_until_ns;
    AddExclusions(e, lease, &answer);
    AddAssignments(e.incarnation, &answer);
    // Nobody lets go of a range before the next owner asks often: it would be closed until that does.
    if (!answer.ask_again_soon || s_.hurry_since_ns + kHurryHeardNs > now_) return answer;
    if (node->second.draining) AddReleases(e.incarnation, &answer);
    if (s_.share && s_.share->from == e.incarnation) AddShare(&answer);
    return answer;
  }

  // An LTC is heard for the first time. More may follow, so nothing moves until a while after (Settled).
  void NoteLtcHeard(const ClusterState::Lease& before) {
    if (s_.first_ltc_heard_ns == 0) {
      s_.first_ltc_heard_ns = now_;
    } else if (before.heard_ns >= s_.first_ltc_heard_ns) {
      return;  // not newly
    }
    s_.settled_ns =
        std::min(now_ + options_.settle_ns,
                 s_.first_ltc_heard_ns + std::max(options_.settle_ns, options_.longest_settle_ns));
  }

  // The node, and the ranges of that process of it, are shown anew.
  void NodeChanged(const std::string& name, Incarnation incarnation) {
    s_.changed_nodes.insert(name);
    const auto owned = s_.owned.find(incarnation);
    if (owned != s_.owned.end()) s_.changed_ranges.insert(owned->second.begin(), owned->second.end());
  }

  // The process that a range is counted for: its owner, or the one it is on its way to.
  Incarnation HolderOf(const ClusterState::Range& range) const {
    return range.moving ? range.moving_to : range.record.owner_incarnation;
  }
  // Before a range changes its holder, and after: the ranges of each process, an index.
  void DisownRange(const ClusterState::Range& range) {
    const auto it = s_.owned.find(HolderOf(range));
    if (it == s_.owned.end()) return;
    it->second.erase(range.record.id);
    if (it->second.empty()) s_.owned.erase(it);
  }
  // The second half of that.
  void OwnRange(const ClusterState::Range& range) {
    const Incarnation holder = HolderOf(range);
    if (holder != Incarnation()) s_.owned[holder].insert(range.record.id);
  }
  // Replace, and the index of holders with it.
  void SetRecord(ClusterState::Range* range, const RangeRecord& record) {
    DisownRange(*range);
    Replace(range, record);
    OwnRange(*range);
  }
  // Takes a later record. One of a later epoch ends the old owner's right: its leases exclude the range.
  void Replace(ClusterState::Range* range, const RangeRecord& record) {
    const RangeRecord& before = range->record;
    const Epoch before_epoch = before.epoch;
    if (record.epoch > before.epoch) {
      if (!before.released && before.owner_incarnation != Incarnation()) {
        ClusterState::Lease& lease = s_.leases[before.owner_incarnation];
        lease.name = before.owner;
        lease.taken[before.id] = before.epoch;
        // R5: the old owner may have been heard, and granted a lease that does not exclude the range, while
        // it was being moved.
        if (!options_.off.r5_late_grant) {
          range->old_lease_ends_ns = std::max(range->old_lease_ends_ns, lease.ends_ns);
        }
      }
      range->load = RangeLoad{};
    }
    range->record = record;
    range->found_without_owner = false;
    if (record.state == RangeState::kOpen) range->passed_on = 0;
    if (record.epoch != before_epoch) range->assigned_ns = now_;
    s_.changed_ranges.insert(record.id);
  }

  // Keeps a node's report, and the load of those ranges that it owns.
  void TakeReport(const HeartbeatEvent& e) {
    s_.reports[e.name] = e.report;
    for (const RangeLoad& load : e.report.ranges) {
      const auto it = s_.ranges.find(load.range);
      if (it == s_.ranges.end()) continue;
      const RangeRecord& record = it->second.record;
      if (record.owner_incarnation != e.incarnation || record.epoch != load.epoch) continue;
      const uint64_t before = it->second.load.epoch == load.epoch ? it->second.load.tables.rebuilt_bytes : 0;
      s_.rebuild.since_tick += load.tables.rebuilt_bytes - std::min(before, load.tables.rebuilt_bytes);
      it->second.load = load;
    }
  }

  // Ranges that the lease does not hold for: taken from the process, or reported though another owns them.
  void AddExclusions(const HeartbeatEvent& e, const ClusterState::Lease& lease, HeartbeatAnswer* answer) {
    std::map<RangeId, Epoch> excluded = lease.taken;
    for (const RangeLoad& load : e.report.ranges) {
      const auto it = s_.ranges.find(load.range);
      if (it == s_.ranges.end()) continue;
      const RangeRecord& record = it->second.record;
      const bool others =
          record.epoch == load.epoch && record.owner_incarnation != e.incarnation && !record.released;
      if (record.epoch <= load.epoch && !others) continue;
      Epoch& epoch = excluded[load.range];
      epoch = std::max(epoch, load.epoch);
    }
    answer->excluded.assign(excluded.begin(), excluded.end());
  }

  // Ranges that the process is to open, with the wait (R5) that is left.
  void AddAssignments(Incarnation incarnation, HeartbeatAnswer* answer) {
    const auto owned = s_.owned.find(incarnation);
    if (owned == s_.owned.end()) return;
    for (const RangeId id : owned->second) {
      const ClusterState::Range& range = s_.ranges.at(id);
      if (range.moving || range.record.state != RangeState::kSealing || range.record.released) continue;
      answer->assigned.push_back({range.record, std::max<Nanos>(0, range.old_lease_ends_ns - now_)});
    }
  }

  // Of a draining LTC: a few open ranges to let go of, as long as another LTC could take them.
  void AddReleases(Incarnation incarnation, HeartbeatAnswer* answer) {
    const auto owned = s_.owned.find(incarnation);
    if (owned == s_.owned.end() || Candidates().empty()) return;
    for (const RangeId id : owned->second) {
      if (answer->release.size() >= options_.releases_at_once) return;
      const ClusterState::Range& range = s_.ranges.at(id);
      if (range.moving || !range.record.IsOpen()) continue;
      answer->release.emplace_back(id, range.record.epoch);
    }
  }

  // The range that the process is to share, if it is still as it was at the last tick.
  void AddShare(HeartbeatAnswer* answer) const {
    const auto it = s_.ranges.find(s_.share->range);
    if (it == s_.ranges.end()) return;
    const RangeRecord& record = it->second.record;
    if (it->second.moving || record.epoch != s_.share->epoch || record.state != RangeState::kOpen) return;
    answer->release.emplace_back(record.id, record.epoch);
  }

  struct Candidate {
    const NodeInfo* node;
    size_t ranges;
    bool unfit;  // it did not open a range, not long ago
  };
  // LTCs that may be given ranges, by name.
  std::vector<Candidate> Candidates() const {
    std::vector<Candidate> found;
    for (const auto& [name, node] : s_.nodes) {
      if (node.role != Role::kLtc || node.draining || !HasFreshLease(options_, s_, node.incarnation, now_))
        continue;
      if (s_.leases.at(node.incarnation).stopping) continue;
      const auto owned = s_.owned.find(node.incarnation);
      found.push_back({&node, owned == s_.owned.end() ? 0 : owned->second.size(),
                       s_.leases.at(node.incarnation).unfit_until_ns > now_});
    }
    return found;
  }

  // The owner is heard, and has not opened the range in time, or will not.
  bool IsOverdue(const ClusterState::Range& range) const {
    const RangeRecord& record = range.record;
    if (range.moving || record.state != RangeState::kSealing || record.released ||
        !HasFreshLease(options_, s_, record.owner_incarnation, now_))
      return false;
    if (s_.leases.at(record.owner_incarnation).stopping) return true;
    const Nanos within = record.log_groups.empty() ? options_.open_within_ns : options_.replay_within_ns;
    return now_ >= range.assigned_ns + (within << std::min(range.passed_on, 5));
  }
  // Who is to be the owner: of those that are fit, or else of all, the one with the fewest ranges. Of a range
  // that is overdue its owner is out, and so are those that are not fit; null: it stays where it is.
  static Candidate* PickOwner(const ClusterState::Range& range, bool overdue,
                              std::vector<Candidate>* candidates) {
    Candidate* best = nullptr;
    for (Candidate& c : *candidates) {
      if (overdue && (c.unfit || c.node->incarnation == range.record.owner_incarnation)) continue;
      if (best == nullptr || std::tuple(c.unfit, c.ranges) < std::tuple(best->unfit, best->ranges)) best = &c;
    }
    return best;
  }
  // An overdue range leaves its owner.
  void PassOn(ClusterState::Range* range) {
    ++range->passed_on;
    const auto lease = s_.leases.find(range->record.owner_incarnation);
    if (lease != s_.leases.end()) lease->second.unfit_until_ns = now_ + options_.unfit_for_ns;
  }

  // Nobody serves the range, nor can: it is released, was never owned, or its owner's leases have ended (C2).
  bool MayMove(const ClusterState::Range& range) const {
    const RangeRecord& record = range.record;
    if (range.moving) return false;
    if (record.released && !range.found_without_owner) return true;
    if (record.released || record.owner_incarnation == Incarnation()) return Settled();
    const auto lease = s_.leases.find(record.owner_incarnation);
    const bool heard = lease != s_.leases.end() && lease->second.heard_ns != ClusterState::kUnheard;
    if (options_.off.c3_lease_wait && heard) return lease->second.heard_ns + options_.lease_ns / 2 < now_;
    if (LeaseEnds(options_, s_, record.owner_incarnation) > now_) return false;
    if (heard) {
      return ListenedSince(lease->second.heard_ns, lease->second.deaf_before_ns) >= options_.lease_ns;
    }
    if (options_.off.c2_wait || options_.off.c2_listen) return true;
    return Settled() && (!IsRegistered(record) || ListenedSince(s_.elected_ns, 0) >= options_.listen_ns);
  }
  // LTCs have had time to come, so that the first to be heard is not given everything.
  bool Settled() const { return s_.first_ltc_heard_ns != 0 && now_ >= s_.settled_ns; }
  // Time since then in which this leader could have heard a heartbeat.
  Nanos ListenedSince(Nanos then_ns, Nanos deaf_then_ns) const {
    return now_ - then_ns - (s_.deaf_ns - deaf_then_ns);
  }
  // This leader was deaf. What it did between its waking and this event took that time for yet to come:
  // it was not deaf for longer than the time that has passed since.
  void NoteDeaf(Nanos deaf_ns) {
    s_.deaf_ns += deaf_ns;
    const auto bound = [this](Nanos since_ns, Nanos* deaf_then_ns) {
      *deaf_then_ns = std::max(*deaf_then_ns, s_.deaf_ns - (now_ - since_ns));
    };
    for (auto& [incarnation, lease] : s_.leases) bound(lease.heard_ns, &lease.deaf_before_ns);
    for (auto& [id, stoc] : s_.stocs) {
      bound(stoc.silent_from.at_ns, &stoc.silent_from.deaf_ns);
      bound(stoc.pace_from.at_ns, &stoc.pace_from.deaf_ns);
    }
  }
  // The process that owns the range still has its node's name.
  bool IsRegistered(const RangeRecord& record) const {
    const auto node = s_.nodes.find(record.owner);
    return node != s_.nodes.end() && node->second.incarnation == record.owner_incarnation;
  }

  // Decides a move for each range that may move, or is overdue.
  void MoveRanges() {
    if (now_ >= s_.authority_until_ns) return;
    std::vector<Candidate> candidates = Candidates();
    if (candidates.empty()) return;
    for (auto& [id, range] : s_.ranges) {
      const bool may = MayMove(range);
      if (!may && !IsOverdue(range)) continue;
      Candidate* const least = PickOwner(range, !may, &candidates);
      if (least == nullptr) continue;
      RangeMove move{range.record, range.record};
      if (!options_.off.r1_epoch) move.after.epoch = Epoch(range.record.epoch.value() + 1);
      move.after.state = RangeState::kSealing;
      move.after.owner = least->node->name;
      move.after.owner_incarnation = least->node->incarnation;
      move.after.released = false;
      if (!may) PassOn(&range);
      DisownRange(range);
      range.moving = true;
      range.moving_to = least->node->incarnation;
      OwnRange(range);
      ++least->ranges;
      out_.moves.push_back(std::move(move));
    }
  }

  // A range is on its way to another owner, or will be within seconds.
  bool ChangesAreAhead() const {
    if (now_ >= s_.authority_until_ns || Candidates().empty()) return false;
    if (s_.share) return true;
    return std::any_of(s_.ranges.begin(), s_.ranges.end(),
                       [this](const auto& entry) { return WillMove(entry.second); });
  }
  // It moves, or nobody owns it, or its owner lets go of it, or is not heard.
  bool WillMove(const ClusterState::Range& range) const {
    const RangeRecord& record = range.record;
    if (range.moving || record.released || record.owner_incarnation == Incarnation()) return true;
    const auto lease = s_.leases.find(record.owner_incarnation);
    if (lease == s_.leases.end() || lease->second.stopping) return true;
    if (lease->second.heard_ns + options_.lease_ns / 2 <= now_) return true;
    const auto node = s_.nodes.find(record.owner);
    return node != s_.nodes.end() && node->second.draining;
  }

  // Writes need no lease (C4): one that this leader had no time to hear is as good as it was: LTCs are told
  // of few, or none, only when few are there.
  bool IsLiveStoc(const NodeInfo& node) const {
    const auto lease = s_.leases.find(node.incarnation);
    const Nanos listened = lease == s_.leases.end()
                               ? ListenedSince(s_.elected_ns, 0)
                               : ListenedSince(lease->second.heard_ns, lease->second.deaf_before_ns);
    return listened < options_.lease_ns;
  }
  // This leader itself has heard it, and not too long ago.
  bool IsHeardStoc(const NodeInfo& node) const {
    const auto lease = s_.leases.find(node.incarnation);
    return lease != s_.leases.end() && lease->second.heard_ns != ClusterState::kUnheard && IsLiveStoc(node);
  }

  // A later record of a StoC.
  void SetStocRecord(StocWatch* stoc, const StocRecord& record) {
    const bool drained = stoc->record.draining;
    stoc->record = record;
    if (drained != record.draining) StocChanged(record.id);
  }
  // Nodes and clients are told anew of whoever is registered with that id.
  void StocChanged(StocId stoc) {
    for (const auto& [name, node] : s_.nodes) {
      if (node.role == Role::kStoc && node.stoc_id == stoc) NodeChanged(name, node.incarnation);
    }
  }

  using StocNodes = std::multimap<StocId, const NodeInfo*>;
  // What this leader sees of a StoC now; who is registered with its id is among `nodes`.
  StocLook LookAt(const StocWatch& stoc, const StocNodes& nodes) const {
    const StocRecord& record = stoc.record;
    StocLook look;
    const auto [begin, end] = nodes.equal_range(record.id);
    for (auto it = begin; it != end && !look.heard; ++it) {
      if (it->second->store != record.store) continue;
      look.node = it->second;
      look.live |= IsLiveStoc(*look.node);
      look.heard = IsHeardStoc(*look.node);
    }
    const auto namesake = s_.nodes.find(record.name);
    look.replaced = namesake != s_.nodes.end() && namesake->second.role == Role::kStoc &&
                    namesake->second.store != record.store && IsHeardStoc(namesake->second);
    look.listened_ns = ListenedSince(stoc.silent_from.at_ns, stoc.silent_from.deaf_ns);
    look.silent_ns = now_ - stoc.silent_from.at_ns;
    return look;
  }

  // Of the faults of the process' disk, how many an operator has forgiven.
  uint64_t ForgivenFaults(const NodeInfo& node) const {
    const auto stoc = s_.stocs.find(node.stoc_id);
    if (node.role != Role::kStoc || stoc == s_.stocs.end()) return 0;
    const StocRecord& r = stoc->second.record;
    return r.store == node.store && r.forgiven_incarnation == node.incarnation ? r.forgiven_faults : 0;
  }
  // What ails the disk by the word of its StoC: a fault that nobody has forgiven, or that it hangs.
  DiskState DiskBy(const DiskReport& report, const NodeInfo& node) const {
    if (IsDiskFault(report.fault) && report.faults > ForgivenFaults(node)) return report.fault;
    return report.hung_ns > 0 ? DiskState::kHung : DiskState::kOk;
  }
  // Which disks are outliers, of those whose StoCs say how long they take.
  std::map<StocId, DiskPace> Paces() const {
    std::map<StocId, DiskTimes> times;
    for (const auto& [id, stoc] : s_.stocs) {
      if (stoc.disk_heard) times[id] = {stoc.disk_heard->report.read_ns, stoc.disk_heard->report.sync_ns};
    }
    return JudgePaces(options_.disk_pace, times);
  }
  // What a StoC says of its disk, if it is heard.
  void HearDisk(const StocLook& look, StocWatch* stoc) const {
    stoc->disk_heard.reset();
    if (!look.heard) return;
    const auto report = s_.reports.find(look.node->name);
    if (report != s_.reports.end() && report->second.disk)
      stoc->disk_heard = {look.node->incarnation, *report->second.disk};
  }
  // What nodes are told of the disk: the worst of the record and of what is heard.
  void LookAtDisk(DiskPace pace, StocLook* look, StocWatch* stoc) const {
    if (std::exchange(stoc->pace, pace) != pace) stoc->pace_from = {now_, s_.deaf_ns};
    look->pace = pace;
    look->pace_for_ns = ListenedSince(stoc->pace_from.at_ns, stoc->pace_from.deaf_ns);
    stoc->told_disk = stoc->record.disk;
    stoc->emptied = IsDiskFault(stoc->record.disk);
    if (!stoc->disk_heard) return;
    const DiskReport& report = stoc->disk_heard->report;
    look->disk = DiskBy(report, *look->node);
    const DiskState full = report.full ? DiskState::kFull : DiskState::kOk;
    stoc->told_disk = std::max({stoc->record.disk, look->disk, full});
    stoc->emptied = IsDiskFault(stoc->told_disk) || report.hung_ns >= options_.stoc_down_after_ns;
  }

  // Decides a change of each StoC's record that is not true any more (StoC record, N5).
  void WatchStocs(int64_t wall_ms) {
    if (now_ >= s_.authority_until_ns) return;
    StocNodes nodes;
    for (const auto& [name, node] : s_.nodes) {
      if (node.role == Role::kStoc) nodes.emplace(node.stoc_id, &node);
    }
    MakeRecords(nodes);
    std::map<StocId, StocLook> looks;
    for (auto& [id, stoc] : s_.stocs) {
      looks[id] = LookAt(stoc, nodes);
      HearDisk(looks[id], &stoc);
    }
    const std::map<StocId, DiskPace> paces = Paces();
    for (auto& [id, stoc] : s_.stocs) {
      StocLook& look = looks.at(id);
      const auto pace = paces.find(id);
      LookAtDisk(pace == paces.end() ? DiskPace::kUnclear : pace->second, &look, &stoc);
      look.wall_ms = wall_ms;
      WatchStoc(look, &stoc);
    }
  }
  // Of those that are heard and have none: forgotten by an operator, and there again.
  void MakeRecords(const StocNodes& nodes) {
    for (const auto& [id, node] : nodes) {
      if (s_.stocs.contains(id) || node->store == Uuid() || !IsHeardStoc(*node)) continue;
      const auto [made, first] = s_.record_made_ns.try_emplace(id, now_);
      if (!first && now_ < made->second + kMakeRecordAgainNs) continue;
      made->second = now_;
      StocRecord none;
      none.id = id;
      none.version = -1;
      out_.stoc_changes.push_back({std::move(none), NewStocRecord(*node)});
    }
  }
  // WatchStocs of one.
  void WatchStoc(const StocLook& look, StocWatch* stoc) {
    if (look.heard) {
      const ClusterState::Lease& lease = s_.leases.at(look.node->incarnation);
      stoc->silent_from = {lease.heard_ns, lease.deaf_before_ns};
    }
    if (stoc->changing) return;
    std::optional<StocRecord> next =
        NextStocRecord({options_.lease_ns, options_.stoc_down_after_ns, options_.disk_slow_after_ns,
                        options_.disk_well_after_ns},
                       stoc->record, look);
    if (!next) return;
    stoc->changing = true;
    if (!look.heard) stoc->counted_to = {now_, s_.deaf_ns};
    out_.stoc_changes.push_back({stoc->record, *std::move(next)});
  }

  // Nodes may be told of it as one to place on. One whose record calls it lost is so when it is heard;
  // one that has another store than its id belongs to (range record, N3) never is.
  bool MayPlaceOn(const NodeInfo& node) const {
    if (!IsLiveStoc(node)) return false;
    const auto stoc = s_.stocs.find(node.stoc_id);
    if (stoc == s_.stocs.end()) return true;
    const StocRecord& record = stoc->second.record;
    return record.store == node.store && (record.presence != StocPresence::kLost || IsHeardStoc(node));
  }
  // The lists of StoCs that nodes are told of; a new version if they changed.
  void RefreshStocs() {
    std::vector<NodeInfo> live;
    std::set<StocId> live_ids;
    for (const auto& [name, node] : s_.nodes) {
      if (node.role != Role::kStoc || !MayPlaceOn(node)) continue;
      live.push_back(AsTold(s_, node));
      live_ids.insert(node.stoc_id);
    }
    std::vector<StocId> lost;
    for (const auto& [id, stoc] : s_.stocs) {
      if (stoc.record.presence == StocPresence::kLost && !live_ids.contains(id)) lost.push_back(id);
    }
    if (s_.stocs_version == 0) s_.stocs_version = s_.coord_epoch.value() << 32;  // there is a list
    if (live == s_.live_stocs && lost == s_.lost_stocs) return;
    s_.live_stocs = std::move(live);
    s_.lost_stocs = std::move(lost);
    ++s_.stocs_version;
  }

  // Leases that say nothing about any node or range any more.
  void ForgetEndedLeases() {
    for (auto it = s_.leases.begin(); it != s_.leases.end();) {
      const auto node = s_.nodes.find(it->second.name);
      const bool registered = node != s_.nodes.end() && node->second.incarnation == it->first;
      const bool needed =
          registered || s_.owned.contains(it->first) || LeaseEnds(options_, s_, it->first) > now_;
      it = needed ? std::next(it) : s_.leases.erase(it);
    }
  }

  const ClusterOptions& options_;
  ClusterState& s_;
  const Nanos now_;
  ClusterDecisions out_;
};

}  // namespace

void RebuildPace::Tick(Nanos now) {
  const auto passed_s = static_cast<double>(now - ticked_ns) / kSecond;
  if (ticked_ns != 0) {
    const double kept = std::exp2(-passed_s / kPaceHalfLifeS);
    bytes = bytes * kept + static_cast<double>(since_tick);
    seconds = seconds * kept + passed_s;
  }
  since_tick = 0;
  ticked_ns = now;
}

Nanos LeaseEnds(const ClusterOptions& options, const ClusterState& state, Incarnation incarnation) {
  const auto it = state.leases.find(incarnation);
  const Nanos ours = it == state.leases.end() ? 0 : it->second.ends_ns;
  return std::max(ours, EarlierLeasesEnd(options, state));
}

NodeInfo AsTold(const ClusterState& state, NodeInfo node) {
  const auto stoc = state.stocs.find(node.stoc_id);
  if (node.role != Role::kStoc || stoc == state.stocs.end()) return node;
  node.draining |= stoc->second.record.draining;
  if (stoc->second.record.store != node.store) return node;
  node.disk = stoc->second.told_disk;
  node.emptied = stoc->second.emptied;
  return node;
}

std::string StocName(const ClusterState& state, StocId stoc) {
  for (const auto& [name, node] : state.nodes) {
    if (node.role == Role::kStoc && node.stoc_id == stoc) return name;
  }
  const auto known = state.stocs.find(stoc);
  return known != state.stocs.end() ? known->second.record.name : StrCat("stoc ", stoc.value());
}

std::string OwnerAddress(const ClusterState& state, const RangeRecord& record) {
  const auto it = state.nodes.find(record.owner);
  return it != state.nodes.end() && it->second.incarnation == record.owner_incarnation ? it->second.address
                                                                                       : "";
}

ClusterDecisions Step(const ClusterOptions& options, ClusterState* state, const ClusterEvent& event,
                      Nanos now) {
  Stepper stepper(options, state, now);
  std::visit(stepper, event);
  return stepper.Take();
}

std::string CheckInvariants(const ClusterState& state) {
  std::map<Incarnation, std::set<RangeId>> owned;
  for (const auto& [id, range] : state.ranges) {
    if (range.record.id != id)
      return StrCat("range ", id.value(), " holds the record of ", range.record.id.value());
    const Incarnation holder = range.moving ? range.moving_to : range.record.owner_incarnation;
    if (holder != Incarnation()) owned[holder].insert(id);
  }
  if (owned != state.owned) return "the index of owned ranges differs from the records";
  for (const auto& [name, node] : state.nodes) {
    if (node.name != name) return StrCat("node ", name, " holds the record of ", node.name);
  }
  for (const auto& [id, stoc] : state.stocs) {
    const StocRecord& r = stoc.record;
    if (r.id != id) return StrCat("StoC ", id.value(), " holds the record of ", r.id.value());
    if (r.presence == StocPresence::kUp && (r.away_ms != 0 || r.away_since_ms != 0))
      return StrCat("StoC ", id.value(), " is up, and away for ", r.away_ms, " ms");
    if ((r.disk == DiskState::kOk && r.disk_since_ms != 0) || r.disk == DiskState::kFull)
      return StrCat("StoC ", id.value(), " has a disk that is ", DiskStateName(r.disk), " since ",
                    r.disk_since_ms);
    if (stoc.counted_to && !stoc.changing) return StrCat("StoC ", id.value(), " counts without a change");
  }
  if (!std::is_sorted(state.lost_stocs.begin(), state.lost_stocs.end())) return "lost StoCs do not ascend";
  for (const NodeInfo& node : state.live_stocs) {
    if (std::binary_search(state.lost_stocs.begin(), state.lost_stocs.end(), node.stoc_id))
      return StrCat("StoC ", node.stoc_id.value(), " is both live and lost");
  }
  return "";
}

}  // namespace nova
