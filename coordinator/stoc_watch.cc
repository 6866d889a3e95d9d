#include "coordinator/stoc_watch.h"

#include <algorithm>
#include <utility>

namespace nova {
namespace {

constexpr Nanos kWritesOfAwayMs = 4;  // within stoc_down_after: what the next leader may miss is one of them

StocRecord Heard(StocRecord r, const NodeInfo& node) {
  r.presence = StocPresence::kUp;
  r.away_since_ms = 0;
  r.away_ms = 0;
  r.name = node.name;
  if (IsHostText(node.host)) r.host = node.host;
  return r;
}

DiskState NextDisk(const StocLimits& limits, DiskState now, const StocLook& look) {
  if (IsDiskFault(now)) return std::max(now, look.disk);
  if (look.disk != DiskState::kOk) return look.disk;
  if (now == DiskState::kSlow) {
    const bool well = look.pace == DiskPace::kWell && look.pace_for_ns >= limits.well_after_ns;
    return well ? DiskState::kOk : now;
  }
  const bool slow = look.pace == DiskPace::kOutlier && look.pace_for_ns >= limits.slow_after_ns;
  return slow ? DiskState::kSlow : DiskState::kOk;
}

StocRecord WithDisk(const StocLimits& limits, StocRecord r, const StocLook& look) {
  const DiskState next = NextDisk(limits, r.disk, look);
  if (next == r.disk) return r;
  r.disk = next;
  r.disk_since_ms = next == DiskState::kOk ? 0 : look.wall_ms;
  return r;
}

StocRecord Silent(const StocLimits& limits, StocRecord r, const StocLook& look) {
  if (r.presence == StocPresence::kLost) return r;
  const bool was_up = r.presence == StocPresence::kUp;
  const Nanos in_vain = r.away_ms * kMillisecond + look.listened_ns;
  const bool away = !was_up || look.listened_ns >= limits.lease_ns;
  const bool lost = look.replaced || (away && (r.draining || in_vain >= limits.down_after_ns));
  const bool due = was_up || look.listened_ns >= limits.down_after_ns / kWritesOfAwayMs;
  if (!lost && !(away && due)) return r;
  r.presence = lost ? StocPresence::kLost : StocPresence::kAway;
  r.away_ms = in_vain / kMillisecond;
  if (was_up) r.away_since_ms = look.wall_ms - look.silent_ns / kMillisecond;
  return r;
}

}  // namespace

StocRecord NewStocRecord(const NodeInfo& node) {
  StocRecord r;
  r.id = node.stoc_id;
  r.store = node.store;
  return Heard(std::move(r), node);
}

std::optional<StocRecord> NextStocRecord(const StocLimits& limits, const StocRecord& now,
                                         const StocLook& look) {
  // One that the leader had no time to hear is as good as it was.
  if (look.live && !look.heard) return std::nullopt;
  StocRecord next = look.heard ? WithDisk(limits, Heard(now, *look.node), look) : Silent(limits, now, look);
  // A host alone is no reason to touch a record that an earlier version wrote.
  if (now.early && next.presence == now.presence && next.name == now.name && next.disk == now.disk)
    return std::nullopt;
  if (next == now) return std::nullopt;
  next.early = false;
  return next;
}

}  // namespace nova
