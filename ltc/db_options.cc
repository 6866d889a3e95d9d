// The options of an embedded database: what they are unless they are given, and what they may be.
#include "common/base/check_between.h"
#include "ltc/db.h"

namespace nova {

RangeOptions DbOptions::DefaultRange() {
  RangeOptions range;
  range.memtable_size_bytes = 32 << 20;
  range.active_memtables = 1;
  range.max_rounds = 8;
  return range;
}

Status DbOptions::Check() const {
  NOVA_RETURN_IF_ERROR(CheckBetween("log", static_cast<int>(log), 0, static_cast<int>(DbLog::kPersistent)));
  NOVA_RETURN_IF_ERROR(CheckBetween("memtable_bytes", memtable_bytes, 1 << 20, size_t{1} << 40));
  NOVA_RETURN_IF_ERROR(CheckBetween("cache_bytes", cache_bytes, 0, size_t{1} << 40));
  NOVA_RETURN_IF_ERROR(CheckBetween("flush_threads", flush_threads, 1, 64));
  NOVA_RETURN_IF_ERROR(CheckBetween("compaction_threads", compaction_threads, 1, 64));
  return InGroup("range", range.Check());
}

}  // namespace nova
