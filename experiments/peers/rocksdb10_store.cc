#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "experiments/peers/rocksdb10_api.h"
#include "experiments/peers/store.h"

namespace nova {

std::string Rocksdb10Library() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string root = cache != nullptr ? cache : home != nullptr ? StrCat(home, "/.cache") : ".cache";
  return root + "/nova/librocksdbjni-10.10.1.so";
}

const Rocksdb10Api* LoadRocksdb10(const std::string& library, std::string* error) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (loaded == nullptr) {
    *error = dlerror();
    return nullptr;
  }
  static Rocksdb10Api api;
#define NOVA_ROCKSDB10_FIND(result, name, parameters)                                    \
  api.name##_ = reinterpret_cast<result(*) parameters>(dlsym(loaded, "rocksdb_" #name)); \
  if (api.name##_ == nullptr) {                                                          \
    *error = library + " has no rocksdb_" #name;                                         \
    return nullptr;                                                                      \
  }
  NOVA_ROCKSDB10_FUNCTIONS(NOVA_ROCKSDB10_FIND)
#undef NOVA_ROCKSDB10_FIND
  return &api;
}

namespace {

// The setting that was near the best in every cell: mapped reads, compactions of 16 runs of Level0
// (docs/performance_history.md).
std::string OptionsText(const StoreOptions& o) {
  return StrCat(
      "compression=kNoCompression;write_buffer_size=", o.memtable_bytes / 8,
      ";max_write_buffer_number=8;db_write_buffer_size=", o.memtable_bytes,
      ";unordered_write=true;max_background_jobs=4;max_subcompactions=2;level0_file_num_compaction_trigger="
      "16;"
      "level0_slowdown_writes_trigger=40;level0_stop_writes_trigger=60;max_bytes_for_level_base=1073741824;"
      "target_file_size_base=67108864;memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0."
      "02;"
      "delayed_write_rate=268435456;allow_mmap_reads=true;block_based_table_factory={block_cache={capacity=",
      o.cache_bytes, "};filter_policy=bloomfilter:", o.filter_bits_per_key,
      ":false;data_block_index_type=kDataBlockBinaryAndHash;};");
}

// A text of the library's that says what went wrong: ends the program when there is one.
class Error {
 public:
  explicit Error(const Rocksdb10Api& api) : api_(api) {}
  ~Error() {
    if (text_ == nullptr) return;
    const std::string text = text_;
    api_.free_(text_);
    Fail("rocksdb10: " + text);
  }
  operator char**() { return &text_; }

