// DrangeMap: how the keys of a range are cut into Dranges for Level0 (paper section 4.1). Flushes and
// compactions end tables at its cuts, so that the tables of two Dranges have no key in common, and each
// Drange of Level0 is compacted by itself.
//
//   cuts      c1       c2            c3
//   Drange     0 |  1  |      2      |  3         a cut is the first key of the Drange behind it
//
// Cuts are advice. A table may cross one, for it was written under an earlier map or is too small to be cut.
// That makes a job larger, and no answer wrong.
//
// A range with one Drange has no map: a null DrangeMapRef.
//
// Thread safety: immutable.
// Ownership: shared; versions hold it. The last one is in the manifest (docs/formats.md).
// Errors: none; Decode gives null.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/sstable/key_pieces.h"

namespace nova {

class DrangeMap;
using DrangeMapRef = std::shared_ptr<const DrangeMap>;

class DrangeMap {
 public:
  static constexpr size_t kMostDranges = 1024;

  // `cuts`: stored keys, ascending, each once, none empty. `generation` rises with each reorganisation.
  DrangeMap(std::vector<std::string> cuts, uint64_t generation);
  size_t size() const { return cuts_.size() + 1; }  // theta: Dranges
  uint64_t generation() const { return generation_; }
  // The Drange that a stored key belongs to.
  size_t Of(std::string_view stored_key) const;
  const std::vector<std::string>& cuts() const { return cuts_; }
  // The keys of Drange i: from First on, and before First of the next. Empty for the first one: no bound.
  std::string_view First(size_t i) const { return i == 0 ? std::string_view() : cuts_[i - 1]; }

  // The cuts between Drange `first` and Drange `last` at which tables of `bytes` in all are to end: every
  // one, or every second, fourth, and so on, so that a table has `least_table_bytes` on average. Coarse cuts
  // are among the fine ones, so tables of small flushes and of large ones nest.
  std::vector<std::string> CutsFor(size_t first, size_t last, uint64_t bytes,
                                   uint64_t least_table_bytes) const;

  // Its bytes: docs/formats.md.
  std::string Encode() const;
  // Null: `bytes` are no map, or one of a format that is not known.
  static DrangeMapRef Decode(std::string_view bytes);

 private:
  const std::vector<std::string> cuts_;
  const uint64_t generation_;
  KeyPieces pieces_;  // of cuts_: where a key lies, without a look at most of them
};

}  // namespace nova
