#include "common/config/zookeeper_store.h"

#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/config/config_tree.h"

namespace nova {
namespace {

std::atomic<int> g_opening{0};  // stores being opened: what goes wrong then comes back as a Status

// The C client repeats itself at every connection attempt: one line in ten seconds is enough for a reader.
void LogFromClient(const char* message) {
  if (g_opening.load() > 0) return;
  static std::atomic<Nanos> last{0};
  static std::atomic<uint64_t> skipped{0};
  const std::string_view text(message);
  const bool error = text.find(":ZOO_ERROR@") != std::string_view::npos;
  if (!error && text.find(":ZOO_WARN@") == std::string_view::npos) return;
  const Nanos now = Now();
  Nanos before = last.load();
  if ((before != 0 && now - before < 10 * kSecond) || !last.compare_exchange_strong(before, now)) {
    skipped.fetch_add(1);
    return;
  }
  const uint64_t hidden = skipped.exchange(0);
  std::string_view body = text.substr(text.find(":ZOO_") + 1);
  while (!body.empty() && body.back() == '\n') body.remove_suffix(1);
  NOVA_LOG(WARNING) << "zookeeper client: " << body << (hidden > 0 ? StrCat(" (and ", hidden, " more)") : "");
}

// The server said so, whatever it said: the request reached it, and the session was alive.
bool AnsweredByServer(int rc) {
  return rc == ZOK || rc == ZNONODE || rc == ZNOAUTH || rc == ZBADVERSION || rc == ZNOCHILDRENFOREPHEMERALS ||
         rc == ZNODEEXISTS || rc == ZNOTEMPTY || rc == ZINVALIDACL;
}

bool AnswerLost(int rc) { return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT; }

Status ToStatus(int rc, const std::string& path) {
  const std::string text = StrCat(path, ": ", zerror(rc));
  switch (rc) {
    case ZOK:
      return OkStatus();
    case ZNONODE:
      return absl::NotFoundError(path);
    case ZNODEEXISTS:
      return absl::AlreadyExistsError(path);
    case ZBADVERSION:
      return absl::AbortedError(text);
    case ZNOTEMPTY:
    case ZNOCHILDRENFOREPHEMERALS:
      return absl::FailedPreconditionError(text);
    case ZBADARGUMENTS:
      return absl::InvalidArgumentError(text);
    case ZNOAUTH:
    case ZAUTHFAILED:
      return absl::PermissionDeniedError(text);
    case ZSESSIONEXPIRED:
    case ZINVALIDSTATE:
    case ZCLOSING:
      return absl::UnavailableError("the ZooKeeper session has expired");
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONMOVED:
      return absl::UnknownError(text);
    default:
      return absl::InternalError(text);
  }
}

class ZookeeperStore : public ConfigStore {
 public:
  ZookeeperStore(std::string hosts, std::string chroot)
      : hosts_(std::move(hosts)), chroot_(std::move(chroot)) {}
  ~ZookeeperStore() override {
    if (handle_ != nullptr) zookeeper_close(handle_);
  }

  Status Open(Nanos session_timeout_ns, Nanos deadline_ns, AbsentChroot absent);

  StatusOr<Znode> Get(const std::string& path) override;
  StatusOr<std::vector<std::string>> Children(const std::string& path) override;
  Status Create(const std::string& path, const std::string& data, bool ephemeral) override;
  Status Set(const std::string& path, const std::string& data, int64_t version) override;
  Status Delete(const std::string& path, int64_t version) override;
  Status Multi(const std::vector<ConfigOp>& ops) override;
  Status Sync() override;
  void Watch(const std::string& path, std::function<void()> changed) override;
  SessionState session_state() const override;
  Nanos session_timeout_ns() const override { return timeout_ns_.load(std::memory_order_acquire); }
  Nanos last_answered_send_ns() const override {
    return last_answered_send_ns_.load(std::memory_order_acquire);
  }

