#include "common/config/memory_store.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {

MemoryConfig::MemoryConfig(MemoryConfigOptions options, ConfigTree tree, Persist persist)
    : persist_(std::move(persist)),
      session_timeout_ns_(options.session_timeout_ns),
      max_delay_ns_(options.max_delay_ns),
      lost_reply_one_in_(options.lost_reply_one_in),
      tree_(std::move(tree)) {
  keeper_ = std::make_unique<Thread>("config.memory.0", [this] { RunKeeper(); });
}

MemoryConfig::~MemoryConfig() {
  {
    MutexLock lock(&mu_);
    NOVA_CHECK(sessions_.empty()) << "a session outlives its store";
    stopping_ = true;
    changed_.SignalAll();
  }
  keeper_->Join();
}

std::unique_ptr<MemorySession> MemoryConfig::NewSession() {
  MutexLock lock(&mu_);
  const ConfigTree::SessionId id = ++last_session_;
  sessions_[id] = Session{};
  std::unique_ptr<MemorySession> session(new MemorySession(this, id));
  session->last_answered_send_ns_ = Now();
  return session;
}

void MemoryConfig::set_faults(Nanos max_delay_ns, uint32_t lost_reply_one_in) {
  MutexLock lock(&mu_);
  max_delay_ns_ = max_delay_ns;
  lost_reply_one_in_ = lost_reply_one_in;
}

Nanos MemoryConfig::RandomDelay() {
  MutexLock lock(&mu_);
  return max_delay_ns_ == 0 ? 0 : static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(max_delay_ns_)));
}

void MemoryConfig::RunKeeper() {
  mu_.Lock();
  while (true) {
    if (!due_.empty()) {
      Watcher w = std::move(due_.front());
      due_.pop_front();
      const auto it = sessions_.find(w.session);
      if (it == sessions_.end()) continue;
      delivering_ = w.session;
      mu_.Unlock();
      w.changed();
      w.changed = nullptr;
      mu_.Lock();
      delivering_ = 0;
      changed_.SignalAll();
      continue;
    }
    if (stopping_) break;
    Nanos next = kNever;
    for (auto& [id, s] : sessions_) {
      if (s.reachable || s.expired) continue;
      const Nanos ends = s.cut_off_ns + session_timeout_ns_;
      if (ends <= Now()) {
        ExpireLocked(id);
      } else {
        next = std::min(next, ends);
      }
    }
    if (due_.empty()) changed_.WaitUntil(&mu_, next);
  }
  mu_.Unlock();
}

void MemoryConfig::ExpireLocked(ConfigTree::SessionId id) {
  sessions_[id].expired = true;
  std::vector<std::string> changed;
  tree_.EndSession(id, &changed);
  NotifyLocked(changed);
  for (auto& [path, watchers] : watchers_) {  // its own waiters: the session is over
    for (Watcher& w : watchers) {
      if (w.session == id) due_.push_back(std::move(w));
    }
    std::erase_if(watchers, [id](const Watcher& w) { return w.session == id; });
  }
  changed_.SignalAll();
}

void MemoryConfig::NotifyLocked(const std::vector<std::string>& changed) {
  for (const std::string& path : changed) {
    const auto it = watchers_.find(path);
    if (it == watchers_.end()) continue;
    for (Watcher& w : it->second) due_.push_back(std::move(w));
    watchers_.erase(it);
  }
  changed_.SignalAll();
}

Status MemoryConfig::ApplyLocked(const std::vector<ConfigOp>& ops, ConfigTree::SessionId id) {
  std::vector<std::string> changed;
  if (persist_ == nullptr) {
    NOVA_RETURN_IF_ERROR(tree_.Apply(ops, id, &changed));
  } else {
    ConfigTree next = tree_;
    NOVA_RETURN_IF_ERROR(next.Apply(ops, id, &changed));
    NOVA_RETURN_IF_ERROR(persist_(next));
    tree_ = std::move(next);
  }
  NotifyLocked(changed);
  return OkStatus();
}

MemorySession::~MemorySession() {
  MutexLock lock(&config_->mu_);
  if (!config_->sessions_[id_].expired) config_->ExpireLocked(id_);
  config_->sessions_.erase(id_);
  while (config_->delivering_ == id_) config_->changed_.Wait(&config_->mu_);
}

