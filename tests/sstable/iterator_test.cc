#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "common/sstable/concatenating_iterator.h"
#include "common/sstable/merging_iterator.h"
#include "common/sstable/table_iterator.h"
#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

using Tables = std::map<const TableReader*, const TestTable*>;

Direction RandomDirection(Random* random) {
  return random->OneIn(2) ? Direction::kForward : Direction::kBackward;
}

// Walks `it` as `model` says, from the start and from random places.
void ExpectSame(Iterator* it, const Model& model, const Tables& tables, Random* random,
                Direction direction = Direction::kForward) {
  const bool backward = direction == Direction::kBackward;
  std::vector<std::pair<std::string, std::string>> entries(model.begin(), model.end());
  if (backward) std::reverse(entries.begin(), entries.end());
  it->SeekToFirst();
  Settle(it, tables);
  for (const auto& [key, value] : entries) {
    ASSERT_TRUE(it->Valid()) << it->status();
    ASSERT_EQ(it->key(), key);
    ASSERT_EQ(it->value(), value);
    it->Next();
    Settle(it, tables);
  }
  ASSERT_EQ(it->state(), Iterator::State::kEnd);
  for (int i = 0; i < 30; ++i) {
    std::string target = InternalKey(RandomKey(random), random->Uniform(1000));
    if (random->OneIn(2) && !model.empty()) {
      auto some = model.begin();
      std::advance(some, random->Uniform(model.size()));
      target = MakeSeekKey(StoredKeyOf(some->first), random->Uniform(1000));
    }
    it->Seek(target);
    Settle(it, tables);
    const auto before = static_cast<size_t>(std::distance(model.begin(), model.lower_bound(target)));
    auto expected =
        entries.begin() + static_cast<std::ptrdiff_t>(backward ? entries.size() - before : before);
    for (int steps = 0; steps < 10 && expected != entries.end(); ++steps, ++expected) {
      ASSERT_TRUE(it->Valid()) << it->status();
      ASSERT_EQ(it->key(), expected->first);
      ASSERT_EQ(it->value(), expected->second);
      it->Next();
      Settle(it, tables);
    }
    if (expected == entries.end()) {
      ASSERT_EQ(it->state(), Iterator::State::kEnd);
    }
  }
}

TEST(TableIteratorTest, AgreesWithAMapWhateverIsInMemory) {
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const Model model = RandomModel(&random, 1 + random.Uniform(100));
    const TestTable table = BuildTable(model, RandomOptions(&random));
    const Direction direction = RandomDirection(&random);
    TableIterator it(table.reader, FlakyLookup(&table, &random, random.Uniform(4)),
                     TableIterator::Check::kOnce, direction);
    ExpectSame(&it, model, {{table.reader.get(), &table}}, &random, direction);
  }
}

TEST(TableIteratorTest, StaysWithinUseBounds) {
  Random random(2);
  for (int round = 0; round < 150; ++round) {
    const Model all = RandomModel(&random, 1 + random.Uniform(100));
    std::string from = random.OneIn(3) ? "" : RandomKey(&random),
                to = random.OneIn(3) ? "" : RandomKey(&random);
    if (!to.empty() && to < from) std::swap(from, to);
    Model model;
    for (const auto& [key, value] : all) {
      const std::string_view stored = StoredKeyOf(key);
      if (stored >= from && (to.empty() || stored < to)) model.emplace(key, value);
    }
    const TestTable table = BuildTable(all, RandomOptions(&random), {1, 2}, from, to);
    const Direction direction = RandomDirection(&random);
    TableIterator it(table.reader, FlakyLookup(&table, &random, random.Uniform(4)),
                     TableIterator::Check::kOnce, direction);
    ExpectSame(&it, model, {{table.reader.get(), &table}}, &random, direction);
  }
}

