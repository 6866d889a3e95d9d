#include "client/doctor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/rdma/resolver.h"
#include "common/rdma/verbs/verbs_fabric.h"
#include "common/rdma/verbs/verbs_fence.h"

namespace nova {
namespace {

constexpr int kConnectMs = 2000;
constexpr uint64_t kReserveMb = 64;    // --disk_reserve_mb of nova_stoc
constexpr uint64_t kOpenFiles = 1024;  // twice its --open_files

class Examination {
 public:
  explicit Examination(const DoctorOptions& options) : options_(options) {}
  std::vector<Finding> Run() {
    Rdma();
    Memory();
    ClockIsKept();
    Address();
    Data();
    Others();
    if (!options_.fence_test.empty()) FenceTest();
    return std::move(findings_);
  }

 private:
  // Notes what is well.
  void Good(std::string what) { findings_.push_back({Finding::Level::kGood, std::move(what), ""}); }
  // Notes what is not, and its fix; `error`: a node does not run like this.
  void Bad(bool error, std::string what, std::string fix) {
    findings_.push_back(
        {error ? Finding::Level::kError : Finding::Level::kWarning, std::move(what), std::move(fix)});
  }

  // The devices, their modules, and what each port is like.
  void Rdma() {
    if (options_.fabric == "tcp") return Good("fabric tcp: RDMA is not looked at");
    const bool needed = options_.fabric == "verbs";
    const std::vector<RdmaPort> ports = ListRdmaPorts();
    if (ports.empty()) {
      return Bad(needed, "no RDMA device",
                 "load the driver of the NIC (mlx5_ib, mlx4_ib, irdma; rdma_rxe and `rdma link add` without "
                 "one), or serve over tcp");
    }
    for (const RdmaPort& p : ports) Port(p, needed);
    VerbsFabricOptions o;
    o.device = options_.rdma_device;
    uint16_t number = 0;
    SplitHostPort(options_.address, &o.address, &number);
    o.receive_buffers = 16;  // lockable memory is a finding of its own
    const auto fabric = NewVerbsFabric(o);
    if (fabric.ok()) return Good(StrCat("verbs: ", VerbsFabricText(**fabric)));
    Bad(needed, StrCat("verbs: ", fabric.status().message()), "as said; or --fabric=tcp");
  }

  // `needed`: it is the one that the process will use.
  void Port(const RdmaPort& p, bool needed) {
    const std::string name = StrCat(p.device, ":", p.port);
    const std::string netdev =
        p.gids.empty() || p.gids[0].netdev.empty() ? "its interface" : p.gids[0].netdev;
    if (!p.active) {
      return Bad(needed, StrCat(name, ": link ", p.state, " (", p.link, ")"),
                 p.link == "InfiniBand" ? "check cable and subnet manager: ibstat; opensm on one node"
                                        : StrCat("ip link set ", netdev, " up"));
    }
    Good(StrCat(name, ": ", p.link, " active", p.speed.empty() ? "" : ", ", p.speed, ", MTU ", p.active_mtu,
                " of ", p.max_mtu, ", at most ", p.max_regions, " regions, ", p.max_queue_pairs,
                " queue pairs"));
    if (p.active_mtu < p.max_mtu && p.link == "Ethernet") {
      Bad(false, StrCat(name, ": MTU ", p.active_mtu, ", the device has ", p.max_mtu),
          StrCat("ip link set ", netdev, " mtu ", p.max_mtu == 4096 ? 4200 : p.max_mtu + 100,
                 ", here, on its peers and on the switch: the lower end counts"));
    }
    bool address = false;
    for (const RdmaPort::Gid& g : p.gids) {
      const bool v4 = g.text.find(':') == std::string::npos;
      if (g.type == "RoCEv2" && v4) address = true;
      Good(StrCat(name, ": GID ", g.index, " ", g.text, " ", g.type, g.netdev.empty() ? "" : " on ",
                  g.netdev));
    }
    if (p.link == "Ethernet" && !address) {
      Bad(needed, StrCat(name, ": no RoCEv2 GID with an IPv4 address"),
          StrCat("ip address add ADDRESS/24 dev ", netdev));
    }
  }

