#include "ltc/engine/rebuilder.h"

#include <algorithm>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kFirstPause = kSecond;  // after a failure
constexpr Nanos kLongestPause = 60 * kSecond;
constexpr int kMostDoublings = 6;
constexpr Nanos kPassedOver = 30 * kSecond;  // a StoC, by all tables of the range

// Counts each table once for each StoC of `tables` that has a part of it.
void CountTables(const Version& version, std::map<StocId, uint64_t>* tables) {
  std::vector<uint64_t*> on;
  version.ForEachTableOnce([&](const TableInfo& table) {
    on.clear();
    ForEachPart(table, [&](uint32_t part) {
      for (const StocId stoc : *CopiesOf(table, part)) {
        const auto it = tables->find(stoc);
        if (it != tables->end() && std::find(on.begin(), on.end(), &it->second) == on.end())
          on.push_back(&it->second);
      }
    });
    for (uint64_t* const count : on) ++*count;
  });
}

}  // namespace

void Rebuilder::Look() {
  std::set<Due> due;
  std::set<Uuid> there;
  uint64_t left = 0;
  const CopyPlanner planner = context_->services->host->PlannerOfCopies();
  versions_->current()->ForEachTableOnce([&](const TableInfo& table) {
    there.insert(table.uuid);
    const CopyPlan plan = PlanFor(table, planner);
    left += plan.bytes;
    if (!plan.copies.empty()) due.insert({plan.living, table.uuid});
  });
  MutexLock lock(&mu_);
  std::erase_if(failed_, [&](const auto& f) { return !there.contains(f.first); });
  std::erase_if(due, [&](const Due& d) {
    mu_.AssertHeld();
    const auto failed = failed_.find(d.table);
    return busy_.contains(d.table) || (failed != failed_.end() && Now() < failed->second.not_before_ns);
  });
  due_ = std::move(due);
  progress_.left = left;
}

bool Rebuilder::RebuildOne() {
  // a restore waits until no job is under way
  if (context_->state.Is(ServingState::kLost) || context_->state.Is(ServingState::kRestoring)) return false;
  Uuid table;
  {
    MutexLock lock(&mu_);
    if (due_.empty()) return false;
    table = due_.extract(due_.begin()).value().table;
    if (!busy_.insert(table).second) return true;  // Look has found it again meanwhile
  }
  CopyPlan plan;
  Status s;
  {
    const JobBook::Job job(jobs_);
    s = Rebuild(table, job.id(), &plan);
  }
  if (!s.ok() && !absl::IsAborted(s)) {
    if (const uint64_t met = failures_.Due()) {
      NOVA_LOG(WARNING) << "range " << context_->spec.id.value() << ": copies of table " << table.ToString()
                        << " not made (failures so far: " << met << "): " << s;
    }
  }
  MutexLock lock(&mu_);
  busy_.erase(table);
  if (absl::IsAborted(s))
    return true;  // compacted away meanwhile; what was copied is collected (collection, N4)
  if (s.ok()) {
    failed_.erase(table);
    progress_.done += plan.bytes;
    progress_.left -= std::min(progress_.left, plan.bytes);
    return true;
  }
  Failed& failed = failed_[table];
  failed.not_before_ns =
      Now() + std::min(kLongestPause, kFirstPause << std::min(failed.times, kMostDoublings));
  ++failed.times;
  for (const PartCopy& c : plan.copies) {
    if (c.to == StocId()) continue;
    failed.tried.insert(c.to);
    passed_over_[c.to] = Now() + kPassedOver;
  }
  return false;
}

Status Rebuilder::Rebuild(const Uuid& table, uint64_t job, CopyPlan* plan) {
  // Held until the end: of a table that is compacted away meanwhile the copies are not deleted while they are
  // read, which would pass for damage.
  const TableRef handle = versions_->current()->FindHandle(table);
  if (handle == nullptr) return OkStatus();  // compacted away
  const TableInfo& info = handle->info();
  *plan = PlanFor(info, context_->services->host->PlannerOfCopies());
  if (plan->copies.empty()) return OkStatus();
  std::vector<PartCopy> make;
  for (const PartCopy& c : plan->copies) {
    if (c.to != StocId()) make.push_back(c);
  }
  if (!make.empty()) {
    const Creator creator{context_->spec.id, context_->spec.epoch, job};
    NOVA_RETURN_IF_ERROR(context_->services->store->MakeCopies(info, make, creator));
  }
  NOVA_FP("rebuild.copied");
  const Status s = versions_->CommitCopies(info, plan->copies);
  if (s.ok()) NOVA_FP_VOID("rebuild.committed");
  return s;
}

CopyPlan Rebuilder::PlanFor(const TableInfo& table, const CopyPlanner& planner) {
  std::set<StocId> tried;
  {
    MutexLock lock(&mu_);
    if (const auto failed = failed_.find(table.uuid); failed != failed_.end()) tried = failed->second.tried;
    for (const auto& [stoc, until_ns] : passed_over_) {
      if (Now() < until_ns) tried.insert(stoc);
    }
  }
  CopyPlan plan = planner(table, tried);
  if (!plan.copies.empty() || tried.empty()) return plan;
  {
    MutexLock lock(&mu_);
    if (const auto failed = failed_.find(table.uuid); failed != failed_.end()) failed->second.tried.clear();
  }
  return planner(table, {});  // from the first one again
}

std::map<StocId, uint64_t> Rebuilder::TablesLeft(const std::vector<StocId>& stocs) const {
  std::map<StocId, uint64_t> left, tables;
  if (stocs.empty()) return left;
  // Jobs first: what one that ends in between has placed is counted.
  for (const StocId stoc : stocs) left[stoc] = jobs_->MayPlaceOn(stoc);
  const std::shared_ptr<const Version> version = versions_->current();
  bool as_before = false;
  {
    MutexLock lock(&mu_);
    // Without a reference of ours: the last one would let go of tables here, under the lock.
    const bool same = !counted_.version.owner_before(version) && !version.owner_before(counted_.version);
    as_before = same && counted_.stocs == stocs;
    if (as_before) tables = counted_.tables;
  }
  if (!as_before) {
    for (const StocId stoc : stocs) tables[stoc] = 0;
    CountTables(*version, &tables);
    MutexLock lock(&mu_);
    counted_ = {version, stocs, tables};
  }
  for (const auto& [stoc, n] : tables) left[stoc] += n;
  return left;
}

}  // namespace nova
