// SimControlNetwork: the ControlChannel of simulations: calls a coordinator's handler in virtual time;
// delays, drops and duplicates requests, drops answers, cuts ways.
//
// Thread safety: all methods from any thread (fiber).
// Ownership:     outlives its channels; a handler's object lives until Unregister has returned.
// Errors:        Unavailable: nobody at that address; DeadlineExceeded: dropped, or cut.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "coordinator/coordinator_client.h"

namespace nova {

// What befalls a call, by chance.
struct SimControlFaults {
  Nanos min_delay_ns = 100 * kMicrosecond;  // one way
  Nanos max_delay_ns = kMillisecond;
  uint32_t drop_one_in = 0;       // of requests, and of answers; 0: none
  uint32_t duplicate_one_in = 0;  // of requests
};

class SimControlNetwork {
 public:
  using Handler = std::function<StatusOr<std::string>(const std::string& method, const std::string& request)>;

  explicit SimControlNetwork(SimControlFaults faults = {});

  // A coordinator listens at that address.
  void Register(const std::string& address, Handler handler);
  void Unregister(const std::string& address);  // waits for calls under way
  void SetFaults(SimControlFaults faults);
  // Cuts the way from a node to an address, or mends it.
  void SetReachable(const std::string& from, const std::string& address, bool on);
  // The way of the node `from` to these coordinators.
  std::unique_ptr<ControlChannel> NewChannel(std::string from, std::vector<std::string> addresses);

 private:
  friend class SimChannel;
  struct Endpoint {
    Handler handler;
    int calls = 0;  // under way
  };
  // One attempt, with all that befalls it.
  StatusOr<std::string> Deliver(const std::string& from, const std::string& address,
                                const std::string& method, const std::string& request, Nanos deadline_ns);
  // The request has arrived.
  StatusOr<std::string> CallHandler(const std::string& address, const std::string& method,
                                    const std::string& request);
  bool Roll(uint32_t one_in) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return one_in != 0 && random_.OneIn(one_in);
  }
  // How long one way takes.
  Nanos DelayLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar ended_;  // signalled when a call has ended; with mu_
  SimControlFaults faults_ ABSL_GUARDED_BY(mu_);
  Random random_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Endpoint> endpoints_ ABSL_GUARDED_BY(mu_);
  std::set<std::pair<std::string, std::string>> cut_ ABSL_GUARDED_BY(mu_);  // from, address
};

}  // namespace nova
