// CopyReads: the reads that other StoCs ask for to copy files. They have their turns one after another, each
// not before the bandwidth of copies lets it: so however many there are, they take one storage thread at
// most, and none while they wait.
//
// Thread safety: all.
// Ownership:     the bandwidth outlives it. A Turn may outlive it.
// Errors:        false: more waits than the bandwidth moves in kLongestWait.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"
#include "stoc/copy_bandwidth.h"

namespace nova {

class CopyReads {
 public:
  static constexpr Nanos kLongestWait =
      2 * kSecond;                             // of a read for its turn; what would wait longer is refused
  static constexpr size_t kMaxWaiting = 1024;  // reads; more are refused

 private:
  struct State;  // the queue; shared with Turns

 public:
  // The next read begins when this one's Turn is gone.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Turn(Turn&&) = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (state_ != nullptr) Next(state_);
    }

   private:
    std::shared_ptr<State> state_;
  };
  // Has the read done, not before `start_ns`. Called once, on the thread of Add or of the last Turn's end;
  // must not wait. Not called any more after Stop.
  using Begin = absl::AnyInvocable<void(Turn turn, Nanos start_ns)>;

  explicit CopyReads(CopyBandwidth* bandwidth);
  ~CopyReads();  // as Stop

  // A read that nobody waits for after `deadline_ns` takes no bandwidth.
  bool Add(uint64_t bytes, Nanos deadline_ns, Begin begin);
  void Stop();

 private:
  // Begins the first that waits, if none has its turn.
  static void Next(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace nova
