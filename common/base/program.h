// Program: what every server's main does alike: signals, logging, /metrics and a page for people, the ready
// line, the end.
//
//   Program program(argv[0], "nova_ltc");                          // before any thread
//   program.ServePages(FLAGS_metrics_address);
//   ... make the node ...
//   program.SetPage([&] { return node->StatusText(); });
//   program.Ready(name, address);
//   program.WaitForSignal();
//   program.StopPages();                                           // before what the page shows goes
//
// Thread safety: one thread (main's); pages are made on the page server's.   Errors: one line on stderr, exit
//                code 2.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/http_server.h"
#include "common/base/metrics.h"

namespace nova {

class Program {
 public:
  // Leaves SIGTERM and SIGINT to WaitForSignal, ignores SIGPIPE, sends NOVA_LOG to glog.
  Program(const char* path, std::string title);

  Metrics* metrics() { return &metrics_; }
  // The pages are there before the node is: their address is part of what a node registers.
  void ServePages(const std::string& address);
  const std::string& pages_address() const { return pages_->address(); }
  void SetPage(std::function<std::string()> text);
  void StopPages();

  // "ready NAME ADDRESS PAGES" on stdout, and READY=1 to a service manager ($NOTIFY_SOCKET).
  void Ready(const std::string& name, const std::string& address);
  // True at SIGTERM or SIGINT; false when the deadline passed.
  bool WaitForSignal(Nanos deadline_ns = kNever);

 private:
  std::string Page();

  const std::string title_;
  sigset_t stop_;
  Metrics metrics_;
  Mutex mu_;
  std::function<std::string()> text_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<HttpServer> pages_;
};

}  // namespace nova
