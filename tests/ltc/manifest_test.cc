#include "ltc/engine/manifest.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/sstable/compaction_job.h"
#include "ltc/engine/compaction_picker.h"

namespace nova {
namespace {

TableInfo Table(uint64_t n, const std::string& from, const std::string& to) {
  TableInfo t;
  t.uuid = {n, n};
  t.data_size = 100 * n;
  t.metadata_size = 10;
  AppendInternalKey(&t.smallest, from, 9, ValueType::kPut);
  AppendInternalKey(&t.largest, to, 3, ValueType::kPut);
  t.fragments = {{0, 100 * n, {StocId(1), StocId(2)}}};
  t.metadata_stocs = {StocId(3)};
  return t;
}

VersionEdit SampleEdit() {
  VersionEdit e;
  e.adds.push_back({0, 42, Table(1, "a", "f"), nullptr});
  e.drops.push_back({7, 8});
  e.done = {MemTableId(5), MemTableId(300)};
  e.done_below = MemTableId(4);
  e.seq_reserved = 1000;
  return e;
}

TEST(VersionEditTest, GoldenBytes) {
  VersionEdit e;
  e.drops.push_back({0x0102030405060708, 0x1112131415161718});
  e.done = {MemTableId(300)};
  e.done_below = MemTableId(4);
  e.seq_reserved = 1000;
  EXPECT_EQ(absl::BytesToHexString(e.Encode()),
            "01"                                  // format
            "0208070605040302011817161514131211"  // drop
            "03ac02"                              // done
            "0404"                                // done below
            "05e807"                              // sequence reserved
            "00");
}

TEST(VersionEditTest, DecodesWhatItEncodedAndRefusesEveryPrefix) {
  const std::string bytes = SampleEdit().Encode();
  const auto back = VersionEdit::Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->Encode(), bytes);
  EXPECT_EQ(back->adds[0].order, 42u);
  EXPECT_EQ(back->adds[0].table, SampleEdit().adds[0].table);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(VersionEdit::Decode(std::string_view(bytes).substr(0, n)).ok()) << n;
  EXPECT_FALSE(VersionEdit::Decode(bytes + "x").ok());
}

// M2. An edit without checkpoints is byte for byte what it was before there were any: see GoldenBytes above.
TEST(VersionEditTest, CheckpointsGoldenBytesAndRefusals) {
  VersionEdit e;
  e.pins.push_back({"ab", 300, 5, {{1, 0, {0x0102030405060708, 0x1112131415161718}}}});
  e.unpins.push_back("c");
  EXPECT_EQ(absl::BytesToHexString(e.Encode()),
            "01"
            // checkpoint ab, number 300, made at 5 ms, one table:
            "08"
            "026162"
            "ac02"
            "05"
            "01"
            "01"
            "00"
            "08070605040302011817161514131211"  // level 1, order 0
            "09"
            "0163"  // checkpoint c is deleted
            "00");
  e.held.push_back(Table(3, "a", "b"));
  const std::string bytes = e.Encode();
  const auto back = VersionEdit::Decode(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->Encode(), bytes);
  EXPECT_EQ(back->held[0], e.held[0]);
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(VersionEdit::Decode(std::string_view(bytes).substr(0, n)).ok()) << n;
  e.pins[0].name = "../x";
  EXPECT_FALSE(VersionEdit::Decode(e.Encode()).ok());
}

TEST(VersionEditTest, GoldenBytesOfTablesAndRangeDeletions) {
  const auto deletion = [](const char* begin, const char* end, SequenceNumber n) {
    return std::make_shared<const RangeTombstone>(RangeTombstone{begin, end, n});
  };
  VersionEdit e;
  e.adds.push_back({1, 42, Table(1, "a", "f"), nullptr});
  e.tombstones = {deletion("b", "c", 300)};
  e.dropped_tombstones = {7};
  e.held.push_back(Table(2, "g", "h"));
  e.pins.push_back({"p", 1, 2, {}, {deletion("d", "e", 5)}});
  e.now_ms = 300;
  std::string added, held;
  Table(1, "a", "f").AppendTo(&added);
  Table(2, "g", "h").AppendTo(&held);
  const auto hex = [](const std::string& bytes) { return absl::BytesToHexString(bytes); };
  EXPECT_EQ(hex(e.Encode()),
            "01"
            "01012a" +
                hex(added) +      // to level 1, order 42
                "0aac0201620163"  // [b, c) is deleted by number 300
                "0b07"            // deletion 7 goes
                "07" +
                hex(held) +     // of checkpoints only
                "080170010200"  // checkpoint p, number 1, made at 2 ms, no table,
                "0c0501640165"  // and its deletion
                "06ac02"        // now
                "00");
  EXPECT_EQ(VersionEdit::Decode(e.Encode())->Encode(), e.Encode());
}

// Advice: an edit without a map is byte for byte what it was before there were any.
TEST(VersionEditTest, DrangesGoldenBytesAndADamagedMapIsIgnored) {
  VersionEdit e;
  e.dranges = DrangeMap({"b", "bcd"}, 300).Encode();
  EXPECT_EQ(absl::BytesToHexString(e.Encode()),
            "01"
            "0e0a"          // Dranges, 10 bytes
            "01ac02"        // format, generation 300
            "02"            // two cuts
            "016203626364"  // b, bcd
            "00");
  const auto back = VersionEdit::Decode(e.Encode());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->dranges, e.dranges);
  auto version = Version().Apply(*back, {});
  ASSERT_TRUE(version.ok()) << version.status();
  ASSERT_NE((*version)->dranges(), nullptr);
  EXPECT_EQ((*version)->dranges()->cuts(), (std::vector<std::string>{"b", "bcd"}));
  EXPECT_EQ((*version)->Snapshot().dranges, e.dranges);
  VersionEdit damaged;
  damaged.dranges = e.dranges.substr(0, 5);
  const DrangeMapRef before = (*version)->dranges();
  version = (*version)->Apply(*VersionEdit::Decode(damaged.Encode()), {});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ((*version)->dranges(), before);
  VersionEdit older;  // of a flush that ended before another and is committed behind it
  older.dranges = DrangeMap({"x"}, 299).Encode();
  EXPECT_EQ((*(*version)->Apply(older, {}))->dranges(), before);
  EXPECT_EQ((*version)->WithoutDranges()->Snapshot().dranges, "");
}

