#include "ltc/engine/memory_use.h"

#include "ltc/engine/arena.h"
#include "ltc/engine/block_cache.h"

namespace nova {

MemoryUse MemoryUse::Of(const ArenaPool& arenas, const BlockCache& cache) {
  return {arenas.bytes_used(), arenas.bytes_ready(), cache.bytes_pinned(), cache.bytes_used()};
}

}  // namespace nova
