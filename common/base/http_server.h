// HttpServer: a few pages over HTTP GET: /metrics, a status page. An idle server costs nothing.
//
// Thread safety: pages are made on the server's threads, at most two at a time.
// Ownership: the sources of the pages outlive the server.
// Errors: Unavailable: the address cannot be bound. InvalidArgument: it is not host:port.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace nova {

// A page: its type and the function that makes its body.
struct HttpPage {
  std::string content_type;
  std::function<std::string()> make;
};

class HttpServer {
 public:
  // Serves `pages`, by path ("/metrics"). `address` is "host:port"; port 0 picks one.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                     std::map<std::string, HttpPage> pages);
  ~HttpServer();  // waits for pages that are being made

  const std::string& address() const;  // as bound

 private:
  struct Rep;
  explicit HttpServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