TEST(TableIteratorTest, AsksForWhatIsExpectedWithTheFirstBlockAndLaterForMore) {
  Model model;
  for (int i = 0; i < 1000; ++i)
    model[InternalKey(absl::StrCat("key", 1000 + i), 1)] = std::string(1000, 'v');
  const TestTable table = BuildTable(model, {.block_size_bytes = 1024});
  std::set<uint64_t> in_memory;  // offsets of blocks
  const BlockLookup lookup = [&](const TableReader&, const BlockHandle& handle) {
    return in_memory.contains(handle.offset) ? table.Block(handle) : BlockRef();
  };
  // Reads so many entries from a key on; the numbers of blocks that were asked for each time.
  std::vector<size_t> asked;
  const auto read_to = [&](std::string_view from, double expected, std::string_view end, int entries) {
    TableIterator it(table.reader, lookup);
    it.Expect(expected, end);
    it.Seek(InternalKey(from, 1));
    for (int n = 0; n < entries; ++n, it.Next()) {
      while (it.state() == Iterator::State::kNeedBlocks) {
        std::vector<BlockRequest> needed;
        it.AppendNeeded(&needed);
        ASSERT_EQ(needed.size(), 1u);
        asked.push_back(1 + needed[0].behind.size());
        uint64_t at = needed[0].handle.offset + needed[0].handle.size;
        in_memory.insert(needed[0].handle.offset);
        for (const BlockHandle& handle : needed[0].behind) {
          EXPECT_EQ(handle.offset, at) << "one after another";
          EXPECT_TRUE(in_memory.insert(handle.offset).second) << "it was in memory";
          at += handle.size;
        }
        it.Resume();
      }
      if (!it.Valid()) break;
    }
  };
  const auto read = [&](std::string_view from, double expected, std::string_view end, int entries) {
    asked.clear();
    read_to(from, expected, end, entries);
    return asked;
  };
  EXPECT_THAT(read("key1100", 0, "", 1), testing::ElementsAre(1));
  EXPECT_THAT(read("key1101", 9, "", 10), testing::ElementsAre(16)) << "nine, and two standard deviations";
  EXPECT_THAT(read("key1105", 9, "", 10), testing::IsEmpty());
  EXPECT_THAT(read("key1112", 9, "", 10), testing::ElementsAre(11)) << "five of them are there";
  EXPECT_THAT(read("key1200", 9, "key1203", 3), testing::ElementsAre(4)) << "the end is known";
  EXPECT_THAT(read("key1300", 0, "key1900", 500),
              testing::ElementsAre(1, 1, 1, 17, 33, 65, 65, 65, 65, 65, 65, 65));
}

// What lies before a block is a request of its own, for which nothing waits, and ends with the fragment.
TEST(TableIteratorTest, BackwardsAsksForWhatLiesBefore) {
  Model model;
  for (int i = 0; i < 1000; ++i)
    model[InternalKey(absl::StrCat("key", 1000 + i), 1)] = std::string(1000, 'v');
  TestTable table = BuildTable(model, {.block_size_bytes = 1024});
  std::vector<BlockHandle> all;
  table.reader->ForEachBlock([&](const BlockHandle& handle) { all.push_back(handle); });
  ASSERT_EQ(all.size(), 1000u);
  TableInfo info = table.output.info;
  const uint64_t cut = all[500].offset;
  info.fragments = {{0, cut, {StocId(1)}}, {cut, info.data_size - cut, {StocId(2)}}};
  table.reader = *TableReader::Open(info, table.output.metadata);
  std::set<uint64_t> in_memory;  // offsets of blocks
  const BlockLookup lookup = [&](const TableReader&, const BlockHandle& handle) {
    return in_memory.contains(handle.offset) ? table.Block(handle) : BlockRef();
  };
  // Reads so many entries backwards from a key on; the numbers of blocks that were asked for each time.
  std::vector<size_t> asked;
  const auto read_to = [&](std::string_view from, double expected, std::string_view end, int entries) {
    TableIterator it(table.reader, lookup, TableIterator::Check::kOnce, Direction::kBackward);
    it.Expect(expected, end);
    it.Seek(InternalKey(from, 1));
    for (int n = 0; n < entries && (n == 0 || it.Valid()); ++n) {
      if (n > 0) it.Next();
      while (it.state() == Iterator::State::kNeedBlocks) {
        std::vector<BlockRequest> needed;
        it.AppendNeeded(&needed);
        ASSERT_EQ(needed[0].iterator, &it);
        EXPECT_TRUE(needed[0].behind.empty());
        it.Supply(needed[0].handle, table.Block(needed[0].handle));
        asked.push_back(1);
        if (needed.size() > 1) {
          ASSERT_EQ(needed.size(), 2u);
          EXPECT_EQ(needed[1].iterator, nullptr);
          std::vector<BlockHandle> before = {needed[1].handle};
          before.insert(before.end(), needed[1].behind.begin(), needed[1].behind.end());
          asked.back() += before.size();
          EXPECT_EQ(before.front().offset < cut, needed[0].handle.offset < cut) << "another fragment";
          before.push_back(needed[0].handle);
          for (size_t i = 0; i + 1 < before.size(); ++i) {
            EXPECT_EQ(before[i].offset + before[i].size, before[i + 1].offset) << "one after another";
            EXPECT_TRUE(in_memory.insert(before[i].offset).second) << "it was in memory";
          }
        }
        it.Resume();
      }
      ASSERT_TRUE(it.Valid());
      ASSERT_EQ(StoredKeyOf(it.key()), absl::StrCat("key", 1000 + (atoi(&from[3]) - 1000) - 1 - n));
    }
  };
  const auto read = [&](std::string_view from, double expected, std::string_view end, int entries) {
    asked.clear();
    in_memory.clear();
    read_to(from, expected, end, entries);
    return asked;
  };
  EXPECT_THAT(read("key1900", 0, "", 1), testing::ElementsAre(1, 1)) << "the first has the key itself";
  EXPECT_THAT(read("key1900", 9, "", 10), testing::ElementsAre(16)) << "nine, and two standard deviations";
  EXPECT_THAT(read("key1900", 9, "key1897", 3), testing::ElementsAre(4)) << "the end is known";
  EXPECT_THAT(read("key1900", 0, "", 300), testing::ElementsAre(1, 1, 1, 17, 33, 65, 65, 65, 65));
  EXPECT_THAT(read("key1503", 9, "", 4), testing::ElementsAre(4, 12)) << "cut at the fragment";
}

