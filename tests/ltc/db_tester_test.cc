// The storage tester over the embedded engine; and over stores with a fault, which it has to find.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>

#include "common/base/random.h"
#include "common/base/storage_tester.h"
#include "ltc/embedded/db.h"

namespace nova {
namespace {

class TestedDb : public TestedStore {
 public:
  explicit TestedDb(uint64_t seed) : random_(seed) {
    char dir[] = "/tmp/nova-tester-XXXXXX";
    directory_ = mkdtemp(dir);
    Open();
  }
  ~TestedDb() override {
    db_ = nullptr;
    std::filesystem::remove_all(directory_);
  }
  Status Put(const std::string& key, const std::string& value) override { return db_->Put(key, value); }
  Status Delete(const std::string& key) override { return db_->Delete(key); }
  Status DeleteRange(const std::string& begin, const std::string& end) override {
    return db_->DeleteRange(begin, end);
  }
  StatusOr<std::string> Get(const std::string& key) override {
    std::string value;
    NOVA_RETURN_IF_ERROR(db_->Get(key, &value));
    return value;
  }
  StatusOr<Entries> Scan(const std::string& from, size_t limit) override {
    Entries entries;
    NOVA_RETURN_IF_ERROR(db_->Scan(from, limit, [&](std::string_view key, std::string_view value) {
      entries.emplace_back(key, value);
      return true;
    }));
    return entries;
  }
  Status Disturb() override {
    switch (random_.Uniform(3)) {
      case 0:
        return db_->Flush();
      case 1:
        return db_->WaitForBackgroundWork();
      default:
        Open();
        return OkStatus();
    }
  }

 private:
  // Options must not matter: each opening has others.
  void Open() {
    db_ = nullptr;
    DbOptions o;
    o.memtable_bytes = 4 << 20;
    o.cache_bytes = random_.OneIn(2) ? 0 : 1 << 20;
    o.map_tables = random_.OneIn(2);
    o.log = random_.OneIn(2) ? DbLog::kNone : DbLog::kPersistent;
    o.range.memtable_size_bytes = 64 << 10 << random_.Uniform(3);
    o.range.active_memtables = 1 + static_cast<int>(random_.Uniform(3));
    if (random_.OneIn(2)) o.range.memtable_partitioning = MemtablePartitioning::kDrange;
    o.range.max_rounds = 2 + static_cast<int>(random_.Uniform(5));
    o.range.merge_rounds = random_.OneIn(2) ? MergeRounds::kAlways : MergeRounds::kAuto;
    o.range.compaction.table_size_bytes = 64 << 10;
    o.range.compaction.level1_bytes = 128 << 10;
    o.range.compaction.level0_runs_trigger = 4;
    o.range.compaction.max_parts = 1 + static_cast<int>(random_.Uniform(4));
    auto db = Db::Open(directory_, o);
    ASSERT_TRUE(db.ok()) << db.status();
    db_ = *std::move(db);
  }

  Random random_;
  std::string directory_;
  std::unique_ptr<Db> db_;
};

TEST(StorageTester, FindsNothingInTheEmbeddedEngine) {
  const OperationMix mixes[] = {OperationMix::Balanced(), OperationMix::WriteHeavy(),
                                OperationMix::DeleteHeavy(), OperationMix::ReadHeavy()};
  const double rates[] = {0.1, 0.5, 0.9};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    TestedDb store(seed);
    StorageTesterOptions options;
    options.seed = seed;
    options.operations = 6'000;
    options.mix = mixes[seed % 4];
    options.known_key_rate = rates[seed % 3];
    const auto digest = TestStorage(&store, options);
    ASSERT_TRUE(digest.ok()) << digest.status();
  }
}

// A map with one fault.
class FaultyMap : public TestedStore {
 public:
  enum Fault {
    kNone,
    kForgetsDeletes,
    kForgetsLastOfRange,
    kLosesLongValues,
    kSkipsInScans,
    kEndsScansEarly
  };
  explicit FaultyMap(Fault fault) : fault_(fault) {}
  Status Put(const std::string& key, const std::string& value) override {
    if (fault_ != kLosesLongValues || value.size() < 1'000) map_[key] = value;
    return OkStatus();
  }
  Status Delete(const std::string& key) override {
    if (fault_ != kForgetsDeletes || key.size() != 5) map_.erase(key);
    return OkStatus();
  }
  Status DeleteRange(const std::string& begin, const std::string& end) override {
    auto last = end.empty() ? map_.end() : map_.lower_bound(end);
    const auto first = map_.lower_bound(begin);
    if (fault_ == kForgetsLastOfRange && first != last) --last;
    map_.erase(first, last);
    return OkStatus();
  }
  StatusOr<std::string> Get(const std::string& key) override {
    const auto it = map_.find(key);
    if (it == map_.end()) return absl::NotFoundError(key);
    return it->second;
  }
  StatusOr<Entries> Scan(const std::string& from, size_t limit) override {
    Entries entries;
    for (auto it = map_.lower_bound(from); it != map_.end() && entries.size() < limit; ++it) {
      if (fault_ == kSkipsInScans && it->second.size() % 64 == 13) continue;
      if (fault_ == kEndsScansEarly && entries.size() == 49) break;
      entries.emplace_back(it->first, it->second);
    }
    return entries;
  }

 private:
  const Fault fault_;
  std::map<std::string, std::string> map_;
};

TEST(StorageTester, FindsFaultsAndAgreesWithItself) {
  FaultyMap good(FaultyMap::kNone), again(FaultyMap::kNone), other(FaultyMap::kNone);
  const auto digest = TestStorage(&good, {});
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(*digest, *TestStorage(&again, {}));
  StorageTesterOptions second;
  second.seed = 2;
  EXPECT_NE(*digest, *TestStorage(&other, second));
  for (const auto fault :
       {FaultyMap::kForgetsDeletes, FaultyMap::kForgetsLastOfRange, FaultyMap::kLosesLongValues,
        FaultyMap::kSkipsInScans, FaultyMap::kEndsScansEarly}) {
    FaultyMap store(fault);
    EXPECT_TRUE(absl::IsInternal(TestStorage(&store, {}).status())) << "fault " << fault << " was not found";
  }
}

}  // namespace
}  // namespace nova
