// Any bytes after the handshake, to a listening port: it closes that connection at worst, and nothing lands
// outside a region.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/rdma/handshake.h"
#include "common/rdma/tcp/tcp_fabric.h"

namespace {

// One server for all inputs. The region lies between two margins that nobody may write. An input's frames
// cannot know the region's key and address: the first bytes of each input say at which offsets they are put
// in.
struct Server {
  Server() : memory(3 * kMargin, '.') {
    fabric = nova::NewTcpFabric();
    region = *fabric->Register(memory.data() + kMargin, kMargin, nova::Access::kRemoteReadWrite);
    port = std::move(fabric->OpenPort({})).value();
    address = *fabric->Listen("127.0.0.1:0", nova::Hello(), {port.get()}, nullptr);
  }
  size_t Poll() {
    std::array<nova::Completion, 64> completions;
    return port->Poll(completions);
  }
  static constexpr size_t kMargin = 4096;
  std::vector<char> memory;
  std::unique_ptr<nova::Fabric> fabric;
  nova::MemoryRegion region;
  std::unique_ptr<nova::Port> port;
  std::string address;
};

// From one of many addresses: what lingers in the kernel uses up the ports of one in a minute. Where other
// programs have taken those of one, the next is tried.
int Connect(const std::string& address) {
  static uint32_t connected = 0;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int why = 0;
  for (int tries = 0; tries < 100; ++tries) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + connected++ % 1000);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    NOVA_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)) == 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
    why = errno;
    close(fd);
  }
  NOVA_CHECK(false) << "connect: " << strerror(why);
  return -1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server* server = new Server;
  if (size < 2) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  for (size_t i = 0; i < 2; ++i) {
    const size_t at = data[i];
    if (at + 16 > bytes.size()) continue;
    std::memcpy(bytes.data() + at, &server->region.rkey, 4);
    const uint64_t address = server->region.remote().address;
    std::memcpy(bytes.data() + at + 8, &address, 8);
  }
  const int fd = Connect(server->address);
  const std::string hello = nova::EncodeHello(nova::HandshakeKind::kHello, nova::Hello(), 65536);
  NOVA_CHECK(send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size()));
  while (server->fabric->counters().connections == 0) server->Poll();
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n =
        send(fd, bytes.data() + at, std::min<size_t>(bytes.size() - at, 100), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) break;
    at += static_cast<size_t>(n);
    server->Poll();
  }
  // Aborted, not closed in order: else thousands of sockets a second would linger in the kernel.
  const linger abort{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
  close(fd);
  while (server->fabric->counters().connections > 0) server->Poll();
  const auto outside = [](char c) { return c != '.'; };
  NOVA_CHECK(std::none_of(server->memory.begin(), server->memory.begin() + Server::kMargin, outside));
  NOVA_CHECK(std::none_of(server->memory.end() - Server::kMargin, server->memory.end(), outside));
  return 0;
}
