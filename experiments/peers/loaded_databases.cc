#include <cstdio>
#include <filesystem>

#include "experiments/peers/cell.h"
#include "experiments/peers/child.h"

namespace nova {

LoadedDatabases::~LoadedDatabases() {
  for (const auto& [engine, store] : loaded_) std::filesystem::remove_all(store.directory);
}

const StoreOptions& LoadedDatabases::Of(const Engine& engine) {
  if (const auto it = loaded_.find(engine.name); it != loaded_.end()) return it->second;
  StoreOptions store = store_;
  store.directory += "/" + engine.name;
  std::filesystem::remove_all(store.directory);
  std::filesystem::create_directories(store.directory);
  std::fprintf(stderr, "  %s: loading %llu records\n", engine.name.c_str(),
               static_cast<unsigned long long>(records_.count));
  RunInChild([&] {
    {
      const auto loading = engine.open(store);
      Load(loading.get(), records_);
      loading->WaitIdle();
    }
    engine.open(store)->WaitIdle();  // of what closing it, or reading its log, gave it to do
  });
  return loaded_[engine.name] = store;
}

void LoadedDatabases::Discard(const Engine& engine) {
  const auto it = loaded_.find(engine.name);
  if (it == loaded_.end()) return;
  std::filesystem::remove_all(it->second.directory);
  loaded_.erase(it);
}

}  // namespace nova
