// ClusterState: what the leading coordinator knows and decides: leases, who gets which range, which StoCs are
// live, which are lost.
//
// One pure function: Step(options, state, event, now) changes the state and returns what to do; it never
// touches a clock, a store or a network. The rules it carries: new leader (C2), lease (C3; the granter's
// side), writes need no lease (C4), seal (R1), wait (R5):
//   - A lease is an incarnation's. It has ended for sure at: time of the reply + T (1 + rho) + delta; and for
//     grants of earlier coordinators, which this one knows nothing of, at: election + longest T (1 + rho) +
//     delta.
//   - A range moves when it has no owner, when its owner released it in order, or when its owner is taken for
//     dead.
//   - An owner that this leader has heard is taken for dead when its lease has ended for sure, and the leader
//     has listened for as long as a lease since: time in which its own process stood still is no time in
//     which others were silent.
//   - An owner that this leader has not heard is taken for dead when C2's wait is over and either its node
//     is gone or the leader has listened for `listen_ns`: a node that comes back late, for whatever reason,
//     keeps its ranges (absence is not death, C2').
//   - Ranges that are nobody's, and those of owners that this leader has not heard, wait until no LTC has
//     been newly heard for `settle_ns`: the first to come is not given everything. A range that is released
//     while this leader looks on does not wait.
//   - An LTC that is heard may still be no good, for it may reach no StoC: a range that it does not open in
//     time goes to another one, and for a while it is the last to be given any.
//   - A move is R1, to the LTC with the fewest ranges: epoch + 1, SEALING, the new owner with its
//     incarnation, groups as in the version replaced.
//   - LTCs that own fewer ranges than others are given some, one at a time (range_share.h).
//   - While ranges change owners, or soon will, LTCs are told to ask again soon: a range is closed until its
//     new owner has asked.
//   - The epochs taken from an incarnation are named in each of its later grants as excluded, for as long as
//     it lives.
//   - StoC leases say where to place, nothing else.
//   - A StoC that has a record is away, lost or back as stoc_watch.h says (StoC record, N5). Nodes are
//     told of those that are lost only when the record says so. A StoC is never in both lists. A disk that
//     is ill is told of with its StoC: as the record says, or the last heartbeat if that is worse.
//
// "Deaf" is the leader while its own process stands still: it hears nobody then, so that others' silence in
// that time says nothing. CoordinatorService measures it by the turns of its main loop.
//
// Thread safety: none; ClusterMirror has the lock.
// Ownership:     a value.
// Errors:        none; what is unknown is reported as such.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/cluster_types.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/ltc_settings.h"
#include "coordinator/stoc_record.h"
#include "coordinator/stoc_watch.h"

namespace nova {

// Times of decisions. nova_coordinator's flags and tests set them.
struct ClusterOptions {
  Nanos lease_ns = 2 * kSecond;               // T
  double clock_rate_error = 0.01;             // rho
  Nanos lease_margin_ns = 50 * kMillisecond;  // delta
  Nanos settle_ns = kSecond;  // after an LTC was newly heard: then ranges without owner are given out ...
  Nanos longest_settle_ns = 5 * kSecond;  // ... and at most so long after the first
  Nanos listen_ns = 10 * kSecond;  // C2': then an owner that was not heard, but is registered, counts as dead
  uint32_t releases_at_once = 2;   // of one draining LTC
  Nanos share_after_ns =
      10 * kSecond;  // an LTC that is heard for so long shares ranges with others; 0: never
  // A range that its owner, though heard, has not opened after so long goes to another one; longer where logs
  // are to be replayed, and twice as long after each such move. The owner is given no range for a while.
  Nanos open_within_ns = 10 * kSecond;
  Nanos replay_within_ns = 60 * kSecond;
  Nanos unfit_for_ns = 600 * kSecond;
  // N5: leaders listen for a StoC that is away for so long, then it is lost; above 0
  Nanos stoc_down_after_ns = 300 * kSecond;
  // N5: a disk that is an outlier for so long is slow, and one that is well for so long is slow no more.
  Nanos disk_slow_after_ns = 2 * kSecond;
  Nanos disk_well_after_ns = 15 * kSecond;
  DiskPaceLimits disk_pace;

