// ProcessCluster: ZooKeeper, coordinators, LTCs and StoCs as processes on loopback, for tests; each can be
// killed and restarted.
//
// Thread safety: one thread; processes die with it.   Ownership: the destructor kills everything and removes
//                the directory.
// Errors: NotFound: ZooKeeper is not installed; else what did not start, with the end of its log.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/process.h"
#include "tests/cluster/zookeeper_server.h"

namespace nova {

struct ProcessClusterOptions {
  int coordinators = 1;
  int ltcs = 2;
  int stocs = 3;
  int ranges = 16;
  int zookeeper_session_ms = 4000;  // of all; 0: what each takes by itself
  Nanos start_ns = 30 * kSecond;    // for a process to say that it is ready
  int zookeeper_servers = 1;
  std::vector<std::string> ltc_flags;  // added to each LTC's command line
  std::vector<std::string> stoc_flags;
  std::vector<std::string> coordinator_flags;
  std::string host = "127.0.0.1";  // where ZooKeeper and the coordinators serve
  // Of single nodes, by name: the last of their flags, and what their command line begins with.
  std::map<std::string, std::vector<std::string>> node_flags;
  std::map<std::string, std::vector<std::string>> launchers;
};

class ProcessCluster {
 public:
  static StatusOr<std::unique_ptr<ProcessCluster>> Start(const ProcessClusterOptions& options);
  ~ProcessCluster();

  std::string coordinators() const;  // "host:port,host:port"
  ZookeeperServer* zookeeper() { return zookeeper_.get(); }
  void Kill(const std::string& name);  // SIGKILL; names are coordinator-0, ltc-0, stoc-0 ...
  void Signal(const std::string& name, int signal);
  // After Kill or Stop; the same data. `failpoints`: its orders (docs/testing.md).
  Status Restart(const std::string& name, const std::string& failpoints = "");
  bool Runs(const std::string& name);
  StatusOr<int> Stop(const std::string& name, Nanos deadline_ns);  // SIGTERM, and its exit code
  std::string LeadingCoordinator();                                // its name; empty: none leads now
  // Of each range as the coordinators have it now: its state and its owner; empty: none of them says.
  struct Holding {
    std::string state, owner;
  };
  std::map<std::string, Holding> Holdings();
  // Of each range that the LTC owns, or of all, the members of its last log group, by name.
  std::vector<std::vector<std::string>> LogMembers(const std::string& ltc = "");
  pid_t pid(const std::string& name) const { return nodes_.at(name)->process->pid(); }
  std::string metrics_address(const std::string& name) const { return nodes_.at(name)->metrics_address; }
  std::string address(const std::string& name) const { return nodes_.at(name)->address; }
  std::vector<std::string> names() const;
  const std::string& directory() const { return directory_; }

  // Flags of a node's next starts (ProcessClusterOptions::node_flags).
  void SetFlags(const std::string& name, std::vector<std::string> flags) {
    options_.node_flags[name] = std::move(flags);
  }

  // Runs the `nova` tool; its exit code, stdout in `output`.
  int Nova(const std::vector<std::string>& arguments, std::string* output, const std::string& input = "");
  // Runs `nova fsck`; its exit code (docs/operations.md), what it says in `output`.
  int Fsck(const std::vector<std::string>& flags, std::string* output);
  Status CreateRanges(int ranges);     // evenly over YCSB's keys
  Status WaitOpen(Nanos deadline_ns);  // every range answers

 private:
  struct Node {
    std::string name;
    std::string address;  // fixed, of coordinators; as bound, of others
    std::string metrics_address;
    std::unique_ptr<Process> process;
  };
  Status Launch(Node* node, const std::string& failpoints = "");

  ProcessClusterOptions options_;
  std::string directory_;
  std::unique_ptr<ZookeeperServer> zookeeper_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

// A page over HTTP GET, without its header; empty on any failure.
std::string HttpGet(const std::string& address, const std::string& path);
// A metric on the page at `address`, summed over its labels; -1: there is none, or no page.
int64_t ReadMetric(const std::string& address, const std::string& metric);
int FreePort();

}  // namespace nova
