#include "common/base/server_flags.h"

#include <gflags/gflags.h>

DEFINE_string(zookeeper, "", "ZooKeeper ensemble, host:port,host:port");
DEFINE_string(chroot, "/nova", "the cluster's path in ZooKeeper");
DEFINE_int32(zookeeper_session_ms, 30000,
             "ZooKeeper session timeout; a coordinator's, unless given, is --lease_ms: after it a killed "
             "leader is replaced");
DEFINE_int32(zookeeper_connect_ms, 10000, "how long to wait for ZooKeeper at start");
DEFINE_string(name, "",
              "of this node, unique in the cluster; a coordinator's may be left out: coord-<host>-<port>");
DEFINE_string(address, "127.0.0.1:0", "where to serve, host:port; port 0 picks one");
DEFINE_string(advertise, "", "where others reach this node, host:port; empty: --address as bound");
DEFINE_string(metrics_address, "127.0.0.1:0",
              "where to serve /metrics and a status page, host:port; port 0 picks one");

namespace nova {

void CheckServerFlags() {
  CheckFlagGiven("zookeeper", FLAGS_zookeeper, "host:port,...");
  if (FLAGS_chroot.empty() || FLAGS_chroot[0] != '/')
    ExitWithError(StrCat("--chroot = ", FLAGS_chroot, ": must be a path like /nova"));
  CheckFlagRange("zookeeper_session_ms", FLAGS_zookeeper_session_ms, 100, 600'000);
  CheckFlagRange("zookeeper_connect_ms", FLAGS_zookeeper_connect_ms, 1, 600'000);
  CheckFlagHostPort("address", FLAGS_address);
  if (!FLAGS_advertise.empty()) {
    CheckFlagHostPort("advertise", FLAGS_advertise);
  } else if (FLAGS_address.starts_with("0.0.0.0:")) {
    ExitWithError(
        StrCat("--address = ", FLAGS_address, ": is no address to connect to: --advertise is needed"));
  }
  CheckFlagHostPort("metrics_address", FLAGS_metrics_address);
}

}  // namespace nova
