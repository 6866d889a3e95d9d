#include "common/base/coding.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nova {
namespace {

std::vector<uint64_t> InterestingValues() {
  std::vector<uint64_t> v = {0, 1, 2, 100, 12345};
  for (int bit = 0; bit < 64; ++bit) {
    v.push_back(uint64_t{1} << bit);
    v.push_back((uint64_t{1} << bit) - 1);
    v.push_back((uint64_t{1} << bit) + 1);
  }
  v.push_back(std::numeric_limits<uint64_t>::max());
  return v;
}

TEST(CodingTest, BytesAreAsWritten) {
  std::string s;
  PutFixed16(&s, 0x0201);
  PutFixed32(&s, 0x04030201);
  PutFixed64(&s, 0x0807060504030201);
  PutVarint32(&s, 300);
  PutVarint64(&s, uint64_t{1} << 63);
  PutLengthPrefixed(&s, "ab");
  EXPECT_EQ(s, std::string("\x01\x02"
                           "\x01\x02\x03\x04"
                           "\x01\x02\x03\x04\x05\x06\x07\x08"
                           "\xac\x02"
                           "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
                           "\x02"
                           "ab"));
}

TEST(CodingTest, EveryValueComesBack) {
  for (uint64_t v : InterestingValues()) {
    std::string s;
    PutVarint64(&s, v);
    EXPECT_EQ(s.size(), VarintLength(v)) << v;
    PutVarint32(&s, static_cast<uint32_t>(v));
    PutFixed16(&s, static_cast<uint16_t>(v));
    PutFixed32(&s, static_cast<uint32_t>(v));
    PutFixed64(&s, v);
    std::string_view in = s;
    uint64_t v64, f64;
    uint32_t v32, f32;
    uint16_t f16;
    ASSERT_TRUE(GetVarint64(&in, &v64));
    ASSERT_TRUE(GetVarint32(&in, &v32));
    ASSERT_TRUE(GetFixed16(&in, &f16));
    ASSERT_TRUE(GetFixed32(&in, &f32));
    ASSERT_TRUE(GetFixed64(&in, &f64));
    EXPECT_TRUE(in.empty());
    EXPECT_EQ(v64, v);
    EXPECT_EQ(v32, static_cast<uint32_t>(v));
    EXPECT_EQ(f16, static_cast<uint16_t>(v));
    EXPECT_EQ(f32, static_cast<uint32_t>(v));
    EXPECT_EQ(f64, v);
  }
}

TEST(CodingTest, RawFormsAgreeWithAppendedOnes) {
  for (uint64_t v : InterestingValues()) {
    char buffer[32];
    std::string s;
    PutVarint64(&s, v);
    EXPECT_EQ(std::string(buffer, EncodeVarint64(buffer, v)), s);
    uint64_t back;
    EXPECT_EQ(DecodeVarint64(buffer, buffer + s.size(), &back), buffer + s.size());
    EXPECT_EQ(back, v);
    EXPECT_EQ(EncodeFixed64(buffer, v), buffer + 8);
    EXPECT_EQ(DecodeFixed64(buffer), v);
    EXPECT_EQ(EncodeFixed32(buffer, static_cast<uint32_t>(v)), buffer + 4);
    EXPECT_EQ(DecodeFixed32(buffer), static_cast<uint32_t>(v));
    EXPECT_EQ(EncodeFixed16(buffer, static_cast<uint16_t>(v)), buffer + 2);
    EXPECT_EQ(DecodeFixed16(buffer), static_cast<uint16_t>(v));
    char* end = EncodeVarint32(buffer, static_cast<uint32_t>(v));
    uint32_t back32;
    EXPECT_EQ(DecodeVarint32(buffer, end, &back32), end);
    EXPECT_EQ(back32, static_cast<uint32_t>(v));
  }
}

// Each input is copied into a heap block of exactly its size, so that a read past the end is seen by
// AddressSanitizer.
template <typename Get>
void ExpectRejected(const std::string& bytes, Get get) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  std::string_view in(exact.data(), exact.size());
  EXPECT_FALSE(get(&in));
  EXPECT_EQ(in.size(), bytes.size()) << "the input moved";
}