  // How much may be locked, for memory that is registered with a device.
  void Memory() {
    if (const std::string problem = MemlockProblem(options_.lock_bytes); !problem.empty()) {
      Bad(options_.fabric == "verbs", problem.substr(0, problem.rfind(": ")),
          problem.substr(problem.rfind(": ") + 2));
    } else {
      Good(StrCat("may lock ", options_.lock_bytes >> 20, " MiB"));
    }
    std::ifstream in("/proc/meminfo");
    uint64_t huge = 0, available = 0;
    for (std::string key, rest; in >> key && std::getline(in, rest);) {
      if (key == "HugePages_Total:") huge = std::strtoull(rest.c_str(), nullptr, 10);
      if (key == "MemAvailable:") available = std::strtoull(rest.c_str(), nullptr, 10) << 10;
    }
    if (huge > 0)
      Bad(false,
          StrCat(huge, " huge pages are reserved: Nova takes none of them, nobody else can use that memory"),
          "sysctl vm.nr_hugepages=0");
    TransparentHugePages();
    if (available < options_.lock_bytes) {
      Bad(false,
          StrCat(available >> 20, " MiB of memory available, ", options_.lock_bytes >> 20,
                 " MiB are to be locked"),
          "a smaller --log_memory_mb and --file_buffer_mb, or another machine");
    }
  }

  // A NIC translates what it is registered page by page, and remembers few: buffers of gigabytes want the
  // large ones.
  void TransparentHugePages() {
    std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string modes;
    if (!std::getline(in, modes)) modes = "not in this kernel";
    if (modes.find("[always]") != std::string::npos)
      return Good("huge pages: transparent ones are given to all");
    const std::string what =
        StrCat("huge pages: transparent ones are ", modes, ": registered memory lies in small pages");
    if (options_.fabric != "verbs") return Good(what);
    Bad(false, what,
        "echo always > /sys/kernel/mm/transparent_hugepage/enabled (the NIC remembers fewer translations "
        "than small pages need)");
  }

  // Leases assume that clocks run at about the same rate, not that they agree; logs are read more easily when
  // they do.
  void ClockIsKept() {
    timex state{};
    const int code = adjtimex(&state);
    if (code < 0 || code == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
      return Bad(false, "the clock is not synchronized",
                 "apt-get install chrony (leases need only its rate; logs and TTLs its time)");
    }
    Good("the clock is synchronized");
  }

  // Whether a process could serve at options_.address.
  void Address() {
    if (options_.address.empty()) return;
    std::string host;
    uint16_t port = 0;
    if (!SplitHostPort(options_.address, &host, &port))
      return Bad(true, StrCat(options_.address, " is not host:port"), "--address=HOST:PORT");
    const auto ip = LookUpHost(host.empty() ? "0.0.0.0" : host);
    if (!ip.ok())
      return Bad(true, std::string(ip.status().message()), "an address of this machine: ip address");
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr = *ip;
    at.sin_port = htons(port);
    if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
      Bad(true, StrCat("cannot serve at ", options_.address, ": ", strerror(errno)),
          errno == EADDRINUSE ? StrCat("another process has it: ss -lntp 'sport = :", port, "'")
                              : "an address of this machine: ip address");
    } else {
      Good(StrCat("may serve at ", options_.address));
    }
    close(fd);
  }

