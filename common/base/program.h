// Program: the things that the mains of all servers do alike: signals, logging, /metrics and a page for
// people, the ready line, the end.
//
//   Program program(argv[0], "nova_ltc");                          // before any thread
//   program.ServePages(FLAGS_metrics_address);
//   ... make the node ...
//   program.SetPage([&] { return node->StatusText(); });
//   program.Ready(name, address);
//   program.BeWatched([&] { return node->Responds(); });
//   program.WaitForSignal();
//   program.StopPages();                                           // before the sources of the page go
//
// Thread safety: one thread (main's); pages are made on the page server's, and `is_well` has a thread.
// Errors: one line on stderr, exit code 2.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/http_server.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"

namespace nova {

class Program {
 public:
  // Leaves SIGTERM and SIGINT to WaitForSignal, ignores SIGPIPE, raises the soft limit of open files to the
  // hard one, sends NOVA_LOG to glog. `title`: of the page.
  Program(const char* path, std::string title);
  ~Program();

  Metrics* metrics() { return &metrics_; }
  // Serves /metrics and the page. It comes before the node, which registers the pages' address. An error ends
  // the program.
  void ServePages(const std::string& address);
  const std::string& pages_address() const { return pages_->address(); }  // as bound
  void SetPage(std::function<std::string()> text);                        // the text of the page from now on
  // No page is made, and `is_well` is not asked, after it returns.
  void StopPages();

  // "ready NAME ADDRESS PAGES" on stdout, and READY=1 to a service manager ($NOTIFY_SOCKET).
  void Ready(const std::string& name, const std::string& address);
  // Where the service manager watches this process ($WATCHDOG_USEC): `is_well` is asked three times in that
  // time, and the service manager hears of each time that it says true. So a process that hangs is started
  // again. It may wait, and must touch what hangs if the program does.
  void BeWatched(std::function<bool()> is_well);
  // Waits. True: SIGTERM or SIGINT came; false: the deadline has passed.
  bool WaitForSignal(Nanos deadline_ns = kNever);
  // Waits. True: SIGTERM or SIGINT came; false: `end` was notified.
  bool WaitForSignalOr(const Notification& end);

 private:
  std::string Page();  // the page for people

  const std::string title_;
  sigset_t stop_;  // the signals of WaitForSignal
  Metrics metrics_;
  Mutex mu_;
  std::function<std::string()> text_ ABSL_GUARDED_BY(mu_);  // see SetPage; at first "starting"
  std::unique_ptr<HttpServer> pages_;
  Notification end_watch_;  // ends watch_
  std::unique_ptr<Thread> watch_;
};

}  // namespace nova