TEST(TableIteratorTest, NamesTheBlockItNeedsAndWaitsForIt) {
  const TestTable table =
      BuildTable({{InternalKey("a", 1), "1"}, {InternalKey("b", 1), "2"}}, {.block_size_bytes = 1});
  TableIterator it(table.reader, nullptr);
  EXPECT_EQ(it.state(), Iterator::State::kEnd);
  it.SeekToFirst();
  ASSERT_EQ(it.state(), Iterator::State::kNeedBlocks);
  std::vector<BlockRequest> needed;
  it.AppendNeeded(&needed);
  ASSERT_EQ(needed.size(), 1u);
  EXPECT_EQ(needed[0].iterator, &it);
  EXPECT_EQ(needed[0].table, table.reader.get());
  EXPECT_EQ(needed[0].handle.offset, 0u);
  it.Resume();
  EXPECT_EQ(it.state(), Iterator::State::kNeedBlocks) << "nothing was supplied";
  it.Supply(needed[0].handle, table.Block(needed[0].handle));
  it.Resume();
  ASSERT_TRUE(it.Valid());
  EXPECT_EQ(it.value(), "1");
  it.Next();
  ASSERT_EQ(it.state(), Iterator::State::kNeedBlocks);
  it.Seek(InternalKey("zz", 1));
  EXPECT_EQ(it.state(), Iterator::State::kEnd) << "known without any block";
}

TEST(TableIteratorTest, AMalformedBlockIsAnErrorNotACrash) {
  Random random(3);
  const TestTable table = BuildTable(RandomModel(&random, 30), {.block_size_bytes = 100000});
  int errors = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = table.output.data.substr(0, table.output.data.size() - kBlockTrailerBytes);
    for (int n = 0; n < 3; ++n) bytes[random.Uniform(bytes.size())] = static_cast<char>(random.Next());
    const BlockRef block = SharedBytes::Of(std::move(bytes));
    TableIterator it(
        table.reader, [&](const TableReader&, const BlockHandle&) { return block; },
        TableIterator::Check::kOnce, RandomDirection(&random));
    for (it.SeekToFirst(); it.Valid();) it.Next();
    if (it.state() == Iterator::State::kError) {
      ++errors;
      EXPECT_EQ(it.status().code(), absl::StatusCode::kDataLoss);
    }
  }
  EXPECT_GT(errors, 0);
}

TEST(MergingIteratorTest, AgreesWithAMapWhateverIsInMemory) {
  Random random(4);
  for (int round = 0; round < 150; ++round) {
    const size_t n = random.Uniform(9);
    const Direction direction = RandomDirection(&random);
    std::vector<TestTable> parts(n);
    Tables tables;
    Model all;
    std::vector<std::unique_ptr<Iterator>> children;
    for (size_t i = 0; i < n; ++i) {
      Model part = RandomModel(&random, 1 + random.Uniform(40));
      for (auto& [key, value] : part) {
        // What two tables both hold is the same record, recovered twice.
        value = all.emplace(key, value).first->second;
      }
      for (const auto& [key, value] : all) {
        if (random.OneIn(4)) part.emplace(key, value);
      }
      parts[i] = BuildTable(part, RandomOptions(&random), {1, i});
      tables[parts[i].reader.get()] = &parts[i];
      children.push_back(std::make_unique<TableIterator>(parts[i].reader,
                                                         FlakyLookup(&parts[i], &random, random.Uniform(4)),
                                                         TableIterator::Check::kOnce, direction));
    }
    const auto it = NewMergingIterator(std::move(children), direction);
    ExpectSame(it.get(), all, tables, &random, direction);
  }
}

