// Scrubber (scrub, S6) on simulated disks, in virtual time: its pace, what it finds, and what it remembers.
#include "stoc/scrubber.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/base/crc32c.h"
#include "common/base/fault_disk.h"
#include "common/base/sim_disk.h"
#include "common/base/simulation.h"

namespace nova {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Creator kCreator{RangeId(7), Epoch(3), 11};

StocFileId Id(uint64_t n) { return {{n, 1}, 0}; }
std::string Path(uint64_t n) { return "files/" + Id(n).ToString(); }

// --- ScrubPace

TEST(ScrubPaceTest, S6WhatIsLeftIsSpreadOverWhatIsLeftOfThePeriod) {
  struct Case {
    const char* what;
    uint64_t cost, left;
    Nanos elapsed_s, pause_ms;
  };
  const ScrubPace pace(100 * kSecond, 10'000'000);
  for (const Case& c : std::vector<Case>{
           {"nothing was read", 0, 1000, 0, 0},
           {"a tenth of it, at the beginning", 1'000'000, 9'000'000, 0, 10'000},
           {"a tenth of what is left, in the middle", 1'000'000, 9'000'000, 50, 5'000},
           {"behind, for much came meanwhile: at the bound", 1'000'000, 99'000'000'000, 50, 100},
           {"the period is over: at the bound", 1'000'000, 9'000'000, 200, 100},
           {"the last one: until the period's end", 1'000'000, 0, 60, 40'000},
       }) {
    EXPECT_EQ(pace.Between(c.cost, c.left, c.elapsed_s * kSecond) / kMillisecond, c.pause_ms) << c.what;
  }
  EXPECT_EQ(pace.TimeOf(5'000'000), kSecond / 2);
  EXPECT_EQ(ScrubPace::CostOf(3, 1000), 3 * 65536u + 1000) << "small files are no cheaper than they are";
}

// --- ScrubState

TEST(ScrubStateTest, TextIsGolden) {
  const ScrubState state{Id(1), 1, 2, 3, 4, {Id(5), {{6, 7}, kMetadataPart}}};
  EXPECT_EQ(
      state.Encode(),
      "nova scrub\nformat=1\nafter=00000000000000010000000000000001.0\nended=1\nelapsed_ms=2\npasses=3\n"
      "last_pass_ms=4\ndamaged=00000000000000050000000000000001.0\n"
      "damaged=00000000000000060000000000000007.4294967295\ncrc=7cf2b62e\n");
  EXPECT_EQ(*ScrubState::Decode(state.Encode()), state);
  EXPECT_EQ(*ScrubState::Decode(ScrubState{}.Encode()), ScrubState{});
}

TEST(ScrubStateTest, DamageIsNoticed) {
  const std::string text = ScrubState{Id(1), 0, 2, 3, 4, {Id(5)}}.Encode();
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(ScrubState::Decode(damaged).ok()) << i;
    EXPECT_FALSE(ScrubState::Decode(text.substr(0, i)).ok()) << i;
  }
  EXPECT_TRUE(
      absl::IsFailedPrecondition(ScrubState::Decode("nova scrub\nformat=2\n\n\n\n\n\n\n\n").status()));
}

// --- Scrubber

constexpr Nanos kPeriod = 1000 * kSecond;

struct World {
  explicit World(ScrubOptions of_scrub = {.period_ns = kPeriod, .bytes_per_second = 1'000'000})
      : options(of_scrub) {
    base = medium.Mount();
    Open();
  }
  void Open() {
    metrics = std::make_unique<Metrics>();
    disk = std::make_unique<FaultDisk>(base.get());
    store = *FileStore::Open(disk.get(), {.reserve_bytes = 0}, metrics.get());
  }
  void Scrub() {
    scrubber = std::make_unique<Scrubber>(
        options, disk.get(), store.get(),
        [this]() -> StatusOr<bool> {
          ++identities;
          return false;
        },
        metrics.get());
  }
  void Restart() {
    scrubber = nullptr;
    store = nullptr;
    Open();
    Scrub();
  }
  // The process dies, its machine does not.
  void Kill() {
    const auto state = ReadScrubState(base.get());
    scrubber = nullptr;  // which saves
    if (state.ok()) {
      ASSERT_TRUE(WriteScrubState(base.get(), *state).ok());
    } else {
      ASSERT_TRUE(base->Delete("SCRUB").ok());
    }
    store = nullptr;
    Open();
    Scrub();
  }
  void Write(uint64_t n, size_t bytes = 100'000) {
    const std::string data(bytes, static_cast<char>('a' + n % 26));
    ASSERT_TRUE(store->WriteFile(Id(n), kCreator, data, Crc32c(data)).ok());
  }
  void Flip(uint64_t n) {
    char byte;
    const auto file = *base->Open(Path(n), true);
    ASSERT_TRUE(file->Read(500, 1, &byte).ok());
    byte = static_cast<char>(byte ^ 4);
    ASSERT_TRUE(file->Write(500, {&byte, 1}).ok());
  }
  uint64_t Count(const std::string& name) const {
    return metrics->counter("nova_stoc_scrub_" + name)->value();
  }
  int64_t damaged() const { return metrics->gauge("nova_stoc_damaged_files")->value(); }

  const ScrubOptions options;
  SimDisk medium;
  std::unique_ptr<Disk> base;
  std::unique_ptr<FaultDisk> disk;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<FileStore> store;
  std::unique_ptr<Scrubber> scrubber;
  int identities = 0;  // looked at
};

void Simulated(const std::function<void()>& body) {
  Simulation sim(3);
  sim.Run(body);
}

TEST(ScrubberTest, S6AllIsReadOnceInAPeriodAndEvenly) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 20; ++n) w.Write(n);
    const Nanos begun = Now();
    w.Scrub();
    for (int part = 1; part <= 9; ++part) {
      SleepUntil(begun + part * kPeriod / 10);
      const auto files = static_cast<int>(w.Count("files_total"));
      EXPECT_LE(std::abs(files - 2 * part), 1) << part;
    }
    EXPECT_EQ(w.Count("passes_total"), 0u);
    SleepUntil(begun + kPeriod - kSecond);
    EXPECT_EQ(w.Count("passes_total"), 1u);
    EXPECT_EQ(w.Count("bytes_total"), 20 * (100'000u + kFileHeaderBytes));
    SleepUntil(begun + 2 * kPeriod - kSecond);
    EXPECT_EQ(w.Count("passes_total"), 2u);
    EXPECT_EQ(w.Count("files_total"), 40u);
    EXPECT_EQ(w.identities, 2);
    EXPECT_EQ(w.Count("found_total"), 0u);
  });
}

// A megabyte a second is the bound, and the store has more than a period's worth of it.
TEST(ScrubberTest, S6NoMoreIsReadThanTheBound) {
  Simulated([] {
    World w({.period_ns = 10 * kSecond, .bytes_per_second = 1'000'000});
    for (uint64_t n = 1; n <= 10; ++n) w.Write(n, 3'000'000);
    const Nanos begun = Now();
    w.Scrub();
    for (uint64_t before = 0; w.Count("passes_total") == 0;) {
      SleepFor(kSecond);
      const uint64_t read = w.Count("bytes_total");
      EXPECT_LE(read - before, 2'050'000u) << "and one piece";
      before = read;
      ASSERT_LT(Now(), begun + 60 * kSecond);
    }
    EXPECT_GE(Now() - begun, 30 * kSecond);
  });
}

TEST(ScrubberTest, S6WhatGrowsMeanwhileIsReadInTime) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 10; ++n) w.Write(n);
    const Nanos begun = Now();
    w.Scrub();
    SleepFor(kPeriod / 2);
    for (uint64_t n = 11; n <= 200; ++n) w.Write(n);  // behind the others, in their order
    SleepUntil(begun + kPeriod - kSecond);
    EXPECT_EQ(w.Count("files_total"), 200u) << "in the second half of the period";
  });
}

