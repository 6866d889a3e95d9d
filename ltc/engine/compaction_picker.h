// CompactionPicker: what to compact next, and how eager writers may be; pure functions of a summary of the
// tree.
//
// Leveled (paper section 4.3): Level0 by its number of runs, deeper levels by bytes against a target that
// grows tenfold.
// Compaction order (K3c): Level0 is taken from the oldest run on, so that no older run of a chosen key stays
// behind. While Level0 is small beside the Level1 that would be written anew for it, its youngest runs are
// merged into one in its place (tiering): under a skewed load most of what is flushed are versions of the
// same keys.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ltc/engine/compaction_options.h"
#include "ltc/engine/version.h"

namespace nova {

// What was decided. Inputs of `level` and, of the next one, all that overlap.
struct CompactionPlan {
  int level = 0;
  int output_level = 1;
  uint64_t output_order = 0;  // of what stays in Level0
  double score = 0;
  std::vector<TableRef> inputs;
  std::vector<TableRef> overlaps;
  bool trivial_move = false;  // one table, nothing below it: only the edit
  bool bottom = false;        // no deeper table overlaps the inputs' keys
  // one table, written anew where it is: in the version, in checkpoints, or in both
  bool move = false;
  // the inputs, of any levels, hold only what range tombstones hide: only the edit (range deletion, K7)
  bool drop_only = false;
};

// State between picks: where each level's sweep stands, and which tables are in a running job.
struct CompactionState {
  std::array<std::string, kLevels> cursor;  // largest stored key compacted last
  std::set<Uuid> busy;
};

std::array<double, kLevels> CompactionScores(const Version& version, const CompactionOptions& options);
// The plan with the highest score >= 1 whose tables are all free; nullopt: nothing to do.
std::optional<CompactionPlan> PickCompaction(const Version& version, const CompactionOptions& options,
                                             CompactionState* state);

bool IsOn(const TableInfo& table, StocId stoc);  // a fragment, the metadata, or a copy
// Of free tables, all those that range tombstones up to `upto` hide as a whole: to be dropped unread. If
// there are none, one that may hold something hidden: to be written anew in its place (K7). REQUIRES: the
// version has tombstones.
std::optional<CompactionPlan> PickHidden(const Version& version, SequenceNumber upto, CompactionState* state);
bool IsHidden(const TableInfo& table, const RangeTombstones& tombstones, SequenceNumber upto);  // as a whole

// A free table that is on one of `stocs`, to be written anew in its place: the new one is placed elsewhere.
std::optional<CompactionPlan> PickMove(const Version& version, const std::vector<StocId>& stocs,
                                       CompactionState* state);

}  // namespace nova
