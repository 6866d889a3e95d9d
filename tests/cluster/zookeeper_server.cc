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

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
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
  if (std::system("command -v java >/dev/null 2>&1") != 0) return absl::NotFoundError("java is not installed");
  std::string directory = (std::filesystem::temp_directory_path() / "nova-zookeeper-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return absl::InternalError("no temporary directory");
  const int port = FreePort();
  std::unique_ptr<ZookeeperServer> server(new ZookeeperServer(directory, port));
  std::ofstream(directory + "/zoo.cfg") << "tickTime=" << options.tick_ms << "\ndataDir=" << directory << "/data\nclientPort="
                                        << port << "\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nmaxSessionTimeout="
                                        << 300 * options.tick_ms << "\nadmin.enableServer=false\n"
                                        << "4lw.commands.whitelist=ruok\n";
  NOVA_RETURN_IF_ERROR(server->Launch());
  return server;
}

ZookeeperServer::~ZookeeperServer() {
  Kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Status ZookeeperServer::Launch() {
  const std::string config = directory_ + "/zoo.cfg";
  const std::string log = directory_ + "/log";
  const char* const argv[] = {"java",           "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.fsync.warningthresholdms=10000",
                              "-cp",            kJar,       "org.apache.zookeeper.server.ZooKeeperServerMain", config.c_str(), nullptr};
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(argv[0], const_cast<char* const*>(argv));
    _exit(127);
  }
  close(out);
  if (pid_ < 0) return absl::InternalError("fork failed");
  const Nanos until = Now() + kStartNs;
  while (!Answers()) {
    int status = 0;
    const bool ended = waitpid(pid_, &status, WNOHANG) == pid_;
    if (ended) pid_ = -1;
    if (ended || Now() > until) return absl::UnavailableError(StrCat("ZooKeeper does not answer: ", TailOf(log)));
    SleepFor(50 * kMillisecond);
  }
  return OkStatus();
}

bool ZookeeperServer::Answers() const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port_);
  const timeval timeout{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  char answer[4] = {};
  const bool ok = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && write(fd, "ruok", 4) == 4 &&
                  recv(fd, answer, sizeof(answer), MSG_WAITALL) == 4 && std::string(answer, 4) == "imok";
  close(fd);
  return ok;
}

void ZookeeperServer::Pause() {
  if (pid_ > 0) kill(pid_, SIGSTOP);
}
void ZookeeperServer::Resume() {
  if (pid_ > 0) kill(pid_, SIGCONT);
}
void ZookeeperServer::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}
Status ZookeeperServer::Restart() { return Launch(); }

}  // namespace nova
