#include "stoc/protocol.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

template <typename Message>
std::string Encoded(const Message& m) {
  return Body(m);
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += absl::StrCat(absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
  return hex;
}

// Golden; and no shorter or longer body parses.
template <typename Message>
void Check(const Message& m, std::string_view hex) {
  const std::string bytes = Encoded(m);
  EXPECT_EQ(Hex(bytes), hex);
  Message parsed;
  ASSERT_TRUE(ParseBody(bytes, &parsed));
  EXPECT_EQ(Encoded(parsed), bytes);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(ParseBody(std::string_view(bytes).substr(0, n), &parsed)) << n;
  EXPECT_FALSE(ParseBody(bytes + '\0', &parsed));
}

constexpr Uuid kLog{0x1112131415161718, 0x2122232425262728};
constexpr StocFileId kFile{kLog, 0x31323334};
constexpr Creator kCreator{RangeId(1), Epoch(2), 3};
constexpr RemoteBuffer kMemory{0x41, 0x42, 0x43, 0};

#define RANGE_EPOCH  \
  "0100000000000000" \
  "0200000000000000"
#define LOG          \
  "1817161514131211" \
  "2827262524232221"
#define FILE_ID LOG "34333231"
#define CREATOR RANGE_EPOCH "0300000000000000"
#define MEMORY       \
  "4100000000000000" \
  "4200000000000000" \
  "43000000"         \
  "00000000"

TEST(StocProtocolTest, BytesAreGolden) {
  Check(OpenSegmentRequest{RangeId(1), Epoch(2), Incarnation(4), kLog, 5, 6},
        RANGE_EPOCH "0400000000000000" LOG
                    "05000000"
                    "0600000000000000");
  Check(OpenSegmentReply{kMemory}, MEMORY);
  Check(FreeLogsRequest{RangeId(1), Epoch(2), {kLog, kLog}}, RANGE_EPOCH "02000000" LOG LOG);
  Check(RangeEpochRequest{RangeId(1), Epoch(2)}, RANGE_EPOCH);
  Check(FenceReply{Incarnation(9), kLog, {{kLog, 7, kMemory}}, {{kLog, 8}}},
        "0900000000000000" LOG "01000000" LOG "07000000" MEMORY "01000000" LOG "0800000000000000");
  Check(OpenLogFileRequest{RangeId(1), Epoch(2), Incarnation(4), kLog}, RANGE_EPOCH "0400000000000000" LOG);
  Check(OpenFileRequest{kFile, kCreator, 8}, FILE_ID CREATOR "0800000000000000");
  Check(OpenFileReply{9, kMemory}, "0900000000000000" MEMORY);
  Check(PersistFileRequest{9, 10, 11},
        "0900000000000000"
        "0a000000"
        "0b000000");
  Check(ReadFileRequest{kFile, 12, 13}, FILE_ID
        "0c00000000000000"
        "0d000000");
  Check(AddReferencesRequest{RangeId(1), Epoch(2), {kFile}}, RANGE_EPOCH "01000000" FILE_ID);
  Check(CopyFileRequest{kFile, kCreator, StocId(20), Incarnation(21), 22}, FILE_ID CREATOR
        "14000000"
        "1500000000000000"
        "1600000000000000");
  Check(CancelJobRequest{RangeId(1), Epoch(2), kLog}, RANGE_EPOCH LOG);
  Check(CopyFileReply{CopyFault::kTarget}, "00");
  Check(CopyFileReply{CopyFault::kSource}, "01");
  Check(ReadForCopyRequest{kFile, 23, 24}, FILE_ID
        "1700000000000000"
        "18000000");
  Check(ListUnreadableReply{{kFile}}, "01000000" FILE_ID);
  Check(DropUnreadableRequest{RangeId(1), Epoch(2), {kFile}}, RANGE_EPOCH "01000000" FILE_ID);
  Check(ListFilesReply{{{kFile, kCreator, 14, 15}}}, "01000000" FILE_ID CREATOR
                                                     "0e00000000000000"
                                                     "0f00000000000000");
  Check(PingReply{Incarnation(16)}, "1000000000000000");
  Check(ListFilesRequest{RangeId(1), Epoch(2), {}}, RANGE_EPOCH);
  EXPECT_EQ(Hex(Encoded(ReadForCopyReply{26, 27, {}})),
            "1a00000000000000"
            "1b000000");
  EXPECT_EQ(
      Hex(Encoded(CompactRequest{kLog, kCreator, {{{{StocId(28), StocId(29)}}, {StocId(30)}}}, 31, {}})),
      LOG CREATOR
      "01000000"
      "01000000"
      "02000000"
      "1c000000"
      "1d000000"
      "01000000"
      "1e000000"
      "1f000000");
  EXPECT_EQ(Hex(Encoded(CompactReply{32, {}})), "20000000");
  EXPECT_EQ(Hex(Encoded(WriteSmallFileRequest{kFile, kCreator, 17, {}})), FILE_ID CREATOR "11000000");
  EXPECT_EQ(Hex(Encoded(AppendLogRequest{RangeId(1), Epoch(2), kLog, 18, true, 19, {}})), RANGE_EPOCH LOG
            "1200000000000000"
            "01"
            "13000000");
  EXPECT_EQ(Hex(Encoded(AppendFileRequest{kFile, kCreator, 18, true, 19, {}})), FILE_ID CREATOR
            "1200000000000000"
            "01"
            "13000000");
}

// What was added later is not there where it says nothing, so that processes of the version before understand
// it.
TEST(StocProtocolTest, WhatABodyMayEndWithIsGoldenToo) {
  const std::string page = Encoded(ListFilesRequest{RangeId(1), Epoch(2), kFile});
  EXPECT_EQ(Hex(page), RANGE_EPOCH FILE_ID);
  ListFilesRequest request;
  ASSERT_TRUE(ParseBody(page, &request));
  EXPECT_EQ(request.after, kFile);
  const std::string fence = Encoded(FenceReply{Incarnation(9), kLog, {}, {}, {kLog, kLog}});
  EXPECT_EQ(Hex(fence), "0900000000000000" LOG
                        "00000000"
                        "00000000"
                        "02000000" LOG LOG);
  const std::string drop = Encoded(DropReferencesRequest{RangeId(1), Epoch(2), {kFile}, 25});
  EXPECT_EQ(Hex(drop), RANGE_EPOCH "01000000" FILE_ID "1900000000000000");
  DropReferencesRequest ended, all;
  ASSERT_TRUE(ParseBody(drop, &ended));
  EXPECT_EQ(ended.ended_below, 25u);
  ASSERT_TRUE(ParseBody(drop.substr(0, drop.size() - 8), &all));
  EXPECT_EQ(all.ended_below, 0u);
  EXPECT_EQ(Encoded(all), drop.substr(0, drop.size() - 8));
  EXPECT_FALSE(ParseBody(drop.substr(0, drop.size() - 8) + std::string(8, '\0'), &all));
  const std::string list = Encoded(ListFilesReply{{{kFile, kCreator, 5, 6, true}}, {kFile}});
  const std::string undamaged = Encoded(ListFilesReply{{{kFile, kCreator, 5, 6}}, {}});
  EXPECT_EQ(list.substr(0, undamaged.size()), undamaged);
  EXPECT_EQ(Hex(list.substr(undamaged.size())), "01000000" FILE_ID);
  ListFilesReply listed;
  ASSERT_TRUE(ParseBody(list, &listed));
  EXPECT_EQ(listed.damaged, (std::vector{kFile}));
  for (size_t n = 0; n <= list.size(); ++n) {
    EXPECT_EQ(ParseBody(list.substr(0, n), &listed), n == undamaged.size() || n == list.size()) << n;
  }
  FenceReply reply;
  ASSERT_TRUE(ParseBody(fence, &reply));
  EXPECT_EQ(reply.unreadable, (std::vector{kLog, kLog}));
  for (size_t n = 0; n <= page.size(); ++n) {
    EXPECT_EQ(ParseBody(page.substr(0, n), &request), n == 16 || n == page.size()) << n;
  }
  for (size_t n = 0; n <= fence.size(); ++n) {
    EXPECT_EQ(ParseBody(fence.substr(0, n), &reply), n == 32 || n == fence.size()) << n;
  }
  EXPECT_FALSE(ParseBody(Encoded(RangeEpochRequest{RangeId(1), Epoch(2)}) + std::string(20, '\0'), &request));
  EXPECT_FALSE(ParseBody(fence.substr(0, 32) + std::string(4, '\0'), &reply));
}

TEST(StocProtocolTest, TheRestOfABodyIsBytes) {
  const std::string small = Encoded(WriteSmallFileRequest{kFile, kCreator, 17, {}});
  WriteSmallFileRequest write;
  const std::string with_bytes = small + "some bytes";
  ASSERT_TRUE(ParseBody(with_bytes, &write));
  EXPECT_EQ(write.bytes, "some bytes");
  EXPECT_EQ(write.creator, kCreator);
  EXPECT_TRUE(ParseBody(small + std::string(kMaxInlineFileBytes, 'x'), &write));
  EXPECT_FALSE(ParseBody(small + std::string(kMaxInlineFileBytes + 1, 'x'), &write));
  EXPECT_FALSE(ParseBody(small.substr(0, small.size() - 1), &write));

  std::string bytes = Encoded(AppendFileRequest{kFile, kCreator, 18, true, 19, {}});
  AppendFileRequest append;
  const std::string with_edit = bytes + "edit";
  ASSERT_TRUE(ParseBody(with_edit, &append));
  EXPECT_EQ(append.bytes, "edit");
  EXPECT_TRUE(append.create);
  bytes[20 + 24 + 8] = 2;
  EXPECT_FALSE(ParseBody(bytes + "edit", &append)) << "a flag is 0 or 1";

  ReadForCopyReply piece;
  const std::string with_piece = Encoded(ReadForCopyReply{26, 27, {}}) + "piece";
  ASSERT_TRUE(ParseBody(with_piece, &piece));
  EXPECT_EQ(piece.data_size, 26u);
  EXPECT_EQ(piece.bytes, "piece");
  EXPECT_FALSE(ParseBody(with_piece.substr(0, 11), &piece));
}

TEST(StocProtocolTest, CountsThatCannotBeTrueTakeNoMemory) {
  const std::string huge = "\xff\xff\xff\xff";
  FreeLogsRequest logs;
  EXPECT_FALSE(ParseBody(std::string(16, 'x') + huge, &logs));
  AddReferencesRequest files;
  EXPECT_FALSE(ParseBody(std::string(16, 'x') + huge + std::string(20, 'x'), &files));
  EXPECT_EQ(files.files.capacity(), 0u);
}

TEST(StocProtocolTest, AReadIsBounded) {
  ReadFileRequest read;
  EXPECT_TRUE(ParseBody(Encoded(ReadFileRequest{kFile, 0, kMaxReadBytes}), &read));
  EXPECT_FALSE(ParseBody(Encoded(ReadFileRequest{kFile, 0, kMaxReadBytes + 1}), &read));
}

TEST(StocProtocolTest, ACopyIsBounded) {
  ReadForCopyRequest read;
  EXPECT_TRUE(ParseBody(Encoded(ReadForCopyRequest{kFile, 0, kMaxCopyPieceBytes}), &read));
  EXPECT_FALSE(ParseBody(Encoded(ReadForCopyRequest{kFile, 0, kMaxCopyPieceBytes + 1}), &read));
  CopyFileRequest copy;
  EXPECT_TRUE(
      ParseBody(Encoded(CopyFileRequest{kFile, kCreator, StocId(1), {}, kMaxCopiedFileBytes}), &copy));
  EXPECT_FALSE(
      ParseBody(Encoded(CopyFileRequest{kFile, kCreator, StocId(1), {}, kMaxCopiedFileBytes + 1}), &copy));
  CopyFileReply reply;
  EXPECT_FALSE(ParseBody(std::string(1, '\2'), &reply)) << "the target's or the source's";
}

}  // namespace
}  // namespace nova
