// Flush policy: which sealed rounds are written to tables now, as one group, and which are merged in memory
// first. Pure functions: all they look at is in their arguments. docs/engine.md argues them.
//
// Thread safety: pure functions.   Ownership, errors: none.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/log/range_log.h"

namespace nova {

// What the last flushes took and left out.
struct FlushHistory {
  double kept = 1;      // of the entries of the last one, the part that none of its own replaced
  double replaced = 0;  // of what the last ones kept, the part that younger rounds had replaced
  Nanos round_ns = 0;   // the last one took for a round's memory
  bool waits = false;   // they wait for one disk, most of the time
  // Side by side they would hold rounds that are younger ones if they wait for their turn.
  bool one_at_a_time = false;

  // The last one left out a quarter of its entries, or more: its rounds held the same keys.
  bool RoundsShareKeys() const { return kept < 0.75; }
};

struct FlushResult {
  Nanos took_ns = 0;
  Nanos busy_ns = 0;              // of it, the thread ran
  double share = 0;               // of a round's memory, what was flushed had
  uint64_t written_entries = 0;   // as writers wrote them
  uint64_t kept_entries = 0;      // that none of the group replaced
  uint64_t replaced_entries = 0;  // of these, left out because of younger rounds
  bool one_disk = false;
};
FlushHistory After(const FlushHistory& before, const FlushResult& flush);

struct FlushCandidate {
  RoundNumber number = 0;
  double share = 1;  // of a round's memory
  Nanos sealed_ns = 0;
  bool pinned = false;    // a writer is not done with it
  bool merging = false;   // a merge reads it
  bool flushing = false;  // another group's; what was before it has failed once
  bool has_tombstones = false;
  bool has_checkpoint = false;
};

struct FlushSituation {
  std::vector<FlushCandidate> rounds;  // sealed, the oldest first, from the first one that no flush has
  bool others_are_written = false;     // flushes have older ones
  FlushHistory history;
  bool holds_rounds_back = false;  // where it may (HoldsRoundsBack), and memory lasts until they are written
  bool groups_are_merged = false;  // rounds may be merged in memory
  int level0_runs = 0;
  int level0_slow_runs = 8;
  int max_rounds = 6;
  SequenceNumber asked_upto = 0;  // rounds that may hold a number up to here are flushed at once
  Nanos lag_ns = 0;               // no round is held back for longer
  Nanos now_ns = 0;
};

// How many of `rounds` are flushed now, as one run; 0: none yet.
//
// The oldest round that nobody writes goes, if it is time. Those behind it go with it where rounds hold the
// same keys again and again: what they share is written once; where they were held back; and where
// compactions are behind: fewer and larger runs put off when writers have to wait for them. A round with a
// checkpoint is the last of a group: the checkpoint has nothing of younger ones.
size_t RoundsToFlush(const FlushSituation& s);

struct MergeCandidate {
  double share = 1;       // of a round's memory
  double left_share = 1;  // about: what one entry of each of its keys would have
  bool busy = false;      // pinned, flushed, merged now or in vain, or wanted by a checkpoint as it is
  bool merged = false;    // it is what a merge left
};
struct MergeChoice {
  size_t rounds = 0;      // the youngest so many; 0: no merge
  double left_share = 0;  // of all of them together
};

// Slack for values of unequal sizes: a merge may take so much more than `left_share`.
inline constexpr double kMergeSlack = 1.1;

// The youngest round, if it was not merged and its keys are few for its entries, and older ones behind it,
// each not much larger than those that were taken: so an entry is copied about as often as the size doubles.
// `youngest_first`: the sealed rounds. `room`: rounds' memory that nobody has.
MergeChoice RoundsToMerge(std::span<const MergeCandidate> youngest_first, int max_rounds, double room);

}  // namespace nova
