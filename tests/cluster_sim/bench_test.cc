// nova bench: a closed loop counts a pause of the cluster once, an open one in each operation that was to
// begin meanwhile.
#include "client/bench.h"

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/thread.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

constexpr Nanos kPause = 2 * kSecond;

// The number behind a word of a report; -1: it has none.
double NumberBehind(const std::string& report, std::string_view word) {
  const std::vector<std::string> words = absl::StrSplit(report, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    double number = 0;
    if (words[i] == word && absl::SimpleAtod(words[i + 1], &number)) return number;
  }
  return -1;
}

// The report of W100 for six seconds, in which the one LTC stands still for two.
struct Report {
  explicit Report(BenchOptions options) {
    SimClusterOptions cluster = SmallCluster();
    cluster.ltcs = 1;
    cluster.network.max_delay_ns = kMillisecond;
    cluster.client.timeout_ms = 60'000;
    OneRange w(cluster);
    options.workload = "W100";
    options.records = 100;
    options.threads = 1;
    options.seconds = 6;
    options.progress = false;
    Thread pause("test.pause", [&w] {
      SleepFor(2 * kSecond);
      w.cluster.Pause("ltc-0");
      SleepFor(kPause);
      w.cluster.Resume("ltc-0");
    });
    text = RunBench(w.client.get(), options).value_or(BenchReport{.text = "refused"}).text;
  }
  double Of(std::string_view word) const { return NumberBehind(text, word); }
  std::string text;
};

TEST(BenchTest, AnOpenLoopCountsAPauseInAllThatWereToBeginMeanwhile) {
  Simulate(1, [] {
    const Report report({.rate = 100});
    EXPECT_EQ(report.Of("n"), 600) << report.text;
    EXPECT_EQ(report.Of("failed"), 0) << report.text;
    // A third of all waited, for a second on the average.
    EXPECT_GT(report.Of("mean"), 250e3) << report.text;
    EXPECT_LT(report.Of("mean"), 600e3) << report.text;
    EXPECT_GE(report.Of("max"), kPause / kMicrosecond * 0.9) << report.text;
    EXPECT_NE(report.text.find("an open loop of 100 a second"), std::string::npos) << report.text;
  });
}

TEST(BenchTest, AClosedLoopCountsItOnce) {
  Simulate(1, [] {
    const Report report({});
    EXPECT_GT(report.Of("n"), 600) << report.text;
    EXPECT_GE(report.Of("max"), kPause / kMicrosecond * 0.9) << report.text;
    EXPECT_LT(report.Of("mean"), 50e3) << report.text;
  });
}

// How many of 2,000 gets of 100 records, drawn with that constant, are of the hottest, the only one there.
double HitsOfTheHottest(double zipf_constant) {
  double hits = -1;
  Simulate(1, [&] {
    OneRange w(SmallCluster());
    ASSERT_EQ(w.client->Put(BenchKey(0, 100), "v").outcome, Outcome::kOk);
    const auto report = RunBench(w.client.get(), {.workload = "R100",
                                                  .distribution = "zipfian",
                                                  .zipf_constant = zipf_constant,
                                                  .records = 100,
                                                  .operations = 2000,
                                                  .progress = false});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_NE(report->text.find(StrCat("zipfian ", zipf_constant, ",")), std::string::npos) << report->text;
    hits = 2000 - NumberBehind(report->text, "found");
  });
  return hits;
}

// The sums of the weights of 100 ranks are 5.28 and 42.2.
TEST(BenchTest, TheZipfConstantSaysHowSkewedRequestsAre) {
  EXPECT_NEAR(HitsOfTheHottest(0.99), 2000 / 5.28, 80);
  EXPECT_NEAR(HitsOfTheHottest(0.25), 2000 / 42.2, 30);
}

TEST(BenchTest, AZipfConstantThatItCannotDrawWithIsRefused) {
  Simulate(1, [] {
    OneRange w(SmallCluster());
    for (const double constant : {-1.0, 0.0, 1.0, 1.5}) {
      const auto report = RunBench(
          w.client.get(), {.distribution = "scrambled", .zipf_constant = constant, .progress = false});
      EXPECT_TRUE(absl::IsInvalidArgument(report.status())) << constant;
    }
  });
}

// Also where the next operation is due long after.
TEST(BenchTest, EndsWithAReportWhenItIsStopped) {
  for (const double rate : {50.0, 0.05}) {
    SCOPED_TRACE(rate);
    Simulate(1, [rate] {
      OneRange w(SmallCluster());
      std::atomic<bool> stop{false};
      Thread stopper("test.stop", [&stop] {
        SleepFor(kSecond);
        stop = true;
      });
      const Nanos begun = Now();
      const auto report = RunBench(
          w.client.get(), {.records = 100, .seconds = 1000, .rate = rate, .progress = false, .stop = &stop});
      ASSERT_TRUE(report.ok());
      EXPECT_LT(Now() - begun, 3 * kSecond) << report->text;
    });
  }
}

// Those that no LOAD of as many records has written.
TEST(BenchTest, CountsRecordsThatAreMissingInScansTooAndSaysWhatWritesThem) {
  Simulate(1, [] {
    OneRange w(SmallCluster());
    const auto run = [&w](const std::string& workload, uint64_t records) {
      const auto report = RunBench(
          w.client.get(), {.workload = workload, .records = records, .operations = 400, .progress = false});
      EXPECT_TRUE(report.ok() && report->failed == 0) << report.status();
      return report.value_or(BenchReport{}).text;
    };
    const std::string hint = "`nova bench LOAD --records=10`";
    for (const std::string workload : {"R100", "SW50"}) {
      SCOPED_TRACE(workload);
      const std::string missing = run(workload, 10);
      EXPECT_GT(NumberBehind(missing, "found"), workload == "R100" ? 399 : 0) << missing;
      EXPECT_NE(missing.find(hint), missing.npos) << missing;
    }
    run("LOAD", 10);
    for (const std::string workload : {"R100", "SW50"}) {
      SCOPED_TRACE(workload);
      const std::string loaded = run(workload, 10);
      EXPECT_EQ(NumberBehind(loaded, "found"), 0) << loaded;
      EXPECT_EQ(loaded.find("missing"), loaded.npos) << loaded;
    }
    EXPECT_GT(NumberBehind(run("SW50", 7), "found"), 0) << "the records of ten are not those of seven";
  });
}

}  // namespace
}  // namespace nova
