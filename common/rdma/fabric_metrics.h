// Metrics of a fabric: the one list of what /metrics says about it. LTCs and StoCs report their own fabric;
// the coordinator, which has none, reports the sum of theirs, as heartbeats carry it.
//
// Thread safety: all.
// Ownership: the sources outlive the metrics' last exposition.
// Errors: none.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/rdma/fabric.h"

namespace nova {

class Xchg;

// Adds <prefix>_connections, <prefix>_bytes_sent_total and so on: one metric for each field of
// FabricCounters, read by `read`; none where that gives none.
void AddFabricCounters(Metrics* metrics, const std::string& prefix,
                       const std::function<std::optional<FabricCounters>()>& read);
// The same of `fabric` with the prefix "nova_fabric", and nova_fabric_verbs: 1 if it is that fabric.
void AddFabricMetrics(Metrics* metrics, const Fabric* fabric);
// nova_xchg_cut_off_total: connections closed because the peer took nothing or sent too much.
void AddXchgMetrics(Metrics* metrics, std::vector<const Xchg*> xchgs);

}  // namespace nova
