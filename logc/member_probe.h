// MemberProbe: asks whether a member of a log group is still there (deadline, L5), for all logs of an
// LTC.
//
// One ping answers all of a thread who ask about the same incarnation of a StoC at the time. It goes over
// another connection than the one that failed: that of the next xchg thread; where there is only one thread,
// a new one, for a WRITE's deadline has destroyed the old (exposed memory, F4).
//
// Thread safety: Ask OnXchg of the thread `lane`, where `answer` runs, later, once.
// Ownership:     the StocClient and the xchgs outlive it; it outlives the xchgs' threads.
// Errors:        a process that does not answer in time, or by another incarnation, is not alive.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/rdma/xchg.h"
#include "logc/log_options.h"
#include "stoc/stoc_client.h"

namespace nova {

class MemberProbe {
 public:
  using Answer = absl::AnyInvocable<void(bool alive)>;

  MemberProbe(StocClient* stocs, std::vector<Xchg*> xchgs, const LogOptions& options, Metrics* metrics);

  // `near`: the StoC is on this host, and has the shorter deadline.
  void Ask(size_t lane, const LogMember& member, bool near, Answer answer);

 private:
  // Who waits for the ping of a StoC's incarnation.
  using Asked = std::map<std::pair<StocId, Incarnation>, std::vector<Answer>>;

  // Sends a ping from `other`, and again over a new connection when the old one breaks under it. `unsent`
  // pings of this question found no connection.
  void Ping(size_t lane, Xchg* other, const LogMember& member, Nanos deadline_ns, int unsent);
  // Tells all who asked, on their thread.
  void TellAll(size_t lane, const LogMember& member, bool alive);

  StocClient* const stocs_;
  const std::vector<Xchg*> xchgs_;
  const Nanos deadline_ns_;       // of one ping
  const Nanos near_deadline_ns_;  // the same, to a StoC of this host
  Counter* const answered_;       // pings, a metric
  Counter* const failed_;         // the same
  std::vector<Asked> asked_;      // [i] belongs to xchg i
};

}  // namespace nova
