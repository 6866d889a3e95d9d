// Db: the engine in an application's process: one range on a directory of the local disk. No network, no
// ZooKeeper.
//
//   auto db = nova::Db::Open("/data/db");
//   (*db)->Put("key", "value");
//
// In the directory:
//
//   IDENTITY           one line of text: the format, and the epoch, which every opening raises
//   CURRENT            uuid of the manifest
//   manifest-<uuid>    ltc/engine/manifest.h
//   log-<epoch>-<n>    logc/local_log.h
//   <uuid>.sst         a table: data, then metadata
//   LOCK               held by the process that has the database open
//
// It is the same Range as in a cluster. Its request path runs on the calling thread (CallerLane); its log and
// its tables are files.
//
// Thread safety: all methods of Db, from any number of threads; Open and the destructor alone.
// Ownership: keys and values are copied before a call returns. One process has a directory at a time.
// Errors (docs/durability.md says more of each):
//   NotFound            the key has no value
//   InvalidArgument     an empty or too long key, a value over max_value_bytes, a batch over its limits, an
//                       option or a time to live out of range, a range of keys that does not end behind its
//                       beginning; each is named
//   ResourceExhausted   the disk is full: nothing was written, and later calls may succeed
//   Unavailable         another process holds the directory, or the disk failed: nothing was written
//   DataLoss            stored bytes are damaged
//   Unknown             the write is in the log, but syncing it failed
//   Aborted             a write waited for room for 60 s in vain: nothing was written
//   DeadlineExceeded    what the call waits for is not done: Flush, Checkpoint and WaitForBackgroundWork wait
//                       for 600 s, Close without a log and CompareAndSwap, which then wrote nothing, for 60 s
//   FailedPrecondition  the database is closed, or its manifest is another's
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
#include "ltc/embedded/db_iterator.h"
#include "ltc/engine/memory_use.h"
#include "ltc/engine/range_options.h"

namespace nova {

class Snapshot;  // of the engine: ltc/engine/snapshot.h

// What an acknowledged write survives (durability, D).
enum class DbLog {
  // An orderly close. After a crash the database holds the content of its tables: of a batch perhaps a
  // part, and a late write perhaps without an earlier one.
  kNone,
  kPersistent,  // the death of the process; with DbWriteOptions::sync, a loss of power
};

// How a database is opened; sizes that are left open follow from others (Derived).
struct DbOptions {
  bool create_if_missing = true;   // false: NotFound where there is none
  DbLog log = DbLog::kPersistent;  // what writes survive
  // A bound on all memory sizes that follow, and on the engine's own needs (docs/engine.md,
  // "Memory"). None: each has a size of its own.
  std::optional<size_t> memory_limit_bytes;
  std::optional<size_t> memtable_bytes;  // of all memtables; none: half of the limit, or 256 MiB
  // Memory of index and filter of all tables, and of blocks that are not mapped. None: the rest of the limit,
  // or 256 MiB.
  std::optional<size_t> cache_bytes;
  // Reads use mapped files, which is fastest. False: reads go through the cache, and a failing disk is an
  // error instead of the end of the process.
  bool map_tables = true;
  // A thread of its own reads the indexes and filters of all tables, if the cache has room for them; opening
  // waits for that, for 0.15 s at most. Half a second later it reads mapped tables themselves, in order, if
  // the machine and the process's cgroup have room for all of them.
  bool warm_tables = true;
  // Tables that are kept open, which counts against the process's ulimit -n; mappings take none.
  size_t max_open_files = 512;
  int flush_threads = 2;       // of the database
  int compaction_threads = 2;  // the same
  // Sizes of 0 derive from memtable_bytes: memtable_size_bytes is an equal part of it; compaction's
  // level1_bytes is twice of it, level0_max_bytes eight times, table_size_bytes a quarter of a round's.
  RangeOptions range = DefaultRange();
  // Used instead of the directory's own disk: a modelled or faulty one. It outlives the Db.
  Disk* disk = nullptr;

  // The options of the engine's range, for an embedded database.
  static RangeOptions DefaultRange();
  // These options with a value for every size that was left open.
  DbOptions Derived() const;
  // InvalidArgument: an option is out of range; with its name, its value and the bounds.
  Status Check() const;
};

// Of one write, or of a batch.
struct DbWriteOptions {
  bool sync = false;  // acknowledged when the log record is on the disk
};

// Of a get, a multi-get or a scan.
struct DbReadOptions {
  // A snapshot of this Db. InvalidArgument: it is of another opening of the directory, which says nothing
  // about the versions kept since. Null: now.
  std::shared_ptr<const Snapshot> snapshot = nullptr;
};

// The keys in [from, to), ascending or in reverse; an empty `to` is the end.
struct DbScan {
  std::string from = {};
  std::string to = {};
  uint64_t limit = UINT64_MAX;  // entries
  bool reverse = false;
  static DbScan OfPrefix(std::string_view prefix) { return {std::string(prefix), PrefixEnd(prefix)}; }
};

class Db {
 public:
  // Opens the database in `directory`, or makes one (create_if_missing). Recovers the log; takes as long as
  // that.
  static StatusOr<std::unique_ptr<Db>> Open(const std::string& directory, const DbOptions& options = {});
  // Closes, unless Close has, and waits as Close does. An error of that is logged; if the disk failed, it is
  // as after a crash.
  ~Db();

