// Db: the engine in an application's process: one range on a directory of the local disk. No network, no
// ZooKeeper.
//
//   auto db = nova::Db::Open("/data/db");
//   (*db)->Put("key", "value");
//
// In the directory: IDENTITY (one line of text: format and epoch, raised by every opening), CURRENT (the
// manifest's uuid), manifest-<uuid>, log-<epoch>-<n> (logc/local_log.h), <uuid>.sst (a table: data, then
// metadata), LOCK.
//
// The same Range as in a cluster: its request path runs on the calling thread (CallerLane), its log and its
// tables are files.
//
// Thread safety: all methods of Db, from any number of threads; Open and the destructor alone.
// Ownership:     keys and values are copied before a call returns. One process per directory.
// Errors:        NotFound; InvalidArgument: an empty or too long key, a value over max_value_bytes, a batch
//                over its limits, an option or a time to live out of range, a range of keys that ends where
//                it begins or before, each named; ResourceExhausted: the disk is full, nothing was written,
//                later calls may succeed; Unavailable: another process holds the directory, or the disk
//                failed, nothing was written; DataLoss: stored bytes are damaged; Unknown: the write was
//                written to the log, but syncing it failed;
//                FailedPrecondition: the database is closed, or its manifest is another's.
//                docs/durability.md: what holds after each.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/disk.h"
#include "common/base/keys.h"
#include "common/base/status.h"
#include "common/base/write_batch.h"
#include "ltc/engine/memory_use.h"
#include "ltc/engine/range_options.h"

namespace nova {

class Snapshot;  // of the engine: ltc/engine/snapshot.h

// What an acknowledged write survives (durability, D).
enum class DbLog {
  // An orderly close. After a crash the database holds what flushes had put into tables by then: of a batch
  // perhaps a part, and a late write perhaps without an earlier one.
  kNone,
  kPersistent,  // the death of the process; with WriteOptions::sync, a loss of power
};

struct DbOptions {
  bool create_if_missing = true;
  DbLog log = DbLog::kPersistent;
  // Of all that follows, and of what the engine needs beside it; docs/engine.md, "Memory". None: each has a
  // size of its own.
  std::optional<size_t> memory_limit_bytes;
  std::optional<size_t> memtable_bytes;  // of all memtables together; none: half of the limit, or 256 MiB
  // of index and filter of all tables, and of blocks that are not mapped; none: the rest, or 256 MiB
  std::optional<size_t> cache_bytes;
  // reads are of mapped files: fastest; false: through the cache, and a failing disk is an error
  bool map_tables = true;
  // A thread of its own reads the indexes and filters of all tables, if the cache has room for them, which
  // opening waits for, for 0.15 s at most; half a second later mapped tables themselves, in order, if the
  // machine, and the cgroup the process is in, have room for all of them.
  bool warm_tables = true;
  // tables that are kept open, which counts against the process' ulimit -n; mappings take none
  size_t max_open_files = 512;
  int flush_threads = 2;
  int compaction_threads = 2;
  RangeOptions range = DefaultRange();  // memtable_size_bytes = 0: what memtable_bytes has for each
  // instead of the directory's own: a modelled or faulty one; outlives the Db
  Disk* disk = nullptr;

  static RangeOptions DefaultRange();
  DbOptions Derived() const;  // with every size that was left open
  // InvalidArgument: an option out of range: its name, its value and what is allowed
  Status Check() const;
};

struct DbWriteOptions {
  bool sync = false;  // acknowledged when the log record is on the disk
};

struct DbReadOptions {
  // Of this Db, or InvalidArgument: one of another opening of the directory says nothing about what was kept
  // since. Null: now.
  std::shared_ptr<const Snapshot> snapshot = nullptr;
};

// What a scan wants: the keys in [from, to), an empty `to` being the end, ascending, or in reverse.
struct DbScan {
  std::string from = {};
  std::string to = {};
  uint64_t limit = UINT64_MAX;  // entries at most
  bool reverse = false;
  static DbScan OfPrefix(std::string_view prefix) { return {std::string(prefix), PrefixEnd(prefix)}; }
};

class Db {
 public:
  static StatusOr<std::unique_ptr<Db>> Open(const std::string& directory, const DbOptions& options = {});
  // Closes, unless Close has; what it says is logged, and where the disk failed the end is not an orderly
  // one.
  ~Db();

