// CallerLane: a request thread of embedded mode: whoever calls.
//
// The engine's request path runs on an Executor and never waits. In an LTC that is an xchg thread. Here the
// calling thread takes a lane for the time of one call and is the executor meanwhile. Where an operation
// could not end at once its thread sleeps, and others may use the lane until it wakes. What others submit to
// a lane that nobody has runs on their thread, at once: there is no thread to wake.
//
//   state      who has the lane                      Leave
//   kFree      nobody                                -
//   kHeld      a thread                              one compare-and-swap
//   kContended a thread; more to run, or waiters     runs what is queued, wakes the waiters
//   kParked    nobody; a thread sleeps in RunUntil   -
//
// Thread safety: Hold and Submit from any thread; the others by the holder.   Ownership: outlives what is
//                submitted to it.
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

// The threads that wait until any lane of a group can be had.   Thread safety: all methods from any thread.
class LaneWaiters {
 public:
  // Sleeps until take() returns a lane, which is asked again whenever one of the group was let go of.
  template <typename TakeFn>
  CallerLane* WaitUntilTaken(const TakeFn& take);
  // A lane of the group was let go of. Wakes one thread, which wakes the next where it took a lane: one is on
  // its way at a time, so that a thread which lets go of its lane and takes it again, over and over, does not
  // pay for a wake-up each time.
  void OneIsFree() {
    if (waiting_.load(std::memory_order_seq_cst) > 0 && !woken_.exchange(true, std::memory_order_seq_cst))
      WakeOne();
  }

 private:
  void WakeOne() ABSL_LOCKS_EXCLUDED(mu_);

  std::atomic<int> waiting_{0};
  std::atomic<bool> woken_{false};  // a thread was woken and has not looked yet
  Mutex mu_;
  CondVar freed_;
};

class CallerLane : public Executor {
 public:
  // `waiters` are told when the lane can be had. Null: nobody but its own callers waits for it.
  explicit CallerLane(size_t index, LaneWaiters* waiters = nullptr) : index_(index), waiters_(waiters) {}

  // The calling thread has the lane from construction to destruction, but for when it sleeps in RunUntil.
  class Hold {
   public:
    // waits while another thread has the lane
    explicit Hold(CallerLane* lane) : lane_(lane) { lane_->Enter(); }
    struct Taken {};
    Hold(CallerLane* lane, Taken) : lane_(lane) {}  // after TryTake
    ~Hold() { lane_->Leave(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Runs what is submitted and due until *done, which is set by something that runs on the lane.
    void RunUntil(const bool* done) {
      if (!*done) lane_->WaitFor(done);
    }

   private:
    CallerLane* const lane_;
  };

  bool TryTake();  // false: another thread has it, or sleeps on it
  void Submit(absl::AnyInvocable<void()> fn) override;
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override;
  bool IsCurrentThread() const override;
  size_t index() const override { return index_; }

 private:
  enum State : uint32_t { kFree, kHeld, kContended, kParked };

  friend class CallerLanes;

  bool Take(State from, State to);
  bool TryTakeFromSleeper();  // false: another thread has it
  void Enter();
  void EnterLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave();
  void LeaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WaitFor(const bool* done);
  void LeaveSlow() ABSL_LOCKS_EXCLUDED(mu_);
  void RunQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t index_;
  LaneWaiters* const waiters_;
  std::atomic<uint32_t> state_{kFree};
  std::atomic<const void*> holder_{nullptr};
  Mutex mu_;
  CondVar changed_;
  int sleepers_ ABSL_GUARDED_BY(mu_) = 0;  // threads that let go of the lane in RunUntil
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::multimap<Nanos, absl::AnyInvocable<void()>> timers_ ABSL_GUARDED_BY(mu_);
};

// CallerLanes: the lanes of a database, and which one a call takes.
//
// A thread takes the lane it had last, while that is free: its view and its log file are at hand. Else it
// takes another free one and stays there. A few lanes are for reads alone, so that no get waits for writers,
// however many of them wait for a log or a flush.
//
// Thread safety: all methods from any thread.   Ownership: outlives what is submitted to its lanes.
class CallerLanes {
 public:
  enum class For { kReads, kWrites };
  CallerLanes(size_t lanes, size_t lanes_for_reads);

  // A lane that the calling thread has now: for CallerLane::Hold's Taken. Where others have all that it may
  // take it waits for whichever is let go of first.
  CallerLane* Take(For what);
  size_t for_writes() const { return shared_; }  // lanes with an index below may write
  const std::vector<std::unique_ptr<CallerLane>>& all() const { return lanes_; }

 private:
  const size_t shared_;  // lanes_[0, shared_) are for all calls, those behind them for reads
  LaneWaiters for_shared_, for_reads_;
  std::vector<std::unique_ptr<CallerLane>> lanes_;
};

}  // namespace nova
