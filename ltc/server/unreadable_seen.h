// UnreadableSeen: which files without a header that can be read (stoc/unreadable_files.h) a range has no job
// for any more (collection, N4).
//
// Such a file was there when its StoC started. So a job that had made it, and whose edit may still come to
// name it, had begun before the file was listed for the first time. When all jobs that had begun by then have
// ended, an edit has named the file, or none ever will. Ages play no part.
//
// Thread safety: none; one thread at a time.   Ownership: none taken.   Errors: none.
#pragma once

#include <map>
#include <vector>

#include "common/base/ids.h"
#include "ltc/engine/job_book.h"

namespace nova {

class UnreadableSeen {
 public:
  // That start of the StoC has just listed these. Those of them for which all jobs have ended: whether they
  // are needed has to be looked at after this.
  std::vector<StocFileId> Settled(StocId stoc, Incarnation start, const std::vector<StocFileId>& listed,
                                  const JobBook& jobs) {
    const uint64_t next = jobs.Next(), ended_below = jobs.FirstUnfinished();
    Seen& seen = seen_[stoc];
    if (seen.start != start) seen = {start, {}};
    std::map<StocFileId, uint64_t> again;
    std::vector<StocFileId> settled;
    for (const StocFileId& file : listed) {
      const auto before = seen.began_below.find(file);
      const uint64_t began_below = before == seen.began_below.end() ? next : before->second;
      again[file] = began_below;
      if (began_below <= ended_below) settled.push_back(file);
    }
    seen.began_below = std::move(again);
    return settled;
  }

 private:
  struct Seen {
    Incarnation start;
    // By file: when it was listed first all jobs had numbers below this one.
    std::map<StocFileId, uint64_t> began_below;
  };
  std::map<StocId, Seen> seen_;
};

}  // namespace nova