  // Where a StoC is to keep its files, and how many this user may have open.
  void Data() {
    if (options_.data.empty()) return;
    std::error_code unknown;
    const std::filesystem::path asked = std::filesystem::absolute(options_.data, unknown);
    std::filesystem::path there = asked;  // what exists of it
    while (!std::filesystem::exists(there, unknown) && there.has_relative_path()) there = there.parent_path();
    const std::string what = StrCat(there == asked ? "data in " : "data, to be made in ", there.string());
    struct statvfs disk {};
    if (access(there.c_str(), R_OK | W_OK | X_OK) != 0 || statvfs(there.c_str(), &disk) != 0) {
      return Bad(true, StrCat(what, ", as user ", geteuid(), ": ", strerror(errno)),
                 "a directory of the user that the StoC runs as");
    }
    const uint64_t free_mb = disk.f_bavail * disk.f_frsize >> 20;
    if (free_mb < kReserveMb) {
      Bad(true, StrCat(what, ": ", free_mb, " MiB are free, too few for new files"),
          "give it room, or a StoC a smaller --disk_reserve_mb");
    } else {
      Good(StrCat(what, ": ", free_mb, " MiB are free"));
    }
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    // the soft limit is the node's to raise
    if (files.rlim_max >= kOpenFiles) return Good(StrCat("may open ", files.rlim_max, " files"));
    Bad(false, StrCat("may open ", files.rlim_max, " files, connections among them"),
        "ulimit -Hn 1048576, which the units have; or a smaller --open_files");
  }

  // ZooKeeper and coordinators.
  void Others() {
    for (const absl::string_view z : absl::StrSplit(options_.zookeeper, ',', absl::SkipEmpty()))
      Look("ZooKeeper", std::string(z), AskZookeeper);
    for (const std::string& c : options_.coordinators) Look("coordinator", c, [](int) { return Wrong(); });
  }

  // What is wrong with whoever answers, and its fix; empty: nothing.
  struct Wrong {
    std::string what, fix;
  };
  // `ask`: on a connection.
  void Look(const char* what, const std::string& address, Wrong (*ask)(int)) {
    const Nanos begin = Now();
    const StatusOr<int> fd = Reach(address);
    if (!fd.ok()) {
      return Bad(true, StrCat(what, " ", address, ": ", fd.status().message()),
                 "is it running, and does a firewall let this host through?");
    }
    const Nanos took = Now() - begin;
    const Wrong wrong = ask(*fd);
    close(*fd);
    if (wrong.what.empty())
      return Good(StrCat(what, " ", address, " answers (", took / kMicrosecond, " us to connect)"));
    Bad(true, StrCat(what, " ", address, ": ", wrong.what), wrong.fix);
  }

  // By the word `srvr`, which ZooKeeper answers unless it is told not to, and then says so.
  static Wrong AskZookeeper(int fd) {
    constexpr char kWord[] = {'s', 'r', 'v', 'r'};
    std::string said;
    if (send(fd, kWord, sizeof(kWord), MSG_NOSIGNAL) == sizeof(kWord)) {
      char bytes[1024];
      for (pollfd wait{fd, POLLIN, 0}; poll(&wait, 1, kConnectMs) > 0;) {
        const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
        if (n <= 0 || said.size() > sizeof(bytes)) break;
        said.append(bytes, static_cast<size_t>(n));
      }
    }
    if (said.find("not currently serving requests") != said.npos)
      return {"it has no quorum, and serves nobody", "start the other servers of the ensemble"};
    if (said.find("Zookeeper version:") != said.npos || said.find("not in the whitelist") != said.npos)
      return {};
    return {"what listens there is no ZooKeeper", "the address of a ZooKeeper: clientPort of its zoo.cfg"};
  }

  // A connection; the caller closes it.
  static StatusOr<int> Reach(const std::string& address) {
    std::string host;
    uint16_t port = 0;
    if (!SplitHostPort(address, &host, &port)) return absl::InvalidArgumentError("not host:port");
    NOVA_ASSIGN_OR_RETURN(const in_addr ip, LookUpHost(host));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr = ip;
    to.sin_port = htons(port);
    int error = connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd wait{fd, POLLOUT, 0};
      socklen_t size = sizeof(error);
      if (poll(&wait, 1, kConnectMs) == 0) {
        error = ETIMEDOUT;
      } else {
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      }
    }
    if (error == 0) return fd;
    close(fd);
    return absl::UnavailableError(strerror(error));
  }

