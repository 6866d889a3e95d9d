#include "ltc/server/compaction_placement.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace nova {
namespace {

constexpr std::pair<std::string_view, OffloadPolicy> kNames[] = {
    {"never", OffloadPolicy::kNever},
    {"round_robin", OffloadPolicy::kRoundRobin},
    {"least_loaded", OffloadPolicy::kLeastLoaded},
    {"most_input", OffloadPolicy::kMostInput},
    {"cost", OffloadPolicy::kCost}};

// A request that waits for a disk counts as so many bytes: a piece of a table, as compactions read it.
constexpr uint64_t kBytesOfARequest = 1 << 20;

// What stands before the job's end at a StoC: input that comes over the network, and what is queued there. A
// job that runs there is taken to be as large as this one. The outputs go to the same StoCs in any case.
uint64_t CostAt(const CompactionWorker& w, uint64_t job_bytes) {
  return job_bytes - std::min(w.local_input_bytes, job_bytes) + w.running * job_bytes +
         w.queue_depth * kBytesOfARequest;
}

// Smaller is better.
std::tuple<uint64_t, uint64_t> RankOf(const CompactionWorker& w, uint64_t job_bytes, OffloadPolicy policy) {
  switch (policy) {
    case OffloadPolicy::kLeastLoaded:
      return {w.running, w.queue_depth};
    case OffloadPolicy::kMostInput:
      return {job_bytes - std::min(w.local_input_bytes, job_bytes), w.running};
    case OffloadPolicy::kCost:
      return {CostAt(w, job_bytes), 0};
    case OffloadPolicy::kNever:
    case OffloadPolicy::kRoundRobin:
      break;
  }
  return {0, 0};
}

}  // namespace

std::optional<OffloadPolicy> ParseOffloadPolicy(std::string_view name) {
  for (const auto& [known, policy] : kNames) {
    if (name == known) return policy;
  }
  return std::nullopt;
}

std::optional<StocId> PlaceJob(const std::vector<CompactionWorker>& workers, uint64_t job_bytes,
                               uint32_t running_here, OffloadPolicy policy, uint64_t turn) {
  if (policy == OffloadPolicy::kNever || workers.empty()) return std::nullopt;
  std::vector<CompactionWorker> order = workers;
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(turn % order.size()), order.end());
  const auto best = std::min_element(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return RankOf(a, job_bytes, policy) < RankOf(b, job_bytes, policy);
  });
  const uint64_t cost_here = job_bytes + running_here * job_bytes;
  if (policy == OffloadPolicy::kCost && CostAt(*best, job_bytes) > cost_here) return std::nullopt;
  return best->id;
}

}  // namespace nova
