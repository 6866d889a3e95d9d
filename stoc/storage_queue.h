// StorageQueue: work for the threads that wait for a StoC's disk, in two lanes. Short reads, which gets and
// short scans wait for, are served beside the other work and not behind it: writing a table takes a disk tens
// of milliseconds, and a flush or a compaction sends many.
//
//   of n threads                      each takes
//   the first half                    other work; a short read where there is none
//   the next ones, but for the last   a short read; other work where there is none
//   the last one                      short reads alone
//
// So n - 1 threads at most are kept by other work, and while both wait each lane has a thread that prefers
// it. A thread that is alone takes all in order.
//
// Thread safety: all.
// Locks: its own, a leaf.
// Ownership: work left at destruction is destroyed.
// Errors: false, null: full or closed; see each method.
#pragma once

#include <deque>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "common/base/mutex.h"

namespace nova {

class StorageQueue {
 public:
  using Work = absl::AnyInvocable<void()>;
  enum class Lane { kShortReads, kOther };
  static constexpr size_t kShortReadBytes = 64 << 10;  // of a read, at most: a block or a few

  // `capacity` of what waits in both lanes together.
  StorageQueue(int threads, size_t capacity) : threads_(threads), capacity_(capacity) {}

  // False: it is full or closed, and `work` is dropped. Does not wait.
  bool TryPush(Lane lane, Work work) {
    MutexLock lock(&mu_);
    if (closed_ || reads_.size() + other_.size() >= capacity_) return false;
    const bool is_read = lane == Lane::kShortReads && threads_ > 1;
    (is_read ? reads_ : other_).push_back(std::move(work));
    if (is_read && std::exchange(reader_waits_, false)) {
      read_ready_.Signal();
    } else {
      ready_.Signal();
    }
    return true;
  }

  // Waits for work that the thread of that number, from 0 on, takes. Null: closed, and there is none left.
  Work Pop(int thread) {
    const bool reads_alone = threads_ > 1 && thread == threads_ - 1;
    const bool prefers_reads = reads_alone || (threads_ > 1 && thread >= threads_ / 2);
    MutexLock lock(&mu_);
    for (;;) {
      std::deque<Work>* const first = prefers_reads ? &reads_ : &other_;
      std::deque<Work>* const second = prefers_reads ? &other_ : &reads_;
      std::deque<Work>* const from = !first->empty() ? first : second;
      if (!from->empty() && !(reads_alone && from == &other_)) {
        Work work = std::move(from->front());
        from->pop_front();
        return work;
      }
      if (closed_) return nullptr;
      if (reads_alone) {
        reader_waits_ = true;
        read_ready_.Wait(&mu_);
      } else {
        ready_.Wait(&mu_);
      }
    }
  }

  // Takes no more work and wakes all waiting threads; work in it is still handed out.
  void Close() {
    MutexLock lock(&mu_);
    closed_ = true;
    ready_.SignalAll();
    read_ready_.SignalAll();
  }

 private:
  const int threads_;
  const size_t capacity_;
  Mutex mu_;
  CondVar ready_;       // for all threads but the last of several
  CondVar read_ready_;  // for that one
  std::deque<Work> reads_ ABSL_GUARDED_BY(mu_), other_ ABSL_GUARDED_BY(mu_);
  bool reader_waits_ ABSL_GUARDED_BY(mu_) = false;  // for read_ready_, which was not signalled since
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace nova
