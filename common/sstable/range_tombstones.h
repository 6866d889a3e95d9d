// RangeTombstones: the range deletions (K7) that may still hide something, as one immutable list.
//
// A range deletion hides every older version of every key in [begin, end). The list is cut into fragments at
// the ends of its tombstones: all keys of a fragment are hidden by the same ones. Over the fragments stands a
// segment tree: a tombstone's number is in the few nodes that its fragments make up, so n tombstones take O(n
// log n) memory however they nest. A lookup is a binary search for the fragment, and one in each node from
// there to the root; nothing is allocated.
//
//   tombstones   [a, m) @5   [f, z) @9   [f, m) @7
//   fragments    [a, f) 5    [f, m) 9 7 5    [m, z) 9
//
// An empty list is a null pointer: who has none pays one branch.
//
// Thread safety: immutable.   Ownership: shared_ptr; lists share their tombstones.   Keys are stored keys
//                (keys.h).
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

  // The number of the newest one at or below `at` that covers the key; 0: there is none. It hides versions
  // with lower numbers.
  SequenceNumber Covering(std::string_view key, SequenceNumber at) const;
  // The same of any of the keys.
  SequenceNumber Overlapping(const KeyInterval& keys, SequenceNumber at) const;
  // Each key that may lie there is covered by one with a number in (above, at].
  bool CoversAll(const KeyInterval& keys, SequenceNumber above, SequenceNumber at) const;
  // Numbers of those that newer ones hide: wherever such a one covers a key, so does a newer one, and no
  // snapshot (ascending) lies between the two. Nobody misses them.
  std::vector<SequenceNumber> Needless(std::span<const SequenceNumber> snapshots) const;

 private:
  size_t fragments() const { return places_.empty() ? 0 : places_.size() - 1; }
  SequenceNumber NewestOf(size_t fragment, SequenceNumber at) const;
  // the first fragment that ends behind the key; fragments(): none does
  size_t FirstBehind(std::string_view key) const;

  std::vector<RangeTombstoneRef> all_;
  std::vector<std::string_view> places_;  // into all_: fragment i is [places_[i], places_[i + 1])
  // Node fragments() + i of the tree is fragment i, node i has the children 2 i and 2 i + 1, 1 is the root.
  // its numbers: numbers_[first_of_node_[i], first_of_node_[i + 1]), ascending
  std::vector<uint32_t> first_of_node_;
  std::vector<SequenceNumber> numbers_;
};

}  // namespace nova
