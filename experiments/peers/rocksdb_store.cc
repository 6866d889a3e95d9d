#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/table.h>

#include "common/base/clock.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

// Files on the modelled disk.
class LimitedSequential : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  LimitedSequential(std::unique_ptr<rocksdb::FSSequentialFile>&& base, std::shared_ptr<DiskBandwidth> disk)
      : FSSequentialFileOwnerWrapper(std::move(base)), disk_(std::move(disk)) {}
  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* debug) override {
    disk_->Take(n);
    return FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, debug);
  }

 private:
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedRandomAccess : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  LimitedRandomAccess(std::unique_ptr<rocksdb::FSRandomAccessFile>&& base,
                      std::shared_ptr<DiskBandwidth> disk)
      : FSRandomAccessFileOwnerWrapper(std::move(base)), disk_(std::move(disk)) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* debug) const override {
    disk_->Take(n);
    return FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, debug);
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count,
                              const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    for (size_t i = 0; i < count; ++i) disk_->Take(requests[i].len);
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
  }

 private:
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedWritable : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LimitedWritable(std::unique_ptr<rocksdb::FSWritableFile>&& base, std::shared_ptr<DiskBandwidth> disk)
      : FSWritableFileOwnerWrapper(std::move(base)), disk_(std::move(disk)) {}
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
    disk_->Take(data.size());
    return FSWritableFileOwnerWrapper::Append(data, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info,
                           rocksdb::IODebugContext* debug) override {
    disk_->Take(data.size());
    return FSWritableFileOwnerWrapper::Append(data, options, info, debug);
  }

 private:
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit LimitedFileSystem(std::shared_ptr<DiskBandwidth> disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(std::move(disk)) {}
  const char* Name() const override { return "LimitedFileSystem"; }
  rocksdb::IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* debug) override {
    return Wrap<LimitedSequential>(target()->NewSequentialFile(name, options, file, debug), file);
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    return Wrap<LimitedRandomAccess>(target()->NewRandomAccessFile(name, options, file, debug), file);
  }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    return Wrap<LimitedWritable>(target()->NewWritableFile(name, options, file, debug), file);
  }

 private:
  template <typename Limited, typename File>
  rocksdb::IOStatus Wrap(rocksdb::IOStatus s, std::unique_ptr<File>* file) {
    if (s.ok()) *file = std::make_unique<Limited>(std::move(*file), disk_);
    return s;
  }
  const std::shared_ptr<DiskBandwidth> disk_;
};

class RocksdbStore : public Store {
 public:
  RocksdbStore(const StoreOptions& o, rocksdb::Options options, rocksdb::BlockBasedTableOptions table) {
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    table.block_cache = rocksdb::NewLRUCache(o.cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(o.filter_bits_per_key, false));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (o.disk != nullptr) {
      if (options.allow_mmap_reads) Fail("rocksdb-mmap: mapped reads would pass by the modelled disk");
      env_ = rocksdb::NewCompositeEnv(std::make_shared<LimitedFileSystem>(o.disk));
      options.env = env_.get();
    }
    rocksdb::DB* db = nullptr;
    Check(rocksdb::DB::Open(options, o.directory, &db));
    db_.reset(db);
    write_.disableWAL = !o.log;
  }
  void SetSync(bool on) override { write_.sync = on; }
  void Put(std::string_view key, std::string_view value) override { Check(db_->Put(write_, key, value)); }
  void Delete(std::string_view key) override { Check(db_->Delete(write_, key)); }
  void DeleteRange(std::string_view begin, std::string_view end) override {
    const std::string behind_all(4097, '\xff');  // no engine's keys here are as long
    Check(db_->DeleteRange(write_, db_->DefaultColumnFamily(), begin,
                           end.empty() ? std::string_view(behind_all) : end));
  }
  bool Get(std::string_view key, std::string* value) override {
    const rocksdb::Status s = db_->Get(read_, key, value);
    if (s.IsNotFound()) return false;
    Check(s);
    return true;
  }
  void MultiGet(std::span<const std::string> keys, std::vector<std::optional<std::string>>* values) override {
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> found(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    db_->MultiGet(read_, db_->DefaultColumnFamily(), keys.size(), slices.data(), found.data(),
                  statuses.data());
    values->assign(keys.size(), std::nullopt);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsNotFound()) continue;
      Check(statuses[i]);
      (*values)[i] = found[i].ToString();
    }
  }
  void Scan(std::string_view from, uint64_t limit,
            const std::function<bool(std::string_view, std::string_view)>& entry) override {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read_));
    for (it->Seek(from); it->Valid() && limit > 0; it->Next(), --limit) {
      if (!entry(it->key().ToStringView(), it->value().ToStringView())) return;
    }
    Check(it->status());
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
    return db_->GetIntProperty(name, &value) && value > 0;
  }
  static void Check(const rocksdb::Status& s) {
    if (!s.ok()) Fail("rocksdb: " + s.ToString());
  }

  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_;
  rocksdb::ReadOptions read_;
};

// As it comes, but for the sizes that every engine gets.
std::unique_ptr<Store> OpenDefault(const StoreOptions& o) {
  rocksdb::Options options;
  options.write_buffer_size = o.memtable_bytes / 2;
  options.max_write_buffer_number = 2;
  return std::make_unique<RocksdbStore>(o, options, rocksdb::BlockBasedTableOptions());
}

