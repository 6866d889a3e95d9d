#include "common/sstable/format.h"

#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

TableInfo SampleInfo() {
  TableInfo info;
  info.uuid = {0x1122334455667788, 0x99aabbccddeeff00};
  info.data_size = 1000;
  info.metadata_size = 200;
  info.entries = 7;
  info.smallest = InternalKey("a", 5);
  info.largest = InternalKey("z", 3, ValueType::kDelete);
  info.min_sequence = 3;
  info.max_sequence = 300;
  info.use_from = "b";
  info.use_to = "y";
  info.fragments = {{0, 600, {StocId(1), StocId(2)}}, {600, 400, {StocId(300)}}};
  info.metadata_stocs = {StocId(4)};
  info.properties = {{"sketch", std::string("\0\1", 2)}, {"unheard of", "kept"}};
  return info;
}

std::string Encode(const TableInfo& info) {
  std::string bytes;
  info.AppendTo(&bytes);
  return bytes;
}

TEST(TableInfoTest, BytesAreAsDocumented) {
  EXPECT_EQ(ToHex(Encode(SampleInfo())),
            "5d"
            "01"
            "8877665544332211"
            "00ffeeddccbbaa99"
            "e807"
            "c801"
            "07"
            "09"
            "61"
            "0105000000000000"
            "09"
            "7a"
            "0003000000000000"
            "03"
            "ac02"
            "01"
            "62"
            "01"
            "79"
            "00"
            "02"
            "00"
            "d804"
            "02"
            "01"
            "02"
            "d804"
            "9003"
            "01"
            "ac02"
            "01"
            "04"
            "02"
            "06"
            "736b65746368"
            "02"
            "0001"
            "0a"
            "756e6865617264206f66"
            "04"
            "6b657074");
}

TEST(TableInfoTest, ComesBackWithUnknownProperties) {
  const std::string bytes = Encode(SampleInfo()) + "rest";
  std::string_view in = bytes;
  auto info = TableInfo::Parse(&in);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(*info, SampleInfo());
  EXPECT_EQ(in, "rest");
  EXPECT_EQ(info->properties.at("unheard of"), "kept");
}

TEST(TableInfoTest, AnEmptyOneComesBack) {
  const std::string bytes = Encode(TableInfo());
  std::string_view in = bytes;
  auto info = TableInfo::Parse(&in);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(*info, TableInfo());
}

TEST(TableInfoTest, TruncatedBytesAreDataLossAndLeftAlone) {
  const std::string bytes = Encode(SampleInfo());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<char> exact(bytes.begin(), bytes.begin() + n);
    std::string_view in(exact.data(), n);
    EXPECT_EQ(TableInfo::Parse(&in).status().code(), absl::StatusCode::kDataLoss) << n;
    EXPECT_EQ(in.size(), n);
  }
}

TEST(TableInfoTest, AnotherVersionIsRefused) {
  std::string bytes = Encode(SampleInfo());
  bytes[1] = 2;
  std::string_view in = bytes;
  const Status status = TableInfo::Parse(&in).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("version 2"), absl::string_view::npos) << status;
}

TEST(TableInfoTest, ChangedBytesParseToSomethingOrNothing) {
  const std::string good = Encode(SampleInfo());
  Random random(1);
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = good;
    for (uint64_t n = 1 + random.Uniform(3); n > 0; --n)
      bytes[random.Uniform(bytes.size())] = static_cast<char>(random.Next());
    std::string_view in = bytes;
    auto info = TableInfo::Parse(&in);
    if (!info.ok()) continue;
    EXPECT_EQ(Encode(*info), bytes.substr(0, bytes.size() - in.size()));
  }
}

// A count says how much follows; it must not be believed before it is there.
TEST(TableInfoTest, HugeCountsAreRefusedWithoutAllocating) {
  TableInfo empty;
  const std::string bytes = Encode(empty);  // ends: fragments 0 | metadata stocs 0 | properties 0
  const std::string body = bytes.substr(1, bytes.size() - 4);
  const std::string huge = "\xff\xff\xff\xff\x0f";
  for (const std::string& tail :
       {huge, "\0" + huge, std::string(1, '\0') + huge, std::string(2, '\0') + huge}) {
    std::string bad;
    PutLengthPrefixed(&bad, body + tail + std::string(16, '\0'));
    std::string_view in = bad;
    EXPECT_EQ(TableInfo::Parse(&in).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(TableInfoTest, KeysTooShortForATrailerAreRefused) {
  for (std::string TableInfo::*key : {&TableInfo::smallest, &TableInfo::largest}) {
    TableInfo info = SampleInfo();
    info.*key = "short";
    const std::string bytes = Encode(info);
    std::string_view in = bytes;
    EXPECT_EQ(TableInfo::Parse(&in).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace nova
