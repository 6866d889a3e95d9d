#include "tests/cluster/zookeeper_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/base/clock.h"

namespace nova {
namespace {

constexpr char kJar[] = "/usr/share/java/zookeeper.jar";
constexpr Nanos kStartNs = 60 * kSecond;

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

int FreePort(const std::string& host) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = AddressOf(host, 0);
  socklen_t size = sizeof(address);
  int port = -1;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

std::string TailOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  return text.substr(text.size() - std::min<size_t>(text.size(), 800));
}

}  // namespace

StatusOr<std::unique_ptr<ZookeeperServer>> ZookeeperServer::Start(ZookeeperServerOptions options) {
  if (access(kJar, R_OK) != 0) return absl::NotFoundError(StrCat("ZooKeeper is not installed: no ", kJar));
  if (std::system("command -v java >/dev/null 2>&1") != 0)
    return absl::NotFoundError("java is not installed");
  auto server = StartOnce(options);
  // A port that was free may be taken by the time the server binds it.
  for (int i = 0; i < 3 && absl::IsUnavailable(server.status()); ++i) server = StartOnce(options);
  return server;
}

StatusOr<std::unique_ptr<ZookeeperServer>> ZookeeperServer::StartOnce(const ZookeeperServerOptions& options) {
  std::string directory = (std::filesystem::temp_directory_path() / "nova-zookeeper-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return absl::InternalError("no temporary directory");
  std::unique_ptr<ZookeeperServer> all(new ZookeeperServer(directory, options.host));
  std::string ensemble;
  for (int i = 0; i < options.servers; ++i) {
    all->servers_.push_back({StrCat(directory, "/", i), FreePort(options.host), -1});
    if (options.servers > 1)
      ensemble += StrCat("server.", i, "=", options.host, ":", FreePort(options.host), ":",
                         FreePort(options.host), "\n");
  }
  for (int i = 0; i < options.servers; ++i) {
    const Server& server = all->servers_[static_cast<size_t>(i)];
    std::filesystem::create_directories(server.directory + "/data");
    std::ofstream(server.directory + "/data/myid") << i;
    std::ofstream(server.directory + "/zoo.cfg")
        << "tickTime=" << options.tick_ms << "\ninitLimit=50\nsyncLimit=10\ndataDir=" << server.directory
        << "/data\nclientPort=" << server.port << "\nclientPortAddress=" << options.host
        << "\nmaxClientCnxns=0\nmaxSessionTimeout=" << 300 * options.tick_ms
        << "\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n"
        << ensemble;
  }
  for (Server& server : all->servers_) NOVA_RETURN_IF_ERROR(all->Launch(&server));
  for (Server& server : all->servers_) NOVA_RETURN_IF_ERROR(all->WaitServing(&server));
  return all;
}

ZookeeperServer::~ZookeeperServer() {
  for (size_t i = 0; i < servers_.size(); ++i) Kill(static_cast<int>(i));
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string ZookeeperServer::hosts() const {
  std::string hosts;
  for (const Server& server : servers_) hosts += StrCat(hosts.empty() ? "" : ",", host_, ":", server.port);
  return hosts;
}

Status ZookeeperServer::Launch(Server* server) {
  const std::string config = server->directory + "/zoo.cfg";
  const std::string log = server->directory + "/log";
  // QuorumPeerMain runs a config without an ensemble standalone.
  const char* const argv[] = {"java",
                              "-Xmx192m",
                              "-XX:+UseSerialGC",
                              "-XX:TieredStopAtLevel=1",
                              "-Dzookeeper.fsync.warningthresholdms=10000",
                              "-cp",
                              kJar,
                              "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                              config.c_str(),
                              nullptr};
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  server->pid = fork();
  if (server->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], const_cast<char* const*>(argv));
    _exit(127);
  }
  close(out);
  return server->pid < 0 ? absl::InternalError("fork failed") : OkStatus();
}

Status ZookeeperServer::WaitServing(Server* server) {
  const Nanos until = Now() + kStartNs;
  while (Ask(*server, "srvr").find("Mode:") == std::string::npos) {
    int status = 0;
    const bool ended = waitpid(server->pid, &status, WNOHANG) == server->pid;
    if (ended) server->pid = -1;
    if (ended || Now() > until) {
      return absl::UnavailableError(StrCat("ZooKeeper does not serve: ", TailOf(server->directory + "/log")));
    }
    SleepFor(50 * kMillisecond);
  }
  return OkStatus();
}

std::string ZookeeperServer::Ask(const Server& server, const std::string& word) const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = AddressOf(host_, server.port);
  const timeval timeout{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 &&
      write(fd, word.data(), word.size()) == static_cast<ssize_t>(word.size())) {
    char bytes[1024];
    for (ssize_t n; (n = recv(fd, bytes, sizeof(bytes), 0)) > 0;)
      answer.append(bytes, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

int ZookeeperServer::Leader() const {
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (Ask(servers_[i], "srvr").find("Mode: leader") != std::string::npos) return static_cast<int>(i);
  }
  return -1;
}

int64_t ZookeeperServer::NodeCount() const {
  const std::string said = Ask(servers_.front(), "srvr");
  const std::string name = "Node count: ";
  const size_t at = said.find(name);
  return at == std::string::npos ? -1 : std::atoll(said.c_str() + at + name.size());
}

void ZookeeperServer::Pause(int server) {
  const pid_t pid = servers_.at(static_cast<size_t>(server)).pid;
  if (pid > 0) kill(pid, SIGSTOP);
}
void ZookeeperServer::Resume(int server) {
  const pid_t pid = servers_.at(static_cast<size_t>(server)).pid;
  if (pid > 0) kill(pid, SIGCONT);
}
void ZookeeperServer::Kill(int server) {
  pid_t& pid = servers_.at(static_cast<size_t>(server)).pid;
  if (pid <= 0) return;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  pid = -1;
}
Status ZookeeperServer::Restart(int server) {
  Server* const s = &servers_.at(static_cast<size_t>(server));
  NOVA_RETURN_IF_ERROR(Launch(s));
  return WaitServing(s);
}

}  // namespace nova