TEST(VersionTest, AColumnCountsEachRunOnceAndATableThatCrossesCutsInEachOfThem) {
  VersionEdit e;
  e.dranges = DrangeMap({"d", "g"}, 1).Encode();
  e.adds = {{0, 10, Table(1, "a", "b"), nullptr},
            {0, 10, Table(2, "c", "e"), nullptr},
            {0, 20, Table(3, "c", "h"), nullptr},
            {1, 0, Table(4, "a", "z"), nullptr}};
  const auto bytes = [&e](size_t i) { return UsedBytes(e.adds[i].table); };
  const auto version = Version().Apply(e, {});
  ASSERT_TRUE(version.ok()) << version.status();
  const auto& columns = (*version)->columns();
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_EQ(columns[0].runs, 2);
  EXPECT_EQ(columns[1].runs, 2);
  EXPECT_EQ(columns[2].runs, 1);
  EXPECT_EQ(columns[0].bytes, bytes(0) + bytes(1) / 2 + bytes(2) / 3);
  EXPECT_EQ(columns[2].bytes, bytes(2) / 3);
  EXPECT_EQ((*version)->WithoutDranges()->columns()[0].runs, 2);
}

TEST(ManifestTest, RecordBytesAreGolden) {
  VersionEdit e;
  e.seq_reserved = 1000;
  EXPECT_EQ(absl::BytesToHexString(Manifest::EncodeRecord({0x0102030405060708, 0x1112131415161718}, e)),
            "556d171c"  // crc of the file's uuid and all behind it
            "05000000"
            "0105e80700");
}

