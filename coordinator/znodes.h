// Znodes: where the control plane's znodes are, and the two text records among them.
//
//   /cluster   "format=1\nuuid=<32 hex digits>\n"
//   /coord     "coord_epoch=7\nleader=coord-1\naddress=host:port\nmax_lease_ms=2000\nnonce=<32 hex digits>\n"
//   /coord_leader   ephemeral, the leader's name; who creates it leads
//   /settings  ltc_settings.h; made by the first coordinator, empty
//
// Unknown keys in a record are kept out of the way: a newer version may add some. The records of StoCs
// are text too: stoc_record.h.
//
// Thread safety: pure functions.   Errors: DataLoss: malformed.
#pragma once

#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace nova {

// Below the cluster's folder in ZooKeeper. The folders /nodes, /stocs and /ranges have one znode each.
// Those in /epochs are counters, which give each number once.
inline constexpr char kClusterPath[] = "/cluster";
inline constexpr char kCoordPath[] = "/coord";
inline constexpr char kCoordLeaderPath[] = "/coord_leader";
inline constexpr char kNodesPath[] = "/nodes";
inline constexpr char kStocsPath[] = "/stocs";
inline constexpr char kRangesPath[] = "/ranges";
inline constexpr char kSettingsPath[] = "/settings";
inline constexpr char kEpochsPath[] = "/epochs";
inline constexpr char kIncarnationPath[] = "/epochs/incarnation";
inline constexpr char kStocIdPath[] = "/epochs/stoc";
inline constexpr char kRangeIdPath[] = "/epochs/range";

inline std::string NodePath(std::string_view name) { return StrCat(kNodesPath, "/", std::string(name)); }
inline std::string StocPath(StocId id) { return StrCat(kStocsPath, "/", id.value()); }
inline std::string RangePath(RangeId id) { return StrCat(kRangesPath, "/", id.value()); }

inline constexpr uint32_t kClusterFormat = 1;

struct ClusterRecord {  // /cluster
  uint32_t format = kClusterFormat;
  Uuid uuid;
  std::string Encode() const;
  // Also FailedPrecondition: a format this version does not know.
  static StatusOr<ClusterRecord> Decode(std::string_view data);
};

struct CoordRecord {       // /coord
  CoordEpoch coord_epoch;  // rises with each election (authority, C1)
  std::string leader;      // its name
  std::string address;     // where others reach it
  // The longest lease that may still run from this or an earlier leader (new leader, C2).
  Nanos max_lease_ns = 0;
  // Drawn for each campaign: tells a winner whose answer was lost that it won (docs/testing.md, row 38).
  Uuid nonce;
  std::string Encode() const;
  static StatusOr<CoordRecord> Decode(std::string_view data);
};

// One component of a path, and one word in what people read: 1..64 letters, digits, '.', '_', '-'; not "." or
// "..".
bool IsNodeName(std::string_view name);

}  // namespace nova
