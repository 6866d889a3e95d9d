#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/base/clock.h"
#include "common/base/crc32c.h"
#include "common/base/disk.h"
#include "common/sstable/compression.h"
#include "common/sstable/filter.h"
#include "common/sstable/footer.h"
#include "common/sstable/table_builder.h"
#include "common/sstable/table_iterator.h"
#include "tests/ltc/directory.h"
#include "tests/sstable/sstable_test_util.h"

namespace nova {
namespace {

using Found = TableReader::Found;

struct GetResult {
  Found found = Found::kAbsent;
  SequenceNumber sequence = 0;
  ValueType type = ValueType::kPut;
  std::string value;
  int blocks = 0;
};

// A get as the engine does it.
GetResult Get(const TestTable& table, std::string_view key, SequenceNumber seq) {
  GetResult result;
  BlockHandle handle;
  if (!table.reader->MayContain(key, FilterHash(key)) || !table.reader->FindBlock(key, seq, &handle))
    return result;
  for (;;) {
    const BlockRef block = table.Block(handle);
    ++result.blocks;
    TableReader::Hit hit;
    result.found = table.reader->SearchBlock(block.data, key, seq, &hit);
    if (result.found == Found::kFound) {
      result.sequence = hit.sequence;
      result.type = hit.type;
      result.value = hit.value;
    }
    if (result.found != Found::kNextBlock) return result;
    if (!table.reader->FindNextBlock(handle, &handle)) {
      result.found = Found::kAbsent;
      return result;
    }
  }
}

Model SmallModel() {
  return {{InternalKey("apple", 9), "red"},
          {InternalKey("apple", 4), "green"},
          {InternalKey("apricot", 7, ValueType::kDelete), ""},
          {InternalKey("banana", 8), "yellow"},
          {InternalKey("cherry", 3), "dark"}};
}

TestTable SmallTable() {
  TableBuilder builder({.block_size_bytes = 80, .restart_interval = 2, .filter_bits_per_key = 10},
                       {0x0102030405060708, 9});
  for (const auto& [key, value] : SmallModel()) builder.Add(key, value);
  builder.SetProperty("made by", "test");
  TestTable table;
  table.output = builder.Finish();
  table.reader = *TableReader::Open(table.output.info, table.output.metadata);
  return table;
}

TEST(TableTest, BytesAreAsDocumented) {
  const TestTable table = SmallTable();
  EXPECT_EQ(ToHex(table.output.data),
            "000503"
            "6170706c65"
            "0109000000000000"
            "726564"  // apple@9
            "050005"
            "0104000000000000"
            "677265656e"  // apple@4
            "00000000"
            "01000000"
            "00"
            "7a123d3e"  // one restart point, no compression, crc
            "000700"
            "61707269636f74"
            "0007000000000000"  // apricot@7, a tombstone
            "000606"
            "62616e616e61"
            "0108000000000000"
            "79656c6c6f77"
            "00000000"
            "01000000"
            "00"
            "edf1feea"
            "000604"
            "636865727279"
            "0103000000000000"
            "6461726b"
            "00000000"
            "01000000"
            "00"
            "31018d15");
  // filter, one line
  EXPECT_EQ(ToHex(table.output.metadata),
            "0000000000088000000000000000000001002000000000000400000000100100"
            "0002280000400000100000100205000000000050000020000014000200400000"
            "06"  // six probes
            "000302"
            "617072"
            "0000000000000000"
            "0030"  // index: up to "apr" the first 48 bytes
            "000102"
            "63"
            "0000000000000000"
            "3036"  // up to "c" the next 54
            "000602"
            "636865727279"
            "0000000000000000"
            "6622"  // up to the end the last 34
            "00000000"
            "10000000"
            "1e000000"
            "03000000"
            "47"
            "01"
            "0807060504030201"
            "0900000000000000"  // properties: a TableInfo
            "8801"
            "00"
            "05"
            "0d"
            "6170706c65"
            "0109000000000000"
            "0e"
            "636865727279"
            "0103000000000000"
            "0309"
            "00"
            "00"
            "00"
            "00"
            "00"
            "01"
            "07"
            "6d616465206279"
            "04"
            "74657374"
            "0807060504030201"
            "0900000000000000"
            "8800000000000000"  // footer: uuid, data size
            "41000000"
            "41000000"
            "48000000"  // sizes of filter, index, properties
            "fff0ad60"
            "01000000"
            "4e535354");
}

TEST(TableTest, FooterIsAsDocumented) {
  const TestTable table = SmallTable();
  const std::string& m = table.output.metadata;
  EXPECT_EQ(m.substr(m.size() - 4), "NSST");
  EXPECT_EQ(DecodeFixed32(m.data() + m.size() - 8), 1u);
  EXPECT_EQ(DecodeFixed32(m.data() + m.size() - 12), Crc32c(std::string_view(m).substr(0, m.size() - 12)));
  EXPECT_EQ(DecodeFixed64(m.data() + m.size() - 48), 0x0102030405060708u);
  EXPECT_EQ(DecodeFixed64(m.data() + m.size() - 40), 9u);
  EXPECT_EQ(DecodeFixed64(m.data() + m.size() - 32), table.output.data.size());
}

TEST(TableTest, InfoTellsWhatIsInside) {
  const TestTable table = SmallTable();
  const TableInfo& info = table.output.info;
  EXPECT_EQ(info.entries, 5u);
  EXPECT_EQ(info.smallest, InternalKey("apple", 9));
  EXPECT_EQ(info.largest, InternalKey("cherry", 3));
  EXPECT_EQ(info.min_sequence, 3u);
  EXPECT_EQ(info.max_sequence, 9u);
  EXPECT_EQ(info.data_size, table.output.data.size());
  EXPECT_EQ(info.metadata_size, table.output.metadata.size());
  EXPECT_EQ(info.properties.at("made by"), "test");
  EXPECT_EQ(table.output.block_ends.back(), info.data_size);
  EXPECT_TRUE(info.fragments.empty());
  EXPECT_GT(table.reader->memory_bytes(), 0u);
}

TEST(TableTest, BlocksCoverTheDataInOrder) {
  Random random(5);
  const TestTable table = BuildTable(RandomModel(&random, 500), {.block_size_bytes = 512});
  std::vector<uint64_t> ends;
  uint64_t offset = 0;
  table.reader->ForEachBlock([&](const BlockHandle& h) {
    EXPECT_EQ(h.offset, offset);
    BlockHandle next;
    const bool has_next = table.reader->FindNextBlock(h, &next);
    EXPECT_EQ(has_next, h.offset + h.size < table.output.info.data_size);
    if (has_next) {
      EXPECT_EQ(next.offset, h.offset + h.size);
    }
    offset += h.size;
    ends.push_back(offset);
  });
  EXPECT_EQ(ends, table.output.block_ends);
}

// Keeps what it is given, step by step.
class KeepingSink : public TableSink {
 public:
  KeepingSink(size_t step_bytes, std::vector<std::string>* steps) : step_bytes_(step_bytes), steps_(steps) {}
  size_t step_bytes() const override { return step_bytes_; }
  void Append(std::string_view data) override { steps_->emplace_back(data); }

