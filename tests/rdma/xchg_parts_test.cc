// The parts of an Xchg that have a state of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/thread.h"
#include "common/rdma/age_list.h"
#include "common/rdma/closure_queue.h"
#include "common/rdma/record_pool.h"
#include "common/rdma/send_memory.h"
#include "common/rdma/tcp/tcp_fabric.h"
#include "common/rdma/xchg_shares.h"

namespace nova {
namespace {

using ::testing::ElementsAre;

struct Record : PooledRecord {
  int value = 0;
};

TEST(RecordPoolTest, AnIdFindsTheRecordUntilThatUseOfItIsOver) {
  RecordPool<Record> pool;
  Record* const a = pool.New();
  Record* const b = pool.New();
  const uint64_t id = a->id();
  EXPECT_NE(a->id(), b->id());
  EXPECT_EQ(pool.Find(id), a);
  pool.Free(a);
  EXPECT_EQ(pool.Find(id), nullptr);
  EXPECT_EQ(pool.New(), a) << "it is used again";
  EXPECT_NE(a->id(), id);
  EXPECT_EQ(pool.Find(id), nullptr) << "the id of an earlier use finds the next one";
  EXPECT_EQ(pool.Find(a->id()), a);
  EXPECT_EQ(pool.Find(0), nullptr);
  EXPECT_EQ(pool.Find(UINT64_MAX), nullptr);
}

// Users mark ids by their top bit.
TEST(RecordPoolTest, IdsHave63BitsHoweverOftenARecordIsUsed) {
  RecordPool<Record> pool;
  Record* const a = pool.New();
  a->serial = INT32_MAX;
  const uint64_t last = a->id();
  EXPECT_EQ(last >> 63, 0u);
  pool.Free(a);
  EXPECT_EQ(pool.New()->id() >> 63, 0u);
  EXPECT_EQ(pool.Find(last), nullptr);
}

TEST(RecordPoolTest, ForEachVisitsWhatIsInUseAndMayFreeIt) {
  RecordPool<Record> pool;
  for (int i = 0; i < 4; ++i) pool.New()->value = i;
  std::vector<int> seen;
  pool.ForEach([&](Record* r) {
    seen.push_back(r->value);
    if (r->value % 2 == 0) pool.Free(r);
  });
  pool.ForEach([&](Record* r) { seen.push_back(r->value); });
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 1, 3));
}

struct Linked {
  int value = 0;
  Linked* prev = nullptr;
  Linked* next = nullptr;
};

TEST(AgeListTest, TheOldestIsWhatWasAddedFirstWhateverWasRemoved) {
  for (int removed = 0; removed < 4; ++removed) {
    std::vector<Linked> records(4);
    AgeList<Linked> list;
    for (int i = 0; i < 4; ++i) list.Add(&(records[i] = {.value = i}));
    list.Remove(&records[removed]);
    list.Add(&records[removed]);  // it is the youngest now
    std::vector<int> order;
    for (; !list.empty(); list.Remove(list.oldest())) order.push_back(list.oldest()->value);
    std::vector<int> expected;
    for (int i = 0; i < 4; ++i) {
      if (i != removed) expected.push_back(i);
    }
    expected.push_back(removed);
    EXPECT_EQ(order, expected);
    EXPECT_EQ(list.oldest(), nullptr);
  }
}

TEST(ClosureQueueTest, RunsWhatWasAddedInOrderAndWhatThatAddsNextTime) {
  ClosureQueue queue;
  std::vector<int> ran;
  EXPECT_FALSE(queue.Run());
  queue.Add([&] {
    ran.push_back(1);
    queue.Add([&] { ran.push_back(3); });
  });
  queue.Add([&] { ran.push_back(2); });
  EXPECT_TRUE(queue.Run());
  EXPECT_THAT(ran, ElementsAre(1, 2));
  EXPECT_TRUE(queue.Run());
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
  EXPECT_FALSE(queue.Run());
}

TEST(ClosureQueueTest, NothingThatThreadsAddIsLostAndNothingRunsAfterClose) {
  constexpr int kThreads = 4, kEach = 2000;
  ClosureQueue queue;
  int ran = 0;  // this thread's
  std::vector<std::unique_ptr<Thread>> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(std::make_unique<Thread>("adds", [&] {
      for (int n = 0; n < kEach; ++n) queue.Add([&ran] { ++ran; });
    }));
  }
  while (ran < kThreads * kEach / 2) queue.Run();
  for (const auto& t : threads) t->Join();
  const size_t left = queue.Close().size();
  EXPECT_EQ(ran + static_cast<int>(left), kThreads * kEach);
  auto held = std::make_shared<int>(0);
  queue.Add([held] { FAIL() << "it was added after Close"; });
  EXPECT_EQ(held.use_count(), 1) << "it was kept";
  const int before = ran;
  queue.Run();
  EXPECT_EQ(ran, before);
}

