#include "ltc/protocol.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace nova {
namespace {

TEST(LtcProtocolTest, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString((WriteRequest{RangeId(1), Epoch(2), 3, 4, "key", "value"}).EncodeHeader()),
            "0100000000000000" "0200000000000000" "0300000000000000" "0400000000000000" "0300" "0000");
  EXPECT_EQ(absl::BytesToHexString((GetRequest{RangeId(1), Epoch(2), "key"}).EncodeHeader()), "0100000000000000" "0200000000000000");
  EXPECT_EQ(absl::BytesToHexString((ScanRequest{RangeId(1), Epoch(2), 5, "from", "to"}).Encode()),
            "0100000000000000" "0200000000000000" "05000000" "0400" "0200" "66726f6d746f");
  EXPECT_EQ(absl::BytesToHexString((ScanReply{7, true, {}}).EncodeHeader()), "0700000001");
}

TEST(LtcProtocolTest, EveryTruncationIsRefused) {
  WriteRequest write{RangeId(1), Epoch(2), 3, 4, "key", ""};
  const std::string w = write.EncodeHeader() + "key";
  for (size_t n = 0; n < w.size(); ++n) EXPECT_FALSE(WriteRequest::Parse(std::string_view(w).substr(0, n), &write)) << n;
  const std::string whole = w + "value";
  EXPECT_TRUE(WriteRequest::Parse(whole, &write));
  EXPECT_EQ(write.key, "key");
  EXPECT_EQ(write.value, "value");
  ScanRequest scan{RangeId(1), Epoch(2), 5, "from", "to"};
  const std::string s = scan.Encode();
  for (size_t n = 0; n < s.size(); ++n) EXPECT_FALSE(ScanRequest::Parse(std::string_view(s).substr(0, n), &scan)) << n;
  ASSERT_TRUE(ScanRequest::Parse(s, &scan));
  EXPECT_EQ(scan.from, "from");
  EXPECT_EQ(scan.to, "to");
  EXPECT_FALSE(ScanRequest::Parse(s + "x", &scan));
  GetRequest get;
  EXPECT_FALSE(GetRequest::Parse("short", &get));
  ScanReply reply;
  EXPECT_FALSE(ScanReply::Parse("1234", &reply));
  EXPECT_FALSE(ScanReply::Parse("1234\x02", &reply));
  EXPECT_FALSE(ScanReply::Parse("1234\x89", &reply));
}

}  // namespace
}  // namespace nova
