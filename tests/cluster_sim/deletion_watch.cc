#include "tests/cluster_sim/deletion_watch.h"

#include <utility>

#include "stoc/file_header.h"
#include "tests/cluster_sim/table_files.h"

namespace nova {

class DeletionWatch::WatchedDisk : public FaultDisk {
 public:
  WatchedDisk(DeletionWatch* watch, std::string stoc, Disk* disk)
      : FaultDisk(disk), watch_(watch), stoc_(std::move(stoc)) {}
  Status Delete(const std::string& path) override {
    const auto contents = watch_->cluster_->Contents(stoc_, path);
    Status s = FaultDisk::Delete(path);
    if (s.ok() && contents) watch_->Deleted(stoc_, path, *contents);
    return s;
  }

 private:
  DeletionWatch* const watch_;
  const std::string stoc_;
};

std::unique_ptr<Disk> DeletionWatch::Wrap(const std::string& stoc, Disk* disk) {
  return std::make_unique<WatchedDisk>(this, stoc, disk);
}

void DeletionWatch::Deleted(const std::string& stoc, const std::string& path, const std::string& contents) {
  if (path.ends_with(".tmp") || !cluster_->Runs(stoc) || cluster_->stoc(stoc) == nullptr) return;
  const auto header = FileHeader::Decode(std::string_view(contents).substr(0, kFileHeaderBytes));
  if (!header.ok() || header->kind != FileHeader::Kind::kWhole) return;
  const StocId id = cluster_->stoc(stoc)->self().stoc_id;
  const std::optional<RangeRecord> record = cluster_->Record(header->creator.range);
  if (!record || record->state != RangeState::kOpen) return;
  const Simulation::Undisturbed of_one_moment;
  const Named* const named = NamedBy(*record);
  if (named == nullptr) return;
  ++looks_;
  const auto there = named->find(header->file);
  if (there == named->end() || !there->second.contains(id) || cluster_->Contents(stoc, path)) return;
  if (!violation_.empty()) return;
  violation_ = StrCat(stoc, " (", id.value(), ") deleted ", path, " of job ", header->creator.job, ", epoch ",
                      header->creator.epoch.value(), "; range ", record->id.value(),
                      " names it there, epoch ", record->epoch.value());
}

const DeletionWatch::Named* DeletionWatch::NamedBy(const RangeRecord& record) {
  const StocFileId file{record.manifest.file, 0};
  std::vector<Manifest::Copy> copies;
  size_t bytes = 0;
  for (const std::string& stoc : cluster_->Names("stoc")) {
    const auto contents = cluster_->Contents(stoc, "files/" + file.ToString());
    if (!contents || contents->size() < kFileHeaderBytes) continue;
    bytes += contents->size();
    copies.push_back({stoc, contents->substr(kFileHeaderBytes)});
  }
  Read& read = read_[record.id];
  if (read.file == file.owner && read.bytes == bytes) return &read.named;
  const auto version = VersionOf(record.manifest.file, copies);
  if (!version.ok()) return nullptr;
  read = {file.owner, bytes, {}};
  AddNamed(**version, &read.named);
  return &read.named;
}

}  // namespace nova
