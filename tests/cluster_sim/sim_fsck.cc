#include "tests/cluster_sim/sim_fsck.h"

#include "common/base/log.h"
#include "coordinator/znodes.h"

namespace nova {

SimFsck::SimFsck(SimCluster* cluster)
    : cluster_(cluster),
      store_(cluster->config()->NewSession()),
      fabric_(NewSimFabric(cluster->network(), "fsck")) {
  const auto record = store_->Get(kClusterPath);
  NOVA_CHECK(record.ok()) << record.status();
  auto stocs = StocConnection::Open(fabric_.get(), ClusterRecord::Decode(record->data)->uuid);
  NOVA_CHECK(stocs.ok()) << stocs.status();
  stocs_ = *std::move(stocs);
}

StatusOr<CheckReport> SimFsck::AskStocs(const CheckOptions& options, uint64_t bytes_per_second) {
  StocReader reader(client(), {}, bytes_per_second);
  return CheckCluster(store_.get(), &reader, options);
}

StatusOr<CheckReport> SimFsck::ReadDisks(const std::vector<std::string>& stocs, const CheckOptions& options) {
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<StoredStoc>> stored;
  std::vector<StoredStoc*> all;
  for (const std::string& stoc : stocs) {
    media.push_back(cluster_->CopyOfDisk(stoc));
    disks.push_back(media.back()->Mount());
    auto opened = StoredStoc::Open(disks.back().get(), stoc);
    if (absl::IsNotFound(opened.status())) continue;  // an empty disk
    NOVA_RETURN_IF_ERROR(opened.status());
    stored.push_back(*std::move(opened));
    all.push_back(stored.back().get());
  }
  StocReader reader(nullptr, all, 0);
  return CheckCluster(store_.get(), &reader, options);
}

}  // namespace nova
