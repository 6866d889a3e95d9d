#include "tests/cluster_sim/sim_fsck.h"

#include "common/base/log.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

// The disk of a StoC whose memory is there too.
class RunningStoc : public CheckedStoc {
 public:
  RunningStoc(std::unique_ptr<StoredStoc> disk, NodeInfo self)
      : disk_(std::move(disk)), self_(std::move(self)) {}

  StocId id() const override { return disk_->id(); }
  std::string name() const override { return self_.name; }
  bool Holds(const LogGroup& group, const LogMember& member) const override {
    return group.Holds(member, self_.incarnation, self_.store);
  }
  StatusOr<std::vector<FileSummary>> List(RangeId range) override { return disk_->List(range); }
  StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint32_t size) override {
    return disk_->Read(file, offset, size);
  }

 private:
  const std::unique_ptr<StoredStoc> disk_;
  const NodeInfo self_;
};

}  // namespace

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

StatusOr<CheckReport> CheckDisks(SimCluster* cluster, ConfigStore* store,
                                 const std::vector<std::string>& stocs, const CheckOptions& options) {
  std::vector<std::unique_ptr<SimDisk>> media;
  std::vector<std::unique_ptr<Disk>> disks;
  std::vector<std::unique_ptr<CheckedStoc>> stored;
  for (const std::string& stoc : stocs) {
    media.push_back(cluster->CopyOfDisk(stoc));
    disks.push_back(media.back()->Mount());
    auto opened = StoredStoc::Open(disks.back().get(), stoc);
    if (absl::IsNotFound(opened.status())) continue;  // an empty disk
    NOVA_RETURN_IF_ERROR(opened.status());
    if (cluster->Runs(stoc) && cluster->stoc(stoc) != nullptr) {
      stored.push_back(std::make_unique<RunningStoc>(*std::move(opened), cluster->stoc(stoc)->self()));
    } else {
      stored.push_back(*std::move(opened));
    }
  }
  std::vector<CheckedStoc*> all;
  for (const auto& stoc : stored) all.push_back(stoc.get());
  StocReader reader(nullptr, all, 0);
  return CheckCluster(store, &reader, options);
}

}  // namespace nova
