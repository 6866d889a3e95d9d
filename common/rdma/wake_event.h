// WakeEvent: how any thread ends a port's sleep in epoll_wait; no system call while the port is awake.
//
//   if (event.BeginSleep()) epoll_wait(...);   // false: woken before
//   event.EndSleep();
//
// Thread safety: Wake from any thread, the rest by the sleeper.   Ownership: its descriptor.   Errors:
//                Open's.
#pragma once

#include <atomic>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

class WakeEvent {
 public:
  WakeEvent() = default;
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // From here on epoll_wait reports it as `name`; Drain is due then.
  Status Open(int epoll_fd, uint64_t name);
  void Wake();
  void Drain();
  bool BeginSleep();
  bool EndSleep() { return state_.exchange(State::kRunning) == State::kWoken; }  // true: by Wake

 private:
  enum class State : int { kRunning, kSleeping, kWoken };
  int fd_ = -1;
  std::atomic<State> state_{State::kRunning};
};

// The timeout that epoll_wait takes: -1 for ever; 0 only when the time has come.
int EpollTimeout(Nanos until_ns);

}  // namespace nova
