// Log recovery (R2, R3): fence the members of a range's log groups, read their sealed segments by READ or their files, parse.
//
// At least one listed member of every group, with the listed incarnation where the group has segments, or on the listed store where
// it has files (N1), has to be fenced and read: acknowledgement was write-all, so each such member holds every acknowledged record of
// its group. Segments before files; StoCs and logs in parallel. Of a log's segments one member's are read, of its files all that answer;
// where those lack a record that was acknowledged (log_copies.h), every other copy too.
//
// Thread safety: waits; control threads.
// Errors: Unavailable: no member of some group answers or still has its memory or store (the text lists them: force-open's report);
//         DataLoss: a record that was acknowledged is damaged in every copy that answers, or one must not be skipped.
#pragma once

#include <string>
#include <vector>

#include "logc/log_copies.h"
#include "stoc/stoc_client.h"

namespace nova {

// Fences (range, epoch) at the members of record.log_groups; epoch = record.epoch, the new owner's. `done`: of its manifest.
StatusOr<std::vector<RecoveredRecord>> RecoverLogs(StocClient* stocs, const RangeRecord& record, const MemTableDone& done,
                                                   Nanos deadline_ns);

}  // namespace nova
