#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rdma/xchg_rep.h"

namespace nova {
namespace {

size_t TotalOf(std::span<const std::string_view> parts) {
  size_t total = 0;
  for (const std::string_view part : parts) total += part.size();
  return total;
}

WorkRequest OneSidedRequest(Opcode opcode, std::span<const LocalBuffer> local, uint64_t remote_address,
                            uint32_t rkey) {
  NOVA_CHECK(local.size() <= kMaxPieces);
  WorkRequest request;
  request.opcode = opcode;
  request.piece_count = static_cast<uint8_t>(local.size());
  std::copy(local.begin(), local.end(), request.pieces.begin());
  request.remote_address = remote_address;
  request.rkey = rkey;
  return request;
}

}  // namespace

bool EndedOps::Run() {
  if (ended_.empty()) return false;
  running_.swap(ended_);
  for (Ended& e : running_) {
    if (e.call_done) e.call_done(CallResult{e.end, e.outcome, {}, 0});
    if (e.op_done) e.op_done(e.outcome);
  }
  running_.clear();
  return true;
}

Xchg::Rep::Op* Xchg::Rep::NewOp(Op::Kind kind, Link* link, Nanos deadline_ns) {
  Op* op = ops.New();
  op->kind = kind;
  op->posted = false;
  op->bytes = 0;
  op->link = link;
  link->ops.Add(op);
  wheel.Add(op, deadline_ns);
  return op;
}

void Xchg::Rep::FreeOp(Op* op) {
  Link* const link = op->link;
  wheel.Remove(op);
  if (op->posted && op->kind == Op::Kind::kCall) {
    --link->share.calls;
    link->share.call_bytes -= op->bytes;
  }
  if (!link->queue.empty()) MarkDirty(link);  // what was behind it may go now
  link->ops.Remove(op);
  op->call_done = nullptr;
  op->op_done = nullptr;
  ops.Free(op);
}

void Xchg::Rep::EndOp(Op* op, Outcome outcome, CallEnd end) {
  ended.Add(std::move(op->call_done), std::move(op->op_done), outcome, end);
  FreeOp(op);
}

void Xchg::Rep::Posted(Op* op) {
  if (op->posted) return;
  op->posted = true;
  if (op->kind != Op::Kind::kCall) return;
  ++op->link->share.calls;
  op->link->share.call_bytes += op->bytes;
}

bool Xchg::Rep::Encode(MessageHeader header, std::span<const std::string_view> parts, size_t total) {
  if (turn.clock == 0) turn.clock = static_cast<uint64_t>(WallNowMs()) << 16;
  header.clock = turn.clock;
  return memory.Encode(header, parts, total, port->max_message_bytes());
}

void Xchg::Rep::Enqueue(Link* link, uint64_t op) {
  bool first = true;
  for (const SendMemory::Piece& piece : memory.message()) {
    XchgQueued& q = link->queue.emplace_back();
    q.request.id = kPieceTag | piece.index;
    q.request.opcode = Opcode::kSend;
    q.request.piece_count = 1;
    q.request.pieces[0] = piece.local;
    q.op = op;
    q.first = std::exchange(first, false);
    link->share.send_bytes += piece.taken;
    Bump(count.bytes_sent, piece.local.length);
  }
  Bump(count.messages_sent);
  link->last_used_ns = turn.now_ns;
  MarkDirty(link);
}

void Xchg::Rep::FreePiece(Link* link, uint64_t request_id) {
  const size_t taken = memory.Free(static_cast<uint32_t>(request_id));
  if (link != nullptr) link->share.send_bytes -= taken;
  room_made = true;
}

void Xchg::Call(Peer* peer, uint16_t type, std::span<const std::string_view> parts, Nanos deadline_ns,
                CallDone done, const CallTag& tag) {
  Rep* r = rep_.get();
  NOVA_DCHECK(r->OnXchg());
  const size_t total = TotalOf(parts);
  if (total > r->options.max_message_bytes)
    return r->ended.Add(std::move(done), nullptr, Outcome::kInvalidArgument);
  if (r->stopping || deadline_ns <= r->turn.now_ns)
    return r->ended.Add(std::move(done), nullptr, Outcome::kUnavailable);
  XchgLink* link = r->LinkOf(peer);
  if (!r->shares.MayCall(link->share, link->queue.size()))
    return r->ended.Add(std::move(done), nullptr, Outcome::kUnavailable);
  XchgOp* op = r->NewOp(XchgOp::Kind::kCall, link, deadline_ns);
  op->bytes = total;
  op->tag = tag;
  op->since_ns = r->turn.now_ns;
  op->call_done = std::move(done);
  MessageHeader header;
  header.type = type;
  header.request_id = op->id();
  header.deadline_or_depth = MessageHeader::kNoDeadline;
  if (deadline_ns != kNever) {
    const Nanos left_us = (deadline_ns - r->turn.now_ns) / kMicrosecond;
    header.deadline_or_depth =
        static_cast<uint32_t>(std::min<Nanos>(left_us, MessageHeader::kNoDeadline - 1));
  }
  if (!r->Encode(header, parts, total)) return r->EndOp(op, Outcome::kUnavailable);
  r->Enqueue(link, op->id());
}

void Xchg::LookAtCalls(const std::function<bool(const CallTag&, Nanos since_ns)>& ends) {
  NOVA_DCHECK(rep_->OnXchg());
  rep_->ops.ForEach([&](XchgOp* op) {
    if (op->kind != XchgOp::Kind::kCall || !ends(op->tag, op->since_ns)) return;
    rep_->EndOp(op, op->posted ? Outcome::kUnknown : Outcome::kUnavailable);
  });
}

void Xchg::Rep::Answered(Link* link, const MessageAssembler::Message& m) {
  Op* op = ops.Find(m.header.request_id);
  if (op == nullptr || op->kind != Op::Kind::kCall || op->link != link || !op->posted)
    return Bump(count.late_replies);
  CallDone done = std::move(op->call_done);
  FreeOp(op);
  CallResult result;
  result.end = CallEnd::kReply;
  result.outcome = m.header.outcome <= static_cast<uint8_t>(kMaxOutcome)
                       ? static_cast<Outcome>(m.header.outcome)
                       : Outcome::kInternal;
  result.body = m.body;
  result.queue_depth = m.header.deadline_or_depth;
  done(result);
}

void Xchg::Rep::Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
                      std::span<const std::string_view> parts) {
  NOVA_DCHECK(OnXchg());
  Begun* b = begun.Find(request_id);
  if (b != nullptr && b->link == nullptr) EndOrphan(std::exchange(b, nullptr));
  if (b == nullptr || b->link->id != connection) return Bump(count.dropped_replies);
  Link* link = b->link;
  const size_t total = TotalOf(parts);
  MessageHeader header;
  header.type = 1;  // a reply is known by its request id
  header.flags = MessageHeader::kReply;
  header.outcome = static_cast<uint8_t>(outcome);
  header.request_id = b->peers_id;
  header.deadline_or_depth = handlers.queue_depth ? handlers.queue_depth() : 0;
  if (b->served_ns != nullptr) b->served_ns->Add(static_cast<uint64_t>(Now() - b->since_ns));
  EndBegun(b);
  if (!shares.TakesReplies(link->share, link->queue.size())) {
    Bump(count.dropped_replies);
    return CutOff(link, "it does not read its replies");
  }
  if (total <= options.max_message_bytes && Encode(header, parts, total)) return Enqueue(link, /*op=*/0);
  Bump(count.dropped_replies);
  if (shares.IsToBlame(link->share)) return CutOff(link, "it does not read its replies");
  NOVA_LOG(WARNING) << options.name << ": no memory for a reply of " << total
                    << " bytes; its requester will time out";
}

