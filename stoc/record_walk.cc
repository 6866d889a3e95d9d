#include "stoc/record_walk.h"

#include <algorithm>

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
  if (length == 0) return 0;
  if (kind_ == FileHeader::Kind::kAppended) return kPrefixBytes + length;
  return length < kLogHeaderBytes || length % kLogAlignment != 0 ? 0 : length;
}

bool RecordWalk::Begin() {
  const uint64_t length = LengthAt(begin_);
  if (length == 0) return false;
  left_ = length - kPrefixBytes;
  crc_ = ExtendCrc32c(salt_, begin_.data() + kCrcBytes, kPrefixBytes - kCrcBytes);
  reached_ = whole_;
  reached_.Note(reached_.end, begin_);
  return true;
}

void RecordWalk::End() {
  const bool checks = crc_ == DecodeFixed32(begin_.data());
  all_whole_ = all_whole_ && checks;
  if (all_whole_) whole_ = reached_;
  damaged_ = damaged_ || (checks && !all_whole_);
  begin_.clear();
}

void RecordWalk::Take(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    if (begin_.size() < kPrefixBytes) {
      const size_t n = std::min(bytes.size(), kPrefixBytes - begin_.size());
      begin_ += bytes.substr(0, n);
      bytes.remove_prefix(n);
      ended_ = begin_.size() == kPrefixBytes && !Begin();
      continue;
    }
    const std::string_view part = bytes.substr(0, left_);
    crc_ = ExtendCrc32c(crc_, part.data(), part.size());
    reached_.Note(reached_.end, part);
    left_ -= part.size();
    bytes.remove_prefix(part.size());
    if (left_ == 0) End();
  }
}

}  // namespace nova
