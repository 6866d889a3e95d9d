#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/rdma/xchg_rep.h"

namespace nova {
namespace {

constexpr size_t kExpectedReply = 4096;  // bytes, where nobody says more

}  // namespace

void Xchg::Rep::Request(Link* link, const MessageAssembler::Message& m) {
  Nanos deadline_ns = kNever;
  if (m.header.deadline_or_depth != MessageHeader::kNoDeadline) {
    deadline_ns = turn.now_ns + static_cast<Nanos>(m.header.deadline_or_depth) * kMicrosecond;
  }
  if (link->waiting.empty() &&
      shares.MayBegin(link->share, link->queue.size(), XchgShares::BytesOf(m.body.size()))) {
    return Begin(link, m.header.type, m.header.request_id, deadline_ns, turn.now_ns, m.body);
  }
  Wait(link, {m.header.type, m.header.request_id, deadline_ns, turn.now_ns, std::string(m.body)});
}

void Xchg::Rep::Wait(Link* link, XchgWaiting request) {
  Bump(count.waited_requests);
  ForgetOverdue(link);
  if (link->waiting.empty()) held.Add(link->id);
  const size_t bytes = link->share.waiting_bytes + sizeof(XchgWaiting) + request.body.size();
  const bool fits = link->waiting.empty() || shares.MayWait(link->share, bytes);
  link->waiting.push_back(std::move(request));
  shares.CountWaiting(&link->share.waiting_bytes, bytes);
  if (!fits) CutOff(link, "it asks for more than may wait");
}

void Xchg::Rep::Begin(Link* link, uint16_t type, uint64_t peers_id, Nanos deadline_ns, Nanos since_ns,
                      std::string_view body) {
  const bool known = type < handlers.services.size() && handlers.services[type].handler;
  Begun* b = begun.New();
  b->peers_id = peers_id;
  b->deadline_ns = deadline_ns;
  b->since_ns = since_ns;
  b->served_ns = known ? handlers.services[type].served_ns : nullptr;
  b->link = link;
  b->bytes = XchgShares::BytesOf(body.size());
  b->expected = 0;
  Expect(b, kExpectedReply);
  link->begun.Add(b);
  shares.CountBegun(&link->share, b->bytes);
  const IncomingCall call{link->id, b->id(), type, deadline_ns, body, &link->hello};
  if (known) return handlers.services[type].handler(call);
  Reply(link->id, call.request_id, Outcome::kInvalidArgument, {});
}

void Xchg::Rep::Expect(Begun* b, size_t bytes) {
  shares.Expect(&b->link->share, b->expected, bytes);
  b->expected = bytes;
}

void Xchg::Rep::EndBegun(Begun* b) {
  Link* link = b->link;
  Expect(b, 0);
  link->begun.Remove(b);
  shares.CountEnded(&link->share, b->bytes);
  b->link = nullptr;
  begun.Free(b);
  room_made = true;
}

void Xchg::Rep::Orphan(Begun* b) {
  constexpr Nanos kLongest = 60 * kSecond;
  if (b->bytes == 0) return EndBegun(b);
  Expect(b, 0);
  b->link->begun.Remove(b);
  shares.CountOrphaned(&b->link->share, b->bytes);
  b->link = nullptr;
  b->deadline_ns = std::min(b->deadline_ns, turn.now_ns + kLongest);
  orphans.Add(b);
}

void Xchg::Rep::EndOrphan(Begun* b) {
  orphans.Remove(b);
  shares.CountOrphanEnded(b->bytes);
  begun.Free(b);
  room_made = true;
}

void Xchg::Rep::ForgetOverdue(Link* link) {
  const Nanos ended_ns = turn.now_ns - options.progress_timeout_ns;
  while (!link->begun.empty() && link->begun.oldest()->deadline_ns < ended_ns) EndBegun(link->begun.oldest());
}

void Xchg::Rep::ForgetOverdueOrphans() {
  const Nanos ended_ns = turn.now_ns - options.progress_timeout_ns;
  while (!orphans.empty() && orphans.oldest()->deadline_ns < ended_ns) EndOrphan(orphans.oldest());
}

bool Xchg::Rep::BeginWaiting() {
  if (!held.empty()) ForgetOverdueOrphans();
  if (held.empty() || !room_made) return false;
  room_made = false;
  bool began = false;
  held.Run([&](ConnectionId id) {
    Link* const link = FindLink(id);
    if (link == nullptr) return;
    began |= Resume(link);
    if (!link->waiting.empty()) held.Add(id);
  });
  return began;
}

bool Xchg::Rep::Resume(Link* link) {
  bool began = false;
  const auto may_begin = [&](const XchgWaiting& next) {
    return shares.MayBegin(link->share, link->queue.size(), XchgShares::BytesOf(next.body.size()));
  };
  while (!link->waiting.empty() && may_begin(link->waiting.front())) {
    const XchgWaiting request = std::move(link->waiting.front());
    link->waiting.pop_front();
    shares.CountWaiting(&link->share.waiting_bytes,
                        link->share.waiting_bytes - sizeof(XchgWaiting) - request.body.size());
    if (request.deadline_ns <= turn.now_ns) continue;  // nobody waits for the answer
    began = true;
    Begin(link, request.type, request.peers_id, request.deadline_ns, request.since_ns, request.body);
  }
  return began;
}

void Xchg::ExpectReply(uint64_t request_id, size_t bytes) {
  NOVA_DCHECK(rep_->OnXchg());
  XchgBegun* b = rep_->begun.Find(request_id);
  if (b != nullptr && b->link != nullptr) rep_->Expect(b, std::min(bytes, rep_->options.max_message_bytes));
}

}  // namespace nova
