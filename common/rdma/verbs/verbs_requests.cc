// What a VerbsPort posts, and what its completion queue says of it.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "common/base/log.h"
#include "common/rdma/verbs/verbs_port.h"

namespace nova {
namespace {

constexpr uint32_t kSignalEvery = 16;
constexpr uint32_t kSignalBytes = 64 * 1024;
constexpr uint64_t kLongestRequest = uint64_t{1} << 31;

CompletionStatus StatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return CompletionStatus::kOk;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return CompletionStatus::kRemoteAccess;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return CompletionStatus::kLocalError;
    default:
      return CompletionStatus::kFlushed;
  }
}

}  // namespace

Status VerbsPort::Post(ConnectionId connection, std::span<const WorkRequest> requests) {
  VerbsConnection* c = connections_.Find(connection);
  if (c == nullptr || c->state != State::kUp) return NotConnected();
  if (c->pending.size() + requests.size() > options_.max_pending_requests) return TooManyPending();
  owner_->RefreshRegions(&regions_version_, &regions_);
  const uint32_t longest_send = std::min(options_.max_message_bytes, c->peer_max_message);
  for (const WorkRequest& request : requests) {
    VerbsPending& p = c->pending.emplace_back();
    p.Set(request, kLongestRequest, longest_send);
    p.failed = p.failed || !regions_.AllowsPieces(request);
  }
  counters_.Posted(requests.size());
  DropFailedHeads(c);
  Push(c);
  return OkStatus();
}

void VerbsPort::BuildChain(VerbsConnection* c) {
  chain_.Clear();
  while (!chain_.full() && c->next_push < c->pending.tail() && c->in_queue_pair < room_.of_queue_pair &&
         !room_.none()) {
    const uint64_t index = c->next_push++;
    const VerbsPending& p = c->pending[index];
    if (p.failed) continue;
    ibv_send_wr& wr = chain_.Add(p.request, uint64_t{c->tag} << 32 | static_cast<uint32_t>(index));
    if (p.request.opcode != Opcode::kRead && p.length > 0 && p.length <= c->max_inline)
      wr.send_flags |= IBV_SEND_INLINE;
    c->unsignalled += 1;
    c->unsignalled_bytes += std::min(p.length, kSignalBytes);
    if (c->unsignalled >= kSignalEvery || c->unsignalled_bytes >= kSignalBytes) {
      wr.send_flags |= IBV_SEND_SIGNALED;
      c->unsignalled = c->unsignalled_bytes = 0;
    }
    if (c->in_queue_pair == 0) c->progress_ns = Now();
    ++c->in_queue_pair;
    ++room_.taken;
  }
}

void VerbsPort::Push(VerbsConnection* c) {
  for (BuildChain(c); !chain_.empty(); BuildChain(c)) {
    c->unsignalled = c->unsignalled_bytes = 0;  // the chain's last one is signalled
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(c->qp, chain_.Finish(), &bad); error != 0)
      return Break(c, StrCat("ibv_post_send: ", strerror(error)));
  }
  if (c->next_push < c->pending.tail() && room_.none() && !c->starved) {
    c->starved = true;
    room_.starved.push_back(c->id);
  }
}

void VerbsPort::CompleteHead(VerbsConnection* c, CompletionStatus status) {
  const VerbsPending& p = c->pending.front();
  if (!p.failed && c->pending.head() < c->next_push && c->qp != nullptr) {
    --c->in_queue_pair;
    --room_.taken;
  }
  if (!p.internal) {
    Completion& done = queue_.Push(CompletionKind::kRequest, c->id);
    done.status = status;
    done.id = p.request.id;
    counters_.Completed(p.request.opcode, p.length, status);
  }
  c->pending.pop_front();
}

void VerbsPort::DropFailedHeads(VerbsConnection* c) {
  while (!c->pending.empty() && c->pending.front().failed) CompleteHead(c, CompletionStatus::kLocalError);
  c->next_push = std::max(c->next_push, c->pending.head());
}

// --- Completions

void VerbsPort::HandleCompletions() {
  for (ibv_wc wc; completions_.Next(&wc);) HandleCompletion(wc);  // handling one may fetch more
}

void VerbsPort::DrainCompletions() {
  do {
    HandleCompletions();
  } while (completions_.Fetch());
}

