#include "ltc/engine/round.h"

namespace nova {

// Versions went to any of the siblings, whatever their numbers: the newest of each are compared.
bool Round::GetByDrange(std::string_view key, uint64_t hash, SequenceNumber seq, MemTable::Hit* hit) const {
  const MemtablePartition::Siblings in = partition->Of(key);
  bool found = false;
  MemTable::Hit one;
  for (uint32_t i = in.first; i < in.first + in.count; ++i) {
    if (!siblings[i]->Get(key, hash, seq, &one) || (found && one.sequence < hit->sequence)) continue;
    *hit = one;
    found = true;
  }
  return found;
}

void Round::PrefetchByDrange(std::string_view key, uint64_t hash) const {
  const MemtablePartition::Siblings in = partition->Of(key);
  for (uint32_t i = in.first; i < in.first + in.count; ++i) siblings[i]->PrefetchGet(hash);
}

}  // namespace nova
