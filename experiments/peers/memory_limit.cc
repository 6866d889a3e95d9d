#include "experiments/peers/memory_limit.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "experiments/peers/child.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

Status WriteText(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  if (out) return OkStatus();
  return absl::FailedPreconditionError(StrCat("writing ", text, " to ", file, ": ", std::strerror(errno)));
}

std::string FirstWordOf(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

bool Exists(const std::string& file) { return access(file.c_str(), F_OK) == 0; }

// Where the hierarchy that limits memory is mounted, and the caller's group in it.
struct Hierarchy {
  bool version2 = false;
  std::string mount;  // empty: no control groups are mounted
  std::string group;  // "/", "/a/b"
};

std::string GroupOf(const std::string& controller) {  // empty: version 2
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (names == ",," ? controller.empty()
                      : names.find("," + controller + ",") != std::string::npos && !controller.empty()) {
      return line.substr(second + 1);
    }
  }
  return "";
}

Hierarchy FindHierarchy() {
  std::ifstream in("/proc/mounts");
  Hierarchy found;
  for (std::string device, mount, type, options, rest;
       in >> device >> mount >> type >> options && std::getline(in, rest);) {
    if (type == "cgroup" && ("," + options + ",").find(",memory,") != std::string::npos) {
      return {false, mount, GroupOf("memory")};
    }
    if (type == "cgroup2") found = {true, mount, GroupOf("")};
  }
  return found;
}

class Group : public MemoryLimit {
 public:
  static StatusOr<std::unique_ptr<MemoryLimit>> Make(uint64_t bytes) {
    const Hierarchy hierarchy = FindHierarchy();
    if (hierarchy.mount.empty()) return absl::FailedPreconditionError("no control groups are mounted");
    std::string parent = hierarchy.group == "/" ? "" : hierarchy.group;
    if (hierarchy.version2) parent = parent.substr(0, std::max<size_t>(parent.rfind('/') + 1, 1) - 1);
    const std::string above = hierarchy.mount + parent;
    // A group of version 2 has the controllers that the group above it hands down; writing what is there
    // changes nothing.
    if (hierarchy.version2) NOVA_RETURN_IF_ERROR(WriteText(above + "/cgroup.subtree_control", "+memory"));
    const std::string directory = StrCat(above, "/nova_peers.", getpid());
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
      return absl::FailedPreconditionError(StrCat("making ", directory, ": ", std::strerror(errno)));
    }
    std::unique_ptr<Group> group(new Group(directory, hierarchy.version2));
    NOVA_RETURN_IF_ERROR(group->Limit(bytes));
    return std::unique_ptr<MemoryLimit>(std::move(group));
  }
  ~Group() override { rmdir(directory_.c_str()); }

  std::string Describe() const override { return StrCat("a control group of version ", version2_ ? 2 : 1); }
  void Enter() override {
    const Status s = WriteText(directory_ + "/cgroup.procs", StrCat(getpid()));
    if (!s.ok()) Fail(std::string(s.message()));
  }
  std::optional<uint64_t> PeakBytes() const override {
    const std::string peak =
        FirstWordOf(directory_ + (version2_ ? "/memory.peak" : "/memory.max_usage_in_bytes"));
    if (peak.empty()) return std::nullopt;  // Linux counts it in version 2 since 5.19
    return std::stoull(peak);
  }

 private:
  Group(std::string directory, bool version2) : directory_(std::move(directory)), version2_(version2) {}
  Status Limit(uint64_t bytes) {
    NOVA_RETURN_IF_ERROR(
        WriteText(directory_ + (version2_ ? "/memory.max" : "/memory.limit_in_bytes"), StrCat(bytes)));
    const std::string swap = directory_ + (version2_ ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes");
    return Exists(swap) ? WriteText(swap, version2_ ? "0" : StrCat(bytes)) : OkStatus();
  }

  const std::string directory_;
  const bool version2_;
};

uint64_t AvailableBytes() {
  std::ifstream in("/proc/meminfo");
  uint64_t kilobytes = 0;
  for (std::string word; in >> word;) {
    if (word == "MemAvailable:" && in >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

class LockedMemory : public MemoryLimit {
 public:
  static StatusOr<std::unique_ptr<MemoryLimit>> Make(uint64_t bytes) {
    const uint64_t available = AvailableBytes();
    if (available <= bytes) {
      return absl::FailedPreconditionError(
          StrCat("the machine has no more than ", available >> 20, " MiB of memory to spare"));
    }
    const uint64_t ballast = available - bytes;
    std::string error;
    const pid_t holder = StartHolder([&] { return Lock(ballast); }, &error);
    if (!error.empty())
      return absl::FailedPreconditionError(StrCat("locking ", ballast >> 20, " MiB: ", error));
    return std::unique_ptr<MemoryLimit>(new LockedMemory(holder, ballast));
  }
  ~LockedMemory() override { EndHolder(holder_); }

  std::string Describe() const override {
    return StrCat(ballast_ >> 20, " MiB of the machine's memory locked by another process");
  }
  void Enter() override {}
  std::optional<uint64_t> PeakBytes() const override { return std::nullopt; }

 private:
  LockedMemory(pid_t holder, uint64_t ballast) : holder_(holder), ballast_(ballast) {}
  static std::string Lock(uint64_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED && mlock(memory, bytes) == 0 ? "" : std::strerror(errno);
  }

  const pid_t holder_;
  const uint64_t ballast_;
};

}  // namespace

StatusOr<std::unique_ptr<MemoryLimit>> MemoryLimit::Make(uint64_t bytes, LimitBy by) {
  if (by == LimitBy::kLockedMemory) return LockedMemory::Make(bytes);
  auto group = Group::Make(bytes);
  if (group.ok() || by == LimitBy::kGroup) return group;
  auto locked = LockedMemory::Make(bytes);
  if (locked.ok()) return locked;
  return absl::FailedPreconditionError(StrCat(group.status().message(), "; ", locked.status().message()));
}

}  // namespace nova
