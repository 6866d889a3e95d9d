#include "stoc/file_header.h"

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr uint32_t kFileMagic = 0x3146564e;  // 'NVF1'
constexpr uint16_t kFileFormat = 1;

}  // namespace

std::string FileHeader::Encode() const {
  std::string body;
  PutFixed16(&body, kFileFormat);
  PutFixed16(&body, static_cast<uint16_t>(kind));
  PutFixed32(&body, file.part);
  PutFixed64(&body, file.owner.hi);
  PutFixed64(&body, file.owner.lo);
  PutFixed64(&body, creator.range.value());
  PutFixed64(&body, creator.epoch.value());
  PutFixed64(&body, creator.job);
  PutFixed64(&body, size);
  PutFixed64(&body, created_ms);
  PutFixed32(&body, data_crc);
  PutFixed32(&body, 0);
  std::string bytes;
  PutFixed32(&bytes, kFileMagic);
  PutFixed32(&bytes, Crc32c(body));
  bytes += body;
  NOVA_CHECK(bytes.size() == kFileHeaderBytes);
  return bytes;
}

StatusOr<FileHeader> FileHeader::Decode(std::string_view bytes) {
  if (bytes.size() != kFileHeaderBytes) return absl::DataLossError("file header cut short");
  const char* p = bytes.data();
  if (DecodeFixed32(p) != kFileMagic || DecodeFixed32(p + 4) != Crc32c(bytes.substr(8))) {
    return absl::DataLossError("file header fails its checksum");
  }
  const uint16_t format = DecodeFixed16(p + 8);
  const uint16_t kind = DecodeFixed16(p + 10);
  if (format != kFileFormat || kind < 1 || kind > 3) {
    return absl::DataLossError(StrCat("file header of format ", format, ", kind ", kind));
  }
  FileHeader h;
  h.kind = static_cast<Kind>(kind);
  h.file.part = DecodeFixed32(p + 12);
  h.file.owner = {DecodeFixed64(p + 16), DecodeFixed64(p + 24)};
  h.creator = {RangeId(DecodeFixed64(p + 32)), Epoch(DecodeFixed64(p + 40)), DecodeFixed64(p + 48)};
  h.size = DecodeFixed64(p + 56);
  h.created_ms = DecodeFixed64(p + 64);
  h.data_crc = DecodeFixed32(p + 72);
  return h;
}

}  // namespace nova
