// The descriptors of this process, for tests that count them or take them away.
//
// Thread safety: one thread.
#pragma once

#include <dirent.h>
#include <sys/resource.h>

namespace nova {

// Open ones; the one that counts is among them.
inline int OpenDescriptors() {
  int n = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (directory != nullptr && readdir(directory) != nullptr) ++n;
  if (directory != nullptr) closedir(directory);
  return n;
}

// Numbers from `descriptors` on cannot be had; what is open stays open.
inline void SetDescriptorLimit(rlim_t descriptors) {
  rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = descriptors;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nova
