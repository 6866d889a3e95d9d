// LogClient: LogC, the library in the LTC that replicates log records to StoCs (paper section 5): into their
// memory by one-sided WRITE, into files on their disks by SEND, or both, as the group says.
//
// One LogClient an LTC; a RangeLog for each (range, epoch). A log is, on each member of its group, one
// in-memory StoC file with overflow segments, one file on its disk, or both, bound to one xchg thread (one
// writer, L2). What one turn of that thread appends to a log goes out as one WRITE and one AppendLog per
// member, posted at the end of the turn. A record is acknowledged when every one of them was delivered
// (write-all, L3): of a file, when its bytes are written, and synced if the record says so.
//
// A member fails (group change, L4): `change_group` is asked once for a replacement set; it makes the
// compare-and-set under the epoch and answers. What was posted and not acknowledged is re-posted into fresh
// logs of the new group; the old group's records stay where they are until their memtables are flushed
// (UnusedGroups).
//
// When it counts as failed (deadline, L5). A WRITE that was not delivered, or an open that was not answered,
// is a suspicion: one ping over another connection decides.
//   not answered, or by     the member is gone, and every put waits for it: replaced at once. A process that
//   another incarnation     died refuses the ping's connection, so that this costs a round trip, not a
//                           deadline; and no limit may delay it
//   answered                its connection broke, or it or the network is slow: what it lacks is posted to it
//                           again, the same bytes to the same place. When that fails too it is replaced,
//                           though it lives; at most once in change_pause_ns and range, or an overloaded
//                           cluster would go round and round through its StoCs, leaving a group in the record
//                           each time
//   refused (an open)       it said no: replaced at once, a few times in change_pause_ns and range; then it
//                           is asked again and again, and what was sent nowhere ends with kBusy. A disk
//                           that is busy or full counts as slow
// What takes longer than a WRITE may, an append to a file or an open, brings a ping too, before its own
// deadline: a disk may take its time, and a process that does not answer is gone. While a log's member is
// suspected the log posts nothing more: lsn order holds (L2).
//
// Parts, each of which asks those before it: MemberProbe (pings), RangeGroups (the groups of a range, one
// change at a time), GroupLog (one log on the members of a group), LogLane (the logs of a range on a thread).
//
// Thread safety: as RangeLog.
// Ownership: the StocClient and xchgs outlive it; destroy RangeLogs before it.
// Errors: of appends, as RangeLog's. Open has none: a member that cannot be reached is replaced (L4).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rdma/xchg.h"
#include "logc/log_options.h"
#include "logc/replicated_log.h"
#include "stoc/stoc_client.h"

namespace nova {

// Asked for a group without `failed` (0: none has failed); answers on any thread, once: the new group
// (installed in the range's record), or FailedPrecondition when the epoch is no longer ours. Retries other
// errors itself.
using ChangeGroup = std::function<void(const LogGroup& current, StocId failed,
                                       std::function<void(StatusOr<LogGroup>)> answer)>;

class LogClient {
 public:
  // Before the xchgs start: adds its hooks at the end of a turn.
  LogClient(Fabric* fabric, StocClient* stocs, std::vector<Xchg*> xchgs, LogOptions options,
            Metrics* metrics);
  ~LogClient();
  // A StoC has refused memory for a log in the last two seconds. Ranges that can do without a part of theirs
  // are to be flushed, and their spare logs given back (ReplicatedLog::FreeSpares). From any thread.
  bool lacks_memory() const;
  // The log of a range at one epoch, on a group that the range's record lists. It ends with the handle that
  // is returned. `change_group` may be called until then, and later for what is under way.
  std::unique_ptr<ReplicatedLog> Open(RangeId range, Epoch epoch, const LogGroup& group,
                                      ChangeGroup change_group);

 private:
  struct Rep;  // what all ranges' logs share
  // A range's log at one epoch: its lanes, its fence, the changes of its group. What is under way keeps it.
  class StocLog;
  class Handle;  // of the engine; ends the epoch's log when it goes
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
