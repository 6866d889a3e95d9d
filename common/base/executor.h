// Executor: the thread a request runs on, as the engine sees it: an xchg thread in an LTC, a plain loop in
// embedded mode and tests. The engine's request path never waits; it goes on here.
//
// Thread safety: Submit and IsCurrentThread from any thread; RunAt and AddRoundHook as the implementation
//                says (OnXchg).
#pragma once

#include <cstddef>

#include "absl/functional/any_invocable.h"
#include "common/base/clock.h"

namespace nova {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Submit(absl::AnyInvocable<void()> fn) = 0;
  virtual void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) = 0;
  virtual bool IsCurrentThread() const = 0;
  virtual size_t index() const = 0;  // 0 .. number of request threads - 1
};

}  // namespace nova
