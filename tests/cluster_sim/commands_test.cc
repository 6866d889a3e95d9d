// What an operator types at a cluster, what he is told, and the exit codes.
#include "client/commands.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio_ext.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "client/exit_codes.h"
#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

int Execute(OneRange* w, const std::vector<std::string>& words) {
  CLI::App app;
  Command chosen;
  AddCommands(&app, &chosen);
  const std::optional<int> refused = ParseWords(&app, words);
  Session session{w->client.get()};
  return EndOutput(refused ? *refused : chosen(&session));
}

// Words that were typed at a cluster, and what came of them.
struct Typed {
  Typed(OneRange* w, const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    code = Execute(w, words);
    out = testing::internal::GetCapturedStdout();
    err = testing::internal::GetCapturedStderr();
  }
  int code;
  std::string out, err;
};

TEST(CommandsTest, WordsThatNoClusterTakesAreExitCode2) {
  Simulate(1, [] {
    OneRange w(SmallCluster());
    const std::vector<std::vector<std::string>> cases = {{"create-ranges", "b", "a"},
                                                         {"drain", "two words"},
                                                         {"undrain", "a/b"},
                                                         {"configure", "dranges", "many"},
                                                         {"configure", "dranges", "0"}};
    for (const auto& words : cases) {
      const Typed typed(&w, words);
      EXPECT_EQ(typed.code, kExitUsage) << words[0] << " " << words[1] << ": " << typed.err;
      EXPECT_TRUE(typed.err.starts_with("error: ")) << typed.err;
      EXPECT_EQ(typed.out, "");
    }
    EXPECT_EQ(Typed(&w, {"create-ranges", "a", "b"}).code, kExitFailed) << "there are ranges";
  });
}

TEST(CommandsTest, AStatusThatCannotBeHadIsSaidOnStderr) {
  Simulate(2, [] {
    OneRange w(SmallCluster());
    EXPECT_EQ(Typed(&w, {"status"}).err, "");
    for (const std::string& coordinator : w.cluster.Names("coordinator")) w.cluster.Kill(coordinator);
    const Typed typed(&w, {"status"});
    EXPECT_EQ(typed.code, kExitFailed);
    EXPECT_EQ(typed.out, "");
    EXPECT_TRUE(typed.err.starts_with("error: ")) << typed.err;
  });
}

TEST(CommandsTest, AScanReadsNoMoreOnceItsOutputIsLost) {
  Simulate(5, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.range.scan_page_bytes = 2 << 10;
    OneRange w(options);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(1000, 'x')).ok());
    std::fflush(stdout);
    const int shown = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
    dup2(full, STDOUT_FILENO);
    testing::internal::CaptureStderr();
    const int code = Execute(&w, {"scan", "", "1000"});
    const std::string err = testing::internal::GetCapturedStderr();
    __fpurge(stdout);
    std::clearerr(stdout);
    dup2(shown, STDOUT_FILENO);
    close(full);
    close(shown);
    EXPECT_EQ(code, kExitFailed);
    EXPECT_EQ(err, "error: output is lost: No space left on device\n");
    EXPECT_LT(w.cluster.Metric("ltc", "nova_ltc_requests_total{op=\"scan\"}"), 20);
  });
}

TEST(CommandsTest, UndrainSaysWhatTheNodeDoesNow) {
  Simulate(3, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 4;
    OneRange w(options);
    for (const std::string node : {"stoc-1", "ltc-0"}) {
      EXPECT_EQ(Typed(&w, {"undrain", node}).out, node + " does not drain, and takes part\n");
      std::string left;
      ASSERT_TRUE(w.client->Drain(node, &left).ok());
      EXPECT_EQ(Typed(&w, {"undrain", node}).out, node + " takes part again\n");
    }
    w.cluster.Kill("stoc-1");
    SleepFor(8 * kSecond);
    const std::string away = ": it takes part again when it is started with its disk\n";
    Typed typed(&w, {"undrain", "stoc-1"});
    EXPECT_TRUE(typed.out.starts_with("stoc-1 (StoC ")) << typed.out;
    EXPECT_TRUE(absl::EndsWith(typed.out, ") does not drain, and is away" + away)) << typed.out;
    std::string left;
    ASSERT_TRUE(w.client->Drain("stoc-1", &left).ok());
    SleepFor(kSecond);
    typed = Typed(&w, {"undrain", "stoc-1"});
    EXPECT_TRUE(absl::EndsWith(typed.out, ") does not drain, and is lost" + away)) << typed.out;
    EXPECT_EQ(typed.code, kExitOk);
  });
}

// What it held is elsewhere; its disk may come back all the same.
TEST(CommandsTest, N5ADecommissionedStocIsForgotten) {
  Simulate(4, [] {
    SimClusterOptions options = SmallCluster();
    options.stocs = 4;
    options.ltc.hosted.placement.replicas = 2;
    OneRange w(options);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(200, 'x')).ok());
    const std::string number = StrCat(w.cluster.stoc("stoc-1")->self().stoc_id.value());
    EXPECT_EQ(Typed(&w, {"forget", number}).code, kExitFailed);
    EXPECT_EQ(Typed(&w, {"forget", "stoc-1"}).code, kExitUsage);
    std::string left = "not asked";
    for (const Nanos until = Now() + 60 * kSecond; !left.empty() && Now() < until; SleepFor(kSecond))
      ASSERT_TRUE(w.client->Drain("stoc-1", &left).ok());
    ASSERT_EQ(left, "");
    w.cluster.Kill("stoc-1");
    SleepFor(8 * kSecond);
    EXPECT_TRUE(absl::StrContains(Typed(&w, {"status"}).out, "lost, away since "));
    const Typed forgotten(&w, {"forget", number});
    EXPECT_EQ(forgotten.code, kExitOk) << forgotten.err;
    EXPECT_FALSE(absl::StrContains(Typed(&w, {"status"}).out, "stoc-1"));
    ASSERT_TRUE(w.cluster.Start("stoc-1").ok());
    SleepFor(8 * kSecond);
    EXPECT_TRUE(absl::StrContains(Typed(&w, {"status"}).out, StrCat("stoc ", number, "\n")));
    for (int i = 0; i < 300; ++i) ASSERT_EQ(w.client->Get(KeyOf(i)).value, std::string(200, 'x')) << i;
  });
}

}  // namespace
}  // namespace nova