 private:
  const size_t step_bytes_;
  std::vector<std::string>* const steps_;
};

// Values that are larger than a step are among them, blocks that are compressed, and tables that end with a
// step.
TEST(TableTest, AStepBeginsAtAMultipleOfItsSizeAndASinkGetsWhatATableWithoutOneHas) {
  Random random(13);
  for (int round = 0; round < 100; ++round) {
    const TableOptions options = RandomOptions(&random);
    const Model model = RandomModel(&random, 1 + random.Uniform(200));
    const TestTable whole = BuildTable(model, options);
    const size_t step = random.OneIn(4) ? whole.output.data.size() : 1 + random.Uniform(5000);
    std::vector<std::string> steps;
    TableBuilder builder(options, {1, 2}, std::make_unique<KeepingSink>(step, &steps));
    for (const auto& [key, value] : model) builder.Add(key, value);
    const TableBuilder::Output output = builder.Finish();
    std::string data;
    for (const std::string& s : steps) {
      ASSERT_FALSE(s.empty());
      ASSERT_EQ(s.size() % step, 0U);
      data += s;
    }
    data += output.data;
    ASSERT_EQ(data, whole.output.data);
    ASSERT_EQ(output.metadata, whole.output.metadata);
    ASSERT_EQ(output.block_ends, whole.output.block_ends);
  }
}

TEST(TableTest, BlocksStayWithinTheirSizeUnlessOneEntryIsLarger) {
  for (size_t value_size : {10, 100, 1000, 3000, 5000}) {
    Model model;
    for (int i = 0; i < 300; ++i)
      model[InternalKey(absl::StrCat("user", 1000 + i), 1)] = std::string(value_size, 'v');
    const TestTable table = BuildTable(model);
    table.reader->ForEachBlock(
        [&](const BlockHandle& h) { EXPECT_LE(h.size, std::max<size_t>(4096, value_size + 64)); });
    const size_t fit = std::max<size_t>(4096 / (value_size + 30), 1);
    EXPECT_LE(table.output.block_ends.size(), 300 / fit + 1);
  }
}

TEST(TableTest, GetsAgreeWithAMapUnderRandomOptions) {
  Random random(6);
  for (int round = 0; round < 150; ++round) {
    const size_t n = 1 + random.Uniform(300);
    const Model model = RandomModel(&random, n);
    const TestTable table = BuildTable(model, RandomOptions(&random));
    for (int i = 0; i < 300; ++i) {
      std::string key = RandomKey(&random);
      if (random.OneIn(2)) {
        auto some = model.begin();
        std::advance(some, random.Uniform(model.size()));
        key = StoredKeyOf(some->first);
      }
      const SequenceNumber seq = random.OneIn(3) ? kMaxSequenceNumber : random.Uniform(10 * n);
      const auto* expected = ModelGet(model, key, seq);
      const GetResult got = Get(table, key, seq);
      ASSERT_EQ(got.found == Found::kFound, expected != nullptr);
      if (expected == nullptr) continue;
      EXPECT_EQ(InternalKey(key, got.sequence, got.type), expected->first);
      EXPECT_EQ(got.value, expected->second);
    }
  }
}

TEST(TableTest, AGetReadsOneBlock) {
  Random random(7);
  const Model model = RandomModel(&random, 400);
  const TestTable table = BuildTable(model, {.block_size_bytes = 256});
  for (const auto& [key, value] : model) {
    EXPECT_EQ(Get(table, StoredKeyOf(key), TrailerOf(key) >> 8).blocks, 1);
    EXPECT_EQ(Get(table, StoredKeyOf(key), kMaxSequenceNumber).blocks, 1);
  }
}

TEST(TableTest, VersionsOfAHotKeyGoOnInTheNextBlock) {
  Model model;
  for (SequenceNumber s = 1; s <= 100; ++s) model[InternalKey("hot", s)] = absl::StrCat("v", s);
  model[InternalKey("a", 1)] = "first";
  model[InternalKey("z", 1)] = "last";
  const TestTable table = BuildTable(model, {.block_size_bytes = 100});
  ASSERT_GT(table.output.block_ends.size(), 10u);
  for (SequenceNumber s = 1; s <= 100; ++s) EXPECT_EQ(Get(table, "hot", s).value, absl::StrCat("v", s));
  EXPECT_EQ(Get(table, "hot", 0).found, Found::kAbsent);

  // From a block found for the newest version, an older one is reached block by block.
  BlockHandle handle;
  ASSERT_TRUE(table.reader->FindBlock("hot", kMaxSequenceNumber, &handle));
  TableReader::Hit hit;
  int steps = 0;
  Found found;
  BlockRef block = table.Block(handle);
  while ((found = table.reader->SearchBlock(block.data, "hot", 50, &hit)) == Found::kNextBlock) {
    ++steps;
    ASSERT_TRUE(table.reader->FindNextBlock(handle, &handle));
    block = table.Block(handle);
  }
  EXPECT_EQ(found, Found::kFound);
  EXPECT_EQ(hit.value, "v50");
  EXPECT_GT(steps, 3);
}

TEST(TableTest, LargeKeysAndValuesComeBack) {
  Random random(8);
  std::string big(16 << 20, '\0');
  for (char& c : big) c = static_cast<char>(random.Next());
  const std::string long_key(kMaxUserKeyBytes, 'k');
  const Model model = {{InternalKey("a", 1), "small"},
                       {InternalKey("b", 1), big},
                       {InternalKey("c", 1), std::string(40000, 'c')},
                       {InternalKey(long_key, 1), "long"},
                       {InternalKey(long_key + "k", 1), "longer"},
                       {InternalKey("z", 1), ""}};
  const TestTable table = BuildTable(model);
  EXPECT_EQ(table.output.block_ends.size(), 6u);
  for (const auto& [key, value] : model) EXPECT_TRUE(Get(table, StoredKeyOf(key), 1).value == value);
}

TEST(TableTest, UseBoundsHideWhatLiesOutside) {
  const Model model = {{InternalKey("a", 1), "1"}, {InternalKey("b", 1), "2"}, {InternalKey("c", 1), "3"}};
  const TestTable table = BuildTable(model, {.block_size_bytes = 1}, {1, 2}, "b", "c");
  EXPECT_FALSE(table.reader->MayContain("a", FilterHash("a")));
  EXPECT_TRUE(table.reader->MayContain("b", FilterHash("b")));
  EXPECT_FALSE(table.reader->MayContain("c", FilterHash("c")));
  BlockHandle handle;
  EXPECT_FALSE(table.reader->FindBlock("a", 1, &handle));
  EXPECT_TRUE(table.reader->FindBlock("b", 1, &handle));
  EXPECT_FALSE(table.reader->FindBlock("c", 1, &handle));
}

// M4: what is read, measured and cut is what is used.
TEST(TableTest, BlocksAndCutsAreThoseOfTheUsedPart) {
  Model model;
  for (int i = 0; i < 100; ++i) model[InternalKey(absl::StrCat("key", 100 + i), 1)] = std::string(50, 'v');
  const TestTable table = BuildTable(model, {.block_size_bytes = 1}, {1, 2}, "key130", "key160");
  std::vector<BlockHandle> used;
  table.reader->ForEachUsedBlock([&](const BlockHandle& h) { used.push_back(h); });
  ASSERT_TRUE(used.size() == 30 || used.size() == 31) << used.size();
  BlockHandle first, last;
  ASSERT_TRUE(table.reader->FindBlock("key130", 1, &first) && table.reader->FindBlock("key159", 1, &last));
  EXPECT_EQ(used.front(), first);
  EXPECT_TRUE(std::find(used.begin(), used.end(), last) != used.end());
  const auto cuts = table.reader->SplitKeys(3);
  ASSERT_EQ(cuts.size(), 3u);
  EXPECT_LT(cuts[0], "key140");
  EXPECT_TRUE(cuts[1] > "key142" && cuts[1] < "key148") << cuts[1];
  EXPECT_GT(cuts[2], "key150");
  size_t all = 0;
  table.reader->ForEachBlock([&](const BlockHandle&) { ++all; });
  EXPECT_EQ(all, 100u) << "a scrub looks at all of it";

  const auto blocks_asked = [&](Direction direction, std::string_view seek) {
    size_t asked = 0;
    TableIterator it(
        table.reader, [&](const TableReader&, const BlockHandle& h) { return ++asked, table.Block(h); },
        TableIterator::Check::kOnce, direction);
    seek.empty() ? it.SeekToFirst() : it.Seek(MakeSeekKey(seek));
    while (it.Valid()) it.Next();
    return asked;
  };
  EXPECT_LE(blocks_asked(Direction::kForward, ""), 31u);
  EXPECT_LE(blocks_asked(Direction::kBackward, ""), 31u);
  EXPECT_EQ(blocks_asked(Direction::kForward, "key160"), 0u);
  EXPECT_EQ(blocks_asked(Direction::kForward, "key190"), 0u);
  EXPECT_EQ(blocks_asked(Direction::kBackward, "key130"), 0u);
}

// A table whose data is in a file, mapped, and not in memory.
class MappedTableTest : public testing::Test {
 protected:
  static constexpr uint64_t kPage = 4096;
  static constexpr int kEntries = 4000;

