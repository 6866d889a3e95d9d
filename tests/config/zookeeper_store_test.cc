// What only a real ZooKeeper shows: an absent server, a paused one, a killed one, expiry.
#include "common/config/zookeeper_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cluster/zookeeper_server.h"

namespace nova {
namespace {

constexpr Nanos kSessionNs = 2 * kSecond;

class ZookeeperStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    StatusOr<std::unique_ptr<ZookeeperServer>> server = ZookeeperServer::Start();
    if (absl::IsNotFound(server.status())) GTEST_SKIP() << server.status().message();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  StatusOr<std::unique_ptr<ConfigStore>> Open() {
    return OpenZookeeper(server_->hosts(), "/nova", kSessionNs, Now() + 20 * kSecond);
  }
  std::unique_ptr<ZookeeperServer> server_;
};

TEST(ZookeeperOpenTest, AnUnreachableServerIsUnavailableByTheDeadline) {
  const Nanos start = Now();
  const auto store = OpenZookeeper("127.0.0.1:1", "/nova", kSessionNs, Now() + 500 * kMillisecond);
  EXPECT_TRUE(absl::IsUnavailable(store.status())) << store.status();
  EXPECT_EQ(store.status().message(), "no connection to ZooKeeper at 127.0.0.1:1");
  EXPECT_LT(Now() - start, 4 * kSecond);
}

TEST(ZookeeperOpenTest, BadHostsAndChrootsAreRefused) {
  for (const char* hosts : {"", "localhost:2181/chroot"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenZookeeper(hosts, "/nova", kSessionNs, Now()).status())) << hosts;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(OpenZookeeper("127.0.0.1:1", "nova", kSessionNs, Now()).status()));
}

TEST_F(ZookeeperStoreTest, TheChrootIsMadeAndPathsLieBelowIt) {
  auto deep = OpenZookeeper(server_->hosts(), "/a/b/c", kSessionNs, Now() + 20 * kSecond);
  ASSERT_TRUE(deep.ok()) << deep.status();
  ASSERT_TRUE((*deep)->Create("/x", "1").ok());
  auto root = OpenZookeeper(server_->hosts(), "/", kSessionNs, Now() + 20 * kSecond);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ((*root)->Get("/a/b/c/x")->data, "1");
}

TEST_F(ZookeeperStoreTest, AKilledServerMakesWritesUnknownOrUnsentAndComesBack) {
  auto store = std::move(Open()).value();
  ASSERT_TRUE(store->Create("/a", "0").ok());
  ASSERT_TRUE(store->Create("/mine", "", true).ok());
  server_->Kill();
  const Nanos start = Now();
  const Nanos answered = store->last_answered_send_ns();
  const Status s = store->Set("/a", "1", 0);
  EXPECT_TRUE(absl::IsUnknown(s) || absl::IsDeadlineExceeded(s)) << s;
  EXPECT_TRUE(absl::IsDeadlineExceeded(store->Get("/a").status()));
  EXPECT_LT(Now() - start, 4 * kSessionNs);
  EXPECT_EQ(store->last_answered_send_ns(), answered);  // C3: authority does not grow
  ASSERT_TRUE(server_->Restart().ok());
  StatusOr<Znode> node = store->Get("/a");
  for (int i = 0; i < 5 && absl::IsDeadlineExceeded(node.status()); ++i) node = store->Get("/a");
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_TRUE(store->Get("/mine")->mine);
}

TEST_F(ZookeeperStoreTest, APausedServerAnswersLate) {
  auto store = std::move(Open()).value();
  ASSERT_TRUE(store->Create("/a", "0").ok());
  server_->Pause();
  const Status s = store->Set("/a", "1", 0);
  EXPECT_TRUE(absl::IsUnknown(s) || absl::IsDeadlineExceeded(s)) << s;
  server_->Resume();
  StatusOr<Znode> node = store->Get("/a");
  for (int i = 0; i < 5 && absl::IsDeadlineExceeded(node.status()); ++i) node = store->Get("/a");
  // The pause may have cost the session; the store says so and stays so.
  if (node.ok()) {
    EXPECT_TRUE(node->data == "0" || node->data == "1");
  } else {
    EXPECT_EQ(store->session_state(), SessionState::kExpired);
    EXPECT_TRUE(absl::IsUnavailable(store->Get("/a").status()));
  }
}

// Row 37: a client stopped for longer than its timeout has lost its ephemeral nodes, and its session for
// good.
TEST_F(ZookeeperStoreTest, AStoppedClientExpires) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = Open();
    if (!store.ok() || !(*store)->Create("/node", "", true).ok() || write(ready[1], "x", 1) != 1) _exit(1);
    const Nanos until = Now() + 30 * kSecond;
    while ((*store)->session_state() != SessionState::kExpired && Now() < until) SleepFor(10 * kMillisecond);
    const bool final = (*store)->session_state() == SessionState::kExpired &&
                       absl::IsUnavailable((*store)->Get("/node").status()) &&
                       absl::IsUnavailable((*store)->Set("/node", "", -1));
    _exit(final ? 42 : 2);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  auto store = std::move(Open()).value();
  ASSERT_TRUE(store->Get("/node").ok());
  kill(child, SIGSTOP);
  const Nanos stopped = Now();
  while (store->Get("/node").ok() && Now() < stopped + 20 * kSecond) SleepFor(20 * kMillisecond);
  EXPECT_TRUE(absl::IsNotFound(store->Get("/node").status()));
  EXPECT_GE(Now() - stopped, kSessionNs / 2);
  EXPECT_LE(Now() - stopped, kSessionNs + 2 * kSecond);
  kill(child, SIGCONT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << status;
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace nova