 private:
  // One request under way. The completion keeps it alive when the caller has given up.
  struct Pending {
    ZookeeperStore* store = nullptr;
    Nanos sent_ns = 0;  // our clock
    Mutex mu;
    CondVar answered;  // signalled when done becomes true; with mu
    bool done ABSL_GUARDED_BY(mu) = false;
    int rc ABSL_GUARDED_BY(mu) = ZOK;  // of the client library
    Znode node ABSL_GUARDED_BY(mu);
    std::vector<std::string> names ABSL_GUARDED_BY(mu);
    std::vector<zoo_op_result_t> results;  // written by the client library before the completion
  };
  // A path and the closures to call when it changes.
  struct WatchedPath {
    std::string path;
    std::vector<std::function<void()>> waiting;
  };
  // A request under way that sets a watch.
  struct WatchRequest {
    ZookeeperStore* store;
    uint64_t watch;  // key of watches_
    Nanos sent_ns;
  };

  // Callbacks of the client library, on its threads; they do not wait.

  // The session's state has changed: tells waiting requests; a connection that is back fires all watches.
  static void OnSession(zhandle_t* handle, int type, int state, const char* path, void* context);
  // A watched path has changed.
  static void OnWatch(zhandle_t* handle, int type, int state, const char* path, void* context);
  // The end of a request that answers only with a code.
  static void OnVoid(int rc, const void* data) {
    Finish(rc, data, [](Pending*) {});
  }
  // As OnVoid; the created path is known.
  static void OnString(int rc, const char*, const void* data) { OnVoid(rc, data); }
  // As OnVoid; the new version is not needed.
  static void OnStat(int rc, const struct Stat*, const void* data) { OnVoid(rc, data); }
  // The end of a Get.
  static void OnData(int rc, const char* value, int length, const struct Stat* stat, const void* data);
  // The end of a Children.
  static void OnNames(int rc, const struct String_vector* names, const void* data);
  // The end of a request that sets a watch on a node.
  static void OnWatchExists(int rc, const struct Stat*, const void* data) { OnWatchSet(rc, data); }
  // The end of a request that sets a watch on a node's children.
  static void OnWatchChildren(int rc, const struct String_vector*, const void* data) { OnWatchSet(rc, data); }
  // A watch is set; or it is not, and fires, for the path may have changed unseen.
  static void OnWatchSet(int rc, const void* data);
  // Ends the request of the token `data`: notes the time of the answer, calls fill(Pending*) if it succeeded,
  // and wakes its caller.
  template <typename Fill>
  static void Finish(int rc, const void* data, Fill fill);

  // The path below the chroot.
  std::string Full(const std::string& path) const {
    if (chroot_ == "/") return path;
    return path == "/" ? chroot_ : chroot_ + path;
  }
  // Waits. DeadlineExceeded: there is no connection. Unavailable: the session has expired.
  Status WaitConnected(Nanos deadline_ns);
  // Sends a request and waits for its end. `send` is one zoo_a... call with the Pending's token. A read whose
  // answer was lost is sent again; of a write it is Unknown.
  template <typename Send>
  StatusOr<std::shared_ptr<Pending>> Request(bool write, const std::string& path, Send send,
                                             std::shared_ptr<Pending> pending = nullptr);
  // The server has answered a request sent at `sent_ns`: the session lives a timeout from then on (lease,
  // C3).
  void NoteAnswered(Nanos sent_ns);
  // Calls the closures that wait for a path to change, each once, without the lock.
  void Fire(uint64_t watch);
  // Fire, of all paths.
  void FireAll();
  // Creates the nodes of chroot_ that are absent.
  Status MakeChroot();

  const std::string hosts_;
  const std::string chroot_;
  zhandle_t* handle_ = nullptr;       // of the client library; set by Open
  std::atomic<Nanos> timeout_ns_{0};  // as the ensemble granted it
  std::atomic<Nanos> last_answered_send_ns_{0};
  std::atomic<int64_t> session_id_{0};
  mutable Mutex mu_;
  CondVar state_changed_;  // signalled with state_; with mu_
  SessionState state_ ABSL_GUARDED_BY(mu_) = SessionState::kConnecting;
  // A path keeps its number for the life of the store, so that the client library holds one watcher for it,
  // not one a call.
  std::map<std::string, uint64_t> watch_ids_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, WatchedPath> watches_ ABSL_GUARDED_BY(mu_);
};

template <typename Fill>
void ZookeeperStore::Finish(int rc, const void* data, Fill fill) {
  std::unique_ptr<const std::shared_ptr<Pending>> token(static_cast<const std::shared_ptr<Pending>*>(data));
  Pending* p = token->get();
  if (AnsweredByServer(rc)) p->store->NoteAnswered(p->sent_ns);
  MutexLock lock(&p->mu);
  p->rc = rc;
  if (rc == ZOK) fill(p);
  p->done = true;
  p->answered.SignalAll();
}

void ZookeeperStore::OnData(int rc, const char* value, int length, const struct Stat* stat,
                            const void* data) {
  Finish(rc, data, [&](Pending* p) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (value != nullptr && length > 0) p->node.data.assign(value, static_cast<size_t>(length));
    p->node.version = stat->version;
    p->node.created = stat->czxid;
    p->node.ephemeral = stat->ephemeralOwner != 0;
    p->node.mine = p->node.ephemeral && stat->ephemeralOwner == p->store->session_id_.load();
  });
}

void ZookeeperStore::OnNames(int rc, const struct String_vector* names, const void* data) {
  Finish(rc, data, [&](Pending* p) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    p->names.assign(names->data, names->data + names->count);
    std::sort(p->names.begin(), p->names.end());
  });
}

