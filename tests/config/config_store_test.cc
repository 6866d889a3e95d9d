// The contract of ConfigStore, against every implementation.
#include "common/config/config_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "common/base/mutex.h"
#include "common/base/thread.h"
#include "common/config/file_store.h"
#include "common/config/memory_store.h"
#include "common/config/zookeeper_store.h"
#include "tests/cluster/zookeeper_server.h"

namespace nova {
namespace {

constexpr Nanos kSoon = 10 * kSecond;

// Gives sessions of one store.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<ConfigStore> NewSession() = 0;
};

class MemoryBackend : public Backend {
 public:
  std::unique_ptr<ConfigStore> NewSession() override { return config_.NewSession(); }

 private:
  MemoryConfig config_;
};

class FileBackend : public Backend {
 public:
  FileBackend() {
    directory_ = (std::filesystem::temp_directory_path() / "nova-config-XXXXXX").string();
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    config_ = std::move(FileConfig::Open(directory_)).value();
  }
  ~FileBackend() override {
    config_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::unique_ptr<ConfigStore> NewSession() override { return config_->NewSession(); }

 private:
  std::string directory_;
  std::unique_ptr<FileConfig> config_;
};

class ZookeeperBackend : public Backend {
 public:
  explicit ZookeeperBackend(std::unique_ptr<ZookeeperServer> server) : server_(std::move(server)) {}
  std::unique_ptr<ConfigStore> NewSession() override {
    return std::move(OpenZookeeper(server_->hosts(), "/test/cluster", 4 * kSecond, Now() + kSoon)).value();
  }

 private:
  std::unique_ptr<ZookeeperServer> server_;
};

class ConfigStoreTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam();
    if (kind == "memory") backend_ = std::make_unique<MemoryBackend>();
    if (kind == "file") backend_ = std::make_unique<FileBackend>();
    if (kind == "zookeeper") {
      StatusOr<std::unique_ptr<ZookeeperServer>> server = ZookeeperServer::Start();
      if (absl::IsNotFound(server.status())) GTEST_SKIP() << server.status().message();
      ASSERT_TRUE(server.ok()) << server.status();
      backend_ = std::make_unique<ZookeeperBackend>(*std::move(server));
    }
    store_ = backend_->NewSession();
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ConfigStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, ConfigStoreTest, testing::Values("memory", "file", "zookeeper"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ConfigStoreTest, NodesHaveDataAndCountTheirSets) {
  const std::string data("bytes\0with a zero", 17);
  ASSERT_TRUE(store_->Create("/a", data).ok());
  EXPECT_EQ(store_->Get("/a")->data, data);
  EXPECT_EQ(store_->Get("/a")->version, 0);
  EXPECT_FALSE(store_->Get("/a")->ephemeral);
  ASSERT_TRUE(store_->Set("/a", "", 0).ok());
  EXPECT_EQ(store_->Get("/a")->data, "");
  EXPECT_EQ(store_->Get("/a")->version, 1);
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Create("/a", "")));
  ASSERT_TRUE(store_->Delete("/a", -1).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("/a").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Set("/a", "", -1)));
  EXPECT_TRUE(absl::IsNotFound(store_->Delete("/a", -1)));
}

TEST_P(ConfigStoreTest, AChangeOfAnotherVersionIsAborted) {
  ASSERT_TRUE(store_->Create("/a", "0").ok());
  ASSERT_TRUE(store_->Set("/a", "1", 0).ok());
  EXPECT_TRUE(absl::IsAborted(store_->Set("/a", "2", 0)));
  EXPECT_TRUE(absl::IsAborted(store_->Delete("/a", 0)));
  EXPECT_EQ(store_->Get("/a")->data, "1");
  EXPECT_TRUE(store_->Set("/a", "3", -1).ok());
  EXPECT_TRUE(store_->Delete("/a", 2).ok());
}

TEST_P(ConfigStoreTest, ChildrenAreSortedAndKeepTheirParent) {
  EXPECT_TRUE(absl::IsNotFound(store_->Create("/p/c", "")));
  EXPECT_TRUE(absl::IsNotFound(store_->Children("/p").status()));
  ASSERT_TRUE(store_->Create("/p", "").ok());
  ASSERT_TRUE(store_->Create("/pq", "").ok());
  for (const char* name : {"b", "a", "c"}) ASSERT_TRUE(store_->Create(StrCat("/p/", name), "").ok());
  ASSERT_TRUE(store_->Create("/p/a/deeper", "").ok());
  EXPECT_EQ(*store_->Children("/p"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(*store_->Children("/"), (std::vector<std::string>{"p", "pq"}));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Delete("/p", -1)));
}

