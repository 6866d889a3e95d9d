// Options of a database so small that a few thousand puts flush and compact.
#pragma once

#include "ltc/embedded/db.h"

namespace nova {

inline DbOptions SmallOptions() {
  DbOptions o;
  o.memtable_bytes = 8 << 20;
  o.cache_bytes = 1 << 20;
  o.range.memtable_size_bytes = 128 << 10;
  o.range.compaction.table_size_bytes = 64 << 10;
  o.range.compaction.level1_bytes = 256 << 10;
  o.range.compaction.level0_runs_trigger = 4;
  return o;
}

}  // namespace nova