  // An orderly end. Writes end with FailedPrecondition from its beginning on. Without a log, all that was
  // written goes into tables; with one, the log is synced: after Ok, nothing that was acknowledged depends on
  // the machine's power. After an error nothing is lost yet: reads go on, and Close may be called again.
  // After Ok every call ends with FailedPrecondition.
  Status Close();

  Status Put(std::string_view key, std::string_view value, const DbWriteOptions& options = {});
  Status Delete(std::string_view key, const DbWriteOptions& options = {});
  // Every key in [begin, end) is gone, as if each were deleted at this moment; no begin: from the first key,
  // no end: to the last (range deletion, K7). Costs one log record however many keys there are; the space
  // comes back in the background.
  Status DeleteRange(std::string_view begin, std::string_view end, const DbWriteOptions& options = {});
  // All of it or nothing, for every scan and snapshot (atomicity, K6), and with a log after a crash too. Get
  // may see its entries one after another.
  Status Write(const WriteBatch& batch, const DbWriteOptions& options = {});
  // The key is gone, as if deleted, `ttl_ms` from now by the wall clock (K7). Rewriting it rewrites that.
  Status PutTtl(std::string_view key, std::string_view value, int64_t ttl_ms,
                const DbWriteOptions& options = {});
  // Writes `desired` (none: a deletion) if the value is `expected` (none: there is no value); false: it is
  // another. No write of the key comes between (K6).
  StatusOr<bool> CompareAndSwap(std::string_view key, std::optional<std::string_view> expected,
                                std::optional<std::string_view> desired, const DbWriteOptions& options = {});
  Status Get(std::string_view key, std::string* value, const DbReadOptions& options = {});
  // values[i] of keys[i], none where there is no such key; all of one moment (K4).
  Status MultiGet(std::span<const std::string_view> keys, std::vector<std::optional<std::string>>* values,
                  const DbReadOptions& options = {});
  // What the database is now, to be read for as long as the handle is kept; may outlive the Db (K4).
  StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshot();

  // Calls `entry` for what is wanted, in order, until it returns false. One moment's view.
  using ScanEntry = std::function<bool(std::string_view key, std::string_view value)>;
  Status Scan(const DbScan& scan, const ScanEntry& entry, const DbReadOptions& options = {});
  Status Scan(std::string_view from, uint64_t limit, const ScanEntry& entry,
              const DbReadOptions& options = {}) {
    return Scan(DbScan{std::string(from), {}, limit}, entry, options);
  }

  // Makes `directory` an openable database that holds what this one held at one moment during the call, with
  // every write that was acknowledged before it; writes go on. Tables are hard links where the file system
  // has them, else copies: neither database deletes them for the other. It is there, synced, as a whole or
  // not at all; what a crash leaves is `directory`.unfinished, which does not open before it is whole, and
  // which the next call replaces. AlreadyExists: the directory is there. Unavailable: another call is making
  // it. With bounds it holds the keys in [from, to) only, an empty `to` being the end; the tables at the ends
  // are linked whole.
  Status Checkpoint(const std::string& directory, std::string_view from = {}, std::string_view to = {});

  // Everything written so far is in tables. As with Checkpoint and WaitForBackgroundWork: a disk that is
  // full, or fails, for longer than a moment ends the wait with its error; the work is tried again all the
  // same, as long as the database is open.
  Status Flush();
  Status WaitForBackgroundWork();  // until nothing needs to be flushed or compacted
  RangeStats stats() const;
  MemoryUse memory_use() const;

 private:
  struct Rep;
  explicit Db(std::unique_ptr<Rep> rep);
  const std::unique_ptr<Rep> rep_;
};

}  // namespace nova
