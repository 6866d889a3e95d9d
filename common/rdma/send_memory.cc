#include "common/rdma/send_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace nova {
namespace {

// Each size of pieces may keep a slab that it hardly uses: together they are less than what is kept for calls
// (XchgShares).
size_t SlabBytes(size_t pool_bytes) {
  return std::clamp<size_t>(std::bit_floor(pool_bytes / 128), 64 << 10, 1 << 20);
}

// Reads the bytes of several parts in a row.
class PartsReader {
 public:
  explicit PartsReader(std::span<const std::string_view> parts) : parts_(parts) {}
  void CopyTo(std::byte* to, size_t bytes) {
    for (size_t copied = 0; copied < bytes;) {
      const std::string_view rest = parts_[part_].substr(offset_, bytes - copied);
      if (!rest.empty()) std::memcpy(to + copied, rest.data(), rest.size());
      copied += rest.size();
      offset_ += rest.size();
      if (offset_ == parts_[part_].size()) {
        ++part_;
        offset_ = 0;
      }
    }
  }

 private:
  std::span<const std::string_view> parts_;
  size_t part_ = 0, offset_ = 0;  // of what is read next
};

}  // namespace

SendMemory::SendMemory(Fabric* fabric, size_t max_bytes)
    : pool_(fabric, Access::kLocal, max_bytes, SlabBytes(max_bytes)) {}

bool SendMemory::Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total,
                        size_t most_bytes) {
  message_.clear();
  const uint8_t kind = header.flags & MessageHeader::kReply;
  PartsReader reader(parts);
  size_t left = total;
  do {
    const size_t body = std::min(left, most_bytes - sizeof(MessageHeader));
    const size_t length = sizeof(MessageHeader) + body;
    Buffer buffer = pool_.Allocate(length);
    if (!buffer) {
      for (const Piece& piece : message_) Free(piece.index);
      return false;
    }
    const bool first = message_.empty();
    header.body_length = static_cast<uint32_t>(first ? total : body);
    header.flags = static_cast<uint8_t>(kind | (first ? 0 : MessageHeader::kContinuation) |
                                        (body < left ? MessageHeader::kMorePieces : 0));
    std::memcpy(buffer.data(), &header, sizeof(header));
    reader.CopyTo(buffer.data() + sizeof(header), body);
    left -= body;
    const LocalBuffer local = {buffer.data(), static_cast<uint32_t>(length), buffer.lkey()};
    const size_t taken = buffer.capacity();
    message_.push_back({Keep(std::move(buffer)), local, taken});
  } while (left > 0);
  return true;
}

uint32_t SendMemory::Keep(Buffer buffer) {
  bytes_ += buffer.capacity();
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(pieces_.size()));
    pieces_.emplace_back();
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  pieces_[index] = std::move(buffer);
  return index;
}

size_t SendMemory::Free(uint32_t index) {
  const size_t taken = pieces_[index].capacity();
  bytes_ -= taken;
  pieces_[index].Reset();
  free_.push_back(index);
  return taken;
}

void SendMemory::FreeAll() {
  pieces_.clear();
  free_.clear();
  bytes_ = 0;
}

}  // namespace nova
