// ChangeLog: which keys changed since a version, so that configurations travel as deltas.
//
// Version 0 is "knows nothing". A reader whose version is not one of this log's (another coordinator's) gets
// everything.
//
// Thread safety: none; the owner has the lock.   Ownership: a value.   Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace nova {

template <typename Key>
class ChangeLog {
 public:
  // `exists` false: the key is gone.
  void Note(const Key& key, uint64_t version, bool exists) {
    const auto it = entries_.find(key);
    if (it != entries_.end()) by_version_.erase({it->second.version, key});
    entries_[key] = {version, exists};
    by_version_[{version, key}] = exists;
    if (!exists) ForgetOldestGone();
  }
  // True when a reader at `version` can be told by changes alone.
  bool Covers(uint64_t version) const { return version >= floor_; }

  // What happened to keys since a version; each key is in one of the two.
  struct Changes {
    std::vector<Key> changed;
    std::vector<Key> gone;
  };
  Changes Since(uint64_t version) const {
    Changes out;
    for (auto it = by_version_.lower_bound({version + 1, Key()}); it != by_version_.end(); ++it) {
      (it->second ? out.changed : out.gone).push_back(it->first.second);
    }
    return out;
  }
  // Starts anew: readers below `floor` get everything.
  void Clear(uint64_t floor) {
    entries_.clear();
    by_version_.clear();
    gone_ = 0;
    floor_ = floor;
  }

 private:
  static constexpr size_t kMaxGone = 1024;  // keys that are gone and remembered
  struct Entry {
    uint64_t version = 0;  // of its last change
    bool exists = true;
  };
  // Half of the keys that are gone are forgotten where they are too many; readers from before get everything.
  void ForgetOldestGone() {
    if (++gone_ <= kMaxGone) return;
    gone_ = 0;
    for (auto it = by_version_.begin(); it != by_version_.end();) {
      if (it->second) {
        ++it;
        continue;
      }
      if (gone_ == kMaxGone / 2) break;
      ++gone_;
      floor_ = it->first.first;
      entries_.erase(it->first.second);
      it = by_version_.erase(it);
    }
    gone_ = 0;
    for (const auto& [key, exists] : by_version_) gone_ += !exists;
  }

  std::map<Key, Entry> entries_;
  std::map<std::pair<uint64_t, Key>, bool> by_version_;  // the same, in order of time; whether it exists
  size_t gone_ = 0;                                      // an upper bound of the gone keys kept
  uint64_t floor_ = 0;                                   // readers below it missed something
};

}  // namespace nova
