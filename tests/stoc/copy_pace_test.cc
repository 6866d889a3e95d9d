// How long copies from StoC to StoC take against the bandwidth that they are given (rebuild, S5), in
// simulated time: a busy machine's threads answer after milliseconds, and the bandwidth is used all the same.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/stoc/stoc_rig.h"

namespace nova {
namespace {

constexpr uint64_t kBandwidth = 100'000'000;  // of each StoC, bytes per second
constexpr uint32_t kStocs = 4;
constexpr uint64_t kFiles = 16;  // that each StoC gives, and takes: the last ones leave some unused
constexpr uint64_t kFileBytes = 2 << 20;
constexpr int kAskedPerTarget = 3;  // copies at a time: two are made, one waits

StocId GiverOf(uint64_t file, uint32_t target) {  // each of the others in turn
  const auto step = static_cast<uint32_t>(1 + file % (kStocs - 1));
  return StocId(1 + (target - 1 + step) % kStocs);
}

// The StoCs that a fifth one has left.
struct Survivors {
  explicit Survivors(FabricWorld* world) : client(world, "ltc-1", 10) {
    TestStocOptions options;
    options.server.copy_bytes_per_second = kBandwidth;
    for (uint32_t id = 1; id <= kStocs; ++id) {
      media.push_back(std::make_unique<SimDisk>());
      disks.push_back(media.back()->Mount());
      stocs.push_back(std::make_unique<TestStoc>(world, id, 100, disks.back().get(), options));
    }
    std::vector<TestStoc*> live;
    for (const auto& s : stocs) live.push_back(s.get());
    client.Update(live);
  }
  StocFileId FileOf(uint32_t target, uint64_t file) const { return FileId(target * 1000 + file); }
  void Fill(const std::string& data) {
    for (uint32_t target = 1; target <= kStocs; ++target) {
      for (uint64_t n = 0; n < kFiles; ++n) {
        const Creator writer{RangeId(7), Epoch(3), 1};
        const Status s = client.stocs->WriteFile(GiverOf(n, target), FileOf(target, n), writer, data, Soon());
        ASSERT_TRUE(s.ok()) << s;
      }
    }
  }
  // All copies; until the last is made.
  void CopyAll() {
    std::vector<std::atomic<uint64_t>> next(kStocs + 1);
    std::vector<std::unique_ptr<Thread>> threads;
    for (uint32_t i = 0; i < kStocs * kAskedPerTarget; ++i) {
      const uint32_t target = 1 + i % kStocs;
      threads.push_back(std::make_unique<Thread>(StrCat("copier.", i), [&, target] {
        for (uint64_t n = 0; (n = next[target]++) < kFiles;) {
          const CopyFileRequest request{
              FileOf(target, n), {RangeId(7), Epoch(3), 5}, GiverOf(n, target), Incarnation(100), kFileBytes};
          const auto made = client.stocs->CopyFile(StocId(target), request, Now() + 60 * kSecond);
          EXPECT_TRUE(made.status.ok()) << made.status;
        }
      }));
    }
    for (auto& t : threads) t->Join();
  }

  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<TestStoc>> stocs;
  TestClient client;
};

TEST(CopyPaceTest, S5SlowAnswersLeaveNoBandwidthUnused) {
  const std::string data = Pattern(kFileBytes, 1);
  InFabricWorld(FabricKind::kSim, [&](FabricWorld* world) {
    Survivors cluster(world);
    ASSERT_NO_FATAL_FAILURE(cluster.Fill(data));
    SimNetworkOptions busy;
    busy.min_delay_ns = 3 * kMillisecond;
    busy.max_delay_ns = 6 * kMillisecond;
    world->network()->set_options(busy);
    const Nanos begin = Now();
    cluster.CopyAll();
    const double took = static_cast<double>(Now() - begin) / kSecond;
    const double bound = static_cast<double>(2 * kFiles * kFileBytes) / static_cast<double>(kBandwidth);
    std::printf("%.3f s at a bound of %.3f: %.2f\n", took, bound, took / bound);
    EXPECT_LT(took, 1.15 * bound);
    EXPECT_GE(took, 0.95 * bound);  // a burst passes at once
  });
}

}  // namespace
}  // namespace nova
