// Resolver: host names to IPv4 addresses, beside the threads that must not wait; addresses as users write
// them.
//
// Thread safety: all.   Ownership: the destructor joins its thread; what is not looked up by then is dropped.
// Errors: Unavailable: no such host, or no answer; ResourceExhausted: too many names wait.
#pragma once

#include <netinet/in.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/base/queue.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace nova {

// "host:port"; false when it is not one. An empty host is one to listen at.
bool SplitHostPort(const std::string& address, std::string* host, uint16_t* port);
// An address in digits, or "localhost": known without asking anybody.
bool KnownHost(const std::string& host, in_addr* ip);
// True: `*at` is where to dial "host:port", or why nowhere. False: its host has to be looked up.
bool KnownAddress(const std::string& address, StatusOr<sockaddr_in>* at);
// May wait for a name server.
StatusOr<in_addr> LookUpHost(const std::string& host);
// Where `address` says to listen; no host is any. May wait, too.
StatusOr<sockaddr_in> ListenAddress(const std::string& address);
// The address as others may dial it, with the port number that was bound.
std::string BoundAddress(const std::string& address, uint16_t port);

class Resolver {
 public:
  // on the resolver's thread, or inside Resolve
  using Done = std::function<void(const StatusOr<sockaddr_in>&)>;

  Resolver();
  ~Resolver() { Stop(); }
  void Resolve(const std::string& address, Done done);  // REQUIRES: not a KnownAddress
  void Stop();

 private:
  struct Job {
    std::string host;
    uint16_t port = 0;
    Done done;
  };
  BoundedQueue<Job> jobs_;
  Mutex mu_;
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mu_);  // started at the first name
};

}  // namespace nova
