// Flush policy: decides which sealed rounds are written to tables now, as one group, and which are merged in
// memory first, and tells how far a flush is. Everything it looks at is in its arguments. docs/engine.md
// argues for the rules.
//
// tests/ltc/testdata has their cases as text: a situation, and how many rounds are flushed or merged in it.
//
// Thread safety: pure functions. Ownership, errors: none.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/log/range_log.h"

namespace nova {

// What earlier flushes took and left out, as far as later ones decide by it.
struct FlushHistory {
  double kept = 1;  // of the last flush: the part of its entries that its own rounds did not overwrite
  // Of the last flushes: the part of kept entries that younger rounds had overwritten (a running mean).
  double replaced = 0;
  Nanos round_ns = 0;  // the last one's time for one full round
  // Flushes wait for disks, for most of their time (see After).
  bool waits = false;
  Nanos took_ns = 0;  // time of the last flushes; each counts half of the one after it
  Nanos busy_ns = 0;  // of that: time in which their threads ran, or wanted to
  // Flushes run one after another: side by side they would write versions that younger rounds overwrite if
  // they wait.
  bool one_at_a_time = false;

  // The last flush left out a quarter of its entries or more: its rounds held the same keys.
  bool RoundsShareKeys() const { return kept < 0.75; }
  // The part of entries, as clients wrote them, that the next flush is expected to store.
  double Stores() const { return kept * (1 - replaced); }
};

// What one flush did.
struct FlushResult {
  Nanos took_ns = 0;              // from its claim until its tables were stored
  Nanos busy_ns = 0;              // part of took_ns in which the thread ran, or wanted to
  double share = 0;               // memory flushed, in full rounds
  uint64_t written_entries = 0;   // as clients wrote them, before merges in memory
  uint64_t kept_entries = 0;      // not overwritten within the group
  uint64_t replaced_entries = 0;  // of kept_entries: left out because younger rounds overwrite them
  bool one_disk = false;          // all tables lie on one disk
};
// The history with one more flush. Flushes wait for disks from where they work for a third of their time, and
// until they work for two thirds of it. In between lies what they do: where they wait, one goes after another
// and rounds are merged meanwhile, so that there is more work for the same disk; where they do not, two share
// a disk. A single bound would have them change at every other flush, and each change fills the memory.
FlushHistory After(const FlushHistory& before, const FlushResult& flush);

// How far a flush is.
struct FlushWork {
  uint64_t entries = 0;  // of its rounds
  uint64_t done = 0;     // of those: stored or left out
  uint64_t stored = 0;   // of those done
};
// The part of a flush that is left, from 1 to 0, in time where it waits for disks. What is stored takes time,
// and what is left out takes next to none: where some keys are written again and again, entries are got
// through fast where these lie, and slowly elsewhere. `keeps`: the part of its entries that the flush is
// expected to store. At least that part of what is left is taken to be stored yet, and at most all of it.
double PartLeft(const FlushWork& work, double keeps);

// A sealed round, as the policy sees it.
struct FlushCandidate {
  RoundNumber number = 0;       // number of the round (its first sequence number)
  double share = 1;             // its memory or its logs, in full rounds
  Nanos sealed_ns = 0;          // when it was sealed
  bool pinned = false;          // a writer is still in it (pin, L6)
  bool merging = false;         // a merge reads it
  bool flushing = false;        // a flush has claimed it; that of an older round has failed meanwhile
  bool has_tombstones = false;  // holds range deletions (K7): not held back
  bool has_checkpoint = false;  // its flush makes a checkpoint (M2): the last of its group
};

// Everything that RoundsToFlush decides by.
struct FlushSituation {
  std::vector<FlushCandidate> rounds;  // sealed, oldest first, from the first that no flush has claimed
  bool others_are_written = false;     // flushes of older rounds are under way
  FlushHistory history;
  bool holds_rounds_back = false;  // rounds may wait in memory, which lasts until they are written
  bool groups_are_merged = false;  // rounds may be merged in memory
  int level0_runs = 0;             // of the version
  int level0_slow_runs = 8;        // runs from which writers are slowed down
  int max_rounds = 6;              // bound on rounds in memory
  SequenceNumber asked_upto = 0;   // rounds that may hold a number up to this are flushed at once
  Nanos lag_ns = 0;                // no round is held back for longer
  Nanos now_ns = 0;
};

// How many of `rounds` are flushed now, as one run; 0: none yet.
//
// The oldest round goes, if it is time and no writer is in it. Rounds behind it go with it where rounds hold
// the same keys again and again, so that an overwritten version is written once; where they were held back;
// and where compactions are behind, for fewer and larger runs put off the time when writers have to wait for
// them. There a group is no larger than twice the memory that is left, or comes back before its own does:
// else writers that have filled all of it would stand still until the whole group is written. A round with a
// checkpoint is the last of its group, for the checkpoint has nothing of younger ones.
size_t RoundsToFlush(const FlushSituation& s);

// A sealed round, as RoundsToMerge sees it.
struct MergeCandidate {
  double share = 1;       // its memory or its logs, in full rounds
  double left_share = 1;  // about: with one entry of each of its keys, and the same logs
  bool busy = false;      // pinned, claimed, merged in vain before, or wanted by a checkpoint as it is
  bool merged = false;    // it is the result of a merge
};
struct MergeChoice {
  size_t rounds = 0;      // the youngest so many; 0: no merge
  double left_share = 0;  // of all of them together, in full rounds
};

// Slack for values of unequal sizes: a merge may take that many times `left_share`.
inline constexpr double kMergeSlack = 1.1;

// Chooses rounds to merge: the youngest, if it was not merged and has few keys for its entries, and older
// ones behind it as long as each is not much larger than those taken. So an entry is copied about as often as
// the size doubles. `youngest_first`: the sealed rounds. `room`: memory that no round has, in full rounds.
MergeChoice RoundsToMerge(std::span<const MergeCandidate> youngest_first, int max_rounds, double room);

}  // namespace nova
