#include "stoc/file_references.h"

#include <algorithm>

#include "common/base/coding.h"
#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr uint32_t kMagic = 0x3152564e;  // 'NVR1'
constexpr uint32_t kFormat = 1;

}  // namespace

bool FileReferences::Has(RangeId range, Epoch upto) const {
  return std::any_of(all.begin(), all.end(),
                     [&](const Reference& r) { return r.range == range && r.epoch <= upto; });
}

void FileReferences::Add(RangeId range, Epoch epoch, uint64_t now_ms) {
  const auto there =
      std::find_if(all.begin(), all.end(), [range](const Reference& r) { return r.range == range; });
  if (there == all.end()) {
    all.push_back({range, epoch, now_ms});
  } else if (epoch > there->epoch) {
    *there = {range, epoch, now_ms};
  }
}

bool FileReferences::Drop(RangeId range, Epoch upto) {
  return std::erase_if(all, [&](const Reference& r) { return r.range == range && r.epoch <= upto; }) > 0;
}

std::string FileReferences::Encode(const StocFileId& file) const {
  std::string body;
  PutFixed32(&body, kFormat);
  PutFixed32(&body, file.part);
  PutFixed64(&body, file.owner.hi);
  PutFixed64(&body, file.owner.lo);
  PutFixed32(&body, static_cast<uint32_t>(all.size()));
  for (const Reference& r : all) {
    PutFixed64(&body, r.range.value());
    PutFixed64(&body, r.epoch.value());
    PutFixed64(&body, r.added_ms);
  }
  std::string bytes;
  PutFixed32(&bytes, kMagic);
  PutFixed32(&bytes, Crc32c(body));
  return bytes + body;
}

StatusOr<FileReferences> FileReferences::Decode(std::string_view bytes, const StocFileId& file) {
  uint32_t magic, crc, format, count;
  StocFileId named;
  if (!GetFixed32(&bytes, &magic) || !GetFixed32(&bytes, &crc) || magic != kMagic || crc != Crc32c(bytes)) {
    return absl::DataLossError("the list of references fails its checksum");
  }
  if (!GetFixed32(&bytes, &format) || format != kFormat)
    return absl::DataLossError("a list of references of another format");
  if (!GetFixed32(&bytes, &named.part) || !GetFixed64(&bytes, &named.owner.hi) ||
      !GetFixed64(&bytes, &named.owner.lo) || named != file) {
    return absl::DataLossError("the list of references is of another file");
  }
  FileReferences references;
  if (!GetFixed32(&bytes, &count)) return absl::DataLossError("the list of references is cut short");
  for (uint64_t range, epoch, added_ms; count > 0; --count) {
    if (!GetFixed64(&bytes, &range) || !GetFixed64(&bytes, &epoch) || !GetFixed64(&bytes, &added_ms)) {
      return absl::DataLossError("the list of references is cut short");
    }
    references.all.push_back({RangeId(range), Epoch(epoch), added_ms});
  }
  if (!bytes.empty()) return absl::DataLossError("the list of references is longer than it says");
  return references;
}

}  // namespace nova
