#include "common/rdma/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>

#include "absl/strings/numbers.h"

namespace nova {
namespace {

constexpr size_t kMaxJobs = 1024;

sockaddr_in SocketAddress(in_addr ip, uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr = ip;
  at.sin_port = htons(port);
  return at;
}

}  // namespace

bool SplitHostPort(const std::string& address, std::string* host, uint16_t* port) {
  const size_t colon = address.rfind(':');
  uint32_t number = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &number) || number > 65535)
    return false;
  *host = address.substr(0, colon);
  *port = static_cast<uint16_t>(number);
  return true;
}

bool KnownHost(const std::string& host, in_addr* ip) {
  return inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), ip) == 1;
}

bool KnownAddress(const std::string& address, StatusOr<sockaddr_in>* at) {
  std::string host;
  uint16_t port = 0;
  in_addr ip{};
  if (!SplitHostPort(address, &host, &port) || host.empty()) {
    *at = absl::InvalidArgumentError(StrCat("not an address (host:port): ", address));
    return true;
  }
  if (!KnownHost(host, &ip)) return false;
  *at = SocketAddress(ip, port);
  return true;
}

StatusOr<in_addr> LookUpHost(const std::string& host) {
  in_addr ip{};
  if (KnownHost(host, &ip)) return ip;
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::UnavailableError(StrCat("host ", host, ": ", gai_strerror(error)));
  }
  ip = reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
  freeaddrinfo(found);
  return ip;
}

StatusOr<sockaddr_in> ListenAddress(const std::string& address) {
  std::string host;
  uint16_t port = 0;
  if (!SplitHostPort(address, &host, &port)) {
    return absl::InvalidArgumentError(StrCat("not an address to listen at (host:port): ", address));
  }
  NOVA_ASSIGN_OR_RETURN(const in_addr ip, LookUpHost(host.empty() ? "0.0.0.0" : host));
  return SocketAddress(ip, port);
}

std::string BoundAddress(const std::string& address, uint16_t port) {
  const std::string host = address.substr(0, address.rfind(':'));
  return StrCat(host.empty() ? "0.0.0.0" : host, ":", port);
}

Resolver::Resolver() : jobs_(kMaxJobs) {}

void Resolver::Resolve(const std::string& address, Done done) {
  Job job;
  job.done = done;
  SplitHostPort(address, &job.host, &job.port);
  {
    MutexLock lock(&mu_);
    if (thread_ == nullptr) {
      thread_ = std::make_unique<Thread>("rdma.resolver.0", [this] {
        while (auto next = jobs_.Pop()) {
          const StatusOr<in_addr> ip = LookUpHost(next->host);
          next->done(ip.ok() ? StatusOr<sockaddr_in>(SocketAddress(*ip, next->port)) : ip.status());
        }
      });
    }
  }
  if (!jobs_.TryPush(std::move(job))) done(absl::ResourceExhaustedError("too many host names to look up"));
}

void Resolver::Stop() {
  jobs_.Close();
  MutexLock lock(&mu_);
  thread_.reset();
}

}  // namespace nova
