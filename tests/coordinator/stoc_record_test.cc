#include "coordinator/stoc_record.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "common/config/memory_store.h"
#include "coordinator/coordinator_client.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

StocRecord Sample() {
  StocRecord r;
  r.id = StocId(7);
  r.store = Uuid{1, 2};
  r.name = "stoc-1";
  r.host = "node4";
  r.draining = true;
  r.presence = StocPresence::kAway;
  r.away_since_ms = 1'700'000'000'000;
  r.away_ms = 75'000;
  r.version = 3;
  return r;
}

StatusOr<StocRecord> Decode(std::string_view data) { return StocRecord::Decode(StocId(7), data, 3); }

constexpr char kStore[] = "store=00000000000000010000000000000002\nname=stoc-1\n";

TEST(StocRecordTest, GoldenText) {
  EXPECT_EQ(Sample().Encode(), StrCat(kStore,
                                      "host=node4\ndraining=1\npresence=away\n"
                                      "away_since_ms=1700000000000\naway_ms=75000\n"));
  EXPECT_EQ(*Decode(Sample().Encode()), Sample());
  StocRecord lost = Sample();
  lost.presence = StocPresence::kLost;
  EXPECT_EQ(*Decode(lost.Encode()), lost);
  StocRecord up;
  up.id = StocId(7);
  up.store = Uuid{1, 2};
  up.name = "stoc-1";
  up.version = 3;
  EXPECT_EQ(up.Encode(), StrCat(kStore, "host=\ndraining=0\npresence=up\n"));
  EXPECT_EQ(*Decode(up.Encode()), up);
}

TEST(StocRecordTest, WhatAilsTheDiskIsKept) {
  StocRecord ill = Sample();
  ill.disk = DiskState::kReadOnly;
  ill.disk_since_ms = 1'700'000'000'001;
  ill.forgiven_incarnation = Incarnation(41);
  ill.forgiven_faults = 3;
  EXPECT_EQ(ill.Encode(),
            StrCat(Sample().Encode(),
                   "disk_state=read_only\ndisk_state_since_ms=1700000000001\ndisk_forgiven=41/3\n"));
  for (const DiskState d : {DiskState::kSlow, DiskState::kHung, DiskState::kReadOnly, DiskState::kFailing}) {
    ill.disk = d;
    EXPECT_EQ(*Decode(ill.Encode()), ill) << DiskStateName(d);
  }
}

// Versions before wrote the store and the name.
TEST(StocRecordTest, ARecordOfAnEarlierVersionIsUp) {
  const StatusOr<StocRecord> r = Decode(kStore);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->store, (Uuid{1, 2}));
  EXPECT_EQ(r->name, "stoc-1");
  EXPECT_EQ(r->host, "");
  EXPECT_FALSE(r->draining);
  EXPECT_EQ(r->presence, StocPresence::kUp);
  EXPECT_TRUE(r->early);
  EXPECT_FALSE(Decode(r->Encode())->early);
}

TEST(StocRecordTest, KeysOfALaterVersionAreKept) {
  const StatusOr<StocRecord> r = Decode(Sample().Encode() + "rack=7\nname=second\ndisk=a=b\n");
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->name, "stoc-1") << "the first of two counts";
  EXPECT_EQ(r->Encode(), Sample().Encode() + "rack=7\ndisk=a=b\n");
}

TEST(StocRecordTest, OneThatIsUpIsAwayForNoTime) {
  const StatusOr<StocRecord> r = Decode(StrCat(kStore, "presence=up\naway_since_ms=5\naway_ms=7\n"));
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(r->away_ms + r->away_since_ms, 0);
}

