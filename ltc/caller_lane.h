// CallerLane: a request thread of embedded mode: whoever calls.
//
// The engine's request path runs on an Executor and never waits. In an LTC that is an xchg thread; here the calling thread takes
// a lane for the time of one call, is the executor meanwhile, and sleeps on it only where the operation could not end at once.
// What others submit to a lane nobody holds runs on their thread, at once: there is no thread to wake.
//
// Thread safety: Enter and Submit from any thread; the others by the holder.   Ownership: outlives what is submitted to it.
#pragma once

#include <atomic>
#include <deque>
#include <map>

#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace nova {

class CallerLane : public Executor {
 public:
  explicit CallerLane(size_t index) : index_(index) {}

  // The calling thread holds the lane from construction to destruction; waits while another does.
  class Hold {
   public:
    explicit Hold(CallerLane* lane) : lane_(lane) { lane_->Enter(); }
    ~Hold() { lane_->Leave(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    // Runs what is submitted and due until *done.
    void RunUntil(const bool* done) {
      if (!*done) lane_->WaitFor(done);
    }

   private:
    CallerLane* const lane_;
  };

  void Submit(absl::AnyInvocable<void()> fn) override;
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override;
  bool IsCurrentThread() const override;
  size_t index() const override { return index_; }

 private:
  enum State : uint32_t { kFree, kHeld, kContended };  // kContended: the holder has work, or others wait for the lane

  void Enter();
  void Leave();
  void WaitFor(const bool* done);
  bool TryTake();
  void LeaveSlow() ABSL_LOCKS_EXCLUDED(mu_);
  void RunQueued() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t index_;
  std::atomic<uint32_t> state_{kFree};
  std::atomic<const void*> holder_{nullptr};
  Mutex mu_;
  CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::multimap<Nanos, absl::AnyInvocable<void()>> timers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
