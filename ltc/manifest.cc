#include "ltc/manifest.h"

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/log.h"

namespace nova {
namespace {

uint32_t RecordCrc(const Uuid& file, std::string_view payload) {
  std::string head;
  PutFixed64(&head, file.hi);
  PutFixed64(&head, file.lo);
  PutFixed32(&head, static_cast<uint32_t>(payload.size()));
  return ExtendCrc32c(Crc32c(head), payload.data(), payload.size());
}

}  // namespace

std::string Manifest::EncodeRecord(const Uuid& file, const VersionEdit& edit) {
  const std::string payload = edit.Encode();
  std::string record;
  PutFixed32(&record, RecordCrc(file, payload));
  PutFixed32(&record, static_cast<uint32_t>(payload.size()));
  return record + payload;
}

StatusOr<std::vector<VersionEdit>> Manifest::Parse(const Uuid& file, std::string_view in) {
  std::vector<VersionEdit> edits;
  uint32_t crc, length;
  while (GetFixed32(&in, &crc) && GetFixed32(&in, &length) && length <= in.size()) {
    const std::string_view payload = in.substr(0, length);
    if (RecordCrc(file, payload) != crc) break;
    NOVA_ASSIGN_OR_RETURN(VersionEdit edit, VersionEdit::Decode(payload));
    edits.push_back(std::move(edit));
    in.remove_prefix(length);
  }
  if (edits.empty()) return absl::DataLossError(StrCat("manifest ", file.ToString(), " has no valid snapshot"));
  return edits;
}

Status Manifest::Start(const VersionEdit& snapshot) {
  const Uuid file = Uuid::Generate();
  const std::string record = EncodeRecord(file, snapshot);
  NOVA_ASSIGN_OR_RETURN(group_, storage_->Create(record, file));
  offset_ = record.size();
  return OkStatus();
}

Status Manifest::Append(const VersionEdit& edit, const std::function<VersionEdit()>& snapshot) {
  if (offset_ < kRollBytes && !roll_next_) {
    const std::string record = EncodeRecord(group_.file, edit);
    const Status s = storage_->Append(group_, offset_, record);
    if (s.ok()) {
      offset_ += record.size();
      return OkStatus();
    }
    if (absl::IsFailedPrecondition(s)) return s;
    NOVA_LOG(WARNING) << "manifest " << group_.file.ToString() << " rolls: " << s;
  }
  const ManifestGroup old = group_;
  const uint64_t old_offset = offset_;
  Status s = Start(snapshot());
  if (s.ok()) s = storage_->Install(group_);
  if (!s.ok()) {
    // The old file stays the one recovery reads; an edit half written there is not acknowledged and harmless.
    group_ = old;
    offset_ = old_offset;
    return s;
  }
  roll_next_ = false;
  storage_->Delete(old);
  return OkStatus();
}

}  // namespace nova
