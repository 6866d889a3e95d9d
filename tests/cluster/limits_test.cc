// Programs that run out of descriptors: an error of one line that names the cause, never an end by a signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include "client/exit_codes.h"
#include "client/nova.h"
#include "tests/base/descriptors.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class LimitsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ProcessClusterOptions options;
    options.ltcs = 1;
    options.ranges = 2;
    auto cluster = ProcessCluster::Start(options);
    if (absl::IsNotFound(cluster.status())) return;
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = cluster->release();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "ZooKeeper is not installed";
  }
  static ProcessCluster* cluster_;
};
ProcessCluster* LimitsTest::cluster_ = nullptr;

constexpr int kOpened = 10, kRefused = 11, kWrong = 12;  // no sanitizer ends with these

// In a process of its own: opens a client with `left` descriptors, then without a limit. An exit code of the
// above.
int OpenWith(rlim_t left, const std::string& coordinators) {
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const nova_options options{coordinators.c_str(), 3000, 0, 0};
  // What a sanitizer looks at for the first time takes a descriptor.
  nova_close(nova_open_with(&options, nullptr));
  const int free = dup(0);
  close(free);
  SetDescriptorLimit(static_cast<rlim_t>(free) + left);
  char* error = nullptr;
  nova_client* refused = nova_open_with(&options, &error);
  SetDescriptorLimit(before.rlim_cur);
  const bool opened = refused != nullptr;
  if (!opened) {
    const std::string text = error == nullptr ? "" : error;
    std::fprintf(stderr, "%d descriptors: %s\n", static_cast<int>(left), text.c_str());
    nova_free(error);
    if (text.empty() || text.find('\n') != std::string::npos) return kWrong;
    const int open = OpenDescriptors();
    SetDescriptorLimit(static_cast<rlim_t>(free) + left);
    for (int i = 0; i < 3; ++i) {
      if (nova_open_with(&options, nullptr) != nullptr) return kWrong;
    }
    SetDescriptorLimit(before.rlim_cur);
    if (OpenDescriptors() > open) return kWrong;
  }
  nova_close(refused);
  nova_client* const client = nova_open_with(&options, nullptr);
  if (client == nullptr || nova_put(client, "limits", 6, "v", 1) != NOVA_OK) return kWrong;
  nova_close(client);
  return opened ? kOpened : kRefused;
}

TEST_F(LimitsTest, AClientWithoutDescriptorsIsRefusedAndOpensWhenThereAreSome) {
  int opened = 0, refused = 0;
  for (rlim_t left = 0; left < 40 && opened < 3; ++left) {
    const pid_t child = fork();
    if (child == 0) _exit(OpenWith(left, cluster_->coordinators()));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << " with " << left << " descriptors";
    const int code = WEXITSTATUS(status);
    ASSERT_TRUE(code == kOpened || code == kRefused) << code << " with " << left << " descriptors";
    ++(code == kOpened ? opened : refused);
  }
  EXPECT_GE(opened, 3);
  EXPECT_GE(refused, 1);
}

// What a login has is too little for a StoC with many logs; nodes take what they may.
TEST_F(LimitsTest, NodesOpenAsManyFilesAsTheHardLimitLets) {
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  cluster_->Kill("stoc-0");
  SetDescriptorLimit(200);
  const Status started = cluster_->Restart("stoc-0");
  SetDescriptorLimit(before.rlim_cur);
  ASSERT_TRUE(started.ok()) << started;
  rlimit of_node;
  ASSERT_EQ(prlimit(cluster_->pid("stoc-0"), RLIMIT_NOFILE, nullptr, &of_node), 0);
  EXPECT_EQ(of_node.rlim_cur, before.rlim_max);
}

// A program that has few from its start.
TEST_F(LimitsTest, TheToolWithoutDescriptorsSaysSo) {
  int found = 0, refused = 0;
  for (int descriptors = 8; descriptors < 48; ++descriptors) {  // with fewer the program is not loaded
    const std::string command = StrCat(NOVA_BINARY_DIR, "/bin/nova --coordinators=", cluster_->coordinators(),
                                       " --timeout_ms=3000 get nothing-here");
    auto tool = Process::Start({"/bin/sh", "-c", StrCat("ulimit -n ", descriptors, "; exec ", command)});
    ASSERT_TRUE(tool.ok()) << tool.status();
    const auto code = (*tool)->Wait(Now() + 20 * kSecond);
    ASSERT_TRUE(code.ok()) << code.status() << " with " << descriptors;
    EXPECT_TRUE(*code == kExitNotFound || *code == kExitFailed)
        << *code << " with " << descriptors << " descriptors";
    found += *code == kExitNotFound;
    refused += *code == kExitFailed;
  }
  EXPECT_GT(found, 0) << "get nothing-here: NotFound";
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace nova