// A manifest of some records, as one file's bytes, and where each record ends.
struct SomeManifest {
  explicit SomeManifest(size_t records, size_t tables = 1) {
    for (size_t i = 0; i < records; ++i) {
      VersionEdit edit;
      edit.seq_reserved = i + 1;
      for (size_t t = 0; t < tables; ++t)
        edit.adds.push_back({0, i, Table(i * 100 + t + 1, "a", "f"), nullptr});
      bytes += Manifest::EncodeRecord(file, edit);
      ends.push_back(bytes.size());
    }
  }
  // The number of edits recovered; -1: loud.
  int Recover(const std::vector<std::string>& copies) const {
    std::vector<Manifest::Copy> all;
    for (const std::string& c : copies) all.push_back({StrCat("stoc ", all.size() + 1), c});
    const auto edits = Manifest::Recover(file, all);
    if (!edits.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(edits.status())) << edits.status();
      return -1;
    }
    for (size_t i = 0; i < edits->size(); ++i) EXPECT_EQ((*edits)[i].seq_reserved, i + 1);
    return static_cast<int>(edits->size());
  }
  std::string Flipped(size_t at) const {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    return damaged;
  }
  const Uuid file{1, 2};
  std::string bytes;
  std::vector<size_t> ends;
};

TEST(ManifestTest, M1ATornTailEndsTheValidPrefix) {
  const SomeManifest m(2, 30);                    // records of several sectors
  for (size_t n = 0; n <= m.bytes.size(); ++n) {  // cut short
    EXPECT_EQ(m.Recover({m.bytes.substr(0, n)}), n < m.ends[0] ? -1 : n < m.ends[1] ? 1 : 2) << n;
  }
  // Sectors of the second record that were not written read as zeros; the disk's sectors lie anywhere to it.
  ASSERT_GT(m.bytes.size() - m.ends[0], 3 * 512u);
  for (size_t from = m.ends[0]; from < m.bytes.size(); from += 97) {
    const size_t n = std::min<size_t>(512, m.bytes.size() - from);
    std::string torn = m.bytes;
    torn.replace(from, n, n, '\0');
    if (n < 8) continue;
    if (n == 512) {
      EXPECT_EQ(m.Recover({torn}), 1) << from;
    }
    torn.resize(from + n);
    EXPECT_EQ(m.Recover({torn}), 1) << from;
  }
  EXPECT_EQ(m.Recover({m.bytes + std::string(1000, '\0')}), 2);
}

TEST(ManifestTest, M1OfEachRecordTheCopyThatHasItIsTaken) {
  const SomeManifest m(6);
  const auto in_record = [&](size_t i) { return m.ends[i] - 20; };
  EXPECT_EQ(m.Recover({m.Flipped(in_record(2)), m.bytes}), 6);
  EXPECT_EQ(m.Recover({m.Flipped(in_record(1)), m.Flipped(in_record(3)), m.Flipped(in_record(5))}), 6);
  EXPECT_EQ(m.Recover({m.Flipped(in_record(0)), m.Flipped(in_record(5))}), 6);
  EXPECT_EQ(m.Recover({m.bytes.substr(0, 10), m.bytes.substr(0, m.ends[3]), m.bytes}), 6);
}

