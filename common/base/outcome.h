// Outcome: what became of one request, as an enum that costs nothing to pass. Wire value: do not renumber.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace nova {

enum class Outcome : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kInvalidArgument = 2,  // nothing was written
  // this process does not hold the range (or not at this epoch); refresh the configuration
  kNotOwner = 3,
  kBusy = 4,              // out of a bounded resource, or the range is moving; retry with back-off
  kNoSpace = 5,           // storage full; reads and deletes go on
  kUnavailable = 6,       // a component that is needed does not answer; nothing was written
  kCorruption = 7,        // stored bytes fail their checksum and no good copy is left
  kDeadlineExceeded = 8,  // the deadline passed before the request was sent or begun: nothing was written
  kUnknown = 9,           // a write was sent and not answered: applied or not, nobody here can tell
  kInternal = 10,         // a bug on the other side
  kConditionFailed = 11,  // CompareAndSwap found another value: nothing was written
  kSnapshotEnded = 12,    // the snapshot's lease is over, or its owner changed: take another
};
inline constexpr Outcome kMaxOutcome = Outcome::kSnapshotEnded;

// No write twice (A1): what a client may conclude about a write.
enum class Effect { kApplied, kNotApplied, kUnknown };
inline Effect EffectOf(Outcome o) {
  if (o == Outcome::kOk) return Effect::kApplied;
  return o == Outcome::kUnknown || o == Outcome::kInternal ? Effect::kUnknown : Effect::kNotApplied;
}

// True for outcomes after which the same request may be sent again within its deadline (definitely not
// applied).
inline bool IsRetryable(Outcome o) {
  return o == Outcome::kNotOwner || o == Outcome::kBusy || o == Outcome::kNoSpace ||
         o == Outcome::kUnavailable;
}

std::string_view OutcomeName(Outcome o);
Status ToStatus(Outcome o, std::string_view what);
Outcome ToOutcome(const Status& s);

}  // namespace nova
