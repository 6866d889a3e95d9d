// Metrics of a fabric: the one list of what a process tells of it in /metrics. LTCs and StoCs tell it of the
// fabric that they have; the coordinator, which has none, of all of theirs together, as heartbeats carry it.
//
// Thread safety: all.   Ownership: what is read outlives the metrics' last exposition.   Errors: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/rdma/fabric.h"

namespace nova {

class Xchg;

// <prefix>_connections, <prefix>_bytes_sent_total and so on: one metric for each field of FabricCounters.
void AddFabricCounters(Metrics* metrics, const std::string& prefix,
                       const std::function<FabricCounters()>& read);
// The same with the prefix "nova_fabric"; and nova_fabric_verbs: 1 where it is that fabric.
void AddFabricMetrics(Metrics* metrics, const Fabric* fabric);
// nova_xchg_cut_off_total: connections that were closed for the peer took nothing, or sent too much.
void AddXchgMetrics(Metrics* metrics, std::vector<const Xchg*> xchgs);

}  // namespace nova
