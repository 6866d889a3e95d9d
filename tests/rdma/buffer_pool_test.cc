#include "common/rdma/buffer_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/rdma/tcp/tcp_fabric.h"

namespace nova {
namespace {

TEST(BufferPoolTest, PiecesAreRegisteredRoundedAndReused) {
  auto fabric = NewTcpFabric();
  {
    BufferPool pool(fabric.get(), Access::kRemoteWrite, 4 << 20);
    Buffer a = pool.Allocate(1000);
    ASSERT_TRUE(a);
    EXPECT_EQ(a.capacity(), 1024u);
    EXPECT_NE(a.lkey(), 0u);
    EXPECT_NE(a.rkey(), 0u);
    EXPECT_EQ(a.remote().size, 1024u);
    EXPECT_EQ(pool.bytes_in_use(), 1024u);
    EXPECT_EQ(pool.bytes_registered(), size_t{1} << 20);
    EXPECT_EQ(fabric->counters().regions, 1);
    std::byte* const where = a.data();
    a.Reset();
    EXPECT_FALSE(a);
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    Buffer b = pool.Allocate(600);
    EXPECT_EQ(b.data(), where) << "the piece that was warm last";
    EXPECT_EQ(pool.Allocate(1).capacity(), 256u);
    Buffer moved = std::move(b);
    EXPECT_FALSE(b);
    EXPECT_EQ(moved.data(), where);
  }
  EXPECT_EQ(fabric->counters().regions, 0);
}

TEST(BufferPoolTest, ItNeverRegistersMoreThanItsBound) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 2 << 20);
  EXPECT_FALSE(pool.Allocate(3 << 20));
  std::vector<Buffer> buffers;
  for (;;) {
    Buffer b = pool.Allocate(64 * 1024);
    if (!b) break;
    std::memset(b.data(), 1, b.capacity());
    buffers.push_back(std::move(b));
  }
  EXPECT_EQ(buffers.size(), 32u);
  EXPECT_EQ(pool.bytes_registered(), size_t{2} << 20);
  EXPECT_EQ(pool.bytes_in_use(), size_t{2} << 20);
  EXPECT_FALSE(pool.Allocate(256));
  buffers.pop_back();
  EXPECT_TRUE(pool.Allocate(64 * 1024));
}

TEST(BufferPoolTest, WhatMustGoOnGoesBeyondTheBoundAndComesBackToIt) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 2 << 20);
  std::vector<Buffer> all, beyond;
  while (Buffer b = pool.Allocate(1 << 20)) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 2u);
  for (int i = 0; i < 3; ++i) {
    beyond.push_back(pool.AllocateBeyond(64 << 10));
    ASSERT_TRUE(beyond.back());
    std::memset(beyond.back().data(), 1, beyond.back().capacity());
  }
  EXPECT_EQ(pool.bytes_registered(), size_t{3} << 20);
  all.clear();
  EXPECT_TRUE(pool.Allocate(1 << 20)) << "one of two has no users";
  beyond.clear();
  while (Buffer b = pool.Allocate(1 << 20)) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 2u);
  EXPECT_LE(pool.bytes_registered(), size_t{3} << 20);
  all.clear();
  EXPECT_TRUE(pool.Allocate(2 << 20)) << "for which all others make room";
  EXPECT_EQ(pool.bytes_registered(), size_t{2} << 20);
}

TEST(BufferPoolTest, LargerThanASlabGetsASlabOfItsOwn) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 64 << 20, 1 << 16);
  Buffer b = pool.Allocate(3 << 20);
  ASSERT_TRUE(b);
  EXPECT_EQ(b.capacity(), size_t{4} << 20);
  std::memset(b.data(), 7, b.capacity());
}

// As many buffers of `bytes` as the pool gives.
std::vector<Buffer> TakeAll(BufferPool* pool, size_t bytes) {
  std::vector<Buffer> all;
  while (Buffer b = pool->Allocate(bytes)) {
    std::memset(b.data(), 1, b.capacity());
    all.push_back(std::move(b));
  }
  return all;
}

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(BufferPoolTest, MemoryOfABurstOfOneSizeServesEveryOtherAfterwards) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 16 * kMiB);
  for (const size_t first : {size_t{256}, 64 * kKiB, kMiB, 2 * kMiB, 16 * kMiB}) {
    for (const size_t then : {size_t{256}, 64 * kKiB, kMiB, 2 * kMiB, 16 * kMiB}) {
      EXPECT_EQ(TakeAll(&pool, first).size(), 16 * kMiB / first);
      EXPECT_EQ(pool.bytes_in_use(), 0u);
      EXPECT_EQ(TakeAll(&pool, then).size(), 16 * kMiB / then) << "after a burst of " << first;
      EXPECT_EQ(pool.bytes_in_use(), 0u);
      EXPECT_LE(pool.bytes_registered(), 16 * kMiB);
    }
  }
}

TEST(BufferPoolTest, PinnedPiecesKeepTheirBytesAndTheirSlabsOnly) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 16 * kMiB);
  std::vector<Buffer> pinned = TakeAll(&pool, 4 * kKiB);
  ASSERT_EQ(pinned.size(), 4096u);
  pinned.resize(300);  // of two slabs
  const uint32_t key = pinned[299].lkey();
  EXPECT_EQ(TakeAll(&pool, 2 * kMiB).size(), 7u);
  EXPECT_EQ(TakeAll(&pool, kMiB).size(), 14u);
  EXPECT_EQ(TakeAll(&pool, 4 * kKiB).size(), 4096u - 300) << "what is free of their slabs, too";
  for (const Buffer& b : pinned) {
    for (size_t i = 0; i < b.capacity(); ++i) ASSERT_EQ(b.data()[i], std::byte{1});
  }
  EXPECT_EQ(pinned[299].lkey(), key);
  EXPECT_EQ(pool.bytes_in_use(), 300 * 4 * kKiB);
  pinned.clear();
  EXPECT_EQ(TakeAll(&pool, 16 * kMiB).size(), 1u);
}

