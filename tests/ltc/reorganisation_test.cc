// Dranges, as text in, text out: what passes over memtables see, and how the keys are cut then:
// testdata/reorganisation.txt. DrangeMap and WriteHistogram by themselves.
#include "ltc/engine/reorganisation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/zipfian.h"
#include "tests/ltc/data_driven.h"

namespace nova {
namespace {

using Loads = std::map<std::string, double>;

std::string Key(const std::string& prefix, uint64_t i) { return absl::StrFormat("%s%06d", prefix, i); }

// A pass: "key=load ...", or a distribution with records=, writes=, at=, seed=, prefix=.
Loads PassFromText(const std::vector<std::string>& words) {
  Loads loads;
  std::map<std::string, std::string> of;
  for (size_t i = 2; i < words.size(); ++i) {
    const std::pair<std::string, std::string> option = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    of[option.first] = option.second;
  }
  if (words[1] == "keys") {
    for (const auto& [key, load] : of) loads[key] = std::stod(load);
    return loads;
  }
  const auto number = [&](const char* name, uint64_t otherwise) {
    return of.contains(name) ? std::stoull(of[name]) : otherwise;
  };
  const std::string prefix = of["prefix"];
  const uint64_t records = number("records", 100'000), writes = number("writes", 200'000),
                 at = number("at", 0);
  std::vector<double> counts(records + writes + at);  // by key
  Random random(number("seed", 1));
  const bool skewed = words[1] == "ranked" || words[1] == "scrambled";
  const Zipfian zipfian(skewed ? records : 1);
  for (uint64_t i = 0; i < writes; ++i) {
    uint64_t key = 0;
    if (words[1] == "uniform") key = random.Uniform(records);
    if (words[1] == "ranked") key = zipfian.Next(&random);
    if (words[1] == "scrambled") key = ScrambledRank(zipfian.Next(&random)) % records;
    // nine tenths of the writes to a hundredth of the keys
    if (words[1] == "spot")
      key = random.OneIn(10) ? random.Uniform(records) : at + random.Uniform(records / 100);
    if (words[1] == "hot") key = random.OneIn(2) ? random.Uniform(records) : at;
    if (words[1] == "ascending") key = at + i;
    if (words[1] == "one") key = at;
    ++counts[key];
  }
  const bool unequal = number("unequal", 0) == 1;  // lengths: some keys are others' beginnings
  for (uint64_t key = 0; key < counts.size(); ++key) {
    if (counts[key] == 0) continue;
    std::string text = Key(prefix, key);
    if (unequal && key % 3 == 0) text.resize(text.size() - 2);
    loads[text] += counts[key];
  }
  return loads;
}

// "dranges n", "least n", "decay x", then passes; "flush n": bytes of a flush from then on. Out comes for
// each pass what became of the Dranges; "cuts" adds where they are cut.
std::string ReorganiseFromText(const std::vector<std::string>& lines) {
  ReorganisationOptions options;
  options.least_table_bytes = 1;
  DrangeMapRef map;
  double decay = 0.25;
  uint64_t flush_bytes = 1 << 20;
  WriteHistogram seen(2048);
  std::string out;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "dranges") options.dranges = std::stoi(words[1]);
    if (words[0] == "least") options.least_table_bytes = std::stoull(words[1]);
    if (words[0] == "flush") flush_bytes = std::stoull(words[1]);
    if (words[0] == "decay") decay = std::stod(words[1]);
    if (words[0] == "cuts") {
      for (size_t i = 1; map != nullptr && i < map->size(); ++i)
        out += StrCat("  ", absl::CHexEscape(std::string(map->First(i))), "\n");
    }
    if (words[0] != "pass") continue;
    WriteHistogram pass(2048);
    const Loads loads = PassFromText(words);
    for (const auto& [key, load] : loads) pass.Add(key, load);
    seen.Merge(pass, decay);
    const Reorganised r = Reorganise(map, seen, flush_bytes, options);
    const char* const kinds[] = {"none", "minor", "major"};
    const std::vector<double> of_pass = SharesOf(r.map, pass);
    absl::StrAppendFormat(&out, "%s: %d Dranges, imbalance %.1e -> %.1e, largest share of this pass %.4f\n",
                          kinds[static_cast<int>(r.kind)], of_pass.size(), r.imbalance_before, r.imbalance,
                          *std::max_element(of_pass.begin(), of_pass.end()));
    map = r.map;
  }
  return out;
}

