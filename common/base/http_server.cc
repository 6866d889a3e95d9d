#include "common/base/http_server.h"

#include <httplib.h>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/base/thread.h"

namespace nova {

struct HttpServer::Rep {
  httplib::Server server;
  std::string address;
  std::unique_ptr<Thread> listener;
};

HttpServer::HttpServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                        std::map<std::string, HttpPage> pages) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(StrCat("'", address, "' is not host:port"));
  }
  const std::string host = address.substr(0, colon);
  auto rep = std::make_unique<Rep>();
  httplib::Server& server = rep->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_keep_alive_max_count(1);  // a kept connection would hold one of two threads
  server.set_read_timeout(2);
  server.set_write_timeout(2);
  server.set_payload_max_length(4096);
  // Not the library's default, which shares the port with other processes.
  server.set_socket_options([](socket_t s) {
    const int on = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  for (auto& [path, page] : pages) {
    server.Get(path, [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
      response.set_content(page.make(), page.content_type);
    });
  }
  if (port == 0) {
    port = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port <= 0)
    return absl::UnavailableError(
        StrCat("cannot listen at ", address, ": taken, or not an address of this host"));
  rep->address = StrCat(host, ":", port);
  rep->listener = std::make_unique<Thread>("http.listen.0", [&server] { server.listen_after_bind(); });
  while (!server.is_running()) SleepFor(kMillisecond);  // stop() does nothing before
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(rep)));
}

HttpServer::~HttpServer() {
  rep_->server.stop();
  rep_->listener->Join();
}

const std::string& HttpServer::address() const { return rep_->address; }

}  // namespace nova
