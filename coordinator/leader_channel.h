// LeaderChannel: the part of a ControlChannel that finds the leader among several coordinators; a transport
// does one attempt.
//
// An attempt goes to the last known leader first. A coordinator that does not lead names the one that does;
// one that does not answer is passed over, and the next call begins behind it. A leader that nobody was told
// of may be learned (Learn). Each attempt has at most a second, inside the caller's deadline; rounds back
// off, with jitter.
//
// Thread safety: all methods from any thread.
// Errors: those of the called method; Unavailable or DeadlineExceeded: no leader answered in time.
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "coordinator/coordinator_client.h"

namespace nova {

// The error of a coordinator that does not lead; `leader` is the address of the one that does, empty: not
// known. The second form has a text of its own.
Status NotLeadingError(const std::string& leader);
Status NotLeadingError(const std::string& leader, const std::string& text);
// True when `s` is that error; fills in *leader.
bool IsNotLeading(const Status& s, std::string* leader);

class LeaderChannel : public ControlChannel {
 public:
  explicit LeaderChannel(std::vector<std::string> addresses);
  StatusOr<std::string> Call(const std::string& method, const std::string& request, Nanos deadline_ns) final;
  void Learn(const std::string& leader) final;

 protected:
  // Asks one coordinator, once.
  virtual StatusOr<std::string> Attempt(const std::string& address, const std::string& method,
                                        const std::string& request, Nanos deadline_ns) = 0;

 private:
  // The addresses in the order in which they are asked now: the last known leader first.
  std::vector<std::string> OrderOfRound();
  // It did not answer: the next call begins behind it.
  void NotedDown(const std::string& address);

  const size_t given_;  // so many of addresses_; behind them one that was learned, if any was
  Mutex mu_;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);
  std::string leader_ ABSL_GUARDED_BY(mu_);  // as last known; empty: nobody
  size_t first_ ABSL_GUARDED_BY(mu_) = 0;    // of addresses_, where a round begins
  Random random_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
