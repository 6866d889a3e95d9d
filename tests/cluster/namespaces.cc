#include "tests/cluster/namespaces.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>

namespace nova {
namespace {

constexpr char kNobody[] = "02:00:00:00:00:fe";  // no link has this address

// Of the super-user, or of a user who is one in a namespace of his own.
bool Unshare(int what) {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(what) == 0) return true;
  if (unshare(what | CLONE_NEWUSER) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
  std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  return true;
}

Status Shell(const std::string& commands) {
  std::string said;
  const int code = RunToEnd({"/bin/sh", "-ec", StrCat("PATH=$PATH:/usr/sbin:/sbin\n", commands)}, &said);
  return code == 0 ? OkStatus() : absl::UnavailableError(StrCat(commands, ": ", said));
}

std::string HereOf(int n) { return StrCat("nova", n, "a"); }
std::string ThereOf(int n) { return StrCat("nova", n, "b"); }

}  // namespace

std::string EnterOwnNetwork() {
  if (!Unshare(CLONE_NEWNET)) return "no namespaces: unshare is not permitted";
  const Status up = Shell("ip link set lo up");
  return up.ok() ? "" : StrCat("no namespaces: ", std::string(up.message()));
}

std::string EnterOwnMounts() {
  if (!Unshare(CLONE_NEWNS) || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return "no mounts: unshare is not permitted";
  return "";
}

StatusOr<std::unique_ptr<OtherNetwork>> OtherNetwork::Make() {
  NOVA_ASSIGN_OR_RETURN(auto holder, Process::Start({"/usr/bin/unshare", "--net", "/bin/sh", "-c",
                                                     "echo made; exec sleep 1000000"}));
  NOVA_RETURN_IF_ERROR(holder->ReadLine(Now() + 10 * kSecond).status());
  std::unique_ptr<OtherNetwork> network(new OtherNetwork(std::move(holder)));
  NOVA_RETURN_IF_ERROR(Shell(network->There() + "ip link set lo up"));
  return network;
}

std::string OtherNetwork::There() const { return StrCat("nsenter --net=/proc/", holder_->pid(), "/ns/net "); }

std::vector<std::string> OtherNetwork::Launcher() const {
  return {"/usr/bin/nsenter", StrCat("--net=/proc/", holder_->pid(), "/ns/net")};
}

Status OtherNetwork::Link(int n) {
  const std::string here = HereOf(n), there = ThereOf(n);
  return Shell(StrCat("ip link add ", here, " type veth peer name ", there, " netns ", holder_->pid(),
                      "\nip addr add 10.9.", n, ".1/24 dev ", here, "\nip link set ", here, " up\n", There(),
                      "ip addr add 10.9.", n, ".2/24 dev ", there, "\n", There(), "ip link set ", there,
                      " up"));
}

// A wrong hardware address: the frame is sent, and the other end takes it for somebody else's.
Status OtherNetwork::CutTowards(int n) {
  return Shell(
      StrCat("ip neigh replace 10.9.", n, ".2 lladdr ", kNobody, " dev ", HereOf(n), " nud permanent"));
}

Status OtherNetwork::CutFrom(int n) {
  return Shell(StrCat(There(), "ip neigh replace 10.9.", n, ".1 lladdr ", kNobody, " dev ", ThereOf(n),
                      " nud permanent"));
}

Status OtherNetwork::Heal(int n) {
  NOVA_RETURN_IF_ERROR(Shell(StrCat("ip neigh flush dev ", HereOf(n), " nud permanent")));
  return Shell(StrCat(There(), "ip neigh flush dev ", ThereOf(n), " nud permanent"));
}

}  // namespace nova
