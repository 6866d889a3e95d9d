#include "ltc/embedded/caller_lane.h"

#include <algorithm>
#include <bit>

#include "common/base/thread.h"

namespace nova {
namespace {

// A number for each living thread of the process that called: the least that is free, so that threads that
// come and go use few lanes. Beyond 64 threads they share numbers.
class ThreadNumber {
 public:
  ThreadNumber() {
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    while (taken != UINT64_MAX) {
      const auto least = static_cast<size_t>(std::countr_one(taken));
      if (!taken_.compare_exchange_weak(taken, taken | uint64_t{1} << least, std::memory_order_relaxed))
        continue;
      number_ = least;
      mine_ = uint64_t{1} << least;
      return;
    }
    number_ = shared_.fetch_add(1, std::memory_order_relaxed);
  }
  ~ThreadNumber() { taken_.fetch_and(~mine_, std::memory_order_relaxed); }
  size_t number() const { return number_; }

 private:
  inline static std::atomic<uint64_t> taken_{0};  // one bit a number
  inline static std::atomic<size_t> shared_{0};
  size_t number_ = 0;
  uint64_t mine_ = 0;  // the bit of it; 0: it is shared
};

// Where the calling thread looks for a lane first, in every database.
size_t* PreferredLane() {
  static thread_local const ThreadNumber number;
  static thread_local size_t preferred = number.number();
  return &preferred;
}

}  // namespace

template <typename TakeFn>
CallerLane* LaneWaiters::WaitUntilTaken(const TakeFn& take) {
  MutexLock lock(&mu_);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  CallerLane* lane;
  for (;;) {
    woken_.store(false, std::memory_order_seq_cst);  // what is let go of from here on wakes a thread again
    if ((lane = take()) != nullptr) break;
    freed_.Wait(&mu_);
  }
  // More than one lane may have been let go of for the one wake-up.
  if (waiting_.fetch_sub(1, std::memory_order_seq_cst) > 1) {
    woken_.store(true, std::memory_order_seq_cst);
    freed_.Signal();
  }
  return lane;
}

void LaneWaiters::WakeOne() {
  MutexLock lock(&mu_);
  freed_.Signal();
}

bool CallerLane::Take(State from, State to) {
  uint32_t expected = from;
  if (!state_.compare_exchange_strong(expected, to, std::memory_order_seq_cst)) return false;
  holder_.store(Thread::CurrentId(), std::memory_order_relaxed);
  return true;
}

bool CallerLane::TryTake() { return Take(kFree, kHeld); }

// Contended: whoever sleeps on it is woken when it is let go of, for what it waits for may have run.
bool CallerLane::TryTakeFromSleeper() { return Take(kParked, kContended) || TryTake(); }

bool CallerLane::IsCurrentThread() const {
  return holder_.load(std::memory_order_relaxed) == Thread::CurrentId();
}

void CallerLane::Enter() {
  if (TryTake()) return;
  MutexLock lock(&mu_);
  EnterLocked();
}

void CallerLane::EnterLocked() {
  ++entering_;
  while (!TryTakeFromSleeper()) {
    uint32_t held = kHeld;
    state_.compare_exchange_strong(held, kContended, std::memory_order_relaxed);
    if (held == kFree || held == kParked) continue;
    left_.Wait(&mu_);
  }
  // Leave is to look at who else waits.
  if (--entering_ > 0 || !sleepers_.empty()) state_.store(kContended, std::memory_order_relaxed);
}

void CallerLane::Leave() {
  holder_.store(nullptr, std::memory_order_relaxed);
  uint32_t held = kHeld;
  // In one order with LaneWaiters::waiting_: a thread that waits either finds the lane free or is seen here.
  if (!state_.compare_exchange_strong(held, kFree, std::memory_order_seq_cst)) return LeaveSlow();
  if (waiters_ != nullptr) waiters_->OneIsFree();
}

void CallerLane::LeaveSlow() {
  MutexLock lock(&mu_);
  holder_.store(Thread::CurrentId(), std::memory_order_relaxed);
  RunQueued();
  LeaveLocked();
}

void CallerLane::LeaveLocked() {
  std::erase_if(sleepers_, [](Sleeper* s) {
    if (!*s->done) return false;
    s->over = true;
    s->wake.Signal();
    return true;
  });
  WatchTimers();
  holder_.store(nullptr, std::memory_order_relaxed);
  state_.store(sleepers_.empty() ? kFree : kParked, std::memory_order_seq_cst);
  if (entering_ > 0) left_.Signal();
  if (waiters_ != nullptr) waiters_->OneIsFree();
}

void CallerLane::RunQueued() {
  while (!queue_.empty()) {
    auto fn = std::move(queue_.front());
    queue_.pop_front();
    mu_.Unlock();
    fn();
    mu_.Lock();
  }
}

void CallerLane::Submit(absl::AnyInvocable<void()> fn) {
  {
    MutexLock lock(&mu_);
    queue_.push_back(std::move(fn));
    while (!TryTakeFromSleeper()) {
      uint32_t held = kHeld;
      if (state_.compare_exchange_strong(held, kContended, std::memory_order_relaxed) || held == kContended)
        return;  // the holder runs it when it leaves
    }
  }
  LeaveSlow();
}

void CallerLane::RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) {
  MutexLock lock(&mu_);
  timers_.emplace(when_ns, std::move(fn));
  if (!IsCurrentThread()) WatchTimers();  // else LeaveLocked does
}