void VerbsPort::HandleCompletion(const ibv_wc& wc) {
  if ((wc.wr_id & VerbsBuffers::kReceiveTag) != 0) return HandleReceive(wc);
  const auto it = by_queue_pair_.find(wc.qp_num);
  if (it == by_queue_pair_.end()) return;
  VerbsConnection* c = it->second;
  if ((wc.wr_id & kHandshakeTag) != 0) {
    if ((wc.wr_id & kTagMask) != c->tag) return;
    buffers_.ReturnBlock(std::exchange(c->block, kNoBlock));
    if (c->state == State::kRefusing) return Break(c, std::string(c->reason));
    if (wc.status != IBV_WC_SUCCESS)
      Break(c, StrCat("the connection broke in the handshake: ", ibv_wc_status_str(wc.status)));
    return;
  }
  if (wc.wr_id >> 32 != c->tag || c->pending.empty()) return;
  const uint64_t head = c->pending.head();
  const uint64_t index = head + (static_cast<uint32_t>(wc.wr_id) - static_cast<uint32_t>(head));
  if (index >= c->next_push) return;
  while (c->pending.head() < index) {
    CompleteHead(c, c->pending.front().failed ? CompletionStatus::kLocalError : CompletionStatus::kOk);
  }
  if (wc.status != IBV_WC_SUCCESS) return RequestFailed(c, wc.status);
  CompleteHead(c, CompletionStatus::kOk);
  DropFailedHeads(c);
  c->heard_ns = c->progress_ns = turn_ns_;
  if (c->next_push < c->pending.tail()) Push(c);
}

void VerbsPort::RequestFailed(VerbsConnection* c, ibv_wc_status status) {
  const CompletionStatus meaning = StatusOf(status);
  const bool by_us = owner_->WasBrokenByUs(c->qp);
  CompleteHead(c, meaning);
  if (meaning == CompletionStatus::kRemoteAccess) {
    return Break(c, "a request was refused by the peer: key, bounds or rights");
  }
  if (meaning == CompletionStatus::kLocalError)
    return Break(c, "memory of a posted request was revoked on this side");
  if (status == IBV_WC_WR_FLUSH_ERR && !by_us) {
    // Its error state was reached from the other direction: something the peer asked of us.
    counters_.AccessError();
    return Break(c, "a request of the peer was refused: key, bounds or rights");
  }
  Break(c, StrCat("the connection broke: ", ibv_wc_status_str(status)));
}

void VerbsPort::HandleReceive(const ibv_wc& wc) {
  const auto buffer = static_cast<uint32_t>(wc.wr_id);
  const auto it = by_queue_pair_.find(wc.qp_num);
  VerbsConnection* c = it == by_queue_pair_.end() ? nullptr : it->second;
  if (c == nullptr || wc.status != IBV_WC_SUCCESS) {
    buffers_.Return(buffer);
    if (c == nullptr || wc.status == IBV_WC_WR_FLUSH_ERR) return;
    if (StatusOf(wc.status) == CompletionStatus::kRemoteAccess || wc.status == IBV_WC_LOC_ACCESS_ERR) {
      // A WRITE with immediate had taken the buffer before its key was looked at.
      counters_.AccessError();
      return Break(c, "a request of the peer was refused: key, bounds or rights");
    }
    return BreakMalformed(c, StrCat("malformed message: ", ibv_wc_status_str(wc.status)));
  }
  if (c->state == State::kUp) {
    c->heard_ns = turn_ns_;
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
      queue_.Push(CompletionKind::kImmediate, c->id).immediate = ntohl(wc.imm_data);
      buffers_.Return(buffer);
    } else {
      queue_.Push(CompletionKind::kReceive, c->id).data = {buffers_.At(buffer), wc.byte_len};
      buffers_.Hold(buffer);
    }
    return;
  }
  buffers_.Return(buffer);  // posted at the end of the turn, when it was read
  if (c->state != State::kAwaitHello && c->state != State::kAwaitWelcome) return;
  if (wc.opcode != IBV_WC_RECV) return BreakMalformed(c, "malformed handshake: not a message");
  HandleHandshake(c, {reinterpret_cast<const char*>(buffers_.At(buffer)), wc.byte_len});
}

}  // namespace nova
