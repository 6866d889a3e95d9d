// Thread: a named loop. Only this file starts threads; a simulation runs each as a fiber.
//
// Names are <component>.<role>.<n>: "ltc.xchg.0". The destructor joins: tell the body to end first.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace nova {

class Thread {
 public:
  Thread(std::string name, std::function<void()> body);
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void Join();  // idempotent
  const std::string& name() const;

  // Identifies the calling thread or fiber; equal to no other live one's. For ownership checks (`OnXchg`).
  static const void* CurrentId();
  // Raises the calling thread above the others where the process may (heartbeats); false where it may not.
  static bool RaisePriority();

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