void ZookeeperStore::OnSession(zhandle_t* handle, int type, int state, const char*, void* context) {
  if (type != ZOO_SESSION_EVENT) return;
  auto* store = static_cast<ZookeeperStore*>(context);
  bool fire = false;
  {
    MutexLock lock(&store->mu_);
    if (store->state_ == SessionState::kExpired) return;
    if (state == ZOO_CONNECTED_STATE) {
      store->timeout_ns_.store(zoo_recv_timeout(handle) * kMillisecond, std::memory_order_release);
      store->session_id_.store(zoo_client_id(handle)->client_id);
      store->state_ = SessionState::kConnected;
      fire = true;  // a reconnect counts as a change
    } else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
      store->state_ = SessionState::kExpired;
      fire = true;
    } else {
      store->state_ = SessionState::kConnecting;
    }
    store->state_changed_.SignalAll();
  }
  if (fire) store->FireAll();
}

void ZookeeperStore::OnWatch(zhandle_t* handle, int type, int, const char*, void* context) {
  if (type == ZOO_SESSION_EVENT) return;  // OnSession has it
  auto* store = static_cast<ZookeeperStore*>(const_cast<void*>(zoo_get_context(handle)));
  store->Fire(reinterpret_cast<uintptr_t>(context));
}

void ZookeeperStore::OnWatchSet(int rc, const void* data) {
  std::unique_ptr<const WatchRequest> request(static_cast<const WatchRequest*>(data));
  if (AnsweredByServer(rc)) {
    request->store->NoteAnswered(request->sent_ns);
  } else {
    request->store->Fire(request->watch);  // the watch is not set: the node may have changed unseen
  }
}

void ZookeeperStore::NoteAnswered(Nanos sent_ns) {
  Nanos known = last_answered_send_ns_.load(std::memory_order_relaxed);
  while (known < sent_ns && !last_answered_send_ns_.compare_exchange_weak(known, sent_ns)) {
  }
}

void ZookeeperStore::Fire(uint64_t watch) {
  std::vector<std::function<void()>> waiting;
  {
    MutexLock lock(&mu_);
    waiting.swap(watches_[watch].waiting);
  }
  for (const auto& changed : waiting) changed();
}

void ZookeeperStore::FireAll() {
  std::vector<std::function<void()>> waiting;
  {
    MutexLock lock(&mu_);
    for (auto& [id, w] : watches_) {
      for (auto& changed : w.waiting) waiting.push_back(std::move(changed));
      w.waiting.clear();
    }
  }
  for (const auto& changed : waiting) changed();
}

Status ZookeeperStore::WaitConnected(Nanos deadline_ns) {
  MutexLock lock(&mu_);
  while (state_ == SessionState::kConnecting) {
    if (!state_changed_.WaitUntil(&mu_, deadline_ns) && state_ == SessionState::kConnecting &&
        Now() >= deadline_ns) {
      return absl::DeadlineExceededError(StrCat("no connection to ZooKeeper at ", hosts_));
    }
  }
  if (state_ == SessionState::kExpired) return absl::UnavailableError("the ZooKeeper session has expired");
  return OkStatus();
}