TEST(ReorganisationTest, Dranges) { RunFile("reorganisation.txt", ReorganiseFromText); }

// Nothing, or about as much as a double may be: far below the rounding of others, too.
double AnyLoad(Random* random) {
  if (random->OneIn(5)) return 0;
  const auto most = random->OneIn(2) ? 300 : 20;
  return std::pow(10, static_cast<double>(random->Uniform(2 * most + 1)) - most);
}

TEST(ReorganisationTest, EndsForAnyLoadsAndItsCutsRise) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    ReorganisationOptions options;
    options.least_table_bytes = 1;
    WriteHistogram seen(1 + random.Uniform(64));
    DrangeMapRef map;
    for (int pass = 0; pass < 4; ++pass) {
      options.dranges = static_cast<int>(1 + random.Uniform(64));
      WriteHistogram h(1 + random.Uniform(64));
      for (uint64_t i = 0, n = random.Uniform(200); i < n; ++i)
        h.Add(Key("k", 3 * i + random.Uniform(3)), AnyLoad(&random));
      random.OneIn(2) ? seen.Merge(h, 0.5) : void(seen = std::move(h));
      map = Reorganise(map, seen, 1 << 20, options).map;
      if (map == nullptr) continue;
      const std::vector<std::string>& cuts = map->cuts();
      ASSERT_EQ(std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()), cuts.end()) << round;
      if (seen.load() == 0) continue;
      ASSERT_LE(map->size(), static_cast<size_t>(options.dranges)) << round;
    }
  }
}

TEST(DrangeMapTest, AKeyBelongsToTheDrangeOfTheLastCutNotBehindIt) {
  const std::string prefix = "user/long/shared/prefix/";
  const std::vector<std::string> cuts = {prefix + "a", prefix + "ab", prefix + "abcdefgh1",
                                         prefix + "abcdefgh2", prefix + "b"};
  const DrangeMap map(cuts, 3);
  EXPECT_EQ(map.size(), 6u);
  std::vector<std::string> keys = {"", "a", "z", prefix};
  for (const std::string& cut : cuts) {
    keys.push_back(cut);
    keys.push_back(cut + std::string(1, '\0'));
    keys.push_back(cut.substr(0, cut.size() - 1) + static_cast<char>(cut.back() - 1));
  }
  for (const std::string& key : keys) {
    const auto above = std::upper_bound(cuts.begin(), cuts.end(), key);
    EXPECT_EQ(map.Of(key), static_cast<size_t>(above - cuts.begin())) << key;
  }
  EXPECT_EQ(DrangeMap({}, 1).Of("x"), 0u);
}

TEST(DrangeMapTest, CoarseCutsAreAmongTheFineOnes) {
  std::vector<std::string> cuts;
  for (uint64_t i = 1; i < 64; ++i) cuts.push_back(Key("k", i));
  const DrangeMap map(cuts, 1);
  const std::vector<std::string> fine = map.CutsFor(0, 63, 64'000, 1000);
  EXPECT_EQ(fine, cuts) << "there is enough for each";
  std::vector<std::string> finer = fine;
  for (const uint64_t bytes : {63'999, 32'000, 10'000, 2'000, 1'999, 0}) {
    const std::vector<std::string> some = map.CutsFor(0, 63, bytes, 1000);
    EXPECT_TRUE(std::includes(finer.begin(), finer.end(), some.begin(), some.end())) << bytes;
    EXPECT_LE(some.size() + 1, std::max<uint64_t>(1, bytes / 1000)) << bytes;
    finer = some;
  }
  EXPECT_EQ(map.CutsFor(9, 9, 0, 1000), std::vector<std::string>()) << "one Drange has no cut inside";
  EXPECT_EQ(map.CutsFor(9, 10, 2000, 1000), std::vector<std::string>{cuts[9]});
}

TEST(DrangeMapTest, GoldenBytesAndRefusals) {
  const DrangeMap map({"b", "bcd"}, 300);
  const std::string bytes = map.Encode();
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "01ac02020162"
            "03626364");
  const DrangeMapRef again = DrangeMap::Decode(bytes);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->cuts(), map.cuts());
  EXPECT_EQ(again->generation(), 300u);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_EQ(DrangeMap::Decode(bytes.substr(0, n)), nullptr) << n;
  EXPECT_EQ(DrangeMap::Decode(bytes + "x"), nullptr) << "bytes behind it";
  std::string other = bytes;
  other[0] = 2;
  EXPECT_EQ(DrangeMap::Decode(other), nullptr) << "of another format";
  other = bytes;
  other[5] = 'c';
  EXPECT_EQ(DrangeMap::Decode(other), nullptr) << "cuts that do not ascend";
  EXPECT_EQ(DrangeMap::Decode(absl::HexStringToBytes("01010100")), nullptr) << "an empty cut";
  EXPECT_EQ(DrangeMap::Decode(absl::HexStringToBytes("0101ffffffff0f")), nullptr) << "more than there may be";
}