class SendMemoryTest : public ::testing::Test {
 protected:
  static constexpr size_t kMost = 128;  // bytes of a piece

  // What the pieces of the message carry, put together; checks their headers.
  static std::string BodyOf(const SendMemory& memory, size_t total) {
    std::string body;
    const auto& pieces = memory.message();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const LocalBuffer& local = pieces[i].local;
      MessageHeader header;
      std::memcpy(&header, local.address, sizeof(header));
      EXPECT_LE(local.length, kMost);
      EXPECT_EQ(header.request_id, 7u);
      EXPECT_EQ(header.body_length, i == 0 ? total : local.length - sizeof(header));
      EXPECT_EQ((header.flags & MessageHeader::kContinuation) != 0, i > 0);
      EXPECT_EQ((header.flags & MessageHeader::kMorePieces) != 0, i + 1 < pieces.size());
      EXPECT_NE(header.flags & MessageHeader::kReply, 0);
      body.append(static_cast<const char*>(local.address) + sizeof(header), local.length - sizeof(header));
    }
    return body;
  }
  static MessageHeader Header() {
    MessageHeader header;
    header.type = 1;
    header.flags = MessageHeader::kReply;
    header.request_id = 7;
    return header;
  }

  std::unique_ptr<Fabric> fabric_ = NewTcpFabric();
};

TEST_F(SendMemoryTest, AMessageLiesInPiecesWhateverPartsItIsMadeOf) {
  SendMemory memory(fabric_.get(), 1 << 20);
  const std::string bytes(1000, 'x');
  for (size_t total : {0, 1, 95, 96, 97, 192, 193, 999}) {
    for (size_t cut : {size_t{0}, total / 3, total}) {
      const std::string a = bytes.substr(0, cut), b = std::string(total - cut, 'y');
      const std::string_view parts[] = {a, {}, b};
      ASSERT_TRUE(memory.Encode(Header(), parts, total, kMost));
      EXPECT_EQ(BodyOf(memory, total), a + b);
      size_t taken = 0;
      for (const auto& piece : memory.message()) taken += piece.taken;
      EXPECT_EQ(memory.bytes(), taken);
      for (const auto& piece : memory.message()) taken -= memory.Free(piece.index);
      EXPECT_EQ(taken, 0u);
      EXPECT_EQ(memory.bytes(), 0u);
    }
  }
}

TEST_F(SendMemoryTest, AMessageThatDoesNotFitTakesNothing) {
  SendMemory memory(fabric_.get(), 64 << 10);
  const std::string body(100 << 10, 'x');
  const std::string_view parts[] = {body};
  EXPECT_FALSE(memory.Encode(Header(), parts, body.size(), kMost));
  EXPECT_EQ(memory.bytes(), 0u);
  const std::string_view some[] = {std::string_view(body).substr(0, 1000)};
  EXPECT_TRUE(memory.Encode(Header(), some, 1000, kMost));
}

class XchgSharesTest : public SendMemoryTest {
 protected:
  static constexpr size_t kPool = 1 << 20;
  XchgSharesTest() { options_.send_pool_bytes = kPool; }
  // Takes so many bytes of send memory for the connection, and never gives them back.
  void Send(LinkShare* link, size_t bytes) {
    const std::string body(bytes - sizeof(MessageHeader), 'x');
    const std::string_view parts[] = {body};
    ASSERT_TRUE(memory_.Encode(Header(), parts, body.size(), bytes));
    for (const auto& piece : memory_.message()) link->send_bytes += piece.taken;
  }

  XchgOptions options_;
  SendMemory memory_{fabric_.get(), kPool};
  XchgShares shares_{&options_, &memory_};
};

TEST_F(XchgSharesTest, OneThatTakesNothingLeavesTheOthersTheirShare) {
  LinkShare greedy, first;
  while (shares_.MayCall(greedy, /*queued=*/0)) Send(&greedy, 16 << 10);
  EXPECT_LE(greedy.send_bytes, kPool / 2);
  EXPECT_TRUE(shares_.MayCall(first, 0)) << "one that has nothing may always call";
  EXPECT_TRUE(shares_.MayBegin(first, 0, 0));
  EXPECT_FALSE(shares_.MayCall(first, options_.max_queued_calls_per_peer));
}

