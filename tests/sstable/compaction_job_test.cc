#include "common/sstable/compaction_job.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/clock.h"
#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

std::string TtlValue(int64_t expiry_ms, std::string_view payload = "") {
  std::string value;
  PutFixed64(&value, static_cast<uint64_t>(expiry_ms));
  return value.append(payload);
}

// What VersionFilter keeps of `entries`, as the rule says it, without its streaming.
Model Kept(const Model& entries, const CompactionJob& job) {
  Model kept;
  std::set<SequenceNumber> views(job.snapshots.begin(), job.snapshots.end());
  views.insert(kMaxSequenceNumber);
  std::map<std::string, std::map<SequenceNumber, const Model::value_type*>> by_key;
  for (const auto& entry : entries)
    by_key[std::string(StoredKeyOf(entry.first))][TrailerOf(entry.first) >> 8] = &entry;
  for (const auto& [key, versions] : by_key) {
    std::set<SequenceNumber> seen;
    for (const SequenceNumber view : views) {
      auto it = versions.upper_bound(view);
      if (it != versions.begin()) seen.insert((--it)->first);
    }
    for (const SequenceNumber s : seen) {
      const auto& [k, value] = *versions.at(s);
      const auto type = static_cast<ValueType>(TrailerOf(k) & 0xff);
      const bool dead =
          type == ValueType::kDelete ||
          (type == ValueType::kPutTtl && static_cast<int64_t>(DecodeFixed64(value.data())) <= job.now_ms);
      const bool oldest_stripe = s <= *views.begin();
      if (dead && oldest_stripe && job.bottom && s <= job.floor) continue;
      kept[k] = value;
    }
  }
  return kept;
}

// What a reader at `seq` sees of `key`: nothing for tombstones and expired values.
std::string Visible(const Model& model, std::string_view key, SequenceNumber seq, int64_t now_ms) {
  const auto* hit = ModelGet(model, key, seq);
  if (hit == nullptr) return "nothing";
  const auto type = static_cast<ValueType>(TrailerOf(hit->first) & 0xff);
  if (type == ValueType::kDelete) return "nothing";
  if (type == ValueType::kPutTtl && static_cast<int64_t>(DecodeFixed64(hit->second.data())) <= now_ms)
    return "nothing";
  return "value " + hit->second;
}

class MemoryStorage : public CompactionStorage {
 public:
  TableInfo Put(const Model& model, const TableOptions& options, const Uuid& uuid, std::string_view from = "",
                std::string_view to = "") {
    TestTable table = BuildTable(model, options, uuid, from, to);
    const TableInfo info = table.output.info;
    tables_[uuid] = std::move(table.output);
    return info;
  }
  StatusOr<std::shared_ptr<const TableReader>> OpenTable(const TableInfo& info) override {
    if (!tables_.contains(info.uuid)) return absl::NotFoundError("no table");
    auto reader = TableReader::Open(info, tables_.at(info.uuid).metadata);
    if (reader.ok() && moved_to != StocId()) {
      TableInfo moved = info;
      moved.metadata_stocs = {moved_to};
      (*reader)->SetPlaces(moved);
    }
    return reader;
  }
  StatusOr<std::string> ReadBlocks(const TableInfo& info, std::span<const BlockHandle> blocks) override {
    const uint64_t offset = blocks.front().offset;
    const size_t size = blocks.back().offset + blocks.back().size - offset;
    ++reads;
    largest_read = std::max(largest_read, size);
    EXPECT_LE(offset + size, info.data_size);
    if (moved_to != StocId()) {
      EXPECT_EQ(info.metadata_stocs, std::vector{moved_to});
    }
    if (!fail_read.ok()) return fail_read;
    std::string bytes = tables_.at(info.uuid).data.substr(offset, size);
    if (short_reads) bytes.pop_back();
    return bytes;
  }
  StatusOr<TableInfo> WriteTable(TableBuilder::Output output) override {
    if (!fail_write.ok()) return fail_write;
    TableInfo info = output.info;
    info.fragments = CutFragments(output.block_ends, 3);
    info.metadata_stocs = {StocId(7)};
    EXPECT_TRUE(tables_.emplace(info.uuid, std::move(output)).second);
    return info;
  }
  Model Contents(const TableInfo& info) {
    auto reader = TableReader::Open(info, tables_.at(info.uuid).metadata);
    EXPECT_TRUE(reader.ok()) << reader.status();
    TableIterator it(*reader, [&](const TableReader& t, const BlockHandle& h) -> BlockRef {
      return *t.CheckBlock(h, tables_.at(info.uuid).data.substr(h.offset, h.size));
    });
    Model model;
    for (it.SeekToFirst(); it.Valid(); it.Next()) model.emplace(it.key(), it.value());
    EXPECT_EQ(it.state(), Iterator::State::kEnd) << it.status();
    EXPECT_TRUE(info.entries == model.size() || !info.use_from.empty() || !info.use_to.empty());
    return model;
  }
  std::string* data(const Uuid& uuid) { return &tables_.at(uuid).data; }

