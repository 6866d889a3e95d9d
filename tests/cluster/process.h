// Process: a program under test: started, read, stopped, killed.
//
// Thread safety: one thread; the process dies with the thread that started it.
// Ownership:     the destructor kills the process.   Errors: NotFound: it did not start; DeadlineExceeded: it
//                did not say so.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

class Process {
 public:
  // argv[0] is a path. Its stderr goes to ours unless `stderr_file` is given.
  static StatusOr<std::unique_ptr<Process>> Start(const std::vector<std::string>& argv,
                                                  const std::string& stderr_file = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The next line of its stdout, without the newline. OutOfRange: it closed its stdout.
  StatusOr<std::string> ReadLine(Nanos deadline_ns);
  // SIGSTOP, SIGCONT, SIGTERM ... After SIGSTOP it waits until all threads stand still, or have ended.
  void Signal(int signal);
  void Kill();  // SIGKILL, and waits
  // Waits for its end; the exit code, or 128 + signal.
  StatusOr<int> Wait(Nanos deadline_ns);
  pid_t pid() const { return pid_; }

 private:
  Process(pid_t pid, int out) : pid_(pid), out_(out) {}

  pid_t pid_;  // -1: ended and reaped
  const int out_;
  int exit_code_ = 0;
  std::string buffered_;
};

// Runs a program to its end, with both its outputs in `output`: its exit code, 128 after a signal.
int RunToEnd(const std::vector<std::string>& argv, std::string* output,
             const std::string& stdin_file = "/dev/null");

}  // namespace nova
