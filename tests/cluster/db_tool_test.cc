// nova_db as a user types it: its commands, bad input.
#include <gtest/gtest.h>

#include <filesystem>

#include "ltc/embedded/db.h"
#include "tests/cluster/process.h"

namespace nova {
namespace {

int NovaDb(const std::vector<std::string>& words, std::string* output) {
  std::vector<std::string> argv = {NOVA_BINARY_DIR "/bin/nova_db"};
  argv.insert(argv.end(), words.begin(), words.end());
  return RunToEnd(argv, output);
}

std::string ValueIn(const std::string& directory) {
  DbOptions options;
  options.create_if_missing = false;
  const auto db = Db::Open(directory, options);
  if (!db.ok()) return db.status().ToString();
  std::string value;
  const Status got = (*db)->Get("a", &value);
  return got.ok() ? value : got.ToString();
}

TEST(DbToolTest, CheckpointAndRestoreMakeDatabasesOfOthers) {
  const std::string root = testing::TempDir() + "/db-tool-" + std::to_string(getpid());
  std::filesystem::create_directory(root);
  const std::string live = root + "/live", kept = root + "/kept", back = root + "/back";
  std::string out;
  {
    const auto db = Db::Open(live);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put("a", "1").ok());
    EXPECT_EQ(NovaDb({"checkpoint", live, kept}, &out), 1) << "it is open";
    EXPECT_NE(out.find("another process"), std::string::npos) << out;
  }
  EXPECT_EQ(NovaDb({"checkpoint", live, kept}, &out), 0) << out;
  EXPECT_EQ(out, "");
  {
    const auto db = Db::Open(live);
    ASSERT_TRUE(db.ok()) << db.status();
    ASSERT_TRUE((*db)->Put("a", "2").ok());
  }
  EXPECT_EQ(NovaDb({"restore", kept, back}, &out), 0) << out;
  EXPECT_EQ(ValueIn(back), "1");
  EXPECT_EQ(ValueIn(live), "2");
  EXPECT_EQ(NovaDb({"restore", kept, live}, &out), 1) << "a database that is there is not replaced";
  EXPECT_EQ(ValueIn(live), "2");
  EXPECT_EQ(ValueIn(kept), "1");
  EXPECT_EQ(NovaDb({"restore", root + "/none", root + "/new"}, &out), 1);
  EXPECT_FALSE(std::filesystem::exists(root + "/new"));
  std::filesystem::remove_all(root);
}

TEST(DbToolTest, BadInputIsOneLineAndExitTwo) {
  for (const std::vector<std::string>& bad : {std::vector<std::string>{},
                                              {"checkpoint"},
                                              {"checkpoint", "a"},
                                              {"get", "a", "b"},
                                              {"restore", "a", "b", "c"},
                                              {"--no_such_flag"}}) {
    std::string out;
    EXPECT_EQ(NovaDb(bad, &out), 2) << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
  }
}

}  // namespace
}  // namespace nova
