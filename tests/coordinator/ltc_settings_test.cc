#include "coordinator/ltc_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(LtcSettingsTest, EachHasBoundsAndIsOnlySetWithinThem) {
  for (const LtcSettings::Kind& kind : LtcSettings::Kinds()) {
    LtcSettings settings;
    for (const int good : {kind.least, kind.most}) {
      ASSERT_TRUE(settings.Set(kind.name, good).ok()) << kind.name;
      EXPECT_THAT(settings.Given(), ElementsAre(Pair(kind.name, good)));
    }
    for (const int wrong : {kind.least - 1, kind.most + 1, -1}) {
      const Status s = settings.Set(kind.name, wrong);
      EXPECT_TRUE(absl::IsInvalidArgument(s));
      EXPECT_EQ(s.message(), StrCat(kind.name, " = ", wrong, ": must be ", kind.least, " to ", kind.most));
    }
    EXPECT_THAT(settings.Given(), ElementsAre(Pair(kind.name, kind.most))) << "as it was";
    ASSERT_TRUE(settings.Set(kind.name, std::nullopt).ok());
    EXPECT_EQ(settings, LtcSettings());
  }
}

TEST(LtcSettingsTest, ANameThatIsNoneIsRefusedAndAllNamesAreTold) {
  LtcSettings settings;
  const Status s = settings.Set("theta", 4);
  EXPECT_TRUE(absl::IsInvalidArgument(s));
  for (const LtcSettings::Kind& kind : LtcSettings::Kinds())
    EXPECT_THAT(std::string(s.message()), HasSubstr(kind.name));
  EXPECT_EQ(settings, LtcSettings());
}

TEST(LtcSettingsTest, TextIsAsDocumentedAndKeepsWhatALaterVersionKnows) {
  LtcSettings settings;
  ASSERT_TRUE(settings.Set("scatter_width", 3).ok());
  ASSERT_TRUE(settings.Set("dranges", 64).ok());
  EXPECT_EQ(settings.Encode(), "dranges=64\nscatter_width=3\n");
  EXPECT_EQ(LtcSettings::Decode(settings.Encode()), settings);
  EXPECT_EQ(settings.Encode("later=7\ndranges=2\npower_of_d=9\n"), "later=7\ndranges=64\nscatter_width=3\n");
  EXPECT_EQ(LtcSettings().Encode("later=7\ndranges=2\n"), "later=7\n");
}

TEST(LtcSettingsTest, OfATextWhatMakesNoSenseIsLeftOut) {
  const LtcSettings settings = LtcSettings::Decode(
      "later=7\ndranges=0\nactive_memtables=many\nscatter_width=2\n\npower_of_d\nscatter_width=9\n");
  EXPECT_THAT(settings.Given(), ElementsAre(Pair("scatter_width", 2)));
  EXPECT_EQ(LtcSettings::Decode(""), LtcSettings());
}

}  // namespace
}  // namespace nova
