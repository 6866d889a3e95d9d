// The tree as the repository's rules see it: its source files, and their text.
//
// Thread safety: pure functions.   Ownership: copies.   Errors: a file that cannot be read is empty.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tidy {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;    // relative to the source directory
  std::string folder;  // "common/base", "ltc", "tests/ltc"
  std::string text;
};

inline std::string ReadAll(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

inline std::string ReadSource(const std::string& path) { return ReadAll(fs::path(NOVA_SOURCE_DIR) / path); }

inline std::vector<SourceFile> Sources(const std::set<std::string>& extensions = {".h", ".cc"}) {
  std::vector<SourceFile> files;
  const fs::path root = NOVA_SOURCE_DIR;
  for (const char* top :
       {"common", "coordinator", "stoc", "logc", "ltc", "client", "experiments", "tests", "deploy"}) {
    if (!fs::exists(root / top)) continue;
    for (const auto& e : fs::recursive_directory_iterator(root / top)) {
      if (!e.is_regular_file() || !extensions.contains(e.path().extension())) continue;
      const fs::path relative = fs::relative(e.path(), root);
      files.push_back({relative.string(), relative.parent_path().string(), ReadAll(e.path())});
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

// README and docs/, by their paths.
inline std::vector<std::string> Documents() {
  const fs::path root = NOVA_SOURCE_DIR;
  std::vector<std::string> paths = {"README.md", "client/ycsb/README.md"};
  for (const auto& e : fs::directory_iterator(root / "docs")) paths.push_back(fs::relative(e.path(), root));
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline bool StartsWith(const std::string& s, const std::string& prefix) {
  return s.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace tidy
