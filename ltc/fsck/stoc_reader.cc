#include "ltc/fsck/stoc_reader.h"

#include <algorithm>

#include "common/base/clock.h"

namespace nova {

StocReader::StocReader(StocClient* client, std::vector<CheckedStoc*> stored, uint64_t bytes_per_second)
    : client_(client), stored_(std::move(stored)) {
  if (bytes_per_second > 0)
    bucket_ =
        std::make_unique<TokenBucket>(bytes_per_second, std::min<uint64_t>(kPieceBytes, bytes_per_second));
}

void StocReader::Begin(const std::vector<NodeInfo>& registered) {
  silent_.clear();
  stocs_.clear();
  living_.clear();
  for (CheckedStoc* const s : stored_) stocs_[s->id()] = s;
  if (client_ == nullptr) return;
  std::vector<NodeInfo> stocs;
  for (const NodeInfo& node : registered) {
    if (node.role == Role::kStoc) stocs.push_back(node);
  }
  client_->UpdateStocs(stocs);
  for (const NodeInfo& node : stocs) {
    living_[node.stoc_id] = std::make_unique<LivingStoc>(client_, node);
    stocs_[node.stoc_id] = living_[node.stoc_id].get();
  }
}

std::vector<CheckedStoc*> StocReader::all() const {
  std::vector<CheckedStoc*> all;
  for (const auto& [id, stoc] : stocs_) all.push_back(stoc);
  return all;
}

CheckedStoc* StocReader::Find(StocId id) const {
  const auto stoc = stocs_.find(id);
  return stoc == stocs_.end() || silent_.contains(id) ? nullptr : stoc->second;
}

StatusOr<std::string> StocReader::Read(StocId id, const StocFileId& file, uint64_t offset, uint64_t size) {
  std::string bytes;
  while (bytes.size() < size) {
    CheckedStoc* const stoc = Find(id);
    if (stoc == nullptr) return absl::UnavailableError(StrCat("stoc ", id.value(), " does not answer"));
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, size - bytes.size()));
    auto piece = stoc->Read(file, offset + bytes.size(), n);
    Note(id, piece.status());
    NOVA_RETURN_IF_ERROR(piece.status());
    bytes_read_ += piece->size();
    Pace(piece->size());
    const bool end = piece->size() < n;
    if (bytes.empty()) {
      bytes = *std::move(piece);
    } else {
      bytes += *piece;
    }
    if (end) break;
  }
  return bytes;
}

StatusOr<std::vector<FileSummary>> StocReader::List(StocId id, RangeId range) {
  CheckedStoc* const stoc = Find(id);
  if (stoc == nullptr) return absl::UnavailableError(StrCat("stoc ", id.value(), " does not answer"));
  auto files = stoc->List(range);
  Note(id, files.status());
  return files;
}

void StocReader::Note(StocId stoc, const Status& status) {
  if (!status.ok() && !absl::IsNotFound(status) && !absl::IsDataLoss(status)) silent_.insert(stoc);
}

void StocReader::Pace(uint64_t bytes) {
  if (bucket_ != nullptr) SleepUntil(bucket_->Take(bytes, Now()));
}

}  // namespace nova
