#include "ltc/embedded/db.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "common/base/memory_room.h"
#include "common/base/thread.h"
#include "logc/local_log.h"
#include "ltc/embedded/caller_lane.h"
#include "ltc/embedded/db_calls.h"
#include "ltc/embedded/db_checkpoint.h"
#include "ltc/embedded/db_identity.h"
#include "ltc/embedded/db_pages.h"
#include "ltc/embedded/local_storage.h"
#include "ltc/engine/background.h"
#include "ltc/engine/import.h"

namespace nova {
namespace {

constexpr RangeId kRange(1);
constexpr size_t kLanes = 64;
constexpr size_t kLanesForReads = 16;
constexpr Nanos kWriteDeadline = 60 * kSecond;
constexpr Nanos kWorkDeadline = 600 * kSecond;  // of background work that somebody waits for
constexpr Nanos kEndDeadline = 60 * kSecond;
// Without a write, after which Level0 is merged down, and after which memory goes back to the kernel.
constexpr Nanos kIdlePeriod = kSecond, kTrimPeriod = 10 * kSecond;
// A scan with no higher limit than this is read in one page, for its caller means the limit. Whoever asks for
// more, or for all, may end the scan after one entry.
constexpr uint64_t kMeantLimit = 1000;

std::optional<Status> FailedFor(const Status& why) { return why.ok() ? std::nullopt : std::optional(why); }

// Of those that this process may have.
size_t HalfOfDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<size_t>(files.rlim_cur) / 2;
}

}  // namespace

struct Db::Rep final : RangeHost {
  explicit Rep(const DbOptions& o)
      : options(o.Derived()),
        arenas(*options.memtable_bytes),
        cache(*options.cache_bytes),
        lanes(kLanes, kLanesForReads) {}

  ~Rep() override {
    if (background != nullptr) background->Stop();
    // its tables may still ask for their deletion; what is not deleted now, the next opening finds
    range = nullptr;
  }

  StatusOr<Placement> Place(uint64_t /*table_bytes*/) override { return Placement{}; }
  void WorkDue(RangeId id) override { background->Due(id); }
  void Fenced(RangeId /*range*/, const Status& why) override {
    NOVA_LOG(ERROR) << "the database can no longer be written: " << why;
  }
  void RunReader(std::function<void()> fn) override { fn(); }  // the caller waits anyway

  Status Init(const std::string& directory);
  Status DeleteOrphans();
  void StartWarming();
  void WatchForIdleness();  // the body of idle_thread
  template <typename Start>
  Outcome Run(CallerLanes::For what, const Start& start) {
    return RunOnLane(&lanes, what, start);
  }
  // Until `outcome()` has one.
  template <typename Fn>
  Status WaitFor(std::string_view what, const Fn& outcome) {
    for (const Nanos deadline = Now() + kWorkDeadline; Now() < deadline; SleepFor(kMillisecond)) {
      if (!range->active()) return StatusOf(Outcome::kNotOwner, what);
      if (const std::optional<Status> s = outcome()) return Annotate(*s, what);
    }
    return Annotate(absl::DeadlineExceededError(StrCat("not done in ", kWorkDeadline / kSecond, " s")), what);
  }
  Status End();
  void Stop();
  Status CheckSnapshot(const DbReadOptions& options) const {
    if (options.snapshot == nullptr || range->points().snapshots().Made(*options.snapshot)) return OkStatus();
    return absl::InvalidArgumentError("a snapshot of another database, or of another opening of this one");
  }
  Status CheckValue(std::string_view value) const;
  Status Write(std::span<const WriteEntry> entries, bool sync);
  Status WriteOne(ValueType type, std::string_view key, std::string_view value, bool sync,
                  int64_t ttl_ms = 0);

  const DbOptions options;
  std::unique_ptr<Disk> own_disk;
  Disk* disk = nullptr;
  std::unique_ptr<TableStore> store;
  std::unique_ptr<LocalManifestStorage> manifests;
  ArenaPool arenas;
  BlockCache cache;
  CallerLanes lanes;
  RangeServices services;
  std::shared_ptr<Range> range;  // set before background_ is told of it
  std::unique_ptr<BackgroundWork> background;
  Notification ending;  // ends the two threads
  Notification readers_loaded;
  std::unique_ptr<Thread> warmer;  // null: there is nothing to warm, or no room
  // Has Level0 merged and gives memory of memtables back, where nobody writes.
  std::unique_ptr<Thread> idle_thread;
  Mutex end_mu;
  bool stopped ABSL_GUARDED_BY(end_mu) = false;
};

