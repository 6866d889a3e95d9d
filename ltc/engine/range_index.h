// RangeIndex: which runs may hold keys of a Drange (paper section 4.1.2), so that a get looks into these
// alone; and how deep Level0 is in each Drange.
//
//   cuts          |          |            RunsAt of a key in the
//   run 0   |--a--|          |--b--|        first Drange    0 1 3
//   run 1   |--c--|          |              second Drange   2 3
//   run 2         |--d--|----e-----|        third Drange    0 2 3
//   Level1  |--f--|---g------|--h--|
//
// Nothing keeps it up to date: a version is made with its index, and shares its life. A scan needs none. It
// finds the next table of every run, and opens it when it comes to the table's first key (RangeIterator).
//
// The paper's index also names memtables. Here a round may have keys of every Drange, so a reader asks every
// round.
//
// Thread safety: immutable.
// Ownership: copies what it needs; keeps the map.
// Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ltc/engine/drange_map.h"
#include "ltc/engine/run.h"

namespace nova {

class RangeIndex {
 public:
  // One Drange's part of Level0.
  struct Column {
    int runs = 0;        // with a table there
    uint64_t bytes = 0;  // of these tables; one that crosses cuts counts to each Drange with an equal part
  };

  RangeIndex() : RangeIndex({}, nullptr) {}
  // `runs`: of a version, newest first. `map`: null: one Drange.
  RangeIndex(const std::vector<Run>& runs, DrangeMapRef map);

  // The places in `runs` of those that may hold the key, newest first: of Level0 those with a table in the
  // key's Drange, and every deeper one.
  std::span<const uint32_t> RunsAt(std::string_view stored_key) const {
    const size_t d = map_ == nullptr ? 0 : map_->Of(stored_key);
    return std::span(places_).subspan(begins_[d], begins_[d + 1] - begins_[d]);
  }
  const std::vector<Column>& columns() const { return columns_; }  // by Drange, at least one
  uint64_t level0_bytes() const { return level0_bytes_; }          // of all columns
  const DrangeMapRef& map() const { return map_; }                 // null: one Drange

 private:
  DrangeMapRef map_;
  std::vector<Column> columns_;
  uint64_t level0_bytes_ = 0;
  std::vector<uint32_t> places_;  // see RunsAt, of one Drange after another
  std::vector<uint32_t> begins_;  // where each Drange's begin; the last one is their end
};

}  // namespace nova