using Apply = void (*)(const StoreOptions&, rocksdb::Options*, rocksdb::BlockBasedTableOptions*);

void Tune(const StoreOptions& o, rocksdb::Options* options, rocksdb::BlockBasedTableOptions* table) {
  options->write_buffer_size = o.memtable_bytes / 8;
  options->max_write_buffer_number = 8;
  options->db_write_buffer_size = o.memtable_bytes;
  options->unordered_write = true;
  options->max_background_jobs = 4;
  options->max_subcompactions = 2;
  options->level0_file_num_compaction_trigger = 8;
  options->level0_slowdown_writes_trigger = 40;
  options->level0_stop_writes_trigger = 60;
  options->max_bytes_for_level_base = 1 << 30;
  options->target_file_size_base = 64 << 20;
  options->memtable_whole_key_filtering = true;
  options->memtable_prefix_bloom_size_ratio = 0.02;
  options->delayed_write_rate = 256 << 20;
  table->data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
}

// What was tried on top of Tune, one change each (docs/performance_history.md).
struct Setting {
  const char* name;
  Apply apply;
};
constexpr Setting kSettings[] = {
    {"rocksdb-tuned", [](auto&, auto*, auto*) {}},
    {"rocksdb-mmap", [](auto&, auto* options, auto*) { options->allow_mmap_reads = true; }},
    {"rocksdb-2-memtables",
     [](auto& o, auto* options, auto*) {
       options->write_buffer_size = o.memtable_bytes / 2;
       options->max_write_buffer_number = 2;
     }},
    {"rocksdb-16-memtables",
     [](auto& o, auto* options, auto*) {
       options->write_buffer_size = o.memtable_bytes / 16;
       options->max_write_buffer_number = 16;
     }},
    {"rocksdb-merged-memtables",
     [](auto&, auto* options, auto*) { options->min_write_buffer_number_to_merge = 4; }},
    {"rocksdb-vector-memtable",
     [](auto&, auto* options, auto*) {
       options->memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
       options->unordered_write = false;
       options->allow_concurrent_memtable_write = false;
     }},
    {"rocksdb-pipelined-write",
     [](auto&, auto* options, auto*) {
       options->unordered_write = false;
       options->enable_pipelined_write = true;
     }},
    {"rocksdb-no-memtable-filter",
     [](auto&, auto* options, auto*) {
       options->memtable_whole_key_filtering = false;
       options->memtable_prefix_bloom_size_ratio = 0;
     }},
    {"rocksdb-level0-4",
     [](auto&, auto* options, auto*) { options->level0_file_num_compaction_trigger = 4; }},
    {"rocksdb-level0-16",
     [](auto&, auto* options, auto*) { options->level0_file_num_compaction_trigger = 16; }},
    {"rocksdb-level0-24",
     [](auto&, auto* options, auto*) { options->level0_file_num_compaction_trigger = 24; }},
    {"rocksdb-level1-512",
     [](auto&, auto* options, auto*) { options->max_bytes_for_level_base = 512 << 20; }},
    {"rocksdb-universal",
     [](auto&, auto* options, auto*) { options->compaction_style = rocksdb::kCompactionStyleUniversal; }},
    {"rocksdb-universal-2-memtables",
     [](auto& o, auto* options, auto*) {
       options->compaction_style = rocksdb::kCompactionStyleUniversal;
       options->write_buffer_size = o.memtable_bytes / 2;
       options->max_write_buffer_number = 2;
     }},
    {"rocksdb-1-compaction",
     [](auto&, auto* options, auto*) {
       options->max_background_jobs = 2;
       options->max_subcompactions = 1;
     }},
    {"rocksdb-8-jobs",
     [](auto&, auto* options, auto*) {
       options->max_background_jobs = 8;
       options->max_subcompactions = 4;
     }},
    {"rocksdb-binary-blocks",
     [](auto&, auto*, auto* table) {
       table->data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinarySearch;
     }},
    {"rocksdb-blocks-16k", [](auto&, auto*, auto* table) { table->block_size = 16 << 10; }},
    {"rocksdb-mmap-level0-16",
     [](auto&, auto* options, auto*) {
       options->allow_mmap_reads = true;
       options->level0_file_num_compaction_trigger = 16;
     }},
};

}  // namespace

std::vector<Engine> RocksdbEngines() {
  std::vector<Engine> engines = {{"rocksdb", OpenDefault}};
  for (const Setting& setting : kSettings) {
    const auto set = [apply = setting.apply](const StoreOptions& o, rocksdb::Options* options,
                                             rocksdb::BlockBasedTableOptions* table) {
      Tune(o, options, table);
      apply(o, options, table);
    };
    const auto open = [set](const StoreOptions& o) {
      rocksdb::Options options;
      rocksdb::BlockBasedTableOptions table;
      set(o, &options, &table);
      return std::make_unique<RocksdbStore>(o, options, table);
    };
    rocksdb::Options options;
    rocksdb::BlockBasedTableOptions table;
    set({}, &options, &table);
    engines.push_back({setting.name, open, options.allow_mmap_reads});
  }
  return engines;
}

}  // namespace nova
