// HiddenKeys: stretches of keys that a snapshot does not see: deleted, expired, or written later. Whoever
// has found one remembers it here, so that a scan which had no time for the whole of it goes on where it was,
// though it is asked for by the same key again. What a snapshot does not see it will not see later.
//
// Thread safety: all.   Ownership: copies keys.   Bounds: 16 stretches; the one found first is forgotten.
// Errors: none.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"

namespace nova {

class HiddenKeys {
 public:
  // No key in [from, to) is seen; an empty `to` is the end.
  void Add(std::string from, std::string to) {
    MutexLock lock(&mu_);
    std::erase_if(stretches_, [&](const Stretch& s) {
      if (!IsUpTo(s.from, to) || !IsUpTo(from, s.to)) return false;
      from = std::min(from, s.from);
      to = to.empty() || s.to.empty() ? std::string() : std::max(to, s.to);
      return true;
    });
    if (stretches_.size() == kMost) stretches_.pop_front();
    stretches_.push_back({std::move(from), std::move(to)});
  }
  // The first key from `from` on that may be seen. (To the end it leaves `from`, for it has no key to say.)
  std::string SkipForward(std::string from) const {
    MutexLock lock(&mu_);
    for (const Stretch& s : stretches_) {
      if (s.from <= from && from < s.to) return s.to;
    }
    return from;
  }
  // As SkipForward, towards lower keys: no key in [what it returns, to) is seen.
  std::string SkipBackward(std::string to) const {
    MutexLock lock(&mu_);
    for (const Stretch& s : stretches_) {
      const bool holds_end = to.empty() ? s.to.empty() : s.from < to && IsUpTo(to, s.to);
      if (holds_end && !s.from.empty()) return s.from;
    }
    return to;
  }

 private:
  static constexpr size_t kMost = 16;
  struct Stretch {
    std::string from, to;  // [from, to)
  };
  static bool IsUpTo(std::string_view key, std::string_view end) { return end.empty() || key <= end; }

  mutable Mutex mu_;
  std::deque<Stretch> stretches_ ABSL_GUARDED_BY(mu_);  // apart from each other
};

}  // namespace nova
