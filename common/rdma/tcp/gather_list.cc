#include "common/rdma/tcp/gather_list.h"

#include <algorithm>

namespace nova {
namespace {

constexpr size_t kMaxInline = 1024;  // bytes of a piece

}  // namespace

// Headers and short payloads are copied side by side: one piece costs the kernel less than many.
void GatherList::Add(const TcpOutgoing& out, const OutFrame& frame, size_t* budget) {
  uint64_t skip = frame.sent;
  const auto add = [&](const void* data, uint64_t length) {
    if (skip >= length) {
      skip -= length;
      return;
    }
    const size_t n = std::min<uint64_t>(length - skip, *budget);
    auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skip;
    skip = 0;
    *budget -= n;
    if (n <= kMaxInline && inlined_.size() + n <= inlined_.capacity()) {
      inlined_.insert(inlined_.end(), from, from + n);
      from = inlined_.data() + inlined_.size() - n;
    }
    if (!pieces_.empty() &&
        static_cast<std::byte*>(pieces_.back().iov_base) + pieces_.back().iov_len == from) {
      pieces_.back().iov_len += n;
    } else if (n > 0) {
      pieces_.push_back({from, n});
    }
  };
  add(&frame.header, sizeof(FrameHeader));
  if (frame.source == OutFrame::kReadData) {
    add(reinterpret_cast<const std::byte*>(frame.position), frame.payload);
  } else if (frame.source == OutFrame::kRequest && frame.payload > 0) {
    const WorkRequest& r = out.pending[frame.position].request;
    uint64_t begin = frame.offset, left = frame.payload;
    for (size_t i = 0; i < r.piece_count && left > 0; ++i) {
      const LocalBuffer& piece = r.pieces[i];
      if (begin >= piece.length) {
        begin -= piece.length;
        continue;
      }
      const uint64_t n = std::min(piece.length - begin, left);
      add(static_cast<const std::byte*>(piece.address) + begin, n);
      begin = 0;
      left -= n;
    }
  }
}

}  // namespace nova