StatusOr<std::unique_ptr<Db>> Db::Open(const std::string& directory, const DbOptions& options) {
  NOVA_RETURN_IF_ERROR(Annotate(options.Check(), directory));
  auto rep = std::make_unique<Rep>(options);
  NOVA_RETURN_IF_ERROR(Annotate(rep->Init(directory), directory));
  return std::unique_ptr<Db>(new Db(std::move(rep)));
}

Status Db::Rep::Init(const std::string& directory) {
  if (options.disk == nullptr) {
    if (!options.create_if_missing && !std::filesystem::exists(directory))
      return absl::NotFoundError("no such directory");
    NOVA_ASSIGN_OR_RETURN(own_disk, OpenPosixDisk(directory));
  }
  disk = options.disk == nullptr ? own_disk.get() : options.disk;
  NOVA_RETURN_IF_ERROR(disk->Lock("LOCK"));
  RangeSpec spec;
  spec.id = kRange;
  NOVA_ASSIGN_OR_RETURN(const std::optional<Epoch> before, ReadDbIdentity(disk, options.create_if_missing));
  spec.epoch = Epoch(before.value_or(Epoch(0)).value() + 1);
  if (before) NOVA_RETURN_IF_ERROR(InstallDbIdentity(disk, spec.epoch));
  store = NewLocalTableStore(disk, {options.map_tables, options.max_open_files});
  manifests = std::make_unique<LocalManifestStorage>(disk);

  services.store = store.get();
  services.cache = &cache;
  services.arenas = &arenas;
  services.memtable_limit_bytes = *options.memtable_bytes;
  for (const auto& lane : lanes.all()) services.executors.push_back(lane.get());
  services.host = this;
  // Whoever lets go of a table last may be in the middle of a get: unlinking a large file takes long.
  services.garbage = [this](const TableInfo& t) {
    background->RunControl([this, t] { store->DropTable(t, {kRange, Epoch(), 0}); });
  };
  services.one_disk = true;
  background =
      std::make_unique<BackgroundWork>(BackgroundOptions{.flush_threads = options.flush_threads,
                                                         .compaction_threads = options.compaction_threads,
                                                         .rebuild_threads = 0,
                                                         .reader_threads = 0,
                                                         .open_threads = 0,
                                                         .release_threads = 0,
                                                         .change_threads = 0,
                                                         .audit_threads = 0,
                                                         .control_threads = 1},
                                       [this](RangeId) { return range; });

  std::vector<VersionEdit> edits;
  if (before) {
    NOVA_ASSIGN_OR_RETURN(edits, manifests->ReadInstalled());
    if (edits.empty())
      return absl::DataLossError("CURRENT is missing, though IDENTITY says that there is a database");
  }
  NOVA_ASSIGN_OR_RETURN(auto records, ReadLocalLogs(disk, DoneMemTables(edits)));
  NOVA_ASSIGN_OR_RETURN(
      range, Range::Recover(spec, options.range, &services, manifests.get(), edits, std::move(records)));
  NOVA_RETURN_IF_ERROR(manifests->Install(range->versions().manifest_group()));
  // a directory with it alone has lost the rest
  if (!before) NOVA_RETURN_IF_ERROR(InstallDbIdentity(disk, spec.epoch));
  NOVA_RETURN_IF_ERROR(DeleteLocalLogs(disk, spec.epoch));  // free (R6)
  NOVA_RETURN_IF_ERROR(DeleteOrphans());
  LocalLogOptions log;
  log.lanes = lanes.for_writes();
  log.most_open_files = HalfOfDescriptors();
  range->Activate(options.log == DbLog::kNone ? NewNullLog() : NewLocalLog(disk, spec.epoch, log));
  // A round ahead of the writers: a small database never touches memory for all of them.
  arenas.KeepAhead(options.range.memtable_size_bytes * static_cast<size_t>(options.range.active_memtables),
                   [this] { background->RunControl([this] { arenas.Refill(); }); });
  idle_thread = std::make_unique<Thread>("db.idle", [this] { WatchForIdleness(); });
  background->Due(kRange);
  StartWarming();
  return OkStatus();
}

