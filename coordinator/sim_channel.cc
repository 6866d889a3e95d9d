#include "coordinator/sim_channel.h"

#include "coordinator/leader_channel.h"

namespace nova {

class SimChannel : public LeaderChannel {
 public:
  SimChannel(SimControlNetwork* network, std::string from, std::vector<std::string> addresses)
      : LeaderChannel(std::move(addresses)), network_(network), from_(std::move(from)) {}

 private:
  StatusOr<std::string> Attempt(const std::string& address, const std::string& method,
                                const std::string& request, Nanos deadline_ns) override {
    return network_->Deliver(from_, address, method, request, deadline_ns);
  }

  SimControlNetwork* const network_;
  const std::string from_;
};

SimControlNetwork::SimControlNetwork(SimControlFaults faults) : faults_(faults) {}

void SimControlNetwork::Register(const std::string& address, Handler handler) {
  MutexLock lock(&mu_);
  endpoints_[address].handler = std::move(handler);
}

void SimControlNetwork::Unregister(const std::string& address) {
  MutexLock lock(&mu_);
  endpoints_[address].handler = nullptr;
  while (endpoints_[address].calls > 0) ended_.Wait(&mu_);
  endpoints_.erase(address);
}

void SimControlNetwork::SetFaults(SimControlFaults faults) {
  MutexLock lock(&mu_);
  faults_ = faults;
}

void SimControlNetwork::SetReachable(const std::string& from, const std::string& address, bool on) {
  MutexLock lock(&mu_);
  if (on) {
    cut_.erase({from, address});
  } else {
    cut_.insert({from, address});
  }
}

std::unique_ptr<ControlChannel> SimControlNetwork::NewChannel(std::string from,
                                                              std::vector<std::string> addresses) {
  return std::make_unique<SimChannel>(this, std::move(from), std::move(addresses));
}

Nanos SimControlNetwork::DelayLocked() {
  const Nanos spread = faults_.max_delay_ns - faults_.min_delay_ns;
  return faults_.min_delay_ns +
         (spread > 0 ? static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(spread))) : 0);
}

StatusOr<std::string> SimControlNetwork::CallHandler(const std::string& address, const std::string& method,
                                                     const std::string& request) {
  Handler handler;
  {
    MutexLock lock(&mu_);
    const auto it = endpoints_.find(address);
    if (it == endpoints_.end() || it->second.handler == nullptr) {
      return absl::UnavailableError(StrCat(address, ": connection refused"));
    }
    handler = it->second.handler;
    ++it->second.calls;
  }
  StatusOr<std::string> answer = handler(method, request);
  MutexLock lock(&mu_);
  --endpoints_[address].calls;
  ended_.SignalAll();
  return answer;
}

StatusOr<std::string> SimControlNetwork::Deliver(const std::string& from, const std::string& address,
                                                 const std::string& method, const std::string& request,
                                                 Nanos deadline_ns) {
  Nanos there = 0;
  Nanos again = 0;
  Nanos back = 0;
  bool lost_request = false;
  bool lost_answer = false;
  bool duplicate = false;
  {
    MutexLock lock(&mu_);
    there = DelayLocked();
    again = DelayLocked();
    back = DelayLocked();
    lost_request = cut_.contains({from, address}) || Roll(faults_.drop_one_in);
    lost_answer = Roll(faults_.drop_one_in);
    duplicate = Roll(faults_.duplicate_one_in);
  }
  const auto lost = [&] {
    SleepUntil(deadline_ns);
    return absl::DeadlineExceededError(StrCat(address, ": no answer"));
  };
  if (lost_request) return lost();
  SleepFor(there);
  StatusOr<std::string> answer = CallHandler(address, method, request);
  if (duplicate) {
    SleepFor(again);
    CallHandler(address, method, request).IgnoreError();
  }
  if (lost_answer) return lost();
  SleepFor(back);
  if (Now() >= deadline_ns) return absl::DeadlineExceededError(StrCat(address, ": no answer"));
  MutexLock lock(&mu_);
  if (cut_.contains({from, address})) return absl::DeadlineExceededError(StrCat(address, ": no answer"));
  return answer;
}

}  // namespace nova
