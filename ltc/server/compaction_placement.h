// Where a compaction job runs: here, or on one of the StoCs (paper sections 4.3 and 6).
//
// Thread safety: pure functions.   Ownership: none taken.   Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/ids.h"

namespace nova {

// Which StoC gets a job. kRoundRobin is the paper's; the others are ours.
enum class OffloadPolicy {
  kNever,        // none: it runs here
  kRoundRobin,   // each in turn
  kLeastLoaded,  // the one with the fewest jobs of ours, then with the least backlog
  kMostInput,    // the one that has most of the job's input on its own disk
  kCost,         // where the bytes to move, and those of jobs it would wait for, are the fewest; or here
};
// By its name on a command line: "never", "round_robin", "least_loaded", "most_input", "cost".
std::optional<OffloadPolicy> ParseOffloadPolicy(std::string_view name);

// A request of others for a StoC's disk counts as so many bytes: a piece of a table, as compactions read it.
inline constexpr uint64_t kBytesOfARequest = 1 << 20;

// As many jobs run at once on a StoC, as it comes (nova_stoc --compaction_threads); more of them wait.
inline constexpr uint32_t kJobsAtOnce = 2;

// A StoC that may be given a job, as last heard.
struct CompactionWorker {
  StocId id;
  uint32_t running = 0;            // jobs that this LTC has there
  double backlog_bytes = 0;        // that its disk has to do (Backlogs in placement.h)
  uint64_t local_input_bytes = 0;  // of the job's input, on its own disk
};

// The StoC that gets a job of so many bytes; nullopt: it runs here. `running_here` jobs run here already.
// `turn` rises with each job: among equals each StoC has its turn.
std::optional<StocId> PlaceJob(const std::vector<CompactionWorker>& workers, uint64_t job_bytes,
                               uint32_t running_here, OffloadPolicy policy, uint64_t turn);

}  // namespace nova