template <typename Send>
StatusOr<std::shared_ptr<ZookeeperStore::Pending>> ZookeeperStore::Request(bool write,
                                                                           const std::string& path, Send send,
                                                                           std::shared_ptr<Pending> pending) {
  const Nanos deadline_ns = Now() + session_timeout_ns();
  while (true) {
    NOVA_RETURN_IF_ERROR(WaitConnected(deadline_ns));
    if (pending == nullptr) pending = std::make_shared<Pending>();
    pending->store = this;
    pending->sent_ns = Now();
    auto token = std::make_unique<std::shared_ptr<Pending>>(pending);
    int rc = send(pending.get(), token.get());
    if (rc == ZOK) {
      token.release();
      MutexLock lock(&pending->mu);
      // The client library answers every request at the latest when its connection breaks; twice the timeout
      // is a backstop.
      const Nanos give_up_ns = deadline_ns + session_timeout_ns();
      while (!pending->done && Now() < give_up_ns) pending->answered.WaitUntil(&pending->mu, give_up_ns);
      rc = pending->done ? pending->rc : static_cast<int>(ZOPERATIONTIMEOUT);
    }
    if (rc == ZOK) return pending;
    if (write || !AnswerLost(rc)) return ToStatus(rc, path);
    if (Now() >= deadline_ns)
      return absl::DeadlineExceededError(StrCat("reading ", path, " from ZooKeeper at ", hosts_));
    pending = nullptr;
  }
}

StatusOr<Znode> ZookeeperStore::Get(const std::string& path) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  NOVA_ASSIGN_OR_RETURN(auto p, Request(false, path, [&](Pending*, void* token) {
                          return zoo_aget(handle_, Full(path).c_str(), 0, &OnData, token);
                        }));
  MutexLock lock(&p->mu);
  return std::move(p->node);
}

StatusOr<std::vector<std::string>> ZookeeperStore::Children(const std::string& path) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  NOVA_ASSIGN_OR_RETURN(auto p, Request(false, path, [&](Pending*, void* token) {
                          return zoo_aget_children(handle_, Full(path).c_str(), 0, &OnNames, token);
                        }));
  MutexLock lock(&p->mu);
  return std::move(p->names);
}

Status ZookeeperStore::Create(const std::string& path, const std::string& data, bool ephemeral) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  return Request(true, path,
                 [&](Pending*, void* token) {
                   return zoo_acreate(handle_, Full(path).c_str(), data.data(), static_cast<int>(data.size()),
                                      &ZOO_OPEN_ACL_UNSAFE, ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT,
                                      &OnString, token);
                 })
      .status();
}

Status ZookeeperStore::Set(const std::string& path, const std::string& data, int64_t version) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  return Request(true, path,
                 [&](Pending*, void* token) {
                   return zoo_aset(handle_, Full(path).c_str(), data.data(), static_cast<int>(data.size()),
                                   static_cast<int>(version), &OnStat, token);
                 })
      .status();
}

Status ZookeeperStore::Delete(const std::string& path, int64_t version) {
  NOVA_RETURN_IF_ERROR(CheckConfigPath(path));
  return Request(true, path,
                 [&](Pending*, void* token) {
                   return zoo_adelete(handle_, Full(path).c_str(), static_cast<int>(version), &OnVoid, token);
                 })
      .status();
}

Status ZookeeperStore::Multi(const std::vector<ConfigOp>& ops) {
  std::vector<std::string> paths;
  paths.reserve(ops.size());
  std::vector<zoo_op_t> raw(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    const ConfigOp& op = ops[i];
    NOVA_RETURN_IF_ERROR(CheckConfigPath(op.path));
    const char* path = paths.emplace_back(Full(op.path)).c_str();
    const int size = static_cast<int>(op.data.size());
    const int version = static_cast<int>(op.version);
    switch (op.kind) {
      case ConfigOp::Kind::kCheck:
        zoo_check_op_init(&raw[i], path, version);
        break;
      case ConfigOp::Kind::kCreate:
        zoo_create_op_init(&raw[i], path, op.data.data(), size, &ZOO_OPEN_ACL_UNSAFE,
                           op.ephemeral ? ZOO_EPHEMERAL : ZOO_PERSISTENT, nullptr, 0);
        break;
      case ConfigOp::Kind::kSet:
        zoo_set_op_init(&raw[i], path, op.data.data(), size, version, nullptr);
        break;
      case ConfigOp::Kind::kDelete:
        zoo_delete_op_init(&raw[i], path, version);
        break;
    }
  }
  if (ops.empty()) return OkStatus();
  auto pending = std::make_shared<Pending>();
  pending->results.resize(ops.size());
  return Request(
             true, StrCat(ops.back().path, " (one of ", ops.size(), " changes)"),
             [&](Pending* p, void* token) {
               return zoo_amulti(handle_, static_cast<int>(raw.size()), raw.data(), p->results.data(),
                                 &OnVoid, token);
             },
             std::move(pending))
      .status();
}

