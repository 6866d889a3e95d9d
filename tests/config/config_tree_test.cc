#include "common/config/config_tree.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/random.h"

namespace nova {
namespace {

ConfigTree SmallTree() {
  ConfigTree tree;
  std::vector<std::string> changed;
  EXPECT_TRUE(tree.Apply({ConfigOp::Create("/a", "1"), ConfigOp::Create("/a/b", "22")}, 1, &changed).ok());
  EXPECT_TRUE(tree.Apply({ConfigOp::Set("/a", "3", 0), ConfigOp::Create("/e", "", true)}, 1, &changed).ok());
  return tree;
}

TEST(ConfigTreeTest, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(SmallTree().Encode()),
            "4e4f564143464731"  // NOVACFG1
            "57d82787"          // crc32c
            "0202"              // last transaction, nodes
            "022f61"
            "0133"
            "01"
            "01"
            "042f612f62"
            "023232"
            "00"
            "01");
}

TEST(ConfigTreeTest, EveryDamageIsFound) {
  const std::string good = SmallTree().Encode();
  ASSERT_TRUE(ConfigTree::Decode(good).ok());
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(ConfigTree::Decode(good.substr(0, n)).ok()) << n;
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ 0x10);
    EXPECT_FALSE(ConfigTree::Decode(bad).ok()) << n;
  }
}

TEST(ConfigTreeTest, ARefusedChangeLeavesNoTrace) {
  Random random(1);
  ConfigTree tree;
  std::vector<std::string> changed;
  for (int i = 0; i < 2000; ++i) {
    std::vector<ConfigOp> ops;
    for (uint64_t n = 1 + random.Uniform(4); n > 0; --n) {
      std::string path = StrCat("/", random.Uniform(4));
      if (random.OneIn(2)) path += StrCat("/", random.Uniform(3));
      switch (random.Uniform(4)) {
        case 0:
          ops.push_back(ConfigOp::Create(path, StrCat(i), random.OneIn(4)));
          break;
        case 1:
          ops.push_back(ConfigOp::Set(path, StrCat(i), -1));
          break;
        case 2:
          ops.push_back(ConfigOp::Delete(path));
          break;
        default:
          ops.push_back(ConfigOp::Check(path, static_cast<int64_t>(random.Uniform(3)) - 1));
      }
    }
    const std::string before = tree.Encode();
    changed.clear();
    if (tree.Apply(ops, 1 + random.Uniform(2), &changed).ok()) continue;
    EXPECT_EQ(tree.Encode(), before);
    EXPECT_TRUE(changed.empty());
  }
}

}  // namespace
}  // namespace nova
