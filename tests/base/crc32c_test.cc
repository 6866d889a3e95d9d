#include "common/base/crc32c.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nova {
namespace {

// The definition, bit by bit.
uint32_t SlowCrc32c(std::string_view data) {
  uint32_t crc = 0xffffffff;
  for (unsigned char byte : data) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc & 1) ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

std::string Bytes(size_t n) {
  std::string s(n, '\0');
  uint32_t x = 1;
  for (char& c : s) c = static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  return s;
}

TEST(Crc32cTest, MatchesPublishedValues) {  // RFC 3720, appendix B.4
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up.push_back(static_cast<char>(i));
    down.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
}

TEST(Crc32cTest, MatchesTheDefinitionAtEveryLengthAndAlignment) {
  const std::string data = Bytes(1200);
  for (size_t start = 0; start < 9; ++start) {
    for (size_t n = 0; start + n <= data.size(); n += n < 300 ? 1 : 37) {
      ASSERT_EQ(Crc32c(data.substr(start, n)), SlowCrc32c(data.substr(start, n))) << start << " " << n;
    }
  }
}

TEST(Crc32cTest, ExtendingEqualsTheWhole) {
  const std::string data = Bytes(5000);
  const uint32_t whole = Crc32c(data);
  for (size_t cut = 0; cut <= data.size(); cut += 7) {
    const uint32_t first = Crc32c(std::string_view(data).substr(0, cut));
    ASSERT_EQ(ExtendCrc32c(first, data.data() + cut, data.size() - cut), whole) << cut;
  }
  EXPECT_EQ(ExtendCrc32c(whole, nullptr, 0), whole);
}

TEST(Crc32cTest, CopyingGivesTheSameBytesAndChecksum) {
  for (size_t n : {0, 1, 15, 4096, 16383, 16384, 16385, 32768, 100001}) {
    const std::string data = Bytes(n);
    std::vector<char> copy(n + 1, '\x5a');
    EXPECT_EQ(Crc32cCopy(copy.data(), data.data(), n, 0), Crc32c(data));
    EXPECT_EQ(std::string(copy.data(), n), data);
    EXPECT_EQ(copy[n], '\x5a');
    EXPECT_EQ(Crc32cCopy(copy.data(), data.data(), n, Crc32c("head")), Crc32c("head" + data));
  }
}

}  // namespace
}  // namespace nova
