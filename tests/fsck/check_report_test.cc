// What a check says, as text and as JSON.
#include "ltc/fsck/check_report.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

CheckReport SomeReport() {
  CheckReport r;
  r.ranges = 2;
  r.tables = 3;
  r.log_groups.Add(3, 3);
  r.manifests.Add(3, 2);
  r.table_parts.Add(2, 2);
  r.table_parts.Add(2, 1);
  r.blocks = 7;
  r.bytes = 5 << 20;
  r.names[StocId(4)] = "stoc-3";
  r.findings.push_back(
      {FindingKind::kTableDamaged, RangeId(2), StocId(4), {{1, 2}, 0}, 0, "block at 0: checksum mismatch"});
  r.findings.push_back({FindingKind::kLogMember, RangeId(2), StocId(9), {}, 5, "it is not there"});
  return r;
}

TEST(CheckReportTest, IsALineAFindingAndASummary) {
  EXPECT_EQ(RenderReport(SomeReport()),
            "table-damaged range 2 stoc-3 files/00000000000000010000000000000002.0: block at 0: checksum "
            "mismatch\n"
            "log-member range 2 stoc 9: it is not there\n"
            "ranges: 2, tables: 3\n"
            "log groups: 1, good copies: 3 of 3, the fewest of one: 3\n"
            "manifests: 1, good copies: 2 of 3, the fewest of one: 2\n"
            "parts of tables: 2, good copies: 3 of 4, the fewest of one: 1\n"
            "read: 5 MB, 7 blocks\n"
            "findings: 2\n");
  CheckReport clean;
  clean.left_over = 2;
  EXPECT_TRUE(RenderReport(clean).ends_with(
      "left over, and collected once their ranges are served: 2 files, 0 MB\nclean\n"));
}

TEST(CheckReportTest, IsJson) {
  const std::string json = RenderReportJson(SomeReport());
  EXPECT_TRUE(json.starts_with("{\"clean\":false,\"ranges\":2,\"tables\":3,\"log_groups\":{\"all\":1,"))
      << json;
  EXPECT_NE(json.find("\"table_parts\":{\"all\":2,\"copies\":4,\"good\":3,\"fewest\":1,"
                      "\"by_good\":{\"1\":1,\"2\":1}}"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"kind\":\"table-damaged\",\"range\":2,\"stoc\":4,\"name\":\"stoc-3\",\"file\":"
                      "\"files/00000000000000010000000000000002.0\",\"text\":\"block at 0: checksum "
                      "mismatch\"}"),
            std::string::npos)
      << json;
  EXPECT_EQ(json.find('\n'), json.size() - 1);
}

}  // namespace
}  // namespace nova