Status MemorySession::RoundTrip(bool write, const std::function<Status()>& serve) {
  const Nanos sent = Now();
  const Nanos deadline = sent + config_->session_timeout_ns_;
  while (true) {
    SleepFor(config_->RandomDelay());
    bool lost = false;
    Status result;
    {
      MutexLock lock(&config_->mu_);
      MemoryConfig::Session& s = config_->sessions_[id_];
      while (!s.reachable) {
        if (Now() >= deadline) return absl::DeadlineExceededError("no connection to the configuration store");
        config_->changed_.WaitUntil(&config_->mu_, deadline);
      }
      if (s.expired) return absl::UnavailableError("the session has expired");
      bool lose_request = false;
      if (write) {
        const uint32_t n = config_->lost_reply_one_in_;
        if (n != 0 && config_->random_.OneIn(n)) {
          lost = true;
          lose_request = config_->random_.OneIn(2);
        }
        if (s.lose_requests > 0) {
          --s.lose_requests;
          lost = lose_request = true;
        } else if (s.lose_replies > 0) {
          --s.lose_replies;
          lost = true;
        }
      }
      if (!lose_request) result = serve();
    }
    SleepFor(config_->RandomDelay());
    MutexLock lock(&config_->mu_);
    if (lost || !config_->sessions_[id_].reachable) {
      if (write) return absl::UnknownError("the reply was lost");
      continue;
    }
    last_answered_send_ns_ = std::max(last_answered_send_ns_, sent);
    return result;
  }
}

StatusOr<Znode> MemorySession::Get(const std::string& path) {
  StatusOr<Znode> node = absl::InternalError("not read");
  NOVA_RETURN_IF_ERROR(RoundTrip(false, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    node = config_->tree_.Get(path, id_);
    return node.status();
  }));
  return node;
}

StatusOr<std::vector<std::string>> MemorySession::Children(const std::string& path) {
  StatusOr<std::vector<std::string>> names = absl::InternalError("not read");
  NOVA_RETURN_IF_ERROR(RoundTrip(false, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    names = config_->tree_.Children(path);
    return names.status();
  }));
  return names;
}

Status MemorySession::Write(const std::vector<ConfigOp>& ops) {
  return RoundTrip(true, [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return config_->ApplyLocked(ops, id_); });
}

Status MemorySession::Create(const std::string& path, const std::string& data, bool ephemeral) {
  return Write({ConfigOp::Create(path, data, ephemeral)});
}
Status MemorySession::Set(const std::string& path, const std::string& data, int64_t version) {
  return Write({ConfigOp::Set(path, data, version)});
}
Status MemorySession::Delete(const std::string& path, int64_t version) {
  return Write({ConfigOp::Delete(path, version)});
}
Status MemorySession::Multi(const std::vector<ConfigOp>& ops) { return Write(ops); }
Status MemorySession::Sync() {
  return RoundTrip(false, [] { return OkStatus(); });
}

void MemorySession::Watch(const std::string& path, std::function<void()> changed) {
  MutexLock lock(&config_->mu_);
  MemoryConfig::Watcher w{id_, std::move(changed)};
  if (config_->sessions_[id_].expired) {
    config_->due_.push_back(std::move(w));
    config_->changed_.SignalAll();
  } else {
    config_->watchers_[path].push_back(std::move(w));
  }
}

SessionState MemorySession::session_state() const {
  MutexLock lock(&config_->mu_);
  const MemoryConfig::Session& s = config_->sessions_[id_];
  if (!s.reachable) return SessionState::kConnecting;
  return s.expired ? SessionState::kExpired : SessionState::kConnected;
}

Nanos MemorySession::last_answered_send_ns() const {
  MutexLock lock(&config_->mu_);
  return last_answered_send_ns_;
}

void MemorySession::Expire() {
  MutexLock lock(&config_->mu_);
  if (!config_->sessions_[id_].expired) config_->ExpireLocked(id_);
}

void MemorySession::SetReachable(bool on) {
  MutexLock lock(&config_->mu_);
  MemoryConfig::Session& s = config_->sessions_[id_];
  if (s.reachable && !on) s.cut_off_ns = Now();
  if (!s.reachable && on && !s.expired && s.cut_off_ns + config_->session_timeout_ns_ <= Now())
    config_->ExpireLocked(id_);
  s.reachable = on;
  config_->changed_.SignalAll();
}

void MemorySession::LoseReplies(int n) {
  MutexLock lock(&config_->mu_);
  config_->sessions_[id_].lose_replies = n;
}

void MemorySession::LoseRequests(int n) {
  MutexLock lock(&config_->mu_);
  config_->sessions_[id_].lose_requests = n;
}

}  // namespace nova
