#include "experiments/peers/store.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace nova {

void Store::MultiGet(std::span<const std::string> keys, std::vector<std::optional<std::string>>* values) {
  values->assign(keys.size(), std::nullopt);
  std::string value;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Get(keys[i], &value)) (*values)[i] = value;
  }
}

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<Engine> EnginesNamed(const std::string& comma_separated, bool modelled_disk) {
  std::vector<Engine> all = NovaEngines(), named;
  for (auto more : {RocksdbEngines(), Rocksdb10Engines(), LeveldbEngines(), LmdbEngines()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (const std::string& name : SplitList(comma_separated)) {
    if (name == "rocksdb-all") {
      for (Engine& e : RocksdbEngines()) {
        if (!modelled_disk || !e.maps_files) named.push_back(std::move(e));
      }
      continue;
    }
    const auto it = std::find_if(all.begin(), all.end(), [&](const Engine& e) { return e.name == name; });
    if (it == all.end()) Fail("there is no engine " + name);
    if (const std::string why = it->absent == nullptr ? "" : it->absent(); !why.empty()) {
      std::fprintf(stderr, "%s is left out: %s\n", name.c_str(), why.c_str());
      continue;
    }
    named.push_back(*it);
  }
  return named;
}

}  // namespace nova
