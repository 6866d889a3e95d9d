// What clients may say beyond put, get, delete and scan, on a whole simulated cluster: batches (K6),
// snapshots (K4), compare and swap (K6), multi-gets (K4), times to live (K7); while others write, and over an
// LTC's death.
#include <gtest/gtest.h>

#include "tests/cluster_sim/scenario.h"

namespace nova {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

// Two LTCs, `ranges` open ranges over KeyOf's keys.
struct World {
  explicit World(int ranges, SimClusterOptions options = SmallCluster()) : cluster(std::move(options)) {
    cluster.StartAll();
    client = cluster.NewClient("client-0");
    EXPECT_TRUE(client->CreateRanges(SplitKeys(ranges)).ok());
    EXPECT_TRUE(cluster.WaitOpen(static_cast<size_t>(ranges), 30 * kSecond));
  }
  std::string OwnerOf(size_t range) {
    auto records = cluster.Records();
    return std::next(records.begin(), static_cast<ptrdiff_t>(range))->second.owner;
  }
  // The owner of the first range dies, and its ranges open elsewhere.
  void FailOver(size_t ranges) {
    cluster.Kill(OwnerOf(0));
    EXPECT_TRUE(cluster.WaitOpen(ranges, 60 * kSecond));
  }
  SimCluster cluster;
  std::unique_ptr<Client> client;
};

// The value that all `keys` have; nullopt: they differ, or some are missing. In one read.
std::optional<std::string> CommonValue(const ScanResult& scan, size_t keys) {
  if (!scan.ok() || scan.entries.size() != keys) return std::nullopt;
  for (const auto& entry : scan.entries) {
    if (entry.second != scan.entries[0].second) return std::nullopt;
  }
  return scan.entries[0].second;
}

// H25: an LTC dies while batches are under way: each is there whole or not at all, and what was acknowledged
// is there.
TEST(SemanticsTest, K6ABatchIsAllOrNothingOverAnLtcsDeath) {
  constexpr size_t kKeys = 30;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 30'000;
      World w(1, options);
      std::atomic<int> acknowledged{0};
      int written = 0;
      std::atomic<bool> stop{false};
      Thread writer("writer", [&] {
        while (!stop.load()) {
          WriteBatch batch;
          ++written;
          for (size_t i = 0; i < kKeys; ++i)
            batch.Put(KeyOf(static_cast<int>(i)), StrCat(written, std::string(200, 'x')));
          const Result r = w.client->Write(batch);
          if (r.ok()) acknowledged = written;
          EXPECT_TRUE(r.ok() || r.effect() == Effect::kUnknown) << r.message;
          SleepFor(static_cast<Nanos>(1 + written % 5) * kMillisecond);
        }
      });
      const auto reader = w.cluster.NewClient("client-1");
      Random random(seed);
      SleepFor(static_cast<Nanos>(random.Uniform(60)) * kMillisecond);
      w.FailOver(1);
      for (int i = 0; i < 20; ++i) {
        const int before = acknowledged.load();
        const auto value = CommonValue(reader->Scan("", 1000), kKeys);
        ASSERT_TRUE(value || before == 0) << "seed " << seed << ": a part of a batch";
        EXPECT_GE(value ? std::stoi(*value) : 0, before)
            << "seed " << seed << ": an acknowledged batch is gone";
        SleepFor(5 * kMillisecond);
      }
      stop = true;
      writer.Join();
      EXPECT_GT(acknowledged.load(), 0);
    });
  }
}

