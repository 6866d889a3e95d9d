// CompactionPicker: decides which tables are compacted next. Pure functions of a version and of the state
// between picks.
//
// Leveled (paper section 4.3): Level0 is due by its number of runs, or sooner (Level0Demand), a deeper level
// by its bytes against a target, which grows by level_multiplier a level.
//
// Level0 is picked by columns: a column is a Drange's part of it (drange_map.h; without a map there is one).
// The plan of a column takes its tables from the oldest run on, and goes down to Level1. While the column is
// small beside the tables of Level1 that would be written anew for it, its youngest runs are merged into one
// in their place (tiering): under a skewed load most of them are versions of the same keys.
//
// Level1's target is level1_bytes, or the geometric mean of that and Level2's bytes where that is more. A
// byte that goes down to Level1 has those of Level1 written anew that it overlaps, the fewer the smaller
// Level1 is; one that goes down from Level1 has those of Level2, the fewer the larger Level1 is. In the mean
// both cost the same, and together the least.
//
// While Level0 is due, Level1 may grow beyond its target: up to the bytes of Level2, or of three of the
// largest jobs of Level0, whichever are fewer. So whoever waits for Level0 is not kept by tables that go
// down; and where the data is a few times Level0 there is one level below it while writers are in a hurry.
//
// A table may cross the bounds of a column, and then its keys may have other versions in the next one. So a
// plan is closed (compaction order, K3c). Its hull is the keys from the first of its inputs to the last:
//
//   down to Level1   with an input goes every table of an older run that the hull overlaps: else an older
//                    version of a key would stay above its newer one
//   within Level0    with the inputs goes every table of the runs from the oldest input's to the place of
//                    the output that the hull overlaps: else the output would lie above a newer version
//   side by side     the hulls of two plans of Level0 under way have no key in common, and no table is in
//                    two plans: so whichever ends first, the other is as right as before
//
//   cuts             |           |
//   order 40   |--a--|--b--|     |--c--|     the middle column, down: its g, e and b. e widens the hull to h,
//   order 30   |--d--|-----e--------|        which is older than b and goes along; c stays. Within Level0, of
//   order 20   |--f--|----g---|  |--h--|     b and e: c is of the run of b, and goes along
//
// What a plan takes adds to its hull, until nothing is added.
//
// Thread safety: pure functions; CompactionState is the caller's (Compactor, under its lock of picks).
// Errors: none.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ltc/engine/compaction_options.h"
#include "ltc/engine/version.h"

namespace nova {

// A decision: to merge `inputs`, of `level`, with `overlaps`, all tables of the output level that overlap
// them.
struct CompactionPlan {
  int level = 0;                   // of the inputs
  int output_level = 1;            // the same for a merge within Level0
  uint64_t output_order = 0;       // of a run that stays in Level0
  double score = 0;                // how much it is due; 1 and more is
  std::vector<TableRef> inputs;    // of Level0: closed, see the head of this file
  std::vector<TableRef> overlaps;  // see above
  bool paid_for = false;           // Level0 is not due by its runs: reads have paid for the merge
  bool trivial_move = false;       // one table, nothing below it: only the edit
  bool bottom = false;             // no deeper table overlaps the inputs' keys
  // The inputs, of any levels, hold only entries that range tombstones hide, or that have expired: an edit
  // drops them unread (range deletion, expiry, K7).
  bool drop_only = false;
  int64_t expired_by_ms = 0;  // of drop_only tables that have expired: by then (expiry, K7); 0: of others
  // From the first key of its tables to the last; views into them.
  KeyInterval hull() const;
};

// State between picks: where each level's sweep stands, and what plans under way have taken.
struct CompactionState {
  std::array<std::string, kLevels> cursor;  // by level: the largest stored key that was compacted last
  std::set<Uuid> busy;                      // tables in a plan under way
  std::set<Uuid> resting;              // of plans that have failed the first inputs: not to be picked now
  std::vector<CompactionPlan> level0;  // plans of Level0 under way, whose hulls others keep clear of
  // How often a due column was passed over, for other plans had tables below it, or keys of its hull.
  uint64_t waits = 0;
};

// Why Level0 may be due with fewer runs than the option says, if it has two or more.
struct Level0Demand {
  uint64_t paid_bytes = 0;  // whose merge reads have paid for (level0_toll.h)
  // Nobody writes: now a merge delays nobody. Due unless it would write many times the bytes of Level0.
  bool idle = false;
};

// How much each level is due: 1 and more is.
std::array<double, kLevels> CompactionScores(const Version& version, const CompactionOptions& options,
                                             const Level0Demand& demand);
// The plan with the highest score of 1 and more whose tables are all free, which are busy from now on.
// nullopt: nothing to do.
std::optional<CompactionPlan> PickCompaction(const Version& version, const CompactionOptions& options,
                                             const Level0Demand& demand, CompactionState* state);
// The plan has ended, well or not: what it had taken is free.
void EndCompaction(const CompactionPlan& plan, CompactionState* state);

// All free tables that range tombstones up to `upto` hide whole, to be dropped unread (K7). The tables are
// busy from now on. REQUIRES: the version has tombstones.
std::optional<CompactionPlan> PickHidden(const Version& version, SequenceNumber upto, CompactionState* state);
// As PickHidden, a table that may hold something hidden, to be written anew in its place.
std::optional<CompactionPlan> PickPartlyHidden(const Version& version, SequenceNumber upto,
                                               CompactionState* state);
// All free tables below Level0 whose entries have all expired by `now_ms`, with nothing of their keys below
// them, to be dropped unread (expiry, K7): nobody sees any of them, whatever the moment that is read. The
// tables are busy from now on. `floor`: as DropRules'.
std::optional<CompactionPlan> PickExpired(const Version& version, int64_t now_ms, SequenceNumber floor,
                                          CompactionState* state);
// There is one, free or not.
bool HoldsExpired(const Version& version, int64_t now_ms, SequenceNumber floor);
// The table is hidden whole.
bool IsHidden(const TableInfo& table, const RangeTombstones& tombstones, SequenceNumber upto);

}  // namespace nova