  int reads = 0;
  size_t largest_read = 0;
  bool short_reads = false;
  StocId moved_to;  // 0, or where the copies are by now, of tables whose readers were opened before (S5)
  Status fail_read, fail_write;

 private:
  std::map<Uuid, TableBuilder::Output> tables_;
};

std::vector<Uuid> OutputIds(size_t n) {
  std::vector<Uuid> ids;
  for (size_t i = 0; i < n; ++i) ids.push_back({1000, i});
  return ids;
}

CompactionJob SampleJob() {
  CompactionJob job;
  job.range = RangeId(3);
  job.epoch = Epoch(4);
  job.job_id = 500;
  TableInfo info;
  info.uuid = {1, 2};
  job.inputs = {info};
  job.from = "a";
  job.to = "q";
  job.snapshots = {10, 200};
  job.floor = 300;
  job.bottom = true;
  job.now_ms = 1700000000000;
  job.output_uuids = {{5, 6}, {7, 8}};
  job.max_table_size_bytes = 1 << 20;
  job.cut_points = {"cut", "it"};
  job.table_options = {4096, 16, 10, Compression::kZstd};
  job.deadline_ns = 77;
  job.tombstones_applied = 300;
  job.range_tombstones =
      RangeTombstones::Of({std::make_shared<const RangeTombstone>(RangeTombstone{"b", "c", 300})});
  return job;
}

std::string Encode(const CompactionJob& job) {
  std::string bytes;
  job.AppendTo(&bytes, 0);
  return bytes;
}

TEST(CompactionJobTest, BytesAreAsDocumented) {
  std::string info;
  TableInfo().AppendTo(&info);
  EXPECT_EQ(ToHex(Encode(SampleJob())),
            "7a"
            "03"
            "03"
            "04"
            "f403"
            "01"
            "1e01"
            "0100000000000000"
            "0200000000000000"
            "000000"
            "0000"
            "0000"
            "0000"
            "00"
            "00"
            "00"
            "00"
            "0161"
            "0171"
            "02"
            "0a"
            "c801"
            "ac02"
            "01"
            "0068e5cf8b010000"
            "02"
            "0500000000000000"
            "0600000000000000"
            "0700000000000000"
            "0800000000000000"
            "808040"
            "02"
            "03"
            "637574"
            "02"
            "6974"
            "8020"
            "10"
            "0a"
            "02"
            "4d00000000000000"
            "ac02"
            "01"
            "0162"
            "0163"
            "ac02");
}

