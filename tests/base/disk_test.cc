// One contract over every Disk, then what each adds: crashes, faults, bandwidth.
#include "common/base/disk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "common/base/fault_disk.h"
#include "common/base/limited_disk.h"
#include "common/base/sim_disk.h"
#include "common/base/simulation.h"
#include "tests/base/descriptors.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A disk and what lies below it, in the order of destruction.
struct Rig {
  ~Rig() {
    disk.reset();
    base.reset();
    if (!directory.empty()) std::filesystem::remove_all(directory);
  }
  std::string directory;
  std::unique_ptr<SimDisk> medium;
  std::unique_ptr<Disk> base;
  std::unique_ptr<Disk> disk;
  std::function<std::unique_ptr<Disk>()> again;  // the same tree, as another process sees it
};

std::unique_ptr<Rig> PosixRig() {
  auto rig = std::make_unique<Rig>();
  rig->directory = (std::filesystem::temp_directory_path() / "nova-disk-XXXXXX").string();
  if (mkdtemp(rig->directory.data()) == nullptr) return nullptr;
  rig->again = [path = rig->directory + "/a/b"] { return *OpenPosixDisk(path); };
  rig->disk = rig->again();
  return rig;
}

std::unique_ptr<Rig> SimRig() {
  auto rig = std::make_unique<Rig>();
  rig->medium = std::make_unique<SimDisk>();
  rig->again = [medium = rig->medium.get()] { return medium->Mount(); };
  rig->disk = rig->again();
  return rig;
}

std::unique_ptr<Rig> FaultRig() {
  auto rig = SimRig();
  rig->base = std::move(rig->disk);
  rig->disk = std::make_unique<FaultDisk>(rig->base.get());
  return rig;
}

std::unique_ptr<Rig> LimitedRig() {
  auto rig = SimRig();
  rig->base = std::move(rig->disk);
  rig->disk = std::make_unique<LimitedDisk>(rig->base.get(), LimitedDiskOptions{uint64_t{1} << 34, 1 << 20});
  return rig;
}

struct Kind {
  const char* name;
  std::unique_ptr<Rig> (*make)();
};

class DiskContractTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    rig_ = GetParam().make();
    ASSERT_NE(rig_, nullptr);
  }
  Disk* disk() { return rig_->disk.get(); }
  Status Put(const std::string& path, std::string_view bytes) {
    NOVA_ASSIGN_OR_RETURN(const auto file, disk()->Create(path));
    NOVA_RETURN_IF_ERROR(file->Write(0, bytes));
    return file->Sync();
  }
  StatusOr<std::string> Get(const std::string& path) {
    NOVA_ASSIGN_OR_RETURN(const auto file, disk()->Open(path, false));
    NOVA_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
    std::string bytes(size, '\0');
    NOVA_RETURN_IF_ERROR(file->Read(0, size, bytes.data()));
    return bytes;
  }
  std::unique_ptr<Rig> rig_;
};