void Xchg::Reply(ConnectionId connection, uint64_t request_id, Outcome outcome,
                 std::span<const std::string_view> parts) {
  rep_->Reply(connection, request_id, outcome, parts);
}

void Xchg::Rep::OneSided(Peer* peer, WorkRequest request, Nanos deadline_ns, OpDone done) {
  NOVA_DCHECK(OnXchg());
  if (stopping || deadline_ns <= turn.now_ns)
    return ended.Add(nullptr, std::move(done), Outcome::kUnavailable);
  Link* link = LinkOf(peer);
  if (link->queue.size() >= options.max_queued_calls_per_peer)
    return ended.Add(nullptr, std::move(done), Outcome::kUnavailable);
  Op* op = NewOp(Op::Kind::kOneSided, link, deadline_ns);
  op->op_done = std::move(done);
  request.id = op->id();
  link->queue.push_back({request, op->id(), true});
  link->last_used_ns = turn.now_ns;
  MarkDirty(link);
}

void Xchg::Write(Peer* peer, std::span<const LocalBuffer> local, uint64_t remote_address, uint32_t rkey,
                 Nanos deadline_ns, OpDone done) {
  rep_->OneSided(peer, OneSidedRequest(Opcode::kWrite, local, remote_address, rkey), deadline_ns,
                 std::move(done));
}

void Xchg::Read(Peer* peer, LocalBuffer local, uint64_t remote_address, uint32_t rkey, Nanos deadline_ns,
                OpDone done) {
  rep_->OneSided(peer, OneSidedRequest(Opcode::kRead, {&local, 1}, remote_address, rkey), deadline_ns,
                 std::move(done));
}

}  // namespace nova