TEST(CompactionJobTest, ComesBack) {
  const std::string bytes = Encode(SampleJob()) + "rest";
  std::string_view in = bytes;
  auto job = CompactionJob::Parse(&in, 0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(in, "rest");
  EXPECT_EQ(Encode(*job) + "rest", bytes);
  EXPECT_EQ(job->range, RangeId(3));
  EXPECT_EQ(job->inputs, SampleJob().inputs);
  EXPECT_EQ(job->snapshots, SampleJob().snapshots);
  EXPECT_EQ(job->now_ms, SampleJob().now_ms);
  EXPECT_EQ(job->cut_points, SampleJob().cut_points);
  EXPECT_EQ(job->table_options.compression, Compression::kZstd);
  EXPECT_EQ(job->deadline_ns, 77);
  EXPECT_EQ(job->tombstones_applied, 300u);
  ASSERT_NE(job->range_tombstones, nullptr);
  EXPECT_EQ(*job->range_tombstones->all()[0], (RangeTombstone{"b", "c", 300}));
}

CompactionResult SampleResult() {
  CompactionResult result;
  result.bytes_read = 300;
  result.bytes_written = 2;
  result.entries_in = 3;
  result.entries_dropped = 4;
  result.outputs.resize(2);
  result.outputs[0].uuid = {1, 2};
  return result;
}

TEST(CompactionResultTest, BytesAreAsDocumented) {
  const CompactionResult sample = SampleResult();
  std::string infos, bytes;
  for (const TableInfo& info : sample.outputs) info.AppendTo(&infos);
  sample.AppendTo(&bytes);
  EXPECT_EQ(ToHex(bytes), ToHex(std::string(1, static_cast<char>(7 + infos.size()))) +
                              "01"
                              "ac02"
                              "02"
                              "03"
                              "04"
                              "02" +
                              ToHex(infos));
}

TEST(CompactionResultTest, ComesBackAndNothingElseDoes) {
  std::string bytes;
  SampleResult().AppendTo(&bytes);
  const std::string more = bytes + "rest";
  std::string_view in = more;
  const auto result = CompactionResult::Parse(&in);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(in, "rest");
  std::string again;
  result->AppendTo(&again);
  EXPECT_EQ(again, bytes);
  EXPECT_EQ(result->outputs, SampleResult().outputs);
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::string_view cut = std::string_view(bytes).substr(0, n);
    EXPECT_TRUE(absl::IsDataLoss(CompactionResult::Parse(&cut).status())) << n;
    EXPECT_EQ(cut.size(), n) << "not taken";
  }
  std::string other = bytes;
  ++other[1];
  std::string_view version = other;
  EXPECT_TRUE(absl::IsDataLoss(CompactionResult::Parse(&version).status()));
}

TEST(CompactionJobTest, ADeadlineIsAsFarAwayOnAnotherClock) {
  CompactionJob job = SampleJob();
  const auto there = [&job](Nanos sent_at, Nanos read_at) {
    std::string bytes;
    job.AppendTo(&bytes, sent_at);
    std::string_view in = bytes;
    return CompactionJob::Parse(&in, read_at).value().deadline_ns;
  };
  job.deadline_ns = 10 * kSecond;
  EXPECT_EQ(there(4 * kSecond, 1000 * kSecond), 1006 * kSecond);
  EXPECT_EQ(there(11 * kSecond, 1000 * kSecond), 1000 * kSecond + 1) << "a deadline that has passed is none";
  job.deadline_ns = 0;
  EXPECT_EQ(there(4 * kSecond, 1000 * kSecond), 0);
}

TEST(CompactionJobTest, TruncatedBytesAreDataLoss) {
  const std::string bytes = Encode(SampleJob());
  for (size_t n = 0; n < bytes.size(); ++n) {
    const std::vector<char> exact(bytes.begin(), bytes.begin() + n);
    std::string_view in(exact.data(), n);
    EXPECT_EQ(CompactionJob::Parse(&in, 0).status().code(), absl::StatusCode::kDataLoss) << n;
    // The same with a length that fits what is there.
    std::string short_body;
    PutLengthPrefixed(&short_body, std::string_view(bytes).substr(1, n));
    in = short_body;
    if (n + 1 < bytes.size()) {
      EXPECT_EQ(CompactionJob::Parse(&in, 0).status().code(), absl::StatusCode::kDataLoss) << n;
    }
  }
}

