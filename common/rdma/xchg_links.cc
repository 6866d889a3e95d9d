#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/xchg_rep.h"

namespace nova {
namespace {

constexpr size_t kPostBatch = 256;
constexpr Nanos kStableConnection = kSecond;  // one that lived shorter counts as a failed attempt

}  // namespace

Xchg::Rep::Link* Xchg::Rep::LinkOf(Peer* peer) {
  if (peer->link != nullptr) return peer->link;
  auto link = std::make_unique<Link>(options.max_message_bytes);
  link->peer = peer;
  peer->link = link.get();
  peer->waiting = std::move(link);
  if (turn.now_ns >= peer->next_attempt_ns) {
    Connect(peer->link);
  } else {
    wheel.Add(peer->link, peer->next_attempt_ns);
  }
  return peer->link;
}

Xchg::Rep::Link* Xchg::Rep::FindLink(ConnectionId id) {
  const auto it = links.find(id);
  return it == links.end() ? nullptr : it->second.get();
}

void Xchg::Rep::Connect(Link* link) {
  Peer* peer = link->peer;
  Hello hello = self;
  hello.xchg_index = options.index;
  hello.generation = ++peer->generation;
  hello.meant_for = peer->who;
  link->state = Link::State::kConnecting;
  link->id = port->Connect(peer->address, hello, turn.now_ns + options.connect_timeout_ns);
  links.emplace(link->id, std::move(peer->waiting));
}

void Xchg::EndPause(Peer* peer) {
  peer->next_attempt_ns = 0;
  XchgLink* const link = peer->link;
  if (link == nullptr || link->state != XchgLink::State::kBackOff) return;
  rep_->wheel.Remove(link);
  rep_->Connect(link);
}

void Xchg::Rep::LinkUp(const Completion& c) {
  Bump(count.connects);
  Link* link;
  if (c.accepted) {
    auto made = std::make_unique<Link>(options.max_message_bytes);
    link = made.get();
    link->id = c.connection;
    links.emplace(link->id, std::move(made));
  } else {
    link = FindLink(c.connection);
    if (link == nullptr || link->state != Link::State::kConnecting) return;
    wheel.Add(link, turn.now_ns + options.idle_close_ns);
  }
  link->state = Link::State::kUp;
  link->hello = *c.hello;
  link->up_since_ns = link->last_used_ns = turn.now_ns;
  if (!link->queue.empty()) MarkDirty(link);
}

void Xchg::Rep::AttemptFailed(Peer* peer) {
  const int doublings = std::min(peer->failures++, 20);
  const Nanos most = std::min(options.reconnect_max_ns, options.reconnect_min_ns << doublings);
  peer->next_attempt_ns =
      turn.now_ns + most / 2 + static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most / 2) + 1));
}

void Xchg::Rep::Drop(Link* link) {
  if (link->state == Link::State::kDead) return;
  if (Peer* peer = link->peer; peer != nullptr) {
    if (link->state == Link::State::kConnecting) {
      Bump(count.connect_failures);
      AttemptFailed(peer);
    } else if (link->state == Link::State::kUp && turn.now_ns - link->up_since_ns < kStableConnection) {
      AttemptFailed(peer);
    } else if (link->state == Link::State::kUp) {
      peer->failures = 0;
    }
    peer->link = nullptr;
  }
  link->state = Link::State::kDead;
  wheel.Remove(link);
  wheel.Remove(&link->progress);
  for (; !link->queue.empty(); link->queue.pop_front()) {
    const uint64_t id = link->queue.front().request.id;
    if ((id & kPieceTag) != 0) FreePiece(link, id);
  }
  while (!link->begun.empty()) Orphan(link->begun.oldest());
  link->waiting.clear();
  shares.CountWaiting(&link->share.waiting_bytes, 0);
  shares.CountWaiting(&link->share.assembling_bytes, 0);
  while (!link->ops.empty()) {
    Op* const op = link->ops.oldest();
    EndOp(op, op->posted ? Outcome::kUnknown : Outcome::kUnavailable, CallEnd::kConnection);
  }
}