TEST(ScrubberTest, S6ARestartAfterAPassBeginsNoOther) {
  Simulated([] {
    World w;
    w.Write(1);
    const Nanos begun = Now();
    w.Scrub();
    for (int i = 1; i <= 3; ++i) {
      SleepFor(kPeriod / 5);
      w.Kill();
      SleepFor(kSecond);
      EXPECT_EQ(w.Count("files_total"), 0u) << i;
    }
    SleepUntil(begun + kPeriod + 3 * kPeriod / 100 + kSecond);  // a kill forgets what was not saved
    EXPECT_EQ(w.Count("files_total"), 1u);
    EXPECT_EQ(ReadScrubState(w.base.get())->passes, 2u);
  });
}

TEST(ScrubberTest, S6DamageIsFoundOnceAndHealedByItsOwnersWrite) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 10; ++n) w.Write(n);
    for (const uint64_t n : {3, 7, 9}) w.Flip(n);
    ASSERT_TRUE(w.base->Delete(Path(5)).ok());  // its bytes are still at hand
    w.Scrub();
    SleepFor(2 * kPeriod);
    EXPECT_EQ(w.Count("found_total"), 4u);
    EXPECT_THAT(w.store->stored()->Damaged(), ElementsAre(Id(3), Id(7), Id(9)));
    EXPECT_EQ(*(*w.base->Open(Path(5), false))->Size(), 100'000 + kFileHeaderBytes);
    w.Write(3);
    ASSERT_TRUE(w.store->DeleteFiles({Id(7)}).ok());
    w.Flip(9);  // the disk thinks better of it
    SleepFor(kPeriod);
    EXPECT_THAT(w.store->stored()->Damaged(), IsEmpty());
    EXPECT_EQ(w.damaged(), 0);
    EXPECT_EQ(w.Count("found_total"), 4u);
  });
}