TEST_F(XchgSharesTest, RepliesThatAreExpectedCountAsTaken) {
  LinkShare busy, other;
  EXPECT_TRUE(shares_.MayBegin(busy, 0, 0));
  shares_.Expect(&busy, 0, kPool / 2);
  EXPECT_FALSE(shares_.MayBegin(busy, 0, 0)) << "it has far more than a part of what is free";
  EXPECT_TRUE(shares_.MayBegin(other, 0, 0));
  shares_.Expect(&busy, kPool / 2, kPool);
  EXPECT_FALSE(shares_.MayBegin(other, 0, 0)) << "what is kept for calls of our own is not begun";
  shares_.Expect(&busy, kPool, 0);
  EXPECT_TRUE(shares_.MayBegin(busy, 0, 0));
  EXPECT_EQ(busy.expected_bytes, 0u);
}

TEST_F(XchgSharesTest, WhatIsBegunIsBoundedForOneAndForAllAndShortRequestsAreNot) {
  EXPECT_EQ(XchgShares::BytesOf(4096), 0u);
  EXPECT_EQ(XchgShares::BytesOf(4097), 4097u);
  options_.max_begun_bytes = 1000;
  options_.max_call_bytes_per_connection = 200;
  LinkShare a, b, c;
  EXPECT_TRUE(shares_.MayBegin(a, 0, 900)) << "a longer one goes alone";
  shares_.CountBegun(&a, 100);
  EXPECT_TRUE(shares_.MayBegin(a, 0, 100));
  EXPECT_FALSE(shares_.MayBegin(a, 0, 101)) << "the bound of one connection";
  shares_.CountBegun(&b, 600);
  EXPECT_FALSE(shares_.MayBegin(a, 0, 1)) << "a quarter of what others leave";
  EXPECT_TRUE(shares_.MayBegin(a, 0, 0));
  EXPECT_TRUE(shares_.MayBegin(c, 0, 300)) << "the first of a connection";
  shares_.CountBegun(&c, 300);
  EXPECT_FALSE(shares_.MayBegin(LinkShare(), 0, 1)) << "of all";
  EXPECT_TRUE(shares_.MayBegin(LinkShare(), 0, 0));
  for (LinkShare* link : {&a, &b, &c}) shares_.CountEnded(link, link->begun_bytes);
  EXPECT_TRUE(shares_.MayBegin(a, 0, 900));
  EXPECT_EQ(a.begun, 0u);
}

TEST_F(XchgSharesTest, WhatWaitsIsBoundedForOneAndForAll) {
  options_.max_waiting_bytes = 1000;
  options_.max_waiting_bytes_per_connection = 400;
  LinkShare a, b;
  EXPECT_TRUE(shares_.MayWait(a, 250)) << "a quarter of what may wait";
  EXPECT_FALSE(shares_.MayWait(a, 251));
  shares_.CountWaiting(&a.waiting_bytes, 600);
  EXPECT_TRUE(shares_.MayWait(a, 250)) << "its own bytes do not count against it twice";
  EXPECT_FALSE(shares_.MayWait(b, 101)) << "of what others leave";
  EXPECT_TRUE(shares_.MayAssemble());
  shares_.CountWaiting(&b.assembling_bytes, 401);
  EXPECT_FALSE(shares_.MayAssemble());
  shares_.CountWaiting(&b.assembling_bytes, 0);
  EXPECT_TRUE(shares_.MayAssemble());
  options_.max_waiting_bytes = 10'000;
  EXPECT_TRUE(shares_.MayWait(a, 400));
  EXPECT_FALSE(shares_.MayWait(a, 401)) << "the bound of one connection";
}

TEST_F(XchgSharesTest, ACallThatIsLongerThanTheBoundGoesAlone) {
  options_.max_calls_per_connection = 2;
  options_.max_call_bytes_per_connection = 100;
  EXPECT_TRUE(shares_.MayPost(0, 1000));
  EXPECT_FALSE(shares_.MayPost(1, 101));
  EXPECT_TRUE(shares_.MayPost(1, 100));
  EXPECT_FALSE(shares_.MayPost(2, 100));
}

}  // namespace
}  // namespace nova