TEST(ManifestTest, M1DamageToWhatWasAcknowledgedIsLoud) {
  const SomeManifest m(6);
  for (size_t i = 0; i < m.bytes.size(); ++i) {
    EXPECT_EQ(m.Recover({m.Flipped(i)}), -1) << "the flip at " << i << " of one copy lost edits in silence";
    EXPECT_EQ(m.Recover({m.Flipped(i), m.Flipped(i), m.Flipped(i)}), -1) << i;
  }
  // A record behind the damaged one was acknowledged, whatever the others say.
  const std::string damaged = m.Flipped(m.ends[2] - 20);
  EXPECT_EQ(m.Recover({m.bytes.substr(0, m.ends[1]), damaged}), -1);
  EXPECT_EQ(m.Recover({damaged, m.bytes.substr(0, m.ends[2] - 30)}), -1);
  // Also where the record behind is torn.
  std::string two = damaged.substr(0, m.ends[3]);
  EXPECT_EQ(m.Recover({two.substr(0, m.ends[3] - 5)}), -1);
  // A copy that ends in order before the damaged last record shows that it was never acknowledged.
  const std::string last = m.Flipped(m.ends[5] - 20);
  EXPECT_EQ(m.Recover({last, m.bytes.substr(0, m.ends[4])}), 5);
  EXPECT_EQ(m.Recover({last, m.bytes.substr(0, m.ends[4] + 11)}), 5);
  const Status s = Manifest::Recover(m.file, {{"stoc 7 (seven)", damaged}}).status();
  for (const std::string& part :
       {m.file.ToString(), StrCat("offset ", m.ends[1]), std::string("stoc 7 (seven)")}) {
    EXPECT_NE(s.message().find(part), std::string::npos) << s;
  }
  EXPECT_FALSE(Manifest::Recover(Uuid{1, 3}, {{"", m.bytes}}).ok()) << "a record belongs to its file";
}

// Remembers files; fails appends on demand.
class FakeStorage : public ManifestStorage {
 public:
  StatusOr<ManifestGroup> Create(std::string_view first_record, const Uuid& file) override {
    if (!create_status.ok()) return create_status;
    files[file] = first_record;
    return ManifestGroup{file, {}};
  }
  Status Append(const ManifestGroup& group, uint64_t offset, std::string_view record) override {
    if (!append_status.ok()) return append_status;
    EXPECT_EQ(files[group.file].size(), offset);
    files[group.file].append(record);
    return OkStatus();
  }
  Status Install(const ManifestGroup& group) override {
    installed = group.file;
    return install_status;
  }
  void Delete(const ManifestGroup& group) override { files.erase(group.file); }

  std::map<Uuid, std::string> files;
  Uuid installed;
  Status append_status, create_status, install_status;
};

TEST(ManifestTest, AFailedMemberRollsToANewFileThatHoldsTheEdit) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start({}).ok());
  const Uuid first = manifest.group().file;
  VersionEdit edit;
  edit.seq_reserved = 5;
  storage.append_status = absl::UnavailableError("member down");
  VersionEdit snapshot;
  snapshot.seq_reserved = 5;
  ASSERT_TRUE(manifest.Append(edit, [&] { return snapshot; }).ok());
  EXPECT_NE(manifest.group().file, first);
  EXPECT_EQ(storage.installed, manifest.group().file);
  EXPECT_FALSE(storage.files.contains(first));
  EXPECT_EQ(
      Manifest::Recover(storage.installed, {{"", storage.files[storage.installed]}})->front().seq_reserved,
      5u);
}

TEST(ManifestTest, AFencedAppendDoesNotRoll) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start({}).ok());
  storage.append_status = absl::FailedPreconditionError("fenced");
  EXPECT_TRUE(absl::IsFailedPrecondition(manifest.Append({}, [] { return VersionEdit(); })));
  EXPECT_TRUE(storage.installed.IsNil()) << "M1: a fenced owner installs nothing";
}

TEST(ManifestTest, WhenTheRollFailsTooTheOldFileStaysTheOne) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start({}).ok());
  const Uuid first = manifest.group().file;
  storage.append_status = storage.create_status = absl::UnavailableError("down");
  EXPECT_FALSE(manifest.Append({}, [] { return VersionEdit(); }).ok());
  EXPECT_EQ(manifest.group().file, first);
  storage.append_status = OkStatus();
  EXPECT_TRUE(manifest.Append({}, [] { return VersionEdit(); }).ok());
}

