// ZookeeperServer: a real ZooKeeper for tests, standalone or an ensemble, on free loopback ports, its data in
// a fresh directory.
//
// Needs java and ZooKeeper's jar (Debian package `zookeeper`): where they are missing Start returns NotFound,
// and tests skip.
//
// Thread safety: one thread; the processes die with the thread that started them.
// Ownership:     the destructor kills the processes and removes the directory; it touches nothing it did not
//                start.
// Errors:        NotFound: not installed; Unavailable: it did not come up; the message has the last lines of
//                its log.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace nova {

struct ZookeeperServerOptions {
  int tick_ms = 200;  // session timeouts are between 2 and 300 ticks
  int servers = 1;
  std::string host = "127.0.0.1";  // an address of this machine
};

class ZookeeperServer {
 public:
  static StatusOr<std::unique_ptr<ZookeeperServer>> Start(ZookeeperServerOptions options = {});
  ~ZookeeperServer();
  ZookeeperServer(const ZookeeperServer&) = delete;
  ZookeeperServer& operator=(const ZookeeperServer&) = delete;

  std::string hosts() const;
  void Pause(int server = 0);      // SIGSTOP
  void Resume(int server = 0);     // SIGCONT
  void Kill(int server = 0);       // SIGKILL
  Status Restart(int server = 0);  // after Kill: the same port, the same data; waits until it serves
  int Leader() const;              // of an ensemble; -1: none now
  int64_t NodeCount() const;       // of the first server's tree; -1: it does not answer

 private:
  struct Server {
    std::string directory;
    int port = 0;
    pid_t pid = -1;
  };
  ZookeeperServer(std::string directory, std::string host)
      : directory_(std::move(directory)), host_(std::move(host)) {}
  static StatusOr<std::unique_ptr<ZookeeperServer>> StartOnce(const ZookeeperServerOptions& options);
  Status Launch(Server* server);
  Status WaitServing(Server* server);
  std::string Ask(const Server& server, const std::string& word) const;  // of four letters

  const std::string directory_;
  const std::string host_;
  std::vector<Server> servers_;
};

}  // namespace nova
