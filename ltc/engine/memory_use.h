// MemoryUse: the bytes of memory that the engine uses, by purpose. Plain data: a snapshot of counters that
// change.
//
// Thread safety: a plain value; Of reads the counters one after another, so their sum is about right.
// Errors: none.
#pragma once

#include <cstddef>

namespace nova {

class ArenaPool;
class BlockCache;

struct MemoryUse {
  size_t memtables = 0;        // of active and sealed rounds
  size_t memtables_ready = 0;  // arena chunks for the next ones: touched, not in use
  size_t table_metadata = 0;   // index and filter of each loaded table; pinned
  size_t block_cache = 0;      // blocks in the cache; mapped ones are not counted

  // Reads the counters; from any thread.
  static MemoryUse Of(const ArenaPool& arenas, const BlockCache& cache);
  // What is to be within the process's limit (docs/engine.md, "Memory").
  size_t total() const { return memtables + memtables_ready + table_metadata + block_cache; }
};

}  // namespace nova
