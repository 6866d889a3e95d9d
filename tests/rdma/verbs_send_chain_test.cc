#include "common/rdma/verbs/verbs_send_chain.h"

#include <arpa/inet.h>

#include "gtest/gtest.h"

namespace nova {
namespace {

WorkRequest Request(Opcode opcode, std::initializer_list<uint32_t> lengths) {
  WorkRequest r;
  r.opcode = opcode;
  r.remote_address = 0x1000;
  r.rkey = 7;
  r.immediate = 0x01020304;
  for (const uint32_t length : lengths) {
    const size_t i = r.piece_count++;
    r.pieces[i] = {reinterpret_cast<std::byte*>(0x2000 + 0x100 * i), length, static_cast<uint32_t>(40 + i)};
  }
  return r;
}

TEST(VerbsSendChainTest, RequestsAreLinkedInOrderAndTheLastAsksForACompletion) {
  VerbsSendChain chain;
  for (uint64_t id = 1; id <= 3; ++id) chain.Add(Request(Opcode::kWrite, {8}), id);
  const ibv_send_wr* wr = chain.Finish();
  for (uint64_t id = 1; id <= 3; ++id, wr = wr->next) {
    ASSERT_NE(wr, nullptr);
    EXPECT_EQ(wr->wr_id, id);
    EXPECT_EQ(wr->send_flags, id == 3 ? unsigned{IBV_SEND_SIGNALED} : 0U);
  }
  EXPECT_EQ(wr, nullptr);
}

TEST(VerbsSendChainTest, EachOpcodeIsTheDevicesOwn) {
  for (const auto& [opcode, expected] : {std::pair{Opcode::kSend, IBV_WR_SEND},
                                         {Opcode::kWrite, IBV_WR_RDMA_WRITE},
                                         {Opcode::kWriteWithImm, IBV_WR_RDMA_WRITE_WITH_IMM},
                                         {Opcode::kRead, IBV_WR_RDMA_READ}}) {
    VerbsSendChain chain;
    const ibv_send_wr& wr = chain.Add(Request(opcode, {8}), 1);
    EXPECT_EQ(wr.opcode, expected);
    EXPECT_EQ(wr.wr.rdma.remote_addr, 0x1000U);
    EXPECT_EQ(wr.wr.rdma.rkey, 7U);
    EXPECT_EQ(wr.imm_data, htonl(0x01020304));
  }
}

TEST(VerbsSendChainTest, PiecesWithoutBytesAreLeftOut) {
  VerbsSendChain chain;
  const ibv_send_wr& wr = chain.Add(Request(Opcode::kWrite, {0, 8, 0, 9}), 1);
  ASSERT_EQ(wr.num_sge, 2);
  EXPECT_EQ(wr.sg_list[0].addr, 0x2100U);
  EXPECT_EQ(wr.sg_list[0].length, 8U);
  EXPECT_EQ(wr.sg_list[0].lkey, 41U);
  EXPECT_EQ(wr.sg_list[1].addr, 0x2300U);
  EXPECT_EQ(chain.Add(Request(Opcode::kWrite, {0}), 2).num_sge, 0);
}

TEST(VerbsSendChainTest, AFullChainKeepsThePiecesOfEachRequest) {
  VerbsSendChain chain;
  EXPECT_TRUE(chain.empty());
  for (int round = 0; round < 2; ++round) {
    uint32_t length = 1;
    for (; !chain.full(); length += kMaxPieces)
      chain.Add(Request(Opcode::kSend, {length, length + 1, length + 2, length + 3}), length);
    EXPECT_EQ(length, 1 + VerbsSendChain::kMost * kMaxPieces);
    size_t n = 0;
    for (const ibv_send_wr* wr = chain.Finish(); wr != nullptr; wr = wr->next, ++n) {
      ASSERT_EQ(wr->num_sge, static_cast<int>(kMaxPieces));
      for (size_t i = 0; i < kMaxPieces; ++i) EXPECT_EQ(wr->sg_list[i].length, wr->wr_id + i);
    }
    EXPECT_EQ(n, VerbsSendChain::kMost);
    chain.Clear();
    EXPECT_TRUE(chain.empty());
  }
}

}  // namespace
}  // namespace nova
