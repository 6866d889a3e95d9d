// RecordStream: the bytes of one connection. PlainStream is a plain socket; a TLS session could be another.
//
// Thread safety: none; the owner of the connection.
// Ownership: closes its socket when destroyed.
// Errors: of Read and Write: > 0: bytes moved; kWouldBlock; kEnd: closed in order; otherwise -errno. They
//   never wait.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace nova {

class RecordStream {
 public:
  static constexpr ssize_t kEnd = 0;
  static constexpr ssize_t kWouldBlock = -EAGAIN;

  virtual ~RecordStream() = default;
  // Reads the bytes that have come, into up to `count` pieces in order.
  virtual ssize_t Read(iovec* pieces, size_t count) = 0;
  // Writes as much of the pieces, in order, as the socket takes.
  virtual ssize_t Write(iovec* pieces, size_t count) = 0;
  // Sends the end of the stream; reading goes on.
  virtual void ShutdownWrite() = 0;
  virtual int fd() const = 0;  // for epoll
};

class PlainStream final : public RecordStream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}
  ~PlainStream() override { close(fd_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  ssize_t Read(iovec* pieces, size_t count) override {
    for (;;) {
      const ssize_t n = count == 1 ? recv(fd_, pieces->iov_base, pieces->iov_len, MSG_DONTWAIT)
                                   : readv(fd_, pieces, static_cast<int>(count));
      if (n >= 0) return n;
      if (errno != EINTR) return errno == EWOULDBLOCK ? kWouldBlock : -errno;
    }
  }
  ssize_t Write(iovec* pieces, size_t count) override {
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    for (;;) {
      const ssize_t n = count == 1 ? send(fd_, pieces->iov_base, pieces->iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
                                   : sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) return n;
      if (errno != EINTR) return errno == EWOULDBLOCK ? kWouldBlock : -errno;
    }
  }
  void ShutdownWrite() override { shutdown(fd_, SHUT_WR); }
  int fd() const override { return fd_; }

 private:
  const int fd_;
};

}  // namespace nova
