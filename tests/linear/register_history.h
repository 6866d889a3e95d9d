// RegisterHistory, RegisterLoad: what concurrent clients do to keys that several of them write, and whether
// it is linearizable.
//
// A History (tests/cluster_sim/history.h) judges a key that one client writes, at once. Where several write,
// the order of effects is to be searched for: nova_linear does (judge/main.go, which also defines the lines).
//
// Thread safety: RegisterHistory: all methods from any thread or fiber; a RegisterLoad belongs to one.
// Ownership: history and client outlive the loads.   Errors: Judge says what is wrong.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random.h"

namespace nova {

class RegisterHistory {
 public:
  // One operation that began at `call`. `returned`: none where its outcome is unknown. Refused operations are
  // not added.
  void Add(int client, Nanos call, std::optional<Nanos> returned, std::string_view key,
           std::string_view operation);
  size_t size() const;
  Status WriteTo(const std::string& path) const;
  // What nova_linear says of it, and whether that is "linearizable". Starts a process: outside a simulation.
  bool Judge(std::string* verdict) const;

 private:
  mutable Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

struct RegisterLoadOptions {
  int client = 0;            // a number of its own: of its values too
  size_t value_bytes = 200;  // the most of them
  // The keys of the moment, which all loads share. After so many operations in all they go on with fresh
  // ones, for the search grows with the operations of a key.
  std::vector<std::string> keys;
  size_t operations_per_key = 150;
};

// One client's operations: puts, deletes, compare-and-swaps; gets by get, multi-get and scan.
class RegisterLoad {
 public:
  RegisterLoad(Client* client, RegisterHistory* history, const RegisterLoadOptions& options);
  void Step();

 private:
  std::string Key(uint64_t which) const;
  std::string FreshValue();
  void Write(const std::string& key, bool remove);
  void CompareAndSwap(const std::string& key);
  void Read(const std::string& key);
  void ReadTwo(const std::string& key, const std::string& other);
  void ReadByScan(const std::string& key);
  void Saw(const std::string& key, Nanos call, Outcome outcome, const std::string& value);

  Client* const client_;
  RegisterHistory* const history_;
  const RegisterLoadOptions options_;
  uint64_t values_ = 0;
  std::map<std::string, std::optional<std::string>> last_seen_;
  Random random_;
};

}  // namespace nova
