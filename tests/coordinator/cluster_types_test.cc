#include "coordinator/cluster_types.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/random.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

RangeRecord Sample() {
  RangeRecord r;
  r.id = RangeId(7);
  r.lower = std::string("\0k", 2);
  r.upper = std::string("\0m", 2);
  r.epoch = Epoch(300);
  r.state = RangeState::kOpen;
  r.owner = "ltc-1";
  r.owner_incarnation = Incarnation(12);
  r.manifest = {Uuid{0x0102030405060708, 0x090a0b0c0d0e0f10}, {StocId(1), StocId(2)}};
  r.log_groups = {{GroupId(4), {{StocId(1), Incarnation(9)}, {StocId(3), Incarnation(200)}}},
                  {GroupId(5), {}}};
  r.last_group = GroupId(5);
  return r;
}

NodeInfo SampleNode() {
  NodeInfo n;
  n.name = "stoc-1";
  n.role = Role::kStoc;
  n.incarnation = Incarnation(3);
  n.address = "h:1";
  n.host = "h";
  n.stoc_id = StocId(2);
  n.store = Uuid{1, 2};
  n.metrics_address = "h:2";
  n.draining = true;
  return n;
}

void ExpectEqual(const RangeRecord& a, const RangeRecord& b) {
  EXPECT_EQ(a.Encode(), b.Encode());
  EXPECT_EQ(a.lower, b.lower);
  EXPECT_EQ(a.upper, b.upper);
  EXPECT_EQ(a.manifest, b.manifest);
  EXPECT_EQ(a.log_groups, b.log_groups);
}

TEST(RangeRecordTest, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(Sample().Encode()),
            "01"
            "07"
            "02006b"
            "02006d"
            "ac02"
            "01"
            "056c74632d31"
            "0c"
            "00"
            "0807060504030201"
            "100f0e0d0c0b0a09"
            "02"
            "01"
            "02"
            "02"
            "04"
            "02"
            "0109"
            "03c801"
            "05"
            "00"
            "05"
            "bd1f80b3");
}

// A group with files makes the record one of format 2, which names stores and media.
TEST(RangeRecordTest, GoldenBytesOfGroupsWithFiles) {
  RangeRecord r;
  r.log_groups = {{GroupId(4), {{StocId(1), Incarnation(9), Uuid{1, 2}}}, LogMedia::kMemoryAndFiles},
                  {GroupId(5), {{StocId(1), Incarnation(9)}}}};
  const std::string bytes = r.Encode();
  EXPECT_EQ(absl::BytesToHexString(bytes.substr(0, bytes.size() - 4)),
            "02"
            "00"
            "00"
            "00"
            "00"
            "00"
            "00"
            "00"
            "00"
            "0000000000000000"
            "0000000000000000"
            "00"
            "02"
            "04"
            "01"
            "0109"
            "0100000000000000"
            "0200000000000000"
            "02"
            "05"
            "01"
            "0109"
            "0000000000000000"
            "0000000000000000"
            "00"
            "00");
  const auto back = RangeRecord::Decode(bytes, 0);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(*back, r);
}

// N1: which member has what was acknowledged.
TEST(LogGroupTest, MemoryBelongsToAnIncarnationAndFilesToAStore) {
  const LogMember member{StocId(1), Incarnation(9), Uuid{1, 2}};
  const struct {
    LogMedia media;
    bool restarted, reformatted;
  } cases[] = {{LogMedia::kMemory, false, true},
               {LogMedia::kFiles, true, false},
               {LogMedia::kMemoryAndFiles, true, true}};
  for (const auto& c : cases) {
    const LogGroup g{GroupId(1), {member}, c.media};
    EXPECT_TRUE(g.Holds(member, Incarnation(9), Uuid{1, 2}));
    EXPECT_EQ(g.Holds(member, Incarnation(10), Uuid{1, 2}), c.restarted);
    EXPECT_EQ(g.Holds(member, Incarnation(9), Uuid{3, 4}), c.reformatted);
    EXPECT_FALSE(g.Holds(member, Incarnation(10), Uuid{3, 4}));
  }
}

TEST(NodeInfoTest, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(EncodeNodeInfo(SampleNode())),
            "01"
            "0673746f632d31"
            "03"
            "03"
            "03683a31"
            "0168"
            "02"
            "0100000000000000"
            "0200000000000000"
            "03683a32"
            "01"
            "e727eb91");
}

TEST(RangeRecordTest, DecodeGivesBackWhatWasEncoded) {
  RangeRecord r = Sample();
  const StatusOr<RangeRecord> back = RangeRecord::Decode(r.Encode(), 9);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectEqual(*back, r);
  EXPECT_EQ(back->version, 9);
  EXPECT_EQ(*DecodeNodeInfo(EncodeNodeInfo(SampleNode())), SampleNode());
  ExpectEqual(*RangeRecord::Decode(RangeRecord().Encode(), 0), RangeRecord());
}