TEST(SemanticsTest, K6ABatchOverRangesIsRefusedAndNothingIsWritten) {
  Simulate(1, [] {
    World w(4);
    WriteBatch batch;
    batch.Put(KeyOf(1), "1");
    batch.Put(KeyOf(999), "2");
    const Result r = w.client->Write(batch);
    EXPECT_EQ(r.outcome, Outcome::kInvalidArgument);
    EXPECT_NE(r.message.find("more than one range"), std::string::npos) << r.message;
    EXPECT_TRUE(w.client->Scan("", 10).entries.empty());
    batch.Clear();
    EXPECT_TRUE(w.client->Write(batch).ok());
    for (int i = 0; i < 10'001; ++i) batch.Put(KeyOf(1), "x");
    EXPECT_EQ(w.client->Write(batch).outcome, Outcome::kInvalidArgument);
    batch.Clear();
    batch.Put(KeyOf(1), "1");
    batch.Put("", "2");
    EXPECT_EQ(w.client->Write(batch).message, "entry 1 of the batch: the key is empty");
    EXPECT_TRUE(w.client->Scan("", 10).entries.empty());
  });
}

// A snapshot shows the same, by get, multi-get and scan, whatever is written, flushed and compacted
// meanwhile.
TEST(SemanticsTest, K4ASnapshotStaysWhatItWasWhileWritesGoOn) {
  Simulate(2, [] {
    World w(4);
    Entries before;
    std::vector<std::string_view> keys;
    for (int i = 0; i < 1000; i += 7)
      before.emplace_back(KeyOf(i), StrCat("before ", i, std::string(300, 'b')));
    for (const auto& [key, value] : before) {
      ASSERT_TRUE(w.client->Put(key, value).ok());
      keys.push_back(key);
    }
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok()) << taken.message;
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 4);
    for (int round = 0; round < 4; ++round) {
      for (int i = 0; i < 1000; i += 3) {
        ASSERT_TRUE((i % 2 == 0 ? w.client->Put(KeyOf(i), StrCat("after ", round, std::string(300, 'a')))
                                : w.client->Delete(KeyOf(i)))
                        .ok());
      }
      const ScanResult scan = w.client->Scan("", {.snapshot = taken.snapshot});
      ASSERT_TRUE(scan.ok()) << scan.message;
      ASSERT_EQ(scan.entries, before) << "round " << round;
      const MultiGetResult multi = w.client->MultiGet(keys, {taken.snapshot});
      ASSERT_TRUE(multi.ok()) << multi.message;
      for (size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(multi.values[i], before[i].second) << keys[i];
      EXPECT_EQ(w.client->Get(KeyOf(0), {taken.snapshot}).value, before[0].second);
      EXPECT_EQ(w.client->Get(KeyOf(3), {taken.snapshot}).outcome, Outcome::kNotFound);
      EXPECT_NE(w.client->Get(KeyOf(0)).value, before[0].second);
    }
    SleepFor(100 * kSecond);  // three leases: it is renewed
    EXPECT_EQ(w.client->Scan("", {.snapshot = taken.snapshot}).entries, before);
    EXPECT_FALSE(taken.snapshot->ended());
    const auto other = w.cluster.NewClient("client-1");
    EXPECT_EQ(other->Get(KeyOf(0), {taken.snapshot}).outcome, Outcome::kInvalidArgument);
  });
}

// A handle that goes tells the LTCs; a client that dies leaves snapshots that end with their leases.
TEST(SemanticsTest, K4NothingIsPinnedForEver) {
  Simulate(3, [] {
    World w(2);
    {
      const SnapshotResult taken = w.client->TakeSnapshot();
      ASSERT_TRUE(taken.ok()) << taken.message;
      EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 2);
    }
    SleepFor(kSecond);
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 0);
    SnapshotResult outlives;
    {
      const auto mortal = w.cluster.NewClient("client-1");
      outlives = mortal->TakeSnapshot();
      ASSERT_TRUE(outlives.ok()) << outlives.message;
    }
    outlives.snapshot = nullptr;  // nobody is told
    SleepFor(20 * kSecond);
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 2);
    SleepFor(20 * kSecond);
    EXPECT_EQ(w.cluster.Metric("ltc", "nova_ltc_snapshots"), 0);
  });
}