TEST(CompactionJobTest, ChangedBytesParseToSomethingOrNothing) {
  const std::string good = Encode(SampleJob());
  Random random(1);
  for (int round = 0; round < 50000; ++round) {
    std::string bytes = good;
    for (uint64_t n = 1 + random.Uniform(3); n > 0; --n) {
      bytes[random.Uniform(bytes.size())] = static_cast<char>(random.Next());
    }
    std::string_view in = bytes;
    auto job = CompactionJob::Parse(&in, 0);
    if (job.ok()) {
      EXPECT_EQ(Encode(*job), bytes.substr(0, bytes.size() - in.size()));
    }
  }
}

// Asks for the entries of one key, newest first; '+' kept, '-' dropped.
std::string Ask(VersionFilter* filter, const std::vector<std::pair<SequenceNumber, ValueType>>& entries,
                std::string_view value = "", std::string_view key = "k") {
  std::string answers;
  for (const auto& [seq, type] : entries) answers += filter->Keep({key, seq, type}, value) ? '+' : '-';
  return answers;
}

constexpr ValueType kPut = ValueType::kPut, kDelete = ValueType::kDelete, kPutTtl = ValueType::kPutTtl;

TEST(VersionFilterTest, KeepsTheNewestOfEachKey) {
  VersionFilter filter({}, 100, false, 0);
  EXPECT_EQ(Ask(&filter, {{9, kPut}, {5, kPut}, {1, kPut}}), "+--");
  EXPECT_EQ(Ask(&filter, {{9, kPut}, {5, kPut}}, "", "l"), "+-");
}

TEST(VersionFilterTest, KeepsTheNewestAtOrBelowEachSnapshot) {
  VersionFilter filter({3, 5, 8}, 100, false, 0);
  EXPECT_EQ(
      Ask(&filter, {{10, kPut}, {9, kPut}, {8, kPut}, {7, kPut}, {6, kPut}, {4, kPut}, {2, kPut}, {1, kPut}}),
      "+-+--++-");
}

TEST(VersionFilterTest, DropsATombstoneAndWhatItHidesAtTheBottom) {
  VersionFilter filter({}, 9, true, 0);
  EXPECT_EQ(Ask(&filter, {{9, kDelete}, {5, kPut}, {1, kDelete}}), "---");
}

TEST(VersionFilterTest, KeepsATombstoneAboveTheFloor) {
  VersionFilter filter({}, 8, true, 0);
  EXPECT_EQ(Ask(&filter, {{9, kDelete}, {5, kPut}}), "+-");
}

TEST(VersionFilterTest, KeepsATombstoneThatIsNotAtTheBottom) {
  VersionFilter filter({}, 100, false, 0);
  EXPECT_EQ(Ask(&filter, {{9, kDelete}, {5, kPut}}), "+-");
}

TEST(VersionFilterTest, KeepsATombstoneThatHidesWhatASnapshotNeeds) {
  VersionFilter filter({6}, 100, true, 0);
  EXPECT_EQ(Ask(&filter, {{9, kDelete}, {5, kPut}, {3, kPut}}), "++-");
}

TEST(VersionFilterTest, DropsATombstoneInTheOldestStripe) {
  VersionFilter filter({6}, 100, true, 0);
  EXPECT_EQ(Ask(&filter, {{9, kPut}, {5, kDelete}, {3, kPut}}), "+--");
}

