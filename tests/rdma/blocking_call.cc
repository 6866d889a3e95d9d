#include "tests/rdma/blocking_call.h"

#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

// What the waiting thread and the xchg thread share; both may be the last to let go of it.
struct Waiter {
  Notification ended;
  BlockingResult result;
};

// Ends the wait also when the closure that holds it is destroyed unrun.
class WaiterRef {
 public:
  explicit WaiterRef(std::shared_ptr<Waiter> waiter) : waiter_(std::move(waiter)) {}
  WaiterRef(WaiterRef&&) = default;
  ~WaiterRef() {
    if (waiter_ != nullptr) waiter_->ended.Notify();
  }
  void End(Outcome outcome, std::string_view body) {
    waiter_->result.outcome = outcome;
    waiter_->result.body.assign(body);
  }

 private:
  std::shared_ptr<Waiter> waiter_;
};

}  // namespace

BlockingResult BlockingCall(Xchg* xchg, const std::string& address, uint16_t type,
                            std::span<const std::string_view> parts, Nanos deadline_ns,
                            const PeerIdentity& who) {
  NOVA_CHECK(!xchg->IsCurrentThread()) << "an xchg thread would wait for itself";
  auto waiter = std::make_shared<Waiter>();
  xchg->Submit([xchg, &address, &who, type, parts, deadline_ns, ref = WaiterRef(waiter)]() mutable {
    xchg->Call(xchg->peer(address, who), type, parts, deadline_ns,
               [ref = std::move(ref)](const CallResult& r) mutable { ref.End(r.outcome, r.body); });
  });
  waiter->ended.Wait();
  return std::move(waiter->result);
}

Outcome BlockingRead(Xchg* xchg, const std::string& address, LocalBuffer local, uint64_t remote_address,
                     uint32_t rkey, Nanos deadline_ns) {
  NOVA_CHECK(!xchg->IsCurrentThread()) << "an xchg thread would wait for itself";
  auto waiter = std::make_shared<Waiter>();
  xchg->Submit([xchg, &address, local, remote_address, rkey, deadline_ns, ref = WaiterRef(waiter)]() mutable {
    xchg->Read(xchg->peer(address), local, remote_address, rkey, deadline_ns,
               [ref = std::move(ref)](Outcome outcome) mutable { ref.End(outcome, {}); });
  });
  waiter->ended.Wait();
  return waiter->result.outcome;
}

}  // namespace nova