// M1: the compare-and-set of the pointer may have happened though its answer was lost.
TEST(ManifestTest, AfterARollInDoubtNothingIsAcknowledgedInTheOldFile) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start({}).ok());
  const Uuid first = manifest.group().file;
  storage.append_status = storage.install_status = absl::UnavailableError("no answer");
  EXPECT_FALSE(manifest.Append({}, [] { return VersionEdit(); }).ok());
  storage.append_status = storage.install_status = OkStatus();
  VersionEdit edit;
  edit.seq_reserved = 7;
  ASSERT_TRUE(manifest.Append(edit, [&] { return edit; }).ok());
  EXPECT_NE(manifest.group().file, first);
  EXPECT_EQ(storage.installed, manifest.group().file) << "what was acknowledged is where recovery looks";
  ASSERT_TRUE(manifest.Append(edit, [&] { return edit; }).ok());
  EXPECT_EQ(storage.installed, manifest.group().file) << "and it rolls no further";
}

// However often the pointer cannot be changed, one file waits for it, and goes when another is installed.
TEST(ManifestTest, ARollInDoubtLeavesOneFile) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start({}).ok());
  storage.append_status = storage.install_status = absl::UnavailableError("no answer");
  for (int i = 0; i < 1'000; ++i) EXPECT_FALSE(manifest.Append({}, [] { return VersionEdit(); }).ok());
  EXPECT_EQ(storage.files.size(), 2u);
  // The doubt is settled, but for the next file there is no room: nothing is acknowledged in either of the
  // others.
  storage.install_status = OkStatus();
  storage.create_status = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(manifest.Append({}, [] { return VersionEdit(); }).ok());
  EXPECT_EQ(storage.files.size(), 1u);
  EXPECT_TRUE(storage.files.contains(storage.installed)) << "what recovery reads is there";
  storage.append_status = storage.create_status = OkStatus();
  VersionEdit edit;
  edit.seq_reserved = 7;
  ASSERT_TRUE(manifest.Append(edit, [&] { return edit; }).ok());
  EXPECT_EQ(storage.files.size(), 1u);
  EXPECT_EQ(storage.installed, manifest.group().file);
  EXPECT_EQ(
      Manifest::Recover(storage.installed, {{"", storage.files[storage.installed]}})->front().seq_reserved,
      7u);
}

VersionEdit Numbered(SequenceNumber n) {
  VersionEdit edit;
  edit.seq_reserved = n;
  return edit;
}
std::vector<SequenceNumber> NumbersIn(const FakeStorage& storage, const Uuid& file) {
  const auto edits = Manifest::Recover(file, {{"", storage.files.at(file)}});
  EXPECT_TRUE(edits.ok()) << edits.status();
  std::vector<SequenceNumber> numbers;
  if (!edits.ok()) return numbers;
  for (const VersionEdit& edit : *edits) numbers.push_back(edit.seq_reserved);
  return numbers;
}

// M1 (renewal): the new file has the snapshot and the edits that came since, and then is the only one.
TEST(ManifestTest, M1ARenewedFileHasTheEditsThatCameMeanwhile) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start(Numbered(1)).ok());
  const Uuid old = manifest.group().file;
  const auto renewal = manifest.BeginRenewal(Numbered(1));
  ASSERT_TRUE(renewal.ok());
  ASSERT_TRUE(manifest.Append(Numbered(2), [] { return Numbered(2); }).ok());
  const auto group = storage.Create(renewal->first_record, renewal->file);
  ASSERT_TRUE(manifest.Append(Numbered(3), [] { return Numbered(3); }).ok());
  EXPECT_EQ(manifest.group().file, old);
  ASSERT_TRUE(manifest.EndRenewal(*group).ok());
  EXPECT_EQ(manifest.group().file, renewal->file);
  EXPECT_EQ(storage.installed, renewal->file);
  ASSERT_TRUE(manifest.Append(Numbered(4), [] { return Numbered(4); }).ok());
  EXPECT_EQ(NumbersIn(storage, renewal->file), (std::vector<SequenceNumber>{1, 2, 3, 4}));
  EXPECT_EQ(storage.files.size(), 1u);
}

