// experiments/figures: its flag files and its arithmetic, without a cluster; and the smallest figure, as a
// smoke test.
#include <filesystem>
#include <fstream>

#include "tests/cluster/run_script.h"

namespace nova {
namespace {

TEST(FiguresTest, FlagFilesAreReadAndRunsAreSummedUpAsTheyShould) {
  RunScript("python3 " NOVA_SOURCE_DIR "/tests/cluster/figures_test.py");
}

TEST(FiguresTest, AFigureGivesItsTableItsCsvAndItsPicture) {
  const std::string out = testing::TempDir() + "nova-figures-test-" + std::to_string(getpid());
  RunScript("python3 " NOVA_SOURCE_DIR
            "/experiments/figures/run.py fig2 --quick --only=stocs=1 --build=" NOVA_BINARY_DIR " --out=" +
            out);
  std::string table, csv, line;
  std::getline(std::ifstream(out + "/fig2.txt"), table, '\0');
  EXPECT_NE(table.find("2 memtables    1 "), table.npos) << table;
  std::ifstream in(out + "/fig2.csv");
  int lines = 0;
  while (std::getline(in, line)) ++lines;
  EXPECT_EQ(lines, 3) << "a head, and a run of each cell";
  std::getline(std::ifstream(out + "/fig2.png"), line, '\r');
  EXPECT_EQ(line, "\x89PNG");
  std::filesystem::remove_all(out);
}

}  // namespace
}  // namespace nova