TEST(CodingTest, TruncatedInputIsRejectedAndLeftAlone) {
  for (uint64_t v : InterestingValues()) {
    std::string s;
    PutVarint64(&s, v);
    for (size_t n = 0; n < s.size(); ++n) {
      ExpectRejected(s.substr(0, n), [](std::string_view* in) {
        uint64_t x;
        return GetVarint64(in, &x);
      });
    }
    s.clear();
    PutVarint32(&s, static_cast<uint32_t>(v));
    for (size_t n = 0; n < s.size(); ++n) {
      ExpectRejected(s.substr(0, n), [](std::string_view* in) {
        uint32_t x;
        return GetVarint32(in, &x);
      });
    }
  }
  for (size_t n = 0; n < 8; ++n) {
    const std::string s(n, 'x');
    if (n < 2)
      ExpectRejected(s, [](std::string_view* in) {
        uint16_t x;
        return GetFixed16(in, &x);
      });
    if (n < 4)
      ExpectRejected(s, [](std::string_view* in) {
        uint32_t x;
        return GetFixed32(in, &x);
      });
    ExpectRejected(s, [](std::string_view* in) {
      uint64_t x;
      return GetFixed64(in, &x);
    });
  }
  std::string s;
  PutLengthPrefixed(&s, std::string(200, 'a'));
  for (size_t n = 0; n < s.size(); ++n) {
    ExpectRejected(s.substr(0, n), [](std::string_view* in) {
      std::string_view x;
      return GetLengthPrefixed(in, &x);
    });
    ExpectRejected(s.substr(0, n), [](std::string_view* in) {
      std::string x;
      return GetLengthPrefixed(in, &x);
    });
  }
}

TEST(CodingTest, OverflowAndOverlongVarintsAreRejected) {
  const auto get32 = [](std::string_view* in) {
    uint32_t x;
    return GetVarint32(in, &x);
  };
  const auto get64 = [](std::string_view* in) {
    uint64_t x;
    return GetVarint64(in, &x);
  };
  ExpectRejected("\xff\xff\xff\xff\x1f", get32);                      // bit 32
  ExpectRejected("\xff\xff\xff\xff\xff\x01", get32);                  // six bytes
  ExpectRejected("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03", get64);  // bit 64
  ExpectRejected("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", get64);
  ExpectRejected(std::string("\x80\x00", 2), get32);  // 0 in two bytes
  ExpectRejected(std::string("\x80\x00", 2), get64);
  ExpectRejected("\xff\xff\xff\xff\x0f", [](std::string_view* in) {
    std::string_view s;
    return GetLengthPrefixed(in, &s);
  });
}

TEST(CodingTest, LengthPrefixedStringsFollowOneAnother) {
  std::string s;
  PutLengthPrefixed(&s, "");
  PutLengthPrefixed(&s, std::string("a\0b", 3));
  PutLengthPrefixed(&s, std::string(300, 'x'));
  EXPECT_EQ(s.size(),
            LengthPrefixedSize("") + LengthPrefixedSize("abc") + LengthPrefixedSize(std::string(300, 'x')));
  std::string_view in = s, a, b;
  std::string c;
  ASSERT_TRUE(GetLengthPrefixed(&in, &a));
  ASSERT_TRUE(GetLengthPrefixed(&in, &b));
  ASSERT_TRUE(GetLengthPrefixed(&in, &c));
  EXPECT_EQ(a, "");
  EXPECT_EQ(b, std::string_view("a\0b", 3));
  EXPECT_EQ(c, std::string(300, 'x'));
  EXPECT_TRUE(in.empty());
}

}  // namespace
}  // namespace nova
