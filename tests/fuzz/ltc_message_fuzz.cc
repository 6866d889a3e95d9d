// libFuzzer: requests and replies of clients and LTCs, as they come off the wire.
#include <cstddef>
#include <cstdint>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "ltc/wire/protocol.h"

namespace nova {
namespace {

template <typename Message>
void Check(std::string_view body) {
  Message message;
  if (!ParseBody(body, &message)) return;
  std::string again = Body(message);
  if constexpr (requires { message.key; }) again += message.key;
  if constexpr (std::is_same_v<Message, ScanReply>) again += message.entries;
  if constexpr (std::is_same_v<Message, BeginScanReply>) again += message.page.entries;
  NOVA_CHECK(again == body);
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  nova::WriteRequest write;
  if (nova::WriteRequest::Parse(body, &write)) {
    NOVA_CHECK(write.EncodeHeader() + std::string(write.key) + std::string(write.value) == body);
  }
  nova::Check<nova::GetRequest>(body);
  nova::ScanRequest scan;
  if (nova::ScanRequest::Parse(body, &scan)) NOVA_CHECK(scan.Encode() == body);
  nova::Check<nova::ScanReply>(body);
  nova::Check<nova::BeginScanRequest>(body);
  nova::Check<nova::BeginScanReply>(body);
  nova::ScanReply reply;
  if (nova::ParseBody(body, &reply)) {
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
  nova::Check<nova::MultiGetRequest>(body);
  nova::Check<nova::MultiGetReply>(body);
  nova::Check<nova::TakeSnapshotRequest>(body);
  nova::Check<nova::TakeSnapshotReply>(body);
  nova::Check<nova::RenewSnapshotRequest>(body);
  nova::Check<nova::DropSnapshotRequest>(body);
  nova::Check<nova::CheckpointRequest>(body);
  nova::Check<nova::CheckpointReply>(body);
  return 0;
}
