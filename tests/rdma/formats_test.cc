// The bytes on the wire: golden bytes, refusal of what is malformed.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/random.h"
#include "common/rdma/admission.h"
#include "common/rdma/handshake.h"
#include "common/rdma/key_table.h"
#include "common/rdma/message.h"
#include "common/rdma/tcp/frame.h"
#include "common/rdma/verbs/connect_data.h"

namespace nova {
namespace {

std::string ToHex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    out += "0123456789abcdef"[b >> 4];
    out += "0123456789abcdef"[b & 15];
  }
  return out;
}

Hello ExampleHello() {
  Hello h;
  h.min_version = 1;
  h.max_version = 2;
  h.role = Role::kLtc;
  h.xchg_index = 3;
  h.incarnation = 0x1122334455667788;
  h.generation = 9;
  h.features = 0x80;
  h.cluster = {0x0102030405060708, 0x090a0b0c0d0e0f10};
  std::memcpy(h.name.data(), "ltc1", 4);
  h.credentials[0] = std::byte{0xaa};
  h.credentials[31] = std::byte{0xbb};
  h.meant_for = {Role::kStoc, ToNodeName("stoc9"), 0xa1a2a3a4a5a6a7a8};
  return h;
}

TEST(ConnectDataTest, HasItsGoldenBytesAndRefusesOthers) {
  const std::string bytes = EncodeConnectData({0x0302, 0x1122334455667788, 0x99aabbcc});
  EXPECT_EQ(ToHex(bytes),
            "4e56433102030000"
            "8877665544332211"
            "ccbbaa99");
  ConnectData d;
  ASSERT_TRUE(DecodeConnectData(bytes + std::string(36, '\0'), &d)) << "the transport pads";
  EXPECT_EQ(d.xchg_index, 0x0302);
  EXPECT_EQ(d.cell_address, 0x1122334455667788u);
  EXPECT_EQ(d.cell_rkey, 0x99aabbccu);
  EXPECT_FALSE(DecodeConnectData(bytes.substr(0, 19), &d));
  EXPECT_FALSE(DecodeConnectData(std::string(56, '\0'), &d));
}

TEST(HandshakeTest, HelloHasItsGoldenBytes) {
  const std::string bytes = EncodeHello(HandshakeKind::kHello, ExampleHello(), 65536);
  ASSERT_EQ(bytes.size(), kHelloBytes);
  EXPECT_EQ(ToHex(bytes.substr(0, 232)),
            "4e564831"
            "0100ec00"
            "01000200"
            "00000100"
            "02030300"
            "00000000"
            "8877665544332211"
            "0900000000000000"
            "8000000000000000"
            "0807060504030201"
            "100f0e0d0c0b0a09" +
                ToHex("ltc1") + std::string(120, '0') + "aa" + std::string(60, '0') + "bb" + ToHex("stoc9") +
                std::string(118, '0') + "a8a7a6a5a4a3a2a1");
  Handshake h;
  ASSERT_EQ(DecodeHandshake(bytes, &h), nullptr);
  EXPECT_EQ(h.kind, HandshakeKind::kHello);
  EXPECT_EQ(h.max_message_bytes, 65536u);
  EXPECT_EQ(h.hello.incarnation, 0x1122334455667788u);
  EXPECT_EQ(h.hello.cluster, ExampleHello().cluster);
  EXPECT_EQ(NameOf(h.hello), "ltc1");
  EXPECT_EQ(h.hello.credentials, ExampleHello().credentials);
  EXPECT_EQ(h.hello.meant_for, ExampleHello().meant_for);
}

// A process of the first version, which names no incarnation, is understood: a rolling upgrade has both.
TEST(HandshakeTest, AHelloWithoutAnIncarnationIsMeantForAny) {
  std::string bytes =
      EncodeHello(HandshakeKind::kHello, ExampleHello(), 65536).substr(0, kFirstHelloBytes - 4);
  bytes[6] = static_cast<char>(kFirstHelloBytes);
  PutFixed32(&bytes, Crc32c(bytes));
  Handshake h;
  ASSERT_EQ(DecodeHandshake(bytes, &h), nullptr);
  EXPECT_EQ(h.hello.meant_for, (PeerIdentity{Role::kStoc, ToNodeName("stoc9"), 0}));
  EXPECT_EQ(h.hello.incarnation, 0x1122334455667788u);
}

TEST(HandshakeTest, RefusalCarriesItsReasonCutToWhatFits) {
  Handshake h;
  ASSERT_EQ(DecodeHandshake(EncodeRefusal(Hello(), "wrong cluster"), &h), nullptr);
  EXPECT_EQ(h.kind, HandshakeKind::kRefusal);
  EXPECT_EQ(h.reason, "wrong cluster");
  const std::string longest = EncodeRefusal(Hello(), std::string(2000, 'x'));
  EXPECT_EQ(longest.size(), kMaxHandshakeBytes);
  EXPECT_EQ(DecodeHandshake(longest, &h), nullptr);
}

