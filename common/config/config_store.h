// ConfigStore: versioned znodes: compare-and-set, multi, ephemeral nodes, watches. ZooKeeper's model, reduced
// to what we use.
//
// Implementations: zookeeper (zookeeper_store.h), memory (one process and simulations: session expiry, lost
// replies), file (one machine without ZooKeeper, tools and tests). Paths are absolute: "/ranges/7"; a store
// may prefix a chroot.
//
// Thread safety: all methods from any thread; calls wait for the answer (threads that may wait only; never an
//                xchg thread). Watches run on a thread of the store's: hand work over, do not call back into
//                the store from them.
// Errors: NotFound; AlreadyExists; Aborted: the version did not match; Unknown: sent, and the answer was
//         lost: read again and decide by what is there (faults row 38); Unavailable: no session;
//         DeadlineExceeded: not sent in time; InvalidArgument.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace nova {

struct Znode {
  std::string data;
  int64_t version = 0;  // counts sets of this node
  // transaction id of its creation: tells a node from one created anew under the same name
  int64_t created = 0;
  bool ephemeral = false;
  bool mine = false;  // ephemeral and owned by this store's session
};

struct ConfigOp {
  enum class Kind { kCheck, kCreate, kSet, kDelete };
  Kind kind = Kind::kCheck;
  std::string path;
  std::string data;
  int64_t version = -1;  // of kCheck, kSet, kDelete; -1 = any
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

enum class SessionState { kConnecting, kConnected, kExpired };  // expired is final: open a new store (row 37)

class ConfigStore {
 public:
  virtual ~ConfigStore() = default;  // closes the session: its ephemeral nodes go

  virtual StatusOr<Znode> Get(const std::string& path) = 0;
  virtual StatusOr<std::vector<std::string>> Children(const std::string& path) = 0;  // names, sorted
  virtual Status Create(const std::string& path, const std::string& data, bool ephemeral = false) = 0;
  virtual Status Set(const std::string& path, const std::string& data, int64_t version) = 0;
  virtual Status Delete(const std::string& path, int64_t version = -1) = 0;
  virtual Status Multi(const std::vector<ConfigOp>& ops) = 0;  // all or nothing
  virtual Status Sync() = 0;  // after it, reads see all that was answered anywhere before

  // Calls `changed` once, after the node or its children changed (or may have: a reconnect counts).
  virtual void Watch(const std::string& path, std::function<void()> changed) = 0;

  virtual SessionState session_state() const = 0;
  virtual Nanos session_timeout_ns() const = 0;
  // Send time, on our clock, of the latest request that was answered: until it + timeout (1 - rho) the
  // session lives (lease, C3).
  virtual Nanos last_answered_send_ns() const = 0;

  // Adds `n` to the counter at `path` (made when absent) and returns the first of the n new values, from 1
  // up.
  StatusOr<uint64_t> Increment(const std::string& path, uint64_t n = 1);
};

}  // namespace nova
