// MemoryConfig: a ConfigStore's znodes in memory, shared by any number of sessions. For one process, and for
// simulations: sessions that expire by command or because they were cut off for too long (virtual time
// counts), lost and late replies.
//
//   MemoryConfig config({.session_timeout_ns = 2 * kSecond});
//   std::unique_ptr<MemorySession> a = config.NewSession();
//
// Thread safety: all methods from any thread.
// Ownership: the MemoryConfig outlives its sessions.
// Errors: as ConfigStore. While a session is cut off its calls wait, for up to the session timeout.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/thread.h"
#include "common/config/config_store.h"
#include "common/config/config_tree.h"

namespace nova {

struct MemoryConfigOptions {
  Nanos session_timeout_ns = 4 * kSecond;
  Nanos max_delay_ns = 0;  // every request and every reply takes a random time up to this
  // One in n writes is answered Unknown, and half of those are applied; 0: none.
  uint32_t lost_reply_one_in = 0;
};

class MemorySession;

class MemoryConfig {
 public:
  // Makes `tree` durable before the change that led to it is answered or seen. An error refuses the change.
  using Persist = std::function<Status(const ConfigTree& tree)>;

  explicit MemoryConfig(MemoryConfigOptions options = {}, ConfigTree tree = {}, Persist persist = nullptr);
  ~MemoryConfig();
  MemoryConfig(const MemoryConfig&) = delete;
  MemoryConfig& operator=(const MemoryConfig&) = delete;

  std::unique_ptr<MemorySession> NewSession();
  void set_faults(Nanos max_delay_ns, uint32_t lost_reply_one_in);  // of MemoryConfigOptions, from now on

 private:
  friend class MemorySession;
  // A session as the server knows it.
  struct Session {
    bool expired = false;  // the client learns it at its next contact
    bool reachable = true;
    Nanos cut_off_ns = 0;   // when it became unreachable
    int lose_replies = 0;   // writes to be applied and answered Unknown
    int lose_requests = 0;  // writes to be answered Unknown without being applied
  };
  struct Watcher {
    ConfigTree::SessionId session;
    std::function<void()> changed;
  };

  void RunKeeper();  // the body of keeper_
  // Ends a session: its ephemeral nodes go, its calls fail.
  void ExpireLocked(ConfigTree::SessionId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the watches of these paths due.
  void NotifyLocked(const std::vector<std::string>& changed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies and persists changes, and makes watches due.
  Status ApplyLocked(const std::vector<ConfigOp>& ops, ConfigTree::SessionId id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The time that a request or a reply takes; takes the lock.
  Nanos RandomDelay();

  const Persist persist_;
  const Nanos session_timeout_ns_;
  Mutex mu_;
  CondVar changed_;  // signalled when a session's state, a due watch or stopping_ changes; with mu_
  Nanos max_delay_ns_ ABSL_GUARDED_BY(mu_);
  uint32_t lost_reply_one_in_ ABSL_GUARDED_BY(mu_);
  ConfigTree tree_ ABSL_GUARDED_BY(mu_);
  Random random_ ABSL_GUARDED_BY(mu_);
  ConfigTree::SessionId last_session_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<ConfigTree::SessionId, Session> sessions_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::vector<Watcher>> watchers_ ABSL_GUARDED_BY(mu_);  // by path; each is called once
  // Watches that the keeper is to call; bounded by the watches that were set.
  std::deque<Watcher> due_ ABSL_GUARDED_BY(mu_);
  ConfigTree::SessionId delivering_ ABSL_GUARDED_BY(mu_) = 0;  // whose watch is being called now; 0: none
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Thread> keeper_;  // ends sessions that were cut off too long, delivers watches
};

class MemorySession : public ConfigStore {
 public:
  ~MemorySession() override;

  StatusOr<Znode> Get(const std::string& path) override;
  StatusOr<std::vector<std::string>> Children(const std::string& path) override;
  Status Create(const std::string& path, const std::string& data, bool ephemeral = false) override;
  Status Set(const std::string& path, const std::string& data, int64_t version) override;
  Status Delete(const std::string& path, int64_t version = -1) override;
  Status Multi(const std::vector<ConfigOp>& ops) override;
  Status Sync() override;
  void Watch(const std::string& path, std::function<void()> changed) override;
  SessionState session_state() const override;
  Nanos session_timeout_ns() const override { return config_->session_timeout_ns_; }
  Nanos last_answered_send_ns() const override;

  // --- faults, of tests
  void Expire();  // the server ends the session now; this side learns it at its next contact
  // False: cut off; after the session timeout the server ends the session.
  void SetReachable(bool on);
  // The next n writes are applied and answered Unknown.
  void LoseReplies(int n);
  // The next n writes are not applied and answered Unknown.
  void LoseRequests(int n);

 private:
  friend class MemoryConfig;
  MemorySession(MemoryConfig* config, ConfigTree::SessionId id) : config_(config), id_(id) {}
  // One round trip: `serve` runs under the lock, at the server. Waits for delays, and while cut off.
  Status RoundTrip(bool write, const std::function<Status()>& serve);
  Status Write(const std::vector<ConfigOp>& ops);  // a round trip that changes the tree

  MemoryConfig* const config_;
  const ConfigTree::SessionId id_;
  Nanos last_answered_send_ns_ = 0;  // guarded by config_->mu_
};

}  // namespace nova
