#include "common/rdma/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>

#include "absl/strings/numbers.h"

namespace nova {
namespace {

constexpr size_t kMaxJobs = 1024;

}  // namespace

bool SplitHostPort(const std::string& address, std::string* host, uint16_t* port) {
  const size_t colon = address.rfind(':');
  uint32_t number = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &number) || number > 65535) return false;
  *host = address.substr(0, colon);
  *port = static_cast<uint16_t>(number);
  return true;
}

bool KnownHost(const std::string& host, in_addr* ip) {
  return inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), ip) == 1;
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

Resolver::Resolver() : jobs_(kMaxJobs) {}

void Resolver::Resolve(const std::string& host, Done done) {
  {
    MutexLock lock(&mu_);
    if (thread_ == nullptr) {
      thread_ = std::make_unique<Thread>("rdma.resolver.0", [this] {
        while (auto job = jobs_.Pop()) job->done(LookUpHost(job->host));
      });
    }
  }
  Job job{host, done};
  if (!jobs_.TryPush(std::move(job))) done(absl::ResourceExhaustedError("too many host names to look up"));
}

void Resolver::Stop() {
  jobs_.Close();
  MutexLock lock(&mu_);
  thread_.reset();
}

}  // namespace nova