void Xchg::Rep::CloseLink(Link* link) {
  port->Disconnect(link->id);
  Drop(link);
}

void Xchg::Rep::CutOff(Link* link, std::string_view why) {
  Bump(count.cut_off);
  NOVA_LOG(WARNING) << options.name << ": the connection with " << NameOf(link->hello)
                    << " is closed: " << why;
  CloseLink(link);
}

void Xchg::Rep::LinkGone(const Completion& c) {
  const auto it = links.find(c.connection);
  if (it == links.end()) return;
  Drop(it->second.get());
  const bool accepted = it->second->peer == nullptr;
  links.erase(it);
  if (accepted && handlers.disconnected && !stopping) handlers.disconnected(c.connection);
}

void Xchg::Rep::MarkDirty(Link* link) {
  if (link->dirty || link->state != Link::State::kUp) return;
  link->dirty = true;
  dirty.Add(link->id);
}

void Xchg::Rep::Flush(Link* link) {
  while (!link->queue.empty() && link->in_flight < kMaxPendingRequests && link->state == Link::State::kUp) {
    const size_t room = std::min<size_t>(kPostBatch, kMaxPendingRequests - link->in_flight);
    post.clear();
    bool skipping = link->skipping;
    size_t calls = link->share.calls, call_bytes = link->share.call_bytes;
    uint64_t scanned = link->queue.head();
    for (; scanned < link->queue.tail() && post.size() < room; ++scanned) {
      const XchgQueued& q = link->queue[scanned];
      if (q.first) skipping = HasNoTaker(q);
      if (q.first && !skipping && q.op != 0) {
        const Op& op = *ops.Find(q.op);
        if (op.kind == Op::Kind::kCall) {
          if (!shares.MayPost(calls, call_bytes + op.bytes)) break;
          ++calls;
          call_bytes += op.bytes;
        }
      }
      if (!skipping) post.push_back(q.request);
    }
    if (scanned == link->queue.head()) return;
    // Refused only when the connection has broken: kDisconnected is on its way and ends what stays queued.
    if (!post.empty() && !port->Post(link->id, post).ok()) return;
    if (link->in_flight == 0) link->taken_ns = turn.now_ns;
    link->in_flight += static_cast<uint32_t>(post.size());
    if (!post.empty()) WatchProgress(link);
    for (uint64_t i = link->queue.head(); i < scanned; ++i) {
      const XchgQueued& q = link->queue.front();
      if (q.first) link->skipping = HasNoTaker(q);
      if (link->skipping) {
        if ((q.request.id & kPieceTag) != 0) FreePiece(link, q.request.id);
      } else if (Op* const op = ops.Find(q.op); op != nullptr) {
        Posted(op);
      }
      link->queue.pop_front();
    }
  }
}

bool Xchg::Rep::FlushAll() {
  if (dirty.empty()) return false;
  dirty.Run([this](ConnectionId id) {
    Link* const link = FindLink(id);
    if (link == nullptr) return;
    link->dirty = false;
    Flush(link);
  });
  return true;
}

void Xchg::Rep::WatchProgress(Link* link) {
  if (!link->progress.linked()) wheel.Add(&link->progress, turn.now_ns + options.progress_timeout_ns);
}

// Overdue twice, with turns between: it is not this thread that was held up, and has what the peer took
// still to look at.
void Xchg::Rep::LookAtProgress(Link* link) {
  Nanos since = kNever;
  if (link->in_flight > 0) since = link->taken_ns;
  if (link->share.assembling_bytes > 0) since = std::min(since, link->received_ns);
  if (since == kNever) {
    link->suspected = false;
    return;
  }
  const Nanos due = since + options.progress_timeout_ns;
  if (due > turn.now_ns) {
    link->suspected = false;
    return wheel.Add(&link->progress, due);
  }
  if (link->suspected)
    return CutOff(link, link->in_flight > 0 ? "it takes nothing" : "it does not end its message");
  link->suspected = true;
  wheel.Add(&link->progress, turn.now_ns + options.progress_timeout_ns / 8);
}

}  // namespace nova
