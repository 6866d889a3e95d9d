// What the ranges of an LTC share: their options, and the services of their host.
//
// Thread safety: plain values, set before the first range is made; services say theirs.
// Ownership: of services each says its own; they outlive every range.
// Errors: none.
#pragma once

#include <functional>
#include <memory>

#include "common/base/rules_off.h"
#include "coordinator/coordinator_client.h"
#include "logc/log_client.h"
#include "ltc/engine/range.h"
#include "ltc/server/job_offloader.h"
#include "ltc/server/placement.h"
#include "ltc/server/silent_stocs.h"
#include "stoc/stoc_client.h"

namespace nova {

// What an acknowledged write survives (durability, D). kAuto is decided anew whenever a log group is chosen:
// memory and files where all living StoCs share one host, for one loss of power would take every copy in
// memory; else memory.
enum class LogMode { kNone, kMemory, kPersistent, kMemoryAndPersistent, kAuto };

// The same for all ranges of an LTC; its flags set them.
struct HostedRangeOptions {
  RangeOptions range;                   // of the engine
  PlacementOptions placement;           // of tables
  LogMode log_mode = LogMode::kMemory;  // of log groups that are chosen from now on
  int log_replicas = 3;                 // R: members of a log group (group change, L4)
  // Log groups with fewer members than this make writes wait (L4). R is the strict choice; 0 means max(2, R -
  // 1), at most R.
  int min_replicas = 0;
  int manifest_replicas = 3;                // M: members of the manifest (manifest, renewal, M1)
  Nanos request_deadline_ns = 2 * kSecond;  // of one request to a StoC
  RulesOff off = {};                        // tests only

  // R, M and the copies of a table; told to the coordinator.
  CopiesKept CopiesKeptOfEach() const {
    CopiesKept kept;
    if (log_mode != LogMode::kNone) kept.log = static_cast<uint32_t>(log_replicas);
    kept.manifest = static_cast<uint32_t>(manifest_replicas);
    kept.table = static_cast<uint32_t>(placement.replicas);
    return kept;
  }
};

// The services that an LTC shares among all its ranges. They outlive every HostedRange.
struct HostServices {
  RangeServices range;  // each HostedRange sets `host` and `garbage` of its own copy
  // Takes a table that a range dropped; does not wait.
  std::function<void(const TableInfo&, const Creator& holder)> garbage;
  StocClient* stocs = nullptr;  // all requests to StoCs but those of logs
  LogClient* logs = nullptr;    // makes the log of each range
  // Those that need not be asked to join a log just now.
  std::shared_ptr<SilentStocs> silent = std::make_shared<SilentStocs>();
  JobOffloader* offloader = nullptr;  // has compactions run on StoCs; null: they run here
  // The membership in the cluster; null while there is none.
  std::function<std::shared_ptr<NodeSession>()> session;
  // The StoCs there are, and those that are gone for good (StoC record, N5).
  std::function<StocList()> stocs_told;
  // A copy of the table is damaged or gone; does not wait.
  std::function<void(const Uuid& table)> damaged;
  // Each of these three drops the function where 65,536 wait already, or the node stops. They have so many
  // threads and so few callers that nothing is dropped by a node that serves.
  // Runs a function on a control thread, which may wait.
  std::function<void(std::function<void()>)> run_control;
  // Runs it on a thread that only replaces log groups, and may wait.
  std::function<void(std::function<void()>)> run_change;
  // Runs it on a thread that opens the readers of tables.
  std::function<void(std::function<void()>)> run_reader;
  // There may be something to flush or to compact; may be called under locks of the range.
  std::function<void(RangeId)> work_due;
  // The range's epoch is over: lets it go, and no later one.
  std::function<void(RangeId, Epoch, const Status&)> fenced;
};

}  // namespace nova
