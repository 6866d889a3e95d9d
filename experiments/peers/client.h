// Client: a thread that does operations, one after another, from its construction until End.
//
// Thread safety: one owner.   Ownership: the store outlives it.   Errors: as the operations', Mix's mostly.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/histogram.h"
#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "experiments/peers/workload.h"

namespace nova {

inline constexpr Nanos kWindow = 100 * kMillisecond;
inline constexpr Nanos kStall = 100 * kMillisecond;  // an operation that takes longer is one

struct ClientOptions {
  Nanos origin = 0;       // of the windows
  Nanos counts_from = 0;  // operations that begin earlier are no part of latency() and stalls()
};

class Client {
 public:
  Client(std::function<void()> operation, const ClientOptions& options);
  ~Client();

  pid_t thread() const;
  void WaitForFirst() const { first_done_.Wait(); }  // operation
  uint64_t operations() const { return operations_.load(std::memory_order_relaxed); }
  Nanos TakeLongest() {
    return longest_.exchange(0, std::memory_order_relaxed);
  }  // operation since the last call

  void End();  // waits until its last operation is done; idempotent
  // After End:
  const Histogram& latency() const { return latency_; }  // nanoseconds
  uint64_t stalls() const { return stalls_; }
  const std::vector<uint64_t>& windows() const { return windows_; }  // operations that ended in each

 private:
  void Loop();
  void Count(Nanos begin, Nanos end);

  const std::function<void()> operation_;
  const ClientOptions options_;
  Notification started_, first_done_;
  pid_t tid_ = 0;  // set before started_
  std::atomic<bool> ending_{false};
  std::atomic<uint64_t> operations_{0};
  std::atomic<Nanos> longest_{0};
  Histogram latency_;
  uint64_t stalls_ = 0;
  std::vector<uint64_t> windows_;
  std::unique_ptr<Thread> thread_;
};

std::function<void()> OperationOf(Mix mix);  // its RunOne
// Several at once. Their sequences are drawn before, by `seed` and its successors.
std::vector<Sequence> SequencesFor(int clients, const RecordOptions& options, uint64_t seed = 1,
                                   Distribution distribution = Distribution::kUniform);
using Clients = std::vector<std::unique_ptr<Client>>;
Clients StartClients(Store* store, const Workload& workload, const RecordOptions& options,
                     std::vector<Sequence> sequences, const ClientOptions& client);
uint64_t OperationsOf(const Clients& clients);
Nanos TakeLongestOf(const Clients& clients);

}  // namespace nova