TEST_P(ConfigStoreTest, BadPathsAreRefused) {
  for (const char* path : {"", "a", "/a/", "//", "/a//b", "/a/./b", "/..", "/a/.."}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Create(path, ""))) << path;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Get(path).status())) << path;
  }
}

TEST_P(ConfigStoreTest, MultiIsAllOrNothing) {
  ASSERT_TRUE(store_->Create("/coord", "7").ok());
  ASSERT_TRUE(store_->Create("/r", "old").ok());
  EXPECT_TRUE(absl::IsAborted(store_->Multi(
      {ConfigOp::Create("/x", ""), ConfigOp::Set("/r", "new", 0), ConfigOp::Check("/coord", 1)})));
  EXPECT_TRUE(absl::IsNotFound(store_->Get("/x").status()));
  EXPECT_EQ(store_->Get("/r")->data, "old");
  EXPECT_EQ(store_->Get("/r")->version, 0);
  EXPECT_TRUE(
      absl::IsAlreadyExists(store_->Multi({ConfigOp::Set("/r", "new", 0), ConfigOp::Create("/coord", "")})));
  EXPECT_TRUE(absl::IsNotFound(store_->Multi({ConfigOp::Set("/r", "new", 0), ConfigOp::Delete("/none")})));
  EXPECT_EQ(store_->Get("/r")->version, 0);
  ASSERT_TRUE(
      store_
          ->Multi({ConfigOp::Check("/coord", 0), ConfigOp::Set("/r", "new", 0), ConfigOp::Create("/x", "1"),
                   ConfigOp::Create("/x/y", "2"), ConfigOp::Delete("/coord", 0)})
          .ok());
  EXPECT_EQ(store_->Get("/r")->data, "new");
  EXPECT_EQ(store_->Get("/x/y")->data, "2");
  EXPECT_TRUE(absl::IsNotFound(store_->Get("/coord").status()));
  EXPECT_TRUE(store_->Multi({}).ok());
}

TEST_P(ConfigStoreTest, EphemeralNodesGoWithTheirSession) {
  auto other = backend_->NewSession();
  ASSERT_TRUE(other->Create("/node", "x", true).ok());
  ASSERT_TRUE(other->Multi({ConfigOp::Create("/node2", "y", true)}).ok());
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_TRUE(store_->Get("/node")->ephemeral);
  EXPECT_FALSE(store_->Get("/node")->mine);
  EXPECT_TRUE(other->Get("/node")->mine);
  EXPECT_TRUE(absl::IsFailedPrecondition(other->Create("/node/child", "")));
  other.reset();
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("/node").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Get("/node2").status()));
}

TEST_P(ConfigStoreTest, CreatedTellsANodeFromOneCreatedAnew) {
  ASSERT_TRUE(store_->Create("/a", "same").ok());
  const int64_t created = store_->Get("/a")->created;
  ASSERT_TRUE(store_->Set("/a", "same", 0).ok());
  EXPECT_EQ(store_->Get("/a")->created, created);
  ASSERT_TRUE(store_->Delete("/a", -1).ok());
  ASSERT_TRUE(store_->Create("/a", "same").ok());
  EXPECT_NE(store_->Get("/a")->created, created);
}

TEST_P(ConfigStoreTest, SyncShowsWhatWasAnsweredElsewhere) {
  auto other = backend_->NewSession();
  ASSERT_TRUE(store_->Create("/n", "0").ok());
  for (int i = 1; i <= 50; ++i) {
    ASSERT_TRUE(store_->Set("/n", StrCat(i), -1).ok());
    ASSERT_TRUE(other->Sync().ok());
    EXPECT_EQ(other->Get("/n")->data, StrCat(i));
  }
}

