// WakeEvent: how any thread ends a port's sleep in epoll_wait. No system call is made while the port is
// awake.
//
//   if (event.BeginSleep()) epoll_wait(...);   // false: woken before
//   event.EndSleep();
//
// Thread safety: Wake from any thread, the rest by the sleeper.
// Ownership: owns its descriptor.
// Errors: Open: ResourceExhausted: no descriptor or kernel memory left.
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

  // Adds an event to the epoll set, which reports it as `name`; the owner then calls Drain.
  Status Open(int epoll_fd, uint64_t name);
  // Ends the sleep under way, or the next one.
  void Wake();
  void Drain();  // takes the event from the descriptor
  // False: Wake was called since the last EndSleep.
  bool BeginSleep();
  bool EndSleep() { return state_.exchange(State::kRunning) == State::kWoken; }  // true: it was ended by Wake

 private:
  enum class State : int { kRunning, kSleeping, kWoken };
  int fd_ = -1;  // an eventfd; -1: not open
  std::atomic<State> state_{State::kRunning};
};

// The timeout for epoll_wait in ms: -1 for ever; 0 only if the time has come.
int EpollTimeout(Nanos until_ns);

}  // namespace nova