Status ZookeeperStore::Sync() {
  return Request(
             false, "/",
             [&](Pending*, void* token) { return zoo_async(handle_, Full("/").c_str(), &OnString, token); })
      .status();
}

void ZookeeperStore::Watch(const std::string& path, std::function<void()> changed) {
  uint64_t id = 0;
  bool expired = false;
  {
    MutexLock lock(&mu_);
    id = watch_ids_.try_emplace(path, watch_ids_.size() + 1).first->second;
    WatchedPath& w = watches_[id];
    w.path = path;
    w.waiting.push_back(std::move(changed));
    expired = state_ == SessionState::kExpired;
  }
  if (expired) return Fire(id);
  void* const context = reinterpret_cast<void*>(static_cast<uintptr_t>(id));
  const std::string full = Full(path);
  auto exists = std::make_unique<WatchRequest>(WatchRequest{this, id, Now()});
  if (zoo_awexists(handle_, full.c_str(), &OnWatch, context, &OnWatchExists, exists.get()) != ZOK)
    return Fire(id);
  exists.release();
  auto children = std::make_unique<WatchRequest>(WatchRequest{this, id, Now()});
  if (zoo_awget_children(handle_, full.c_str(), &OnWatch, context, &OnWatchChildren, children.get()) != ZOK)
    return Fire(id);
  children.release();
}

SessionState ZookeeperStore::session_state() const {
  MutexLock lock(&mu_);
  return state_;
}

Status ZookeeperStore::MakeChroot() {
  for (size_t end = chroot_.find('/', 1); chroot_ != "/"; end = chroot_.find('/', end + 1)) {
    const std::string part = chroot_.substr(0, end);
    const Status s = Request(false, part, [&](Pending*, void* token) {
                       return zoo_acreate(handle_, part.c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
                                          &OnString, token);
                     }).status();
    if (!s.ok() && !absl::IsAlreadyExists(s)) return s;
    if (end == std::string::npos) break;
  }
  return OkStatus();
}

Status ZookeeperStore::Open(Nanos session_timeout_ns, Nanos deadline_ns, AbsentChroot absent) {
  zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
  timeout_ns_.store(session_timeout_ns);
  handle_ = zookeeper_init2(hosts_.c_str(), &OnSession, static_cast<int>(session_timeout_ns / kMillisecond),
                            nullptr, this, ZOO_NO_LOG_CLIENTENV, &LogFromClient);
  if (handle_ == nullptr) {
    return absl::InvalidArgumentError(StrCat("ZooKeeper hosts '", hosts_, "': ", std::strerror(errno)));
  }
  const Status connected = WaitConnected(deadline_ns);
  if (!connected.ok()) return absl::UnavailableError(connected.message());
  if (absent == AbsentChroot::kLeave) return OkStatus();
  return Annotate(MakeChroot(), StrCat("ZooKeeper at ", hosts_));
}

}  // namespace

StatusOr<std::unique_ptr<ConfigStore>> OpenZookeeper(const std::string& hosts, const std::string& chroot,
                                                     Nanos session_timeout_ns, Nanos connect_deadline_ns,
                                                     AbsentChroot absent) {
  NOVA_RETURN_IF_ERROR(Annotate(CheckConfigPath(chroot), "ZooKeeper chroot"));
  if (hosts.empty() || hosts.find('/') != std::string::npos) {
    return absl::InvalidArgumentError(StrCat("ZooKeeper hosts must be host:port,...: '", hosts, "'"));
  }
  auto store = std::make_unique<ZookeeperStore>(hosts, chroot);
  g_opening.fetch_add(1);
  const Status opened = store->Open(session_timeout_ns, connect_deadline_ns, absent);
  if (!opened.ok()) store.reset();
  g_opening.fetch_sub(1);
  if (!opened.ok()) return opened;
  return std::unique_ptr<ConfigStore>(std::move(store));
}

}  // namespace nova
