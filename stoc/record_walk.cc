#include "stoc/record_walk.h"

#include "common/base/coding.h"
#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr uint64_t kCrcBytes = 4;
constexpr uint64_t kPrefixBytes = 8;  // crc, length
constexpr uint64_t kLogHeaderBytes = 48;
constexpr uint64_t kLogAlignment = 8;

uint32_t SaltOf(const Uuid& owner) {
  char bytes[16];
  EncodeFixed64(bytes, owner.hi);
  EncodeFixed64(bytes + 8, owner.lo);
  return ExtendCrc32c(0, bytes, sizeof(bytes));
}

}  // namespace

RecordWalk::RecordWalk(FileHeader::Kind kind, const Uuid& owner) : kind_(kind), salt_(SaltOf(owner)) {}

uint64_t RecordWalk::LengthAt(std::string_view bytes) const {
  const uint64_t length = DecodeFixed32(bytes.data() + kCrcBytes);
  if (length == 0 || length > kMaxAppendBytes) return 0;
  if (kind_ == FileHeader::Kind::kAppended) return kPrefixBytes + length;
  return length < kLogHeaderBytes || length % kLogAlignment != 0 ? 0 : length;
}

bool RecordWalk::Checks(std::string_view record) const {
  return ExtendCrc32c(salt_, record.data() + kCrcBytes, record.size() - kCrcBytes) ==
         DecodeFixed32(record.data());
}

void RecordWalk::Take(std::string_view bytes) {
  if (ended_) return;
  kept_ += bytes;
  std::string_view left = kept_;
  while (left.size() >= kPrefixBytes) {
    const uint64_t length = LengthAt(left);
    ended_ = length == 0;
    if (ended_ || left.size() < length) break;
    const bool checks = Checks(left.substr(0, length));
    all_whole_ = all_whole_ && checks;
    if (all_whole_) whole_.Note(whole_.end, left.substr(0, length));
    damaged_ = damaged_ || (checks && !all_whole_);
    left.remove_prefix(length);
  }
  kept_.erase(0, kept_.size() - left.size());
}

}  // namespace nova
