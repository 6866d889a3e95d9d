// What the calls of an embedded database have in common: stored keys, the checks of arguments, the Status of
// an outcome, and how an operation of the engine runs on the calling thread.
//
// Thread safety: pure functions, but RunOnLane: from any thread.
// Ownership: none taken.
// Errors: the Statuses that ltc/embedded/db.h lists.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "common/base/keys.h"
#include "common/base/outcome.h"
#include "common/base/status.h"
#include "ltc/embedded/caller_lane.h"

namespace nova {

// A stored key of keyspace 0, on the stack unless it is long.
class StoredKey {
 public:
  explicit StoredKey(std::string_view user_key) {
    char* p = inline_;
    if (user_key.size() + 1 > sizeof(inline_)) {
      heap_.resize(user_key.size() + 1);
      p = heap_.data();
    }
    p[0] = 0;
    std::memcpy(p + 1, user_key.data(), user_key.size());
    view_ = {p, user_key.size() + 1};
  }
  std::string_view view() const { return view_; }

 private:
  char inline_[128];
  std::string heap_;
  std::string_view view_;
};
// The stored key of the end of a range of user keys; empty: the end of keyspace 0.
inline std::string StoredEnd(std::string_view user_key) {
  return user_key.empty() ? std::string(1, '\1') : std::string(1, '\0').append(user_key);
}

Status CheckKey(std::string_view key);
Status CheckTtl(ValueType type, int64_t ttl_ms);
// Of user keys; no begin: from the first, no end: to the last. They are in order.
Status CheckKeyRange(std::string_view begin, std::string_view end);
Status CheckScanBounds(std::string_view from, std::string_view to);
// `what` was done; `failure`: what failed below, if that is known.
Status StatusOf(Outcome outcome, std::string_view what, std::string_view failure = {});

// Runs one operation to its end, on a lane that the calling thread takes for it. `start(executor, outcome,
// finished)` begins it; its callback sets both.
template <typename Start>
Outcome RunOnLane(CallerLanes* lanes, CallerLanes::For what, const Start& start) {
  CallerLane* const lane = lanes->Take(what);
  CallerLane::Hold hold(lane, CallerLane::Hold::Taken());
  Outcome outcome = Outcome::kInternal;
  bool finished = false;
  start(lane, &outcome, &finished);
  hold.RunUntil(&finished);
  return outcome;
}

}  // namespace nova