// The first gets of a database whose indexes and filters are not in memory read those, and little else, so
// opening waits for a moment.
void Db::Rep::StartWarming() {
  constexpr uint64_t kMetadataPart = 50;  // of the data, at most, is what indexes and filters take
  constexpr Nanos kLongestWait = 150 * kMillisecond;
  // the disk is theirs; and who opens a database for a moment reads no more than they do
  constexpr Nanos kFirstReads = 500 * kMillisecond;
  const uint64_t bytes = range->stats().bytes, own = *options.memtable_bytes + *options.cache_bytes;
  if (!options.warm_tables || bytes == 0 || bytes / kMetadataPart > *options.cache_bytes) return;
  const uint64_t room = RoomInMemory() / 4 * 3;  // others live here too
  const bool data = options.map_tables && room >= own && room - own >= bytes;
  warmer = std::make_unique<Thread>("db.warmer", [this, data] {
    const auto stop = [this] { return ending.HasBeenNotified(); };
    range->LoadReaders(stop);
    readers_loaded.Notify();
    if (data && !ending.WaitUntil(Now() + kFirstReads)) range->WarmTables(stop);
  });
  readers_loaded.WaitUntil(Now() + kLongestWait);
}

// Collection (N4): files of jobs that did not end, and manifests of older epochs.
void Db::Rep::WatchForIdleness() {
  SequenceNumber last = 0;
  for (Nanos next_trim = Now() + kTrimPeriod; !ending.WaitUntil(Now() + kIdlePeriod);) {
    const SequenceNumber now = range->points().sequences().last();
    if (std::exchange(last, now) == now) range->compactor().BeIdle();
    if (Now() < next_trim) continue;
    arenas.TrimIfIdle();
    next_trim = Now() + kTrimPeriod;
  }
}

Status Db::Rep::DeleteOrphans() {
  std::set<Uuid> live;
  const NamedFiles named = range->versions().ReferencedFiles();
  for (const auto& [file, stocs] : named.files()) live.insert(file.owner);
  NOVA_ASSIGN_OR_RETURN(const auto names, disk->List(""));
  for (const std::string& name : names) {
    Uuid uuid;
    const bool orphan = LocalFileUuid(name, &uuid) && !live.contains(uuid);
    if (orphan || name == kUnfinishedCheckpoint) NOVA_RETURN_IF_ERROR(disk->Delete(name));
  }
  return OkStatus();
}

