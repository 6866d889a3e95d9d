// OpenZookeeper: a ConfigStore over a ZooKeeper ensemble.
//
// `hosts` is "host:port,host:port"; every path lies below `chroot` ("/nova"), which is made when absent. The
// session timeout asked for may be changed by the ensemble: session_timeout_ns() is what holds.
//
// Thread safety, errors: as ConfigStore. A call waits up to the session timeout for a connection
// (DeadlineExceeded: nothing was sent) and for its answer; a write whose answer was lost is Unknown, a read
// is sent again. An expired session stays expired: open another store.
// Ownership: watches may run until the destructor has returned.
#pragma once

#include <memory>
#include <string>

#include "common/config/config_store.h"

namespace nova {

// Unavailable: no answer by the deadline; InvalidArgument: malformed hosts or chroot.
StatusOr<std::unique_ptr<ConfigStore>> OpenZookeeper(const std::string& hosts, const std::string& chroot,
                                                     Nanos session_timeout_ns, Nanos connect_deadline_ns);

}  // namespace nova
