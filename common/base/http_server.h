// HttpServer: a few pages over HTTP GET: /metrics, a status page. An idle one costs nothing.
//
// Thread safety: pages are made on the server's threads, two at a time.
// Ownership:     what the pages use outlives the server.
// Errors:        Unavailable: the address cannot be bound; InvalidArgument: it is not host:port.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace nova {

struct HttpPage {
  std::string content_type;
  std::function<std::string()> make;
};

class HttpServer {
 public:
  // `address` is "host:port"; port 0 picks one. Pages by path.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address,
                                                     std::map<std::string, HttpPage> pages);
  ~HttpServer();

  const std::string& address() const;  // as bound

 private:
  struct Rep;
  explicit HttpServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
