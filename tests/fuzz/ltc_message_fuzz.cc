// libFuzzer: requests and replies of clients and LTCs, as they come off the wire.
#include <cstddef>
#include <cstdint>

#include "common/base/coding.h"
#include "common/base/log.h"
#include "ltc/protocol.h"

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
  return 0;
}