// What cannot be finished is taken back: the old file goes on, and the new one goes.
TEST(ManifestTest, M1ARenewalThatDoesNotSucceedIsTakenBack) {
  for (const bool at_install : {false, true}) {
    FakeStorage storage;
    Manifest manifest(&storage);
    ASSERT_TRUE(manifest.Start(Numbered(1)).ok());
    const Uuid old = manifest.group().file;
    const auto renewal = manifest.BeginRenewal(Numbered(1));
    const auto group = storage.Create(renewal->first_record, renewal->file);
    ASSERT_TRUE(manifest.Append(Numbered(2), [] { return Numbered(2); }).ok());
    (at_install ? storage.install_status : storage.append_status) = absl::CancelledError("no answer");
    EXPECT_FALSE(manifest.EndRenewal(*group).ok());
    storage.install_status = storage.append_status = OkStatus();
    storage.installed = {};
    ASSERT_TRUE(manifest.Append(Numbered(3), [] { return Numbered(3); }).ok());
    EXPECT_TRUE(storage.installed.IsNil()) << "nothing was in doubt";
    EXPECT_EQ(NumbersIn(storage, old), (std::vector<SequenceNumber>{1, 2, 3}));
    EXPECT_EQ(storage.files.size(), 1u);
  }
}

TEST(ManifestTest, M1ARollEndsARenewalThatHasBegun) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start(Numbered(1)).ok());
  const auto renewal = manifest.BeginRenewal(Numbered(1));
  const auto group = storage.Create(renewal->first_record, renewal->file);
  storage.append_status = absl::UnavailableError("member down");
  ASSERT_TRUE(manifest.Append(Numbered(2), [] { return Numbered(2); }).ok());
  storage.append_status = OkStatus();
  const Uuid rolled = manifest.group().file;
  EXPECT_TRUE(absl::IsAborted(manifest.EndRenewal(*group)));
  EXPECT_EQ(manifest.group().file, rolled);
  EXPECT_EQ(storage.installed, rolled);
  EXPECT_EQ(storage.files.size(), 1u);
}

// In doubt the new file is not deleted, and nothing counts in the old one.
TEST(ManifestTest, M1ARenewalInDoubtIsSettledBeforeAnEditCounts) {
  FakeStorage storage;
  Manifest manifest(&storage);
  ASSERT_TRUE(manifest.Start(Numbered(1)).ok());
  const auto renewal = manifest.BeginRenewal(Numbered(1));
  const auto group = storage.Create(renewal->first_record, renewal->file);
  storage.install_status = absl::UnavailableError("the session is over");
  EXPECT_FALSE(manifest.EndRenewal(*group).ok());
  EXPECT_TRUE(storage.files.contains(renewal->file));
  EXPECT_FALSE(manifest.BeginRenewal(Numbered(1)).ok());
  EXPECT_FALSE(manifest.Append(Numbered(2), [] { return Numbered(2); }).ok());
  storage.install_status = OkStatus();
  ASSERT_TRUE(manifest.Append(Numbered(3), [] { return Numbered(3); }).ok());
  EXPECT_EQ(storage.installed, manifest.group().file);
  EXPECT_EQ(storage.files.size(), 1u);
}

TableInfo Used(TableInfo t, const std::string& from, const std::string& to, uint64_t bytes) {
  t.use_from = from;
  t.use_to = to;
  SetUsedBytes(bytes, &t);
  return t;
}

