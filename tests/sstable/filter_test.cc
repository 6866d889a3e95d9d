#include "common/sstable/filter.h"

#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

std::string StoredKey(uint64_t i) {
  return absl::StrCat("\x01user", absl::Dec(i * 2654435761u, absl::kZeroPad16));
}

std::string Build(size_t keys, int bits_per_key) {
  FilterBuilder builder(bits_per_key);
  for (size_t i = 0; i < keys; ++i) builder.Add(StoredKey(i));
  std::string bytes;
  builder.AppendTo(&bytes);
  return bytes;
}

double FalsePositives(const Filter& filter, size_t keys, size_t trials) {
  size_t hits = 0;
  for (size_t i = 0; i < trials; ++i) hits += filter.MayContain(FilterHash(StoredKey(keys + i)));
  return static_cast<double>(hits) / static_cast<double>(trials);
}

TEST(FilterTest, BytesAreAsDocumented) {
  FilterBuilder builder(10);
  for (const char* key : {"a", "b", "nova"}) builder.Add(key);
  std::string bytes;
  builder.AppendTo(&bytes);
  EXPECT_EQ(ToHex(bytes),
            "0000050000006000000100000010200000800000000000800000040080000000"
            "000000000420000080000000000000000001000000000020000080008000000006");
}

TEST(FilterTest, EveryAddedKeyIsFound) {
  for (int bits : {1, 2, 5, 10, 20, 64}) {
    for (size_t keys : {1, 2, 51, 52, 1000, 20000}) {
      Filter filter;
      ASSERT_TRUE(filter.Parse(Build(keys, bits)));
      for (size_t i = 0; i < keys; ++i)
        ASSERT_TRUE(filter.MayContain(FilterHash(StoredKey(i)))) << bits << " " << keys << " " << i;
    }
  }
}

TEST(FilterTest, FalsePositivesAtTenBitsStayBelowOnePointTwoPercent) {
  for (size_t keys : {1000, 16384, 65536, 300000}) {
    const std::string bytes = Build(keys, 10);
    EXPECT_LE(bytes.size(), keys * 10 / 8 + 65);
    Filter filter;
    ASSERT_TRUE(filter.Parse(bytes));
    const double rate = FalsePositives(filter, keys, 500000);
    RecordProperty(absl::StrCat("false_positive_rate_", keys), std::to_string(rate));
    std::printf("%zu keys: %.3f %%\n", keys, rate * 100);
    EXPECT_LE(rate, 0.012) << keys;
  }
}

TEST(FilterTest, MoreBitsGiveFewerFalsePositives) {
  double last = 1;
  for (int bits : {2, 4, 8, 12, 16}) {
    Filter filter;
    ASSERT_TRUE(filter.Parse(Build(20000, bits)));
    const double rate = FalsePositives(filter, 20000, 200000);
    EXPECT_LT(rate, last) << bits;
    last = rate;
  }
  EXPECT_LT(last, 0.003);
}

TEST(FilterTest, NoBytesMeanNoFilter) {
  EXPECT_EQ(Build(100, 0), "");
  Filter filter;
  ASSERT_TRUE(filter.Parse(""));
  EXPECT_TRUE(filter.empty());
  EXPECT_TRUE(filter.MayContain(FilterHash("anything")));
}

TEST(FilterTest, BytesThatAreNoFilterAreRejected) {
  const std::string good = Build(100, 10);
  Filter filter;
  ASSERT_TRUE(filter.Parse(good));
  for (size_t n = 1; n < good.size(); ++n) {
    if ((n - 1) % 64 != 0 || n == 1) {
      EXPECT_FALSE(filter.Parse(good.substr(0, n))) << n;
    }
  }
  for (int probes : {0, 8, 255}) {
    std::string bytes = good;
    bytes.back() = static_cast<char>(probes);
    EXPECT_FALSE(filter.Parse(bytes)) << probes;
  }
}

}  // namespace
}  // namespace nova
