// Any bytes, as each message of the StoC's protocol and each format it keeps on disk: refused, or what the
// message writes.
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "stoc/file_header.h"
#include "stoc/file_references.h"
#include "stoc/protocol.h"
#include "stoc/store_identity.h"

namespace nova {
namespace {

template <typename Message>
void Check(std::string_view bytes) {
  Message message;
  if (!ParseBody(bytes, &message)) return;
  std::string again = Body(message);
  if constexpr (requires { message.bytes; }) again.append(message.bytes);
  NOVA_CHECK(again == bytes);
}

template <typename Format>
void CheckFormat(std::string_view bytes) {
  const auto decoded = Format::Decode(bytes);
  if (decoded.ok()) NOVA_CHECK(*Format::Decode(decoded->Encode()) == *decoded);
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nova;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 22) {
    case 0:
      Check<OpenSegmentRequest>(bytes);
      break;
    case 1:
      Check<OpenSegmentReply>(bytes);
      break;
    case 2:
      Check<FreeLogsRequest>(bytes);
      break;
    case 3:
      Check<RangeEpochRequest>(bytes);
      break;
    case 4:
      Check<FenceReply>(bytes);
      break;
    case 5:
      Check<OpenFileRequest>(bytes);
      break;
    case 6:
      Check<OpenFileReply>(bytes);
      break;
    case 7:
      Check<PersistFileRequest>(bytes);
      break;
    case 8:
      Check<WriteSmallFileRequest>(bytes);
      break;
    case 9:
      Check<AppendFileRequest>(bytes);
      break;
    case 10:
      Check<ReadFileRequest>(bytes);
      break;
    case 11:
      Check<AddReferencesRequest>(bytes);
      Check<DropReferencesRequest>(bytes);
      break;
    case 12:
      Check<ListFilesReply>(bytes);
      Check<ListFilesRequest>(bytes);
      break;
    case 13:
      CheckFormat<FileHeader>(bytes);
      break;
    case 14:
      CheckFormat<StoreIdentity>(bytes);
      break;
    case 15:
      Check<OpenLogFileRequest>(bytes);
      break;
    case 16:
      Check<AppendLogRequest>(bytes);
      break;
    case 17: {
      const auto references = FileReferences::Decode(bytes, StocFileId{});
      if (references.ok()) NOVA_CHECK(references->Encode(StocFileId{}) == bytes);
      break;
    }
    case 18:
      Check<CopyFileRequest>(bytes);
      Check<CopyFileReply>(bytes);
      break;
    case 19:
      Check<ReadForCopyRequest>(bytes);
      Check<ReadForCopyReply>(bytes);
      break;
    case 20:
      Check<ListUnreadableReply>(bytes);
      Check<DropUnreadableRequest>(bytes);
      break;
    case 21:
      Check<CompactRequest>(bytes);
      Check<CompactReply>(bytes);
      Check<CancelJobRequest>(bytes);
      break;
  }
  return 0;
}
