// Rounds of an embedded database that are merged in memory while their logs stay (done memtables, M3): what a
// death of the process leaves.
#include <gtest/gtest.h>

#include <map>

#include "common/base/random.h"
#include "common/base/sim_disk.h"
#include "ltc/embedded/db.h"
#include "tests/ltc/small_options.h"

namespace nova {
namespace {

using Model = std::map<std::string, std::string>;

std::string KeyOf(uint64_t n) { return StrCat("key", 1000 + n); }

Model All(Db* db, std::shared_ptr<const Snapshot> at = nullptr) {
  Model all;
  const Status s = db->Scan("", 10'000,
                            [&](std::string_view key, std::string_view value) {
                              all.emplace(key, value);
                              return true;
                            },
                            {std::move(at)});
  EXPECT_TRUE(s.ok()) << s;
  return all;
}

// One writer of a few hundred keys, and what the database has to hold.
class Writer {
 public:
  Writer(Db* db, uint64_t seed) : db_(db), random_(seed) {}
  const Model& model() const { return model_; }

  void Write() {
    const uint64_t dice = random_.Uniform(1000);
    Status s = OkStatus();
    if (dice < 5) {
      const uint64_t from = random_.Uniform(kKeys), to = from + 1 + random_.Uniform(20);
      s = db_->DeleteRange(KeyOf(from), KeyOf(to));
      model_.erase(model_.lower_bound(KeyOf(from)), model_.lower_bound(KeyOf(to)));
    } else if (dice < 100) {
      const std::string key = KeyOf(random_.Uniform(kKeys));
      s = db_->Delete(key);
      model_.erase(key);
    } else if (dice < 200) {
      const auto [key, value] = Next();
      s = db_->PutTtl(key, value, /*ttl_ms=*/3'600'000);
    } else if (dice < 300) {
      WriteBatch batch;
      for (uint64_t n = 1 + random_.Uniform(5); n > 0; --n) {
        const auto [key, value] = Next();
        batch.Put(key, value);
      }
      s = db_->Write(batch);
    } else {
      const auto [key, value] = Next();
      s = db_->Put(key, value, {.sync = random_.OneIn(20)});
    }
    ASSERT_TRUE(s.ok()) << s;
  }

 private:
  static constexpr uint64_t kKeys = 200;

  // A key and its next value, which are in the model from here on.
  std::pair<std::string, std::string> Next() {
    const std::string key = KeyOf(random_.Uniform(kKeys));
    model_[key] = StrCat(++values_, std::string(random_.Uniform(600), 'v'));
    return {key, model_[key]};
  }

  Db* const db_;
  Random random_;
  Model model_;
  uint64_t values_ = 0;
};

TEST(DbMergedRounds, M3AreReplayedWithAllThatTheyHeld) {
  uint64_t merges = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SimDisk medium;
    const auto disk = medium.Mount();
    DbOptions options = SmallOptions();
    options.disk = disk.get();
    options.log = DbLog::kPersistent;
    options.range.merge_rounds = MergeRounds::kAlways;
    options.range.log_share = 1 + static_cast<double>(seed);
    options.range.table_lag_ns = 3600 * kSecond;
    auto db = Db::Open("", options);
    ASSERT_TRUE(db.ok()) << db.status();
    Writer writer(db->get(), seed);
    std::shared_ptr<const Snapshot> snapshot;
    Model at_snapshot;
    for (int part = 0; part < 6; ++part) {
      for (int i = 0; i < 700; ++i) writer.Write();
      if (snapshot != nullptr) {
        EXPECT_EQ(All(db->get(), snapshot), at_snapshot);
      }
      snapshot = *(*db)->TakeSnapshot();
      at_snapshot = writer.model();
      EXPECT_EQ(All(db->get()), writer.model());
      const auto left = medium.Copy();  // by a process that dies now
      const auto left_disk = left->Mount();
      DbOptions others = options;
      others.disk = left_disk.get();
      const auto replayed = Db::Open("", others);
      ASSERT_TRUE(replayed.ok()) << replayed.status();
      EXPECT_EQ(All(replayed->get()), writer.model()) << "seed " << seed << ", part " << part;
    }
    merges += (*db)->stats().merges;
  }
  EXPECT_GT(merges, 0u);
}

}  // namespace
}  // namespace nova