TEST(VersionFilterTest, AnExpiredEntryGoesAsATombstoneWould) {
  const std::string value = TtlValue(1000);
  EXPECT_EQ(VersionFilter({}, 100, true, 1000).Keep({"k", 9, kPutTtl}, value), false);
  EXPECT_EQ(VersionFilter({}, 100, true, 999).Keep({"k", 9, kPutTtl}, value), true);
  EXPECT_EQ(VersionFilter({}, 8, true, 1000).Keep({"k", 9, kPutTtl}, value), true);
  EXPECT_EQ(VersionFilter({}, 100, false, 1000).Keep({"k", 9, kPutTtl}, value), true);
  EXPECT_EQ(VersionFilter({6}, 100, true, 1000).Keep({"k", 9, kPutTtl}, value), true);
}

TEST(VersionFilterTest, TellsTheLatestExpiryOfWhatItDropsForThat) {
  VersionFilter filter({}, 100, true, 1000);
  EXPECT_FALSE(filter.Keep({"a", 9, kDelete}, ""));
  EXPECT_TRUE(filter.Keep({"b", 9, kPutTtl}, TtlValue(1001)));
  EXPECT_EQ(filter.expired_by_ms(), 0);
  EXPECT_FALSE(filter.Keep({"c", 9, kPutTtl}, TtlValue(900)));
  EXPECT_FALSE(filter.Keep({"d", 9, kPutTtl}, TtlValue(800)));
  EXPECT_FALSE(filter.Keep({"d", 8, kPutTtl}, TtlValue(950))) << "hidden by the one before";
  EXPECT_EQ(filter.expired_by_ms(), 900);
}

TEST(VersionFilterTest, AnExpiredNewestVersionStillHidesOlderOnes) {
  VersionFilter gone({}, 100, true, 1000), stays({}, 100, false, 1000);
  EXPECT_EQ(Ask(&gone, {{9, kPutTtl}, {5, kPutTtl}}, TtlValue(1000)), "--");
  EXPECT_EQ(Ask(&stays, {{9, kPutTtl}, {5, kPutTtl}}, TtlValue(1000)), "+-");
}

TEST(VersionFilterTest, ATtlValueTooShortToExpireIsKept) {
  EXPECT_TRUE(VersionFilter({}, 100, true, 1000).Keep({"k", 9, kPutTtl}, "short"));
}

TEST(VersionFilterTest, SnapshotsMayComeInAnyOrderAndTwice) {
  VersionFilter filter({8, 3, 8}, 100, false, 0);
  EXPECT_EQ(Ask(&filter, {{10, kPut}, {8, kPut}, {4, kPut}, {2, kPut}, {1, kPut}}), "++-+-");
}

struct RandomJob {
  CompactionJob job;
  Model entries;
  std::set<std::string> keys;
};

RandomJob MakeRandomJob(MemoryStorage* storage, Random* random) {
  RandomJob r;
  const size_t tables = 1 + random->Uniform(6);
  SequenceNumber seq = 1;
  for (size_t t = 0; t < tables; ++t) {
    Model model;
    for (uint64_t n = 1 + random->Uniform(150); n > 0; --n) {
      const std::string key = RandomKey(random);
      const uint64_t dice = random->Uniform(10);
      const ValueType type = dice < 3 ? kDelete : dice < 5 ? kPutTtl : kPut;
      const std::string value = type == kDelete ? ""
                                : type == kPut  ? RandomValue(random)
                                                : TtlValue(random->Uniform(2000), RandomValue(random));
      model[InternalKey(key, ++seq, type)] = value;
      r.keys.insert(key);
    }
    // Some records are in two tables, with the same bytes.
    for (const auto& [key, value] : r.entries) {
      if (random->OneIn(20)) model.emplace(key, value);
    }
    r.entries.insert(model.begin(), model.end());
    r.job.inputs.push_back(storage->Put(model, RandomOptions(random), {t + 1, 0}));
  }
  for (uint64_t n = random->Uniform(4); n > 0; --n) r.job.snapshots.push_back(random->Uniform(seq + 10));
  std::sort(r.job.snapshots.begin(), r.job.snapshots.end());
  r.job.floor = random->OneIn(2) ? seq : random->Uniform(seq);
  r.job.bottom = random->OneIn(2);
  r.job.now_ms = 1000;
  r.job.output_uuids = OutputIds(2000);
  r.job.max_table_size_bytes = random->OneIn(3) ? 0 : 1 + random->Uniform(20000);
  for (uint64_t n = random->Uniform(4); n > 0; --n) r.job.cut_points.push_back(RandomKey(random));
  std::sort(r.job.cut_points.begin(), r.job.cut_points.end());
  r.job.table_options = RandomOptions(random);
  return r;
}

