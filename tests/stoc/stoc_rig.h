// StoCs and their clients in one process, over any fabric, without a cluster around them.
//
// Thread safety: the test's thread or main fiber.   Ownership: worlds and disks outlive StoCs, StoCs and
//                clients each other freely.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/executor.h"
#include "common/base/sim_disk.h"
#include "stoc/stoc_client.h"
#include "stoc/stoc_server.h"
#include "tests/rdma/blocking_call.h"
#include "tests/rdma/fabric_world.h"

namespace nova {

struct TestStocOptions {
  ExposedMemoryOptions log_memory{64 << 20, 1 << 20, 2};
  ExposedMemoryOptions buffer_memory{128 << 20, 1 << 20, 1};
  FileStoreOptions files{.reserve_bytes = 0, .max_open_files = 8};
  StocServerOptions server;
  int xchg_threads = 1;
};

class TestStoc {
 public:
  TestStoc(FabricWorld* world, uint32_t id, uint64_t incarnation, Disk* disk, TestStocOptions options = {});
  ~TestStoc();
  void Stop();  // orderly
  NodeInfo info() const { return info_; }
  StocId id() const { return info_.stoc_id; }
  LogMember member(LogMedia media = LogMedia::kMemory) const {
    return {info_.stoc_id, info_.incarnation, HasFiles(media) ? info_.store : Uuid{}};
  }

  Metrics metrics;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<FileStore> files;
  FenceTable fences;
  std::unique_ptr<ExposedMemory> log_memory;
  std::unique_ptr<ExposedMemory> buffer_memory;
  std::unique_ptr<SegmentPool> segments;
  std::vector<std::unique_ptr<Xchg>> xchgs;
  std::unique_ptr<StocClient> others;
  std::unique_ptr<StocServer> server;

 private:
  NodeInfo info_;
  bool stopped_ = false;
};

class TestExecutor : public Executor {
 public:
  explicit TestExecutor(Xchg* xchg) : xchg_(xchg) {}
  void Submit(absl::AnyInvocable<void()> fn) override { xchg_->Submit(std::move(fn)); }
  void RunAt(Nanos when_ns, absl::AnyInvocable<void()> fn) override { xchg_->RunAt(when_ns, std::move(fn)); }
  bool IsCurrentThread() const override { return xchg_->IsCurrentThread(); }
  size_t index() const override { return xchg_->options().index; }
  Xchg* xchg() const { return xchg_; }

 private:
  Xchg* const xchg_;
};

// An LTC, as far as StoCs see one.
class TestClient {
 public:
  // `before_start` may add round hooks.
  TestClient(FabricWorld* world, const std::string& name, uint64_t incarnation, int xchg_threads = 1,
             const std::function<void(TestClient*)>& before_start = nullptr);
  ~TestClient();
  void Stop();                                       // its threads; what refers to its parts may go then
  void Update(const std::vector<TestStoc*>& stocs);  // tells the StoCs, too, which there are
  void On(size_t xchg, std::function<void()> fn);    // runs it there, waits

  // Blocking forms of what is asynchronous.
  std::pair<Outcome, RemoteBuffer> OpenSegment(const TestStoc& stoc, RangeId range, Epoch epoch,
                                               const Uuid& log, uint32_t index = 0, uint64_t size = 1 << 20);
  Outcome FreeLogs(const TestStoc& stoc, RangeId range, Epoch epoch, const std::vector<Uuid>& logs);
  Outcome Write(const TestStoc& stoc, const RemoteBuffer& memory, std::string_view bytes);
  std::pair<Outcome, std::string> Call(const TestStoc& stoc, uint16_t type, std::string_view body);

  std::unique_ptr<Fabric> fabric;
  std::vector<std::unique_ptr<Xchg>> xchgs;
  std::vector<std::unique_ptr<TestExecutor>> executors;
  std::unique_ptr<StocClient> stocs;
  std::unique_ptr<BufferPool> buffers;
};

// A ping that is waited for; Unavailable: nobody answers.
inline StatusOr<Incarnation> PingOf(StocClient* stocs, StocId stoc, Nanos deadline_ns) {
  const auto answer = stocs->PingAll({&stoc, 1}, deadline_ns)[0];
  if (!answer) return absl::UnavailableError("no answer");
  return *answer;
}

// A deadline that is met unless something hangs; NOVA_TEST_PATIENCE times as late, where all is slow.
inline Nanos Soon() {
  static const char* const patience = getenv("NOVA_TEST_PATIENCE");
  static const int64_t times = patience == nullptr ? 1 : std::max(1, atoi(patience));
  return Now() + 10 * times * kSecond;
}
inline StocFileId FileId(uint64_t n, uint32_t part = 0) { return {{0x1000, n}, part}; }

}  // namespace nova
