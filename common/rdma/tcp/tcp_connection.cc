#include "common/rdma/tcp/tcp_connection.h"

#include <algorithm>
#include <cstring>

namespace nova {
namespace {

constexpr size_t kMaxFrames = 128;

}  // namespace

// --- out

OutFrame& TcpOutgoing::PushFrame(FrameType type, OutFrame::Source source) {
  OutFrame& f = frames.emplace_back();
  f.header.type = static_cast<uint8_t>(type);
  f.header.acknowledged = announced = acknowledgement();
  f.source = source;
  return f;
}

bool TcpOutgoing::BuildResponseFrame() {
  if (responses.empty()) return false;
  TcpResponse& r = responses.front();
  if (r.nak) {
    PushFrame(FrameType::kNak, OutFrame::kControl);
    responses.pop_front();
    return true;
  }
  OutFrame& f = PushFrame(FrameType::kReadData, OutFrame::kReadData);
  f.payload = f.header.length = std::min(r.remaining, kMaxReadFrameBytes);
  f.rkey = r.rkey;
  f.position = r.address;
  f.offset = r.sequence;
  r.address += f.payload;
  r.remaining -= f.payload;
  if (r.remaining == 0) {
    const uint64_t sequence = r.sequence;
    responses.pop_front();
    // The data itself tells the peer that this READ is done.
    if (acknowledgement() == sequence + 1) announced = sequence + 1;
  }
  return true;
}

bool TcpOutgoing::BuildRequestFrame() {
  while (next_send < pending.tail() && pending[next_send].failed) ++next_send;
  if (next_send == pending.tail()) return false;
  const TcpPending& p = pending[next_send];
  const WorkRequest& r = p.request;
  OutFrame& f = PushFrame(static_cast<FrameType>(r.opcode), OutFrame::kRequest);
  if (next_offset == 0) ++begun_requests;
  f.position = next_send;
  f.offset = next_offset;
  f.header.immediate = r.immediate;
  f.header.length = p.length;
  if (r.opcode != Opcode::kSend) {
    f.header.rkey = r.rkey;
    f.header.address = r.remote_address + next_offset;
  }
  if (r.opcode == Opcode::kSend) {
    f.payload = p.length;
  } else if (r.opcode != Opcode::kRead) {
    const uint32_t left = p.length - next_offset;
    f.payload = f.header.length = std::min(left, kMaxWriteFrameBytes);
    if (f.payload < left) {
      f.header.flags = FrameHeader::kMore;
      f.header.immediate = left - f.payload;
      next_offset += f.payload;
      return true;
    }
  }
  f.ends_request = true;
  ++next_send;
  next_offset = 0;
  return true;
}

void TcpOutgoing::BuildFrames(bool requests, uint64_t most_bytes) {
  uint64_t bytes = 0;
  while (frames.size() < kMaxFrames && bytes < most_bytes) {
    const bool response = BuildResponseFrame();
    if (response) bytes += frames.back().size();
    const bool request = requests && BuildRequestFrame();
    if (request) bytes += frames.back().size();
    if (!response && !request) {
      if (announced != acknowledgement()) PushFrame(FrameType::kAck, OutFrame::kControl);
      return;
    }
  }
}

bool TcpOutgoing::MayRead(const KeyTable& keys, uint64_t version) {
  if (checked_version == version) return true;
  for (uint64_t i = first_unsent; i < pending.tail(); ++i) {
    TcpPending& p = pending[i];
    if (p.failed || keys.AllowsPieces(p.request)) continue;
    p.failed = true;
    return false;
  }
  checked_version = version;
  return true;
}

bool TcpOutgoing::PopFrame() {
  const OutFrame& f = frames.front();
  if (f.ends_request) {
    ++sent_requests;
    first_unsent = f.position + 1;
  }
  const bool last = f.header.frame_type() == FrameType::kNak;
  frames.pop_front();
  return last;
}

// --- in

bool TcpIncoming::IsRestOfWrite() const {
  const uint64_t rest = frame.length + (frame.more() ? frame.immediate : uint64_t{0});
  return frame.type == expected.type && frame.rkey == expected.rkey && frame.address == expected.address &&
         rest == expected.length;
}

std::span<std::byte> TcpIncoming::Target(const TcpOutgoing& out, ReceiveMemory* memory) {
  switch (frame.frame_type()) {
    case FrameType::kSend:
      if (block == nullptr) block = memory->TakeBlock();
      return {block.get() + done, left};
    case FrameType::kWrite:
    case FrameType::kWriteWithImm:
      return {reinterpret_cast<std::byte*>(frame.address + done), left};
    case FrameType::kReadData: {
      const TcpPending& p = out.pending.front();
      uint64_t at = p.received;
      for (size_t i = 0; i < p.request.piece_count; ++i) {
        const LocalBuffer& piece = p.request.pieces[i];
        if (at < piece.length) {
          auto* base = static_cast<std::byte*>(const_cast<void*>(piece.address));
          return {base + at, std::min<size_t>(piece.length - at, left)};
        }
        at -= piece.length;
      }
      return {};
    }
    default:
      return {};
  }
}

void TcpIncoming::Advance(size_t n, TcpOutgoing* out) {
  done += static_cast<uint32_t>(n);
  left -= static_cast<uint32_t>(n);
  if (frame.frame_type() == FrameType::kReadData) out->pending.front().received += static_cast<uint32_t>(n);
}

void TcpIncoming::Land(const std::byte* p, size_t n, TcpOutgoing* out, ReceiveMemory* memory) {
  while (n > 0) {
    const std::span<std::byte> target = Target(*out, memory);
    const size_t here = std::min(n, target.size());
    std::memcpy(target.data(), p, here);
    Advance(here, out);
    p += here;
    n -= here;
  }
}

}  // namespace nova
