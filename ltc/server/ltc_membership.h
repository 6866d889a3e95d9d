// LtcMembership: the session by which an LTC is a member of its cluster, and what comes with it: the lease
// (C3), word of lost StoCs, and what is set for all LTCs.
//
// Thread safety: all. lease_expiry_ns, which requests ask, takes no lock; so a session that was taken out may
//   be in use by them until each exchange thread has ended its turn (LtcNode::Leave).
// Ownership: shares the session.
// Errors: none.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "coordinator/coordinator_client.h"

namespace nova {

class LtcMembership {
 public:
  void Joined(std::shared_ptr<NodeSession> session) {
    MutexLock lock(&mu_);
    session_ = std::move(session);
    lease_session_.store(session_.get(), std::memory_order_release);
  }
  // No lease from here on. Null: there was no session.
  std::shared_ptr<NodeSession> Take() {
    lease_session_.store(nullptr, std::memory_order_release);
    MutexLock lock(&mu_);
    return std::exchange(session_, nullptr);
  }
  std::shared_ptr<NodeSession> session() const {  // null: none
    MutexLock lock(&mu_);
    return session_;
  }
  // Until when reads may be answered; 0: not at all. The session that it finds stays alive until the exchange
  // thread that asks has ended its turn: LtcNode::Leave waits for that after Take.
  Nanos lease_expiry_ns() const {
    const NodeSession* session = lease_session_.load(std::memory_order_acquire);
    return session == nullptr ? 0 : session->lease_expiry_ns();
  }

  // The StoCs there are, and those that are gone for good (StoC record, N5), as the coordinator said last.
  void SetStocs(const StocList& stocs) {
    MutexLock lock(&mu_);
    stocs_ = stocs;
  }
  StocList stocs() const {
    MutexLock lock(&mu_);
    return stocs_;
  }

  // What an operator has set for all LTCs, as the coordinator said last.
  void SetSettings(const LtcSettings& settings) {
    MutexLock lock(&mu_);
    settings_ = settings;
  }
  LtcSettings settings() const {
    MutexLock lock(&mu_);
    return settings_;
  }

  // A later process has the node's name: it can be a member no more.
  void Superseded() { superseded_.Notify(); }
  const Notification& superseded() const { return superseded_; }

  // The session was lost: somebody has to join again.
  void Lost() { lost_.store(true); }
  // Lost was called since the last call.
  bool TakeLost() { return lost_.exchange(false); }

 private:
  mutable Mutex mu_;
  std::shared_ptr<NodeSession> session_ ABSL_GUARDED_BY(mu_);
  StocList stocs_ ABSL_GUARDED_BY(mu_);               // see stocs()
  LtcSettings settings_ ABSL_GUARDED_BY(mu_);         // see settings()
  Notification superseded_;                           // see superseded()
  std::atomic<NodeSession*> lease_session_{nullptr};  // session_, for whoever takes no lock
  std::atomic<bool> lost_{false};                     // see Lost
};

}  // namespace nova