TEST_P(ConfigStoreTest, AWatchIsCalledOnceAfterAChange) {
  auto other = backend_->NewSession();
  ASSERT_TRUE(store_->Create("/w", "").ok());
  const struct {
    const char* watched;
    ConfigOp change;
  } cases[] = {
      {"/w", ConfigOp::Set("/w", "1", -1)},    {"/w", ConfigOp::Create("/w/c", "")},
      {"/w/c", ConfigOp::Set("/w/c", "", -1)}, {"/w/d", ConfigOp::Create("/w/d", "")},
      {"/w", ConfigOp::Delete("/w/d")},        {"/w/c", ConfigOp::Delete("/w/c")},
      {"/w", ConfigOp::Delete("/w")},
  };
  for (const auto& c : cases) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    auto called = std::make_shared<Notification>();
    store_->Watch(c.watched, [calls, called] {
      calls->fetch_add(1);
      called->Notify();
    });
    ASSERT_TRUE(store_->Sync().ok());  // the watch is set
    EXPECT_EQ(calls->load(), 0) << c.watched;
    ASSERT_TRUE(other->Multi({c.change}).ok()) << c.change.path;
    EXPECT_TRUE(called->WaitUntil(Now() + kSoon)) << c.watched << " " << c.change.path;
    other->Sync().IgnoreError();
    EXPECT_EQ(calls->load(), 1) << c.watched;
  }
}

TEST_P(ConfigStoreTest, ManyWatchesOfOnePathAreEachCalledOnce) {
  ASSERT_TRUE(store_->Create("/w", "").ok());
  std::vector<std::shared_ptr<std::atomic<int>>> calls;
  for (int i = 0; i < 5; ++i) {
    calls.push_back(std::make_shared<std::atomic<int>>(0));
    store_->Watch("/w", [c = calls.back()] { c->fetch_add(1); });
  }
  ASSERT_TRUE(store_->Sync().ok());
  ASSERT_TRUE(store_->Set("/w", "1", -1).ok());
  ASSERT_TRUE(store_->Set("/w", "2", -1).ok());
  const Nanos until = Now() + kSoon;
  for (const auto& c : calls) {
    while (c->load() == 0 && Now() < until) SleepFor(kMillisecond);
    EXPECT_EQ(c->load(), 1);
  }
}

TEST_P(ConfigStoreTest, IncrementGivesEachNumberOnce) {
  ASSERT_TRUE(store_->Create("/epochs", "").ok());
  EXPECT_EQ(*store_->Increment("/epochs/n"), 1u);
  EXPECT_EQ(*store_->Increment("/epochs/n", 10), 2u);
  EXPECT_EQ(*store_->Increment("/epochs/n"), 12u);
  auto other = backend_->NewSession();
  Mutex mu;
  std::set<uint64_t> seen;
  {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(
          std::make_unique<Thread>("test", [&, store = t % 2 == 0 ? store_.get() : other.get()] {
            for (int i = 0; i < 10; ++i) {
              const StatusOr<uint64_t> n = store->Increment("/epochs/n");
              ASSERT_TRUE(n.ok()) << n.status();
              MutexLock lock(&mu);
              EXPECT_TRUE(seen.insert(*n).second) << *n;
            }
          }));
    }
  }
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_EQ(*seen.begin(), 13u);
  EXPECT_EQ(*seen.rbegin(), 52u);
  ASSERT_TRUE(store_->Create("/epochs/bad", "many").ok());
  EXPECT_TRUE(absl::IsDataLoss(store_->Increment("/epochs/bad").status()));
}

TEST_P(ConfigStoreTest, ACounterIsRaisedAndNeverLowered) {
  ASSERT_TRUE(store_->Create("/epochs", "").ok());
  ASSERT_TRUE(store_->RaiseCounter("/epochs/n", 7).ok());  // it was not there
  EXPECT_EQ(*store_->Increment("/epochs/n"), 8u);
  for (const uint64_t n : {0, 7, 8}) ASSERT_TRUE(store_->RaiseCounter("/epochs/n", n).ok());
  EXPECT_EQ(*store_->Increment("/epochs/n"), 9u);
  ASSERT_TRUE(store_->RaiseCounter("/epochs/n", UINT64_MAX).ok());
  EXPECT_TRUE(absl::IsDataLoss(store_->Increment("/epochs/n").status()));
  ASSERT_TRUE(store_->Create("/epochs/bad", "many").ok());
  EXPECT_TRUE(absl::IsDataLoss(store_->RaiseCounter("/epochs/bad", 7)));
}

TEST_P(ConfigStoreTest, TheSendTimeOfAnsweredRequestsIsKnown) {
  EXPECT_EQ(store_->session_state(), SessionState::kConnected);
  EXPECT_GT(store_->session_timeout_ns(), 0);
  const Nanos before = Now();
  ASSERT_TRUE(absl::IsNotFound(store_->Get("/none").status()));  // an answer, too
  EXPECT_GE(store_->last_answered_send_ns(), before);
  EXPECT_LE(store_->last_answered_send_ns(), Now());
}

}  // namespace
}  // namespace nova
