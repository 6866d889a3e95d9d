// Writers: clients on threads of their own that write and read the same keys, for histories that nova_linear
// judges (tests/linear).
//
// Thread safety: one thread.   Ownership: cluster and history outlive them.   Errors: GoogleTest failures.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "common/base/thread.h"
#include "tests/cluster/connect_client.h"
#include "tests/linear/register_history.h"

namespace nova {

// Until the end of its scope.
class Writers {
 public:
  static constexpr int kClients = 6;

  // Each client rests for `pause_ns` after each operation.
  Writers(const std::string& coordinators, RegisterHistory* history, Nanos pause_ns = kMillisecond) {
    RegisterLoadOptions load;
    for (uint64_t i = 0; i < 12; ++i) {  // over all ranges, which are cut for YCSB's keys
      load.keys.push_back(StrCat("user", 1'000'000'000'000'000'000 + i * 680'000'000'000'000'000));
    }
    for (load.client = 0; load.client < kClients; ++load.client) {
      auto client = ConnectClient(coordinators, 4'000);
      if (client == nullptr) return;
      clients_.push_back(std::move(client));
      loads_.push_back(std::make_unique<RegisterLoad>(clients_.back().get(), history, load));
    }
    for (auto& l : loads_) {
      threads_.push_back(std::make_unique<Thread>("writer", [this, pause_ns, mine = l.get()] {
        for (; !stop_.load(); SleepFor(pause_ns)) mine->Step();
      }));
    }
  }
  ~Writers() { stop_.store(true); }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<RegisterLoad>> loads_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
