#include "common/base/fields.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace nova {
namespace {

enum class Verb : uint8_t { kNone, kRead, kWrite };

struct Point {
  uint32_t x = 0;
  Uuid of;
  bool operator==(const Point&) const = default;
  static auto Fields(auto& m) { return std::tie(m.x, m.of); }
};

// One field of each kind.
struct Everything {
  bool flag = false;
  Verb verb = Verb::kNone;
  uint32_t small = 0;
  uint64_t large = 0;
  StocId id;
  std::string_view name;
  std::optional<uint32_t> maybe;
  std::vector<Point> points;
  std::vector<std::string_view> few;
  std::string_view rest;
  bool operator==(const Everything&) const = default;
  static auto Fields(auto& m) {
    return FieldList(m.flag, m.verb, m.small, m.large, m.id, m.name, m.maybe, m.points, AtMost(m.few, 2),
                     Rest(m.rest));
  }
  bool Valid() const { return verb != Verb::kNone; }
};
static_assert(MinBytes<Everything>::Of() == 1 + 1 + 4 + 8 + 4 + 1 + 1 + 4 + 4);
static_assert(MinBytes<Point>::Of() == 20);

struct Grown {  // of two versions
  uint32_t first = 0;
  uint64_t later = 0;
  static auto Fields(auto& m) { return FieldList(m.first, Tail(m.later)); }
};

struct WithBytes {
  uint32_t crc = 0;
  std::string_view bytes;
  static auto Fields(auto& m) { return FieldList(m.crc, Apart(m.bytes)); }
};

struct List {
  std::vector<Point> points;
  static auto Fields(auto& m) { return FieldList(Rest(m.points)); }
};

struct Counted {
  std::vector<Point> points;
  static auto Fields(auto& m) { return std::tie(m.points); }
};

std::string Hex(std::string_view bytes) { return absl::BytesToHexString({bytes.data(), bytes.size()}); }

Everything Sample() {
  return {true, Verb::kWrite, 2, 3, StocId(4), "ab", 5u, {{6, {7, 8}}}, {"c", ""}, "the rest"};
}

TEST(FieldsTest, EachKindHasItsBytes) {
  EXPECT_EQ(Hex(Body(Sample())),
            "01"
            "02"
            "02000000"
            "0300000000000000"
            "04000000"
            "026162"
            "0105000000"
            "01000000"
            "06000000"
            "0700000000000000"
            "0800000000000000"
            "02000000"
            "0163"
            "00"
            "7468652072657374");
}

TEST(FieldsTest, WhatIsWrittenIsReadAndNothingShorter) {
  const std::string body = Body(Sample());
  Everything got;
  ASSERT_TRUE(ParseBody(body, &got));
  EXPECT_EQ(got, Sample());
  const size_t least = body.size() - Sample().rest.size();
  for (size_t n = 0; n <= body.size(); ++n)
    EXPECT_EQ(ParseBody(std::string_view(body).substr(0, n), &got), n >= least) << n;
  // An Everything that was used before keeps nothing of it.
  Everything empty = Sample();
  Everything plain;
  plain.verb = Verb::kRead;
  ASSERT_TRUE(ParseBody(Body(plain), &empty));
  EXPECT_EQ(empty, plain);
}

TEST(FieldsTest, WhatCannotBeIsRefused) {
  Everything got;
  std::string body = Body(Sample());
  body[0] = 2;
  EXPECT_FALSE(ParseBody(body, &got)) << "a flag is 0 or 1";
  Everything sample = Sample();
  sample.verb = Verb::kNone;
  EXPECT_FALSE(ParseBody(Body(sample), &got)) << "not Valid";
  sample = Sample();
  sample.few.push_back("x");
  EXPECT_FALSE(ParseBody(Body(sample), &got)) << "more than AtMost";
}

TEST(FieldsTest, CountsThatCannotBeTrueTakeNoMemory) {
  Counted got;
  EXPECT_FALSE(ParseBody(std::string("\xff\xff\xff\xff", 4) + std::string(40, 'x'), &got));
  EXPECT_EQ(got.points.capacity(), 0u);
}

TEST(FieldsTest, ATailIsLeftOutWhereItSaysNothing) {
  EXPECT_EQ(Body(Grown{1, 0}).size(), 4u);
  EXPECT_EQ(Body(Grown{1, 2}).size(), 12u);
  Grown got{0, 9};
  ASSERT_TRUE(ParseBody(Body(Grown{1, 0}), &got));
  EXPECT_EQ(got.later, 0u);
  ASSERT_TRUE(ParseBody(Body(Grown{1, 2}), &got));
  EXPECT_EQ(got.later, 2u);
  EXPECT_FALSE(ParseBody(Body(Grown{1, 2}).substr(0, 8), &got));
  EXPECT_FALSE(ParseBody(Body(Grown{1, 0}) + std::string(8, 0), &got)) << "one message has one body";
}

TEST(FieldsTest, WhatTravelsApartIsReadAndNotWritten) {
  const std::string head = Body(WithBytes{7, "bytes"});
  EXPECT_EQ(Hex(head), "07000000");
  const std::string body = head + "bytes";
  WithBytes got;
  ASSERT_TRUE(ParseBody(body, &got));
  EXPECT_EQ(got.bytes, "bytes");
}

TEST(FieldsTest, ARestMayBeElements) {
  const List sent{{{1, {2, 3}}, {4, {5, 6}}}};
  List got{{{7, {8, 9}}}};
  ASSERT_TRUE(ParseBody(Body(sent), &got));
  EXPECT_EQ(got.points, sent.points);
  EXPECT_FALSE(ParseBody(Body(sent) + "x", &got));
  ASSERT_TRUE(ParseBody("", &got));
  EXPECT_TRUE(got.points.empty());
}

}  // namespace
}  // namespace nova
