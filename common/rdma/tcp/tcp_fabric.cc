#include "common/rdma/tcp/tcp_fabric.h"

#include <sys/socket.h>

#include <cstring>

#include "common/rdma/tcp/tcp_port.h"

namespace nova {
namespace {

constexpr int kBacklog = 1024;

class TcpFabric final : public Fabric {
 public:
  explicit TcpFabric(const TcpFabricOptions& options) : shared_(options) {}

  std::string_view name() const override { return "tcp"; }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override {
    return shared_.regions.Register(address, size, access);
  }
  void Revoke(const MemoryRegion& region) override { shared_.regions.Revoke(region); }
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override {
    return shared_.ports.Open(std::make_unique<TcpPort>(&shared_, options));
  }
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override;
  FabricCounters counters() const override {
    FabricCounters sum = shared_.ports.counters();
    sum.regions = shared_.regions.regions();
    return sum;
  }

 private:
  TcpShared shared_;
};

StatusOr<std::string> TcpFabric::Listen(const std::string& address, const Hello& self,
                                        std::vector<Port*> ports, AcceptCheck check) {
  NOVA_ASSIGN_OR_RETURN(sockaddr_in at, ListenAddress(address));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(StrCat("socket: ", strerror(errno)));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  socklen_t length = sizeof(at);
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(StrCat("cannot listen at ", address, ": ", strerror(error)));
  }
  shared_.listener = {self, std::move(check), ports.size()};
  shared_.ports.Serve(ports, [&](TcpPort* port, bool first) { port->Serve(first ? fd : -1); });
  return BoundAddress(address, ntohs(at.sin_port));
}

}  // namespace

std::unique_ptr<Fabric> NewTcpFabric(const TcpFabricOptions& options) {
  return std::make_unique<TcpFabric>(options);
}

}  // namespace nova
