// UnreadableFiles: files that a start found under names of StoC files, and whose headers cannot be read:
// which range each is of nobody knows. Each may be a log (fence, R2).
//
// The owner of each range is told of them, and says which of them the range does not need. One that no range
// needs is needed by nobody (collection, N4). A range that has said so of a file will never need it: names
// are never used twice. What is written anew under its name is none of these any more.
//
// Thread safety: all, by a lock of its own, under which that of StoredFiles is taken.
// Ownership:     the StoredFiles outlive it.
// Errors:        none.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "stoc/stored_files.h"

namespace nova {

class UnreadableFiles {
 public:
  explicit UnreadableFiles(const StoredFiles* files) : files_(files) {}

  void Add(const StocFileId& file);     // at start
  void Forget(const StocFileId& file);  // it is deleted, or written anew
  // Those that are left, in order; at most `limit`.
  std::vector<StocFileId> List(size_t limit) const;
  // The same, those that may be logs.
  std::vector<Uuid> Logs() const;
  // The range does not need the file. Nothing of one that is none of these.
  void Drop(RangeId range, const StocFileId& file);
  // Those that each of these ranges has dropped. None where there is no range.
  std::vector<StocFileId> DroppedByAll(const std::vector<RangeId>& ranges) const;

 private:
  // It was written anew.
  bool IsThere(const StocFileId& file) const { return files_->Find(file) != nullptr; }

  const StoredFiles* const files_;
  mutable Mutex mu_;
  // By file, the ranges that have dropped it.
  std::map<StocFileId, std::set<RangeId>> ranges_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
