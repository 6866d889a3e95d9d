// Simulation: one seeded scheduler with virtual time that runs every thread of a system as a fiber, one at a
// time.
//
// While a Simulation runs, nova::Thread, Mutex, CondVar, SleepFor, Now and RandomSeed of the calling thread
// act on it. Each call that could wait is a yield point at which the seed picks the fiber that goes on. Time
// stands still while a fiber runs, and jumps to the next deadline when all wait. The same seed gives the same
// schedule and the same trace, in any process.
//
//   Simulation sim(seed);
//   sim.Run([] { Thread t("a", ...); SleepFor(10 * kMinute); });
//   // Run returns when the main fiber has; all others must have ended.
//
// Parts that cannot be fibers (gRPC, the ZooKeeper client, epoll) have a simulated counterpart at their seam.
//
// Thread safety: belongs to the thread that calls Run. Several may run in different threads.
// Ownership: fibers' bodies, until they end.
// Errors: none; fibers that all wait for ever are a bug, and end the process with a list of them.
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

  explicit Simulation(uint64_t seed);  // decides everything that is left open
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // The simulation that runs the calling fiber; null in production.
  static Simulation* Current() { return current_; }

  // Runs `main` as the first fiber, and all that it starts, until it ends. REQUIRES: all others have ended by
  // then.
  void Run(std::function<void()> main);
  Random& random() { return random_; }   // of the run: what is drawn from it is part of the schedule
  Nanos now() const { return now_ns_; }  // true time, not a host's

  // The host on which a fiber runs; fibers it starts run there too. Its clock has a rate of its own, by which
  // Now and deadlines of these fibers go.
  struct Host {
    std::string name;
    double clock_rate = 1;
    int64_t wall_offset_ms = 0;  // of its wall clock from the true one
  };
  // The calling fiber's host; null: it has none, and its clock is true.
  const Host* host() const;
  void set_host(const Host* host);  // of the calling fiber; outlives it
  Nanos LocalNow() const;           // Now() of the calling fiber's host
  int64_t LocalWallMs() const;      // its WallNowMs()

  // The fibers that have not ended, on which host, and the key each waits for; for runs that hang.
  std::string FibersText() const;

  // Adds a line to the trace. The hash is of all lines and of each scheduling step.
  void Trace(std::string_view line);
  uint64_t trace_hash() const { return trace_hash_; }
  uint64_t trace_lines() const { return trace_lines_; }
  void set_trace_output(std::function<void(std::string_view)> output) { trace_output_ = std::move(output); }

  // --- for the primitives of common/base and the simulated seams
  // A new fiber, on the caller's host; it runs when it is picked. Join waits for its end.
  FiberId Spawn(std::string name, std::function<void()> body);
  void Join(FiberId fiber);
  const void* CurrentFiber() const { return running_; }
  void Yield();  // others may run
  // Yield, once in eight calls.
  void MaybeYield() {
    if (undisturbed_ == 0 && random_.Uniform(8) == 0) Yield();
  }
  // While it stands the calling fiber goes on wherever it need not wait, so that a test looks at one moment.
  class Undisturbed {
   public:
    Undisturbed() : sim_(Current()) { ++sim_->undisturbed_; }
    ~Undisturbed() { --sim_->undisturbed_; }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

   private:
    Simulation* const sim_;
  };
  // Waits until WakeOne or WakeAll of `key`, or the deadline. False: the deadline has passed.
  bool Block(const void* key, Nanos deadline_ns);
  void WakeOne(const void* key);  // one waiter, picked by the seed
  void WakeAll(const void* key);

 private:
  struct Fiber;             // a thread of the simulated system
  static void FiberMain();  // the body of every fiber
  // The running fiber stops here until it is picked again.
  void SwitchToScheduler();
  // Picks one fiber and runs it until it waits or ends.
  void Schedule();
  // The next fiber, by the seed; time jumps if all wait.
  Fiber* PickNext();
  // `woken`: by WakeOne or WakeAll, not by its deadline.
  void MakeRunnable(Fiber* fiber, bool woken);
  // The first true time at which the clock of the running fiber's host shows `local_ns`.
  Nanos TrueTime(Nanos local_ns) const;

  static thread_local Simulation* current_;
  struct Rep;
  std::unique_ptr<Rep> rep_;
  Random random_;
  Nanos now_ns_ = kSecond;    // true virtual time
  Fiber* running_ = nullptr;  // null: the scheduler runs
  int undisturbed_ = 0;       // Undisturbed objects that stand
  uint64_t trace_hash_ = 0xcbf29ce484222325;
  uint64_t trace_lines_ = 0;
  std::function<void(std::string_view)> trace_output_;
};

}  // namespace nova
