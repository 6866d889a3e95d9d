// nova_steps: what each step of a put, a get and a scan of the embedded engine costs by itself, and what the
// whole of it costs.
//
//   nova_steps [--benchmark_filter=get/] [--benchmark_repetitions=3] ...   (Google Benchmark's flags)
//
// One thread; values of 1 KB, a memtable and a table of 64 MB each, far larger than the processor's caches,
// keys in random order. A step by itself is not quite what it costs among others: their cache misses overlap.
// "whole" rows count the CPU time of all threads.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/sstable/filter.h"
#include "common/sstable/table_builder.h"
#include "common/sstable/table_reader.h"
#include "logc/local_log.h"
#include "logc/log_record.h"
#include "ltc/embedded/caller_lane.h"
#include "ltc/embedded/db.h"
#include "ltc/engine/block_cache.h"
#include "ltc/engine/memtable.h"
#include "ltc/engine/sequence_tracker.h"

namespace nova {
namespace {

constexpr size_t kKeys = 60'000;  // of a memtable, of the table
constexpr size_t kValueBytes = 1024;
constexpr SequenceNumber kLatest = kMaxSequenceNumber;
const std::string kValue(kValueBytes, 'v');

std::string UserKey(uint64_t n) {
  char key[24];
  std::snprintf(key, sizeof(key), "user%016llu", static_cast<unsigned long long>(n));
  return key;
}
std::string StoredKeyOfNumber(uint64_t n) { return std::string(1, '\0') + UserKey(n); }

// Stored keys 0, 2, 4 ... in random order (odd: 1, 3, 5 ..., which are nowhere).
std::vector<std::string> ShuffledKeys(bool odd = false, size_t count = kKeys) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(StoredKeyOfNumber(2 * i + (odd ? 1 : 0)));
  Random random(1);
  for (size_t i = count - 1; i > 0; --i) std::swap(keys[i], keys[random.Uniform(i + 1)]);
  return keys;
}

class ScratchDirectory {
 public:
  ScratchDirectory() {
    char path[] = "/tmp/nova-steps-XXXXXX";
    NOVA_CHECK(mkdtemp(path) != nullptr) << "no directory can be made under /tmp";
    path_ = path;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// --- put

void Lane(benchmark::State& state) {
  CallerLane lane(0);
  for (auto _ : state) {
    CallerLane::Hold hold(&lane);
    benchmark::DoNotOptimize(lane.IsCurrentThread());
  }
}
BENCHMARK(Lane)->Name("put/lane taken and let go");

void Sequence(benchmark::State& state) {
  SequenceTracker tracker(0);
  for (auto _ : state) tracker.Finish(tracker.Take());
}
BENCHMARK(Sequence)->Name("put/sequence number taken and finished");

// A memtable of recycled memory that is made anew when it has `kKeys` entries; that is not timed.
class Refilled {
 public:
  explicit Refilled(benchmark::State* state) : state_(state) {
    for (int i = 0; i < 2; ++i) Renew();  // touches the memory of both
  }
  // With `linked` the first half of the keys is in the table already.
  void Renew(bool linked = false) {
    table_ = std::make_unique<MemTable>(MemTableId(++id_), &pool_, size_t{64} << 20);
    entries_.clear();
    for (size_t i = 0; i < kKeys; ++i) {
      const std::string& key = keys_[linked ? i % (kKeys / 2) : i];
      entries_.push_back(table_->Prepare(key, i + 1, ValueType::kPut, kValue));
      if (linked && i < kKeys / 2) table_->Link(entries_.back());
    }
  }
  void RenewEmpty() { table_ = std::make_unique<MemTable>(MemTableId(++id_), &pool_, size_t{64} << 20); }
  template <typename Fn>
  void Untimed(Fn fn) {
    state_->PauseTiming();
    fn();
    state_->ResumeTiming();
  }
  MemTable* table() { return table_.get(); }
  const std::vector<std::string>& keys() const { return keys_; }
  const std::vector<MemTable::Entry*>& entries() const { return entries_; }

 private:
  benchmark::State* const state_;
  ArenaPool pool_{size_t{1} << 30};
  const std::vector<std::string> keys_ = ShuffledKeys();
  uint64_t id_ = 0;
  std::unique_ptr<MemTable> table_;
  std::vector<MemTable::Entry*> entries_;
};

void Prepare(benchmark::State& state) {
  Refilled memtable(&state);
  size_t i = kKeys;
  for (auto _ : state) {
    if (i == kKeys) {
      memtable.Untimed([&] { memtable.RenewEmpty(); });
      i = 0;
    }
    benchmark::DoNotOptimize(memtable.table()->Prepare(memtable.keys()[i], i + 1, ValueType::kPut, kValue));
    ++i;
  }
}
BENCHMARK(Prepare)->Name("put/key and value copied into the arena");

void Link(benchmark::State& state, bool update) {
  Refilled memtable(&state);
  const size_t first = update ? kKeys / 2 : 0;
  size_t i = kKeys;
  for (auto _ : state) {
    if (i == kKeys) {
      memtable.Untimed([&] { memtable.Renew(update); });
      i = first;
    }
    memtable.table()->Link(memtable.entries()[i++]);
  }
}
BENCHMARK_CAPTURE(Link, new_key, false)->Name("put/linked, a new key");
BENCHMARK_CAPTURE(Link, update, true)->Name("put/linked, a newer version of a key");

void EncodeRecord(benchmark::State& state) {
  const auto keys = ShuffledKeys();
  std::vector<std::byte> buffer(16 << 20);
  size_t at = 0, i = 0;
  for (auto _ : state) {
    const LogEntry entry{MemTableId(1), ValueType::kPut, keys[i++ % kKeys], kValue};
    LogRecord record;
    record.first_sequence = i;
    record.entries = {&entry, 1};
    const size_t size = LogRecordBytes(record);
    if (at + size > buffer.size()) at = 0;
    EncodeLogRecord({1, 2}, i, {i - 1, i - 1}, record, buffer.data() + at);
    at += size;
  }
}
BENCHMARK(EncodeRecord)->Name("put/log record copied and checksummed");

void AppendToLog(benchmark::State& state, bool sync) {
  const ScratchDirectory directory;
  auto disk = OpenPosixDisk(directory.path());
  NOVA_CHECK(disk.ok());
  const auto log = NewLocalLog(disk->get(), Epoch(1), {});
  CallerLane lane(0);
  const auto keys = ShuffledKeys();
  uint64_t n = 0;
  for (auto _ : state) {
    const LogEntry entry{MemTableId(1), ValueType::kPut, keys[n % kKeys], kValue};
    LogRecord record;
    record.round = 1 + n / kKeys;
    record.first_sequence = ++n;
    record.sync = sync;
    record.entries = {&entry, 1};
    CallerLane::Hold hold(&lane);
    bool done = false;
    NOVA_CHECK(log->Append(&lane, record, [&done](Outcome o) { done = o == Outcome::kOk; }) == Outcome::kOk);
    hold.RunUntil(&done);
    if (n % kKeys == 0) log->DeleteRound(record.round);
  }
}
BENCHMARK_CAPTURE(AppendToLog, written, false)
    ->Name("put/log record written to its file (lane and record included)");
BENCHMARK_CAPTURE(AppendToLog, synced, true)->Name("put/and synced, one thread")->UseRealTime();

// --- get

void Hash(benchmark::State& state) {
  const std::string key = StoredKeyOfNumber(7);
  for (auto _ : state) benchmark::DoNotOptimize(FilterHash(key));
}
BENCHMARK(Hash)->Name("get/key hashed");

void SearchMemTable(benchmark::State& state, bool hit) {
  Refilled memtable(&state);
  for (MemTable::Entry* e : memtable.entries()) memtable.table()->Link(e);
  const auto wanted = ShuffledKeys(!hit);
  size_t i = 0;
  MemTable::Hit found;
  for (auto _ : state) benchmark::DoNotOptimize(memtable.table()->Get(wanted[i++ % kKeys], kLatest, &found));
}
BENCHMARK_CAPTURE(SearchMemTable, hit, true)->Name("get/memtable, a hit");
BENCHMARK_CAPTURE(SearchMemTable, miss, false)->Name("get/memtable, a miss");

// A table of kKeys entries in memory, as if mapped.
struct Table {
  Table() {
    TableBuilder builder({}, Uuid{1, 1});
    for (size_t i = 0; i < kKeys; ++i) {
      std::string key;
      AppendInternalKey(&key, StoredKeyOfNumber(2 * i), i + 1, ValueType::kPut);
      builder.Add(key, kValue);
    }
    TableBuilder::Output output = builder.Finish();
    auto opened = TableReader::Open(output.info, output.metadata, SharedBytes::Of(std::move(output.data)));
    NOVA_CHECK(opened.ok()) << opened.status();
    reader = *std::move(opened);
  }
  std::shared_ptr<const TableReader> reader;
};
const Table& TheTable() {
  static const auto* table = new Table;
  return *table;
}

void Filter(benchmark::State& state) {
  const TableReader& table = *TheTable().reader;
  const auto wanted = ShuffledKeys(true);
  size_t i = 0;
  for (auto _ : state) {
    const std::string& key = wanted[i++ % kKeys];
    benchmark::DoNotOptimize(table.MayContain(key, FilterHash(key)));
  }
}
BENCHMARK(Filter)->Name("get/filter of a table, a miss");

void Index(benchmark::State& state) {
  const TableReader& table = *TheTable().reader;
  const auto wanted = ShuffledKeys();
  size_t i = 0;
  BlockHandle handle;
  for (auto _ : state) benchmark::DoNotOptimize(table.FindBlock(wanted[i++ % kKeys], kLatest, &handle));
}
BENCHMARK(Index)->Name("get/index of a table");

void SearchTable(benchmark::State& state) {
  const TableReader& table = *TheTable().reader;
  const auto wanted = ShuffledKeys();
  TableReader::Hit hit;
  const auto search = [&](const std::string& key) {
    return table.Search(key, FilterHash(key), kLatest, &hit);
  };
  // and each block is checked once
  for (const std::string& key : wanted) NOVA_CHECK(search(key) == TableReader::Found::kFound);
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(search(wanted[i++ % kKeys]));
}
BENCHMARK(SearchTable)->Name("get/mapped table, whole: filter, index, block");

void LookUpCache(benchmark::State& state) {
  constexpr uint64_t kBlocks = 16'384, kBlockBytes = 4096;
  BlockCache cache(size_t{512} << 20);
  for (uint64_t n = 0; n < kBlocks; ++n)
    cache.Insert(Uuid{1, n % 8}, n * kBlockBytes, SharedBytes::Of(std::string(kBlockBytes, 'b')));
  Random random(1);
  for (auto _ : state) {
    const uint64_t n = random.Uniform(kBlocks);
    benchmark::DoNotOptimize(cache.Lookup(Uuid{1, n % 8}, n * kBlockBytes));
  }
}
BENCHMARK(LookUpCache)->Name("get/block cache, a hit");

void CopyValue(benchmark::State& state) {
  const std::string memory(64 << 20, 'm');
  Random random(1);
  std::string value;
  for (auto _ : state) {
    value.assign(memory, random.Uniform((64 << 20) / kValueBytes) * kValueBytes, kValueBytes);
    benchmark::DoNotOptimize(value);
  }
}
BENCHMARK(CopyValue)->Name("get/value of 1 KB copied out of cold memory");

// --- the whole

struct OpenedDb {
  OpenedDb(DbLog log, size_t memtables) {
    DbOptions options;
    options.log = log;
    options.memtable_bytes = memtables;
    options.range.memtable_size_bytes = std::min(memtables / 8, size_t{64} << 20);
    options.range.max_rounds = 8;
    auto opened = Db::Open(directory.path(), options);
    NOVA_CHECK(opened.ok()) << opened.status();
    db = *std::move(opened);
  }
  void Fill() {
    for (size_t i = 0; i < kKeys; ++i) NOVA_CHECK(db->Put(UserKey(2 * i), kValue).ok());
  }
  const ScratchDirectory directory;
  std::unique_ptr<Db> db;
};

void WholePut(benchmark::State& state, DbLog log, bool sync) {
  OpenedDb opened(log, size_t{512} << 20);
  Random random(1);
  for (auto _ : state)
    NOVA_CHECK(opened.db->Put(UserKey(random.Uniform(1'000'000)), kValue, {.sync = sync}).ok());
}
// Long enough that memory is recycled and compactions run.
BENCHMARK_CAPTURE(WholePut, no_log, DbLog::kNone, false)
    ->Name("put/whole, no log, flushes and compactions included")
    ->MeasureProcessCPUTime()
    ->Iterations(3'000'000);
BENCHMARK_CAPTURE(WholePut, log, DbLog::kPersistent, false)
    ->Name("put/whole, log without sync, flushes and compactions included")
    ->MeasureProcessCPUTime()
    ->Iterations(3'000'000);
BENCHMARK_CAPTURE(WholePut, sync, DbLog::kPersistent, true)
    ->Name("put/whole, log with sync, one thread")
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Iterations(20'000);

void WholeGet(benchmark::State& state, bool flushed, bool present) {
  OpenedDb opened(DbLog::kNone, size_t{1} << 30);
  opened.Fill();
  if (flushed) NOVA_CHECK(opened.db->Flush().ok() && opened.db->WaitForBackgroundWork().ok());
  Random random(1);
  std::string value;
  for (auto _ : state)
    benchmark::DoNotOptimize(opened.db->Get(UserKey(2 * random.Uniform(kKeys) + (present ? 0 : 1)), &value));
}
BENCHMARK_CAPTURE(WholeGet, memtable, false, true)->Name("get/whole, from a memtable");
BENCHMARK_CAPTURE(WholeGet, table, true, true)->Name("get/whole, from a mapped table");
BENCHMARK_CAPTURE(WholeGet, missing, true, false)->Name("get/whole, no such key");

void WholeScan(benchmark::State& state) {
  OpenedDb opened(DbLog::kNone, size_t{1} << 30);
  opened.Fill();
  NOVA_CHECK(opened.db->Flush().ok() && opened.db->WaitForBackgroundWork().ok());
  Random random(1);
  uint64_t bytes = 0;
  for (auto _ : state) {
    NOVA_CHECK(opened.db
                   ->Scan(UserKey(2 * random.Uniform(kKeys)), 10,
                          [&bytes](std::string_view, std::string_view value) {
                            bytes += value.size();
                            return true;
                          })
                   .ok());
  }
  benchmark::DoNotOptimize(bytes);
}
BENCHMARK(WholeScan)->Name("scan/whole, 10 entries of a mapped table");

}  // namespace
}  // namespace nova

BENCHMARK_MAIN();
