#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include "common/base/clock.h"
#include "experiments/peers/store.h"

namespace nova {
namespace {

// Files on the modelled disk.
class LimitedSequential : public leveldb::SequentialFile {
 public:
  LimitedSequential(leveldb::SequentialFile* base, std::shared_ptr<DiskBandwidth> disk)
      : base_(base), disk_(std::move(disk)) {}
  leveldb::Status Read(size_t n, leveldb::Slice* result, char* scratch) override {
    disk_->Take(n);
    return base_->Read(n, result, scratch);
  }
  leveldb::Status Skip(uint64_t n) override { return base_->Skip(n); }

 private:
  const std::unique_ptr<leveldb::SequentialFile> base_;
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedRandomAccess : public leveldb::RandomAccessFile {
 public:
  LimitedRandomAccess(leveldb::RandomAccessFile* base, std::shared_ptr<DiskBandwidth> disk)
      : base_(base), disk_(std::move(disk)) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char* scratch) const override {
    disk_->Take(n);
    return base_->Read(offset, n, result, scratch);
  }

 private:
  const std::unique_ptr<leveldb::RandomAccessFile> base_;
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedWritable : public leveldb::WritableFile {
 public:
  LimitedWritable(leveldb::WritableFile* base, std::shared_ptr<DiskBandwidth> disk)
      : base_(base), disk_(std::move(disk)) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    disk_->Take(data.size());
    return base_->Append(data);
  }
  leveldb::Status Close() override { return base_->Close(); }
  leveldb::Status Flush() override { return base_->Flush(); }
  leveldb::Status Sync() override { return base_->Sync(); }

 private:
  const std::unique_ptr<leveldb::WritableFile> base_;
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LimitedEnv : public leveldb::EnvWrapper {
 public:
  explicit LimitedEnv(std::shared_ptr<DiskBandwidth> disk)
      : EnvWrapper(leveldb::Env::Default()), disk_(std::move(disk)) {}
  leveldb::Status NewSequentialFile(const std::string& name, leveldb::SequentialFile** file) override {
    return Wrap<LimitedSequential>(target()->NewSequentialFile(name, file), file);
  }
  leveldb::Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) override {
    return Wrap<LimitedRandomAccess>(target()->NewRandomAccessFile(name, file), file);
  }
  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    return Wrap<LimitedWritable>(target()->NewWritableFile(name, file), file);
  }
  leveldb::Status NewAppendableFile(const std::string& name, leveldb::WritableFile** file) override {
    return Wrap<LimitedWritable>(target()->NewAppendableFile(name, file), file);
  }

 private:
  template <typename Limited, typename File>
  leveldb::Status Wrap(leveldb::Status s, File** file) {
    if (s.ok()) *file = new Limited(*file, disk_);
    return s;
  }
  const std::shared_ptr<DiskBandwidth> disk_;
};

class LeveldbStore : public Store {
 public:
  LeveldbStore(const StoreOptions& o, size_t memtable_bytes)
      : cache_(leveldb::NewLRUCache(o.cache_bytes)),
        filter_(leveldb::NewBloomFilterPolicy(o.filter_bits_per_key)) {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = memtable_bytes;
    options.block_cache = cache_.get();
    options.filter_policy = filter_.get();
    options.compression = leveldb::kNoCompression;
    options.max_file_size = 64 << 20;
    options.max_open_files = 10'000;
    if (o.disk != nullptr) {
      env_ = std::make_unique<LimitedEnv>(o.disk);
      options.env = env_.get();
    }
    leveldb::DB* db = nullptr;
    Check(leveldb::DB::Open(options, o.directory, &db));
    db_.reset(db);
  }
  void SetSync(bool on) override { write_.sync = on; }
  void Put(std::string_view key, std::string_view value) override {
    Check(db_->Put(write_, Slice(key), Slice(value)));
  }
  void Delete(std::string_view key) override { Check(db_->Delete(write_, Slice(key))); }
  // It has none: what is there is deleted key by key, at once.
  void DeleteRange(std::string_view begin, std::string_view end) override {
    leveldb::WriteBatch batch;
    const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator({}));
    for (it->Seek(Slice(begin)); it->Valid() && (end.empty() || it->key().compare(Slice(end)) < 0);
         it->Next())
      batch.Delete(it->key());
    Check(it->status());
    Check(db_->Write(write_, &batch));
  }
  bool Get(std::string_view key, std::string* value) override {
    const leveldb::Status s = db_->Get({}, Slice(key), value);
    if (s.IsNotFound()) return false;
    Check(s);
    return true;
  }
  void Scan(std::string_view from, uint64_t limit,
            const std::function<bool(std::string_view, std::string_view)>& entry) override {
    const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator({}));
    for (it->Seek(Slice(from)); it->Valid() && limit > 0; it->Next(), --limit) {
      if (!entry({it->key().data(), it->key().size()}, {it->value().data(), it->value().size()})) return;
    }
    Check(it->status());
  }
  // LevelDB says nothing of its background work: idle is when its tables have stayed the same for half a
  // second.
  void WaitIdle() override {
    std::string last;
    for (int quiet = 0; quiet < 5; SleepFor(100 * kMillisecond)) {
      std::string now;
      db_->GetProperty("leveldb.sstables", &now);
      quiet = now == last ? quiet + 1 : 0;
      last = std::move(now);
    }
  }

 private:
  static leveldb::Slice Slice(std::string_view s) { return {s.data(), s.size()}; }
  static void Check(const leveldb::Status& s) {
    if (!s.ok()) Fail("leveldb: " + s.ToString());
  }

  std::unique_ptr<leveldb::Env> env_;
  const std::unique_ptr<leveldb::Cache> cache_;
  const std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
  leveldb::WriteOptions write_;
};

}  // namespace

// LevelDB has one memtable that takes writes and one that is flushed, and always a log.
std::vector<Engine> LeveldbEngines() {
  return {
      {"leveldb-small", [](const StoreOptions& o) { return std::make_unique<LeveldbStore>(o, 16 << 20); }},
      {"leveldb-big",
       [](const StoreOptions& o) { return std::make_unique<LeveldbStore>(o, o.memtable_bytes / 2); }},
  };
}

}  // namespace nova