TEST(ScrubberTest, S6PositionAndFindingsOutliveTheProcess) {
  for (const bool killed : {true, false}) {
    Simulated([killed] {
      World w;
      for (uint64_t n = 1; n <= 20; ++n) w.Write(n);
      for (const uint64_t n : {2, 4, 18}) w.Flip(n);
      const Nanos begun = Now();
      w.Scrub();
      SleepUntil(begun + kPeriod / 2);
      EXPECT_EQ(w.damaged(), 2);
      killed ? w.Kill() : w.Restart();
      // Before anything is read.
      EXPECT_THAT(w.store->stored()->Damaged(), ElementsAre(Id(2), Id(4)));
      SleepUntil(begun + kPeriod - kSecond);
      EXPECT_LE(w.Count("files_total"), 11u) << "it began anew";
      EXPECT_GE(w.Count("files_total"), 9u);
      EXPECT_EQ(w.Count("passes_total"), 1u) << "the period did not begin anew either";
      EXPECT_EQ(w.damaged(), 3);
      EXPECT_EQ(w.Count("found_total"), 1u) << "what was known is not found again";
    });
  }
}

TEST(ScrubberTest, S6AFindingIsSavedWithinASecond) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 10; ++n) w.Write(n);
    w.Flip(1);
    w.Scrub();
    SleepFor(2 * kSecond);  // a hundredth of the period is more
    ASSERT_EQ(w.damaged(), 1);
    EXPECT_THAT(ReadScrubState(w.base.get())->damaged, ElementsAre(Id(1)));
  });
}

TEST(ScrubberTest, S6AStateThatCannotBeReadIsBegunAnewAndOneThatCannotBeWrittenStopsNothing) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 10; ++n) w.Write(n);
    ASSERT_TRUE((*w.base->Create("SCRUB"))->Write(0, "nova scrub\nrubbish").ok());
    w.disk->Add({.path = "SCRUB", .op = DiskOp::kCreate, .action = FaultAction::kNoSpace});
    w.Scrub();
    SleepFor(kPeriod);
    EXPECT_EQ(w.Count("passes_total"), 1u);
    w.disk->Clear();
    SleepFor(kPeriod);
    EXPECT_EQ(ReadScrubState(w.base.get())->passes, 2u);
  });
}

TEST(ScrubberTest, S6AStopDoesNotWaitForThePeriod) {
  Simulated([] {
    World w;
    for (uint64_t n = 1; n <= 3; ++n) w.Write(n);
    w.Scrub();
    SleepFor(kPeriod / 100);
    const Nanos begun = Now();
    w.scrubber = nullptr;
    EXPECT_LT(Now() - begun, kSecond);
    EXPECT_EQ(ReadScrubState(w.base.get())->after, Id(1));
  });
}

TEST(ScrubberTest, S6AnEmptyStoreCostsNothing) {
  Simulated([] {
    World w;
    w.Scrub();
    SleepFor(3 * kPeriod + kSecond);
    EXPECT_EQ(w.Count("bytes_total"), 0u);
    EXPECT_EQ(w.Count("passes_total"), 4u);
  });
}

}  // namespace
}  // namespace nova