INSTANTIATE_TEST_SUITE_P(AllDisks, DiskContractTest,
                         testing::Values(Kind{"Posix", &PosixRig}, Kind{"Sim", &SimRig},
                                         Kind{"Fault", &FaultRig}, Kind{"Limited", &LimitedRig}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(DiskContractTest, WhatWasWrittenIsRead) {
  ASSERT_TRUE(Put("f", "hello").ok());
  EXPECT_EQ(*Get("f"), "hello");
  const auto file = *disk()->Open("f", true);
  ASSERT_TRUE(file->Write(3, "p me out").ok());
  EXPECT_EQ(*file->Size(), 11u);
  EXPECT_EQ(*Get("f"), "help me out");
  char part[4];
  ASSERT_TRUE(file->Read(5, 2, part).ok());
  EXPECT_EQ(std::string(part, 2), "me");
}

TEST_P(DiskContractTest, ReadingPastTheEndIsOutOfRange) {
  ASSERT_TRUE(Put("f", "hello").ok());
  const auto file = *disk()->Open("f", false);
  char part[8];
  EXPECT_TRUE(absl::IsOutOfRange(file->Read(0, 6, part)));
  EXPECT_TRUE(absl::IsOutOfRange(file->Read(6, 1, part)));
  EXPECT_TRUE(file->Read(5, 0, part).ok());
}

TEST_P(DiskContractTest, NamesAreCheckedAndErrorsNameThem) {
  ASSERT_TRUE(Put("f", "x").ok());
  const Status again = disk()->Create("f").status();
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("f"));
  const Status missing = disk()->Open("nothing", false).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nothing"));
  EXPECT_TRUE(absl::IsNotFound(disk()->Delete("nothing")));
  EXPECT_TRUE(absl::IsNotFound(disk()->Rename("nothing", "other")));
  EXPECT_TRUE(absl::IsNotFound(disk()->Create("no/such/directory").status()));
}

TEST_P(DiskContractTest, RenameReplacesAndAnOpenHandleGoesOn) {
  ASSERT_TRUE(disk()->MakeDirectory("d").ok());
  ASSERT_TRUE(disk()->MakeDirectory("d").ok());  // fine if it exists
  ASSERT_TRUE(Put("a", "new").ok());
  ASSERT_TRUE(Put("d/b", "old").ok());
  const auto old = *disk()->Open("d/b", false);
  ASSERT_TRUE(disk()->Rename("a", "d/b").ok());
  ASSERT_TRUE(disk()->SyncDirectory("d").ok());
  EXPECT_EQ(*Get("d/b"), "new");
  EXPECT_TRUE(absl::IsNotFound(Get("a").status()));
  char bytes[3];
  ASSERT_TRUE(old->Read(0, 3, bytes).ok());
  EXPECT_EQ(std::string(bytes, 3), "old");
}

TEST_P(DiskContractTest, ListIsSortedAndOfOneDirectory) {
  ASSERT_TRUE(disk()->MakeDirectory("d").ok());
  for (const char* name : {"d/2", "d/1", "d/3", "z"}) ASSERT_TRUE(Put(name, "x").ok());
  ASSERT_TRUE(disk()->Delete("d/3").ok());
  EXPECT_THAT(*disk()->List("d"), ElementsAre("1", "2"));
  EXPECT_THAT(*disk()->List(""), ElementsAre("d", "z"));
  EXPECT_TRUE(absl::IsNotFound(disk()->List("nothing").status()));
}

TEST_P(DiskContractTest, OneProcessATree) {
  ASSERT_TRUE(disk()->Lock("LOCK").ok());
  const auto other = rig_->again();
  EXPECT_TRUE(absl::IsUnavailable(other->Lock("LOCK")));
  rig_->disk.reset();
  rig_->base.reset();
  EXPECT_TRUE(other->Lock("LOCK").ok());
}

TEST_P(DiskContractTest, UncachedReadsAreOfAnyPlaceAndSizeAndSeeWhatWasWritten) {
  std::string bytes;
  for (uint32_t i = 0; bytes.size() < (2 << 20) + 777; ++i) bytes += StrCat(i, ".");
  const auto written = *disk()->Create("f");
  ASSERT_TRUE(written->Write(0, bytes).ok());  // not synced
  const auto file = *disk()->OpenUncached("f");
  EXPECT_EQ(*file->Size(), bytes.size());
  std::string out(bytes.size(), '\0');
  for (const uint64_t at : {uint64_t{0}, uint64_t{1}, uint64_t{4095}, uint64_t{4096}, uint64_t{1 << 20}}) {
    for (const size_t n : {size_t{1}, size_t{4096}, size_t{(1 << 20) + 5}, bytes.size() - at}) {
      if (n > bytes.size() - at) continue;
      ASSERT_TRUE(file->Read(at, n, out.data()).ok()) << at << ", " << n;
      ASSERT_TRUE(std::string_view(out).substr(0, n) == std::string_view(bytes).substr(at, n))
          << at << ", " << n;
    }
  }
  EXPECT_TRUE(file->Read(bytes.size(), 0, out.data()).ok());
  EXPECT_TRUE(absl::IsOutOfRange(file->Read(bytes.size() - 1, 2, out.data())));
  EXPECT_TRUE(absl::IsOutOfRange(file->Read(bytes.size() + 5000, 1, out.data())));
  ASSERT_TRUE(written->Write(10, "changed").ok());
  ASSERT_TRUE(file->Read(9, 9, out.data()).ok());
  EXPECT_EQ(out.substr(0, 9), bytes.substr(9, 1) + "changed" + bytes.substr(17, 1));
  EXPECT_TRUE(absl::IsNotFound(disk()->OpenUncached("nothing").status()));
}

TEST_P(DiskContractTest, FreeBytesIsPositive) { EXPECT_GT(*disk()->FreeBytes(), 0u); }

// --- simulated: what a crash leaves

// How many of the file's first bytes are in the page cache.
uint64_t CachedBytes(const std::string& path, uint64_t size) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> in((size + page - 1) / page);
  EXPECT_EQ(mincore(at, size, in.data()), 0);
  munmap(at, size);
  return page *
         static_cast<uint64_t>(std::count_if(in.begin(), in.end(), [](auto p) { return (p & 1) != 0; }));
}
// Bytes that this process has had read from devices; 0: the kernel does not tell.
uint64_t DeviceBytesRead() {
  std::ifstream in("/proc/self/io");
  uint64_t bytes = 0;
  for (std::string word; in >> word;) {
    if (word == "read_bytes:") in >> bytes;
  }
  return bytes;
}

