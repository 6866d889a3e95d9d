// StocRecord: what the configuration store keeps of a StoC for longer than its process and session live (StoC
// record, N5): whose store it is, where it was last, whether it drains, whether it is there, what ails its
// disk.
//
// Each StoC that was ever formatted has one, at /stocs/<stoc id>. The StoC makes it with its id; after that
// only the leading coordinator changes it, by compare-and-set (authority, C1). As text:
//
//   store=<32 hex digits>      the store that has the id for ever (range record, N3)
//   name=<node name>           under which the StoC was last heard
//   host=<host>                likewise; empty: not known yet
//   draining=0 | 1
//   presence=up | away | lost
//   away_since_ms=<number>     unless up: since when, in ms of the wall clock since 1970; for people
//   away_ms=<number>           unless up: for how long leaders have listened for it in vain
//   disk_state=slow | hung | read_only | failing   what its disk is taken for; absent: it is well
//   disk_state_since_ms=<number>   with disk_state: since when, as away_since_ms
//   disk_forgiven=<incarnation>/<number>   so many faults of that process' disk an operator has forgiven
//
// Earlier versions wrote `store` and `name` alone; such a StoC is up. Keys that are not known are kept.
//
// Thread safety: plain values.   Errors: DataLoss: malformed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "coordinator/cluster_types.h"

namespace nova {

enum class StocPresence : uint8_t {
  kUp = 0,
  kAway = 1,  // not heard, or not registered
  kLost = 2,  // away for so long, or in such a way, that its copies are made anew elsewhere
};
const char* PresenceName(StocPresence presence);

struct StocRecord {
  StocId id;  // of the path
  Uuid store;
  std::string name;
  std::string host;
  bool draining = false;
  StocPresence presence = StocPresence::kUp;
  int64_t away_since_ms = 0;  // both are 0 of one that is up
  int64_t away_ms = 0;
  // Not kFull, of which its heartbeats tell. kSlow and kHung end by themselves; a fault does not, not even
  // when its process starts again (StoC record, N5).
  DiskState disk = DiskState::kOk;
  int64_t disk_since_ms = 0;  // 0 where it is kOk
  // By an operator's `undrain`. Faults beyond this number count, and so do those of any other process.
  Incarnation forgiven_incarnation;
  uint64_t forgiven_faults = 0;
  bool early = false;   // as an earlier version wrote it
  std::string others;   // lines with keys that this version does not know
  int64_t version = 0;  // of the znode it was read from

  std::string Encode() const;  // without `id` and `version`; never in the early form
  static StatusOr<StocRecord> Decode(StocId id, std::string_view data, int64_t version);
  bool operator==(const StocRecord&) const = default;
};

// A host that a record can hold: one line, and short. Registrations are not trusted to have one.
bool IsHostText(std::string_view host);

}  // namespace nova
