// MemoryUse: what the engine's memory is used for, in bytes, by pool.   Plain data.
#pragma once

#include <cstddef>

namespace nova {

class ArenaPool;
class BlockCache;

struct MemoryUse {
  size_t memtables = 0;        // active and sealed ones
  size_t memtables_ready = 0;  // of the next ones: touched, in no use
  size_t table_metadata = 0;   // index and filter of each table that was read or written: pinned
  size_t block_cache = 0;      // blocks that are not mapped

  static MemoryUse Of(const ArenaPool& arenas, const BlockCache& cache);
  size_t total() const { return memtables + memtables_ready + table_metadata + block_cache; }
};

}  // namespace nova
