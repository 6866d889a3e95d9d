// LogOptions: the settings of the log on StoCs, which its parts share.
//
// Thread safety: a plain value.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/rules_off.h"

namespace nova {

// Deadlines are of one request, from when it is posted.
struct LogOptions {
  uint64_t segment_bytes = 1 << 20;   // of a log's segments; a larger record gets one of its size
  Nanos write_deadline_ns = kSecond;  // deadline (L5), tcp; 200 ms on verbs
  // L5, to a StoC of the same host: what takes longer there is a process that stands still, not a network. No
  // longer than write_deadline_ns.
  Nanos near_write_deadline_ns = 300 * kMillisecond;
  std::string host;                  // of this process, as NodeInfo::host; empty: no StoC is near
  Nanos open_deadline_ns = kSecond;  // of opening a segment
  // L5, of opening a log's file and of an append to it: a disk that syncs takes its time. A put at a StoC
  // whose disk hangs waits for so long, and for the change of its group.
  Nanos file_deadline_ns = 4 * kSecond;
  Nanos ping_deadline_ns = 250 * kMillisecond;       // L5
  Nanos near_ping_deadline_ns = 150 * kMillisecond;  // L5, to a StoC of the same host
  // L5: the least time between two changes of a range's group for members that answer pings.
  Nanos change_pause_ns = 5 * kSecond;
  // Records that waited for a full disk for so long are in doubt; no others join them: Append says kNoSpace.
  Nanos full_pause_ns = kSecond;
  // Records that waited for so long for a segment that no member has memory for end with kBusy, unless they
  // were sent somewhere; no others join them.
  Nanos no_memory_pause_ns = kSecond;
  size_t staging_bytes = 256 << 20;        // records encoded and not yet delivered, all ranges together
  size_t lane_in_flight_bytes = 64 << 20;  // of one range and thread; Append refuses more
  RulesOff off = {};                       // tests only
};

}  // namespace nova
