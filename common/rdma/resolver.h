// Resolver: looks up host names (IPv4) beside the threads that must not wait; and the forms of addresses that
// users write.
//
// Thread safety: all.
// Ownership: the destructor joins its thread; lookups not begun by then are dropped.
// Errors: Unavailable: no such host, or no answer. ResourceExhausted: too many names wait.
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

// Splits "host:port"; false: it is not one. An empty host is one to listen at.
bool SplitHostPort(const std::string& address, std::string* host, uint16_t* port);
// An address in digits, or "localhost": known without asking a name server. False: it is neither.
bool KnownHost(const std::string& host, in_addr* ip);
// True: *at is where to dial "host:port", or the error why nowhere. False: its host has to be looked up.
bool KnownAddress(const std::string& address, StatusOr<sockaddr_in>* at);
// Asks the name server; waits.
StatusOr<in_addr> LookUpHost(const std::string& host);
// The address to listen at; an empty host is any. Waits, if the host has to be looked up.
StatusOr<sockaddr_in> ListenAddress(const std::string& address);
// `address` as others may dial it, with the port number that was bound.
std::string BoundAddress(const std::string& address, uint16_t port);

class Resolver {
 public:
  // Called on the resolver's thread, or inside Resolve.
  using Done = std::function<void(const StatusOr<sockaddr_in>&)>;

  Resolver();
  ~Resolver() { Stop(); }
  // Calls `done` once, unless stopped; REQUIRES: not a KnownAddress.
  void Resolve(const std::string& address, Done done);
  void Stop();  // drops waiting lookups, joins; idempotent

 private:
  struct Job {
    std::string host;
    uint16_t port = 0;
    Done done;
  };
  BoundedQueue<Job> jobs_;  // bounded; Resolve fails when it is full
  Mutex mu_;
  std::unique_ptr<Thread> thread_ ABSL_GUARDED_BY(mu_);  // started by the first name
};

}  // namespace nova
