#include "ltc/engine/overwrite_probe.h"

#include <algorithm>

namespace nova {

bool OverwriteProbe::Replaces(const ParsedInternalKey& key) {
  constexpr uint32_t kInARow = 256, kLeast = kInARow / 8, kMostPause = 16 * kInARow;
  if (rounds_.empty()) return false;
  if (left_ > 0) {
    --left_;
    return false;
  }
  const bool replaced = Holds(key);
  replaced_ += replaced;
  found_ += replaced;
  if (++asked_ == kInARow) {
    left_ = pause_ = found_ >= kLeast ? 0 : std::clamp(2 * pause_, kInARow, kMostPause);
    asked_ = found_ = 0;
  }
  return replaced;
}

bool OverwriteProbe::Holds(const ParsedInternalKey& key) const {
  const auto snapshot = std::lower_bound(snapshots_.begin(), snapshots_.end(), key.sequence);
  // by whoever sees this one
  const SequenceNumber seen = snapshot == snapshots_.end() ? upto_ : std::min(upto_, *snapshot);
  const uint64_t hash = FilterHash(key.stored_key);
  MemTable::Hit hit;
  return std::any_of(rounds_.begin(), rounds_.end(),
                     [&](const auto& round) { return round->Get(key.stored_key, hash, seen, &hit); });
}

}  // namespace nova
