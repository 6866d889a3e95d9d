// The record of an owned range: whose change it was that came first.
#include "ltc/server/record_keeper.h"

#include <gtest/gtest.h>

namespace nova {
namespace {

constexpr RangeId kRange(7);

RangeRecord RecordOf(const std::string& owner, Epoch epoch, Incarnation incarnation, int64_t version) {
  RangeRecord r;
  r.id = kRange;
  r.epoch = epoch;
  r.owner = owner;
  r.owner_incarnation = incarnation;
  r.version = version;
  return r;
}

// A session with a store that holds one record.
class OneRecord : public NodeSession {
 public:
  explicit OneRecord(RangeRecord stored) : stored_(std::move(stored)) {}
  const NodeInfo& self() const override { return self_; }
  Uuid cluster() const override { return Uuid(); }
  Nanos lease_expiry_ns() const override { return 0; }
  std::vector<NodeInfo> stocs() const override { return {}; }
  StatusOr<RangeRecord> ReadRange(RangeId) override { return stored_; }
  StatusOr<std::vector<RangeRecord>> ReadRanges() override { return std::vector<RangeRecord>{stored_}; }
  StatusOr<RangeRecord> UpdateRange(const RangeRecord& record) override {
    if (record.version != stored_.version) return absl::AbortedError("somebody was first");
    stored_ = record;
    ++stored_.version;
    return stored_;
  }
  StatusOr<Handover> HandOverRange(const RangeRecord&, const RangeRecord& after, Nanos) override {
    NOVA_ASSIGN_OR_RETURN(RangeRecord record, UpdateRange(after));
    return Handover{std::move(record)};
  }
  void BeginToLeave() override {}

 private:
  const NodeInfo self_;
  RangeRecord stored_;
};

// What an Update of ltc-1's record, known at version 3, comes to where the store has `stored`.
Status UpdateWhere(const RangeRecord& stored, RangeRecord* after = nullptr) {
  const auto session = std::make_shared<OneRecord>(stored);
  HostServices services;
  services.session = [session] { return session; };
  RecordKeeper keeper(&services, RecordOf("ltc-1", Epoch(5), Incarnation(91), 3));
  const Status s = keeper.Update([](RangeRecord* r) {
    r->state = RangeState::kOpen;
    return OkStatus();
  });
  if (after != nullptr) *after = *session->ReadRange(kRange);
  return s;
}

TEST(RecordKeeperTest, AChangeThatEndedInDoubtAndWasMadeIsTakenOver) {
  RangeRecord after;
  ASSERT_TRUE(UpdateWhere(RecordOf("ltc-1", Epoch(5), Incarnation(91), 4), &after).ok());
  EXPECT_EQ(after.state, RangeState::kOpen);
  EXPECT_EQ(after.version, 5);
}

// A log group that is added then would be one that nobody has written to, and that every opening asks for.
TEST(RecordKeeperTest, R5WhatIsReleasedIsLeftAsItIs) {
  const auto session = std::make_shared<OneRecord>(RecordOf("ltc-1", Epoch(5), Incarnation(91), 3));
  HostServices services;
  services.session = [session] { return session; };
  RecordKeeper keeper(&services, RecordOf("ltc-1", Epoch(5), Incarnation(91), 3));
  ASSERT_TRUE(keeper
                  .UpdateOrCancel([] {},
                                  [](RangeRecord* r) {
                                    r->released = true;
                                    r->owner.clear();
                                    r->owner_incarnation = Incarnation();
                                  })
                  .ok());
  const Status s = keeper.Update([](RangeRecord* r) {
    r->log_groups.emplace_back();
    return OkStatus();
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
  EXPECT_TRUE(session->ReadRange(kRange)->log_groups.empty());
}

TEST(RecordKeeperTest, N1ARecordOfAnotherOwnerIsNoneOfOurs) {
  RangeRecord after;
  for (const RangeRecord& stored :
       {RecordOf("ltc-1", Epoch(6), Incarnation(91), 4), RecordOf("ltc-1", Epoch(5), Incarnation(92), 4),
        // The store was set back, and gave our incarnation again.
        RecordOf("ltc-2", Epoch(5), Incarnation(91), 4)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(UpdateWhere(stored, &after))) << stored.owner;
    EXPECT_EQ(after.Encode(), stored.Encode());
  }
}

}  // namespace
}  // namespace nova
