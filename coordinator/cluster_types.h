// What the control plane knows of nodes and ranges, as plain values; the same in znodes, heartbeats and
// configurations.
//
// Znodes (range record, N3), all under one chroot:
//   /cluster            uuid of the cluster, format version
//   /coord              {leader name, address, coord_epoch}: checked by every change it makes (authority, C1)
//   /nodes/<name>       ephemeral NodeInfo
//   /stocs/<stoc id>    StocRecord (stoc_record.h): made at format time, outlives the StoC's process
//   /ranges/<range id>  RangeRecord, every change a compare-and-set
//   /epochs/...         counters: incarnation, stoc id, range id
//   /settings           LtcSettings (ltc_settings.h)
//
// NodeInfo and RangeRecord in bytes; lp = length-prefixed, numbers are varint64 unless said otherwise:
//   node   = u8 format 1 | lp name | u8 role | incarnation | lp address | lp host | stoc id |
//            fixed64 store hi, lo | lp metrics address | u8 draining | fixed32 crc32c of all before
//   range  = u8 format 1 or 2 | id | lp lower | lp upper | epoch | u8 state | lp owner | owner incarnation |
//            u8 released | fixed64 manifest hi, lo | n, n StoC ids | n groups of {id | n,
//            n of {StoC id, incarnation [fixed64 store hi, lo]} [u8 media]} | last group |
//            fixed32 crc32c of all before
// Format 2, with the fields in brackets, is written as soon as a group has files; a program that knows no
// log files refuses it.
//
// Thread safety: plain values.
// Errors: of Decode: DataLoss: malformed, or of a format that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/rdma/fabric.h"

namespace nova {

// What a StoC's disk is taken for, from the best to the worst: of several that are true the last one is told.
enum class DiskState : uint8_t {
  kOk = 0,
  kSlow = 1,      // far slower than those of the other StoCs
  kFull = 2,      // takes no new files
  kHung = 3,      // an operation on it does not end
  kReadOnly = 4,  // refuses writes
  kFailing = 5,   // gave an error (EIO) for a read, a write or a sync
};
inline constexpr size_t kDiskStates = 6;
const char* DiskStateName(DiskState state);  // "ok", "slow", "full", "hung", "read_only", "failing"
// What such a disk has done is not undone by later successes: an operator's word ends it, or another disk.
inline bool IsDiskFault(DiskState state) { return state >= DiskState::kReadOnly; }

// A node, as it registers itself (an ephemeral znode), and as others are told of it.
struct NodeInfo {
  std::string name;  // unique in the cluster
  Role role = Role::kTool;
  Incarnation incarnation;      // of its process (incarnation, N1)
  std::string address;          // of the data plane, "host:port"
  std::string host;             // replicas go to distinct hosts where there are several
  StocId stoc_id;               // of a StoC
  Uuid store;                   // of a StoC
  std::string metrics_address;  // of /metrics and the status page; empty: none
  bool draining = false;        // everything is to be moved off it
  // Of a StoC, and in no registration: what the leading coordinator says of its disk. Where other StoCs will
  // do, nothing new is placed on one whose disk is not kOk.
  DiskState disk = DiskState::kOk;
  // Its disk is to be left, as by a drain; but what finds no other place stays (StoC record, N5).
  bool emptied = false;
  // Nothing new is placed there, and what it holds goes elsewhere.
  bool IsLeft() const { return draining || emptied; }
  bool operator==(const NodeInfo&) const = default;
};
std::string EncodeNodeInfo(const NodeInfo& node);          // without what is said of its disk
StatusOr<NodeInfo> DecodeNodeInfo(std::string_view data);  // DataLoss: malformed

// A StoC of a log group, as it was when the group was listed.
struct LogMember {
  StocId stoc;
  Incarnation incarnation;  // in-memory segments belong to one (incarnation, N1)
  Uuid store = {};          // log files belong to a store
  bool operator==(const LogMember&) const = default;
};
// What each member of a group holds of a log.
enum class LogMedia : uint8_t { kMemory = 0, kFiles = 1, kMemoryAndFiles = 2 };
inline bool HasMemory(LogMedia m) { return m != LogMedia::kFiles; }
inline bool HasFiles(LogMedia m) { return m != LogMedia::kMemory; }

// The StoCs that have a range's records (write-all, L3).
struct LogGroup {
  GroupId id;                      // of the range's groups; rises, and is never used again
  std::vector<LogMember> members;  // all have every acknowledged record
  LogMedia media = LogMedia::kMemory;
  // True if `member`, whose StoC runs with that incarnation on that store, has what was acknowledged.
  bool Holds(const LogMember& member, Incarnation incarnation, const Uuid& store) const {
    return (HasMemory(media) && member.incarnation == incarnation) ||
           (HasFiles(media) && member.store == store);
  }
  bool operator==(const LogGroup&) const = default;
};

// SEALING: on its way to a new owner, and served by nobody (seal, R1). OPEN: the owner serves it.
enum class RangeState : uint8_t { kSealing = 0, kOpen = 1 };

// A range's entry in the configuration store (range record, N3).
struct RangeRecord {
  RangeId id;
  std::string lower;  // stored keys, [lower, upper); empty upper = no end
  std::string upper;
  Epoch epoch;  // rises with each owner (epoch, N2)
  RangeState state = RangeState::kSealing;
  std::string owner;                 // empty: nobody yet, or released in order
  Incarnation owner_incarnation;     // of the owner's process (N1)
  bool released = false;             // the last owner flushed, stopped and let go: no lease to wait for
  ManifestGroup manifest;            // the file in use, and its members; none: never opened
  std::vector<LogGroup> log_groups;  // that may hold records which no table has; the last takes new ones
  GroupId last_group;                // group ids are never reused
  int64_t version = 0;               // of the znode it was read from

  // Its owner serves it.
  bool IsOpen() const { return state == RangeState::kOpen && !released; }
  std::string Encode() const;  // without `version`
  static StatusOr<RangeRecord> Decode(std::string_view data, int64_t version);
};

}  // namespace nova
