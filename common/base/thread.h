// Thread: a named thread; common/base/thread.cc is the only place that starts threads. In a simulation it is
// a fiber. Names are <component>.<role>.<n>: "ltc.xchg.0".
//
// Thread safety: Join and destruction by one thread; the body runs on its own.
// Ownership: of the body and what it holds, until it has ended.
// Errors: none; a thread that cannot be started ends the process.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace nova {

class Thread {
 public:
  // Starts `body`.
  Thread(std::string name, std::function<void()> body);
  ~Thread();  // joins: tell the body to end first
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void Join();  // idempotent
  const std::string& name() const;

  // Identifies the calling thread or fiber among those alive; for checks of ownership (`OnXchg`).
  static const void* CurrentId();
  // Raises the calling thread above the others where the process may (heartbeats). False: it may not.
  static bool RaisePriority();
  // Processors that threads of this process may run on, at least one.
  static int Processors();

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
