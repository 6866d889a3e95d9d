// TcpAcceptor: the listening socket of a port, watched while there is room for another handshake. Internal to
// the tcp fabric.
//
// Thread safety: none; the port's thread, but for Serve, before it runs.
// Ownership: owns the socket.
// Errors: out of descriptors or memory: the kernel keeps callers in its queue, and they are asked for again a
//   moment later.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/clock.h"

namespace nova {

class TcpAcceptor {
 public:
  explicit TcpAcceptor(size_t max_handshakes) : max_handshakes_(max_handshakes) {}
  ~TcpAcceptor() {
    if (fd_ >= 0) close(fd_);
  }
  // `fd` -1: there is nothing to accept here. `event`: the epoll set's name for it.
  void Serve(int fd, int epoll_fd, uint64_t event) {
    fd_ = fd;
    epoll_fd_ = epoll_fd;
    event_ = event;
    Resume();
  }

  // A connection that waits for its hello; -1: none now.
  int Accept() {
    if (handshakes_ >= max_handshakes_) {
      Pause(kNever);
      return -1;
    }
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
      Pause(Now() + kPause);  // asking again at once would spin
    return fd;
  }
  // A handshake has begun, has ended: with a connection that is up, handed over, or gone.
  void Began() { ++handshakes_; }
  void Ended() {
    --handshakes_;
    Resume();
  }
  // When Resume is to be called; kNever: a handshake's end does it.
  Nanos again_ns() const { return again_ns_; }
  // Watches the socket if there is room.
  void Resume() {
    if (watched_ || fd_ < 0 || handshakes_ >= max_handshakes_) return;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = event_;
    watched_ = epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd_, &event) == 0;
    again_ns_ = watched_ ? kNever : Now() + kPause;  // the kernel had no memory for it
  }

 private:
  static constexpr Nanos kPause = 100 * kMillisecond;

  void Pause(Nanos until_ns) {
    again_ns_ = until_ns;
    if (!watched_) return;
    watched_ = false;
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd_, nullptr);
  }

  const size_t max_handshakes_;
  int fd_ = -1;
  int epoll_fd_ = -1;
  uint64_t event_ = 0;
  bool watched_ = false;
  Nanos again_ns_ = kNever;
  size_t handshakes_ = 0;  // accepted connections that are not up
};

}  // namespace nova
