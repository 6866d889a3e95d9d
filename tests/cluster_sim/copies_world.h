// CopiesWorld: a cluster with one range whose tables have two copies each, what was written to it, and where
// the copies are.
//
// Thread safety: a fiber of the Simulation.   Ownership: none.   Errors: EXPECT and ASSERT.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "tests/cluster_sim/scenario.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {

// Five StoCs, two copies of each table; a StoC is lost when it was away for `down_after`.
inline SimClusterOptions FiveStocs(Nanos down_after) {
  SimClusterOptions options = SmallCluster();
  options.stocs = 5;
  options.client.timeout_ms = 60'000;
  options.ltc.hosted.placement.replicas = 2;
  options.ltc.orphan_period_ns = 5 * kSecond;
  options.ltc.orphan_grace_ms = 1000;
  options.coordinator.cluster.stoc_down_after_ns = down_after;
  return options;
}

struct CopiesWorld : OneRange {
  explicit CopiesWorld(const SimClusterOptions& options) : OneRange(options) {}

  void Write(int rounds) {
    for (int r = 0; r < rounds; ++r) {
      for (int i = 0; i < 100; ++i) {
        const std::string value = StrCat(++written, std::string(400, 'v'));
        const Result put = client->Put(KeyOf(i * 10), value);
        ASSERT_TRUE(put.ok()) << put.message;
        values[KeyOf(i * 10)] = value;
      }
    }
  }
  void ExpectWhatWasWritten() {
    for (const auto& [key, value] : values) {
      const auto got = client->Get(key);
      EXPECT_EQ(got.value, value) << key << ": " << got.message;
    }
  }

  bool WaitFor(Nanos within, const std::function<bool(const TableFiles&)>& wanted) {
    for (const Nanos until = Now() + within; Now() < until; SleepFor(kSecond / 10)) {
      const TableFiles copies = LookAtTables(&cluster);
      last = copies.ToString(2);
      if (copies.error.empty() && wanted(copies)) return true;
    }
    return false;
  }
  static bool IsWhole(const TableFiles& copies) {
    return !copies.named.empty() && copies.ShortOf(2) == 0 && copies.Missing() == 0;
  }
  bool WaitWhole(Nanos within) { return WaitFor(within, IsWhole); }
  bool WaitWholeAndTidy(Nanos within) {
    return WaitFor(within, [](const TableFiles& c) { return IsWhole(c) && c.Surplus() == 0; });
  }
  double Copied() { return cluster.Metric("stoc", "nova_stoc_copied_bytes_total"); }

  int written = 0;
  std::map<std::string, std::string> values;
  std::string last;  // that WaitFor saw
};

}  // namespace nova
