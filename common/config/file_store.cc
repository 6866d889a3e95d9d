#include "common/config/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace nova {
namespace {

Status ErrnoError(std::string_view what, const std::string& path) {
  return absl::InternalError(StrCat(std::string(what), " ", path, ": ", std::strerror(errno)));
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status WriteAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("writing", path);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string out;
  char buffer[64 * 1024];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("reading", path);
    if (n == 0) return out;
    out.append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

StatusOr<std::unique_ptr<FileConfig>> FileConfig::Open(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoError("making", directory);
  const std::string lock = directory + "/LOCK";
  const int lock_fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_fd < 0) return ErrnoError("opening", lock);
  std::unique_ptr<FileConfig> config(new FileConfig(directory, lock_fd));
  if (flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(StrCat(directory, " is in use by another process"));
  }
  ConfigTree tree;
  const std::string path = directory + "/config";
  const File file(path, O_RDONLY);
  if (file.fd() < 0 && errno != ENOENT) return ErrnoError("opening", path);
  if (file.fd() >= 0) {
    NOVA_ASSIGN_OR_RETURN(const std::string data, ReadAll(file.fd(), path));
    StatusOr<ConfigTree> decoded = ConfigTree::Decode(data);
    if (!decoded.ok()) return Annotate(decoded.status(), path);
    tree = *std::move(decoded);
  }
  config->config_ =
      std::make_unique<MemoryConfig>(MemoryConfigOptions{}, std::move(tree),
                                     [c = config.get()](const ConfigTree& next) { return c->Write(next); });
  return config;
}

FileConfig::~FileConfig() {
  config_.reset();
  close(lock_fd_);
}

Status FileConfig::Write(const ConfigTree& tree) const {
  const std::string path = directory_ + "/config";
  const std::string temporary = path + ".tmp";
  {
    const File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.fd() < 0) return ErrnoError("creating", temporary);
    NOVA_RETURN_IF_ERROR(WriteAll(file.fd(), tree.Encode(), temporary));
    if (fsync(file.fd()) != 0) return ErrnoError("syncing", temporary);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoError("renaming", temporary);
  const File dir(directory_, O_RDONLY | O_DIRECTORY);
  if (dir.fd() < 0 || fsync(dir.fd()) != 0) return ErrnoError("syncing", directory_);
  return OkStatus();
}

}  // namespace nova
