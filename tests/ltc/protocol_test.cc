#include "ltc/wire/protocol.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace nova {
namespace {

constexpr RangeId kRange(1);
constexpr Epoch kEpoch(2);
constexpr char kWhere[] =
    "0100000000000000"
    "0200000000000000";  // range and epoch
constexpr char kWriter[] =
    "0300000000000000"
    "0400000000000000";

std::string Hex(std::string_view bytes) { return absl::BytesToHexString({bytes.data(), bytes.size()}); }
std::string Where(std::string_view rest) { return std::string(kWhere).append(rest); }
std::string Writer(std::string_view rest) { return std::string(kWhere).append(kWriter).append(rest); }

TEST(LtcProtocolTest, GoldenBytes) {
  EXPECT_EQ(Hex((WriteRequest{kRange, kEpoch, 3, 4, "key", "value"}).EncodeHeader()), Writer("0300"
                                                                                             "0000"));
  EXPECT_EQ(Hex((WriteRequest{kRange, kEpoch, 3, 4, "key", "value", 5}).EncodeHeader()),
            Writer("0300"
                   "0100"
                   "0500000000000000"));
  EXPECT_EQ(
      Hex((WriteRequest{kRange, kEpoch, 3, 4, "key", "value", std::nullopt, /*sync=*/false}).EncodeHeader()),
      Writer("0300"
             "0200"));
  EXPECT_EQ(Hex(Body(GetRequest{kRange, kEpoch, 6, "key"})), Where("0600000000000000"));
  EXPECT_EQ(Hex((ScanRequest{kRange, kEpoch, 6, 5, true, "from", "to"}).Encode()), Where("0600000000000000"
                                                                                         "05000000"
                                                                                         "01"
                                                                                         "0400"
                                                                                         "0200"
                                                                                         "66726f6d746f"));
  EXPECT_EQ(Hex(Body(ScanReply{7, true, {}})), "0700000001");
  EXPECT_EQ(Hex(Body(BeginScanRequest{kRange, kEpoch, 9, 5, true, false, "from", "to"})),
            Where("09000000"
                  "05000000"
                  "01"
                  "00"
                  "04"
                  "66726f6d746f"));
  EXPECT_EQ(Hex(Body(BeginScanReply{6, {7, true, {}}})),
            "0600000000000000"
            "0700000001");
  EXPECT_EQ(Hex((BatchRequest{kRange, kEpoch, 3, 4, 2, {}}).EncodeHeader()), Writer("02000000"));
  EXPECT_EQ(Hex((BatchRequest{kRange, kEpoch, 3, 4, 2, {}, /*sync=*/false}).EncodeHeader()),
            Writer("02000080"));
  std::string entries;
  BatchRequest::AppendEntry("p", {ValueType::kPut, "k", "val", 0}, &entries);
  BatchRequest::AppendEntry("p", {ValueType::kDelete, "k", "", 0}, &entries);
  BatchRequest::AppendEntry("p", {ValueType::kPutTtl, "k", "v", 300}, &entries);
  EXPECT_EQ(Hex(entries),
            "010203"
            "706b76616c"
            "000200"
            "706b"
            "030201ac02"
            "706b76");
  EXPECT_EQ(Hex((CompareAndSwapRequest{kRange, kEpoch, 3, 4, "key", "old", "new"}).EncodeHeader()),
            Writer("0300"
                   "03"
                   "03000000"));
  EXPECT_EQ(Hex((CompareAndSwapRequest{kRange, kEpoch, 3, 4, "key", std::nullopt, "new"}).EncodeHeader()),
            Writer("0300"
                   "02"
                   "00000000"));
  EXPECT_EQ(Hex((CompareAndSwapRequest{kRange, kEpoch, 3, 4, "key", std::nullopt, "new", /*sync=*/false})
                    .EncodeHeader()),
            Writer("0300"
                   "06"
                   "00000000"));
  EXPECT_EQ(Hex(Body(MultiGetRequest{kRange, kEpoch, 6, {"a", "bc"}})), Where("0600000000000000"
                                                                              "02000000"
                                                                              "0161"
                                                                              "026263"));
  std::string answers = MultiGetReply::EncodeHeader(2);
  MultiGetReply::AppendAnswer("val", &answers);
  MultiGetReply::AppendAnswer(std::nullopt, &answers);
  EXPECT_EQ(Hex(answers),
            "02000000"
            "0103"
            "76616c"
            "00");
  EXPECT_EQ(Hex(Body(TakeSnapshotRequest{kRange, kEpoch, 7})), Where("07000000"));
  EXPECT_EQ(Hex(Body(RenewSnapshotRequest{kRange, kEpoch, 6, 7})), Where("0600000000000000"
                                                                         "07000000"));
  EXPECT_EQ(Hex(Body(DropSnapshotRequest{kRange, kEpoch, 6})), Where("0600000000000000"));
  EXPECT_EQ(Hex(Body(TakeSnapshotReply{8})), "0800000000000000");
  EXPECT_EQ(Hex(Body(CheckpointRequest{kRange, kEpoch, CheckpointVerb::kRestore, "ab"})), Where("04"
                                                                                                "6162"));
  EXPECT_EQ(Hex(Body(CheckpointReply{{{"ab", 1, 2, 3, 4}}})),
            "026162"
            "0100000000000000"
            "0200000000000000"
            "0300000000000000"
            "0400000000000000");
}

TEST(LtcProtocolTest, NoSyncArrivesAsItWasSent) {
  for (const bool sync : {true, false}) {
    for (const std::optional<uint64_t> ttl_ms : {std::optional<uint64_t>(), std::optional<uint64_t>(7)}) {
      WriteRequest write{kRange, kEpoch, 3, 4, "key", "", ttl_ms, sync};
      const std::string w = write.EncodeHeader() + "keyvalue";
      ASSERT_TRUE(WriteRequest::Parse(w, &write));
      EXPECT_EQ(write.sync, sync);
      EXPECT_EQ(write.ttl_ms, ttl_ms);
    }
    BatchRequest batch{kRange, kEpoch, 3, 4, 5, {}, sync};
    const std::string b = batch.EncodeHeader();
    ASSERT_TRUE(BatchRequest::Parse(b, &batch));
    EXPECT_EQ(batch.sync, sync);
    EXPECT_EQ(batch.count, 5u);
    CompareAndSwapRequest swap{kRange, kEpoch, 3, 4, "key", std::nullopt, "new", sync};
    const std::string c = swap.EncodeHeader() + "keynew";
    ASSERT_TRUE(CompareAndSwapRequest::Parse(c, &swap));
    EXPECT_EQ(swap.sync, sync);
    EXPECT_FALSE(swap.expected);
    EXPECT_EQ(swap.desired, "new");
  }
}

// Refuses every prefix of `whole` that is shorter than `least`, and takes all of it.
template <typename ParseFn>
void ExpectTruncationsRefused(const std::string& whole, size_t least, const ParseFn& parse) {
  for (size_t n = 0; n < least; ++n) EXPECT_FALSE(parse(std::string_view(whole).substr(0, n))) << n;
  EXPECT_TRUE(parse(whole));
}

TEST(LtcProtocolTest, EveryTruncationIsRefused) {
  CheckpointRequest checkpoint{kRange, kEpoch, CheckpointVerb::kCreate, ""};
  ExpectTruncationsRefused(Body(checkpoint), 17,
                           [&](std::string_view in) { return ParseBody(in, &checkpoint); });
  EXPECT_FALSE(ParseBody(Body(CheckpointRequest{kRange, kEpoch, CheckpointVerb::kList, "x"}), &checkpoint));
  EXPECT_FALSE(ParseBody(std::string(16, 'r').append("\x05"), &checkpoint));
  CheckpointReply list{{{"ab", 1, 2, 3, 4}}};
  const std::string one = Body(list);
  EXPECT_TRUE(ParseBody("", &list)) << "no checkpoints";
  for (size_t n = 1; n < one.size(); ++n)
    EXPECT_FALSE(ParseBody(std::string_view(one).substr(0, n), &list)) << n;
  EXPECT_TRUE(ParseBody(one, &list));
  EXPECT_EQ(list.entries[0].pinned_bytes, 4u);
  WriteRequest write{kRange, kEpoch, 3, 4, "key", "", 9};
  const std::string w = write.EncodeHeader() + "keyvalue";
  ExpectTruncationsRefused(w, w.size() - 5,
                           [&](std::string_view in) { return WriteRequest::Parse(in, &write); });
  EXPECT_EQ(write.key, "key");
  EXPECT_EQ(write.value, "value");
  EXPECT_EQ(write.ttl_ms, 9u);
  ScanRequest scan{kRange, kEpoch, 6, 5, true, "from", "to"};
  const std::string s = scan.Encode();
  ExpectTruncationsRefused(s, s.size(), [&](std::string_view in) { return ScanRequest::Parse(in, &scan); });
  EXPECT_EQ(scan.from, "from");
  EXPECT_EQ(scan.to, "to");
  EXPECT_TRUE(scan.reverse);
  EXPECT_EQ(scan.snapshot, 6u);
  EXPECT_FALSE(ScanRequest::Parse(s + "x", &scan));
  GetRequest get;
  EXPECT_FALSE(ParseBody("shorter than 3 x 8 byte", &get));
  ScanReply reply;
  EXPECT_FALSE(ParseBody("1234", &reply));
  EXPECT_FALSE(ParseBody("1234\x02", &reply));
  EXPECT_FALSE(ParseBody("1234\x89", &reply));
  CompareAndSwapRequest swap{kRange, kEpoch, 3, 4, "key", "old", "new"};
  const std::string c = swap.EncodeHeader() + "keyoldnew";
  ExpectTruncationsRefused(c, c.size() - 3,
                           [&](std::string_view in) { return CompareAndSwapRequest::Parse(in, &swap); });
  EXPECT_EQ(swap.key, "key");
  EXPECT_EQ(swap.expected, "old");
  EXPECT_EQ(swap.desired, "new");
  MultiGetRequest multi{kRange, kEpoch, 6, {"a", "bc"}};
  const std::string m = Body(multi);
  ExpectTruncationsRefused(m, m.size(), [&](std::string_view in) { return ParseBody(in, &multi); });
  EXPECT_EQ(multi.keys, (std::vector<std::string_view>{"a", "bc"}));
  EXPECT_FALSE(ParseBody(m + "x", &multi));
  std::string answers = MultiGetReply::EncodeHeader(2);
  MultiGetReply::AppendAnswer("val", &answers);
  MultiGetReply::AppendAnswer(std::nullopt, &answers);
  MultiGetReply got;
  ExpectTruncationsRefused(answers, answers.size(), [&](std::string_view in) { return ParseBody(in, &got); });
  EXPECT_EQ(got.values[0], "val");
  EXPECT_FALSE(got.values[1]);
  const auto exactly = [](auto sent) {
    const std::string all = Body(sent);
    ExpectTruncationsRefused(all, all.size(), [&](std::string_view in) { return ParseBody(in, &sent); });
    EXPECT_FALSE(ParseBody(all + "x", &sent));
  };
  exactly(TakeSnapshotRequest{kRange, kEpoch, 7});
  exactly(RenewSnapshotRequest{kRange, kEpoch, 6, 7});
  exactly(DropSnapshotRequest{kRange, kEpoch, 6});
  exactly(TakeSnapshotReply{8});
}

TEST(LtcProtocolTest, BatchesArriveAsTheyWereSent) {
  const std::vector<WriteBatch::Entry> sent = {{ValueType::kPut, "a", "1", 0},
                                               {ValueType::kDelete, "b", "", 0},
                                               {ValueType::kPutTtl, "c", "3", kMaxTtlMs},
                                               {ValueType::kPut, "d", "", 0},
                                               {ValueType::kDeleteRange, "e", "g", 0}};
  std::string entries;
  for (const auto& e : sent) BatchRequest::AppendEntry("", e, &entries);
  const std::string body =
      BatchRequest{kRange, kEpoch, 3, 4, static_cast<uint32_t>(sent.size()), {}}.EncodeHeader() + entries;
  const auto parse = [](std::string_view in, std::vector<WriteBatch::Entry>* out) {
    BatchRequest request;
    return BatchRequest::Parse(in, &request) && request.ParseEntries(out);
  };
  std::vector<WriteBatch::Entry> got;
  ASSERT_TRUE(parse(body, &got));
  ASSERT_EQ(got.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(got[i].type, sent[i].type);
    EXPECT_EQ(got[i].key, sent[i].key);
    EXPECT_EQ(got[i].value, sent[i].value);
    EXPECT_EQ(got[i].ttl_ms, sent[i].ttl_ms);
  }
  for (size_t n = 0; n < body.size(); ++n)
    EXPECT_FALSE(parse(std::string_view(body).substr(0, n), &got)) << n;
  EXPECT_FALSE(parse(body + "x", &got));
  std::string unknown = body;
  unknown[36] = static_cast<char>(ValueType::kPrepare);
  EXPECT_FALSE(parse(unknown, &got));
  std::string value_of_a_delete = BatchRequest{kRange, kEpoch, 3, 4, 1, {}}.EncodeHeader();
  BatchRequest::AppendEntry("", {ValueType::kDelete, "a", "1", 0}, &value_of_a_delete);
  EXPECT_FALSE(parse(value_of_a_delete, &got));
}

TEST(LtcProtocolTest, WhatIsNotGivenIsNotEmpty) {
  for (const auto& [expected, desired] :
       std::vector<std::pair<std::optional<std::string_view>, std::optional<std::string_view>>>{
           {std::nullopt, std::nullopt}, {"", std::nullopt}, {std::nullopt, ""}, {"", ""}}) {
    const CompareAndSwapRequest sent{kRange, kEpoch, 3, 4, "k", expected, desired};
    const std::string body = sent.EncodeHeader() + "k";
    CompareAndSwapRequest got;
    ASSERT_TRUE(CompareAndSwapRequest::Parse(body, &got));
    EXPECT_EQ(got.expected, expected);
    EXPECT_EQ(got.desired, desired);
    EXPECT_EQ(CompareAndSwapRequest::Parse(body + "x", &got), desired.has_value())
        << "bytes of what is not given";
  }
}

}  // namespace
}  // namespace nova