// Clients do not know how long their LTCs let a lease be.
TEST(SemanticsTest, K4ClientsThatAskForLongerLeasesThanLtcsGiveAreServed) {
  Simulate(12, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.max_snapshot_lease_ms = 30'000;
    options.client.snapshot_lease_ms = 600'000;
    World w(2, options);
    ASSERT_TRUE(w.client->Put(KeyOf(1), "before").ok());
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok()) << taken.message;
    ASSERT_TRUE(w.client->Put(KeyOf(1), "after").ok());
    SleepFor(100 * kSecond);
    EXPECT_EQ(w.client->Scan("", {.snapshot = taken.snapshot}).entries, (Entries{{KeyOf(1), "before"}}));
    const ScanResult scan = w.client->Scan("", 10);
    EXPECT_EQ(scan.entries, (Entries{{KeyOf(1), "after"}})) << scan.message;
  });
}

TEST(SemanticsTest, AnLtcHoldsAsManySnapshotsAsItMayAndNoMore) {
  Simulate(4, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.max_snapshots_per_range = 3;
    options.client.timeout_ms = 1000;
    World w(1, options);
    std::vector<std::shared_ptr<const ClientSnapshot>> held;
    for (int i = 0; i < 3; ++i) held.push_back(w.client->TakeSnapshot().snapshot);
    EXPECT_NE(held.back(), nullptr);
    EXPECT_EQ(w.client->TakeSnapshot().outcome, Outcome::kBusy);
    held.pop_back();
    EXPECT_TRUE(w.client->TakeSnapshot().ok());
  });
}

// The new owner knows nothing of what the dead one held: reads there are refused, never answered from another
// moment.
TEST(SemanticsTest, K4AFailOverEndsItsPartOfASnapshot) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Simulate(seed, [seed] {
      World w(4);
      for (int i = 0; i < 1000; i += 50) ASSERT_TRUE(w.client->Put(KeyOf(i), "before").ok());
      const SnapshotResult taken = w.client->TakeSnapshot();
      ASSERT_TRUE(taken.ok()) << taken.message;
      const std::string dies = w.OwnerOf(0);
      std::vector<bool> ends;
      for (size_t i = 0; i < 4; ++i) ends.push_back(w.OwnerOf(i) == dies);
      w.FailOver(4);
      for (int i = 0; i < 1000; i += 50) ASSERT_TRUE(w.client->Put(KeyOf(i), "after").ok());
      for (int i = 0; i < 1000; i += 50) {
        const GetResult got = w.client->Get(KeyOf(i), {taken.snapshot});
        if (ends[static_cast<size_t>(i) / 250]) {
          EXPECT_EQ(got.outcome, Outcome::kSnapshotEnded)
              << KeyOf(i) << ": " << got.value << got.message << " seed " << seed;
        } else {
          EXPECT_EQ(got.value, "before") << KeyOf(i) << " " << got.message << " seed " << seed;
        }
      }
      EXPECT_TRUE(taken.snapshot->ended());
      EXPECT_EQ(w.client->Scan("", {.snapshot = taken.snapshot}).outcome, Outcome::kSnapshotEnded);
      const std::string first = KeyOf(0);
      const std::string_view keys[] = {first};
      EXPECT_EQ(w.client->MultiGet(keys, {taken.snapshot}).outcome, Outcome::kSnapshotEnded);
      EXPECT_TRUE(w.client->TakeSnapshot().ok());
    });
  }
}