Db::Db(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

Db::~Db() {
  if (const Status s = rep_->End(); !s.ok()) NOVA_LOG(ERROR) << "close: " << s;
  rep_->Stop();
}

Status Db::Close() {
  NOVA_RETURN_IF_ERROR(rep_->End());
  rep_->Stop();
  return OkStatus();
}

// Makes durable what was acknowledged: by the log, or by tables where there is none, or where one of its
// files cannot be synced. Another sync of that file would prove nothing (bad file, S1), and memory has all
// that is in it.
Status Db::Rep::End() {
  MutexLock lock(&end_mu);
  if (stopped) return OkStatus();
  range->StopWrites();
  Status synced = OkStatus();
  if (options.log != DbLog::kNone) {
    NOVA_RETURN_IF_ERROR(range->AwaitWrites(Now() + kEndDeadline));  // the sync is to cover them
    synced = range->log()->Sync();
    if (synced.ok()) return synced;
  }
  const Status flushed = range->FlushAll(Now() + kEndDeadline, /*give_up=*/true);
  return flushed.ok() || synced.ok() ? flushed : synced;
}

void Db::Rep::Stop() {
  MutexLock lock(&end_mu);
  if (std::exchange(stopped, true)) return;
  ending.Notify();
  warmer = nullptr;
  idle_thread = nullptr;
  range->Abandon();  // a compaction under way gives up
  background->Stop();
  for (const auto& lane : lanes.all()) CallerLane::Hold last(lane.get());  // what is still submitted runs
}

Status Db::Rep::CheckValue(std::string_view value) const {
  if (value.size() <= options.range.max_value_bytes) return OkStatus();
  return absl::InvalidArgumentError(
      StrCat("a value of ", value.size(), " bytes: over max_value_bytes = ", options.range.max_value_bytes));
}

Status Db::Rep::Write(std::span<const WriteEntry> entries, bool sync) {
  const Nanos deadline = Now() + kWriteDeadline;
  for (;;) {
    const Outcome outcome = Run(CallerLanes::For::kWrites, [&](Executor* on, Outcome* out, bool* finished) {
      range->Write(on, {entries, 0, 0, deadline, sync}, [out, finished](Outcome o) {
        *out = o;
        *finished = true;
      });
    });
    if (outcome != Outcome::kBusy || Now() > deadline) return StatusOf(outcome, "write");
    SleepFor(kMillisecond);  // out of sequence window or log memory
  }
}

Status Db::Rep::WriteOne(ValueType type, std::string_view key, std::string_view value, bool sync,
                         int64_t ttl_ms) {
  NOVA_RETURN_IF_ERROR(CheckKey(key));
  NOVA_RETURN_IF_ERROR(CheckValue(value));
  const StoredKey stored(key);
  const WriteEntry entry{type, stored.view(), value, ttl_ms};
  return Write({&entry, 1}, sync);
}

Status Db::Write(const WriteBatch& batch, const DbWriteOptions& options) {
  const RangeOptions& limits = rep_->options.range;
  if (batch.count() == 0) return OkStatus();
  if (batch.count() > limits.max_batch_entries) {
    return absl::InvalidArgumentError(StrCat(
        "a batch of ", batch.count(), " entries: over max_batch_entries = ", limits.max_batch_entries));
  }
  if (batch.bytes() + batch.count() > limits.max_batch_bytes) {
    return absl::InvalidArgumentError(
        StrCat("a batch of ", batch.bytes(), " bytes: over max_batch_bytes = ", limits.max_batch_bytes));
  }
  std::string keys;  // as stored
  keys.reserve(batch.bytes() + 2 * batch.count());
  size_t range_deletes = 0;
  std::vector<WriteEntry> entries;
  entries.reserve(batch.count());
  for (size_t i = 0; i < batch.count(); ++i) {
    const WriteBatch::Entry e = batch.entry(i);
    const auto stored = [&keys](char keyspace, std::string_view key) {
      keys.append(1, keyspace).append(key);
      return std::string_view(keys).substr(keys.size() - key.size() - 1);
    };
    if (e.type == ValueType::kDeleteRange) {
      NOVA_RETURN_IF_ERROR(CheckKeyRange(e.key, e.value));
      const std::string_view begin = stored('\0', e.key);
      entries.push_back({e.type, begin, stored(e.value.empty() ? '\1' : '\0', e.value)});
      if (++range_deletes > limits.round_range_tombstones) {
        return absl::InvalidArgumentError(
            StrCat("a batch with more range deletions than round_range_tombstones = ",
                   limits.round_range_tombstones));
      }
      continue;
    }
    NOVA_RETURN_IF_ERROR(CheckKey(e.key));
    NOVA_RETURN_IF_ERROR(rep_->CheckValue(e.value));
    NOVA_RETURN_IF_ERROR(CheckTtl(e.type, e.ttl_ms));
    entries.push_back({e.type, stored('\0', e.key), e.value, e.ttl_ms});
  }
  return rep_->Write(entries, options.sync);
}

Status Db::Put(std::string_view key, std::string_view value, const DbWriteOptions& options) {
  return rep_->WriteOne(ValueType::kPut, key, value, options.sync);
}

Status Db::Delete(std::string_view key, const DbWriteOptions& options) {
  return rep_->WriteOne(ValueType::kDelete, key, {}, options.sync);
}

Status Db::DeleteRange(std::string_view begin, std::string_view end, const DbWriteOptions& options) {
  NOVA_RETURN_IF_ERROR(CheckKeyRange(begin, end));
  const StoredKey from(begin);
  const std::string to = StoredEnd(end);
  const WriteEntry entry{ValueType::kDeleteRange, from.view(), to};
  return rep_->Write({&entry, 1}, options.sync);
}

Status Db::PutTtl(std::string_view key, std::string_view value, int64_t ttl_ms,
                  const DbWriteOptions& options) {
  NOVA_RETURN_IF_ERROR(CheckTtl(ValueType::kPutTtl, ttl_ms));
  return rep_->WriteOne(ValueType::kPutTtl, key, value, options.sync, ttl_ms);
}

StatusOr<bool> Db::CompareAndSwap(std::string_view key, std::optional<std::string_view> expected,
                                  std::optional<std::string_view> desired, const DbWriteOptions& options) {
  NOVA_RETURN_IF_ERROR(CheckKey(key));
  if (desired) NOVA_RETURN_IF_ERROR(rep_->CheckValue(*desired));
  CompareAndSwapOp op;
  op.key = StoredKey(key).view();
  if (expected) op.expected = *expected;
  if (desired) op.desired = *desired;
  op.deadline_ns = Now() + kWriteDeadline;
  op.sync = options.sync;
  for (;;) {
    const Outcome outcome =
        rep_->Run(CallerLanes::For::kWrites, [&](Executor* on, Outcome* out, bool* finished) {
          rep_->range->CompareAndSwap(on, op, [out, finished](Outcome o) {
            *out = o;
            *finished = true;
          });
        });
    if (outcome == Outcome::kConditionFailed) return false;
    if (outcome == Outcome::kOk) return true;
    if (outcome != Outcome::kBusy || Now() > op.deadline_ns) return StatusOf(outcome, "compare and swap");
    SleepFor(kMillisecond);  // as in Write
  }
}

StatusOr<std::shared_ptr<const Snapshot>> Db::TakeSnapshot() {
  return TakeSnapshotOf(rep_->range.get(), &rep_->lanes);
}

Status Db::MultiGet(std::span<const std::string_view> keys, std::vector<std::optional<std::string>>* values,
                    const DbReadOptions& options) {
  NOVA_RETURN_IF_ERROR(rep_->CheckSnapshot(options));
  std::vector<std::string> stored;
  stored.reserve(keys.size());
  for (const std::string_view key : keys) {
    NOVA_RETURN_IF_ERROR(CheckKey(key));
    stored.emplace_back(StoredKey(key).view());
  }
  std::string failure;
  const Outcome outcome = rep_->Run(CallerLanes::For::kReads, [&](Executor* on, Outcome* out,
                                                                  bool* finished) {
    rep_->range->MultiGet(on, std::move(stored), options.snapshot, kNever,
                          [out, finished, values, &failure](
                              Outcome o, std::vector<std::optional<std::string>> all, std::string_view why) {
                            *values = std::move(all);
                            failure = std::string(why);
                            *out = o;
                            *finished = true;
                          });
  });
  return StatusOf(outcome, "multi-get", failure);
}

Status Db::Get(std::string_view key, std::string* value, const DbReadOptions& options) {
  NOVA_RETURN_IF_ERROR(rep_->CheckSnapshot(options));
  NOVA_RETURN_IF_ERROR(CheckKey(key));
  const StoredKey stored(key);
  struct Answer {
    std::string* value;
    Outcome* outcome;
    bool* finished;
    std::string failure;
  } answer{value, nullptr, nullptr, {}};
  const Outcome outcome =
      rep_->Run(CallerLanes::For::kReads, [&](Executor* on, Outcome* out, bool* finished) {
        answer.outcome = out;
        answer.finished = finished;
        const auto done = [&answer](Outcome o, std::string_view v) {
          (o == Outcome::kOk ? *answer.value : answer.failure).assign(v);
          *answer.outcome = o;
          *answer.finished = true;
        };
        options.snapshot == nullptr ? rep_->range->Get(on, stored.view(), kNever, done)
                                    : rep_->range->GetAt(on, *options.snapshot, stored.view(), kNever, done);
      });
  return StatusOf(outcome, "get", answer.failure);
}

Status Db::Scan(const DbScan& scan, const ScanEntry& entry, const DbReadOptions& options) {
  NOVA_RETURN_IF_ERROR(rep_->CheckSnapshot(options));
  NOVA_RETURN_IF_ERROR(CheckScanBounds(scan.from, scan.to));
  if (scan.limit == 0) return OkStatus();
  const bool meant = scan.limit <= kMeantLimit;
  std::shared_ptr<const Snapshot> snapshot = options.snapshot;
  if (snapshot == nullptr && !meant) {  // one moment for all pages
    NOVA_ASSIGN_OR_RETURN(snapshot, TakeSnapshot());
  }
  DbPages pages(rep_->range.get(), &rep_->lanes, std::move(snapshot),
                meant ? DbPages::For::kOnePage : DbPages::For::kManyPages);
  PagedIterator it(&pages, scan.from, scan.to, DbPages::kPrefixBytes,
                   meant ? static_cast<uint32_t>(scan.limit) : PagedIterator::kFirstPage,
                   meant ? PageRequest::kMaxBytes : PagedIterator::kFirstBytes);
  uint64_t left = scan.limit;
  for (scan.reverse ? it.SeekToLast() : it.SeekToFirst(); it.Valid(); scan.reverse ? it.Prev() : it.Next()) {
    if (!entry(it.key(), it.value()) || --left == 0) return OkStatus();
  }
  return pages.status();
}

StatusOr<std::unique_ptr<DbIterator>> Db::NewIterator(const DbIteratorOptions& options) {
  NOVA_RETURN_IF_ERROR(rep_->CheckSnapshot({options.snapshot}));
  NOVA_RETURN_IF_ERROR(CheckScanBounds(options.lower, options.upper));
  std::shared_ptr<const Snapshot> snapshot = options.snapshot;
  if (snapshot == nullptr) {
    NOVA_ASSIGN_OR_RETURN(snapshot, TakeSnapshot());
  }
  return std::unique_ptr<DbIterator>(new DbIterator(
      std::make_unique<DbIterator::Rep>(rep_->range.get(), &rep_->lanes, std::move(snapshot), options)));
}

Status Db::Flush() {
  const Nanos begin = Now();
  const SequenceNumber upto = rep_->range->BeginFlush();
  return rep_->WaitFor("flush", [&] {
    rep_->range->SealUpTo(upto);
    return rep_->range->FlushedUpTo(upto) ? std::optional(OkStatus())
                                          : FailedFor(rep_->range->pacer().LastingFlushFailure(begin));
  });
}

Status Db::Checkpoint(const std::string& directory, std::string_view from, std::string_view to) {
  NOVA_RETURN_IF_ERROR(CheckKeyRange(from, to));
  const std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  if (name.empty() || name == "." || name == "..")
    return absl::InvalidArgumentError(StrCat("\"", directory, "\" names no new directory"));
  const std::string parent = (path.has_filename() ? path : path.parent_path()).parent_path().string();
  NOVA_ASSIGN_OR_RETURN(const auto target, OpenPosixDisk(parent.empty() ? "." : parent));
  const StatusOr<CheckpointRef> frozen = rep_->range->checkpoints().Freeze(Now() + kWorkDeadline);
  if (!frozen.ok())
    return rep_->range->active() ? frozen.status() : StatusOf(Outcome::kNotOwner, "checkpoint");
  const auto stored = [](std::string_view key) {
    return key.empty() ? std::string() : std::string(1, '\0').append(key);
  };
  NOVA_ASSIGN_OR_RETURN(const VersionEdit cut,
                        CutCheckpoint(**frozen, stored(from), stored(to),
                                      rep_->range->points().published_now_ms(), rep_->store.get()));
  return Annotate(WriteDbCheckpoint(cut, rep_->disk, target.get(), name), directory);
}

Status Db::WaitForBackgroundWork() {
  const Nanos begin = Now();
  rep_->range->compactor().BeIdle();  // once: the first write of another thread ends it
  return rep_->WaitFor("background work", [&] {
    rep_->range->FlushHeld();
    if (rep_->range->stats().rounds == 1 && !rep_->range->NeedsCompaction()) return std::optional(OkStatus());
    rep_->background->Due(kRange);  // a snapshot that was let go made more due, and nobody was told
    const Status why = rep_->range->pacer().LastingFlushFailure(begin);
    return FailedFor(why.ok() ? rep_->range->pacer().LastingCompactionFailure(begin) : why);
  });
}

Status Db::SetDranges(int dranges) {
  CompactionOptions changed = rep_->options.range.compaction;
  changed.dranges = dranges;
  NOVA_RETURN_IF_ERROR(changed.Check());
  if (!rep_->range->active()) return StatusOf(Outcome::kNotOwner, "SetDranges");
  rep_->range->Configure(dranges, rep_->options.range.active_memtables);
  return OkStatus();
}

RangeStats Db::stats() const { return rep_->range->stats(); }
MemoryUse Db::memory_use() const { return MemoryUse::Of(rep_->arenas, rep_->cache); }

}  // namespace nova