constexpr uint64_t kUncachedBytes = 1 << 20;
// Makes the file on the disk, in the page cache or not; its path.
std::string MakeFile(Disk* disk, const std::string& name, bool cached) {
  const auto file = *disk->Create(name);
  EXPECT_TRUE(file->Write(0, std::string(kUncachedBytes, 'x')).ok() && file->Sync().ok());
  std::string path = disk->NativePath(name);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (!cached) {
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  close(fd);
  return path;
}
// What is to be tested can be seen here: the page cache can be emptied, the kernel counts what is read from a
// device, and takes O_DIRECT.
bool DeviceReadsCanBeSeen(Disk* disk) {
  const std::string path = MakeFile(disk, "probe", /*cached=*/false);
  if (CachedBytes(path, kUncachedBytes) != 0) return false;
  const int direct = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct < 0) return false;
  close(direct);
  const uint64_t before = DeviceBytesRead();
  std::string out(kUncachedBytes, '\0');
  EXPECT_TRUE((*disk->Open("probe", /*writable=*/false))->Read(0, out.size(), out.data()).ok());
  return DeviceBytesRead() >= before + kUncachedBytes;
}

// No fault of the disk, and nothing is lost: it is as before once there is one.
TEST(PosixDiskTest, WithoutADescriptorFilesAreUnavailable) {
  const auto rig = PosixRig();
  ASSERT_TRUE(rig->disk->Create("f").ok());
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  const int first_free = dup(0);
  close(first_free);
  SetDescriptorLimit(static_cast<rlim_t>(first_free));
  const Status made = rig->disk->Create("g").status(), read = rig->disk->Open("f", false).status(),
               uncached = rig->disk->OpenUncached("f").status(), listed = rig->disk->List("").status();
  SetDescriptorLimit(before.rlim_cur);
  for (const Status& s : {made, read, uncached, listed}) {
    EXPECT_TRUE(absl::IsUnavailable(s)) << s;
    EXPECT_NE(s.message().find("Too many open files"), std::string_view::npos) << s;
  }
  EXPECT_TRUE(rig->disk->Open("f", false).ok());
}