 private:
  const Rocksdb10Api& api_;
  char* text_ = nullptr;
};

class Rocksdb10Store : public Store {
 public:
  Rocksdb10Store(const Rocksdb10Api& api, const StoreOptions& o)
      : api_(api), write_(api.writeoptions_create_()), read_(api.readoptions_create_()) {
    if (o.disk != nullptr) Fail("rocksdb10: mapped reads would pass by the modelled disk");
    rocksdb_options_t* const base = api_.options_create_();
    rocksdb_options_t* const options = api_.options_create_();
    api_.options_set_create_if_missing_(base, 1);
    api_.get_options_from_string_(base, OptionsText(o).c_str(), options, Error(api_));
    db_ = api_.open_(options, o.directory.c_str(), Error(api_));
    api_.options_destroy_(options);
    api_.options_destroy_(base);
    api_.writeoptions_disable_WAL_(write_, o.log ? 0 : 1);
  }
  ~Rocksdb10Store() override {
    api_.close_(db_);
    api_.readoptions_destroy_(read_);
    api_.writeoptions_destroy_(write_);
  }
  void SetSync(bool on) override { api_.writeoptions_set_sync_(write_, on ? 1 : 0); }
  void Put(std::string_view key, std::string_view value) override {
    api_.put_(db_, write_, key.data(), key.size(), value.data(), value.size(), Error(api_));
  }
  void Delete(std::string_view key) override {
    api_.delete_(db_, write_, key.data(), key.size(), Error(api_));
  }
  void DeleteRange(std::string_view begin, std::string_view end) override {
    const std::string behind_all(4097, '\xff');  // no engine's keys here are as long
    if (end.empty()) end = behind_all;
    api_.delete_range_cf_(db_, write_, api_.get_default_column_family_handle_(db_), begin.data(),
                          begin.size(), end.data(), end.size(), Error(api_));
  }
  bool Get(std::string_view key, std::string* value) override {
    rocksdb_pinnableslice_t* const found = api_.get_pinned_(db_, read_, key.data(), key.size(), Error(api_));
    if (found == nullptr) return false;
    size_t size = 0;
    const char* const data = api_.pinnableslice_value_(found, &size);
    value->assign(data, size);
    api_.pinnableslice_destroy_(found);
    return true;
  }
  void MultiGet(std::span<const std::string> keys, std::vector<std::optional<std::string>>* values) override {
    const size_t n = keys.size();
    std::vector<const char*> data(n);
    std::vector<size_t> sizes(n);
    for (size_t i = 0; i < n; ++i) data[i] = keys[i].data(), sizes[i] = keys[i].size();
    std::vector<rocksdb_pinnableslice_t*> found(n);
    std::vector<char*> errors(n);
    api_.batched_multi_get_cf_(db_, read_, api_.get_default_column_family_handle_(db_), n, data.data(),
                               sizes.data(), found.data(), errors.data(), /*sorted_input=*/0);
    values->assign(n, std::nullopt);
    for (size_t i = 0; i < n; ++i) {
      if (errors[i] != nullptr) Fail(StrCat("rocksdb10: ", errors[i]));
      if (found[i] == nullptr) continue;
      size_t size = 0;
      const char* const value = api_.pinnableslice_value_(found[i], &size);
      (*values)[i].emplace(value, size);
      api_.pinnableslice_destroy_(found[i]);
    }
  }
  void Scan(std::string_view from, uint64_t limit,
            const std::function<bool(std::string_view, std::string_view)>& entry) override {
    rocksdb_iterator_t* const it = api_.create_iterator_(db_, read_);
    for (api_.iter_seek_(it, from.data(), from.size()); limit > 0 && api_.iter_valid_(it);
         api_.iter_next_(it), --limit) {
      size_t key_size = 0, value_size = 0;
      const char* const key = api_.iter_key_(it, &key_size);
      const char* const value = api_.iter_value_(it, &value_size);
      if (!entry({key, key_size}, {value, value_size})) break;
    }
    api_.iter_get_error_(it, Error(api_));
    api_.iter_destroy_(it);
  }
  void WaitIdle() override {
    for (int quiet = 0; quiet < 5; SleepFor(20 * kMillisecond)) {
      const bool busy = Property("rocksdb.mem-table-flush-pending") ||
                        Property("rocksdb.num-running-flushes") || Property("rocksdb.compaction-pending") ||
                        Property("rocksdb.num-running-compactions");
      quiet = busy ? 0 : quiet + 1;
    }
  }

 private:
  bool Property(const char* name) {
    uint64_t value = 0;
    return api_.property_int_(db_, name, &value) == 0 && value > 0;
  }

  const Rocksdb10Api& api_;
  rocksdb_writeoptions_t* const write_;
  rocksdb_readoptions_t* const read_;
  rocksdb_t* db_ = nullptr;
};

std::string Rocksdb10Absent() {
  const std::string library = Rocksdb10Library();
  if (access(library.c_str(), R_OK) == 0) return "";
  return StrCat("there is no ", library, ": deploy/packages.sh --experiments fetches it");
}

std::unique_ptr<Store> OpenRocksdb10(const StoreOptions& o) {
  std::string error;
  const Rocksdb10Api* const api = LoadRocksdb10(Rocksdb10Library(), &error);
  if (api == nullptr) Fail("rocksdb10: " + error);
  return std::make_unique<Rocksdb10Store>(*api, o);
}

}  // namespace

std::vector<Engine> Rocksdb10Engines() {
  return {{"rocksdb10", OpenRocksdb10, /*maps_files=*/true, /*takes_files=*/false, Rocksdb10Absent}};
}

}  // namespace nova