  // For negative controls: a test that switches a rule off must turn red.
  struct RulesOff {
    bool c2_wait = false;        // owners not heard from are held for dead at once
    bool c3_lease_wait = false;  // a range moves as soon as its owner was silent for T/2
    bool c2_listen = false;  // C2' is switched off: an unheard owner is held for dead when C2's wait is over
    bool r1_epoch = false;   // a move keeps the epoch
    bool r5_late_grant = false;  // a grant made while the range was being moved is not waited for
  } off;
};

// --- events: what ClusterMirror has read in the store, what nodes have said, and the passing of time

// A term of ours begins. The state is empty then; the store's content follows.
struct ElectedEvent {
  CoordEpoch coord_epoch;
  Nanos longest_lease_ns = 0;  // of any earlier leader
};
// Before each tick and each heartbeat.
struct AuthorityEvent {
  Nanos until_ns = 0;  // C3: no grant after it
};
// A node's registration, an ephemeral znode, was read: it is new, or has changed.
struct NodeSeenEvent {
  NodeInfo node;
};
// It is there no more: the node has left, or its session has expired.
struct NodeGoneEvent {
  std::string name;
};
// A range's record was read, or written by us.
struct RangeReadEvent {
  RangeRecord record;
};
// It is there no more.
struct RangeGoneEvent {
  RangeId range;
};
// A node has sent a heartbeat; the decisions have its answer.
struct HeartbeatEvent {
  std::string name;
  Incarnation incarnation;
  uint64_t stocs_version = 0;  // of the list of StoCs that it knows
  NodeReport report;
};
// A RangeMove was carried out.
struct AssignDoneEvent {
  RangeId range;
  // As written; none: refused, and the record as it is follows in a RangeReadEvent.
  std::optional<RangeRecord> record;
};
// As the three of ranges, of StoCs' records (N5).
struct StocReadEvent {
  StocRecord record;
};
struct StocGoneEvent {
  StocId stoc;
};
struct StocChangeDoneEvent {
  StocId stoc;
  // As written; none: refused, and the record as it is follows in a StocReadEvent.
  std::optional<StocRecord> record;
};
// The znode of settings was read, or written by us.
struct SettingsReadEvent {
  LtcSettings settings;
  int64_t version = -1;  // of the znode; -1: there is none
};
// Time has passed: ranges move and StoCs' records change by it alone.
struct TickEvent {
  Nanos deaf_ns = 0;    // since the last tick the leader's process stood still for so long
  int64_t wall_ms = 0;  // the wall clock, for people
};
using ClusterEvent = std::variant<ElectedEvent, AuthorityEvent, NodeSeenEvent, NodeGoneEvent, RangeReadEvent,
                                  RangeGoneEvent, HeartbeatEvent, AssignDoneEvent, StocReadEvent,
                                  StocGoneEvent, StocChangeDoneEvent, SettingsReadEvent, TickEvent>;

// --- decisions

// Seal (R1): replace exactly the version of `before`. AssignDoneEvent follows.
struct RangeMove {
  RangeRecord before;
  RangeRecord after;
};
// Of who sent a heartbeat. kUnknown: its registration was not read so far; it is to go on. kSuperseded: a
// later incarnation has its name; it is to end.
enum class Standing { kUnknown, kRegistered, kSuperseded };
struct HeartbeatAnswer {
  Standing standing = Standing::kUnknown;
  Nanos lease_ns = 0;  // from when it sent the heartbeat (lease, C3); 0: none is granted
  // Ranges of an LTC. Excluded: up to these epochs they were taken from it. Release: it is asked to let go.
  std::vector<std::pair<RangeId, Epoch>> excluded;
  std::vector<std::pair<RangeId, Epoch>> release;
  struct Assigned {
    RangeRecord record;  // SEALING, and names it
    Nanos wait_ns = 0;   // until the lease of the owner before has ended for sure (wait, R5)
  };
  std::vector<Assigned> assigned;  // it is to open them
  // Of the list of StoCs, as of the last tick; the node's own before the first one.
  uint64_t stocs_version = 0;
  // Both only when the version differs from the node's.
  std::vector<NodeInfo> stocs;
  std::vector<StocId> lost_stocs;
  uint64_t forgiven_disk_faults = 0;  // of a StoC: of its process' disk
  LtcSettings settings;               // of an LTC
  bool ask_again_soon = false;        // of an LTC: ranges change owners, and it may be given one
  bool draining = false;              // of an LTC: as it is registered
};
struct ClusterDecisions {
  std::vector<RangeMove> moves;
  std::vector<StocChange> stoc_changes;   // StocChangeDoneEvent follows each
  std::optional<HeartbeatAnswer> answer;  // of a HeartbeatEvent
};

// How fast copies of tables are made: bytes by time, in both of which what is past counts half as much for
// each ten seconds.
struct RebuildPace {
  double bytes = 0;
  double seconds = 0;
  uint64_t since_tick = 0;  // bytes that were reported since the last tick
  Nanos ticked_ns = 0;
  void Tick(Nanos now);
  double BytesPerSecond() const { return seconds > 0 ? bytes / seconds : 0; }
};

struct ClusterState {
  static constexpr Nanos kUnheard = INT64_MIN / 2;
  // What is known of an incarnation that was granted a lease, or may have been.
  struct Lease {
    std::string name;                 // of its node
    Nanos heard_ns = kUnheard;        // the last heartbeat that was granted
    Nanos heard_since_ns = kUnheard;  // the first of those without a gap of a lease between them
    Nanos deaf_before_ns = 0;         // ClusterState::deaf_ns then
    Nanos ends_ns = 0;                // for sure
    Nanos unfit_until_ns = 0;         // it did not open a range in time
    bool stopping = false;            // it opens none, as its last heartbeat says
    std::map<RangeId, Epoch> taken;   // moved away from this incarnation without its release
  };
  struct Range {
    RangeRecord record;                // as it is in the store, as far as is known
    bool found_without_owner = false;  // so it was before this leader's time
    bool moving = false;               // a RangeMove is under way
    Incarnation moving_to;             // of that move
    Nanos old_lease_ends_ns = 0;       // R5, of the owner before this epoch's
    Nanos assigned_ns = 0;             // when this leader learned of its owner
    int passed_on = 0;                 // by owners that have not opened it, since it was open last
    RangeLoad load;                    // as last reported by the owner
  };

