// StocWatch: when a leader takes a StoC for away, for lost, for back, and its disk for ill, and writes so
// into its record (StoC record, N5).
//
// Time counts only while the leader listened, as it does for owners of ranges (absence is not death, C2'). It
// is deaf, and does not listen, while its own process stands still.
//   - away: nobody with the record's id and store is registered and heard, for as long as a lease.
//   - lost: away, and leaders have listened for `stoc_down_after_ns` in vain. Each leader goes on from
//     the sum in the record, which is brought up to date four times in that time.
//   - lost at once: another store is registered and heard under its name, for its disk was replaced; or
//     it drains and is away, for the operator has said that it need not come back.
//   - up: heard again, with its id and its store, whatever it was. One that an operator has had forgotten
//     meanwhile gets a record anew.
// Of its disk, by what its heartbeats say:
//   - failing, read-only: at once, and for ever: nothing here takes it back (DrainRequests::Undrain does).
//   - hung: as long as it says so.
//   - slow: an outlier among the StoCs (disk_pace.h) for `slow_after_ns`, until it was well for
//     `well_after_ns`. A leader that is new begins to count anew, in either state.
//
// Thread safety: pure functions of plain values.
// Ownership:     what is pointed to is the caller's.
// Errors:        none.
#pragma once

#include <optional>

#include "coordinator/cluster_types.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/disk_pace.h"
#include "coordinator/stoc_record.h"

namespace nova {

// What a leader knows of a StoC that has a record.
struct StocWatch {
  // Moments of the leader's clock, with the time it had been deaf by then.
  struct Moment {
    Nanos at_ns = 0;
    Nanos deaf_ns = 0;  // ClusterState::deaf_ns then
  };
  StocRecord record;  // as it is in the store, as far as is known
  // When it was last heard, or when the leader began to listen for it; later, what the record counts already.
  Moment silent_from;
  bool changing = false;             // a StocChange is under way
  std::optional<Moment> counted_to;  // by the change that is under way, in away_ms

  // Of its disk, as of the last tick. What it says itself; none: it is not heard, or of an earlier version.
  struct DiskHeard {
    Incarnation incarnation;  // of the process that says so
    DiskReport report;
  };
  std::optional<DiskHeard> disk_heard;
  // How it does beside the others', and since when it does so on end.
  DiskPace pace = DiskPace::kUnclear;
  Moment pace_from;
  // What nodes are told of it (NodeInfo).
  DiskState told_disk = DiskState::kOk;
  bool emptied = false;
};

// A compare-and-set of a record: replace exactly the version of `before`; -1: there is none, and it is made.
struct StocChange {
  StocRecord before;
  StocRecord after;
};

// What a leader sees of it at one moment.
struct StocLook {
  const NodeInfo* node = nullptr;  // registered with the record's id and store; null: none is
  bool live = false;               // the node is heard, or the leader had no time to hear it yet
  bool heard = false;              // live, and this leader did hear it
  bool replaced = false;           // another store is registered and heard under the record's name
  Nanos listened_ns = 0;           // in vain, since StocWatch::silent_from
  Nanos silent_ns = 0;             // the same with the time that the leader was deaf
  int64_t wall_ms = 0;             // the wall clock
  // Of one that is heard: the fault of its disk, or that it hangs; else kOk.
  DiskState disk = DiskState::kOk;
  DiskPace pace = DiskPace::kUnclear;
  Nanos pace_for_ns = 0;  // listened to while it had that pace, on end
};

// As of ClusterOptions; all of time in which the leader listened.
struct StocLimits {
  Nanos lease_ns = 0;       // silent for so long: away
  Nanos down_after_ns = 0;  // away for so long: lost
  Nanos slow_after_ns = 0;  // its disk an outlier for so long: slow
  Nanos well_after_ns = 0;  // its disk well for so long: slow no more
};

// Of one that is heard and has no record.
StocRecord NewStocRecord(const NodeInfo& node);
// The record as it should be; none: as it is.
std::optional<StocRecord> NextStocRecord(const StocLimits& limits, const StocRecord& now,
                                         const StocLook& look);

}  // namespace nova