// M4: a version is made of what is used of its tables.
TEST(VersionTest, UseBoundsAreTheTablesEnds) {
  VersionEdit e;
  e.adds.push_back({1, 0, Used(Table(1, "a", "k"), "", "f", 10), nullptr});
  e.adds.push_back({1, 0, Table(2, "f", "g"), nullptr});
  e.adds.push_back({1, 0, Used(Table(3, "a", "z"), "m", "", 30), nullptr});
  const auto decoded = VersionEdit::Decode(e.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto v = Version().Apply(*decoded, {});
  ASSERT_TRUE(v.ok()) << v.status();
  const nova::Run& run = (*v)->runs()[0];
  const auto found = [&](std::string_view key) {
    return run.Find(key) == nullptr ? 0 : run.Find(key)->info().uuid.hi;
  };
  EXPECT_EQ(found("e"), 1u);
  EXPECT_EQ(found("f"), 2u) << "an end is open";
  EXPECT_EQ(found("h"), 0u) << "table 1 reaches so far, but not for this range";
  EXPECT_EQ(found("l"), 0u);
  EXPECT_EQ(found("m"), 3u);
  EXPECT_EQ(run.FirstNotBefore("f"), 1u);
  EXPECT_EQ((*v)->TotalBytes(), 10u + 200u + 30u);
  EXPECT_FALSE((*v)->OverlapsDeeper(0, {"h", "m", /*open_end=*/true}));
  EXPECT_TRUE((*v)->OverlapsDeeper(0, {"h", "m"}));
  // A trivial move takes the bounds along; a manifest's snapshot has them.
  VersionEdit move;
  move.drops = {{1, 1}};
  move.adds.push_back({2, 0, run.tables[0]->info(), nullptr});
  const auto moved = (*v)->Apply(move, {});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ((*moved)->LevelRun(2)->Find("h"), nullptr);
  const auto again = Version().Apply(VersionEdit::Decode((*moved)->Snapshot().Encode()).value(), {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->LevelRun(2)->tables[0]->info().use_to, "f");
}

TEST(VersionTest, EditsWithBoundsThatCannotBeAreRefused) {
  VersionEdit e;
  e.adds.push_back({1, 0, Used(Table(1, "a", "k"), "", "f", 10), nullptr});
  const auto v = Version().Apply(e, {});
  ASSERT_TRUE(v.ok()) << v.status();
  VersionEdit other;  // one handle of a table, one part of it that is used
  other.drops = {{1, 1}};
  other.adds.push_back({1, 0, Table(1, "a", "k"), nullptr});
  EXPECT_TRUE(absl::IsDataLoss((*v)->Apply(other, {}).status()));
  for (const auto& [from, to] :
       {std::pair("l", ""), std::pair("", "a"), std::pair("f", "f"), std::pair("g", "f")}) {
    VersionEdit nothing;
    nothing.adds.push_back({1, 0, Used(Table(1, "a", "k"), from, to, 10), nullptr});
    EXPECT_TRUE(absl::IsDataLoss(VersionEdit::Decode(nothing.Encode()).status())) << from << " " << to;
  }
}

// K7: a table whose used part is hidden is hidden; what lies outside need not be covered.
TEST(VersionTest, RangeTombstonesOverTheUsedPartHideTheTable) {
  const auto tombstone = std::make_shared<const RangeTombstone>(RangeTombstone{"c", "f", 20});
  const auto list = RangeTombstones::Of({tombstone});
  TableInfo t = Table(1, "a", "k");
  t.max_sequence = 9;
  EXPECT_FALSE(IsHidden(t, *list, 20));
  EXPECT_TRUE(IsHidden(Used(t, "c", "f", 10), *list, 20));
  EXPECT_FALSE(IsHidden(Used(t, "c", "g", 10), *list, 20));
  EXPECT_FALSE(MayHoldHidden(Used(t, "f", "", 10), *list, 20));
  EXPECT_TRUE(MayHoldHidden(Used(t, "e", "", 10), *list, 20));
  VersionEdit e;
  e.adds.push_back({1, 0, Used(t, "f", "", 10), nullptr});
  e.tombstones = {tombstone};
  EXPECT_EQ((*Version().Apply(e, {}))->NeedlessTombstones({}), (std::vector<SequenceNumber>{20}));
}

TEST(VersionTest, RunsAreOrderedAndOverlapsRefused) {
  Version empty;
  VersionEdit e;
  e.adds.push_back({1, 0, Table(1, "a", "c"), nullptr});
  e.adds.push_back({0, 10, Table(2, "a", "z"), nullptr});
  e.adds.push_back({0, 20, Table(3, "b", "d"), nullptr});
  const auto v = empty.Apply(e, {});
  ASSERT_TRUE(v.ok()) << v.status();
  ASSERT_EQ((*v)->runs().size(), 3u);
  EXPECT_EQ((*v)->runs()[0].order, 20u) << "Level0: youngest round first";
  EXPECT_EQ((*v)->runs()[2].level, 1);
  EXPECT_TRUE((*v)->OverlapsDeeper(0, {"b", "b"}));
  EXPECT_FALSE((*v)->OverlapsDeeper(0, {"d", "z"}));
  VersionEdit overlap;
  overlap.adds.push_back({1, 0, Table(4, "c", "e"), nullptr});
  EXPECT_FALSE((*v)->Apply(overlap, {}).ok());
  VersionEdit unknown_drop;
  unknown_drop.drops.push_back({9, 9});
  EXPECT_FALSE((*v)->Apply(unknown_drop, {}).ok());
}

TEST(VersionTest, M2ASnapshotRecordHasTheCheckpointsAndTheirTables) {
  VersionEdit first;
  first.adds.push_back({0, 10, Table(1, "a", "c"), nullptr});
  first.adds.push_back({1, 0, Table(2, "a", "z"), nullptr});
  auto v = *Version().Apply(first, {});
  VersionEdit pin;
  pin.pins.push_back(v->PinRuns("p", 42, 7));
  v = *v->Apply(pin, {});
  VersionEdit compacted;
  compacted.drops = {{1, 1}};
  compacted.adds.push_back({1, 0, Table(3, "zz", "zzz"), nullptr});
  v = *v->Apply(compacted, {});
  const VersionEdit snapshot = *VersionEdit::Decode(v->Snapshot().Encode());
  ASSERT_EQ(snapshot.held.size(), 1u) << "the one that only the checkpoint has";
  const auto again = *Version().Apply(snapshot, {});
  EXPECT_EQ(again->Snapshot().Encode(), v->Snapshot().Encode());
  const CheckpointRef p = again->FindCheckpoint("p");
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->sequence, 42u);
  ASSERT_EQ(p->runs.size(), 2u);
  EXPECT_EQ(p->runs[0].order, 10u);
  EXPECT_EQ(p->runs[1].tables[0], again->runs()[0].tables[0]) << "one handle";
  VersionEdit bad;
  bad.pins.push_back({"q", 1, 1, {{0, 1, {9, 9}}}});
  EXPECT_FALSE(again->Apply(bad, {}).ok());
  bad = {};
  bad.unpins = {"q"};
  EXPECT_FALSE(again->Apply(bad, {}).ok());
}

TEST(VersionTest, ATableGoesOnceItIsDroppedAndUnreferenced) {
  std::vector<Uuid> garbage;
  const GarbageSink sink = [&](const TableInfo& t) { garbage.push_back(t.uuid); };
  VersionEdit e;
  e.adds.push_back({1, 0, Table(1, "a", "c"), nullptr});
  auto v1 = *Version().Apply(e, sink);
  VersionEdit drop;
  drop.drops.push_back({1, 1});
  auto v2 = *v1->Apply(drop, sink);
  v1->runs()[0].tables[0]->MarkDropped();
  EXPECT_TRUE(garbage.empty()) << "a reader may still hold the older version";
  v1 = nullptr;
  EXPECT_EQ(garbage, std::vector<Uuid>({Uuid{1, 1}}));
}

}  // namespace
}  // namespace nova
