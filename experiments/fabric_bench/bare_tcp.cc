#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/thread.h"
#include "experiments/fabric_bench/bare.h"
#include "experiments/fabric_bench/cores.h"

namespace nova {
namespace {

// What the server is asked for: take `in` bytes `count` times, then give `out` bytes; or give them each time.
struct Ask {
  uint32_t in = 0;
  uint32_t out = 0;
  uint32_t count = 1;  // repeats of `in` before `out`
  uint32_t spin = 0;
};
constexpr uint32_t kAnswer = 32;  // bytes: the size of a frame header of ours

void SendAll(int fd, const void* data, size_t n) {
  for (const char* p = static_cast<const char*>(data); n > 0;) {
    const ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
    NOVA_CHECK(sent > 0) << strerror(errno);
    p += sent;
    n -= static_cast<size_t>(sent);
  }
}

bool ReceiveAll(int fd, void* data, size_t n, bool spin) {
  for (char* p = static_cast<char*>(data); n > 0;) {
    const ssize_t got = recv(fd, p, n, spin ? MSG_DONTWAIT : 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return false;
    p += got;
    n -= static_cast<size_t>(got);
  }
  return true;
}

class BareTcp final : public Bare {
 public:
  BareTcp(int client, int server) : client_(client), server_(server), memory_(kBenchBytes + sizeof(Ask)) {
    thread_ = std::make_unique<Thread>("bench.bare.0", [this] { Serve(); });
  }
  ~BareTcp() override {
    shutdown(client_, SHUT_RDWR);
    thread_.reset();
    close(client_);
    close(server_);
  }
  void PingPong(BenchOp op, size_t bytes, bool spin, int count, double* micros) override {
    for (int i = 0; i < count; ++i) {
      const Nanos begin = Now();
      Once(op, bytes, 1, spin);
      ReceiveAll(client_, memory_.data(), AnswerOf(op, bytes), spin);
      micros[i] = static_cast<double>(Now() - begin) / 1e3;
    }
    if (spin) Calm();
  }
  // Two batches under way, so that the pipe does not run dry between them.
  void Stream(BenchOp op, size_t bytes, bool spin, int depth, int count) override {
    const int batch = std::max(1, depth / 2);
    int asked = 0;
    for (int done = 0; done < count; done += batch) {
      while (asked < count && asked < done + 2 * batch) {
        Once(op, bytes, static_cast<uint32_t>(batch), spin);
        asked += batch;
      }
      for (int i = 0; i < (op == BenchOp::kRead ? batch : 1); ++i)
        ReceiveAll(client_, memory_.data(), AnswerOf(op, bytes), spin);
    }
    if (spin) Calm();
  }

 private:
  static size_t AnswerOf(BenchOp op, size_t bytes) {
    return op == BenchOp::kRead ? bytes + kAnswer : kAnswer;
  }
  // The server sleeps again: left spinning it would take a core from the fabric's turn.
  void Calm() {
    Once(BenchOp::kWrite, 1, 1, false);
    ReceiveAll(client_, memory_.data(), kAnswer, false);
  }
  void Once(BenchOp op, size_t bytes, uint32_t count, bool spin) {
    if (op == BenchOp::kRead) {
      const Ask ask{0, static_cast<uint32_t>(bytes) + kAnswer, count, spin};
      return SendAll(client_, &ask, sizeof(ask));
    }
    const Ask ask{static_cast<uint32_t>(bytes), kAnswer, count, spin};
    std::memcpy(memory_.data(), &ask, sizeof(ask));
    SendAll(client_, memory_.data(), sizeof(ask) + bytes);
    for (uint32_t i = 1; i < count; ++i) SendAll(client_, memory_.data(), bytes);
  }
  void Serve() {
    RunOnCore(kServerCore);
    std::vector<char> memory(kBenchBytes + kAnswer);
    bool spin = false;
    for (Ask ask; ReceiveAll(server_, &ask, sizeof(ask), spin);) {
      spin = ask.spin != 0;
      for (uint32_t i = 0; i < ask.count; ++i) {
        if (ask.in > 0) ReceiveAll(server_, memory.data(), ask.in, spin);
        if (ask.in == 0) SendAll(server_, memory.data(), ask.out);
      }
      if (ask.in > 0) SendAll(server_, memory.data(), ask.out);
    }
  }

  const int client_;
  const int server_;
  std::vector<char> memory_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace

StatusOr<std::unique_ptr<Bare>> NewBareTcp() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  if (bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      connect(client, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
    return absl::UnavailableError(StrCat("sockets over loopback: ", strerror(errno)));
  }
  const int server = accept(listener, nullptr, nullptr);
  close(listener);
  const int on = 1;
  for (const int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return std::make_unique<BareTcp>(client, server);
}

}  // namespace nova
