// WriteHistogram: how the load of a range lies over its keys, from the sorted walks of flushes: buckets of
// about equal load. A bucket is what the paper calls a Trange.
//
// A walk knows each key's load exactly, and sees the keys in order. So a pass is summed up as it goes: keys
// become buckets of their own until there are twice as many as wanted, then neighbours are put together up to
// 2 / resolution of the load so far, which leaves at most half of them. A key that has more than that stays
// alone. Earlier passes count less and less (`decay`), so a hot spot that moves is seen soon.
//
//   keys      a b c d e f g h        load    1 1 9 1 1 1 1 1
//   buckets   [a b] [c] [d e f g h]          a hot key is a bucket of one key
//
// The load that is known to be of a bucket's first key is kept beside that of the bucket, and decays with it.
// So a key that becomes hot in the midst of a wide bucket is soon known as such, and made one of its own.
// Buckets that have decayed to nothing go to their neighbours.
//
// Thread safety: none; FlushedLoad has the lock.
// Ownership: copies of the buckets' first keys.
// Errors: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nova {

class WriteHistogram {
 public:
  // Keys from `first` up to the next bucket's. Below the first bucket of all there is next to no load.
  struct Bucket {
    std::string first;     // a stored key that was seen, or what follows one at once
    double load = 0;       // in any unit
    double first_key = 0;  // the part of `load` that is known to be of `first`
    // `first` has almost all of the load.
    bool single() const { return first_key >= kSingle * load; }
  };

  // Keeps fewer than twice `resolution` buckets, each of one key, or next to it, or of at most
  // 2 / resolution of the load.
  explicit WriteHistogram(size_t resolution) : resolution_(resolution) {}

  // One more key. REQUIRES: keys come in ascending order, each once.
  void Add(std::string_view stored_key, double load);
  // Adds what another one has seen, each at its own key; what this one has counts `decay` times as much as
  // before.
  void Merge(const WriteHistogram& pass, double decay);

  const std::vector<Bucket>& buckets() const { return buckets_; }  // ascending by key
  double load() const { return load_; }                            // of all buckets

 private:
  static constexpr double kSingle = 0.99;  // see Bucket::single
  // The part of all load that is next to none. It is above what sums of loads are off by rounding.
  static constexpr double kNothing = 1e-9;

  // Cuts buckets of more than 2 / resolution of all load behind their first keys.
  void SplitHot();
  // Puts neighbours together whose load is at most 2 / resolution of all: at most `resolution` are left. One
  // that has next to none goes to a neighbour in any case.
  void Coarsen();

  size_t resolution_;
  std::vector<Bucket> buckets_;
  double load_ = 0;   // of all buckets
  double equal_ = 0;  // the last bucket takes keys up to this load
};

}  // namespace nova
