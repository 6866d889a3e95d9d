// ClientIterator over a cluster: against a map on random walks, at one moment of each range while others
// write, over moves and deaths of owners, at snapshots, for longer than an operation may take.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

// Pages end after 2 KB.
SimClusterOptions SmallPages() {
  SimClusterOptions options = SmallCluster();
  options.ltc.hosted.range.scan_page_bytes = 2 << 10;
  return options;
}

Model Fill(Client* client, int step) {
  Model model;
  for (int i = 0; i < 1000; i += step) {
    model[KeyOf(i)] = StrCat(i, std::string(static_cast<size_t>(i % 300), 'v'));
    EXPECT_TRUE(client->Put(KeyOf(i), model[KeyOf(i)]).ok());
  }
  return model;
}

void ExpectAt(const ClientIterator& it, const Model& model, Model::const_iterator at) {
  ASSERT_TRUE(it.result().ok()) << it.result().message;
  ASSERT_EQ(it.Valid(), at != model.end());
  if (!it.Valid()) return;
  ASSERT_EQ(it.key(), at->first);
  ASSERT_EQ(it.value(), at->second);
}

// Blocks that no cache has come from StoCs, each for a round trip and a read of a disk: a scan waits for what
// it will want together.
TEST(ClientScanTest, WaitsForTheBlocksThatItWillWantTogether) {
  Simulate(1, [] {
    SimClusterOptions options = SmallCluster();
    options.ltcs = 2;
    OneRange w(options);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(w.client->Put(KeyOf(i), std::string(1000, 'v')).ok());
    const std::string owner = w.Record().owner;
    ASSERT_TRUE(w.cluster.Stop(owner).ok());
    ASSERT_TRUE(w.WaitForOtherOwner(owner));  // whose cache is empty
    const auto time_of = [&w](int from, size_t limit) {
      const Nanos begin = Now();
      const ScanResult scan = w.client->Scan(KeyOf(from), limit);
      EXPECT_TRUE(scan.ok()) << scan.message;
      EXPECT_EQ(scan.entries.size(), limit);
      return Now() - begin;
    };
    time_of(0, 1);  // with the readers of the tables
    const Nanos one = time_of(100, 1), twelve = time_of(200, 12);
    EXPECT_LT(twelve, one * 11 / 2) << "one block after another takes seven times as long";
  });
}

TEST(ClientIteratorTest, WalksAsOverAMap) {
  Simulate(1, [] {
    OneRange w(SmallPages(), 4);
    const Model model = Fill(w.client.get(), 2);
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok()) << taken.message;
    for (int i = 0; i < 1000; i += 3) ASSERT_TRUE(w.client->Delete(KeyOf(i)).ok());
    Model now = model;
    for (int i = 0; i < 1000; i += 3) now.erase(KeyOf(i));
    Random random(1);
    for (int round = 0; round < 20; ++round) {
      IteratorOptions options;
      const auto some_key = [&] { return KeyOf(static_cast<int>(random.Uniform(1000))); };
      if (random.OneIn(2)) options.lower = some_key();
      if (random.OneIn(2)) options.upper = some_key();
      const bool at_snapshot = random.OneIn(2);
      if (at_snapshot) options.snapshot = taken.snapshot;
      Model all = at_snapshot ? model : now;
      std::erase_if(all, [&](const auto& entry) {
        return entry.first < options.lower || (!options.upper.empty() && entry.first >= options.upper);
      });
      const auto before = [&](Model::iterator at) { return at == all.begin() ? all.end() : std::prev(at); };
      auto it = w.client->NewIterator(options);
      EXPECT_FALSE(it->Valid());
      auto at = all.end();
      for (int step = 0; step < 40; ++step) {
        const std::string key = some_key();
        switch (random.Uniform(4)) {
          case 0:
            it->SeekToFirst();
            at = all.begin();
            break;
          case 1:
            it->SeekToLast();
            at = before(all.end());
            break;
          case 2:
            it->Seek(key);
            at = all.lower_bound(key);
            break;
          default:
            it->SeekForPrev(key);
            at = before(all.upper_bound(key));
        }
        ExpectAt(*it, all, at);
        const bool forward = random.OneIn(2);
        for (size_t n = random.Uniform(200); n > 0 && it->Valid(); --n) {
          const bool along = random.Uniform(50) > 0 ? forward : !forward;
          along ? it->Next() : it->Prev();
          at = along ? std::next(at) : before(at);
          ExpectAt(*it, all, at);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
    EXPECT_EQ(w.client->NewIterator({.lower = std::string(5000, 'k')})->result().outcome,
              Outcome::kInvalidArgument);
    auto it = w.client->NewIterator();
    it->Seek(std::string(100'000, 'z'));  // longer than any key, and than a message may name
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(it->result().ok()) << it->result().message;
  });
}

// A batch rewrites all keys of a range again and again. The iterator rests for longer than any lease, and
// goes on in the batch in which it began. The LTC is told when it has passed the range, and when it ends.
TEST(ClientIteratorTest, K4ARangeIsOfOneMomentHoweverLongTheIteratorRests) {
  Simulate(2, [] {
    OneRange w(SmallPages());
    constexpr int kKeys = 60;
    const auto write = [&](int n) {
      WriteBatch batch;
      for (int i = 0; i < kKeys; ++i) batch.Put(KeyOf(i), StrCat(n, std::string(200, 'x')));
      const Result r = w.client->Write(batch);
      ASSERT_TRUE(r.ok()) << r.message;
    };
    int batches = 0;
    write(batches);
    for (const bool reverse : {false, true}) {
      auto it = w.client->NewIterator();
      reverse ? it->SeekToLast() : it->SeekToFirst();
      ASSERT_TRUE(it->Valid()) << it->result().message;
      const std::string value(it->value());
      int n = 0;
      for (; it->Valid(); reverse ? it->Prev() : it->Next(), ++n) {
        ASSERT_EQ(it->value(), value) << "a moment that is not the first one's, at " << it->key();
        write(++batches);
        if (n % 20 == 10) SleepFor(70 * kSecond);
      }
      EXPECT_TRUE(it->result().ok()) << it->result().message;
      EXPECT_EQ(n, kKeys);
      SleepFor(kSecond);
      EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 0);
      reverse ? it->SeekToLast() : it->SeekToFirst();
      EXPECT_NE(it->value(), value) << "a Seek is of a new moment";
      EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 1);
      it = nullptr;
      SleepFor(kSecond);
      EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 0);
    }
  });
}

// Owners die while it goes on: what stays comes once, in order.
TEST(ClientIteratorTest, GoesOnOverDeathsOfOwners) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Simulate(seed, [seed] {
      OneRange w(SmallPages(), 4);
      const Model model = Fill(w.client.get(), 3);
      for (const bool reverse : {false, true}) {
        auto it = w.client->NewIterator();
        auto at = reverse ? std::prev(model.end()) : model.begin();
        size_t n = 0;
        for (reverse ? it->SeekToLast() : it->SeekToFirst(); it->Valid(); reverse ? it->Prev() : it->Next()) {
          ExpectAt(*it, model, at);
          if (testing::Test::HasFatalFailure()) return;
          if (++n == model.size()) continue;
          reverse ? --at : ++at;
          if (n % 80 == 40 + seed) {
            const std::string dies = w.Record().owner;
            w.cluster.Kill(dies);
            ASSERT_TRUE(w.cluster.WaitOpen(4, 60 * kSecond));
            ASSERT_TRUE(w.cluster.Start(dies).ok());
          }
        }
        EXPECT_TRUE(it->result().ok()) << it->result().message;
        EXPECT_EQ(n, model.size());
      }
    });
  }
}

