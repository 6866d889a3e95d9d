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

// Bytes that stand before the job's end at a StoC: input that comes over the network, and the jobs that it
// would wait for, each taken to be as large as this one. What its disk has to do is no part of it: inputs are
// read where they lie, and outputs go where they were placed, whoever merges them.
double CostAt(const CompactionWorker& w, uint64_t job_bytes) {
  const uint64_t to_move = job_bytes - std::min(w.local_input_bytes, job_bytes);
  return static_cast<double>(to_move + w.running / kJobsAtOnce * job_bytes);
}

// Smaller is better.
std::tuple<double, double> RankOf(const CompactionWorker& w, uint64_t job_bytes, OffloadPolicy policy) {
  switch (policy) {
    case OffloadPolicy::kLeastLoaded:
      return {w.running, w.backlog_bytes};
    case OffloadPolicy::kMostInput:
      return {static_cast<double>(job_bytes - std::min(w.local_input_bytes, job_bytes)), w.running};
    case OffloadPolicy::kCost:
      return {CostAt(w, job_bytes), w.running};
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
  const auto cost_here = static_cast<double>(job_bytes + running_here * job_bytes);
  if (policy == OffloadPolicy::kCost && CostAt(*best, job_bytes) > cost_here) return std::nullopt;
  return best->id;
}

}  // namespace nova