  // What revokes a writer's rights on the device, here or at the far end.
  void FenceTest() {
    std::string host;
    uint16_t port = 0;
    SplitHostPort(options_.address, &host, &port);
    if (options_.fence_test == "here") {
      const auto results = RunFenceTests(host);
      if (!results.ok())
        return Bad(true, StrCat("fence test: ", results.status().message()), "an RDMA device that is up");
      return FenceFindings(*results, "here");
    }
    const std::string& there = options_.fence_test;
    const auto report = RunFenceTestsAgainst(there, {options_.rdma_device, host});
    if (!report.ok()) {
      const bool connected = report.status().message().find("the WRITE before") != absl::string_view::npos;
      return Bad(
          true, StrCat("fence test against ", there, ": ", report.status().message()),
          connected ? "does the path carry packets of that size (ping -M do -s 4000)? The same MTU on both "
                      "ends and on the switch"
                    : StrCat("on that node: nova --fabric=verbs doctor --address=", there, " --fence_serve"));
    }
    FarMtu(*report);
    FenceFindings(report->results, there);
  }

  // Whether both ends have one MTU.
  void FarMtu(const FenceReport& r) {
    const std::string what =
        StrCat("far end ", options_.fence_test, ": MTU ", r.mtu_there, ", here ", r.mtu_here);
    if (r.mtu_here == r.mtu_there) return Good(StrCat(what, ", and a WRITE of that arrives"));
    Bad(false, StrCat(what, ": connections use the lower"),
        StrCat("ip link set DEVICE mtu ...", r.mtu_there < r.mtu_here ? ", there" : ", here",
               " (see nova doctor on that node)"));
  }

  // A finding for each way to revoke.
  void FenceFindings(const std::vector<FenceResult>& results, const std::string& where) {
    std::string trusted;
    bool by_deregistration = false;
    for (const FenceResult& r : results) {
      const std::string text =
          StrCat("fence test ", where, " ", r.name, ", ", r.what, ": ", r.outcome,
                 r.micros > 0 ? StrCat(" (", static_cast<int64_t>(r.micros), " us)") : "");
      if (r.name == "T2" && r.fences != Fences::kYes) {
        Bad(true, text, "this device does not fence by deregistration: do not run Nova's logs on it");
      } else {
        Good(text);
      }
      by_deregistration |= r.name == "T2" && r.fences == Fences::kYes;
      if (r.fences == Fences::kYes) trusted += (trusted.empty() ? "" : ", ") + r.name;
    }
    if (by_deregistration) Good(StrCat("fence test ", where, ": what fences: ", trusted, "; Nova trusts T2"));
  }

  const DoctorOptions& options_;
  std::vector<Finding> findings_;
};

constexpr Nanos kServePatience = 600 * kSecond;

int ServeFence(const DoctorOptions& options) {
  std::string host;
  uint16_t port = 0;
  Status status = absl::InvalidArgumentError("--fence_serve needs --address=HOST:PORT, of the RDMA device");
  if (SplitHostPort(options.address, &host, &port) && !host.empty()) {
    status =
        ServeFenceTests({options.rdma_device, host}, port, kServePatience, [&](const std::string& device) {
          std::printf(
              "serving one fence test on %s; on the other node: nova --fabric=verbs doctor --address=HERE:0 "
              "--fence_test=%s\n",
              device.c_str(), options.address.c_str());
          std::fflush(stdout);
        });
  }
  if (status.ok()) return 0;
  std::printf("ERROR    fence test: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace

std::vector<Finding> Examine(const DoctorOptions& options) { return Examination(options).Run(); }

int RunDoctor(const DoctorOptions& options) {
  if (options.fence_serve) return ServeFence(options);
  int code = 0;
  for (const Finding& f : Examine(options)) {
    const int level = static_cast<int>(f.level);
    code = std::max(code, level);
    static constexpr const char* kNames[] = {"good   ", "warning", "ERROR  "};
    std::printf("%s  %s\n", kNames[level], f.what.c_str());
    if (!f.fix.empty()) std::printf("         fix: %s\n", f.fix.c_str());
  }
  return code;
}

}  // namespace nova