  // An orderly end. From its beginning on writes end with FailedPrecondition. The log is synced; without one,
  // or where a file of it cannot be synced, everything written goes into tables: after Ok nothing that was
  // acknowledged depends on the machine's power. After an error nothing is lost yet: reads go on, and Close
  // may be called again. After Ok every read and write, and every wait, ends with FailedPrecondition; Close,
  // and a call that has nothing to do, is Ok.
  Status Close();

  // The errors of all calls are in the head of this file.
  Status Put(std::string_view key, std::string_view value, const DbWriteOptions& options = {});
  Status Delete(std::string_view key, const DbWriteOptions& options = {});  // also of a key that is not there
  // Deletes every key in [begin, end), as if each were deleted at this moment (range deletion, K7). An empty
  // begin is the first key, an empty end the last. Costs one log record however many keys there are; the
  // space comes back in the background.
  Status DeleteRange(std::string_view begin, std::string_view end, const DbWriteOptions& options = {});
  // Writes all entries or none, for every scan and snapshot (atomicity, K6), and with a log after a crash
  // too. Get may see the entries one after another.
  Status Write(const WriteBatch& batch, const DbWriteOptions& options = {});
  // Writes a value that is gone, as if deleted, `ttl_ms` from now by the wall clock (K7). Rewriting the key
  // replaces its time to live.
  Status PutTtl(std::string_view key, std::string_view value, int64_t ttl_ms,
                const DbWriteOptions& options = {});
  // Writes `desired` (none: deletes the key) if the value is `expected` (none: there is no value). False: the
  // value is another. No write of the key comes between (K6).
  StatusOr<bool> CompareAndSwap(std::string_view key, std::optional<std::string_view> expected,
                                std::optional<std::string_view> desired, const DbWriteOptions& options = {});
  // NotFound: the key has no value.
  Status Get(std::string_view key, std::string* value, const DbReadOptions& options = {});
  // Sets values[i] to the value of keys[i]; none: it has no value. All of one moment (K4).
  Status MultiGet(std::span<const std::string_view> keys, std::vector<std::optional<std::string>>* values,
                  const DbReadOptions& options = {});
  // A snapshot of this moment (K4), readable for as long as the handle is kept; the handle may outlive the
  // Db.
  StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshot();

  // Calls `entry` for the keys of the scan, in order, until it returns false. All of one moment (K4).
  using ScanEntry = std::function<bool(std::string_view key, std::string_view value)>;
  Status Scan(const DbScan& scan, const ScanEntry& entry, const DbReadOptions& options = {});
  Status Scan(std::string_view from, uint64_t limit, const ScanEntry& entry,
              const DbReadOptions& options = {}) {
    return Scan(DbScan{std::string(from), {}, limit}, entry, options);
  }

  // An iterator over the database as it is now, or was at the snapshot; not Valid before its first Seek.
  StatusOr<std::unique_ptr<DbIterator>> NewIterator(const DbIteratorOptions& options = {});

  // Makes `directory` an openable database with this one's content at one moment during the call; every write
  // acknowledged before the call is in it. Writes go on. Tables are hard links where the file system has
  // them, else copies; neither database deletes them for the other. The new one is there, synced, as a whole
  // or not at all. A crash leaves at most `directory`.unfinished, which does not open, and which the next
  // call replaces. AlreadyExists: the directory is there. Unavailable: another call is making it. With bounds
  // it holds the keys in [from, to) only, an empty `to` being the end; the tables at the ends are linked
  // whole.
  Status Checkpoint(const std::string& directory, std::string_view from = {}, std::string_view to = {});

  // Waits until everything written so far is in tables. Here as in Checkpoint and WaitForBackgroundWork, a
  // disk that is full or fails for a while ends the wait with its error; the work is tried again all the same
  // as long as the database is open.
  Status Flush();
  // Waits until nothing is to be flushed or compacted.
  Status WaitForBackgroundWork();
  // Cuts Level0 into at most so many Dranges from the next flush on, until the database is closed: in the
  // place of the option `range.compaction.dranges`. InvalidArgument: not 1 to 1,024.
  Status SetDranges(int dranges);
  RangeStats stats() const;      // counts since it was opened
  MemoryUse memory_use() const;  // bytes now, by purpose

 private:
  struct Rep;
  explicit Db(std::unique_ptr<Rep> rep);
  const std::unique_ptr<Rep> rep_;
};

}  // namespace nova
