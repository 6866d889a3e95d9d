// RangeTombstones: the range deletions (K7) that may still hide something, as one immutable list.
//
// A range deletion hides every older version of every key in [begin, end). The list is cut into fragments at
// the ends of its tombstones: all keys of a fragment are hidden by the same ones. Over the fragments stands a
// segment tree: a tombstone's number is in the few nodes whose fragments it covers, so n tombstones take O(n
// log n) memory however they nest. A lookup is a binary search for the fragment, and one in each node from
// there to the root; it allocates nothing.
//
//   tombstones   [a, m) @5   [f, z) @9   [f, m) @7
//   fragments    [a, f) 5    [f, m) 9 7 5    [m, z) 9
//
// An empty list is a null pointer, so that a range without deletions pays one branch.
//
// Thread safety: immutable.
// Ownership: shared_ptr; lists share their tombstones. Keys are stored keys (keys.h).
// Errors: none.
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

// One range deletion.
struct RangeTombstone {
  std::string begin;
  std::string end;  // exclusive; above begin
  SequenceNumber sequence = 0;
  bool operator==(const RangeTombstone&) const = default;
};
using RangeTombstoneRef = std::shared_ptr<const RangeTombstone>;

class RangeTombstones;
using RangeTombstonesRef = std::shared_ptr<const RangeTombstones>;  // null: there are none

class RangeTombstones {
 public:
  // No two with the same number; null for none.
  static RangeTombstonesRef Of(std::vector<RangeTombstoneRef> all);
  // The tombstones of `list` with numbers up to `at`.
  static RangeTombstonesRef UpTo(const RangeTombstonesRef& list, SequenceNumber at);

  const std::vector<RangeTombstoneRef>& all() const { return all_; }  // ascending by number
  size_t size() const { return all_.size(); }

  // The number of the newest tombstone at or below `at` that covers the key; 0: there is none. Versions with
  // lower numbers are hidden.
  SequenceNumber Covering(std::string_view key, SequenceNumber at) const;
  // The same of a tombstone that covers any of the keys.
  SequenceNumber Overlapping(const KeyInterval& keys, SequenceNumber at) const;
  // Every key in `keys` is covered by a tombstone with a number in (above, at].
  bool CoversAll(const KeyInterval& keys, SequenceNumber above, SequenceNumber at) const;
  // Numbers of the tombstones that newer ones make needless: wherever such a one covers a key a newer one
  // does too, and no snapshot (ascending) lies between the two.
  std::vector<SequenceNumber> Needless(std::span<const SequenceNumber> snapshots) const;

 private:
  size_t fragments() const { return places_.empty() ? 0 : places_.size() - 1; }
  // The newest number over the fragment, at or below `at`; 0: none.
  SequenceNumber NewestOf(size_t fragment, SequenceNumber at) const;
  // The first fragment that ends behind the key; fragments(): none does.
  size_t FirstBehind(std::string_view key) const;

  std::vector<RangeTombstoneRef> all_;    // by number
  std::vector<std::string_view> places_;  // into all_: fragment i is [places_[i], places_[i + 1])
  // The segment tree. Node fragments() + i is fragment i, node i has the children 2 i and 2 i + 1, and node 1
  // is the root. Node i has the numbers_ [first_of_node_[i], first_of_node_[i + 1]), ascending.
  std::vector<uint32_t> first_of_node_;
  std::vector<SequenceNumber> numbers_;
};

}  // namespace nova
