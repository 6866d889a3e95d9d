// OpenZookeeper: a ConfigStore over a ZooKeeper ensemble.
//
// `hosts` is "host:port,host:port". Every path lies below `chroot` ("/nova"), which is made if it is absent;
// who only reads leaves it so, and finds nothing.
// The ensemble may change the session timeout that is asked for; session_timeout_ns() is the one that holds.
//
// Thread safety: as ConfigStore.
// Ownership: watches may run until the destructor has returned.
// Errors: as ConfigStore. A call waits up to the session timeout for a connection (DeadlineExceeded: nothing
//   was sent) and as long for its answer. A write whose answer was lost is Unknown; a read is sent again. An
//   expired session stays expired: open another store.
#pragma once

#include <memory>
#include <string>

#include "common/config/config_store.h"

namespace nova {

// Opens a session; waits. Unavailable: no answer by the deadline. InvalidArgument: malformed hosts or chroot.
enum class AbsentChroot { kMake, kLeave };
StatusOr<std::unique_ptr<ConfigStore>> OpenZookeeper(const std::string& hosts, const std::string& chroot,
                                                     Nanos session_timeout_ns, Nanos connect_deadline_ns,
                                                     AbsentChroot absent = AbsentChroot::kMake);

}  // namespace nova