  // A range that its owner is asked to let go of, so that another LTC has more (range_share.h).
  struct Share {
    Incarnation from;
    RangeId range;
    Epoch epoch;
  };

  CoordEpoch coord_epoch;
  Nanos elected_ns = 0;                       // when this term began
  Nanos longest_lease_ns = 0;                 // of any earlier leader, from when it was granted
  Nanos authority_until_ns = 0;               // as the last AuthorityEvent says
  Nanos first_ltc_heard_ns = 0;               // of those that may be many more; 0: none yet
  Nanos settled_ns = 0;                       // when ranges without owner are given out
  Nanos deaf_ns = 0;                          // of this term: the sum of TickEvent's
  std::map<std::string, NodeInfo> nodes;      // registered now
  std::map<std::string, NodeReport> reports;  // of each node the last heartbeat's
  std::map<Incarnation, Lease> leases;
  std::map<RangeId, Range> ranges;
  std::map<Incarnation, std::set<RangeId>> owned;  // by the records, and by moves under way
  std::optional<Share> share;                      // as of the last tick
  Nanos hurry_since_ns = 0, hurry_until_ns = 0;    // in that time LTCs are to ask again soon
  std::map<StocId, StocWatch> stocs;               // that have a record
  std::map<StocId, Nanos> record_made_ns;          // when one was last to be made, of those that have none
  LtcSettings settings;                            // as last read
  int64_t settings_version = -1;                   // of the znode that they are of
  RebuildPace rebuild;
  // What nodes are told of StoCs, as of the last tick; the version rises when any of it changes. 0: no tick
  // of this term was so far, and nodes are left what they know.
  uint64_t stocs_version = 0;
  std::vector<NodeInfo> live_stocs;  // ascending names; as AsTold says
  std::vector<StocId> lost_stocs;    // ascending

  // What routing has to know again; the service takes them out.
  std::set<RangeId> changed_ranges;
  std::set<std::string> changed_nodes;
};

// Takes in one event. See the head of this file.
ClusterDecisions Step(const ClusterOptions& options, ClusterState* state, const ClusterEvent& event,
                      Nanos now);

// When the lease of `incarnation` has ended for sure.
Nanos LeaseEnds(const ClusterOptions& options, const ClusterState& state, Incarnation incarnation);
// The node as nodes and clients are told of it: a StoC drains if its record says so. (Earlier
// coordinators marked its registration: that counts too.) Of its disk, what held at the last tick.
NodeInfo AsTold(const ClusterState& state, NodeInfo node);
// A StoC's name, also of one that is away.
std::string StocName(const ClusterState& state, StocId stoc);
// The address where `record` is served, empty when its owner is not registered (under that incarnation).
std::string OwnerAddress(const ClusterState& state, const RangeRecord& record);

// Empty when the state is consistent with itself; else what is wrong. Tests and debug builds.
std::string CheckInvariants(const ClusterState& state);

}  // namespace nova