TEST(HandshakeTest, AnyDamagedByteIsRefused) {
  const std::string good = EncodeHello(HandshakeKind::kWelcome, ExampleHello(), 4096);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    Handshake h;
    EXPECT_NE(DecodeHandshake(bad, &h), nullptr) << "byte " << i;
  }
  for (size_t n = 0; n < good.size(); ++n) {
    Handshake h;
    EXPECT_NE(DecodeHandshake(good.substr(0, n), &h), nullptr) << n << " bytes";
  }
}

TEST(FrameTest, HeaderHasItsGoldenBytes) {
  FrameHeader h;
  h.type = static_cast<uint8_t>(FrameType::kWriteWithImm);
  h.flags = FrameHeader::kMore;
  h.length = 0x01020304;
  h.acknowledged = 0x1112131415161718;
  h.rkey = 0x21222324;
  h.immediate = 0x31323334;
  h.address = 0x4142434445464748;
  EXPECT_EQ(ToHex({reinterpret_cast<const char*>(&h), sizeof(h)}),
            "03010000"
            "04030201"
            "1817161514131211"
            "24232221"
            "34333231"
            "4847464544434241");
}

TEST(FrameTest, MalformedHeadersAreRefused) {
  const auto make = [](FrameType type, uint32_t length) {
    FrameHeader h;
    h.type = static_cast<uint8_t>(type);
    h.length = length;
    return h;
  };
  EXPECT_EQ(CheckFrame(make(FrameType::kSend, 4096), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType::kSend, 4097), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType::kWrite, kMaxWriteFrameBytes + 1), 4096), nullptr);
  EXPECT_EQ(CheckFrame(make(FrameType::kRead, UINT32_MAX), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType::kReadData, 0), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType::kAck, 1), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType{0}, 0), 4096), nullptr);
  EXPECT_NE(CheckFrame(make(FrameType{8}, 0), 4096), nullptr);
  FrameHeader h = make(FrameType::kSend, 1);
  h.zero = 1;
  EXPECT_NE(CheckFrame(h, 4096), nullptr);
}

// --- Messages

std::vector<std::byte> PieceOf(MessageHeader header, std::string_view body) {
  std::vector<std::byte> out(sizeof(header) + body.size());
  std::memcpy(out.data(), &header, sizeof(header));
  std::memcpy(out.data() + sizeof(header), body.data(), body.size());
  return out;
}

MessageHeader HeaderOf(uint8_t flags, uint32_t length, uint64_t id = 7) {
  MessageHeader h;
  h.type = 0x101;
  h.flags = flags;
  h.request_id = id;
  h.body_length = length;
  return h;
}

TEST(MessageTest, HeaderHasItsGoldenBytes) {
  MessageHeader h = HeaderOf(MessageHeader::kReply, 0x01020304, 0x1112131415161718);
  h.outcome = 3;
  h.clock = 0x2122232425262728;
  h.deadline_or_depth = 0x31323334;
  EXPECT_EQ(ToHex({reinterpret_cast<const char*>(&h), sizeof(h)}),
            "4e564d31"
            "0101"
            "01"
            "03"
            "1817161514131211"
            "2827262524232221"
            "04030201"
            "34333231");
}

TEST(MessageTest, PiecesAreAssembledInOrder) {
  MessageAssembler assembler(1 << 20);
  MessageAssembler::Message m;
  constexpr uint8_t kMore = MessageHeader::kMorePieces, kCont = MessageHeader::kContinuation;
  EXPECT_EQ(assembler.Add(PieceOf(HeaderOf(kMore, 9), "abc"), &m), MessageAssembler::Result::kMore);
  EXPECT_EQ(assembler.Add(PieceOf(HeaderOf(kMore | kCont, 3), "def"), &m), MessageAssembler::Result::kMore);
  ASSERT_EQ(assembler.Add(PieceOf(HeaderOf(kCont, 3), "ghi"), &m), MessageAssembler::Result::kMessage);
  EXPECT_EQ(m.body, "abcdefghi");
  const auto whole = PieceOf(HeaderOf(0, 2), "xy");
  ASSERT_EQ(assembler.Add(whole, &m), MessageAssembler::Result::kMessage);
  EXPECT_EQ(m.body, "xy");
}