// Several clients count with CompareAndSwap, an LTC dies meanwhile: no update is lost, and each counts at
// most once.
TEST(SemanticsTest, K6CompareAndSwapCountsOverAnLtcsDeath) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 30'000;
      World w(1, options);
      constexpr int kClients = 3, kEach = 40;
      int applied = 0, unknown = 0, conflicts = 0;  // fibers: one runs at a time
      std::vector<std::unique_ptr<Client>> clients;
      std::vector<std::unique_ptr<Thread>> threads;
      for (int c = 0; c < kClients; ++c) {
        clients.push_back(w.cluster.NewClient(StrCat("counter-", c)));
        threads.push_back(std::make_unique<Thread>(StrCat("counter.", c), [&, client = clients.back().get()] {
          for (int done = 0; done < kEach;) {
            const GetResult now = client->Get("count");
            ASSERT_TRUE(now.ok() || now.outcome == Outcome::kNotFound) << now.message;
            const std::string next = StrCat(now.ok() ? std::stoi(now.value) + 1 : 1);
            const Result r = client->CompareAndSwap(
                "count", now.ok() ? std::optional<std::string_view>(now.value) : std::nullopt, next);
            applied += r.ok();
            unknown += r.effect() == Effect::kUnknown;
            conflicts += r.outcome == Outcome::kConditionFailed;
            ASSERT_TRUE(r.ok() || r.effect() == Effect::kUnknown || r.outcome == Outcome::kConditionFailed)
                << r.message;
            done += r.outcome != Outcome::kConditionFailed;
          }
        }));
      }
      SleepFor(static_cast<Nanos>(Random(seed).Uniform(40)) * kMillisecond);
      w.FailOver(1);
      for (auto& thread : threads) thread->Join();
      const int count = std::stoi(w.client->Get("count").value);
      EXPECT_GE(count, applied) << "seed " << seed << ": a lost update";
      EXPECT_LE(count, applied + unknown) << "seed " << seed << ": an update that counted twice";
      EXPECT_GT(conflicts, 0) << "seed " << seed;
    });
  }
}

// Range deletions over several ranges, puts before and after them, and deaths of LTCs meanwhile: in the end
// and at every scan what one writer, who repeats what is unknown, has done.
TEST(SemanticsTest, K7RangeDeletionsHoldOverAnLtcsDeath) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Simulate(seed, [seed] {
      SimClusterOptions options = SmallCluster();
      options.client.timeout_ms = 30'000;
      World w(3, options);
      std::map<std::string, std::string> model;
      std::atomic<bool> stop{false};
      int deletions = 0;
      Thread writer("writer", [&] {
        Random random(seed);
        const auto until_known = [&](const auto& attempt) {
          Result r = attempt();
          while (r.effect() == Effect::kUnknown) r = attempt();
          ASSERT_TRUE(r.ok()) << r.message;
        };
        while (!stop.load()) {
          if (random.OneIn(12)) {
            const int a = static_cast<int>(random.Uniform(999));
            const int b = a + 1 +
                          static_cast<int>(random.Uniform(
                              static_cast<uint64_t>(random.OneIn(3) ? 999 - a : std::min(30, 999 - a))));
            until_known([&] { return w.client->DeleteRange(KeyOf(a), KeyOf(b)); });
            model.erase(model.lower_bound(KeyOf(a)), model.lower_bound(KeyOf(b)));
            ++deletions;
          } else if (random.OneIn(10)) {  // in one range
            const int a = static_cast<int>(random.Uniform(300));
            WriteBatch batch;
            batch.Put(KeyOf(a), "hidden");
            batch.DeleteRange(KeyOf(a), KeyOf(a + 10));
            batch.Put(KeyOf(a + 1), "batch");
            until_known([&] { return w.client->Write(batch); });
            model.erase(model.lower_bound(KeyOf(a)), model.lower_bound(KeyOf(a + 10)));
            model[KeyOf(a + 1)] = "batch";
          } else {
            const std::string key = KeyOf(static_cast<int>(random.Uniform(1000)));
            const std::string value(1 + random.Uniform(400), static_cast<char>('a' + random.Uniform(26)));
            until_known([&] { return w.client->Put(key, value); });
            model[key] = value;
          }
          SleepFor(static_cast<Nanos>(random.Uniform(4)) * kMillisecond);
        }
      });
      SleepFor(static_cast<Nanos>(200 + Random(seed).Uniform(300)) * kMillisecond);
      w.FailOver(3);
      SleepFor(200 * kMillisecond);
      stop = true;
      writer.Join();
      EXPECT_GT(deletions, 5);
      for (const bool reverse : {false, true}) {
        ScanResult all = w.client->Scan("", ScanOptions{.reverse = reverse});
        ASSERT_TRUE(all.ok()) << all.message;
        EXPECT_EQ((std::map<std::string, std::string>(all.entries.begin(), all.entries.end())), model)
            << "seed " << seed;
      }
      for (int i = 0; i < 1000; i += 7) {
        const GetResult r = w.client->Get(KeyOf(i));
        const auto expected = model.find(KeyOf(i));
        ASSERT_EQ(r.ok(), expected != model.end()) << "seed " << seed << " " << KeyOf(i) << " " << r.message;
      }
      ASSERT_TRUE(w.client->DeleteRange("", "").ok());
      EXPECT_TRUE(w.client->Scan("", 10).entries.empty());
      EXPECT_EQ(w.client->DeleteRange("b", "a").outcome, Outcome::kInvalidArgument);
      WriteBatch over_ranges;
      over_ranges.DeleteRange(KeyOf(1), KeyOf(999));
      EXPECT_EQ(w.client->Write(over_ranges).outcome, Outcome::kInvalidArgument);
    });
  }
}

