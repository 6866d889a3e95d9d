// CallerLane: a request thread of embedded mode: the calling thread itself.
//
// The engine's request path runs on an Executor and never waits. In an LTC that is an xchg thread. Here the
// calling thread takes a lane for the time of one call and is the executor meanwhile. If an operation cannot
// end at once its thread sleeps, and others may use the lane until it wakes. A closure that is submitted to a
// lane nobody has runs on the submitting thread, at once: there is no thread to wake. A sleeper is woken when
// what it waits for has run, or to run the timers of the lane.
//
//   state      held by                               Leave
//   kFree      nobody                                -
//   kHeld      a thread                              one compare-and-swap
//   kContended a thread; more to run, or waiters     runs queued closures, wakes whose wait is over
//   kParked    nobody; threads sleep in RunUntil     -
//
// Thread safety: Hold, TryTake, Submit and RunAt from any thread; the others by the holder.
// Locks: a lane's, for its queue, timers and sleepers; let go of while a closure runs. Lanes have one for
//   threads that wait for any of them.
// Ownership: a lane outlives the closures submitted to it.
// Errors: none; nothing that is submitted is refused.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace nova {

class CallerLane;

// The threads that wait until any lane of a group can be had. Thread safety: all methods from any thread.
class LaneWaiters {
 public:
  // Sleeps until take() returns a lane. It is asked again whenever a lane of the group was let go of.
  template <typename TakeFn>
  CallerLane* WaitUntilTaken(const TakeFn& take);
  // A lane of the group was let go of: wakes one thread, which wakes the next one if it took a lane. Only one
  // is on its way at a time, so that a thread which lets go of its lane and takes it again, over and over,
  // does not pay for a wake-up each time.
  void OneIsFree() {
    if (waiting_.load(std::memory_order_seq_cst) > 0 && !woken_.exchange(true, std::memory_order_seq_cst))
      WakeOne();
  }

 private:
  void WakeOne() ABSL_LOCKS_EXCLUDED(mu_);  // sets woken_ and signals one waiter

  std::atomic<int> waiting_{0};     // threads in WaitUntilTaken
  std::atomic<bool> woken_{false};  // a thread was woken and has not looked yet
  Mutex mu_;
  CondVar freed_;  // signalled by WakeOne; with mu_
};

class CallerLane : public Executor {
 public:
  // `waiters` are told when the lane can be had. Null: nobody but its own callers waits for it.
  explicit CallerLane(size_t index, LaneWaiters* waiters = nullptr) : index_(index), waiters_(waiters) {}

  // The calling thread has the lane from construction to destruction, except while it sleeps in RunUntil.
  class Hold {
   public:
    // Waits while another thread has the lane.
    explicit Hold(CallerLane* lane) : lane_(lane) { lane_->Enter(); }
    struct Taken {};
    Hold(CallerLane* lane, Taken) : lane_(lane) {}  // after TryTake
    ~Hold() {
      if (held_) lane_->Leave();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Runs closures that are submitted and timers that are due until *done, which a closure on the lane sets.
    // The last call of a hold: it may have let go of the lane for good.
    void RunUntil(const bool* done) {
      if (!*done) held_ = lane_->WaitFor(done);
    }

   private:
    CallerLane* const lane_;
    bool held_ = true;
  };

  // False: another thread has it, or sleeps on it.
  bool TryTake();
  void Submit(absl::AnyInvocable<void()> fn) override;
  // `fn` runs once it is due and a thread is in Hold::RunUntil on this lane; without one it waits.
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override;
  bool IsCurrentThread() const override;
  size_t index() const override { return index_; }

 private:
  enum State : uint32_t { kFree, kHeld, kContended, kParked };
  // A thread that has let go of the lane in RunUntil.
  struct Sleeper {
    explicit Sleeper(const bool* d) : done(d) {}
    const bool* const done;  // what it waits for; read by the lane's holder
    bool over = false;       // the holder saw *done, and took it off the list
    Nanos until = kNever;    // when it wakes by itself, to run timers
    CondVar wake;            // `over` or `until` has changed; with mu_
  };

  friend class CallerLanes;

  // Compare-and-swap of state_; true: it was `from`; the caller holds the lane.
  bool Take(State from, State to);
  bool TryTakeFromSleeper();  // false: another thread has it
  // Waits until the calling thread holds the lane.
  void Enter();
  // Enter, where the lane is not free.
  void EnterLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave();  // lets go of the lane
  // Leave for kContended: runs queued closures first.
  void LeaveSlow() ABSL_LOCKS_EXCLUDED(mu_);
  // Lets go of the lane; wakes the sleepers whose wait is over and one of the threads that enter.
  void LeaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sleeps on the lane, runs closures and timers, until *done. False: the lane was let go of.
  bool WaitFor(const bool* done);
  // Runs queued closures; lets go of mu_ meanwhile. Timers are for sleepers: whoever submits may hold locks.
  void RunQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Some sleeper wakes at the time of the first timer, or before.
  bool TimersAreWatched() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Has a sleeper wake for the first timer, if there is a sleeper, and none does.
  void WatchTimers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t index_;
  LaneWaiters* const waiters_;                // told when the lane can be had; may be null
  std::atomic<uint32_t> state_{kFree};        // a State; see the head of this file
  std::atomic<const void*> holder_{nullptr};  // Thread::CurrentId of the holder; null: none
  Mutex mu_;
  int entering_ ABSL_GUARDED_BY(mu_) = 0;  // threads in EnterLocked
  CondVar left_;                           // the lane was let go of; with mu_
  // The threads in RunUntil that have let go of the lane, in order; on their stacks. Changed by the holder.
  std::vector<Sleeper*> sleepers_ ABSL_GUARDED_BY(mu_);
  // Closures to run on the lane, in order.
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::multimap<Nanos, absl::AnyInvocable<void()>> timers_ ABSL_GUARDED_BY(mu_);  // closures and their times
};

// CallerLanes: the lanes of a database, and which one a call takes.
//
// A thread takes the lane it had last while that is free, for its view and its log file are at hand. Else it
// takes another free one and stays there. A few lanes are for reads alone, so that no get waits for writers,
// however many of them wait for a log or a flush.
//
// Thread safety: all methods from any thread.
// Ownership: outlives the closures submitted to its lanes.
class CallerLanes {
 public:
  enum class For { kReads, kWrites };
  CallerLanes(size_t lanes, size_t lanes_for_reads);

  // Takes a lane for the calling thread, for CallerLane::Hold's Taken. Waits if others have all lanes that it
  // may take.
  CallerLane* Take(For what);
  size_t for_writes() const { return shared_; }  // lanes with a lower index may write
  // All lanes, by index.
  const std::vector<std::unique_ptr<CallerLane>>& all() const { return lanes_; }

 private:
  const size_t shared_;                 // lanes_[0, shared_) are for all calls, those behind them for reads
  LaneWaiters for_shared_, for_reads_;  // threads that wait for any lane of their kind
  std::vector<std::unique_ptr<CallerLane>> lanes_;
};

}  // namespace nova
