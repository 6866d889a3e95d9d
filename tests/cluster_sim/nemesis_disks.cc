#include "common/base/fault_disk.h"
#include "stoc/stoc_table_store.h"
#include "tests/cluster_sim/nemesis.h"

// What Nemesis does to disks of StoCs.

namespace nova {

void Nemesis::RunDisks() {
  const std::vector<std::string> stocs = cluster_->Names("stoc");
  while (options_->bad_disks && !Sleep(Between(500, 3000))) {
    if (random_.OneIn(4)) {
      FailReads(stocs);
      continue;
    }
    const std::string& stoc = Pick(stocs);
    if (!cluster_->Runs(stoc)) continue;
    auto* const disk = static_cast<FaultDisk*>(cluster_->wrapped_disk(stoc));
    if (disk == nullptr) continue;
    const auto add = [disk](std::initializer_list<DiskOp> ops, FaultRule rule) {
      for (const DiskOp op : ops) {
        rule.op = op;
        disk->Add(rule);
      }
    };
    switch (random_.Uniform(4)) {
      case 0:
        Count("disk fails");
        add({random_.OneIn(2) ? DiskOp::kWrite : DiskOp::kSync},
            {.action = random_.OneIn(3) ? FaultAction::kTorn : FaultAction::kEio,
             .nth = 1 + random_.Uniform(10),
             .count = 1 + random_.Uniform(5)});
        break;
      case 1:
        Count("disk is full");
        add({DiskOp::kCreate, DiskOp::kWrite, DiskOp::kFreeBytes}, {.action = FaultAction::kNoSpace});
        break;
      case 2:
        Count("disk is slow");  // at times an outlier
        add({DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
            {.action = FaultAction::kDelay,
             .delay_ns = random_.OneIn(2) ? Between(1, 40) : Between(60, 250)});
        break;
      default:
        Count("disk hangs");
        add({DiskOp::kRead, DiskOp::kWrite, DiskOp::kSync},
            {.action = FaultAction::kDelay, .delay_ns = Between(500, 4000)});
    }
    Sleep(Between(100, 4000));
    if (cluster_->Runs(stoc) && cluster_->wrapped_disk(stoc) == disk) disk->Clear();
    LookAtDisks();
    if (random_.OneIn(3)) {
      Count("disk forgiven");
      cluster_->NewCoordinatorClient().Undrain(stoc, Now() + kSecond).IgnoreError();
    }
  }
}

bool Nemesis::LoseDiskOf(const std::string& stoc, bool for_good) {
  if (!options_->lost_disks || options_->cluster.ltc.hosted.placement.replicas < 2 ||
      Now() < broken_->reads_fail_until_ns || !broken_->lost_stoc.empty() || !HandleStocs({stoc}))
    return false;
  const bool may = cluster_->MayLoseForEver(stoc) && Now() >= broken_->reads_fail_until_ns;
  if (may) LoseDisk(stoc, for_good);
  LetGo(stoc);
  return may;
}

void Nemesis::LoseDisk(const std::string& stoc, bool for_good) {
  broken_->lost_stoc = stoc;
  broken_->losing = true;
  cluster_->Kill(stoc);
  std::unique_ptr<SimDisk> old = cluster_->TakeDisk(stoc);
  broken_->losing = false;
  if (for_good) return Count("StoC lost for good");
  Count("StoC back with an empty disk");
  if (Sleep(Between(10, 3000))) return;
  cluster_->Start(stoc).IgnoreError();
  if (random_.OneIn(2) || Sleep(Between(500, 6000))) return;
  if (!MayLoseWhatIsHandled() || !cluster_->MayLoseForEver(stoc)) return;
  Count("StoC back with its old disk");
  cluster_->Kill(stoc);
  cluster_->PutDisk(stoc, std::move(old));
  StartAgain(stoc);
}

void Nemesis::FailReads(const std::vector<std::string>& stocs) {
  if (broken_->ill_stoc.empty()) broken_->ill_stoc = Pick(stocs);
  const std::string& stoc = broken_->ill_stoc;
  if (!cluster_->Runs(stoc) || stoc == broken_->lost_stoc || broken_->losing) return;
  // A file whose header it cannot read is not there for a StoC, until it starts again.
  if (cluster_->stoc(stoc) == nullptr) return;
  auto* const disk = static_cast<FaultDisk*>(cluster_->wrapped_disk(stoc));
  if (disk == nullptr) return;
  broken_->reads_fail_until_ns = kNever;
  const uint64_t faults = disk->faults();
  const double elsewhere = ReadElsewhere();
  // Of a table with one copy another file of the same bytes is one that it has left, and names no more.
  const bool one_copy = options_->cluster.ltc.hosted.placement.replicas == 1;
  const bool flips = random_.OneIn(3);  // of a log's last record nothing behind it would tell
  disk->Add({.path = "files/",
             .op = DiskOp::kRead,
             .action = flips ? FaultAction::kBitFlip : FaultAction::kEio,
             .nth = 1 + random_.Uniform(3),
             .count = 1 + random_.Uniform(30),
             .where = [cluster = cluster_, stoc, flips, one_copy](const std::string& path) {
               const std::string file = FinalName(path);
               const bool table = cluster->IsTable(stoc, file);
               return (!flips || table) && !(one_copy && table) && !cluster->IsLastCopy(stoc, file);
             }});
  Sleep(Between(500, 4000));
  if (cluster_->Runs(stoc) && cluster_->wrapped_disk(stoc) == disk) {
    if (disk->faults() > faults) {
      Count("disk fails reads");
      if (ReadElsewhere() > elsewhere) ++(*counts_)["seen: a table was read from its other copy"];
    }
    disk->Clear();
  }
  broken_->reads_fail_until_ns = Now() + StocTableStoreOptions().read_deadline_ns;
}

std::string Nemesis::FinalName(const std::string& path) {
  return path.ends_with(".tmp") ? path.substr(0, path.rfind('.', path.size() - 5)) : path;
}

void Nemesis::LookAtDisks() {
  for (const char* state : {"slow", "full", "hung", "failing"}) {
    if (cluster_->Metric("coordinator", StrCat("nova_cluster_stoc_disks{state=\"", state, "\"}")) > 0)
      ++(*counts_)[StrCat("seen: a disk was ", state)];
  }
}

}  // namespace nova
