// CompletionQueue: what a port has to tell its owner, in order.
//
// Thread safety: none; the port's thread.   Ownership: plain values; what they point to is the port's.
//                Errors: none.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/rdma/connection_table.h"
#include "common/rdma/fabric.h"

namespace nova {

class CompletionQueue {
 public:
  bool empty() const { return head_ == items_.size(); }
  void Clear() {
    items_.clear();
    head_ = 0;
  }
  Completion& Push(CompletionKind kind, ConnectionId connection) {
    Completion& done = items_.emplace_back();
    done.kind = kind;
    done.connection = connection;
    return done;
  }
  void PushConnected(const PortConnection& c) {
    Completion& done = Push(CompletionKind::kConnected, c.id);
    done.accepted = c.accepted;
    done.hello = &c.hello;
  }
  void PushDisconnected(const PortConnection& c) {
    Completion& done = Push(CompletionKind::kDisconnected, c.id);
    done.accepted = c.accepted;
    done.reason = c.reason.c_str();
  }
  size_t Take(std::span<Completion> out) {
    const size_t n = std::min(out.size(), items_.size() - head_);
    std::copy_n(items_.begin() + static_cast<ptrdiff_t>(head_), n, out.begin());
    head_ += n;
    return n;
  }

 private:
  std::vector<Completion> items_;
  size_t head_ = 0;
};

}  // namespace nova
