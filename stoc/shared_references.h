// SharedReferences: keeps the references of shared files on the disk (shared table, M4).
//
// A file goes when the last range drops its reference. A reference is added, durably, before the manifest
// edit that names the file, and dropped after the edit that drops it; what a crash leaves in between is a
// reference too many, which its range's next owner finds in List and drops (collection, N4).
//
// Thread safety: all; waits for the disk.   Lock order: its own, then StoredFiles'.
// Ownership:     the StoredFiles and the StoreDirectory outlive it.
// Errors:        NotFound: no such file; ResourceExhausted; DataLoss: a list that cannot be read; else the
//                disk's.
#pragma once

#include <vector>

#include "common/base/mutex.h"
#include "stoc/stored_files.h"

namespace nova {

class SharedReferences {
 public:
  SharedReferences(StoreDirectory* directory, StoredFiles* files) : directory_(directory), files_(files) {}

  // At start. A file whose list cannot be read stays: nobody knows whose it is.
  Status Load(std::string_view name);
  // The range references these files of kind kWhole, from now on and durably; again is no error. NotFound: of
  // one that is not there.
  Status AddReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files);
  // The range does not, if it did by its epoch `epoch` or an earlier one; what nobody references any more is
  // deleted. Goes on after an error and returns the first. A crash may bring back a reference, but no file
  // that was deleted. `ended_below` above 0, of a collection (N4): of this epoch only files of jobs below
  // that number are dropped, and what an earlier epoch referenced; others may still be named by an edit.
  Status DropReferences(RangeId range, Epoch epoch, const std::vector<StocFileId>& files,
                        uint64_t ended_below = 0);
  // Scrub (S6): writes the list of a shared file anew where what the disk has of it, past the page cache, is
  // not what is known here. True: it did.
  StatusOr<bool> HealList(const StocFileId& file);

 private:
  // Of one file, shared or not.
  Status DropReference(RangeId range, Epoch epoch, uint64_t ended_below, const StocFileId& file);
  // Of a file that has a list: what the range references by epochs up to `upto`.
  Status DropSharedReference(RangeId range, Epoch upto, const StocFileId& file);

  StoreDirectory* const directory_;
  StoredFiles* const files_;
  Mutex mu_;  // one change of shared files' references at a time; held over the disk's work
};

}  // namespace nova
