// The options of an embedded database: what they are unless they are given, and what they may be.
#include <algorithm>

#include "common/base/check_between.h"
#include "ltc/embedded/db.h"
#include "ltc/engine/arena.h"
#include "ltc/engine/lookup_index.h"

namespace nova {
namespace {

constexpr size_t kDefaultPoolBytes = 256 << 20;
constexpr size_t kLeastLimit = 64 << 20;
constexpr size_t kLargestMemtable = size_t{4} << 30;  // of those that derive
constexpr size_t kMost = size_t{1} << 41;

// For what is in no pool: blocks on their way, what compactions read ahead and write, log records being
// written.
size_t WorkBytes(size_t limit) { return limit / 16; }

// Of one round.
size_t RoundBytes(const DbOptions& o) {
  const size_t index = o.range.lookup_index ? LookupIndex::BytesFor(*o.memtable_bytes) : 0;
  return (*o.memtable_bytes - std::min(index, *o.memtable_bytes)) /
         static_cast<size_t>(std::max(1, o.range.max_rounds));
}

// Of a memtable that is full: its hash table, and the ends of chunks.
size_t MemTableOverhead(const DbOptions& o) {
  return o.range.memtable_size_bytes / 64 + 2 * ArenaPool::kChunkBytes;
}

// Level0 is of about as many bytes as the memtables, since a flush writes a run, and Level1 of twice as many:
// a job of all of Level0 writes less than three bytes for each. Where flushes outrun compactions one job
// takes down as much as eight times the memtables, and writes Level1 once for all of it. Tables of a quarter
// of a round, so that a job of a deeper level, of about eleven, ends soon. Level0 may have many runs: where
// reads suffer from them it is merged before (level0_toll.h).
void DeriveLevels(DbOptions* o) {
  constexpr uint64_t kLeastLevel1 = 64 << 20, kMostBytes = uint64_t{1} << 50;
  constexpr uint64_t kLeastTable = 4 << 20, kLargestTable = 64 << 20;
  CompactionOptions& c = o->range.compaction;
  if (c.level1_bytes == 0) c.level1_bytes = std::max<uint64_t>(2 * *o->memtable_bytes, kLeastLevel1);
  if (c.level0_max_bytes == 0) c.level0_max_bytes = std::min(4 * c.level1_bytes, kMostBytes);
  if (c.table_size_bytes == 0)
    c.table_size_bytes = std::clamp<uint64_t>(RoundBytes(*o) / 4, kLeastTable, kLargestTable);
}

}  // namespace

RangeOptions DbOptions::DefaultRange() {
  RangeOptions range;
  range.memtable_size_bytes = 0;
  range.active_memtables = 1;
  range.max_rounds = 8;
  range.log_share = 2;
  range.level0_slow_runs = 40;
  range.level0_stop_runs = 60;
  range.compaction.level0_runs_trigger = 16;
  range.compaction.level0_share = 1;
  range.compaction.level0_max_bytes = 0;
  range.compaction.level1_bytes = 0;
  range.compaction.table_size_bytes = 0;
  return range;
}

DbOptions DbOptions::Derived() const {
  DbOptions o = *this;
  if (!o.memtable_bytes) o.memtable_bytes = memory_limit_bytes ? *memory_limit_bytes / 2 : kDefaultPoolBytes;
  if (!o.cache_bytes) {
    const size_t taken = memory_limit_bytes ? *o.memtable_bytes + WorkBytes(*memory_limit_bytes) : 0;
    o.cache_bytes = !memory_limit_bytes           ? kDefaultPoolBytes
                    : *memory_limit_bytes > taken ? *memory_limit_bytes - taken
                                                  : 0;
  }
  const auto siblings = static_cast<size_t>(std::max(1, range.active_memtables));
  if (memory_limit_bytes) {
    // A round is full when a write finds it so: what a write adds beyond that, and the end of the chunk it
    // came to, have to fit.
    const size_t last_write = RoundBytes(o) / 4;
    o.range.max_batch_bytes = std::min<uint64_t>(range.max_batch_bytes, last_write);
    o.range.max_value_bytes = static_cast<uint32_t>(std::min<size_t>(range.max_value_bytes, last_write));
    const size_t each = (RoundBytes(o) - last_write) / siblings;
    if (o.range.memtable_size_bytes == 0)
      o.range.memtable_size_bytes = each - std::min(each, ArenaPool::kChunkBytes);
  } else if (o.range.memtable_size_bytes == 0) {
    o.range.memtable_size_bytes = RoundBytes(o) / siblings;
    o.range.memtable_size_bytes -= std::min(o.range.memtable_size_bytes / 4, MemTableOverhead(o));
  }
  o.range.memtable_size_bytes =
      std::min(o.range.memtable_size_bytes, range.memtable_size_bytes != 0 ? SIZE_MAX : kLargestMemtable);
  DeriveLevels(&o);
  return o;
}

Status DbOptions::Check() const {
  const DbOptions o = Derived();
  NOVA_RETURN_IF_ERROR(CheckBetween("log", static_cast<int>(log), 0, static_cast<int>(DbLog::kPersistent)));
  if (memory_limit_bytes)
    NOVA_RETURN_IF_ERROR(CheckBetween("memory_limit_bytes", *memory_limit_bytes, kLeastLimit, kMost));
  NOVA_RETURN_IF_ERROR(CheckBetween("memtable_bytes", *o.memtable_bytes, 1 << 20, kMost / 2));
  NOVA_RETURN_IF_ERROR(CheckBetween("cache_bytes", *o.cache_bytes, 0, kMost / 2));
  NOVA_RETURN_IF_ERROR(CheckBetween("max_open_files", max_open_files, 1, 1 << 20));
  NOVA_RETURN_IF_ERROR(CheckBetween("flush_threads", flush_threads, 1, 64));
  NOVA_RETURN_IF_ERROR(CheckBetween("compaction_threads", compaction_threads, 1, 64));
  NOVA_RETURN_IF_ERROR(InGroup("range", o.range.Check()));
  if (!memory_limit_bytes) return OkStatus();
  const size_t work = WorkBytes(*memory_limit_bytes);
  NOVA_RETURN_IF_ERROR(CheckBetween("memory_limit_bytes", *memory_limit_bytes,
                                    *o.memtable_bytes + *o.cache_bytes + work, kMost));
  const size_t most = *o.memtable_bytes / static_cast<size_t>(range.active_memtables * range.max_rounds);
  return CheckBetween("range.memtable_size_bytes", o.range.memtable_size_bytes, 2 * ArenaPool::kChunkBytes,
                      most);
}

}  // namespace nova
