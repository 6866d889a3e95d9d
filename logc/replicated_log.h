// ReplicatedLog: what the cluster asks of a range's log beside what the engine does: its groups (group
// change, L4), and which rounds they expose. logc/log_client.h implements it.
//
// Thread safety: all calls from any thread.   Ownership, errors: as RangeLog.
#pragma once

#include <vector>

#include "common/base/ids.h"
#include "common/log/range_log.h"

namespace nova {

struct ExposedRound {
  RoundNumber round = 0;
  // of the group that has the fewest; each holds every acknowledged record of the group
  size_t live_members = 0;
  bool operator==(const ExposedRound&) const = default;
};

class ReplicatedLog : public RangeLog {
 public:
  // L4: groups that no un-flushed round needs any more, so that the owner can take them off the record.
  virtual std::vector<GroupId> UnusedGroups() const = 0;
  // These of them are off the record.
  virtual void ForgetGroups(const std::vector<GroupId>& groups) = 0;
  // L4: rounds with records in a group that was replaced, the most exposed first, of equally exposed ones the
  // oldest.
  virtual std::vector<ExposedRound> ExposedRounds() const = 0;
  // The logs that hold records of rounds, in any group of this epoch.
  virtual std::vector<Uuid> Logs() const = 0;
  // Asks for a new group though no member failed: to return to R members after a loss.
  virtual void RequestGroupChange() = 0;
  // Gives back what was opened ahead for the next round: memory of StoCs is short.
  virtual void FreeSpares() = 0;
};

}  // namespace nova