// A file in the cache is read from the device all the same, and stays in the cache; one that is not there is
// not put there.
TEST(PosixDiskTest, UncachedReadsComeFromTheDeviceAndLeaveTheCacheAsItIs) {
  const auto rig = PosixRig();
  if (!DeviceReadsCanBeSeen(rig->disk.get())) GTEST_SKIP() << "no device below the temporary directory";
  for (const bool cached : {true, false}) {
    const std::string path = MakeFile(rig->disk.get(), cached ? "hot" : "cold", cached);
    const uint64_t before = CachedBytes(path, kUncachedBytes);
    EXPECT_EQ(before, cached ? kUncachedBytes : 0);
    const uint64_t read_before = DeviceBytesRead();
    std::string out(kUncachedBytes, '\0');
    ASSERT_TRUE((*rig->disk->OpenUncached(cached ? "hot" : "cold"))->Read(0, out.size(), out.data()).ok());
    EXPECT_EQ(out, std::string(kUncachedBytes, 'x'));
    EXPECT_GE(DeviceBytesRead() - read_before, kUncachedBytes) << path;
    EXPECT_EQ(CachedBytes(path, kUncachedBytes), before) << path;
  }
}

class SimDiskTest : public testing::Test {
 protected:
  void Put(const std::string& path, std::string_view bytes, bool sync) {
    const auto file = *disk_->Create(path);
    ASSERT_TRUE(file->Write(0, bytes).ok());
    if (sync) {
      ASSERT_TRUE(file->Sync().ok());
    }
  }
  std::string Get(const std::string& path) {
    const auto file = disk_->Open(path, false);
    if (!file.ok()) return "(none)";
    std::string bytes(*(*file)->Size(), '\0');
    EXPECT_TRUE((*file)->Read(0, bytes.size(), bytes.data()).ok());
    return bytes;
  }
  void Crash(Random* torn = nullptr) {
    medium_.Crash(torn);
    disk_ = medium_.Mount();
  }
  SimDisk medium_;
  std::unique_ptr<Disk> disk_ = medium_.Mount();
};

TEST_F(SimDiskTest, BytesNotSyncedAreLost) {
  Put("f", "durable", true);
  ASSERT_TRUE(disk_->SyncDirectory("").ok());
  ASSERT_TRUE((*disk_->Open("f", true))->Write(0, "changed and longer").ok());
  Crash();
  EXPECT_EQ(Get("f"), "durable");
}

TEST_F(SimDiskTest, SyncedIsWhatWasWrittenLastAtEachPlace) {
  Put("f", "aaaaaaaaaa", true);
  ASSERT_TRUE(disk_->SyncDirectory("").ok());
  Crash();  // the second sync adds to what a crash has left
  const auto file = *disk_->Open("f", true);
  for (const auto& [at, bytes] : {std::pair(2, "bbbb"), {4, "cccc"}, {12, "dd"}, {3, "e"}})
    ASSERT_TRUE(file->Write(static_cast<uint64_t>(at), bytes).ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Write(0, "lost").ok());
  Crash();
  EXPECT_EQ(Get("f"), std::string("aabeccccaa\0\0dd", 14));
}

TEST_F(SimDiskTest, NamesNotSyncedAreLost) {  // S4
  Put("f", "synced, but not its name", true);
  Crash();
  EXPECT_EQ(Get("f"), "(none)");
}

TEST_F(SimDiskTest, ARenameThatWasNotSyncedIsUndone) {
  Put("old", "1", true);
  Put("f", "0", true);
  ASSERT_TRUE(disk_->SyncDirectory("").ok());
  ASSERT_TRUE(disk_->Rename("old", "f").ok());
  Crash();
  EXPECT_EQ(Get("f"), "0");
  EXPECT_EQ(Get("old"), "1");
  ASSERT_TRUE(disk_->Rename("old", "f").ok());
  ASSERT_TRUE(disk_->SyncDirectory("").ok());
  Crash();
  EXPECT_EQ(Get("f"), "1");
  EXPECT_EQ(Get("old"), "(none)");
}

