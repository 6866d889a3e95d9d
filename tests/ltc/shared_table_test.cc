// M4 in an embedded database: tables that several databases reference by hard links, each with use-bounds of
// its own, against a std::map; none deletes a file for the other, and a file goes with its last reference.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "common/base/random.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "ltc/embedded/local_storage.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

namespace fs = std::filesystem;
using Model = std::map<std::string, std::string>;

DbOptions SmallOptions(Random* random) {
  DbOptions o;
  o.log = DbLog::kNone;
  o.memtable_bytes = 8 << 20;
  o.cache_bytes = 256 << 10;
  o.map_tables = random->OneIn(2);
  o.range.memtable_size_bytes = 64 << 10;
  o.range.compaction.table_size_bytes = 64 << 10;
  o.range.compaction.level1_bytes = 128 << 10;
  o.range.compaction.level0_runs_trigger = 2 + static_cast<int>(random->Uniform(4));
  o.range.table.block_size_bytes = 512 << random->Uniform(4);
  o.range.table.filter_bits_per_key = random->OneIn(4) ? 0 : 10;
  o.range.compression = {random->OneIn(2) ? Compression::kNone : Compression::kLz4};
  return o;
}

std::string KeyOf(uint64_t i) { return StrCat("key", 10000 + i); }
constexpr uint64_t kKeys = 3000;

// What of a model a checkpoint with these bounds holds.
Model Cut(const Model& model, const std::string& from, const std::string& to) {
  return {model.lower_bound(from), to.empty() ? model.end() : model.lower_bound(to)};
}

class SharedTableTest : public ::testing::Test {
 protected:
  // A database and what is in it.
  struct Sharer {
    std::string path;
    std::unique_ptr<Db> db;
    Model model;
  };

  void Open(Sharer* s) {
    auto db = Db::Open(s->path, SmallOptions(&random_));
    ASSERT_TRUE(db.ok()) << db.status();
    s->db = *std::move(db);
  }
  Sharer NewSharer() { return {dir_ / StrCat("db", next_++), nullptr, {}}; }

  void Write(Sharer* s, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = KeyOf(random_.Uniform(kKeys));
      if (random_.OneIn(5)) {
        ASSERT_TRUE(s->db->Delete(key).ok());
        s->model.erase(key);
      } else if (random_.OneIn(400)) {
        const std::string end = KeyOf(random_.Uniform(kKeys));
        if (key >= end) continue;
        ASSERT_TRUE(s->db->DeleteRange(key, end).ok());
        s->model.erase(s->model.lower_bound(key), s->model.lower_bound(end));
      } else {
        const std::string value = StrCat(random_.Next()) + std::string(random_.Uniform(300), 'v');
        ASSERT_TRUE(s->db->Put(key, value).ok());
        s->model[key] = value;
      }
    }
  }

  void ExpectContents(Sharer* s) {
    for (const bool reverse : {false, true}) {
      Model all;
      const Status scanned =
          s->db->Scan(DbScan{.reverse = reverse}, [&](std::string_view key, std::string_view value) {
            EXPECT_TRUE(all.emplace(key, value).second);
            return true;
          });
      ASSERT_TRUE(scanned.ok()) << scanned;
      ASSERT_EQ(all.size(), s->model.size()) << s->path << (reverse ? " in reverse" : "");
      ASSERT_TRUE(all == s->model) << s->path;
    }
    for (int i = 0; i < 100; ++i) {
      const std::string key = KeyOf(random_.Uniform(kKeys)), to = KeyOf(random_.Uniform(kKeys));
      std::string value;
      const Status got = s->db->Get(key, &value);
      const auto it = s->model.find(key);
      ASSERT_EQ(got.ok(), it != s->model.end()) << s->path << " " << key << " " << got;
      ASSERT_TRUE(!got.ok() || value == it->second) << key;
      const DbScan scan{key, to, 1 + random_.Uniform(20), random_.OneIn(2)};
      std::vector<std::string> expected, found;
      const Model part = key < to ? Cut(s->model, key, to) : Model();
      for (const auto& [k, v] : part) expected.push_back(k);
      if (scan.reverse) std::reverse(expected.begin(), expected.end());
      if (expected.size() > scan.limit) expected.resize(scan.limit);
      ASSERT_TRUE(
          s->db->Scan(scan, [&](std::string_view k, std::string_view) { return found.emplace_back(k), true; })
              .ok());
      ASSERT_EQ(found, expected) << s->path << " from " << key << " to " << to
                                 << (scan.reverse ? " in reverse" : "");
    }
  }

  size_t LinkedTables(const Sharer& s) const {
    size_t n = 0;
    for (const auto& e : fs::directory_iterator(s.path))
      n += e.path().extension() == ".sst" && e.hard_link_count() > 1;
    return n;
  }

  Directory dir_;
  Random random_{20261121};
  int next_ = 0;
};

