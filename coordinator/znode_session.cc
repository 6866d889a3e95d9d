#include "coordinator/znode_session.h"

#include <utility>

namespace nova {

std::shared_ptr<ConfigStore> ZnodeSession::store() const {
  MutexLock lock(&mu_);
  return store_;
}

void ZnodeSession::Begin(std::shared_ptr<ConfigStore> store) {
  MutexLock lock(&mu_);
  store_ = std::move(store);
}

void ZnodeSession::End() {
  std::shared_ptr<ConfigStore> ended;
  MutexLock lock(&mu_);
  ended.swap(store_);
  if (ended != nullptr) last_answered_ns_ = ended->last_answered_send_ns();
  watched_.clear();
  ++session_;
}

void ZnodeSession::Stop() {
  MutexLock lock(&mu_);
  stopping_ = true;
  wake_.SignalAll();
}

bool ZnodeSession::stopping() const {
  MutexLock lock(&mu_);
  return stopping_;
}

Nanos ZnodeSession::Silence() const {
  std::shared_ptr<ConfigStore> store;
  Nanos answered = 0;
  {
    MutexLock lock(&mu_);
    store = store_;
    answered = last_answered_ns_;
  }
  if (store != nullptr) answered = store->last_answered_send_ns();
  const Nanos silence = Now() - answered;
  // A session that lives was answered within its timeout.
  return store != nullptr && silence < store->session_timeout_ns() ? 0 : silence;
}

void ZnodeSession::WatchOnce(const std::string& path) {
  std::shared_ptr<ConfigStore> store;
  uint64_t session = 0;
  {
    MutexLock lock(&mu_);
    if (store_ == nullptr || !watched_.insert(path).second) return;
    store = store_;
    session = session_;
  }
  store->Watch(path, [this, path, session] {
    MutexLock lock(&mu_);
    if (session != session_) return;
    watched_.erase(path);
    dirty_.insert(path);
    wake_.SignalAll();
  });
}

void ZnodeSession::MarkDirty(const std::string& path) {
  MutexLock lock(&mu_);
  dirty_.insert(path);
  wake_.SignalAll();
}

void ZnodeSession::Clear() {
  MutexLock lock(&mu_);
  dirty_.clear();
}

std::set<std::string> ZnodeSession::TakeDirty(Nanos until_ns) {
  MutexLock lock(&mu_);
  while (!stopping_ && dirty_.empty() && Now() < until_ns) wake_.WaitUntil(&mu_, until_ns);
  return std::exchange(dirty_, {});
}

void ZnodeSession::WaitForDirty(const std::string& path, Nanos until_ns) {
  MutexLock lock(&mu_);
  while (!stopping_ && !dirty_.contains(path) && Now() < until_ns) wake_.WaitUntil(&mu_, until_ns);
}

void ZnodeSession::Pause(Nanos ns) {
  MutexLock lock(&mu_);
  if (!stopping_) wake_.WaitUntil(&mu_, Now() + ns);
}

}  // namespace nova
