#include "common/base/keys.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/outcome.h"

namespace nova {
namespace {

TEST(KeysTest, GoldenBytesOfAnInternalKey) {
  std::string key;
  AppendInternalKey(&key, std::string_view("\0user", 5), 0x0102030405060, ValueType::kPut);
  EXPECT_EQ(absl::BytesToHexString(key),
            "0075736572"
            "01"
            "60504030201000");
  ParsedInternalKey parsed;
  ASSERT_TRUE(ParseInternalKey(key, &parsed));
  EXPECT_EQ(parsed.stored_key, std::string_view("\0user", 5));
  EXPECT_EQ(parsed.sequence, 0x0102030405060u);
  EXPECT_EQ(parsed.type, ValueType::kPut);
}

TEST(KeysTest, TypesAreOnDiskAndDoNotMove) {
  EXPECT_EQ(static_cast<int>(ValueType::kDelete), 0);
  EXPECT_EQ(static_cast<int>(ValueType::kPut), 1);
  EXPECT_EQ(static_cast<int>(ValueType::kDeleteRange), 2);
  EXPECT_EQ(static_cast<int>(ValueType::kPutTtl), 3);
}

TEST(KeysTest, NewerVersionsSortFirstAndKeysByBytes) {
  std::string a5, a9, b1, ab;
  AppendInternalKey(&a5, "a", 5, ValueType::kPut);
  AppendInternalKey(&a9, "a", 9, ValueType::kDelete);
  AppendInternalKey(&b1, "b", 1, ValueType::kPut);
  AppendInternalKey(&ab, "ab", 100, ValueType::kPut);
  EXPECT_LT(CompareInternalKeys(a9, a5), 0);
  EXPECT_LT(CompareInternalKeys(a5, ab), 0);
  EXPECT_LT(CompareInternalKeys(ab, b1), 0);
  EXPECT_EQ(CompareInternalKeys(b1, b1), 0);
  EXPECT_LT(CompareInternalKeys(MakeSeekKey("a"), a9), 0) << "a seek key sorts before every version";
  EXPECT_LE(CompareInternalKeys(MakeSeekKey("a", 5), a5), 0);
  EXPECT_GT(CompareInternalKeys(MakeSeekKey("a", 5), a9), 0);
}

TEST(KeysTest, ShortOrUnknownInternalKeysAreRefused) {
  ParsedInternalKey parsed;
  EXPECT_FALSE(ParseInternalKey("1234567", &parsed));
  EXPECT_FALSE(ParseInternalKey(std::string("k\x7f\0\0\0\0\0\0\0", 9), &parsed));
}

TEST(OutcomeTest, WireValuesDoNotMoveAndEffectsAreThree) {
  EXPECT_EQ(static_cast<int>(Outcome::kNotOwner), 3);
  EXPECT_EQ(static_cast<int>(Outcome::kUnknown), 9);
  EXPECT_EQ(static_cast<int>(Outcome::kInternal), 10);
  EXPECT_EQ(static_cast<int>(Outcome::kConditionFailed), 11);
  EXPECT_EQ(static_cast<int>(kMaxOutcome), 12);
  EXPECT_EQ(EffectOf(Outcome::kConditionFailed), Effect::kNotApplied);
  EXPECT_EQ(EffectOf(Outcome::kOk), Effect::kApplied);
  EXPECT_EQ(EffectOf(Outcome::kBusy), Effect::kNotApplied);
  EXPECT_EQ(EffectOf(Outcome::kUnknown), Effect::kUnknown);
  for (int i = 0; i <= static_cast<int>(kMaxOutcome); ++i) {
    const auto o = static_cast<Outcome>(i);
    EXPECT_NE(OutcomeName(o), "Invalid");
    EXPECT_FALSE(IsRetryable(o) && EffectOf(o) != Effect::kNotApplied)
        << "A1: only what was not applied is sent again";
    EXPECT_EQ(ToOutcome(ToStatus(o, "x")), o);
  }
}

TEST(UuidTest, TextRoundTripsAndBadTextIsRefused) {
  const Uuid u{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(u.ToString(), "0123456789abcdeffedcba9876543210");
  Uuid back;
  ASSERT_TRUE(Uuid::Parse(u.ToString(), &back));
  EXPECT_EQ(back, u);
  EXPECT_FALSE(Uuid::Parse("0123", &back));
  EXPECT_FALSE(Uuid::Parse("0123456789abcdefFEDCBA9876543210", &back));
  EXPECT_NE(Uuid::Generate(), Uuid::Generate());
}

}  // namespace
}  // namespace nova
