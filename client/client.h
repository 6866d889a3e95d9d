// Client: gets, puts, deletes and scans against a Nova cluster, from any number of threads over few connections.
//
//   auto client = nova::Client::Connect({.coordinators = {"127.0.0.1:7400"}});
//   if (!client.ok()) ...
//   nova::Result r = (*client)->Put("user1", "value");
//
// Each operation has one deadline, retries and refreshes included. A write ends in one of three ways (Result::effect()):
// applied; definitely not applied; unknown: it was sent and not answered in time, and is never sent again by the client.
//
// Thread safety: all methods from any thread; callbacks run on a thread of the client's and must not wait.
// Ownership:     arguments are copied where a call is asynchronous; results are values. The client outlives its operations.
// Errors:        Result. Keys are 1 to 4096 bytes; an empty or larger key, or a value over the cluster's limit, is InvalidArgument
//                and nothing is written. The library has no flags, installs no signal handlers and logs to stderr at most warnings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/outcome.h"
#include "common/base/status.h"

namespace nova {

struct ClientOptions {
  std::vector<std::string> coordinators;  // gRPC addresses, host:port
  int64_t timeout_ms = 10'000;            // of one operation
  int threads = 1;                        // exchange threads, each with one connection per LTC
  uint32_t keyspace = 0;
  std::string fabric;       // auto, verbs, tcp; empty: $NOVA_FABRIC, else auto
  std::string rdma_device;  // NAME or NAME:PORT; empty: $NOVA_RDMA_DEVICE, else the first that is up
};

struct Result {
  Outcome outcome = Outcome::kOk;
  std::string message;  // names operation, range and node when it failed
  bool ok() const { return outcome == Outcome::kOk; }
  Effect effect() const { return EffectOf(outcome); }
};

struct GetResult : Result {
  std::string value;
};

struct ScanResult : Result {
  std::vector<std::pair<std::string, std::string>> entries;  // in key order
};

struct ClientEnvironment;  // client/client_core.h: of simulations

class Client {
 public:
  static StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  static StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options, const ClientEnvironment& environment);
  ~Client();  // waits for the operations under way

  // --- blocking
  Result Put(std::string_view key, std::string_view value);
  Result Delete(std::string_view key);
  GetResult Get(std::string_view key);
  // The first `limit` entries with key >= from, over all ranges; each range is read at one moment.
  ScanResult Scan(std::string_view from, size_t limit);

  // --- asynchronous
  void PutAsync(std::string_view key, std::string_view value, std::function<void(Result)> done);
  void DeleteAsync(std::string_view key, std::function<void(Result)> done);
  void GetAsync(std::string_view key, std::function<void(GetResult)> done);
  void ScanAsync(std::string_view from, size_t limit, std::function<void(ScanResult)> done);

  uint64_t retries() const;         // tries after the first, of all operations so far
  std::string StatusText();         // what `nova status` prints, or why not
  Status CreateRanges(const std::vector<std::string>& split_keys);  // user keys; n make n + 1 ranges
  Status Drain(const std::string& node, std::string* left);  // *left: what is still on it; empty: nothing, it can stop
  Status ForceOpen(uint64_t range, bool accept_data_loss, std::string* report);
  size_t range_count();             // as known now

 private:
  struct Rep;
  explicit Client(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
