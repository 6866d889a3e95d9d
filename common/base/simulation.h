// Simulation: one seeded scheduler with virtual time that runs every thread of a system as a fiber, one at a
// time.
//
// While a Simulation runs, nova::Thread, Mutex, CondVar, SleepFor, Now and RandomSeed of the calling thread
// act on it; each call that could wait is a yield point at which the seed picks who goes on. Time stands
// still while a fiber runs and jumps to the next deadline when all wait. Same seed, same schedule, same
// trace, in any process.
//
//   Simulation sim(seed);
//   sim.Run([] { Thread t("a", ...); SleepFor(10 * kMinute); });
//   // Run returns when the main fiber has; all others must have ended.
//
// What cannot be a fiber (gRPC, the ZooKeeper client, epoll) has a simulated counterpart at its seam instead.
//
// Thread safety: belongs to the thread that calls Run. Several may run in different threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/random.h"

namespace nova {

class Simulation {
 public:
  using FiberId = uint64_t;

  explicit Simulation(uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // The one that runs the calling fiber; null in production.
  static Simulation* Current() { return current_; }

  void Run(std::function<void()> main);
  Random& random() { return random_; }
  Nanos now() const { return now_ns_; }  // true time

  // Whom a fiber works for: what it spawns works for the same. Its clock runs at a rate of its own; Now, and
  // the deadlines of what waits, are its clock's.
  struct Host {
    std::string name;
    double clock_rate = 1;
  };
  const Host* host() const;         // of the calling fiber; null: of nobody, whose clock is true
  void set_host(const Host* host);  // which outlives its fibers
  Nanos LocalNow() const;

  // who has not ended, for whom, and what each waits for: of a run that hangs
  std::string FibersText() const;

  // Adds a line to the trace (the hash is of all lines, and of each scheduling step).
  void Trace(std::string_view line);
  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t trace_lines() const { return trace_lines_; }
  void set_trace_output(std::function<void(std::string_view)> output) { trace_output_ = std::move(output); }

  // For the primitives of common/base and the simulated seams.
  FiberId Spawn(std::string name, std::function<void()> body);
  void Join(FiberId fiber);
  const void* CurrentFiber() const { return running_; }
  void Yield();
  void MaybeYield() {
    if (undisturbed_ == 0 && random_.Uniform(8) == 0) Yield();
  }
  // While it stands the calling fiber goes on where it need not wait: what a test looks at is of one moment.
  class Undisturbed {
   public:
    Undisturbed() : sim_(Current()) { ++sim_->undisturbed_; }
    ~Undisturbed() { --sim_->undisturbed_; }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

   private:
    Simulation* const sim_;
  };
  // Waits until WakeOne or WakeAll of `key`, or the deadline; false for the deadline.
  bool Block(const void* key, Nanos deadline_ns);
  void WakeOne(const void* key);  // one waiter, picked by the seed
  void WakeAll(const void* key);

 private:
  struct Fiber;
  static void FiberMain();
  void SwitchToScheduler();
  void Schedule();
  Fiber* PickNext();
  void MakeRunnable(Fiber* fiber, bool woken);
  Nanos TrueTime(Nanos local_ns) const;

  static thread_local Simulation* current_;
  struct Rep;
  std::unique_ptr<Rep> rep_;
  Random random_;
  Nanos now_ns_ = kSecond;
  Fiber* running_ = nullptr;
  int undisturbed_ = 0;
  uint64_t trace_hash_ = 0xcbf29ce484222325;
  uint64_t trace_lines_ = 0;
  std::function<void(std::string_view)> trace_output_;
};

}  // namespace nova