TEST(RunCompactionTest, KeepsWhatTheRuleSaysUnderRandomJobs) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    MemoryStorage storage;
    const RandomJob r = MakeRandomJob(&storage, &random);
    auto result = RunCompaction(r.job, &storage, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    Model outputs;
    std::string last_key;
    uint64_t written = 0;
    for (size_t i = 0; i < result->outputs.size(); ++i) {
      const TableInfo& info = result->outputs[i];
      EXPECT_EQ(info.uuid, r.job.output_uuids[i]);
      EXPECT_FALSE(info.fragments.empty());
      written += info.data_size + info.metadata_size;
      const Model contents = storage.Contents(info);
      ASSERT_FALSE(contents.empty());
      if (i > 0) {
        EXPECT_LT(last_key, StoredKeyOf(contents.begin()->first)) << "a key in two outputs";
      }
      last_key = StoredKeyOf(contents.rbegin()->first);
      for (const std::string& cut : r.job.cut_points) {
        EXPECT_EQ(StoredKeyOf(contents.begin()->first) < cut, last_key < cut)
            << "an output goes over a cut point";
      }
      outputs.insert(contents.begin(), contents.end());
    }
    ASSERT_EQ(outputs, Kept(r.entries, r.job));
    EXPECT_EQ(result->bytes_written, written);
    EXPECT_EQ(result->entries_in, r.entries.size());
    EXPECT_EQ(result->entries_dropped, r.entries.size() - outputs.size());
    EXPECT_GT(result->bytes_read, 0u);
    if (!r.job.bottom) continue;
    // Nothing older lies outside, so every reader sees what it saw before.
    for (const std::string& key : r.keys) {
      for (SequenceNumber view : r.job.snapshots) {
        ASSERT_EQ(Visible(outputs, key, view, r.job.now_ms), Visible(r.entries, key, view, r.job.now_ms));
      }
      ASSERT_EQ(Visible(outputs, key, kMaxSequenceNumber, r.job.now_ms),
                Visible(r.entries, key, kMaxSequenceNumber, r.job.now_ms));
    }
  }
}

// A million small steps in one place: tables that follow one another, read in large pieces.
TEST(RunCompactionTest, ReadsInLargePiecesAndEachByteAboutOnce) {
  MemoryStorage storage;
  CompactionJob job;
  uint64_t total = 0;
  for (uint64_t t = 0; t < 3; ++t) {
    Model model;
    for (int i = 0; i < 3000; ++i)
      model[InternalKey(absl::StrCat("t", t, "key", 10000 + i), 5)] = std::string(1000, 'v');
    job.inputs.push_back(storage.Put(model, {}, {t + 1, 0}));
    total += job.inputs.back().data_size;
  }
  job.output_uuids = OutputIds(100);
  job.max_table_size_bytes = 1 << 20;
  auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->bytes_read, total);
  EXPECT_LE(storage.reads, 3 * 4);
  EXPECT_LE(storage.largest_read, size_t{1} << 20);
  EXPECT_EQ(result->outputs.size(), 9u);
  for (const TableInfo& info : result->outputs) EXPECT_LE(info.data_size, (1u << 20) + 2000);
}

