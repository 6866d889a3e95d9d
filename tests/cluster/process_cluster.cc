#include "tests/cluster/process_cluster.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace nova {
namespace {

constexpr char kBin[] = NOVA_BINARY_DIR "/bin/";

std::string Tail(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  const std::string text = s.str();
  return text.size() <= 600 ? text : text.substr(text.size() - 600);
}

}  // namespace

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  int port = 0;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(fd);
  return port;
}

std::string HttpGet(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(address.c_str() + colon + 1)));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const timeval timeout{1, 0};  // of a stopped process
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    const std::string request = StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      std::array<char, 4096> piece;
      for (ssize_t n; (n = read(fd, piece.data(), piece.size())) > 0;)
        answer.append(piece.data(), static_cast<size_t>(n));
    }
  }
  close(fd);
  const size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? "" : answer.substr(body + 4);
}

int64_t ReadMetric(const std::string& address, const std::string& metric) {
  double sum = 0;
  bool found = false;
  for (const auto& line : absl::StrSplit(HttpGet(address, "/metrics"), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    double value;
    if (words.size() != 2 || words[0].substr(0, words[0].find('{')) != metric ||
        !absl::SimpleAtod(words[1], &value))
      continue;
    found = true;
    sum += value;
  }
  return found ? static_cast<int64_t>(sum) : -1;
}

StatusOr<std::unique_ptr<ProcessCluster>> ProcessCluster::Start(const ProcessClusterOptions& options) {
  std::unique_ptr<ProcessCluster> cluster(new ProcessCluster);
  cluster->options_ = options;
  std::string directory = (std::filesystem::temp_directory_path() / "nova-cluster-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return absl::InternalError("no temporary directory");
  cluster->directory_ = directory;
  NOVA_ASSIGN_OR_RETURN(cluster->zookeeper_,
                        ZookeeperServer::Start({.servers = options.zookeeper_servers, .host = options.host}));
  for (int i = 0; i < options.coordinators; ++i) {
    auto node = std::make_unique<Node>();
    node->name = StrCat("coordinator-", i);
    node->address = StrCat(options.host, ":", FreePort());
    cluster->nodes_[node->name] = std::move(node);
  }
  for (const auto& [role, count] : {std::pair{"stoc-", options.stocs}, {"ltc-", options.ltcs}}) {
    for (int i = 0; i < count; ++i) {
      auto node = std::make_unique<Node>();
      node->name = StrCat(role, i);
      cluster->nodes_[node->name] = std::move(node);
    }
  }
  for (const char* role : {"coordinator-", "stoc-", "ltc-"}) {
    for (auto& [name, node] : cluster->nodes_) {
      if (name.starts_with(role)) NOVA_RETURN_IF_ERROR(cluster->Launch(node.get()));
    }
  }
  if (options.ranges > 0) {
    NOVA_RETURN_IF_ERROR(cluster->CreateRanges(options.ranges));
    NOVA_RETURN_IF_ERROR(cluster->WaitOpen(Now() + 60 * kSecond));
  }
  return cluster;
}

ProcessCluster::~ProcessCluster() {
  nodes_.clear();
  zookeeper_ = nullptr;
  std::error_code ignored;
  if (std::getenv("NOVA_KEEP_LOGS") == nullptr) std::filesystem::remove_all(directory_, ignored);
}

Status ProcessCluster::Launch(Node* node, const std::string& failpoints) {
  const std::string log = StrCat(directory_, "/", node->name, ".log");
  std::vector<std::string> argv;
  const auto add = [&argv](const std::vector<std::string>& more) {
    argv.insert(argv.end(), more.begin(), more.end());
  };
  add(options_.launchers[node->name]);
  if (!failpoints.empty()) add({"/usr/bin/env", StrCat("NOVA_FAILPOINTS=", failpoints)});
  const bool coordinator = node->name.starts_with("coordinator-");
  const bool stoc = node->name.starts_with("stoc-");
  argv.push_back(StrCat(kBin, coordinator ? "nova_coordinator" : stoc ? "nova_stoc" : "nova_ltc"));
  add({StrCat("--zookeeper=", zookeeper_->hosts()), StrCat("--name=", node->name)});
  if (options_.zookeeper_session_ms > 0) {
    add({StrCat("--zookeeper_session_ms=", options_.zookeeper_session_ms)});
  }
  if (coordinator) {
    add({StrCat("--address=", node->address)});
    add(options_.coordinator_flags);
  } else {
    add({StrCat("--coordinators=", coordinators())});
    if (stoc) add({StrCat("--data=", directory_, "/", node->name)});
    add(stoc ? options_.stoc_flags : options_.ltc_flags);
  }
  add(options_.node_flags[node->name]);
  NOVA_ASSIGN_OR_RETURN(node->process, Process::Start(argv, log));
  const auto line = node->process->ReadLine(Now() + options_.start_ns);
  const std::vector<std::string> words = line.ok() ? absl::StrSplit(*line, ' ') : std::vector<std::string>{};
  if (words.size() != 4 || words[0] != "ready") {
    return absl::UnavailableError(StrCat(node->name, " did not start: ", Tail(log)));
  }
  node->address = words[2];
  node->metrics_address = words[3];
  return OkStatus();
}

std::string ProcessCluster::coordinators() const {
  std::vector<std::string> all;
  for (const auto& [name, node] : nodes_) {
    if (name.starts_with("coordinator-")) all.push_back(node->address);
  }
  return absl::StrJoin(all, ",");
}

std::vector<std::string> ProcessCluster::names() const {
  std::vector<std::string> all;
  for (const auto& [name, node] : nodes_) all.push_back(name);
  return all;
}

void ProcessCluster::Kill(const std::string& name) { nodes_.at(name)->process->Kill(); }
void ProcessCluster::Signal(const std::string& name, int signal) { nodes_.at(name)->process->Signal(signal); }
bool ProcessCluster::Runs(const std::string& name) { return !nodes_.at(name)->process->Wait(Now()).ok(); }

Status ProcessCluster::Restart(const std::string& name, const std::string& failpoints) {
  return Launch(nodes_.at(name).get(), failpoints);
}

StatusOr<int> ProcessCluster::Stop(const std::string& name, Nanos deadline_ns) {
  Process* const process = nodes_.at(name)->process.get();
  process->Signal(SIGTERM);
  return process->Wait(deadline_ns);
}

std::string ProcessCluster::LeadingCoordinator() {
  for (const auto& [name, node] : nodes_) {
    if (!name.starts_with("coordinator-")) continue;
    if (HttpGet(node->metrics_address, "/metrics").find("nova_coordinator_leading 1\n") != std::string::npos)
      return name;
  }
  return "";
}

int ProcessCluster::Nova(const std::vector<std::string>& arguments, std::string* output,
                         const std::string& input) {
  std::vector<std::string> command = {StrCat(kBin, "nova"), StrCat("--coordinators=", coordinators())};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string in = StrCat(directory_, "/nova.in");
  std::ofstream(in) << input;
  return RunToEnd(command, output, in);
}

int ProcessCluster::Fsck(const std::vector<std::string>& flags, std::string* output) {
  std::vector<std::string> command = {StrCat(kBin, "nova"), "fsck",
                                      StrCat("--zookeeper=", zookeeper_->hosts()), "--fabric=tcp"};
  command.insert(command.end(), flags.begin(), flags.end());
  return RunToEnd(command, output);
}

Status ProcessCluster::CreateRanges(int ranges) {
  std::vector<std::string> command = {"create-ranges"};
  for (int i = 1; i < ranges; ++i) {
    command.push_back(StrCat(
        "user", 1'000'000'000'000'000'000 +
                    static_cast<uint64_t>(i) * (8'200'000'000'000'000'000 / static_cast<uint64_t>(ranges))));
  }
  std::string output;
  if (Nova(command, &output) != 0) return absl::InternalError("create-ranges: " + output);
  return OkStatus();
}

std::map<std::string, ProcessCluster::Holding> ProcessCluster::Holdings() {
  std::string said;
  std::map<std::string, Holding> holdings;
  if (Nova({"status"}, &said) != 0) return holdings;
  bool ranges = false;
  for (const auto& line : absl::StrSplit(said, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) ranges = false;
    if (ranges && words.size() >= 6) holdings[words[0]] = {words[4], words[5]};
    if (!words.empty() && words[0] == "range") ranges = true;
  }
  return holdings;
}

std::vector<std::vector<std::string>> ProcessCluster::LogMembers(const std::string& ltc) {
  std::string said;
  std::vector<std::vector<std::string>> members;
  if (Nova({"status", "--json"}, &said) != 0) return members;
  const nlohmann::json status = nlohmann::json::parse(said, nullptr, false);
  for (const nlohmann::json& range : status.value("ranges", nlohmann::json::array()))
    if (ltc.empty() || range["owner"] == ltc) members.push_back(range["log_members"]);
  return members;
}

Status ProcessCluster::WaitOpen(Nanos deadline_ns) {
  std::string output;
  while (Now() < deadline_ns) {
    // A scan over everything needs each range.
    if (Nova({"--timeout_ms=5000", "scan", "", "1000000"}, &output) == 0) return OkStatus();
    SleepFor(100 * kMillisecond);
  }
  return absl::DeadlineExceededError("the ranges did not open: " + output);
}

}  // namespace nova
