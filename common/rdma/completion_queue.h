// CompletionQueue: the completions that a port has for its owner, in order.
//
// Thread safety: none; the port's thread.
// Ownership: plain values; the data, hello and reason they point to are the port's.
// Errors: none.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/rdma/connection_table.h"
#include "common/rdma/fabric.h"

namespace nova {

class CompletionQueue {
 public:
  bool empty() const { return head_ == items_.size(); }  // all were taken
  // Forgets all; call when all were taken.
  void Clear() {
    items_.clear();
    head_ = 0;
  }
  // Adds a completion; the caller fills in the rest. The reference is valid until the next Push.
  Completion& Push(CompletionKind kind, ConnectionId connection) {
    Completion& done = items_.emplace_back();
    done.kind = kind;
    done.connection = connection;
    return done;
  }
  // `c` is up; the completion points into it.
  void PushConnected(const PortConnection& c) {
    Completion& done = Push(CompletionKind::kConnected, c.id);
    done.accepted = c.accepted;
    done.hello = &c.hello;
  }
  // `c` is gone; the completion points into it, so it must stay until the next Poll.
  void PushDisconnected(const PortConnection& c) {
    Completion& done = Push(CompletionKind::kDisconnected, c.id);
    done.accepted = c.accepted;
    done.reason = c.reason.c_str();
  }
  // Moves completions to `out`, returns how many.
  size_t Take(std::span<Completion> out) {
    const size_t n = std::min(out.size(), items_.size() - head_);
    std::copy_n(items_.begin() + static_cast<ptrdiff_t>(head_), n, out.begin());
    head_ += n;
    return n;
  }

 private:
  std::vector<Completion> items_;
  size_t head_ = 0;  // items before it were taken
};

}  // namespace nova