// Of inputs that are read side by side each gets a part of what a job may read ahead; of those that follow
// one another one has all of it.
TEST(RunCompactionTest, ReadsLessAheadOfEachOfManyInputs) {
  for (const bool side_by_side : {true, false}) {
    MemoryStorage storage;
    CompactionJob job;
    uint64_t total = 0;
    for (uint64_t t = 0; t < 40; ++t) {
      Model model;
      for (int i = 0; i < 1500; ++i) {
        const std::string key =
            side_by_side ? StrCat("key", 10000 + i, t) : StrCat("t", 10 + t, "key", 10000 + i);
        model[InternalKey(key, 5)] = std::string(1000, 'v');
      }
      job.inputs.push_back(storage.Put(model, {}, {t + 1, 0}));
      total += job.inputs.back().data_size;
    }
    job.output_uuids = OutputIds(100);
    job.max_table_size_bytes = 8 << 20;
    const auto result = RunCompaction(job, &storage, nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->bytes_read, total);
    const size_t most = side_by_side ? (size_t{16} << 20) / 40 : size_t{1} << 20;
    EXPECT_LE(storage.largest_read, most);
    EXPECT_GT(storage.largest_read, most / 10 * 9);
  }
}

// A reader lives as long as its table, and the copies of that may all have moved since (rebuild, S5).
TEST(RunCompactionTest, S5ReadsWhereTheCopiesAreNow) {
  MemoryStorage storage;
  storage.moved_to = StocId(9);
  CompactionJob job;
  job.inputs.push_back(storage.Put({{InternalKey("key", 5), "value"}}, {}, {1, 0}));
  job.output_uuids = OutputIds(2);
  const auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs.size(), 1u);
}

TEST(RunCompactionTest, AnOutputIsCutOnlyBetweenKeys) {
  MemoryStorage storage;
  Model model;
  CompactionJob job;
  for (SequenceNumber s = 1; s <= 200; ++s) {
    model[InternalKey("hot", s)] = std::string(100, 'h');
    job.snapshots.push_back(s);
  }
  model[InternalKey("cold", 1)] = "c";
  model[InternalKey("warm", 1)] = "w";
  job.inputs = {storage.Put(model, {}, {1, 0})};
  job.output_uuids = OutputIds(10);
  job.max_table_size_bytes = 1;
  auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 3u);
  EXPECT_EQ(result->outputs[1].entries, 200u);
}

// Inputs that were compressed well give more outputs than were foreseen; then cuts are advice.
TEST(RunCompactionTest, TheLastReservedIdTakesAllThatIsLeft) {
  MemoryStorage storage;
  Model model;
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) model[InternalKey(key, 1)] = key;
  CompactionJob job;
  job.inputs = {storage.Put(model, {}, {1, 0})};
  job.output_uuids = OutputIds(3);
  job.max_table_size_bytes = 1;
  job.cut_points = {"d", "f"};
  auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 3u);
  EXPECT_EQ(result->outputs[2].entries, 4u);
}

TEST(RunCompactionTest, HonoursUseBounds) {
  MemoryStorage storage;
  const Model model = {{InternalKey("a", 1), "1"}, {InternalKey("b", 1), "2"}, {InternalKey("c", 1), "3"}};
  CompactionJob job;
  job.inputs = {storage.Put(model, {}, {1, 0}, "b", "c")};
  job.output_uuids = OutputIds(1);
  auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 1u);
  EXPECT_EQ(storage.Contents(result->outputs[0]), (Model{{InternalKey("b", 1), "2"}}));
}

TEST(RunCompactionTest, WhatIsAllDroppedGivesNoOutput) {
  MemoryStorage storage;
  CompactionJob job;
  job.inputs = {storage.Put({{InternalKey("a", 2, kDelete), ""}, {InternalKey("a", 1), "x"}}, {}, {1, 0})};
  job.floor = 5;
  job.bottom = true;
  auto result = RunCompaction(job, &storage, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->outputs.empty());
  EXPECT_EQ(result->entries_dropped, 2u);
  EXPECT_TRUE(RunCompaction(CompactionJob(), &storage, nullptr).ok());
}