TEST(ClientIteratorTest, K4AtASnapshotTheDeathOfAnOwnerEndsIt) {
  Simulate(4, [] {
    OneRange w(SmallPages());
    Fill(w.client.get(), 3);
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok()) << taken.message;
    auto it = w.client->NewIterator({.snapshot = taken.snapshot});
    it->SeekToFirst();
    ASSERT_TRUE(it->Valid()) << it->result().message;
    w.cluster.Kill(w.Record().owner);
    ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
    while (it->Valid()) it->Next();
    EXPECT_EQ(it->result().outcome, Outcome::kSnapshotEnded);
    const auto other = w.cluster.NewClient("client-1");
    EXPECT_EQ(other->NewIterator({.snapshot = taken.snapshot})->result().outcome, Outcome::kInvalidArgument);
  });
}

// Each page has a deadline of its own: five hundred replies of some milliseconds each take several times
// what an operation may take.
TEST(ClientIteratorTest, AScanMayTakeLongerThanAnOperation) {
  Simulate(5, [] {
    SimClusterOptions options = SmallPages();
    options.ltc.hosted.range.scan_page_bytes = 1;
    options.network.min_delay_ns = 2 * kMillisecond;
    options.network.max_delay_ns = 4 * kMillisecond;
    options.client.timeout_ms = 1000;
    OneRange w(options, 2);
    const Model model = Fill(w.client.get(), 2);
    const Nanos begin = Now();
    const ScanResult scan = w.client->Scan("", ScanOptions{});
    ASSERT_TRUE(scan.ok()) << scan.message;
    EXPECT_EQ(Model(scan.entries.begin(), scan.entries.end()), model);
    EXPECT_GT(Now() - begin, 2 * kSecond) << "the test tests nothing";
    auto it = w.client->NewIterator();
    size_t n = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++n;
    EXPECT_TRUE(it->result().ok()) << it->result().message;
    EXPECT_EQ(n, model.size());
  });
}

// Where no owner is left it says so, within a page's time, and a later Seek goes on.
TEST(ClientIteratorTest, SaysThatARangeHasNoOwner) {
  Simulate(6, [] {
    SimClusterOptions options = SmallPages();
    options.ltcs = 1;
    options.client.timeout_ms = 2000;
    OneRange w(options);
    const Model model = Fill(w.client.get(), 3);
    auto it = w.client->NewIterator();
    it->SeekToFirst();
    ASSERT_TRUE(it->Valid()) << it->result().message;
    const std::string ltc = w.Record().owner;
    w.cluster.Kill(ltc);
    size_t n = 0;
    for (; it->Valid(); it->Next()) ++n;
    EXPECT_LT(n, model.size());
    EXPECT_EQ(it->result().outcome, Outcome::kUnavailable) << it->result().message;
    ASSERT_TRUE(w.cluster.Start(ltc).ok());
    ASSERT_TRUE(w.cluster.WaitOpen(1, 60 * kSecond));
    for (n = 0, it->SeekToFirst(); it->Valid(); it->Next()) ++n;
    EXPECT_TRUE(it->result().ok()) << it->result().message;
    EXPECT_EQ(n, model.size());
  });
}

}  // namespace
}  // namespace nova
