#include "experiments/peers/page_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "common/base/status.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  const int fd_;
};

void ForEachFile(const std::string& directory, const std::function<void(int fd, size_t size)>& visit) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const Descriptor file(entry.path(), O_RDONLY);
    struct stat s;
    if (file < 0 || fstat(file, &s) != 0) Fail(StrCat(entry.path().string(), ": ", std::strerror(errno)));
    visit(file, static_cast<size_t>(s.st_size));
  }
}

}  // namespace

bool IsInMemory(const std::string& directory) {
  struct statfs s;
  if (statfs(directory.c_str(), &s) != 0) Fail(StrCat(directory, ": ", std::strerror(errno)));
  return s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC;
}

std::string DropPageCache(const std::string& directory) {
  const Descriptor root(directory, O_RDONLY | O_DIRECTORY);
  if (root < 0 || syncfs(root) != 0) Fail(StrCat("syncing ", directory, ": ", std::strerror(errno)));
  constexpr const char* kDrop = "/proc/sys/vm/drop_caches";
  const Descriptor drop(kDrop, O_WRONLY);
  if (drop >= 0 && write(drop, "3", 1) == 1) return StrCat("of the machine, by ", kDrop);
  ForEachFile(directory, [](int fd, size_t) {
    if (const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      Fail(StrCat("posix_fadvise: ", std::strerror(error)));
    }
  });
  return StrCat("of the database's files, by posix_fadvise (", kDrop, " is for root)");
}

uint64_t CachedBytes(const std::string& directory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  uint64_t pages = 0;
  ForEachFile(directory, [&](int fd, size_t size) {
    if (size == 0) return;
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) Fail(StrCat("mmap: ", std::strerror(errno)));
    std::vector<unsigned char> resident((size + page - 1) / page);
    if (mincore(mapped, size, resident.data()) != 0) Fail(StrCat("mincore: ", std::strerror(errno)));
    pages += static_cast<uint64_t>(
        std::count_if(resident.begin(), resident.end(), [](unsigned char r) { return r & 1; }));
    munmap(mapped, size);
  });
  return pages * page;
}

}  // namespace nova
