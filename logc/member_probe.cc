#include "logc/member_probe.h"

namespace nova {
namespace {

// pings that found no connection, until the process counts as gone
constexpr int kMostUnsent = 2;

}  // namespace

MemberProbe::MemberProbe(StocClient* stocs, std::vector<Xchg*> xchgs, const LogOptions& options,
                         Metrics* metrics)
    : stocs_(stocs),
      xchgs_(std::move(xchgs)),
      deadline_ns_(options.ping_deadline_ns),
      near_deadline_ns_(options.near_ping_deadline_ns),
      answered_(metrics->counter("nova_logc_pings_total{result=\"answered\"}")),
      failed_(metrics->counter("nova_logc_pings_total{result=\"failed\"}")),
      asked_(xchgs_.size()) {}

void MemberProbe::Ask(size_t lane, const LogMember& member, bool near, Answer answer) {
  auto& waiting = asked_[lane][{member.stoc, member.incarnation}];
  waiting.push_back(std::move(answer));
  if (waiting.size() > 1) return;
  Xchg* const other = xchgs_[(lane + 1) % xchgs_.size()];
  const Nanos within = near ? near_deadline_ns_ : deadline_ns_;
  other->Submit([=, this] { Ping(lane, other, member, Now() + within, 0); });
}

// It waits for no pause between attempts to connect: to a process that is gone there were some by now, of
// reads and of other logs, and puts wait for this one.
//
// A connection that breaks under the ping says nothing of the process: another request's deadline may have
// destroyed it, sent the ping (kUnknown) or not (kUnavailable). A new one then tells; a process that is gone
// refuses that, too.
void MemberProbe::Ping(size_t lane, Xchg* other, const LogMember& member, Nanos deadline_ns, int unsent) {
  if (Peer* const peer = stocs_->peer(other, member.stoc, member.incarnation); peer != nullptr)
    other->EndPause(peer);
  stocs_->Ping(other, member.stoc, deadline_ns, [=, this](Outcome o, Incarnation found) {
    const bool broke = o == Outcome::kUnknown || (o == Outcome::kUnavailable && unsent + 1 < kMostUnsent);
    if (broke && Now() < deadline_ns)
      return Ping(lane, other, member, deadline_ns, unsent + (o == Outcome::kUnavailable));
    const bool alive = o == Outcome::kOk && found == member.incarnation;
    (alive ? answered_ : failed_)->Add();
    xchgs_[lane]->Submit([this, lane, member, alive] { TellAll(lane, member, alive); });
  });
}

void MemberProbe::TellAll(size_t lane, const LogMember& member, bool alive) {
  auto waited = asked_[lane].extract({member.stoc, member.incarnation});
  for (Answer& answer : waited.mapped()) answer(alive);
}

}  // namespace nova