  static std::string KeyOf(int i) { return absl::StrCat("key", 10000 + i); }
  void SetUp() override {
    Model model;
    for (int i = 0; i < kEntries; ++i) model[InternalKey(KeyOf(i), 1)] = std::string(1000, 'v');
    table_ = BuildTable(model);
    const auto disk = *OpenPosixDisk(directory_.path());
    const auto file = *disk->Create("t");
    ASSERT_TRUE(file->Write(0, table_.output.data).ok() && file->Sync().ok());
    const int fd = open((directory_ / "t").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    bytes_ = *file->Map(table_.output.data.size());
    if (InMemory() > bytes_.data.size() / 10) GTEST_SKIP() << "this file system's pages stay in memory";
  }
  uint64_t InMemory() const {
    uint64_t n = 0;
    for (uint64_t at = 0; at < bytes_.data.size(); at += kPage)
      n += ResidentPrefix(bytes_.data.substr(at, 1)) == 0 ? 0 : kPage;
    return n;
  }
  std::shared_ptr<const TableReader> Open(bool cold) const {
    return *TableReader::Open(table_.output.info, table_.output.metadata, bytes_, cold);
  }

  const Directory directory_;
  TestTable table_;
  SharedBytes bytes_;
};

// A job reads each of its inputs once: the page cache is left to those who read again.
TEST_F(MappedTableTest, AJobLetsGoOfWhatItBroughtIntoMemoryAndOfNothingElse) {
  constexpr uint64_t kPiece = 256 << 10;
  const uint64_t size = bytes_.data.size();
  const auto reader = Open(/*cold=*/false);
  const auto read_all = [&] {
    TableIterator it(reader, nullptr, TableIterator::Check::kEach);
    it.ReadAll(kPiece);
    int entries = 0;
    uint64_t most = 0;
    for (it.SeekToFirst(); it.Valid(); it.Next())
      if (++entries % 100 == 0) most = std::max(most, InMemory());
    EXPECT_EQ(entries, kEntries);
    return most;
  };

  ASSERT_GT(size, 12 * kPiece);
  EXPECT_LE(read_all(), 6 * kPiece) << "while it reads";
  EXPECT_LE(InMemory(), size / 10) << "when it has read all";

  LoadMapped(bytes_.data);
  read_all();
  EXPECT_GE(InMemory(), size) << "what was there stays";
  ReleaseMapped(bytes_.data);
  EXPECT_LE(InMemory(), size / 10) << "what is let go of goes, but for pages just in use";
}

// Who will get several keys has all their blocks read at the same time.
TEST_F(MappedTableTest, ABlockThatIsAskedForComesIntoMemoryByItself) {
  const auto reader = Open(/*cold=*/true);
  EXPECT_TRUE(TableReader::AnyOnDisk());
  const auto ask = [&](const std::string& key) {
    return reader->PrefetchBlock(key, FilterHash(key), kMaxSequenceNumber);
  };
  const auto block_of = [&](const std::string& key) {
    BlockHandle handle;
    EXPECT_TRUE(reader->FindBlock(key, kMaxSequenceNumber, &handle));
    return bytes_.data.substr(handle.offset, handle.size);
  };
  EXPECT_FALSE(ask("another"));
  const uint64_t before = InMemory();
  constexpr int kAsked = 40;
  for (int i = 0; i < kAsked; ++i) EXPECT_TRUE(ask(KeyOf(i * kEntries / kAsked)));
  for (int i = 0; i < kAsked; ++i) {
    const std::string_view block = block_of(KeyOf(i * kEntries / kAsked));
    for (const Nanos until = Now() + 30 * kSecond; ResidentPrefix(block) < block.size() && Now() < until;)
      SleepFor(kMillisecond);
    EXPECT_EQ(ResidentPrefix(block), block.size());
  }
  EXPECT_LE(InMemory() - before, kAsked * 2 * kPage);

  reader->MarkWarm();
  const std::string other = KeyOf(kEntries / kAsked / 2);
  EXPECT_TRUE(ask(other));
  SleepFor(100 * kMillisecond);
  EXPECT_LT(ResidentPrefix(block_of(other)), block_of(other).size()) << "nothing is asked of the disk";
}

TEST(TableTest, MayContainWithoutAFilterKnowsTheKeyRange) {
  const TestTable table =
      BuildTable({{InternalKey("b", 1), ""}, {InternalKey("d", 1), ""}}, {.filter_bits_per_key = 0});
  EXPECT_FALSE(table.reader->MayContain("a", FilterHash("a")));
  EXPECT_TRUE(table.reader->MayContain("b", FilterHash("b")));
  EXPECT_TRUE(table.reader->MayContain("c", FilterHash("c")));
  EXPECT_TRUE(table.reader->MayContain("d", FilterHash("d")));
  EXPECT_FALSE(table.reader->MayContain("e", FilterHash("e")));
}

TEST(TableTest, OptionsOutOfRangeAreBroughtIntoIt) {
  for (const TableOptions& o :
       {TableOptions{0, 0, -1}, TableOptions{0, -5, 1000}, TableOptions{SIZE_MAX, INT32_MAX, 64}}) {
    const TestTable table = BuildTable(SmallModel(), o);
    EXPECT_EQ(Get(table, "apple", 5).value, "green");
  }
}

TEST(TableTest, ABlockFromElsewhereIsDataLoss) {
  Model model;
  for (int i = 0; i < 20; ++i) model[InternalKey(absl::StrCat("key", 10 + i), 1)] = "same size";
  const TestTable table = BuildTable(model, {.block_size_bytes = 1}, {1, 2});
  const TestTable twin = BuildTable(model, {.block_size_bytes = 1}, {1, 3});
  std::vector<BlockHandle> handles;
  table.reader->ForEachBlock([&](const BlockHandle& h) { handles.push_back(h); });
  ASSERT_EQ(handles[0].size, handles[1].size);
  EXPECT_EQ(table.reader->CheckBlock(handles[0], table.Raw(handles[1])).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(table.reader->CheckBlock(handles[0], twin.Raw(handles[0])).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(table.reader->CheckBlock(handles[0], "").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(TableReader::Open(table.output.info, twin.output.metadata).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(TableTest, UnknownCompressionIsDataLoss) {
  const TestTable table = BuildTable({{InternalKey("k", 1), "v"}}, {}, {0, 0});
  const BlockHandle handle{0, static_cast<uint32_t>(table.output.data.size())};
  std::string raw = table.output.data;
  raw[raw.size() - 5] = 3;
  const std::string place(24, '\0');
  EncodeFixed32(raw.data() + raw.size() - 4, Crc32c(place + raw.substr(0, raw.size() - 4)));
  const Status status = table.reader->CheckBlock(handle, raw).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("unknown compression"), absl::string_view::npos) << status;
}

TEST(TableTest, CompressedBlocksAreSmallerAndIncompressibleOnesAsTheyWere) {
  Random random(12);
  Model text, noise;
  for (int i = 0; i < 200; ++i) {
    text[InternalKey(StrCat("key", i), 7)] = std::string(200, static_cast<char>('a' + i % 26));
    std::string& value = noise[InternalKey(StrCat("key", i), 7)];
    for (int n = 0; n < 200; ++n) value.push_back(static_cast<char>(random.Next()));
  }
  const auto size = [](const Model& model, Compression compression) {
    TableOptions options;
    options.compression = compression;
    const TestTable table = BuildTable(model, options);
    for (const auto& [key, value] : model) {
      BlockHandle handle;
      TableReader::Hit hit;
      EXPECT_TRUE(table.reader->FindBlock(StoredKeyOf(key), kMaxSequenceNumber, &handle));
      const BlockRef block = table.Block(handle);
      EXPECT_EQ(table.reader->SearchBlock(block.data, StoredKeyOf(key), kMaxSequenceNumber, &hit),
                TableReader::Found::kFound);
      EXPECT_EQ(hit.value, value);
    }
    return table.output.data.size();
  };
  for (const Compression c : {Compression::kLz4, Compression::kZstd}) {
    EXPECT_LT(size(text, c), size(text, Compression::kNone) / 3);
    EXPECT_EQ(size(noise, c), size(noise, Compression::kNone));
  }
}

// The payload of a compressed block: what it was, then the codec's bytes.
TEST(TableTest, CompressedPayloadsAreAsDocumentedAndAnyOthersRefused) {
  const std::string raw(1'000, 'x');
  for (const Compression c : {Compression::kLz4, Compression::kZstd}) {
    std::string payload, back;
    ASSERT_TRUE(CompressBlock(c, raw, &payload));
    std::string_view in = payload;
    uint32_t size;
    ASSERT_TRUE(GetVarint32(&in, &size));
    EXPECT_EQ(size, 1'000u);
    ASSERT_TRUE(DecompressBlock(c, payload, &back));
    EXPECT_EQ(back, raw);
    for (size_t n = 0; n < payload.size(); ++n)
      EXPECT_FALSE(DecompressBlock(c, payload.substr(0, n), &back)) << n;
    std::string bomb;
    PutVarint32(&bomb, 1 << 30);
    EXPECT_FALSE(DecompressBlock(c, bomb + "abc", &back)) << "claims to grow beyond reason";
  }
  EXPECT_FALSE(ParseCompressionList("lz4,snappy").ok());
  EXPECT_EQ(*ParseCompressionList("none,lz4,zstd"),
            (std::vector{Compression::kNone, Compression::kLz4, Compression::kZstd}));
}

TEST(TableTest, EveryBitFlipInDataIsDataLoss) {
  const TestTable table = SmallTable();
  table.reader->ForEachBlock([&](const BlockHandle& h) {
    for (size_t bit = 0; bit < h.size * size_t{8}; ++bit) {
      std::string raw = table.Raw(h);
      raw[bit / 8] = static_cast<char>(raw[bit / 8] ^ (1 << bit % 8));
      ASSERT_EQ(table.reader->CheckBlock(h, raw).status().code(), absl::StatusCode::kDataLoss) << bit;
    }
  });
}

TEST(TableTest, EveryBitFlipInMetadataIsDataLoss) {
  const TestTable table = SmallTable();
  for (size_t bit = 0; bit < table.output.metadata.size() * 8; ++bit) {
    std::string m = table.output.metadata;
    m[bit / 8] = static_cast<char>(m[bit / 8] ^ (1 << bit % 8));
    ASSERT_EQ(TableReader::Open(table.output.info, m).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
}

TEST(TableTest, EveryTruncationOfMetadataIsDataLoss) {
  const TestTable table = SmallTable();
  for (size_t n = 0; n < table.output.metadata.size(); ++n) {
    const std::string front = table.output.metadata.substr(0, n), back = table.output.metadata.substr(n + 1);
    ASSERT_EQ(TableReader::Open(table.output.info, front).status().code(), absl::StatusCode::kDataLoss) << n;
    ASSERT_EQ(TableReader::Open(table.output.info, back).status().code(), absl::StatusCode::kDataLoss) << n;
  }
}

// A wrong writer's metadata has a right checksum: sections are changed and the footer's crc made to fit.
TEST(TableTest, MalformedMetadataWithARightChecksumNeverCrashes) {
  const TestTable table = SmallTable();
  Random random(9);
  for (int round = 0; round < 30000; ++round) {
    std::string m = table.output.metadata;
    for (uint64_t n = 1 + random.Uniform(3); n > 0; --n)
      m[random.Uniform(m.size() - 12)] = static_cast<char>(random.Next());
    EncodeFixed32(m.data() + m.size() - 12, Crc32c(std::string_view(m).substr(0, m.size() - 12)));
    auto reader = TableReader::Open(table.output.info, m);
    if (!reader.ok()) continue;
    BlockHandle handle;
    for (const char* key : {"", "apple", "b", "zzz"}) {
      (*reader)->MayContain(key, FilterHash(key));
      (*reader)->FindBlock(key, 5, &handle);
    }
    uint64_t total = 0;
    (*reader)->ForEachBlock([&](const BlockHandle& h) { total += h.size; });
    EXPECT_EQ(total, table.output.info.data_size);
  }
}

TEST(TableTest, AnUnorderedBlockIsNeverACrash) {
  Random random(10);
  const TestTable table = BuildTable(RandomModel(&random, 30), {.block_size_bytes = 100000}, {0, 0});
  TableReader::Hit hit;
  for (int round = 0; round < 10000; ++round) {
    std::string block = table.output.data.substr(0, table.output.data.size() - kBlockTrailerBytes);
    for (int n = 0; n < 3; ++n) block[random.Uniform(block.size())] = static_cast<char>(random.Next());
    table.reader->SearchBlock(block, RandomKey(&random), random.Uniform(300), &hit);
  }
}

TEST(CutFragmentsTest, FragmentsAreAboutEqualAndEndWithBlocks) {
  Random random(11);
  for (int round = 0; round < 1000; ++round) {
    std::vector<uint64_t> ends;
    uint64_t at = 0, largest = 0;
    for (uint64_t n = 1 + random.Uniform(100); n > 0; --n) {
      const uint64_t size = 1 + random.Uniform(1000);
      largest = std::max(largest, size);
      ends.push_back(at += size);
    }
    const size_t count = 1 + random.Uniform(12);
    const auto fragments = CutFragments(ends, count);
    const std::set<uint64_t> allowed(ends.begin(), ends.end());
    ASSERT_FALSE(fragments.empty());
    ASSERT_LE(fragments.size(), count);
    uint64_t offset = 0;
    for (const Fragment& f : fragments) {
      ASSERT_EQ(f.offset, offset);
      ASSERT_GT(f.size, 0u);
      ASSERT_TRUE(f.stocs.empty());
      offset += f.size;
      ASSERT_TRUE(allowed.contains(offset));
      ASSERT_LE(f.size, at / std::min(count, ends.size()) + 2 * largest);
    }
    ASSERT_EQ(offset, at);
  }
}

TEST(CutFragmentsTest, SmallCases) {
  EXPECT_TRUE(CutFragments({}, 3).empty());
  EXPECT_EQ(CutFragments({10}, 0), (std::vector<Fragment>{{0, 10, {}}}));
  EXPECT_EQ(CutFragments({10}, 3), (std::vector<Fragment>{{0, 10, {}}}));
  EXPECT_EQ(CutFragments({10, 20, 30, 40}, 2), (std::vector<Fragment>{{0, 20, {}}, {20, 20, {}}}));
  EXPECT_EQ(CutFragments({1, 100, 101}, 3), (std::vector<Fragment>{{0, 1, {}}, {1, 99, {}}, {100, 1, {}}}));
}

}  // namespace
}  // namespace nova
