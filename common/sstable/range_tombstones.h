// RangeTombstones: the range deletions that may still hide something (K7), as one immutable list.
//
// A range deletion hides every older version of every key in [begin, end). The list is cut into fragments at the ends of its
// tombstones: all keys of a fragment are hidden by the same ones. A lookup is a binary search; nothing is allocated.
//
//   tombstones   [a, m) @5   [f, z) @9   [f, m) @7
//   fragments    [a, f) 5    [f, m) 9 7 5    [m, z) 9
//
// An empty list is a null pointer: who has none pays one branch.
//
// Thread safety: immutable.   Ownership: shared_ptr; lists share their tombstones.   Keys are stored keys (keys.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"

namespace nova {

struct RangeTombstone {
  std::string begin;
  std::string end;  // not in it; above begin
  SequenceNumber sequence = 0;
  bool operator==(const RangeTombstone&) const = default;
};
using RangeTombstoneRef = std::shared_ptr<const RangeTombstone>;

class RangeTombstones;
using RangeTombstonesRef = std::shared_ptr<const RangeTombstones>;  // null: there are none

class RangeTombstones {
 public:
  static RangeTombstonesRef Of(std::vector<RangeTombstoneRef> all);  // no two with the same number
  // Those of `list` with numbers up to `at`.
  static RangeTombstonesRef UpTo(const RangeTombstonesRef& list, SequenceNumber at);

  const std::vector<RangeTombstoneRef>& all() const { return all_; }  // by number
  size_t size() const { return all_.size(); }

  // The number of the newest one at or below `at` that covers the key; 0: there is none. It hides versions with lower numbers.
  SequenceNumber Covering(std::string_view key, SequenceNumber at) const;
  // The same of any of the keys.
  SequenceNumber Overlapping(const KeyInterval& keys, SequenceNumber at) const;
  // Each key that may lie there is covered by one with a number in (above, at].
  bool CoversAll(const KeyInterval& keys, SequenceNumber above, SequenceNumber at) const;
  // Numbers of those that newer ones hide: wherever such a one covers a key, so does a newer one, and no snapshot (ascending)
  // lies between the two. Nobody misses them.
  std::vector<SequenceNumber> Needless(std::span<const SequenceNumber> snapshots) const;

 private:
  struct Fragment {
    std::string_view begin;  // into all_
    std::string_view end;
    size_t first = 0;  // its numbers, the newest first: numbers_[first, first + count)
    size_t count = 0;
  };
  std::span<const SequenceNumber> NumbersOf(const Fragment& f) const { return std::span(numbers_).subspan(f.first, f.count); }
  SequenceNumber NewestOf(const Fragment& f, SequenceNumber at) const;
  std::vector<Fragment>::const_iterator FirstBehind(std::string_view key) const;  // the first fragment that ends behind the key

  std::vector<RangeTombstoneRef> all_;
  std::vector<Fragment> fragments_;  // by key, none empty
  std::vector<SequenceNumber> numbers_;
};

}  // namespace nova
