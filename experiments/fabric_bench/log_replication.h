// Log replication beside what it is made of: a record appended to R StoCs by LogC, one at a time, and R
// WRITEs of its size posted together on a port.
//
// Thread safety: one thread.   Errors: aborts the program.
#pragma once

#include <functional>
#include <memory>

#include "common/rdma/fabric.h"

namespace nova {

struct ReplicationTimes {
  double log_us = 0;     // median, Append to acknowledged
  double writes_us = 0;  // median, Post to the last completion
};

// `make_fabric` is called for each StoC and for the two writers; `address` is where the StoCs listen.
ReplicationTimes MeasureReplication(const std::function<std::unique_ptr<Fabric>()>& make_fabric,
                                    const std::string& address, int replicas, size_t record_bytes, int count);

}  // namespace nova
