// StocBackend: what a range in a cluster works with: its record, its manifest (M1) on StoCs, where its tables
// are placed, its host. The Range keeps it: a flush or compaction under way outlives the HostedRange when the
// range is lost.
//
// Thread safety: all. Requests to StoCs and to the store wait.
// Locks: its own, of settings and placement; under it the loads of flushes and writes are told what
//   `nova configure` has set (Configure).
// Ownership: the services outlive it.
// Errors: Unavailable: no StoC is there, or none answers. FailedPrecondition: the epoch is no longer ours.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "coordinator/ltc_settings.h"
#include "ltc/server/host_services.h"
#include "ltc/server/record_keeper.h"

namespace nova {

// Of the part of a table, a fragment or the metadata, that has the fewest copies on `living` StoCs.
uint32_t LivingCopies(const TableInfo& table, const std::map<StocId, std::string>& living);

class StocBackend : public ManifestStorage, public RangeHost, public JobRunner {
 public:
  StocBackend(const HostServices* services, const HostedRangeOptions& options,
              const RangeAssignment& assignment, const LtcSettings& settings);

  // --- placement

  // The StoCs that may get something new.
  std::vector<StocChoice> LiveStocs() const;
  // Of them, for a log or a manifest; `hosts` have a copy already.
  std::vector<StocId> Pick(const std::vector<StocChoice>& from, size_t count, std::set<std::string> hosts);
  // StoCs that stand still, whose lease has not ended yet: nothing new goes there.
  void Avoid(std::set<StocId> stocs);
  // Members on StoCs that are emptied for their disks leave a group of `wanted`: a new one would have fewer
  // of them, and no fewer members.
  bool BetterWithoutEmptied(size_t emptied_members, size_t wanted) const;
  StocStates StatesOfStocs() const;
  // What concerns the placement of tables, from now on; `rest` tells the range what concerns that. Nothing
  // where it was told already. Of two calls one is as a whole before the other.
  void Configure(const LtcSettings& settings, const std::function<void()>& rest);
  LtcSettings settings() const;  // as last configured

  // --- the manifest: ManifestStorage

  StatusOr<ManifestGroup> Create(std::string_view first_record, const Uuid& file) override;
  Status Append(const ManifestGroup& group, uint64_t offset, std::string_view record) override;
  Status Install(const ManifestGroup& group) override;
  // A live lease: a coordinator whose own session with the store lives has answered lately.
  bool MayInstall() const override;
  void Delete(const ManifestGroup& group) override;

  // --- the host: RangeHost, JobRunner

  CopyPlanner PlannerOfCopies() override;
  StatusOr<Placement> Place(uint64_t table_bytes) override;
  size_t Disks() const override;
  StatusOr<CompactionResult> RunJob(const CompactionJob& job, CompactionStorage* here,
                                    const std::function<bool()>& cancelled) override;
  void WorkDue(RangeId range) override { services_->work_due(range); }
  void Fenced(RangeId range, const Status& why) override { services_->fenced(range, creator_.epoch, why); }
  void RunReader(std::function<void()> fn) override { services_->run_reader(std::move(fn)); }

  RangeServices range_services;  // those of the LTC, with this host
  RecordKeeper keeper;

 private:
  // Where so many tables go. None: no StoC is alive.
  std::vector<Placement> PlaceSome(uint64_t table_bytes, size_t count);
  Status Write(const ManifestGroup& group, uint64_t offset, bool create, std::string_view bytes);

  const Creator creator_;
  const HostServices* const services_;
  const HostedRangeOptions options_;
  mutable Mutex mu_;
  Random random_ ABSL_GUARDED_BY(mu_);
  LtcSettings configured_ ABSL_GUARDED_BY(mu_);      // as last told
  PlacementOptions placement_ ABSL_GUARDED_BY(mu_);  // of tables, as configured; copies are by options_
  std::set<StocId> avoided_ ABSL_GUARDED_BY(mu_);    // see Avoid
};

}  // namespace nova