TEST(SemanticsTest, CompareAndSwapKnowsAbsentFromEmpty) {
  Simulate(5, [] {
    World w(2);
    Client& c = *w.client;
    EXPECT_EQ(c.CompareAndSwap("k", "", "x").outcome, Outcome::kConditionFailed);
    EXPECT_TRUE(c.CompareAndSwap("k", std::nullopt, "").ok());
    EXPECT_EQ(c.CompareAndSwap("k", std::nullopt, "x").outcome, Outcome::kConditionFailed);
    EXPECT_TRUE(c.CompareAndSwap("k", "", "x").ok());
    EXPECT_TRUE(c.CompareAndSwap("k", "x", std::nullopt).ok());
    EXPECT_EQ(c.Get("k").outcome, Outcome::kNotFound);
    EXPECT_EQ(c.CompareAndSwap("", std::nullopt, "x").outcome, Outcome::kInvalidArgument);
  });
}

// Both values travel in one message.
TEST(SemanticsTest, ACompareAndSwapOfTwoValuesThatAreTooLongTogetherSaysSo) {
  Simulate(13, [] {
    SimClusterOptions options = SmallCluster();
    options.coordinator.max_value_bytes = options.ltc.hosted.range.max_value_bytes = 16 << 20;
    OneRange w(options);
    const std::string longer(12 << 20, 'x'), fits(9 << 20, 'x');
    const Result r = w.client->CompareAndSwap("k", longer, longer);
    EXPECT_EQ(r.outcome, Outcome::kInvalidArgument);
    EXPECT_EQ(r.message, "the two values have 25165824 bytes, the limit is 20963328");
    EXPECT_EQ(w.client->CompareAndSwap("k", fits, fits).outcome, Outcome::kConditionFailed);
  });
}