TEST(StocRecordTest, WhatIsMalformedIsRefused) {
  for (const std::string& bad : {
           std::string(""),
           std::string("name=stoc-1\n"),
           std::string("store=xyz\nname=stoc-1\n"),
           std::string("store=00000000000000010000000000000002\n"),
           std::string("store=00000000000000010000000000000002\nname=a/b\n"),
           StrCat(kStore, "presence=sleeping\n"),
           StrCat(kStore, "presence=\n"),
           StrCat(kStore, "draining=2\n"),
           StrCat(kStore, "draining=-1\n"),
           StrCat(kStore, "draining=yes\n"),
           StrCat(kStore, "host=two words\n"),
           StrCat(kStore, "host=", std::string(256, 'h'), "\n"),
           StrCat(kStore, "presence=away\n"),
           StrCat(kStore, "presence=away\naway_since_ms=1\n"),
           StrCat(kStore, "presence=lost\naway_since_ms=1\naway_ms=-1\n"),
           StrCat(kStore, "presence=lost\naway_since_ms=1\naway_ms=9223372036854775807\n"),
           StrCat(kStore, "presence=up\ndisk_state=ok\ndisk_state_since_ms=1\n"),
           StrCat(kStore, "presence=up\ndisk_state=full\ndisk_state_since_ms=1\n"),
           StrCat(kStore, "presence=up\ndisk_state=failing\n"),
           StrCat(kStore, "presence=up\ndisk_state=failing\ndisk_state_since_ms=-1\n"),
           StrCat(kStore, "presence=up\ndisk_forgiven=7\n"),
           StrCat(kStore, "presence=up\ndisk_forgiven=0/7\n"),
           StrCat(kStore, "presence=up\ndisk_forgiven=7/-1\n"),
       }) {
    EXPECT_TRUE(absl::IsDataLoss(Decode(bad).status())) << bad;
  }
}

TEST(StocRecordTest, RandomTextNeverCrashesAndWhatIsReadIsWrittenAlike) {
  Random random(5);
  const std::string whole =
      Sample().Encode() + "disk_state=hung\ndisk_state_since_ms=5\ndisk_forgiven=3/4\nrack=7\n";
  int read = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string data = whole;
    for (uint64_t n = random.Uniform(4); n > 0; --n) {
      const size_t at = random.Uniform(data.size());
      switch (random.Uniform(3)) {
        case 0:
          data[at] = static_cast<char>(random.Next());
          break;
        case 1:
          data.erase(at, 1 + random.Uniform(8));
          break;
        default:
          data.insert(at, whole.substr(random.Uniform(whole.size()), random.Uniform(20)));
      }
      if (data.empty()) break;
    }
    const StatusOr<StocRecord> r = Decode(data);
    if (!r.ok()) continue;
    ++read;
    StocRecord again = *r;
    again.early = false;
    EXPECT_EQ(*Decode(r->Encode()), again) << data;
  }
  EXPECT_GT(read, 50'000);
}

// A StoC makes its record with its id.
TEST(StocRecordTest, ANewStocsRecordIsWholeAndItsHostIsNotKnown) {
  MemoryConfig config;
  const auto store = config.NewSession();
  for (const char* path : {kStocsPath, kEpochsPath}) ASSERT_TRUE(store->Create(path, "").ok());
  ASSERT_TRUE(store->Create(kClusterPath, ClusterRecord{kClusterFormat, Uuid{3, 4}}.Encode()).ok());
  const StatusOr<StocId> id = DrawStocId(store.get(), Uuid{1, 2}, "stoc-1");
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(store->Get(StocPath(*id))->data, StrCat(kStore, "host=\ndraining=0\npresence=up\n"));
  EXPECT_TRUE(absl::IsInvalidArgument(DrawStocId(store.get(), Uuid{1, 2}, "a\nb").status()));
}

// An answer that was lost costs no second record of the same store: nobody would ever be up under it.
TEST(StocRecordTest, ALostAnswerLeavesNoRecordThatIsNobodys) {
  MemoryConfig config;
  const auto store = config.NewSession();
  for (const char* path : {kStocsPath, kEpochsPath}) ASSERT_TRUE(store->Create(path, "").ok());
  ASSERT_TRUE(store->Create(kClusterPath, ClusterRecord{kClusterFormat, Uuid{3, 4}}.Encode()).ok());
  ASSERT_TRUE(store->Create(kStocIdPath, "0").ok());
  for (int i = 1; i <= 4; ++i) {
    store->LoseReplies(2);  // of the counter, and of the record
    const StatusOr<StocId> id = DrawStocId(store.get(), Uuid{1, static_cast<uint64_t>(i)}, "stoc-1");
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(store->Children(kStocsPath)->size(), static_cast<size_t>(i));
  }
}

}  // namespace
}  // namespace nova
