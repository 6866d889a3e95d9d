// StocCalls: requests to StoCs, sent and answered: on an exchange thread, or from a thread that waits and
// tries again while a StoC is busy.
//
// A StoC to which a connection broke, or could not be made, is noted as unreachable (KnownStocs::Signs), and
// pinged every quarter of a second until it answers, or counts as live no more.
//
// Thread safety: Call OnXchg (of `xchg`); CallAndWait from any thread that may wait; Start and the others
//                any.
// Ownership:     the xchgs and the KnownStocs outlive it; bodies of replies are valid during `done`.
// Errors:        outcomes as xchg.h says; kUnavailable also of a StoC that is not known. `done` never runs
//                inside the call.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/rdma/xchg.h"
#include "stoc/known_stocs.h"
#include "stoc/protocol.h"

namespace nova {

class StocCalls {
 public:
  using Done = absl::AnyInvocable<void(Outcome, std::string_view body)>;
  struct Reply {  // of a call that was waited for
    Outcome outcome = Outcome::kUnavailable;
    std::string body;
  };

  StocCalls(std::vector<Xchg*> xchgs, KnownStocs* stocs) : xchgs_(std::move(xchgs)), stocs_(stocs) {}

  KnownStocs* stocs() { return stocs_; }
  Xchg* NextXchg();  // round robin

  // Sends a request, whose body is `parts` one after the other; they are copied. The first form goes to a
  // StoC that was looked up before.
  void Call(Xchg* xchg, const KnownStocs::Target& target, StocRequest type,
            std::span<const std::string_view> parts, Nanos deadline_ns, Done done);
  void Call(Xchg* xchg, StocId stoc, StocRequest type, std::span<const std::string_view> parts,
            Nanos deadline_ns, Done done);
  void Call(Xchg* xchg, StocId stoc, StocRequest type, std::string_view body, Nanos deadline_ns, Done done) {
    Call(xchg, stoc, type, {&body, 1}, deadline_ns, std::move(done));
  }
  // Any thread: calls at `start_ns`, and again while the StoC says kBusy. `done` runs on an xchg thread, or
  // is destroyed undone where that has stopped.
  void Start(StocId stoc, StocRequest type, std::string body, Nanos start_ns, Nanos deadline_ns, Done done);
  // As Start, now, and waits for the answer.
  Reply CallAndWait(StocId stoc, StocRequest type, const std::string& body, Nanos deadline_ns);

  // How long to wait after that many tries in a row that found the StoC busy.
  static Nanos PauseAfter(int tries);
  // Waits so long. False: the deadline comes first.
  static bool Pause(int tries, Nanos deadline_ns);
  // An error names the StoC and `what` was asked.
  Status StatusOf(StocId stoc, std::string_view what, Outcome outcome) const;

 private:
  struct Started;                           // a request of Start under way
  void Try(std::unique_ptr<Started> call);  // OnXchg; as often as it takes
  // OnXchg. A call of that start had no connection, or lost it.
  void NoteUnreachable(Xchg* xchg, StocId stoc, KnownStocs::Signs* signs, Incarnation start);
  // What was asked of it before it was known that it is unreachable, and waits for the next attempt to
  // connect, ends with an attempt that is made now: who reads would wait for a second, and asks another StoC.
  void EndPauses(StocId stoc);
  // OnXchg. Pings it after a pause, and again while no start of it has answered; one such ping at a time.
  void AskLater(Xchg* xchg, StocId stoc, KnownStocs::Signs* signs);

  const std::vector<Xchg*> xchgs_;
  KnownStocs* const stocs_;
  std::atomic<size_t> next_xchg_{0};
};

}  // namespace nova
