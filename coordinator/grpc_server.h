// GrpcServer: the Coordinator service of coordinator.proto, each method answered by one handler, bytes in,
// bytes out.
//
// Thread safety: the handler is called on gRPC's threads, several at a time.
// Ownership:     what the handler uses outlives the server; the destructor waits for calls under way (at most
//                a second, then they are cancelled).
// Errors:        Unavailable: the address cannot be bound.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace nova {

class GrpcServer {
 public:
  using Handler = std::function<StatusOr<std::string>(const std::string& method, const std::string& request)>;

  // `address` is "host:port"; port 0 picks one.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(const std::string& address, Handler handler);
  ~GrpcServer();

  const std::string& address() const;  // as bound

 private:
  struct Rep;
  explicit GrpcServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
