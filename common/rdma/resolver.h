// Resolver: host names to IPv4 addresses, beside the threads that must not wait.
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
// May wait for a name server.
StatusOr<in_addr> LookUpHost(const std::string& host);

class Resolver {
 public:
  using Done = std::function<void(const StatusOr<in_addr>&)>;  // on the resolver's thread, or inside Resolve

  Resolver();
  ~Resolver() { Stop(); }
  void Resolve(const std::string& host, Done done);
  void Stop();

 private:
  struct Job {
    std::string host;
    Done done;
  };
  BoundedQueue<Job> jobs_;
  Mutex mu_;
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mu_);  // started at the first name
};

}  // namespace nova
