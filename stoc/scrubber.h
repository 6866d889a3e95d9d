// Scrubber: reads all that a StoC stores, once in a period, and finds what the disk does not have as it was
// written (scrub, S6).
//
// A thread goes through the files in their order, from where it was when the process last ended, at a pace
// that spreads them over the period, and past the page cache, whose content it neither trusts nor disturbs.
// At the end of the period it begins anew. Time counts while the process runs.
//
// found damaged          made good by
// SUPERBLOCK             this StoC, which knows what it said
// list of references     this StoC, which knows the list (shared table, M4)
// a table's part         this StoC, where the page cache still has the bytes; else the range's owner, which
//                        hears of it when it next lists the range's files, from another copy (repair, S3)
// manifest, log          the owner, which hears in the same way: it renews the manifest (M1), and changes the
//                        log's group (group change, L4), whose records it flushes
//
// What is damaged stays marked until it is written anew, is deleted, or is found whole. Marks and position
// outlive the process (scrub_state.h), and so wait for the owner of a range that is not open.
//
// Thread safety: all.
// Ownership:     the disk and the FileStore outlive it.
// Errors:        none; what cannot be read for another reason than damage is looked at in the next pass.
#pragma once

#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "stoc/file_check.h"
#include "stoc/file_store.h"
#include "stoc/scrub_pace.h"
#include "stoc/scrub_state.h"

namespace nova {

struct ScrubOptions {
  Nanos period_ns = 7 * 24 * 3600 * kSecond;  // in which all is read once; 0: no scrub
  uint64_t bytes_per_second = 20'000'000;     // at most; above 0
};

class Scrubber {
 public:
  // Marks what was found before, and begins. REQUIRES: period_ns is above 0. `heal_identity` writes
  // SUPERBLOCK anew where it is damaged; true: it was.
  Scrubber(const ScrubOptions& options, Disk* disk, FileStore* files,
           std::function<StatusOr<bool>()> heal_identity, Metrics* metrics);
  ~Scrubber();  // as Stop
  void Stop();

 private:
  static constexpr size_t kFilesAtOnce = 256;  // that are known by name ahead

  void Restore();  // what the process before has left
  void Work();     // the body of the thread
  // Reads all files behind the position. False: it is to stop.
  bool Pass();
  void EndPass();
  void Scrub(const StoredFiles::File& file);  // one file, and its list of references
  // It was not known to be damaged.
  void Found(const StoredFiles::File& file, const Status& why);
  // Waits until the next file may be begun. False: it is to stop.
  bool WaitForFile();
  // Waits until so many bytes of a file may be read. False: it is to stop.
  bool WaitForPiece(uint64_t bytes);
  // Waits, and saves what is to be saved meanwhile. False: it is to stop.
  bool WaitUntil(Nanos when_ns);
  // Counts anew what is behind the position; the first `most` files of it are named.
  void LookAhead(size_t most);
  // A finding is saved soon, a position now and then.
  Nanos NextSaveNs() const;
  void Save();

  const ScrubOptions options_;
  const ScrubPace pace_;
  Disk* const disk_;
  FileStore* const files_;
  const std::function<StatusOr<bool>()> heal_identity_;
  Counter* const bytes_;
  Counter* const scrubbed_;
  Counter* const found_;
  Counter* const unjudged_;
  Counter* const passes_;
  Gauge* const last_pass_s_;
  Gauge* const percent_;

  // --- of the thread
  FileCheck check_;
  ScrubState state_;              // its position and passes; the rest is filled in by Save
  Nanos pass_begun_ns_ = 0;       // as if the pass had begun in this process
  StoredFiles::Rest ahead_;       // behind the position, less what was read since it was counted
  uint64_t pass_bytes_ = 0;       // that this pass has read in this process
  Nanos file_begun_ns_ = 0;       // when the last file was begun
  uint64_t file_cost_ = 0;        // of what was read of it (scrub_pace.h); 0: no file of this pass was begun
  Nanos next_piece_ns_ = 0;       // before this time the bound allows no read
  bool unsaved_finding_ = false;  // since the last Save
  bool save_failed_ = false;      // the last Save did, and was told of
  Nanos saved_ns_ = 0;            // when the last Save was

  Notification stop_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace nova