TEST_F(SimDiskTest, HandlesAndLocksEndWithACrash) {
  ASSERT_TRUE(disk_->Lock("LOCK").ok());
  Put("f", "x", true);
  ASSERT_TRUE(disk_->SyncDirectory("").ok());
  const auto file = *disk_->Open("f", true);
  const auto before = std::move(disk_);
  Crash();
  EXPECT_TRUE(absl::IsFailedPrecondition(file->Write(0, "y")));
  EXPECT_TRUE(absl::IsFailedPrecondition(before->Open("f", false).status()));
  EXPECT_TRUE(disk_->Lock("LOCK").ok());
}

TEST_F(SimDiskTest, ATornCrashKeepsSyncedBytesAndSomeOfTheRest) {
  int kept = 0, lost = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string name = StrCat("f", seed);
    Put(name, std::string(1024, 'a'), true);
    ASSERT_TRUE(disk_->SyncDirectory("").ok());
    ASSERT_TRUE((*disk_->Open(name, true))->Write(1024, std::string(4096, 'b')).ok());
    Random random(seed);
    Crash(&random);
    const std::string bytes = Get(name);
    ASSERT_EQ(bytes.substr(0, 1024), std::string(1024, 'a'));
    for (size_t at = 1024; at < 5120; at += 512) ++(bytes.size() > at && bytes[at] == 'b' ? kept : lost);
  }
  EXPECT_GT(kept, 50);
  EXPECT_GT(lost, 50);
}

TEST_F(SimDiskTest, FullIsResourceExhaustedAndDeletingHelps) {
  SimDisk small(SimDiskOptions{1000, 0});
  const auto disk = small.Mount();
  const auto file = *disk->Create("f");
  ASSERT_TRUE(file->Write(0, std::string(900, 'x')).ok());
  EXPECT_EQ(*disk->FreeBytes(), 100u);
  const auto second = *disk->Create("g");
  EXPECT_TRUE(absl::IsResourceExhausted(second->Write(0, std::string(101, 'x'))));
  ASSERT_TRUE(disk->Delete("f").ok());
  EXPECT_TRUE(second->Write(0, std::string(101, 'x')).ok());
}

TEST(SimDiskSimulationTest, TakesVirtualTime) {
  Simulation sim(7);
  sim.Run([] {
    SimDisk medium(SimDiskOptions{1 << 20, 5 * kMillisecond});
    const auto disk = medium.Mount();
    const auto file = *disk->Create("f");
    const Nanos start = Now();
    ASSERT_TRUE(file->Write(0, "x").ok());
    ASSERT_TRUE(file->Sync().ok());
    EXPECT_EQ(Now() - start, 10 * kMillisecond);
  });
}

// --- faults

class FaultDiskTest : public testing::Test {
 protected:
  SimDisk medium_;
  std::unique_ptr<Disk> base_ = medium_.Mount();
  FaultDisk disk_{base_.get()};
};

TEST_F(FaultDiskTest, ARuleHitsTheNthCallOfItsPathAndOperation) {
  disk_.Add({.path = "bad", .op = DiskOp::kWrite, .action = FaultAction::kEio, .nth = 2, .count = 1});
  const auto bad = *disk_.Create("bad");
  const auto good = *disk_.Create("good");
  EXPECT_TRUE(bad->Write(0, "1").ok());
  EXPECT_TRUE(good->Write(0, "1").ok());
  EXPECT_TRUE(good->Write(0, "2").ok());
  EXPECT_TRUE(absl::IsDataLoss(bad->Write(0, "2")));
  EXPECT_TRUE(bad->Write(0, "3").ok());
  EXPECT_TRUE(bad->Sync().ok());
  EXPECT_EQ(disk_.faults(), 1u);
}

TEST_F(FaultDiskTest, ARuleCountsOnlyTheCallsItWantsByPath) {
  disk_.Add({.op = DiskOp::kCreate, .nth = 2, .count = 1, .where = [](const std::string& path) {
               return path.starts_with("a");
             }});
  EXPECT_TRUE(disk_.Create("b1").ok());
  EXPECT_TRUE(disk_.Create("b2").ok());
  EXPECT_TRUE(disk_.Create("a1").ok()) << "the first that counts";
  EXPECT_FALSE(disk_.Create("a2").ok());
  EXPECT_EQ(disk_.faults(), 1u);
}

