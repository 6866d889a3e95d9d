// ConfigStore: versioned znodes: compare-and-set, multi, ephemeral nodes, watches. ZooKeeper's model, reduced
// to the parts that are used.
//
// Implementations: zookeeper (zookeeper_store.h); memory (one process, and simulations with session expiry
// and lost replies); file (one machine without ZooKeeper, tools and tests). Paths are absolute: "/ranges/7";
// a store may put a chroot in front.
//
// A compare-and-set of a record:
//
//   StatusOr<Znode> node = store->Get(path);
//   Status s = store->Set(path, Change(node->data), node->version);
//   // Aborted: somebody else was first. Unknown: read again; it may have been made.
//
// Thread safety: all methods from any thread that may wait, never an xchg thread: calls wait for the answer.
//   Watches run on a thread of the store's, or inside Watch where none can be set (zookeeper, after the end
//   of the session): hand work over, do not call the store from them, and hold no lock that they take.
// Ownership: closures given to Watch may run until the store is destroyed.
// Errors: NotFound; AlreadyExists; Aborted: the version did not match; Unknown: it was sent and the answer
//   was lost: read again, and decide by the outcome; Unavailable: no session; DeadlineExceeded: not sent in
//   time; InvalidArgument.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

// A node as it was read.
struct Znode {
  std::string data;     // what the last Create or Set gave it
  int64_t version = 0;  // sets of this node so far
  // The transaction that created it: tells a node from another created later under the same name.
  int64_t created = 0;
  bool ephemeral = false;  // goes with its session
  bool mine = false;       // ephemeral and owned by this store's session
};

// One step of a Multi.
struct ConfigOp {
  enum class Kind { kCheck, kCreate, kSet, kDelete };
  Kind kind = Kind::kCheck;
  std::string path;
  std::string data;
  int64_t version = -1;  // of kCheck, kSet, kDelete; -1: any
  bool ephemeral = false;

  static ConfigOp Check(std::string path, int64_t version) {
    return {Kind::kCheck, std::move(path), "", version, false};
  }
  static ConfigOp Create(std::string path, std::string data, bool ephemeral = false) {
    return {Kind::kCreate, std::move(path), std::move(data), -1, ephemeral};
  }
  static ConfigOp Set(std::string path, std::string data, int64_t version) {
    return {Kind::kSet, std::move(path), std::move(data), version, false};
  }
  static ConfigOp Delete(std::string path, int64_t version = -1) {
    return {Kind::kDelete, std::move(path), "", version, false};
  }
};

enum class SessionState { kConnecting, kConnected, kExpired };  // kExpired is final: open a new store

class ConfigStore {
 public:
  // Closes the session: its ephemeral nodes go.
  virtual ~ConfigStore() = default;

  // The node. In the calls below a version of -1 fits any.
  virtual StatusOr<Znode> Get(const std::string& path) = 0;
  virtual StatusOr<std::vector<std::string>> Children(const std::string& path) = 0;  // names, sorted
  // AlreadyExists; NotFound: its parent is not there. `ephemeral`: it goes with this session.
  virtual Status Create(const std::string& path, const std::string& data, bool ephemeral = false) = 0;
  // These two: NotFound; Aborted: it has another version.
  virtual Status Set(const std::string& path, const std::string& data, int64_t version) = 0;
  virtual Status Delete(const std::string& path, int64_t version = -1) = 0;
  virtual Status Multi(const std::vector<ConfigOp>& ops) = 0;  // all or nothing
  // After it reads see everything that was answered anywhere before.
  virtual Status Sync() = 0;

  // Calls `changed` once, after the node or its children have changed, or may have: a reconnect counts.
  virtual void Watch(const std::string& path, std::function<void()> changed) = 0;

  virtual SessionState session_state() const = 0;  // as far as this end knows
  virtual Nanos session_timeout_ns() const = 0;    // as agreed with the store
  // When, by our clock, the latest request that was answered was sent: until that + timeout * (1 - rho) the
  // session certainly lives (lease, C3).
  virtual Nanos last_answered_send_ns() const = 0;

  // Adds `n` to the counter at `path` (made if it is absent) and returns the first of the n new values; they
  // begin with 1.
  StatusOr<uint64_t> Increment(const std::string& path, uint64_t n = 1);
  // Makes the counter at least `n`, so that Increment gives higher numbers alone from then on.
  Status RaiseCounter(const std::string& path, uint64_t n);
};

}  // namespace nova