// A connection that once had a large message keeps no memory for another one.
TEST(MessageTest, LargeMessagesLeaveNoMemoryBehind) {
  MessageAssembler assembler(16 << 20);
  MessageAssembler::Message m;
  constexpr uint8_t kMore = MessageHeader::kMorePieces, kCont = MessageHeader::kContinuation;
  const std::string half(500'000, 'x');
  ASSERT_EQ(assembler.Add(PieceOf(HeaderOf(kMore, 1'000'000), half), &m), MessageAssembler::Result::kMore);
  assembler.Release();
  EXPECT_EQ(assembler.bytes(), half.size()) << "it goes on";
  ASSERT_EQ(assembler.Add(PieceOf(HeaderOf(kCont, 500'000), half), &m), MessageAssembler::Result::kMessage);
  EXPECT_GE(assembler.held_bytes(), m.body.size());
  assembler.Release();
  EXPECT_LE(assembler.held_bytes(), 64u << 10);
}

// N1: a process that does not look at whom a hello means may be an earlier start of the one that is meant.
TEST(HelloTest, ADiallerLooksAtWhomItHasReached) {
  Hello ours = ExampleHello();
  Handshake answer;
  answer.kind = HandshakeKind::kWelcome;
  answer.hello = ours;
  answer.hello.role = Role::kStoc;
  answer.hello.name = ToNodeName("stoc9");
  answer.hello.incarnation = ours.meant_for.incarnation;
  EXPECT_TRUE(JudgeAnswer(ours, answer).ok());
  answer.hello.incarnation -= 1;
  EXPECT_TRUE(absl::IsUnavailable(JudgeAnswer(ours, answer)));
  ours.meant_for = {};
  EXPECT_TRUE(JudgeAnswer(ours, answer).ok()) << "whoever is there";
}

TEST(MessageTest, MalformedPiecesAreRefused) {
  constexpr uint8_t kMore = MessageHeader::kMorePieces, kCont = MessageHeader::kContinuation;
  const auto verdict = [](std::vector<std::vector<std::byte>> pieces) {
    MessageAssembler assembler(16);
    MessageAssembler::Message m;
    auto result = MessageAssembler::Result::kMore;
    for (const auto& piece : pieces) result = assembler.Add(piece, &m);
    return result;
  };
  constexpr auto kBad = MessageAssembler::Result::kMalformed;
  EXPECT_EQ(verdict({std::vector<std::byte>(31)}), kBad);
  EXPECT_EQ(verdict({PieceOf(HeaderOf(0, 5), "four")}), kBad) << "length";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(0, 17), std::string(17, 'x'))}), kBad) << "longer than the bound";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(kCont, 1), "x")}), kBad) << "continues nothing";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(kMore, 4), "ab"), PieceOf(HeaderOf(0, 2), "cd")}), kBad)
      << "not a continuation";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(kMore, 4), "ab"), PieceOf(HeaderOf(kCont, 2, 8), "cd")}), kBad)
      << "another id";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(kMore, 4), "ab"), PieceOf(HeaderOf(kCont, 3), "cde")}), kBad)
      << "too many bytes";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(kMore, 4), "ab"), PieceOf(HeaderOf(kCont, 1), "c")}), kBad)
      << "ends early";
  EXPECT_EQ(verdict({PieceOf(HeaderOf(0x80, 1), "x")}), kBad) << "unknown flag";
  MessageHeader h = HeaderOf(0, 1);
  h.magic ^= 1;
  EXPECT_EQ(verdict({PieceOf(h, "x")}), kBad) << "magic";
  h = HeaderOf(0, 1);
  h.type = 0x1000;
  EXPECT_EQ(verdict({PieceOf(h, "x")}), kBad) << "type";
}

// --- Keys

TEST(KeyTableTest, KeysCheckBoundsAndRightsAndAreNotReusedSoon) {
  KeyTable table(12345);
  char memory[100];
  const MemoryRegion r = table.Add(memory, sizeof(memory), Access::kRemoteWrite);
  const auto at = reinterpret_cast<uint64_t>(memory);
  EXPECT_TRUE(table.Allows(r.rkey, at, 100, Access::kRemoteWrite));
  EXPECT_TRUE(table.Allows(r.rkey, at + 99, 1, Access::kLocal));
  EXPECT_FALSE(table.Allows(r.rkey, at, 101, Access::kRemoteWrite));
  EXPECT_FALSE(table.Allows(r.rkey, at - 1, 1, Access::kRemoteWrite));
  EXPECT_FALSE(table.Allows(r.rkey, at + 100, 1, Access::kRemoteWrite));
  EXPECT_FALSE(table.Allows(r.rkey, at + 1, UINT64_MAX, Access::kRemoteWrite));
  EXPECT_FALSE(table.Allows(r.rkey, at, 1, Access::kRemoteRead));
  EXPECT_FALSE(table.Allows(r.rkey + 1, at, 1, Access::kRemoteWrite));
  EXPECT_TRUE(table.Remove(r.rkey));
  EXPECT_FALSE(table.Remove(r.rkey));
  std::vector<uint32_t> keys{r.rkey};
  for (int i = 0; i < 100000; ++i) {
    keys.push_back(table.Add(memory, 1, Access::kRemoteRead).rkey);
    table.Remove(keys.back());
  }
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

}  // namespace
}  // namespace nova
