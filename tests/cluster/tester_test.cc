// The storage tester over the cluster's client and real processes: each operation takes one of the ways there
// are, LTCs die, and every answer must be what a map would say.
#include <gtest/gtest.h>

#include <algorithm>

#include "client/client.h"
#include "common/base/random.h"
#include "common/base/storage_tester.h"
#include "tests/cluster/connect_client.h"
#include "tests/cluster/process_cluster.h"

namespace nova {
namespace {

class TestedCluster : public TestedStore {
 public:
  TestedCluster(ProcessCluster* cluster, Client* client) : cluster_(cluster), client_(client), random_(301) {}

  // A write of unknown effect is written again: nobody else writes.
  Status Put(const std::string& key, const std::string& value) override {
    return Write([&] {
      switch (random_.Uniform(4)) {
        case 0:
          return client_->Put(key, value, {.ttl_ms = 600'000});
        case 1:
          return WriteInBatch(key, [&](WriteBatch* batch) { batch->Put(key, value); });
        case 2:
          return Swap(key, value);
        default:
          return client_->Put(key, value);
      }
    });
  }
  Status Delete(const std::string& key) override {
    return Write([&] {
      switch (random_.Uniform(3)) {
        case 0:
          return WriteInBatch(key, [&](WriteBatch* batch) { batch->Delete(key); });
        case 1:
          return Swap(key, std::nullopt);
        default:
          return client_->Delete(key);
      }
    });
  }
  Status DeleteRange(const std::string& begin, const std::string& end) override {
    return Write([&] { return client_->DeleteRange(begin, end); });
  }
  StatusOr<std::string> Get(const std::string& key) override {
    NOVA_ASSIGN_OR_RETURN(const ReadOptions options, SomeMoment());
    if (random_.OneIn(3)) {
      const std::string_view keys[] = {"another", key};
      MultiGetResult r = client_->MultiGet(keys, options);
      NOVA_RETURN_IF_ERROR(StatusOf(r));
      if (!r.values[1]) return absl::NotFoundError(key);
      return *std::move(r.values[1]);
    }
    GetResult r = client_->Get(key, options);
    if (r.outcome == Outcome::kNotFound) return absl::NotFoundError(key);
    NOVA_RETURN_IF_ERROR(StatusOf(r));
    return std::move(r.value);
  }
  // Now and then from the other end, of all there is.
  StatusOr<Entries> Scan(const std::string& from, size_t limit) override {
    NOVA_ASSIGN_OR_RETURN(const ReadOptions moment, SomeMoment());
    if (random_.OneIn(3)) return Iterate(from, limit, moment);
    ScanOptions options;
    options.snapshot = moment.snapshot;
    options.reverse = random_.OneIn(4);
    if (!options.reverse) options.limit = limit;
    ScanResult r = client_->Scan(from, options);
    NOVA_RETURN_IF_ERROR(StatusOf(r));
    if (options.reverse) std::reverse(r.entries.begin(), r.entries.end());
    if (r.entries.size() > limit) r.entries.resize(limit);
    return std::move(r.entries);
  }
  Status Disturb() override {
    const std::string ltc = StrCat("ltc-", deaths_++ % 2);
    cluster_->Kill(ltc);
    return cluster_->Restart(ltc);
  }
  int deaths() const { return deaths_; }

 private:
  // The entries of a scan, and of the way back.
  StatusOr<Entries> Iterate(const std::string& from, size_t limit, const ReadOptions& moment) {
    Entries entries;
    const auto it = client_->NewIterator({.lower = from, .snapshot = moment.snapshot});
    for (it->SeekToFirst(); it->Valid() && entries.size() < limit; it->Next())
      entries.emplace_back(it->key(), it->value());
    NOVA_RETURN_IF_ERROR(StatusOf(it->result()));
    if (entries.empty()) return entries;
    it->SeekForPrev(entries.back().first);
    size_t n = entries.size();
    for (; n > 0 && it->Valid() && it->key() == entries[n - 1].first; it->Prev()) --n;
    NOVA_RETURN_IF_ERROR(StatusOf(it->result()));
    if (n > 0) return absl::InternalError("backwards there are other entries");
    return entries;
  }
  static Status StatusOf(const Result& r) { return r.ok() ? OkStatus() : ToStatus(r.outcome, r.message); }
  template <typename Attempt>
  static Status Write(const Attempt& attempt) {
    Result r = attempt();
    for (int i = 0; i < 5 && r.effect() == Effect::kUnknown; ++i) r = attempt();
    return StatusOf(r);
  }
  template <typename Last>
  Result WriteInBatch(const std::string& key, const Last& last) {
    WriteBatch batch;
    batch.Put(key, "hidden by what follows");
    last(&batch);
    return client_->Write(batch);
  }
  Result Swap(const std::string& key, std::optional<std::string_view> desired) {
    const GetResult now = client_->Get(key);
    if (!now.ok() && now.outcome != Outcome::kNotFound) return now;
    return client_->CompareAndSwap(key, now.ok() ? std::optional<std::string_view>(now.value) : std::nullopt,
                                   desired);
  }
  StatusOr<ReadOptions> SomeMoment() {
    if (!random_.OneIn(5)) return ReadOptions{};
    SnapshotResult taken = client_->TakeSnapshot();
    NOVA_RETURN_IF_ERROR(StatusOf(taken));
    return ReadOptions{std::move(taken.snapshot)};
  }

  ProcessCluster* const cluster_;
  Client* const client_;
  Random random_;
  int deaths_ = 0;
};

TEST(TesterTest, FindsNothingInACluster) {
  ProcessClusterOptions options;
  options.ranges = 0;
  options.ltc_flags = {"--memtable_mb=1", "--table_mb=1"};
  auto cluster = ProcessCluster::Start(options);
  if (absl::IsNotFound(cluster.status())) GTEST_SKIP() << cluster.status().message();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  std::string out;
  // amid the tester's keys
  ASSERT_EQ((*cluster)->Nova({"create-ranges", "aa", "b", "bc", "c", "d"}, &out), 0) << out;
  ASSERT_TRUE((*cluster)->WaitOpen(Now() + 60 * kSecond).ok());
  auto client = ConnectClient((*cluster)->coordinators(), 60'000);
  ASSERT_NE(client, nullptr);
  TestedCluster store(cluster->get(), client.get());
  StorageTesterOptions test;
  test.operations = 5'000;
  test.disturb_every = 2'400;
  const auto digest = TestStorage(&store, test);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(store.deaths(), 2);
}

}  // namespace
}  // namespace nova