// What is given back to the system is revoked first: an old key reaches nothing (F4).
TEST(BufferPoolTest, F4_SlabsThatMakeRoomAreRevoked) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kRemoteWrite, 4 * kMiB);
  EXPECT_EQ(TakeAll(&pool, kMiB).size(), 4u);
  EXPECT_EQ(fabric->counters().regions, 4);
  const Buffer pinned = pool.Allocate(kMiB);
  EXPECT_FALSE(pool.Allocate(4 * kMiB));
  EXPECT_EQ(fabric->counters().regions, 4) << "what would not suffice is not given back";
  EXPECT_TRUE(pool.Allocate(2 * kMiB));
  EXPECT_LE(pool.bytes_registered(), 4 * kMiB);
  EXPECT_LE(fabric->counters().regions, 3);
}

TEST(BufferPoolTest, SizesInTurnRegisterNothingAnew) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 4 * kMiB);
  for (int i = 0; i < 1000; ++i) {
    for (size_t bytes = 256; bytes <= kMiB; bytes *= 2) ASSERT_TRUE(pool.Allocate(bytes));
  }
  EXPECT_EQ(pool.bytes_registered(), kMiB);
}

// A system with less lockable memory than the pool's bound.
class LittleLockableMemory : public Fabric {
 public:
  explicit LittleLockableMemory(uint64_t bytes) : fabric_(NewTcpFabric()), left_(bytes) {}
  std::string_view name() const override { return fabric_->name(); }
  StatusOr<MemoryRegion> Register(void* address, uint64_t size, Access access) override {
    if (size > left_) return absl::ResourceExhaustedError("no more memory may be locked");
    left_ -= size;
    return fabric_->Register(address, size, access);
  }
  void Revoke(const MemoryRegion& region) override {
    left_ += region.size;
    fabric_->Revoke(region);
  }
  StatusOr<std::unique_ptr<Port>> OpenPort(const PortOptions& options) override {
    return fabric_->OpenPort(options);
  }
  StatusOr<std::string> Listen(const std::string& address, const Hello& self, std::vector<Port*> ports,
                               AcceptCheck check) override {
    return fabric_->Listen(address, self, std::move(ports), std::move(check));
  }
  FabricCounters counters() const override { return fabric_->counters(); }

 private:
  const std::unique_ptr<Fabric> fabric_;
  uint64_t left_;
};

TEST(BufferPoolTest, EmptySlabsMakeRoomWhereTheSystemGivesNoMore) {
  LittleLockableMemory fabric(4 * kMiB);
  BufferPool pool(&fabric, Access::kLocal, 64 * kMiB);
  EXPECT_EQ(TakeAll(&pool, 4 * kKiB).size(), 1024u);
  EXPECT_EQ(TakeAll(&pool, 4 * kMiB).size(), 1u);
  EXPECT_EQ(TakeAll(&pool, 4 * kKiB).size(), 1024u);
  EXPECT_EQ(pool.bytes_registered(), 4 * kMiB);
}

TEST(BufferPoolTest, ThreadsNeverShareAPiece) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 8 << 20);
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<Thread>("pool." + std::to_string(t), [&pool, t] {
        Random random(static_cast<uint64_t>(t));
        std::vector<Buffer> held;
        for (int i = 0; i < 5000; ++i) {
          if (held.size() < 20 && !random.OneIn(3)) {
            Buffer b = pool.Allocate(random.Uniform(10000) + 1);
            if (!b) continue;
            std::memset(b.data(), t, b.capacity());
            held.push_back(std::move(b));
          } else if (!held.empty()) {
            const size_t victim = random.Uniform(held.size());
            for (const size_t at : {size_t{0}, held[victim].capacity() - 1}) {
              EXPECT_EQ(held[victim].data()[at], static_cast<std::byte>(t));
            }
            std::swap(held[victim], held.back());
            held.pop_back();
          }
        }
      }));
    }
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

// Threads that want different sizes, more together than there is: each gets its own size again and again, and
// all of it comes back.
TEST(BufferPoolTest, ThreadsOfAllSizesShareOneBound) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 4 * kMiB);
  std::atomic<int> threads_served{0};
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::make_unique<Thread>("pool." + std::to_string(t), [&, t] {
        const size_t bytes = std::array{size_t{300}, 20 * kKiB, 700 * kKiB, 2 * kMiB}[static_cast<size_t>(t)];
        const size_t most = kMiB / bytes + 1;
        int got = 0;
        for (const Nanos until = Now() + 20 * kSecond; got < 200 && Now() < until;) {
          std::vector<Buffer> held;
          while (held.size() < most) {
            Buffer b = pool.Allocate(bytes);
            if (!b) break;
            b.data()[0] = b.data()[b.capacity() - 1] = static_cast<std::byte>(t + 1);
            held.push_back(std::move(b));
          }
          for (const Buffer& b : held) {
            EXPECT_EQ(b.data()[0], static_cast<std::byte>(t + 1));
            EXPECT_EQ(b.data()[b.capacity() - 1], static_cast<std::byte>(t + 1));
          }
          got += !held.empty();
        }
        threads_served += got == 200;
      }));
    }
  }
  EXPECT_EQ(threads_served, 4);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_LE(pool.bytes_registered(), 4 * kMiB);
  EXPECT_TRUE(pool.Allocate(4 * kMiB));
}

}  // namespace
}  // namespace nova