// Keys keep their order, repeats and all, over ranges and replies; values larger than a reply is to be are of
// one moment.
TEST(SemanticsTest, K4MultiGetOverRangesAndReplies) {
  Simulate(6, [] {
    World w(4);
    std::vector<std::string> names;
    for (int i = 0; i < 60; ++i) names.push_back(KeyOf((i * 37 + 500) % 1000));
    names.push_back(names[0]);
    names.emplace_back("not there");
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(w.client->Put(names[static_cast<size_t>(i)], StrCat(i)).ok());
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const MultiGetResult got = w.client->MultiGet(keys);
    ASSERT_TRUE(got.ok()) << got.message;
    ASSERT_EQ(got.values.size(), keys.size());
    for (int i = 0; i < 60; ++i) EXPECT_EQ(got.values[static_cast<size_t>(i)], StrCat(i));
    EXPECT_EQ(got.values[60], "0");
    EXPECT_FALSE(got.values[61]);
    EXPECT_TRUE(w.client->MultiGet({}).ok());
    const std::vector<std::string_view> too_many(10'001, "k");
    EXPECT_EQ(w.client->MultiGet(too_many).outcome, Outcome::kInvalidArgument);
  });
}

// A batch rewrites all keys of a range again and again; readers whose answers take several replies see one
// batch.
TEST(SemanticsTest, K4ARangeIsReadAtOneMomentHoweverManyRepliesItTakes) {
  Simulate(7, [] {
    SimClusterOptions options = SmallCluster();
    options.ltc.hosted.range.scan_page_bytes = 2 << 10;
    World w(1, options);
    constexpr size_t kKeys = 24;
    const std::string filler(400, 'x');
    std::vector<std::string> names;
    for (size_t i = 0; i < kKeys; ++i) names.push_back(KeyOf(static_cast<int>(i)));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const auto write = [&](int n) {
      WriteBatch batch;
      for (const auto& key : names) batch.Put(key, StrCat(n, filler));
      const Result r = w.client->Write(batch);
      ASSERT_TRUE(r.ok()) << r.message;
    };
    write(0);
    std::atomic<bool> stop{false};
    Thread writer("writer", [&] {
      for (int n = 1; !stop.load(); ++n) {
        write(n);
        SleepFor(kMillisecond);
      }
    });
    const auto reader = w.cluster.NewClient("client-1");
    for (int i = 0; i < 10; ++i) {
      EXPECT_TRUE(CommonValue(reader->Scan("", 1000), kKeys)) << "a scan saw a part of a batch";
      const MultiGetResult got = reader->MultiGet(keys);
      ASSERT_TRUE(got.ok()) << got.message;
      for (const auto& value : got.values)
        EXPECT_EQ(value, got.values[0]) << "a multi-get saw a part of a batch";
    }
    stop = true;
    writer.Join();
  });
}

// The owner of a range lets go of it between two replies of a multi-get, and its keys are deleted meanwhile.
TEST(SemanticsTest, K4AMultiGetThatBeginsAnewForgetsWhatItHasFound) {
  Simulate(11, [] {
    SimClusterOptions options = SmallCluster();
    options.client.timeout_ms = 60'000;
    options.ltc.hosted.range.scan_page_bytes = 100;  // a reply for each value
    OneRange w(options);
    std::vector<std::string> names;
    WriteBatch put, remove;
    for (int i = 0; i < 1000; ++i) {
      names.push_back(KeyOf(i));
      put.Put(names.back(), std::string(100, 'x'));
      remove.Delete(names.back());
    }
    ASSERT_TRUE(w.client->Write(put).ok());
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const auto reader = w.cluster.NewClient("client-1");
    MultiGetResult got;
    Thread reading("reading", [&] { got = reader->MultiGet(keys); });
    while (w.cluster.Metric("ltc", "nova_ltc_snapshots") == 0) SleepFor(10 * kMicrosecond);
    SleepFor(kMillisecond);
    const std::string owner = w.Record().owner;
    w.cluster.network()->Cut("client-1", owner);
    w.cluster.network()->Cut(owner, "client-1");
    EXPECT_TRUE(w.client->Write(remove).ok());
    std::string left;
    EXPECT_TRUE(w.cluster.NewCoordinatorClient().Drain(owner, Now() + 5 * kSecond, &left).ok());
    EXPECT_TRUE(w.WaitForOtherOwner(owner));
    w.cluster.HealAll();
    reading.Join();
    ASSERT_TRUE(got.ok()) << got.message;
    EXPECT_GT(reader->retries(), 0u);
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_FALSE(got.values[i]) << keys[i] << " is there still";
  });
}

TEST(SemanticsTest, K7APutMayExpire) {
  Simulate(8, [] {
    World w(2);
    ASSERT_TRUE(w.client->Put("k", "old").ok());
    ASSERT_TRUE(w.client->Put("k", "new", {.ttl_ms = 5000}).ok());
    WriteBatch batch;
    batch.PutTtl("l", "1", 5000);
    batch.PutTtl("m", "1", 500'000);
    ASSERT_TRUE(w.client->Write(batch).ok());
    EXPECT_EQ(w.client->Get("k").value, "new");
    EXPECT_EQ(w.client->Scan("", 10).entries.size(), 3u);
    SleepFor(6 * kSecond);
    EXPECT_EQ(w.client->Get("k").outcome, Outcome::kNotFound) << "an expired version hides older ones";
    EXPECT_EQ(w.client->Scan("", 10).entries, (Entries{{"m", "1"}}));
    EXPECT_EQ(w.client->Put("k", "x", {.ttl_ms = -1}).outcome, Outcome::kInvalidArgument);
    EXPECT_EQ(w.client->Put("k", "x", {.ttl_ms = (int64_t{1} << 50) + 1}).outcome, Outcome::kInvalidArgument);
  });
}

TEST(SemanticsTest, ScansByPrefixStayInIt) {
  Simulate(9, [] {
    World w(4);
    for (const char* key : {"a", "b", "b\xff", "b\xff\xff", "ba", "bb", "c"})
      ASSERT_TRUE(w.client->Put(key, "").ok());
    const auto keys = [&](const char* from, const ScanOptions& options) {
      std::string all;
      const ScanResult r = w.client->Scan(from, options);
      EXPECT_TRUE(r.ok()) << r.message;
      for (const auto& entry : r.entries) all += entry.first + " ";
      return all;
    };
    EXPECT_EQ(keys("", {.prefix = "b"}), "b ba bb b\xff b\xff\xff ");
    EXPECT_EQ(keys("bb", {.limit = 2, .prefix = "b"}), "bb b\xff ");
    EXPECT_EQ(keys("", {.prefix = "b\xff"}), "b\xff b\xff\xff ");
    EXPECT_EQ(keys("c", {.prefix = "b"}), "");
    EXPECT_EQ(keys("b", {.to = "bb"}), "b ba ");
    EXPECT_EQ(keys("b", {.prefix = "b", .reverse = true}), "b\xff\xff b\xff bb ba b ");
    EXPECT_EQ(keys("", {}), "a b ba bb b\xff b\xff\xff c ");
  });
}

// Over ranges and replies, between bounds, at a snapshot: the same entries as forward, from the other end.
TEST(SemanticsTest, AReverseScanIsTheForwardOneFromItsEnd) {
  Simulate(10, [] {
    World w(4);
    for (int i = 0; i < 1000; i += 2)
      ASSERT_TRUE(w.client->Put(KeyOf(i), StrCat(i, std::string(100, 'x'))).ok());
    const SnapshotResult taken = w.client->TakeSnapshot();
    ASSERT_TRUE(taken.ok()) << taken.message;
    for (int i = 0; i < 1000; i += 5)
      ASSERT_TRUE((i % 2 == 0 ? w.client->Delete(KeyOf(i)) : w.client->Put(KeyOf(i), "later")).ok());
    Random random(10);
    for (int i = 0; i < 60; ++i) {
      ScanOptions options;
      if (random.OneIn(2)) options.snapshot = taken.snapshot;
      const std::string from = random.OneIn(3) ? "" : KeyOf(static_cast<int>(random.Uniform(1000)));
      if (random.OneIn(2)) options.to = KeyOf(static_cast<int>(random.Uniform(1000)));
      if (random.OneIn(4))
        options.prefix = KeyOf(static_cast<int>(random.Uniform(1000))).substr(0, 4 + random.Uniform(2));
      const ScanResult all = w.client->Scan(from, options);
      ASSERT_TRUE(all.ok()) << all.message;
      options.reverse = true;
      if (random.OneIn(2)) options.limit = 1 + random.Uniform(300);
      const ScanResult back = w.client->Scan(from, options);
      ASSERT_TRUE(back.ok()) << back.message;
      Entries expected(all.entries.rbegin(), all.entries.rend());
      expected.resize(std::min(expected.size(), options.limit));
      ASSERT_EQ(back.entries, expected)
          << "from '" << from << "' to '" << options.to << "' prefix '" << options.prefix << "' " << i;
    }
  });
}

}  // namespace
}  // namespace nova
