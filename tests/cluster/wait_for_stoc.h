// What `nova status` says of a StoC, awaited.
//
// Thread safety: that of ProcessCluster::Nova.   Ownership: none taken.   Units: nanoseconds.
// Errors: false once the deadline has passed; a status that fails is asked for again.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/clock.h"
#include "tests/cluster/process_cluster.h"

namespace nova {

// Until what the status says of `stoc` is as `wanted`. *status: all that it said last.
bool WaitForStoc(ProcessCluster* cluster, const std::string& stoc,
                 const std::function<bool(const nlohmann::json& stoc)>& wanted, Nanos deadline,
                 nlohmann::json* status);

}  // namespace nova
