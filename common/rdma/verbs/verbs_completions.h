// VerbsCompletions: the device's completion queue of a VerbsPort, and the channel that rings when a
// completion comes. Internal to the verbs fabric.
//
// Thread safety: none; the port's thread.
// Ownership: it owns queue and channel. Queue pairs that complete into the queue are destroyed before it, the
// device's context after it.
// Errors: ResourceExhausted from Open: the device's or the process's bounds.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace nova {

class VerbsCompletions {
 public:
  VerbsCompletions() = default;
  ~VerbsCompletions();
  VerbsCompletions(const VerbsCompletions&) = delete;
  VerbsCompletions& operator=(const VerbsCompletions&) = delete;
  // A queue of so many entries, whose interrupts are the `index`-th of the device's. `name` is the port's,
  // for log lines.
  Status Open(ibv_context* context, const std::string& name, uint32_t entries, int index);

  ibv_cq* queue() const { return cq_; }
  int fd() const { return channel_->fd; }  // of the channel: readable when it rang

  // Takes completions from the device, which Next hands out in order. True: there were some.
  bool Fetch();
  // False: all that were fetched were handed out.
  bool Next(ibv_wc* wc) {
    if (head_ == tail_) {
      head_ = tail_ = 0;
      return false;
    }
    *wc = fetched_[head_++];
    return true;
  }

  // The next completion that comes rings. False: the device refuses.
  bool Arm() { return armed_ = ibv_req_notify_cq(cq_, 0) == 0; }
  bool armed() const { return armed_; }  // it has not rung since
  // Takes what has rung.
  void TakeRings();

 private:
  std::string name_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool armed_ = false;
  uint32_t unacknowledged_ = 0;  // rings that the device was not told were taken
  std::vector<ibv_wc> fetched_;
  size_t head_ = 0;  // those before it were handed out
  size_t tail_ = 0;  // those from it on are unused
};

}  // namespace nova
