// The flags that all servers have, and their bounds. Only those that a main uses are linked into it. For
// files with a main.
#pragma once

#include <gflags/gflags_declare.h>

#include "common/base/flags.h"

// Of every server.
DECLARE_string(zookeeper);
DECLARE_string(chroot);
DECLARE_int32(zookeeper_session_ms);
DECLARE_int32(zookeeper_connect_ms);
DECLARE_string(name);
DECLARE_string(address);
DECLARE_string(advertise);
DECLARE_string(metrics_address);
// Of the servers that coordinators look after: LTCs and StoCs (node_flags.cc).
DECLARE_string(coordinators);
DECLARE_string(host);
DECLARE_string(fabric);
DECLARE_string(rdma_device);

namespace nova {

void CheckServerFlags();  // ends the program if one of every server is bad
void CheckNodeFlags();    // likewise, of LTCs and StoCs

}  // namespace nova
