// ZookeeperServer: a real, standalone ZooKeeper for tests, on a free loopback port, with its data in a fresh directory.
//
// Needs java and ZooKeeper's jar (Debian package `zookeeper`): where they are missing Start returns NotFound, and tests skip.
//
// Thread safety: one thread; the process dies with the thread that started it.
// Ownership:     the destructor kills the process and removes the directory; it touches nothing it did not start.
// Errors:        NotFound: not installed; Unavailable: it did not come up; the message has the last lines of its log.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "common/base/status.h"

namespace nova {

struct ZookeeperServerOptions {
  int tick_ms = 200;  // session timeouts are between 2 and 300 ticks
};

class ZookeeperServer {
 public:
  static StatusOr<std::unique_ptr<ZookeeperServer>> Start(ZookeeperServerOptions options = {});
  ~ZookeeperServer();
  ZookeeperServer(const ZookeeperServer&) = delete;
  ZookeeperServer& operator=(const ZookeeperServer&) = delete;

  std::string hosts() const { return StrCat("127.0.0.1:", port_); }
  void Pause();      // SIGSTOP
  void Resume();     // SIGCONT
  void Kill();       // SIGKILL
  Status Restart();  // after Kill: the same port, the same data

 private:
  ZookeeperServer(std::string directory, int port) : directory_(std::move(directory)), port_(port) {}
  Status Launch();
  bool Answers() const;

  const std::string directory_;
  const int port_;
  pid_t pid_ = -1;
};

}  // namespace nova
