#include "common/rdma/buffer_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/rdma/tcp_fabric.h"

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

TEST(BufferPoolTest, LargerThanASlabGetsASlabOfItsOwn) {
  auto fabric = NewTcpFabric();
  BufferPool pool(fabric.get(), Access::kLocal, 64 << 20, 1 << 16);
  Buffer b = pool.Allocate(3 << 20);
  ASSERT_TRUE(b);
  EXPECT_EQ(b.capacity(), size_t{4} << 20);
  std::memset(b.data(), 7, b.capacity());
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

}  // namespace
}  // namespace nova
