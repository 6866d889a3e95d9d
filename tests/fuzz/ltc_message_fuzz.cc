// libFuzzer: requests and replies of clients and LTCs, as they come off the wire.
#include <cstddef>
#include <cstdint>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "ltc/wire/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  nova::WriteRequest write;
  if (nova::WriteRequest::Parse(body, &write)) {
    NOVA_CHECK(write.EncodeHeader() + std::string(write.key) + std::string(write.value) == body);
  }
  nova::GetRequest get;
  if (nova::GetRequest::Parse(body, &get)) NOVA_CHECK(get.EncodeHeader() + std::string(get.key) == body);
  nova::ScanRequest scan;
  if (nova::ScanRequest::Parse(body, &scan)) NOVA_CHECK(scan.Encode() == body);
  nova::ScanReply reply;
  if (nova::ScanReply::Parse(body, &reply)) {
    NOVA_CHECK(reply.EncodeHeader() + std::string(reply.entries) == body);
    std::string_view in = reply.entries, key, value;
    while (nova::GetLengthPrefixed(&in, &key) && nova::GetLengthPrefixed(&in, &value)) {
    }
  }
  nova::BatchRequest batch;
  std::vector<nova::WriteBatch::Entry> parsed;
  if (nova::BatchRequest::Parse(body, &batch) && batch.ParseEntries(&parsed)) {
    std::string again = batch.EncodeHeader();
    for (const auto& entry : parsed) nova::BatchRequest::AppendEntry("", entry, &again);
    NOVA_CHECK(again == body);
  }
  nova::CompareAndSwapRequest swap;
  if (nova::CompareAndSwapRequest::Parse(body, &swap)) {
    NOVA_CHECK(swap.EncodeHeader() + std::string(swap.key) + std::string(swap.expected.value_or("")) +
                   std::string(swap.desired.value_or("")) ==
               body);
  }
  nova::MultiGetRequest multi_get;
  if (nova::MultiGetRequest::Parse(body, &multi_get)) NOVA_CHECK(multi_get.Encode() == body);
  nova::MultiGetReply answers;
  if (nova::MultiGetReply::Parse(body, &answers)) {
    std::string again = nova::MultiGetReply::EncodeHeader(static_cast<uint32_t>(answers.values.size()));
    for (const auto& value : answers.values)
      nova::MultiGetReply::AppendAnswer(value ? std::optional<std::string>(*value) : std::nullopt, &again);
    NOVA_CHECK(again == body);
  }
  for (const auto type :
       {nova::LtcRequest::kTakeSnapshot, nova::LtcRequest::kRenewSnapshot, nova::LtcRequest::kDropSnapshot}) {
    nova::SnapshotRequest snapshot;
    if (nova::SnapshotRequest::Parse(type, body, &snapshot)) NOVA_CHECK(snapshot.Encode(type) == body);
  }
  nova::CheckpointRequest checkpoint;
  if (nova::CheckpointRequest::Parse(body, &checkpoint)) NOVA_CHECK(checkpoint.Encode() == body);
  nova::CheckpointReply checkpoints;
  nova::CheckpointReply::Parse(body, &checkpoints);
  nova::SnapshotReply taken;
  if (nova::SnapshotReply::Parse(body, &taken)) NOVA_CHECK(taken.Encode() == body);
  return 0;
}