bool CallerLane::TimersAreWatched() const {
  return std::any_of(sleepers_.begin(), sleepers_.end(),
                     [this](const Sleeper* s)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return s->until <= timers_.begin()->first; });
}

void CallerLane::WatchTimers() {
  if (timers_.empty() || sleepers_.empty() || TimersAreWatched()) return;
  sleepers_.front()->until = timers_.begin()->first;
  sleepers_.front()->wake.Signal();
}

bool CallerLane::WaitFor(const bool* done) {
  MutexLock lock(&mu_);
  for (;;) {
    while (!timers_.empty() && timers_.begin()->first <= Now()) {
      queue_.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
    RunQueued();
    if (*done) return true;
    Sleeper self(done);
    // If another one wakes for the first timer: the last of them is most likely of this thread's operation.
    if (!timers_.empty()) self.until = TimersAreWatched() ? timers_.rbegin()->first : timers_.begin()->first;
    sleepers_.push_back(&self);
    LeaveLocked();
    while (!self.over && Now() < self.until) self.wake.WaitUntil(&mu_, self.until);
    if (self.over) return false;
    EnterLocked();
    if (self.over) return true;
    std::erase(sleepers_, &self);
  }
}

// --- CallerLanes

CallerLanes::CallerLanes(size_t lanes, size_t lanes_for_reads) : shared_(lanes) {
  for (size_t i = 0; i < lanes + lanes_for_reads; ++i) {
    lanes_.push_back(std::make_unique<CallerLane>(i, i < shared_ ? &for_shared_ : &for_reads_));
  }
}

CallerLane* CallerLanes::Take(For what) {
  size_t* const preferred = PreferredLane();
  const size_t first = *preferred % shared_;
  if (lanes_[first]->TryTake()) return lanes_[first].get();
  for (size_t i = 1; i < shared_; ++i) {
    const size_t at = (first + i) % shared_;
    if (!lanes_[at]->TryTake()) continue;
    *preferred = at;
    return lanes_[at].get();
  }
  const size_t reads = lanes_.size() - shared_;
  const bool for_reads = what == For::kReads && reads > 0;
  const size_t begin = for_reads ? shared_ : 0, n = for_reads ? reads : shared_;
  const auto take = [&]() -> CallerLane* {
    for (size_t i = 0; i < n; ++i) {
      CallerLane* const lane = lanes_[begin + (first + i) % n].get();
      if (lane->TryTakeFromSleeper()) return lane;
    }
    return nullptr;
  };
  if (CallerLane* const lane = take()) return lane;
  return (for_reads ? for_reads_ : for_shared_).WaitUntilTaken(take);
}

}  // namespace nova
