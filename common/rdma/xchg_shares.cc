#include "common/rdma/xchg_shares.h"

#include <algorithm>

namespace nova {
namespace {

// Shares, as one part in so many.
constexpr size_t kCallShare = 2;     // of what send memory is free: for calls to one peer
constexpr size_t kReplyShare = 4;    // of what is free beyond the next: for replies to one peer
constexpr size_t kKeptForFirst = 4;  // of all send memory: for connections that have none of it
constexpr size_t kKeptForCalls = 8;  // of all send memory, and a part of the above: for calls of our own
constexpr size_t kWaitingShare = 4;  // of what more may wait: for requests of one peer
constexpr size_t kBegunShare = 4;    // of what more may be begun: for requests of one peer

size_t Without(size_t all, size_t taken) { return all - std::min(taken, all); }

}  // namespace

size_t XchgShares::FreeBytes() const {
  return Without(options_->send_pool_bytes, memory_->bytes() + expected_bytes_);
}

bool XchgShares::MayCall(const LinkShare& link, size_t queued) const {
  if (queued >= options_->max_queued_calls_per_peer) return false;
  return link.send_bytes == 0 || link.send_bytes < FreeBytes() / kCallShare;
}

bool XchgShares::MayPost(size_t calls, size_t call_bytes) const {
  if (calls == 0) return true;
  return calls < options_->max_calls_per_connection && call_bytes <= options_->max_call_bytes_per_connection;
}

bool XchgShares::MayBegin(const LinkShare& link, size_t queued, size_t bytes) const {
  if (link.begun >= options_->max_calls_per_connection || queued >= options_->max_queued_calls_per_peer)
    return false;
  if (bytes > 0 && begun_bytes_ >= options_->max_begun_bytes) return false;
  if (bytes > 0 && link.begun_bytes > 0) {
    const size_t room = Without(options_->max_begun_bytes, begun_bytes_ - link.begun_bytes);
    if (link.begun_bytes + bytes > std::min(options_->max_call_bytes_per_connection, room / kBegunShare))
      return false;
  }
  const size_t taken = link.send_bytes + link.expected_bytes;
  const size_t free = FreeBytes();
  if (taken == 0) return free > options_->send_pool_bytes / kKeptForCalls;
  const size_t beyond = Without(free, options_->send_pool_bytes / kKeptForFirst);
  return taken < std::min(options_->max_reply_bytes_per_connection, beyond / kReplyShare);
}

bool XchgShares::MayWait(const LinkShare& link, size_t bytes) const {
  const size_t room = Without(options_->max_waiting_bytes, waiting_bytes_ - link.waiting_bytes);
  return bytes <= std::min(options_->max_waiting_bytes_per_connection, room / kWaitingShare);
}

bool XchgShares::MayAssemble() const { return waiting_bytes_ <= options_->max_waiting_bytes; }

bool XchgShares::TakesReplies(const LinkShare& link, size_t queued) const {
  return queued < 2 * options_->max_queued_calls_per_peer &&
         link.send_bytes < 2 * options_->max_reply_bytes_per_connection;
}

bool XchgShares::IsToBlame(const LinkShare& link) const {
  return link.send_bytes >= options_->send_pool_bytes / (2 * kReplyShare);
}

void XchgShares::CountBegun(LinkShare* link, size_t bytes) {
  ++link->begun;
  link->begun_bytes += bytes;
  begun_bytes_ += bytes;
}

void XchgShares::CountEnded(LinkShare* link, size_t bytes) {
  --link->begun;
  link->begun_bytes -= bytes;
  begun_bytes_ -= bytes;
}

void XchgShares::CountOrphaned(LinkShare* link, size_t bytes) {
  --link->begun;
  link->begun_bytes -= bytes;
}

void XchgShares::Expect(LinkShare* link, size_t before, size_t now) {
  expected_bytes_ += now - before;
  link->expected_bytes += now - before;
}

void XchgShares::CountWaiting(size_t* of_link, size_t now) {
  waiting_bytes_ = waiting_bytes_ - *of_link + now;
  *of_link = now;
}

}  // namespace nova
