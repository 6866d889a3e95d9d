#include "common/rdma/message.h"

#include <algorithm>
#include <cstring>

namespace nova {
namespace {

constexpr size_t kReserveAtMost = 1 << 20;  // before the bytes have come, a length is only a claim
constexpr uint8_t kKnownFlags =
    MessageHeader::kReply | MessageHeader::kMorePieces | MessageHeader::kContinuation;

}  // namespace

MessageAssembler::Result MessageAssembler::Add(std::span<const std::byte> piece, Message* out) {
  MessageHeader h;
  if (piece.size() < sizeof(h)) return Result::kMalformed;
  std::memcpy(&h, piece.data(), sizeof(h));
  const std::string_view body(reinterpret_cast<const char*>(piece.data()) + sizeof(h),
                              piece.size() - sizeof(h));
  if (h.magic != MessageHeader::kMagic || h.type == 0 || h.type > MessageHeader::kMaxType ||
      (h.flags & ~kKnownFlags) != 0) {
    return Result::kMalformed;
  }
  const bool more = (h.flags & MessageHeader::kMorePieces) != 0;
  const bool continues = (h.flags & MessageHeader::kContinuation) != 0;
  if (continues != assembling_) return Result::kMalformed;
  if (!continues) {
    if (h.body_length > max_message_bytes_) return Result::kMalformed;
    if (!more) {
      if (h.body_length != body.size()) return Result::kMalformed;
      *out = {h, body};
      return Result::kMessage;
    }
    if (body.empty() || body.size() >= h.body_length) return Result::kMalformed;
    header_ = h;
    body_.clear();
    body_.reserve(std::min<size_t>(h.body_length, kReserveAtMost));
    body_.append(body);
    assembling_ = true;
    return Result::kMore;
  }
  if (h.body_length != body.size() || body.empty() || h.request_id != header_.request_id ||
      h.type != header_.type || body.size() > header_.body_length - body_.size()) {
    return Result::kMalformed;
  }
  body_.append(body);
  const bool complete = body_.size() == header_.body_length;
  if (complete == more) return Result::kMalformed;
  if (more) return Result::kMore;
  assembling_ = false;
  header_.flags &= static_cast<uint8_t>(~MessageHeader::kMorePieces);
  *out = {header_, body_};
  return Result::kMessage;
}

}  // namespace nova