TEST_F(FaultDiskTest, EveryOperationCanFail) {
  const auto file = *disk_.Create("f");
  ASSERT_TRUE(file->Write(0, "abc").ok());
  char out[3];
  const std::vector<std::pair<DiskOp, std::function<Status()>>> calls = {
      {DiskOp::kCreate, [&] { return disk_.Create("g").status(); }},
      {DiskOp::kOpen, [&] { return disk_.Open("f", false).status(); }},
      {DiskOp::kWrite, [&] { return file->Write(0, "abc"); }},
      {DiskOp::kRead, [&] { return file->Read(0, 3, out); }},
      {DiskOp::kSync, [&] { return file->Sync(); }},
      {DiskOp::kRename, [&] { return disk_.Rename("f", "h"); }},
      {DiskOp::kSyncDirectory, [&] { return disk_.SyncDirectory(""); }},
      {DiskOp::kList, [&] { return disk_.List("").status(); }},
      {DiskOp::kFreeBytes, [&] { return disk_.FreeBytes().status(); }},
      {DiskOp::kDelete, [&] { return disk_.Delete("h"); }},
  };
  for (const auto& [op, call] : calls) {
    disk_.Add({.op = op, .action = FaultAction::kEio});
    EXPECT_TRUE(absl::IsDataLoss(call())) << static_cast<int>(op);
    disk_.Clear();
    EXPECT_TRUE(call().ok()) << static_cast<int>(op);
  }
}

TEST_F(FaultDiskTest, NoSpaceShowsInFreeBytes) {
  disk_.Add({.op = DiskOp::kFreeBytes, .action = FaultAction::kNoSpace});
  EXPECT_EQ(*disk_.FreeBytes(), 0u);
  disk_.Add({.op = DiskOp::kWrite, .action = FaultAction::kNoSpace});
  EXPECT_TRUE(absl::IsResourceExhausted((*disk_.Create("f"))->Write(0, "x")));
}

TEST_F(FaultDiskTest, TornLandsHalfAndBitFlipsAreSilent) {
  const auto file = *disk_.Create("f");
  disk_.Add({.op = DiskOp::kWrite, .action = FaultAction::kTorn, .count = 1});
  EXPECT_TRUE(absl::IsDataLoss(file->Write(0, "abcdef")));
  EXPECT_EQ(*file->Size(), 3u);
  disk_.Clear();
  disk_.Add({.op = DiskOp::kWrite, .action = FaultAction::kBitFlip, .count = 1});
  EXPECT_TRUE(file->Write(0, "abcdef").ok());
  char out[6];
  ASSERT_TRUE(file->Read(0, 6, out).ok());
  EXPECT_NE(std::string(out, 6), "abcdef");
  disk_.Clear();
  disk_.Add({.op = DiskOp::kRead, .action = FaultAction::kBitFlip, .count = 1});
  EXPECT_TRUE(file->Write(0, "abcdef").ok());
  ASSERT_TRUE(file->Read(0, 6, out).ok());
  EXPECT_NE(std::string(out, 6), "abcdef");
  ASSERT_TRUE(file->Read(0, 6, out).ok());
  EXPECT_EQ(std::string(out, 6), "abcdef");
}

TEST(FaultDiskSimulationTest, DelayIsVirtualTime) {
  Simulation sim(7);
  sim.Run([] {
    SimDisk medium;
    const auto base = medium.Mount();
    FaultDisk disk(base.get());
    disk.Add({.op = DiskOp::kSync, .action = FaultAction::kDelay, .delay_ns = 60 * kSecond});
    const auto file = *disk.Create("f");
    const Nanos start = Now();
    ASSERT_TRUE(file->Sync().ok());
    EXPECT_EQ(Now() - start, 60 * kSecond);
  });
}

// --- bandwidth