TEST(MergingIteratorTest, OfNothingIsEmpty) {
  const auto it = NewMergingIterator({});
  EXPECT_EQ(it->state(), Iterator::State::kEnd);
  it->SeekToFirst();
  EXPECT_EQ(it->state(), Iterator::State::kEnd);
  it->Seek(InternalKey("a", 1));
  EXPECT_EQ(it->state(), Iterator::State::kEnd);
}

TEST(MergingIteratorTest, AsksForTheBlocksOfAllChildrenAtOnce) {
  const TestTable a = BuildTable({{InternalKey("a", 1), ""}}, {}, {1, 1});
  const TestTable b = BuildTable({{InternalKey("b", 1), ""}}, {}, {1, 2});
  std::vector<std::unique_ptr<Iterator>> children;
  children.push_back(std::make_unique<TableIterator>(a.reader, nullptr));
  children.push_back(std::make_unique<TableIterator>(b.reader, nullptr));
  const auto it = NewMergingIterator(std::move(children));
  it->SeekToFirst();
  ASSERT_EQ(it->state(), Iterator::State::kNeedBlocks);
  std::vector<BlockRequest> needed;
  it->AppendNeeded(&needed);
  EXPECT_EQ(needed.size(), 2u);
}

TEST(MergingIteratorTest, AChildsErrorIsTheMergesError) {
  const TestTable a =
      BuildTable({{InternalKey("a", 1), "1"}, {InternalKey("c", 1), "3"}}, {.block_size_bytes = 1}, {1, 1});
  const TestTable b = BuildTable({{InternalKey("b", 1), "2"}}, {}, {1, 2});
  for (uint64_t bad_offset : {uint64_t{0}, a.output.block_ends[0]}) {
    const auto broken = SharedBytes::Of(std::string("\xff\xff\xff\xff\0\0\0\0\1\0\0\0", 12));
    std::vector<std::unique_ptr<Iterator>> children;
    children.push_back(
        std::make_unique<TableIterator>(a.reader, [&](const TableReader&, const BlockHandle& h) {
          return h.offset == bad_offset ? broken : a.Block(h);
        }));
    children.push_back(std::make_unique<TableIterator>(
        b.reader, [&](const TableReader&, const BlockHandle& h) { return b.Block(h); }));
    const auto it = NewMergingIterator(std::move(children));
    it->SeekToFirst();
    if (bad_offset != 0) {
      ASSERT_TRUE(it->Valid());
      it->Next();
    }
    EXPECT_EQ(it->state(), Iterator::State::kError);
    EXPECT_EQ(it->status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(ConcatenatingIteratorTest, AgreesWithAMapWhateverIsInMemory) {
  Random random(5);
  for (int round = 0; round < 100; ++round) {
    const Model all = RandomModel(&random, 5 + random.Uniform(100));
    const size_t n = 1 + random.Uniform(5);
    std::vector<TestTable> parts(n);
    Tables tables;
    std::vector<std::unique_ptr<Iterator>> children;
    auto next = all.begin();
    for (size_t i = 0; i < n; ++i) {
      Model part;
      for (size_t left = all.size() / n; next != all.end() && (left > 0 || i + 1 == n); --left, ++next)
        part.insert(*next);
      parts[i] = BuildTable(part, RandomOptions(&random), {1, i});
      tables[parts[i].reader.get()] = &parts[i];
      children.push_back(std::make_unique<TableIterator>(parts[i].reader,
                                                         FlakyLookup(&parts[i], &random, random.Uniform(4))));
    }
    const auto it = NewConcatenatingIterator(std::move(children));
    ExpectSame(it.get(), all, tables, &random);
  }
  const auto none = NewConcatenatingIterator({});
  none->SeekToFirst();
  EXPECT_EQ(none->state(), Iterator::State::kEnd);
}

}  // namespace
}  // namespace nova
