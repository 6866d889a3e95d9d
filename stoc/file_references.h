// FileReferences: the ranges that reference one shared StoC file (shared table, M4), as a list that lies
// beside it; replaced as a whole.
//
//   u32 magic 'NVR1' | u32 CRC-32C of the rest | u32 format 1 | u32 part | owner uuid (u64 hi, lo) | u32 n
//   n x { u64 range | u64 epoch | u64 wall time of the reference, ms }   (little-endian)
//
// A reference carries the epoch of the owner that added it: a drop by an earlier one leaves it alone.
//
// Thread safety: none.   Ownership: none taken.   Errors: DataLoss: not the list of this file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "stoc/protocol.h"

namespace nova {

// See the head of this file.
struct FileReferences {
  struct Reference {
    RangeId range;           // that needs the file
    Epoch epoch;             // of the owner that added it last
    uint64_t added_ms = 0;   // wall clock, for people
    Nanos since_ns = Now();  // when this process came to know of it; not in the list
  };
  std::vector<Reference> all;  // one of a range
  bool unreadable = false;     // nobody knows whose the file is: it stays

  // The range references it, by `upto` or an earlier epoch.
  bool Has(RangeId range, Epoch upto) const;
  // Again: it has the later epoch.
  void Add(RangeId range, Epoch epoch, uint64_t now_ms);
  // False: there was none of an epoch up to `upto`.
  bool Drop(RangeId range, Epoch upto);

  std::string Encode(const StocFileId& file) const;
  static StatusOr<FileReferences> Decode(std::string_view bytes, const StocFileId& file);
};

}  // namespace nova
