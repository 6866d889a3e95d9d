// MemoryUse: the bytes of memory that the engine uses, by purpose. Plain data: a snapshot of counters that
// change.
#pragma once

#include <cstddef>

#include "ltc/engine/arena.h"
#include "ltc/engine/block_cache.h"

namespace nova {

struct MemoryUse {
  size_t memtables = 0;        // of active and sealed rounds
  size_t memtables_ready = 0;  // arena chunks for the next ones: touched, not in use
  size_t table_metadata = 0;   // index and filter of each loaded table; pinned
  size_t block_cache = 0;      // blocks in the cache; mapped ones are not counted

  // Reads the counters; from any thread.
  static MemoryUse Of(const ArenaPool& arenas, const BlockCache& cache) {
    return {arenas.bytes_used(), arenas.bytes_ready(), cache.bytes_pinned(), cache.bytes_used()};
  }
  size_t total() const { return memtables + memtables_ready + table_metadata + block_cache; }
};

}  // namespace nova
