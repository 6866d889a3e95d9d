// A directory of a test's own under /tmp; gone with the object.
//
// Thread safety: immutable.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/log.h"

namespace nova {

class Directory {
 public:
  Directory() {
    char dir[] = "/tmp/nova-test-XXXXXX";
    NOVA_CHECK(mkdtemp(dir) != nullptr) << "no directory can be made under /tmp";
    path_ = dir;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace nova