TEST(LimitedDiskTest, ReadsAndWritesShareOneSpindle) {
  Simulation sim(7);
  sim.Run([] {
    SimDisk medium;
    const auto base = medium.Mount();
    LimitedDisk disk(base.get(), {.bytes_per_second = 1 << 20, .burst_bytes = 0});
    const auto file = *disk.Create("f");
    const std::string mega(1 << 20, 'x');
    const Nanos start = Now();
    ASSERT_TRUE(file->Write(0, mega).ok());
    EXPECT_NEAR(static_cast<double>(Now() - start), 1e9, 1e6);
    std::string out(1 << 20, '\0');
    ASSERT_TRUE(file->Read(0, out.size(), out.data()).ok());
    EXPECT_NEAR(static_cast<double>(Now() - start), 2e9, 1e6);
    EXPECT_EQ(out, mega);
  });
}

TEST(LimitedDiskTest, ReadsFromAPageCacheCostNothingAndThosePastItDo) {
  Simulation sim(7);
  sim.Run([] {
    SimDisk medium;
    const auto base = medium.Mount();
    LimitedDisk disk(base.get(), {.bytes_per_second = 1 << 20, .burst_bytes = 0, .reads_are_cached = true});
    const auto created = *disk.Create("f");
    const Nanos start = Now();
    ASSERT_TRUE(created->Write(0, std::string(1 << 20, 'x')).ok());
    EXPECT_NEAR(static_cast<double>(Now() - start), 1e9, 1e6);
    const auto opened = *disk.Open("f", false);
    std::string out(1 << 20, '\0');
    const Nanos written = Now();
    ASSERT_TRUE(created->Read(0, out.size(), out.data()).ok());
    ASSERT_TRUE(opened->Read(0, out.size(), out.data()).ok());
    EXPECT_EQ(Now(), written);
    ASSERT_TRUE((*disk.OpenUncached("f"))->Read(0, out.size(), out.data()).ok());
    EXPECT_NEAR(static_cast<double>(Now() - written), 1e9, 1e6);
  });
}

TEST(MappingTest, TellsHowMuchOfItsBeginIsInMemory) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kPages = 600;  // more than are asked for at once
  auto* const at = static_cast<char*>(mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(at, MAP_FAILED);
  madvise(at, kPages * page, MADV_NOHUGEPAGE);
  const std::string_view all(at, kPages * page);
  EXPECT_EQ(ResidentPrefix(all), 0u) << "no page was touched";
  for (size_t i = 0; i < kPages; ++i) {
    if (i != 300) at[i * page] = 'x';
  }
  EXPECT_EQ(ResidentPrefix(all), 300 * page);
  EXPECT_EQ(ResidentPrefix(all.substr(10)), 300 * page - 10) << "a part that begins within a page";
  EXPECT_EQ(ResidentPrefix(all.substr(300 * page + 10)), 0u);
  EXPECT_EQ(ResidentPrefix(all.substr(301 * page)), 299 * page);
  EXPECT_EQ(ResidentPrefix(all.substr(0, 0)), 0u);
  munmap(at, kPages * page);
}

TEST(LimitedDiskTest, ABurstPassesAtOnceAndIsEarnedByIdling) {
  Simulation sim(7);
  sim.Run([] {
    SimDisk medium;
    const auto base = medium.Mount();
    LimitedDisk disk(base.get(), {.bytes_per_second = 1 << 20, .burst_bytes = 1 << 20});
    const auto file = *disk.Create("f");
    const std::string half(1 << 19, 'x');
    SleepFor(10 * kSecond);
    const Nanos start = Now();
    ASSERT_TRUE(file->Write(0, half).ok());
    ASSERT_TRUE(file->Write(0, half).ok());
    EXPECT_EQ(Now(), start);
    ASSERT_TRUE(file->Write(0, half).ok());
    EXPECT_NEAR(static_cast<double>(Now() - start), 0.5e9, 1e6);
  });
}

}  // namespace
}  // namespace nova
