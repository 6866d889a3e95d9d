// LogCheck: the files of one log on the members of its group: none may lack a record that is synced
// everywhere (write-all, L3), as records of any copy say.
//
// Which log is of which listed group is written nowhere. A log with records that are in no table yet is of
// one of them, and each of that group's members has its file; the group that lacks the least is taken for it.
//
// Thread safety: one thread.
// Ownership:     reader and record outlive it.
// Errors:        none: what cannot be told now (a StoC that does not answer) is left out.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster_types.h"
#include "logc/log_copies.h"
#include "ltc/fsck/stoc_reader.h"

namespace nova {

// A member whose copy is not whole, and what it lacks.
struct LogCopyLacking {
  StocId stoc;
  std::string why;
};

// `there`: the StoCs that list a file of the log. `done`: of the version, which was read before.
std::vector<LogCopyLacking> CheckLog(StocReader* stocs, const RangeRecord& record, const Uuid& log,
                                     const std::vector<StocId>& there, const MemTableDone& done);

}  // namespace nova
