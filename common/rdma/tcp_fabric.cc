#include "common/rdma/tcp_fabric.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/rdma/resolver.h"
#include "common/rdma/tcp_port.h"

namespace nova {
namespace {

constexpr int kBacklog = 1024;

class TcpFabric final : public Fabric, public TcpPortOwner {
 public:
  explicit TcpFabric(const TcpFabricOptions& options)
      : options_(options), regions_(RandomSeed()) {}
  ~TcpFabric() override {
    resolver_.Stop();
    MutexLock lock(&mu_);
    NOVA_CHECK(ports_.empty()) << "a port outlives its fabric";
  }

  std::string_view name() const override { return "tcp"; }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override {
    return regions_.Register(address, size, access);
  }
  void Revoke(const MemoryRegion& region) override { regions_.Revoke(region); }
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override;
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override;
  FabricCounters counters() const override;

  RegionTable* regions() override { return &regions_; }
  const TcpFabricOptions& options() const override { return options_; }
  void Resolve(const std::string& host, TcpPort* port, ConnectionId connection) override;
  bool HandOver(TcpPort* from, std::unique_ptr<RecordStream>& stream, const Handshake& hello) override;
  void PortGone(TcpPort* port, const FabricCounters& last) override;

 private:
  const TcpFabricOptions options_;
  RegionTable regions_;

  mutable Mutex mu_;
  std::vector<TcpPort*> ports_ ABSL_GUARDED_BY(mu_);
  std::vector<TcpPort*> listening_ ABSL_GUARDED_BY(mu_);  // null: gone
  FabricCounters gone_ ABSL_GUARDED_BY(mu_);              // what ports that are gone had counted
  TcpListener listener_;
  Resolver resolver_;
};

void AddCounters(FabricCounters* sum, const FabricCounters& c) {
  sum->connections += c.connections;
  sum->pending_requests += c.pending_requests;
  sum->bytes_sent += c.bytes_sent;
  sum->bytes_written += c.bytes_written;
  sum->bytes_read += c.bytes_read;
  sum->protocol_errors += c.protocol_errors;
  sum->access_errors += c.access_errors;
}

StatusOr<std::unique_ptr<Port>> TcpFabric::OpenPort(const PortOptions& options) {
  auto port = std::make_unique<TcpPort>(this, options);
  {
    MutexLock lock(&mu_);
    ports_.push_back(port.get());
  }
  NOVA_RETURN_IF_ERROR(port->Open());
  return port;
}

StatusOr<std::string> TcpFabric::Listen(const std::string& address, const Hello& self,
                                        std::vector<Port*> ports, AcceptCheck check) {
  std::string host;
  uint16_t number = 0;
  if (!SplitHostPort(address, &host, &number) || ports.empty()) {
    return absl::InvalidArgumentError(StrCat("not an address to listen at (host:port): ", address));
  }
  NOVA_ASSIGN_OR_RETURN(const in_addr ip, LookUpHost(host.empty() ? "0.0.0.0" : host));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(StrCat("socket: ", strerror(errno)));
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr = ip;
  at.sin_port = htons(number);
  socklen_t length = sizeof(at);
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(StrCat("cannot listen at ", address, ": ", strerror(error)));
  }
  listener_ = {self, std::move(check), ports.size()};
  MutexLock lock(&mu_);
  NOVA_CHECK(listening_.empty()) << "Listen is called once";
  for (size_t i = 0; i < ports.size(); ++i) {
    auto* port = static_cast<TcpPort*>(ports[i]);
    listening_.push_back(port);
    port->Serve(&listener_, i == 0 ? fd : -1);
  }
  return StrCat(host.empty() ? "0.0.0.0" : host, ":", ntohs(at.sin_port));
}

FabricCounters TcpFabric::counters() const {
  MutexLock lock(&mu_);
  FabricCounters sum = gone_;
  for (const TcpPort* port : ports_) AddCounters(&sum, port->counters());
  sum.regions = regions_.regions();
  return sum;
}

void TcpFabric::Resolve(const std::string& host, TcpPort* port, ConnectionId connection) {
  resolver_.Resolve(host, [this, port, connection](const StatusOr<in_addr>& ip) {
    MutexLock lock(&mu_);
    if (std::find(ports_.begin(), ports_.end(), port) != ports_.end()) port->Resolved(connection, ip);
  });
}

bool TcpFabric::HandOver(TcpPort* from, std::unique_ptr<RecordStream>& stream, const Handshake& hello) {
  MutexLock lock(&mu_);
  TcpPort* to = listening_[hello.hello.xchg_index % listening_.size()];
  if (to == nullptr || to == from) return false;
  to->HandOver(std::move(stream), hello);
  return true;
}

void TcpFabric::PortGone(TcpPort* port, const FabricCounters& last) {
  MutexLock lock(&mu_);
  AddCounters(&gone_, last);
  ports_.erase(std::find(ports_.begin(), ports_.end(), port));
  std::replace(listening_.begin(), listening_.end(), port, static_cast<TcpPort*>(nullptr));
}

}  // namespace

std::unique_ptr<Fabric> NewTcpFabric(const TcpFabricOptions& options) {
  return std::make_unique<TcpFabric>(options);
}

}  // namespace nova
