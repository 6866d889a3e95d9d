// What the control plane knows of nodes and ranges, as plain values; the same in znodes, heartbeats and configurations.
//
// Znodes (N3), all under one chroot:
//   /cluster            uuid of the cluster, format version
//   /coord              {leader name, address, coord_epoch}: checked by every change the coordinator makes (C1)
//   /nodes/<name>       ephemeral NodeInfo
//   /stocs/<stoc id>    {store uuid, name}: given once, at format time
//   /ranges/<range id>  RangeRecord, every change a compare-and-set
//   /epochs/...         counters: incarnation, stoc id, range id
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/rdma/fabric.h"

namespace nova {

struct NodeInfo {
  std::string name;
  Role role = Role::kTool;
  Incarnation incarnation;
  std::string address;  // of the data plane, "host:port"
  std::string host;     // replicas go to distinct hosts where there are several
  StocId stoc_id;       // of a StoC
  Uuid store;           // of a StoC
  std::string metrics_address;
  bool draining = false;
  bool operator==(const NodeInfo&) const = default;
};

struct LogMember {
  StocId stoc;
  Incarnation incarnation;  // in-memory segments belong to one (N1)
  bool operator==(const LogMember&) const = default;
};
struct LogGroup {
  GroupId id;
  std::vector<LogMember> members;
  bool operator==(const LogGroup&) const = default;
};
// The file of one epoch and roll (M1): StocFileId{file, 0} on each member.
struct ManifestGroup {
  Uuid file;
  std::vector<StocId> members;
  bool operator==(const ManifestGroup&) const = default;
};

enum class RangeState : uint8_t { kSealing = 0, kOpen = 1 };

struct RangeRecord {
  RangeId id;
  std::string lower;  // stored keys, [lower, upper); empty upper = no end
  std::string upper;
  Epoch epoch;
  RangeState state = RangeState::kSealing;
  std::string owner;  // empty: nobody yet, or released in order
  Incarnation owner_incarnation;
  bool released = false;  // the last owner flushed, stopped and let go: no lease to wait for
  ManifestGroup manifest;
  std::vector<LogGroup> log_groups;
  GroupId last_group;     // group ids are never reused
  int64_t version = 0;    // of the znode it was read from

  std::string Encode() const;  // without `version`
  static StatusOr<RangeRecord> Decode(std::string_view data, int64_t version);
};

}  // namespace nova