class RunCompactionErrorTest : public ::testing::Test {
 protected:
  RunCompactionErrorTest() {
    Model model;
    for (int i = 0; i < 500; ++i)
      model[InternalKey(absl::StrCat("key", 1000 + i), 5)] = std::string(100, 'v');
    job_.inputs = {storage_.Put(model, {.block_size_bytes = 500}, {1, 0})};
    job_.output_uuids = OutputIds(100);
    job_.max_table_size_bytes = 5000;
  }
  absl::StatusCode Run(const std::function<bool()>& cancelled = nullptr) {
    return RunCompaction(job_, &storage_, cancelled).status().code();
  }

  MemoryStorage storage_;
  CompactionJob job_;
};

TEST_F(RunCompactionErrorTest, FineAsItIs) { EXPECT_EQ(Run(), absl::StatusCode::kOk); }

TEST_F(RunCompactionErrorTest, WithoutAReservedIdItIsInternal) {
  job_.output_uuids.clear();
  EXPECT_EQ(Run(), absl::StatusCode::kInternal);
}

TEST_F(RunCompactionErrorTest, TheLastReservedIdTakesWhatIsLeft) {
  job_.output_uuids = OutputIds(2);
  const auto result = RunCompaction(job_, &storage_, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 2u);
  EXPECT_EQ(result->outputs[0].entries + result->outputs[1].entries, 500u);
  EXPECT_GT(result->outputs[1].data_size, 5 * result->outputs[0].data_size);
}

TEST_F(RunCompactionErrorTest, IsCancelledBetweenBlocks) {
  int asked = 0;
  EXPECT_EQ(Run([&] { return ++asked > 20; }), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 21);
  EXPECT_EQ(Run([] { return true; }), absl::StatusCode::kCancelled);
}

TEST_F(RunCompactionErrorTest, GivesUpAtItsDeadline) {
  job_.deadline_ns = Now() - 1;
  EXPECT_EQ(Run(), absl::StatusCode::kDeadlineExceeded);
  job_.deadline_ns = Now() + 600 * kSecond;
  EXPECT_EQ(Run(), absl::StatusCode::kOk);
}

TEST_F(RunCompactionErrorTest, ErrorsOfSourceAndSinkComeBack) {
  storage_.fail_read = absl::UnavailableError("stoc down");
  EXPECT_EQ(Run(), absl::StatusCode::kUnavailable);
  storage_.fail_read = OkStatus();
  storage_.fail_write = absl::ResourceExhaustedError("full");
  EXPECT_EQ(Run(), absl::StatusCode::kResourceExhausted);
  job_.inputs[0].uuid = {99, 99};
  EXPECT_EQ(Run(), absl::StatusCode::kNotFound);
}

TEST_F(RunCompactionErrorTest, ABitFlipOrAShortReadIsDataLoss) {
  storage_.short_reads = true;
  EXPECT_EQ(Run(), absl::StatusCode::kDataLoss);
  storage_.short_reads = false;
  std::string* data = storage_.data({1, 0});
  (*data)[data->size() / 2] ^= 4;
  EXPECT_EQ(Run(), absl::StatusCode::kDataLoss);
}

TEST_F(RunCompactionErrorTest, JobsThatMakeNoSenseAreRefused) {
  CompactionJob job = job_;
  job.cut_points = {"b", "a"};
  EXPECT_EQ(RunCompaction(job, &storage_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  job = job_;
  job.inputs[0].smallest = "";
  EXPECT_EQ(RunCompaction(job, &storage_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
}

// The manifest says that two tables follow one another; their keys say otherwise.
TEST_F(RunCompactionErrorTest, InputsThatAreNotInOrderAreDataLoss) {
  job_.inputs.push_back(storage_.Put({{InternalKey("key1100", 9), ""}}, {}, {2, 0}));
  job_.inputs[0].largest = InternalKey("key1050", 1);
  EXPECT_EQ(Run(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace nova
