// Reorganise: the Dranges for the load that was seen (paper section 4.1), and how unequal they are.
//
//   minor   buckets (Tranges) at the edges of a Drange with too much load go to its neighbours. The cuts of
//           all others stay, so tables that were cut there stay disjoint.
//   major   all cuts are made anew, where the minor one is not enough, or other than so many Dranges are
//           wanted.
//
// A Drange of one hot key, [k, k], cannot be made smaller. It is not counted as overloaded, and the others
// share the rest of the load. Keys between hot ones that have next to no load, and for which no Drange is
// left, go to a neighbour's. A hot key has no duplicates: they are the paper's way to keep its writers apart,
// which memtables here do by themselves.
//
// Thread safety: pure.
// Ownership, errors: none.
#pragma once

#include "ltc/engine/drange_map.h"
#include "ltc/engine/write_histogram.h"

namespace nova {

struct ReorganisationOptions {
  int dranges = 64;              // theta: at most so many
  double minor_threshold = 0.2;  // epsilon: load above an equal part, as a part of that, that moves Tranges
  double major_threshold = 0.3;  // the same, after a minor one: all cuts are made anew
  // Fewer Dranges are wanted where a flush would give each less: a table is a sync on each copy.
  uint64_t least_table_bytes = 4 << 20;
};

// See the head of this file.
struct Reorganised {
  enum class Kind { kNone, kMinor, kMajor };
  Kind kind = Kind::kNone;
  DrangeMapRef map;             // kNone: as it was; null: one Drange
  double imbalance_before = 0;  // the standard deviation of the Dranges' shares of the load, of the old map
  double imbalance = 0;         // of `map`
};

// `now`: null: one Drange. `flush_bytes`: of one flush, about.
Reorganised Reorganise(const DrangeMapRef& now, const WriteHistogram& seen, uint64_t flush_bytes,
                       const ReorganisationOptions& options);

// The part of the load seen that each Drange has. `map`: null: one Drange.
std::vector<double> SharesOf(const DrangeMapRef& map, const WriteHistogram& seen);

}  // namespace nova
