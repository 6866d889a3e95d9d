// Outcome: what became of one request, as an enum that costs nothing to pass. Values are on the wire: do not
// renumber.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"

namespace nova {

enum class Outcome : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kInvalidArgument = 2,  // nothing was written
  // This process does not hold the range, or not at this epoch; fetch the configuration again.
  kNotOwner = 3,
  kBusy = 4,              // out of a bounded resource, or the range is moving; retry with back-off
  kNoSpace = 5,           // storage full: nothing was written, no delete either; reads go on
  kUnavailable = 6,       // a component that is needed does not answer, or not in time; nothing was written
  kCorruption = 7,        // stored bytes fail their checksum and no good copy is left
  kDeadlineExceeded = 8,  // the deadline passed before the request was sent or begun: nothing was written
  kUnknown = 9,           // a write was sent and not answered: applied or not, nobody here can tell
  kInternal = 10,         // a bug on the other side
  kConditionFailed = 11,  // CompareAndSwap found another value: nothing was written
  kSnapshotEnded = 12,    // the snapshot's lease is over, or its owner changed: take another
};
inline constexpr Outcome kMaxOutcome = Outcome::kSnapshotEnded;

// What a client may conclude about a write (no write twice, A1).
enum class Effect { kApplied, kNotApplied, kUnknown };
inline Effect EffectOf(Outcome o) {
  if (o == Outcome::kOk) return Effect::kApplied;
  return o == Outcome::kUnknown || o == Outcome::kInternal ? Effect::kUnknown : Effect::kNotApplied;
}

// The same request may be sent again within its deadline, for it was definitely not applied.
inline bool IsRetryable(Outcome o) {
  return o == Outcome::kNotOwner || o == Outcome::kBusy || o == Outcome::kNoSpace ||
         o == Outcome::kUnavailable;
}

std::string_view OutcomeName(Outcome o);            // "NotFound"; for people
Status ToStatus(Outcome o, std::string_view what);  // `what` says where; kOk is Ok
Outcome ToOutcome(const Status& s);                 // the nearest outcome; kInternal for codes that have none

}  // namespace nova
