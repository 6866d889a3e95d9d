// Opening an embedded database: what a creation that ended early leaves, what is missing, and what a long log
// costs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>

#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "common/base/thread.h"
#include "ltc/embedded/db.h"
#include "ltc/embedded/db_identity.h"
#include "ltc/engine/recovered_entries.h"
#include "tests/ltc/directory.h"

namespace nova {
namespace {

namespace fs = std::filesystem;

Status OpenWith(const std::string& path, bool create, Disk* disk = nullptr) {
  DbOptions options;
  options.memtable_bytes = 1 << 20;
  options.create_if_missing = create;
  options.disk = disk;
  return Db::Open(path, options).status();
}

// --- what is missing

TEST(DbOpenTest, AnIdentityAloneIsADatabaseThatLostTheRest) {
  Directory dir;
  ASSERT_TRUE(OpenWith(dir / "db", /*create=*/true).ok());
  for (const auto& entry : fs::directory_iterator(dir / "db")) {
    if (entry.path().filename() != "IDENTITY") fs::remove(entry.path());
  }
  for (const bool create : {false, true}) {
    const Status s = OpenWith(dir / "db", create);
    EXPECT_TRUE(absl::IsDataLoss(s)) << s;
    EXPECT_NE(s.message().find("CURRENT"), std::string::npos) << s;
  }
}

TEST(DbOpenTest, IdentityAndCurrentAreGolden) {
  SimDisk medium;
  const auto disk = medium.Mount();
  const auto text = [&disk](const std::string& name) {
    const auto file = disk->Open(name, /*writable=*/false);
    EXPECT_TRUE(file.ok()) << file.status();
    std::string bytes(*(*file)->Size(), '\0');
    EXPECT_TRUE((*file)->Read(0, bytes.size(), bytes.data()).ok());
    return bytes;
  };
  ASSERT_TRUE(WriteDbIdentity(disk.get(), "identity", Epoch(17)).ok());
  EXPECT_EQ(text("identity"), "nova database, format 1, epoch 17, crc32c a618ed7f\n");
  ASSERT_TRUE(disk->Delete("identity").ok());
  ASSERT_TRUE(OpenWith("", /*create=*/true, disk.get()).ok());
  Uuid manifest;
  ASSERT_TRUE(Uuid::Parse(text("CURRENT"), &manifest)) << "32 hex digits, and no more";
  EXPECT_FALSE(text("manifest-" + manifest.ToString()).empty());
}

TEST(DbOpenTest, WithoutCreateIfMissingNothingIsMade) {
  Directory dir;
  EXPECT_TRUE(absl::IsNotFound(OpenWith(dir / "db", /*create=*/false)));
  EXPECT_FALSE(fs::exists(dir / "db"));
  ASSERT_TRUE(OpenWith(dir / "db", /*create=*/true).ok());
  EXPECT_TRUE(OpenWith(dir / "db", /*create=*/false).ok());
}

// Whatever call of the disk fails while it is made, the next opening makes it.
TEST(DbOpenTest, ACreationThatFailedIsBegunAgain) {
  int failed = 0;
  for (const DiskOp op :
       {DiskOp::kCreate, DiskOp::kWrite, DiskOp::kSync, DiskOp::kRename, DiskOp::kSyncDirectory}) {
    for (uint64_t nth = 1; nth < 50; ++nth) {
      Directory dir;
      auto posix = *OpenPosixDisk(dir.path());
      FaultDisk disk(posix.get());
      disk.Add({"", op, FaultAction::kNoSpace, nth, 1});
      if (OpenWith("", /*create=*/true, &disk).ok()) break;
      posix.reset();  // and its lock
      ++failed;
      const bool whole = fs::exists(dir / "IDENTITY");  // only its durability is not known
      EXPECT_EQ(OpenWith(dir.path(), /*create=*/false).code(),
                whole ? absl::StatusCode::kOk : absl::StatusCode::kNotFound);
      const Status s = OpenWith(dir.path(), /*create=*/true);
      EXPECT_TRUE(s.ok()) << s;
    }
  }
  EXPECT_GT(failed, 8);
}

TEST(DbOpenTest, FilesOfTheUsersAreLeftAlone) {
  for (const char* name : {"CURRENT", "manifest-notes", "manifest-", "log-1-1", "x.sst", "IDENTITY.bak"}) {
    Directory dir;
    FILE* const file = fopen((dir / name).c_str(), "w");
    fputs("something of the user's, thirty-two letters and more", file);
    fclose(file);
    EXPECT_TRUE(absl::IsInvalidArgument(OpenWith(dir.path(), /*create=*/true))) << name;
    EXPECT_GT(fs::file_size(dir / name), 30u) << name;
  }
}

// --- a long log

std::string KeyOf(uint64_t i) { return StrCat("key", i * 7919 % 10'000'019); }

// A database whose process was killed, with `n` entries of eight bytes in its log and none in a table.
void WriteAndDie(const std::string& path, uint64_t n) {
  const pid_t child = fork();
  if (child == 0) {
    DbOptions options;
    options.memtable_bytes = size_t{1} << 30;
    const auto db = Db::Open(path, options);
    bool ok = db.ok();
    for (uint64_t i = 0; i < n && ok; ++i) ok = (*db)->Put(KeyOf(i), "12345678").ok();
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
}

Nanos BusyToOpen(const std::string& path, uint64_t n) {
  const Nanos begin = ThreadBusy();
  const auto db = Db::Open(path);
  EXPECT_TRUE(db.ok()) << db.status();
  const Nanos busy = ThreadBusy() - begin;
  std::string value;
  for (uint64_t i = 0; i < n; i += n / 100) EXPECT_TRUE((*db)->Get(KeyOf(i), &value).ok()) << i;
  return busy;
}

TEST(RecoveryCostTest, GrowsAsTheLogDoes) {
  Directory dir;
  constexpr uint64_t kFew = 40'000, kMany = 12 * kFew;
  ASSERT_NO_FATAL_FAILURE(WriteAndDie(dir / "few", kFew));
  ASSERT_NO_FATAL_FAILURE(WriteAndDie(dir / "many", kMany));
  const Nanos few = BusyToOpen(dir / "few", kFew), many = BusyToOpen(dir / "many", kMany);
  EXPECT_LT(many, 2 * 12 * few) << few / kMicrosecond << " us for few";
}

// R3, against a map.
TEST(RecoveredEntriesTest, AreInTheOrderOfTablesEachOnce) {
  RecoveredLogs logs;
  std::deque<std::string> texts;  // which stay where they are
  const auto text = [&texts](std::string t) -> std::string_view { return texts.emplace_back(std::move(t)); };
  std::map<std::pair<std::string, SequenceNumber>, std::string,
           std::function<bool(const std::pair<std::string, SequenceNumber>&,
                              const std::pair<std::string, SequenceNumber>&)>>
      model([](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
      });
  uint64_t x = 1;
  for (SequenceNumber seq = 1; seq <= 3'000; ++seq) {
    x = x * 6364136223846793005 + 1442695040888963407;
    const std::string key = StrCat("shared prefix/", std::string(x >> 62, 'p'), (x >> 40) % 500);
    const MemTableId memtable((x >> 33) % 3);
    const std::string value = StrCat("v", seq);
    logs.records.push_back({seq, memtable, ValueType::kPut, text(key), text(value)});
    if (seq % 7 == 0) logs.records.push_back(logs.records.back());  // in two groups
    if (memtable != MemTableId(1)) model[{key, seq}] = value;
  }
  VersionEdit edit;
  edit.done = {MemTableId(1)};
  const RecoveredEntries entries(std::move(logs), DoneMemTables({edit}));
  const auto it = entries.NewIterator();
  it->SeekToFirst();
  for (const auto& [key, value] : model) {
    ASSERT_TRUE(it->Valid());
    ParsedInternalKey parsed;
    ASSERT_TRUE(ParseInternalKey(it->key(), &parsed));
    EXPECT_EQ(parsed.stored_key, key.first);
    EXPECT_EQ(parsed.sequence, key.second);
    EXPECT_EQ(it->value(), value);
    it->Next();
  }
  EXPECT_EQ(it->state(), Iterator::State::kEnd);
  // In parts it is the same, and no key is in two of them.
  for (const size_t parts : {1, 2, 7, 5'000}) {
    it->SeekToFirst();
    std::string last;
    for (size_t part = 0; part < parts; ++part) {
      const auto some = entries.NewIterator(part, parts);
      bool first = true;
      for (some->SeekToFirst(); some->Valid(); some->Next(), it->Next()) {
        ASSERT_TRUE(it->Valid());
        ASSERT_EQ(some->key(), it->key());
        if (std::exchange(first, false)) {
          ASSERT_NE(StoredKeyOf(some->key()), last);
        }
        last = StoredKeyOf(some->key());
      }
    }
    ASSERT_FALSE(it->Valid()) << parts;
  }
  EXPECT_GT(entries.first(), 0u);
  EXPECT_LE(entries.last(), 3'000u);
  it->Seek(MakeSeekKey("shared prefix/4"));
  ASSERT_TRUE(it->Valid());
  EXPECT_GE(StoredKeyOf(it->key()), "shared prefix/4");
}

TEST(RecoveredEntriesTest, RangeDeletionsAreApart) {
  RecoveredLogs logs;
  logs.records = {{1, MemTableId(1), ValueType::kPut, "b", "x"},
                  {2, MemTableId(1), ValueType::kDeleteRange, "a", "c"}};
  const RecoveredEntries entries(logs, DoneMemTables({}));
  const auto deletions = entries.RangeDeletions();
  ASSERT_TRUE(deletions.ok()) << deletions.status();
  ASSERT_EQ(deletions->size(), 1u);
  EXPECT_EQ((*deletions)[0]->sequence, 2u);
  const auto it = entries.NewIterator();
  it->SeekToFirst();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(StoredKeyOf(it->key()), "b");
  it->Next();
  EXPECT_FALSE(it->Valid());
  logs.records[1].value = "a";
  EXPECT_TRUE(absl::IsDataLoss(RecoveredEntries(logs, DoneMemTables({})).RangeDeletions().status()));
}

}  // namespace
}  // namespace nova