// N3: longest bounds, three current groups and sixteen degraded ones of three, a manifest of three.
TEST(RangeRecordTest, ALargeRecordStaysBelow4KB) {
  RangeRecord r = Sample();
  r.id = RangeId(UINT64_MAX);
  r.epoch = Epoch(UINT64_MAX);
  r.lower = std::string(1024, 'a');
  r.upper = std::string(1024, 'b');
  r.owner = std::string(64, 'n');
  r.log_groups.clear();
  for (uint64_t g = 0; g < 19; ++g) {
    LogGroup group{GroupId((uint64_t{1} << 40) + g), {}};
    for (uint32_t m = 0; m < 3; ++m)
      group.members.push_back({StocId(100'000 + m), Incarnation(uint64_t{1} << 40)});
    r.log_groups.push_back(group);
  }
  EXPECT_LT(r.Encode().size(), 4096u);
}

TEST(RangeRecordTest, DamageIsFoundAndNeverCrashes) {
  for (const std::string& good : {Sample().Encode(), EncodeNodeInfo(SampleNode())}) {
    for (size_t n = 0; n < good.size(); ++n) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ 0x40);
      for (const std::string& data : {good.substr(0, n), bad}) {
        EXPECT_FALSE(RangeRecord::Decode(data, 0).ok());
        EXPECT_FALSE(DecodeNodeInfo(data).ok());
      }
    }
  }
}

// Behind a right checksum, too.
TEST(RangeRecordTest, RandomBytesNeverCrash) {
  Random random(3);
  for (int i = 0; i < 200'000; ++i) {
    std::string data = random.OneIn(2) ? Sample().Encode() : EncodeNodeInfo(SampleNode());
    data.resize(data.size() - 4);
    for (uint64_t n = 1 + random.Uniform(4); n > 0; --n) {
      data[1 + random.Uniform(data.size() - 1)] = static_cast<char>(random.Next());
    }
    if (random.OneIn(4)) data.resize(1 + random.Uniform(data.size()));
    PutFixed32(&data, Crc32c(data));
    const StatusOr<RangeRecord> r = RangeRecord::Decode(data, 0);
    if (r.ok()) {
      EXPECT_EQ(RangeRecord::Decode(r->Encode(), 0)->Encode(), r->Encode());
    }
    const StatusOr<NodeInfo> n = DecodeNodeInfo(data);
    if (n.ok()) {
      EXPECT_EQ(*DecodeNodeInfo(EncodeNodeInfo(*n)), *n);
    }
  }
}

TEST(RangeRecordTest, ALaterFormatIsNamed) {
  std::string data = Sample().Encode();
  data.resize(data.size() - 4);
  data[0] = 3;
  PutFixed32(&data, Crc32c(data));
  EXPECT_EQ(RangeRecord::Decode(data, 0).status().message(),
            "range record: format 3 is not known to this version, which reads 2");
}

TEST(ZnodesTest, RecordsAreText) {
  const ClusterRecord cluster{1, Uuid{1, 2}};
  EXPECT_EQ(cluster.Encode(), "format=1\nuuid=00000000000000010000000000000002\n");
  EXPECT_EQ(ClusterRecord::Decode(cluster.Encode())->uuid, cluster.uuid);
  EXPECT_TRUE(absl::IsFailedPrecondition(ClusterRecord::Decode("format=2\n").status()));
  EXPECT_TRUE(absl::IsDataLoss(ClusterRecord::Decode("").status()));
  EXPECT_TRUE(absl::IsDataLoss(ClusterRecord::Decode("format=1\nuuid=xyz\n").status()));
  const CoordRecord coord{CoordEpoch(7), "coord-1", "h:1", 2500 * kMillisecond, Uuid{3, 4}};
  EXPECT_EQ(coord.Encode(),
            "coord_epoch=7\nleader=coord-1\naddress=h:1\nmax_lease_ms=2500\nnonce="
            "00000000000000030000000000000004\n");
  const StatusOr<CoordRecord> back = CoordRecord::Decode(coord.Encode() + "later=1\n");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Encode(), coord.Encode());
  EXPECT_EQ(CoordRecord::Decode("")->coord_epoch, CoordEpoch(0));
  EXPECT_TRUE(absl::IsDataLoss(CoordRecord::Decode("coord_epoch=x\n").status()));
}

TEST(ZnodesTest, NodeNamesAreOneComponent) {
  for (const char* good : {"a", "ltc-1", "host.example_2"}) EXPECT_TRUE(IsNodeName(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "a b", "\n"}) EXPECT_FALSE(IsNodeName(bad)) << bad;
  EXPECT_FALSE(IsNodeName(std::string(65, 'a')));
}

}  // namespace
}  // namespace nova