// Clones of clones, of random intervals; each goes on by itself, is closed and opened, compacts; all against
// models.
TEST_F(SharedTableTest, M4ClonesOfIntervalsGoOnByThemselves) {
  size_t shared = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<Sharer> sharers;
    sharers.push_back(NewSharer());
    ASSERT_NO_FATAL_FAILURE(Open(&sharers[0]));
    ASSERT_NO_FATAL_FAILURE(Write(&sharers[0], 5000));
    for (int step = 0; step < 12; ++step) {
      Sharer& s = sharers[random_.Uniform(sharers.size())];
      switch (random_.Uniform(4)) {
        case 0: {
          if (sharers.size() == 4) break;
          std::string from = random_.OneIn(3) ? "" : KeyOf(random_.Uniform(kKeys)),
                      to = random_.OneIn(3) ? "" : KeyOf(random_.Uniform(kKeys));
          if (!to.empty() && to < from) std::swap(from, to);
          if (!to.empty() && to == from) break;
          Sharer clone = NewSharer();
          const Status made = s.db->Checkpoint(clone.path, from, to);
          ASSERT_TRUE(made.ok()) << made;
          shared += LinkedTables(clone);
          clone.model = Cut(s.model, from, to);
          ASSERT_NO_FATAL_FAILURE(Open(&clone));
          ASSERT_NO_FATAL_FAILURE(ExpectContents(&clone));
          sharers.push_back(std::move(clone));
          break;
        }
        case 1:
          ASSERT_NO_FATAL_FAILURE(Write(&s, 1500));
          break;
        case 2:
          s.db = nullptr;
          ASSERT_NO_FATAL_FAILURE(Open(&s));
          break;
        default:
          ASSERT_TRUE(s.db->Flush().ok());
          ASSERT_TRUE(s.db->WaitForBackgroundWork().ok());
          break;
      }
    }
    for (Sharer& s : sharers) ASSERT_NO_FATAL_FAILURE(ExpectContents(&s));
  }
  EXPECT_GT(shared, 0u);  // how many, compactions that go on meanwhile decide
}