TEST(WriteHistogramTest, NoLoadIsLostAndBucketsAreFewAndSmall) {
  Random random(7);
  WriteHistogram all(128);
  double expected = 0;
  for (int pass = 0; pass < 20; ++pass) {
    WriteHistogram h(128);
    double of_pass = 0;
    for (uint64_t i = 0; i < 5'000; ++i) {
      const double load = random.OneIn(100) ? 5'000 : static_cast<double>(1 + random.Uniform(10));
      h.Add(Key("k", i * 7 + random.Uniform(7)), load);
      of_pass += load;
    }
    EXPECT_NEAR(h.load(), of_pass, 1e-6 * of_pass);
    all.Merge(h, 0.5);
    expected = expected * 0.5 + of_pass;
  }
  double sum = 0;
  for (size_t i = 0; i < all.buckets().size(); ++i) {
    const WriteHistogram::Bucket& b = all.buckets()[i];
    sum += b.load;
    EXPECT_TRUE(i == 0 || all.buckets()[i - 1].first < b.first);
    EXPECT_TRUE(b.single() || b.load <= 2 * expected / 128 * 1.0001);
  }
  EXPECT_NEAR(sum, expected, 1e-6 * expected);
  EXPECT_NEAR(all.load(), expected, 1e-6 * expected);
  EXPECT_LE(all.buckets().size(), 128u);
  EXPECT_GE(all.buckets().size(), 64u);
}

TEST(WriteHistogramTest, AHotKeyStaysABucketOfItsOwn) {
  WriteHistogram all(16);
  for (int pass = 0; pass < 3; ++pass) {
    WriteHistogram h(16);
    for (uint64_t i = 0; i < 1000; ++i) h.Add(Key("k", i), i == 500 ? 1000 : 1);
    all.Merge(h, 0.5);
  }
  const auto hot = std::find_if(all.buckets().begin(), all.buckets().end(),
                                [](const auto& b) { return b.first == "k000500"; });
  ASSERT_NE(hot, all.buckets().end());
  EXPECT_TRUE(hot->single());
  EXPECT_DOUBLE_EQ(hot->load, 1750);
}

TEST(WriteHistogramTest, AKeyThatBecomesHotIsABucketOfItsOwn) {
  WriteHistogram all(16);
  for (int pass = 0; pass < 20; ++pass) {
    WriteHistogram h(16);
    for (uint64_t i = 0; i < 1000; ++i) h.Add(Key("k", i), pass > 0 && i == 500 ? 1000 : 1);
    all.Merge(h, 0.5);
  }
  const auto hot = std::find_if(all.buckets().begin(), all.buckets().end(),
                                [](const auto& b) { return b.first == "k000500"; });
  ASSERT_NE(hot, all.buckets().end());
  EXPECT_TRUE(hot->single());
}

TEST(WriteHistogramTest, BucketsThatHaveDecayedToNothingGoToTheirNeighbours) {
  WriteHistogram all(64);
  WriteHistogram h(64);
  for (uint64_t i = 0; i < 1000; ++i) h.Add(Key("k", i), 1);
  all.Merge(h, 0.5);
  WriteHistogram hot(64);
  hot.Add(Key("k", 300), 100);
  hot.Add(Key("k", 500), 1000);
  for (int pass = 0; pass < 60; ++pass) all.Merge(hot, 0.5);
  ASSERT_EQ(all.buckets().size(), 2u);
  EXPECT_EQ(all.buckets()[0].first, Key("k", 300));
  EXPECT_NEAR(all.buckets()[0].load, 200, 1e-5);
  EXPECT_EQ(all.buckets()[1].first, Key("k", 500));
  EXPECT_NEAR(all.buckets()[1].load, 2000, 1e-5);
  EXPECT_TRUE(all.buckets()[1].single());
}

}  // namespace
}  // namespace nova
