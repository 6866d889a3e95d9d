#include "common/base/metrics.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace nova {
namespace {

TEST(HistogramTest, PercentilesAreWithinABucketOfTheTruth) {
  Histogram h;
  for (uint64_t v = 1; v <= 100'000; ++v) h.Add(v);
  EXPECT_EQ(h.count(), 100'000u);
  EXPECT_EQ(h.max(), 100'000u);
  for (const double p : {1.0, 50.0, 90.0, 99.0, 99.9}) {
    const double truth = p * 1000;
    EXPECT_GE(static_cast<double>(h.Percentile(p)), truth * 0.999) << p;
    EXPECT_LE(static_cast<double>(h.Percentile(p)), truth * 1.033) << p;
  }
  EXPECT_EQ(h.Percentile(100), 100'000u);
}

TEST(HistogramTest, EmptyAndExtremeValuesAreHarmless) {
  Histogram h;
  EXPECT_EQ(h.Percentile(99), 0u);
  h.Add(0);
  h.Add(UINT64_MAX / 2);
  EXPECT_EQ(h.Percentile(1), 0u);
  EXPECT_EQ(h.Percentile(100), UINT64_MAX / 2);
}

TEST(HistogramTest, MergeAddsCounts) {
  Histogram a, b;
  a.Add(10);
  b.Add(1000);
  a.Merge(b);
  EXPECT_EQ(a.count(), 2u);
  EXPECT_EQ(a.sum(), 1010u);
  EXPECT_EQ(a.max(), 1000u);
}

TEST(MetricsTest, PrometheusTextNamesEachMetricOnce) {
  Metrics m;
  m.counter("nova_x_total{op=\"read\"}")->Add(3);
  EXPECT_EQ(m.counter("nova_x_total{op=\"read\"}")->value(), 3u);
  m.gauge("nova_depth")->Set(-2);
  m.histogram("nova_wait_ns")->Add(7);
  m.AddCallback("nova_up", [] { return 1.0; });
  const std::string text = m.PrometheusText();
  EXPECT_NE(text.find("nova_x_total{op=\"read\"} 3\n"), std::string::npos);
  EXPECT_NE(text.find("nova_depth -2\n"), std::string::npos);
  EXPECT_NE(text.find("nova_wait_ns{quantile=\"0.99\"} 7\n"), std::string::npos);
  EXPECT_NE(text.find("nova_wait_ns_count 1\n"), std::string::npos);
  EXPECT_NE(text.find("nova_up 1\n"), std::string::npos);
}

// As Prometheus' text format asks: what a family is stands before its first sample, and these stand together.
TEST(MetricsTest, AFamilysTypeAndHelpStandBeforeItsSamples) {
  Metrics m;
  m.counter("nova_stoc_requests_total{type=\"Ping\"}")->Add(3);
  m.counter("nova_stoc_requests_total_of_another")->Add(1);
  m.counter("nova_stoc_requests_total{type=\"Fence\"}")->Add(4);
  m.AddCallback("nova_stoc_stored_bytes", [] { return 123456789012.0; });
  m.AddCallback("nova_ltc_write_stall_seconds_total", [] { return 0.25; });
  std::map<std::string, double> ranges{{"range=\"1\"", 2}, {"range=\"2\"", 0}};
  m.AddFamily("nova_range_tables_below_replicas", [&ranges] { return ranges; });
  EXPECT_NE(m.PrometheusText().find("nova_range_tables_below_replicas{range=\"1\"} 2\n"
                                    "nova_range_tables_below_replicas{range=\"2\"} 0\n"),
            std::string::npos);
  ranges.erase("range=\"1\"");  // labels go as they come
  EXPECT_EQ(m.PrometheusText().find("range=\"1\""), std::string::npos);
  m.histogram("nova_stoc_disk_operation_ns")->Add(7);
  Histogram one, other;  // of two threads
  one.Add(1'000);
  other.Add(3'000);
  m.AddHistogram("nova_ltc_request_ns{op=\"get\"}", [&](Histogram* sum) {
    sum->Merge(one);
    sum->Merge(other);
  });
  const std::string text = m.PrometheusText();
  EXPECT_NE(text.find("# HELP nova_stoc_requests_total Requests received, by type\n"
                      "# TYPE nova_stoc_requests_total counter\n"
                      "nova_stoc_requests_total{type=\"Fence\"} 4\n"
                      "nova_stoc_requests_total{type=\"Ping\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE nova_stoc_stored_bytes gauge\nnova_stoc_stored_bytes 123456789012\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE nova_ltc_write_stall_seconds_total counter\n"
                      "nova_ltc_write_stall_seconds_total 0.25\n"),
            std::string::npos)
      << text;
  for (const char* sum :
       {"nova_ltc_request_ns_sum{op=\"get\"} 4000\n", "nova_ltc_request_ns_count{op=\"get\"} 2\n"})
    EXPECT_NE(text.find(sum), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE nova_stoc_disk_operation_ns summary\nnova_stoc_disk_operation_ns{quantile"),
            std::string::npos)
      << text;
}

TEST(RandomTest, SameSeedSameSequenceAndUniformIsInRange) {
  Random a(5), b(5), c(6);
  EXPECT_EQ(a.Next(), b.Next());
  EXPECT_NE(a.Next(), c.Next());
  int low = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t v = a.Uniform(10);
    ASSERT_LT(v, 10u);
    low += v < 5;
  }
  EXPECT_NEAR(low, 5000, 300);
}

}  // namespace
}  // namespace nova
