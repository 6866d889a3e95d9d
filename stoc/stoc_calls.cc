#include "stoc/stoc_calls.h"

#include <algorithm>

#include "common/base/random.h"
#include "common/base/wait_group.h"

namespace nova {
namespace {

constexpr Nanos kFirstPause = 2 * kMillisecond;  // after kBusy; doubles
constexpr Nanos kLongestPause = 100 * kMillisecond;
constexpr Nanos kAskAgain = 250 * kMillisecond;  // of a StoC that was unreachable

}  // namespace

Xchg* StocCalls::NextXchg() {
  return xchgs_[next_xchg_.fetch_add(1, std::memory_order_relaxed) % xchgs_.size()];
}

void StocCalls::Call(Xchg* xchg, const KnownStocs::Target& target, StocRequest type,
                     std::span<const std::string_view> parts, Nanos deadline_ns, Done done) {
  xchg->Call(target.peer, static_cast<uint16_t>(type), parts, deadline_ns,
             [this, xchg, stoc = target.id, signs = target.signs, start = target.incarnation,
              done = std::move(done)](const CallResult& r) mutable {
               if (r.end == CallEnd::kReply) KnownStocs::NoteReply(signs, start, r.queue_depth);
               if (r.end == CallEnd::kConnection) NoteUnreachable(xchg, stoc, signs, start);
               done(r.outcome, r.body);
             });
}

void StocCalls::NoteUnreachable(Xchg* xchg, StocId stoc, KnownStocs::Signs* signs, Incarnation start) {
  if (KnownStocs::NoteUnreachable(signs, start)) EndPauses(stoc);
  AskLater(xchg, stoc, signs);
}

void StocCalls::EndPauses(StocId stoc) {
  for (Xchg* const xchg : xchgs_) {
    xchg->Submit([this, xchg, stoc] {
      if (const KnownStocs::Target* const target = stocs_->FindTarget(xchg, stoc))
        xchg->EndPause(target->peer);
    });
  }
}

void StocCalls::AskLater(Xchg* xchg, StocId stoc, KnownStocs::Signs* signs) {
  if (signs->asked.exchange(true)) return;
  xchg->RunAt(Now() + kAskAgain, [this, xchg, stoc, signs] {
    if (!stocs_->IsLive(stoc)) {
      signs->asked.store(false);
      // When it is back the coordinator tells, which may have been just now.
      if (signs->unreachable_start.load() != 0 && stocs_->IsLive(stoc)) AskLater(xchg, stoc, signs);
      return;
    }
    Call(xchg, stoc, StocRequest::kPing, std::string_view(), Now() + kAskAgain,
         [this, xchg, stoc, signs](Outcome, std::string_view) {
           signs->asked.store(false);
           if (signs->unreachable_start.load() != 0) AskLater(xchg, stoc, signs);
         });
  });
}

void StocCalls::Call(Xchg* xchg, StocId stoc, StocRequest type, std::span<const std::string_view> parts,
                     Nanos deadline_ns, Done done) {
  if (const KnownStocs::Target* const target = stocs_->FindTarget(xchg, stoc))
    return Call(xchg, *target, type, parts, deadline_ns, std::move(done));
  xchg->Submit([done = std::move(done)]() mutable { done(Outcome::kUnavailable, {}); });
}

struct StocCalls::Started {
  Xchg* xchg;
  StocId stoc;
  StocRequest type;
  std::string body;
  Nanos deadline_ns;
  Done done;
  int tries = 0;
};

void StocCalls::Start(StocId stoc, StocRequest type, std::string body, Nanos start_ns, Nanos deadline_ns,
                      Done done) {
  Xchg* const xchg = NextXchg();
  auto call =
      std::make_unique<Started>(Started{xchg, stoc, type, std::move(body), deadline_ns, std::move(done)});
  xchg->Submit([this, start_ns, call = std::move(call)]() mutable {
    if (start_ns <= Now()) return Try(std::move(call));
    Xchg* const on = call->xchg;
    on->RunAt(start_ns, [this, call = std::move(call)]() mutable { Try(std::move(call)); });
  });
}

void StocCalls::Try(std::unique_ptr<Started> c) {
  const Started& request = *c;
  Call(request.xchg, request.stoc, request.type, request.body, request.deadline_ns,
       [this, call = std::move(c)](Outcome o, std::string_view answer) mutable {
         const Nanos again = Now() + PauseAfter(call->tries++);
         if (o != Outcome::kBusy || again >= call->deadline_ns) return call->done(o, answer);
         Xchg* const on = call->xchg;
         on->RunAt(again, [this, call = std::move(call)]() mutable { Try(std::move(call)); });
       });
}

StocCalls::Reply StocCalls::CallAndWait(StocId stoc, StocRequest type, const std::string& body,
                                        Nanos deadline_ns) {
  for (int tries = 0;; ++tries) {
    Reply reply;
    auto all = std::make_shared<WaitGroup>();
    Xchg* const xchg = NextXchg();
    xchg->Submit([&, xchg, part = WaitGroup::Part(all)]() mutable {
      Call(xchg, stoc, type, body, deadline_ns,
           [&, part = std::move(part)](Outcome o, std::string_view b) mutable {
             reply = {o, std::string(b)};
             part.End();
           });
    });
    all->Wait();
    if (reply.outcome != Outcome::kBusy || !Pause(tries, deadline_ns)) return reply;
  }
}

Nanos StocCalls::PauseAfter(int tries) {
  const Nanos most = std::min(kLongestPause, kFirstPause << std::min(tries, 10));
  Random random;
  return most / 2 + static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most)));
}

bool StocCalls::Pause(int tries, Nanos deadline_ns) {
  const Nanos pause = PauseAfter(tries);
  if (Now() > deadline_ns - pause) return false;
  SleepFor(pause);
  return true;
}

Status StocCalls::StatusOf(StocId stoc, std::string_view what, Outcome outcome) const {
  if (outcome == Outcome::kOk) return OkStatus();
  return ToStatus(outcome, StrCat(std::string(what), " at ", stocs_->NameOf(stoc), ": ",
                                  std::string(OutcomeName(outcome))));
}

}  // namespace nova