// Two manifests reference one table; one compacts it away, the other reads on; both drop it, and the file
// goes.
TEST_F(SharedTableTest, M4AFileGoesWithItsLastReference) {
  Sharer low = NewSharer(), high = NewSharer(), source = NewSharer();
  ASSERT_NO_FATAL_FAILURE(Open(&source));
  for (uint64_t i = 0; i < kKeys; ++i) {
    source.model[KeyOf(i)] = StrCat("first ", i);
    ASSERT_TRUE(source.db->Put(KeyOf(i), StrCat("first ", i)).ok());
  }
  ASSERT_TRUE(source.db->Flush().ok());
  ASSERT_TRUE(source.db->WaitForBackgroundWork().ok());  // else a clone would compact what it gets
  const std::string middle = KeyOf(kKeys / 2);
  ASSERT_TRUE(source.db->Checkpoint(low.path, "", middle).ok());
  ASSERT_TRUE(source.db->Checkpoint(high.path, middle, "").ok());
  low.model = Cut(source.model, "", middle);
  high.model = Cut(source.model, middle, "");
  source.db = nullptr;
  fs::remove_all(source.path);
  const auto tables = [&](const Sharer& s) {
    std::set<std::string> names;
    for (const auto& e : fs::directory_iterator(s.path)) {
      if (e.path().extension() == ".sst") names.insert(e.path().filename());
    }
    return names;
  };
  const std::set<std::string> of_source = tables(low);
  std::vector<std::string> both;
  for (const std::string& t : tables(high)) {
    if (of_source.contains(t)) both.push_back(t);
  }
  ASSERT_FALSE(both.empty()) << "no table lies across the middle";
  const auto links = [&](const Sharer& s) {
    std::error_code gone;
    const auto n = fs::hard_link_count(fs::path(s.path) / both[0], gone);
    return gone ? 0 : n;
  };
  EXPECT_EQ(links(low), 2u);
  const auto rewrite = [&](Sharer* s) {  // until nothing it was given is left
    while (true) {
      bool left = false;
      for (const std::string& t : tables(*s))
        left |= of_source.contains(t) || std::find(both.begin(), both.end(), t) != both.end();
      if (!left) return;
      for (auto& [key, value] : s->model) {
        value = "second" + value;
        ASSERT_TRUE(s->db->Put(key, value).ok());
      }
      ASSERT_TRUE(s->db->Flush().ok());
      ASSERT_TRUE(s->db->WaitForBackgroundWork().ok());
      SleepFor(10 * kMillisecond);  // tables are unlinked by another thread
    }
  };
  ASSERT_NO_FATAL_FAILURE(Open(&low));
  ASSERT_NO_FATAL_FAILURE(Open(&high));
  ASSERT_NO_FATAL_FAILURE(ExpectContents(&low));
  ASSERT_NO_FATAL_FAILURE(ExpectContents(&high));
  ASSERT_NO_FATAL_FAILURE(rewrite(&low));
  EXPECT_EQ(links(low), 0u);
  EXPECT_EQ(links(high), 1u);
  high.db = nullptr;  // from the file, not from memory
  ASSERT_NO_FATAL_FAILURE(Open(&high));
  ASSERT_NO_FATAL_FAILURE(ExpectContents(&low));
  ASSERT_NO_FATAL_FAILURE(ExpectContents(&high));
  ASSERT_NO_FATAL_FAILURE(rewrite(&high));
  EXPECT_EQ(links(high), 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectContents(&high));
}

// What counts as a level's bytes is what is used: a sliver of large tables does not make a compaction due.
TEST_F(SharedTableTest, M4AClonesStatisticsAreOfItsPart) {
  Sharer source = NewSharer(), sliver = NewSharer();
  ASSERT_NO_FATAL_FAILURE(Open(&source));
  for (uint64_t i = 0; i < kKeys; ++i)
    ASSERT_TRUE(source.db->Put(KeyOf(i), std::string(300, static_cast<char>('a' + i % 26))).ok());
  ASSERT_TRUE(source.db->Flush().ok());
  ASSERT_TRUE(source.db->WaitForBackgroundWork().ok());
  ASSERT_TRUE(source.db->Checkpoint(sliver.path, KeyOf(100), KeyOf(101)).ok());
  const auto disk = *OpenPosixDisk(sliver.path);
  const auto edits = LocalManifestStorage(disk.get()).ReadInstalled();
  ASSERT_TRUE(edits.ok()) << edits.status();
  const auto version = *Version().Apply((*edits)[0], {});
  EXPECT_GE(version->TableCount(), 1u);
  EXPECT_LT(version->TotalBytes(), version->TableCount() * (16 << 10)) << "a block or two of each";
  EXPECT_TRUE(source.db->Checkpoint(dir_ / "none", "b", "a").code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nova
