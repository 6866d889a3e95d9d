// Ids are types, not integers: a StocId cannot be passed where a RangeId is meant. Identities: incarnation
// (N1), epoch (N2). Fields: as common/base/fields.h asks for them.
//
// Thread safety: plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace nova {

// An integer of its own type; 0 by default, and mostly "none".
template <typename Tag, typename Rep = uint64_t>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value_(v) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_ = 0;
};

using RangeId = Id<struct RangeTag>;
using Epoch = Id<struct EpochTag>;              // of a range (N2); 0 = none
using CoordEpoch = Id<struct CoordEpochTag>;    // of the leading coordinator (authority, C1)
using Incarnation = Id<struct IncarnationTag>;  // one process start (N1); 0 = none
using StocId = Id<struct StocTag, uint32_t>;    // one store directory, for life; given at format time
using GroupId = Id<struct GroupTag>;            // one log group of a range
// Within a range, never reused: epoch << 32 | a counter. So the ids of an epoch are above those of all
// earlier ones, and "done below epoch << 32" covers all of these (done memtables, M3).
using MemTableId = Id<struct MemTableTag>;
using SequenceNumber = uint64_t;  // 56 bit, per range (sequence number, K1)
inline constexpr SequenceNumber kMaxSequenceNumber = (uint64_t{1} << 56) - 1;

// 128 random bits: names a table, a manifest file, a log, a store, a cluster.
struct Uuid {
  uint64_t hi = 0;
  uint64_t lo = 0;
  auto operator<=>(const Uuid&) const = default;
  static auto Fields(auto& m) { return std::tie(m.hi, m.lo); }
  bool IsNil() const { return hi == 0 && lo == 0; }
  std::string ToString() const {
    return absl::StrCat(absl::Hex(hi, absl::kZeroPad16), absl::Hex(lo, absl::kZeroPad16));
  }
  static bool Parse(std::string_view text, Uuid* out);  // 32 hex digits; false: it is not
  // Random; of the simulation's seed in a simulation.
  static Uuid Generate();
  template <typename H>
  friend H AbslHashValue(H h, const Uuid& u) {
    return H::combine(std::move(h), u.hi, u.lo);
  }
};

// Names a file on StoCs by its owner and its part in it: fragment i of a table, a table's metadata, a
// manifest, a log. All copies have the same name, so a reader needs to know only which StoCs hold one.
struct StocFileId {
  Uuid owner;         // uuid of the table, manifest or log
  uint32_t part = 0;  // fragment number, or kMetadataPart; 0 of others
  auto operator<=>(const StocFileId&) const = default;
  static auto Fields(auto& m) { return std::tie(m.owner, m.part); }
  std::string ToString() const { return absl::StrCat(owner.ToString(), ".", part); }
  template <typename H>
  friend H AbslHashValue(H h, const StocFileId& f) {
    return H::combine(std::move(h), f.owner, f.part);
  }
};
// The part with index, filter, properties and footer of a table.
inline constexpr uint32_t kMetadataPart = 0xffffffff;

// The job that made a file or segment; tells whether the file can still be needed (collection, N4).
struct Creator {
  RangeId range;
  Epoch epoch;
  uint64_t job = 0;  // rises within an epoch; 0: made by no job
  bool operator==(const Creator&) const = default;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.job); }
};

// The manifest file of one epoch and roll (manifest, M1), and the StoCs that hold it as StocFileId{file, 0}.
struct ManifestGroup {
  Uuid file;
  std::vector<StocId> members;
  bool operator==(const ManifestGroup&) const = default;
};

}  // namespace nova
