// Executor: the thread on which a request runs, as the engine sees it: an xchg thread in an LTC
// (XchgExecutor), the calling thread in an embedded database (CallerLane), a plain loop in tests. The
// engine's request path never waits; it goes on by closures on its executor.
//
//   implementation   thread                                    a Submit from another thread runs
//   XchgExecutor     an exchange thread of an LTC              in its next turn
//   CallerLane       a calling thread of an embedded database  at once if nobody has the lane
//   in tests         a loop, or a fiber of a simulation        in its next turn
//
// Thread safety: Submit and IsCurrentThread from any thread; RunAt on the executor's thread, unless the
//   implementation allows more.
// Ownership: closures are its own until they have run; one that never runs is destroyed with it.
// Errors: none; a closure is never refused.
#pragma once

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"

namespace nova {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `fn` on the executor, soon, or before it returns where nobody has the executor.
  virtual void Submit(absl::AnyInvocable<void()> fn) = 0;
  // Runs `fn` on the executor at or after `when_ns`.
  virtual void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) = 0;
  virtual bool IsCurrentThread() const = 0;
  virtual size_t index() const = 0;  // 0 .. number of request threads - 1
};

}  // namespace nova
