// CoordinatorService: one coordinator: campaigns for leadership, keeps ClusterState true to the ConfigStore,
// carries out its decisions, and answers the methods of coordinator.proto.
//
// Parts, each of which asks those before it: ZnodeSession (the session, and what has to be read again),
// Election (who leads, and until when), ClusterMirror (ClusterState), RangeMovers, CoordinatorRequests (with
// DrainRequests).
//
// Thread safety: all methods from any thread; Handle may wait for the ConfigStore (not for Heartbeat and
//                GetConfiguration).
// Ownership:     the destructor steps down in order; transports that call Handle end before it.
// Errors:        Handle: NotLeadingError (leader_channel.h), else the method's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/log_throttle.h"
#include "common/base/metrics.h"
#include "common/base/thread.h"
#include "common/config/config_store.h"
#include "coordinator/cluster_mirror.h"
#include "coordinator/coordinator_requests.h"
#include "coordinator/election.h"
#include "coordinator/range_movers.h"
#include "coordinator/redundancy.h"
#include "coordinator/znode_session.h"

namespace nova {

struct CoordinatorOptions {
  std::string name;                               // of this coordinator: a node name (znodes.h)
  std::string address;                            // where others reach it
  std::string store = "the configuration store";  // what and where it is, for people
  ClusterOptions cluster;
  uint32_t max_value_bytes = 1 << 20;             // told to clients
  Nanos tick_ns = 100 * kMillisecond;             // between decisions
  Nanos authority_check_ns = 250 * kMillisecond;  // between proofs that the session lives and /coord is ours
  Nanos reread_ns = 10 * kSecond;                 // all znodes, should a watch have been missed
  uint32_t movers = 4;                            // threads that carry out moves
};

class CoordinatorService {
 public:
  // Opens a new session; called again when one has expired.
  using OpenStore = std::function<StatusOr<std::unique_ptr<ConfigStore>>()>;

  // Makes the cluster (/cluster and the folders) when it is the first. FailedPrecondition: a cluster of a
  // later format. InvalidArgument: options that make no sense.
  static StatusOr<std::unique_ptr<CoordinatorService>> Start(CoordinatorOptions options, OpenStore open_store,
                                                             Metrics* metrics);
  ~CoordinatorService();

  // Answers a method of coordinator.proto: for transports.
  StatusOr<std::string> Handle(const std::string& method, const std::string& request) {
    return requests_.Handle(method, request);
  }
  bool leading() const { return election_.CheckLeading().ok(); }
  CoordEpoch coord_epoch() const { return election_.LatestTerm().coord_epoch; }  // of its latest term
  // For people; also while another one leads.
  std::string StatusText() const { return requests_.StatusText(); }

 private:
  CoordinatorService(CoordinatorOptions options, OpenStore open_store, const Uuid& cluster, Metrics* metrics);
  // Makes /cluster and the folders where they are not there; which cluster it is.
  static StatusOr<Uuid> Bootstrap(ConfigStore* store);
  // Metrics of the whole cluster, told by the one who leads: the others know nothing of it, and 0 would be
  // an answer.
  void AddClusterGauges(Metrics* metrics);
  void AddCopyGauges(Metrics* metrics, const char* what, CopyCounts Redundancy::*copies);
  // One of them, by what it says of a leader's state; no samples while this one does not lead.
  void AddClusterFamily(Metrics* metrics, const std::string& name,
                        std::function<Metrics::Samples(const ClusterState&)> read);
  // The sum of what the nodes last said; none while this one does not lead.
  std::optional<FabricCounters> FabricOfNodes() const;

  // coord.main: opens a session when there is none, campaigns, and leads.
  void Run();
  // Ends the session that has expired, if any, and opens another one.
  void OpenSession();
  // Until nobody leads, as far as can be told, or Stop.
  void WaitForVacancy(ConfigStore* store);
  // From the election until another one leads, the session is in doubt, or Stop.
  void Lead(const Term& term);
  // Gives what a tick has decided to the movers; what they have no room for is decided anew.
  void CarryOut(CoordEpoch term, ClusterDecisions decisions);

  const CoordinatorOptions options_;
  const OpenStore open_store_;
  Counter* const elections_;
  Counter* const step_downs_;
  ZnodeSession session_;
  Election election_;
  ClusterMirror mirror_;
  RangeMovers movers_;
  CoordinatorRequests requests_;
  LogThrottle campaign_failures_;  // lines about them
  std::unique_ptr<Thread> main_;
};

}  // namespace nova
