// CoordinatorRequests: answers the methods of coordinator.proto, bytes in, bytes out, so that every transport
// shares it.
//
// Thread safety: all; Handle may wait for the ConfigStore (not for Heartbeat and GetConfiguration).
// Ownership:     the parts outlive it.
// Errors:        NotLeadingError (leader_channel.h), else the method's.
#pragma once

#include <string>

#include "common/base/metrics.h"
#include "coordinator/cluster_mirror.h"
#include "coordinator/drain_requests.h"

namespace nova {

// The part of CoordinatorOptions that requests need.
struct RequestOptions {
  std::string name;  // of this coordinator
  std::string address;
  std::string store;  // as CoordinatorOptions
  Uuid cluster;
  uint32_t max_value_bytes = 0;  // told to clients
  ClusterOptions cluster_options;
};

class CoordinatorRequests {
 public:
  CoordinatorRequests(RequestOptions options, Election* election, ClusterMirror* mirror,
                      ZnodeSession* session, Metrics* metrics);

  // Answers the method of that name. Unimplemented: there is none.
  StatusOr<std::string> Handle(const std::string& method, const std::string& request);
  // Also when not leading: says who does.
  std::string StatusText() const;

 private:
  // Calls the handler of that name.
  StatusOr<std::string> Dispatch(const std::string& method, const std::string& request);
  // Why this coordinator knows of no leader: the store does not answer, or nobody can lead; empty: neither.
  std::string WhyNoLeader() const;
  // One method each: parses the request, asks the part that knows, serializes its answer.
  StatusOr<std::string> HandleHeartbeat(const std::string& request);
  StatusOr<std::string> HandleGetConfiguration(const std::string& request);
  StatusOr<std::string> HandleCreateRanges(const std::string& request);
  StatusOr<std::string> HandleGetStatus();
  StatusOr<std::string> HandleDrain(const std::string& request);
  StatusOr<std::string> HandleUndrain(const std::string& request);
  StatusOr<std::string> HandleForget(const std::string& request);
  StatusOr<std::string> HandleForceOpen(const std::string& request);
  StatusOr<std::string> HandleChangeSetting(const std::string& request);

  const RequestOptions options_;
  Election* const election_;
  ClusterMirror* const mirror_;
  ZnodeSession* const session_;
  DrainRequests drains_;
  Counter* const heartbeats_;
};

}  // namespace nova
