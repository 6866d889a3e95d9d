#include "common/rdma/wake_event.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nova {

WakeEvent::~WakeEvent() {
  if (fd_ >= 0) close(fd_);
}

Status WakeEvent::Open(int epoll_fd, uint64_t name) {
  fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd_ < 0) return absl::ResourceExhaustedError(StrCat("eventfd: ", strerror(errno)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd_, &event) == 0) return OkStatus();
  return absl::ResourceExhaustedError(StrCat("epoll_ctl: ", strerror(errno)));
}

void WakeEvent::Wake() {
  if (state_.exchange(State::kWoken) != State::kSleeping) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(fd_, &one, sizeof(one));
}

void WakeEvent::Drain() {
  uint64_t count;
  [[maybe_unused]] const ssize_t n = read(fd_, &count, sizeof(count));
}

bool WakeEvent::BeginSleep() {
  State expected = State::kRunning;
  return state_.compare_exchange_strong(expected, State::kSleeping);
}

int EpollTimeout(Nanos until_ns) {
  if (until_ns == kNever) return -1;
  return static_cast<int>(
      std::clamp<Nanos>((until_ns - Now() + kMillisecond - 1) / kMillisecond, 0, 3'600'000));
}

}  // namespace nova
