#include "common/base/memory_room.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace nova {
namespace {

// The number in a file of one; UINT64_MAX: none, or "max".
uint64_t NumberIn(const std::string& path) {
  uint64_t number = 0;
  return std::ifstream(path) >> number ? number : UINT64_MAX;
}

// The sum of the lines "name number" with one of the names.
uint64_t SumOf(const std::string& path, std::initializer_list<std::string_view> names) {
  uint64_t sum = 0, number = 0;
  std::ifstream in(path);
  for (std::string name; in >> name >> number;) {
    if (std::find(names.begin(), names.end(), name) != names.end()) sum += number;
  }
  return sum;
}

uint64_t AvailableInMachine() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "MemAvailable:") return kilobytes << 10;
  }
  return UINT64_MAX;
}

struct CgroupFiles {
  std::string root, limit, used;
  std::initializer_list<std::string_view> file_pages;  // in memory.stat
};

uint64_t RoomInCgroups(const CgroupFiles& files, std::string path) {
  uint64_t room = UINT64_MAX;
  // A container sees its own cgroup as the root of the tree, under a path that is not there.
  for (;; path.resize(path.rfind('/'))) {
    const std::string at = files.root + path + "/";
    const uint64_t limit = NumberIn(at + files.limit), used = NumberIn(at + files.used);
    if (limit != UINT64_MAX && used != UINT64_MAX) {
      const uint64_t taken = used - std::min(used, SumOf(at + "memory.stat", files.file_pages));
      room = std::min(room, limit - std::min(limit, taken));
    }
    if (path.empty() || path.rfind('/') == path.npos) return room;
  }
}

}  // namespace

uint64_t RoomInMemory() {
  uint64_t room = AvailableInMachine();
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:memory:/path" of v1, "0::/path" of v2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      room = std::min(
          room,
          RoomInCgroups({"/sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}},
                        path));
    } else if (controllers == "memory") {
      room = std::min(room, RoomInCgroups({"/sys/fs/cgroup/memory",
                                           "memory.limit_in_bytes",
                                           "memory.usage_in_bytes",
                                           {"total_active_file", "total_inactive_file"}},
                                          path));
    }
  }
  return room;
}

}  // namespace nova
