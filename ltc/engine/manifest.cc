#include "ltc/engine/manifest.h"

#include <algorithm>
#include <optional>

#include "common/base/coding.h"
#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
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

constexpr size_t kRecordHeaderBytes = 8;
constexpr size_t kSectorBytes = 512;  // what a disk writes whole, at least

// The payload of the valid record at the front of `in`; nullopt: there is none.
std::optional<std::string_view> FrontPayload(const Uuid& file, std::string_view in) {
  uint32_t crc, length;
  if (!GetFixed32(&in, &crc) || !GetFixed32(&in, &length) || length > in.size()) return std::nullopt;
  const std::string_view payload = in.substr(0, length);
  return RecordCrc(file, payload) == crc ? std::optional(payload) : std::nullopt;
}

// Where in `in`, behind its front, a valid record begins; npos: nowhere. What does not parse costs no
// checksum.
size_t FindRecord(const Uuid& file, std::string_view in) {
  for (size_t at = 1; at + kRecordHeaderBytes < in.size(); ++at) {
    const std::string_view rest = in.substr(at);
    const uint32_t length = DecodeFixed32(rest.data() + 4);
    if (length > rest.size() - kRecordHeaderBytes ||
        !VersionEdit::Decode(rest.substr(kRecordHeaderBytes, length)).ok())
      continue;
    if (FrontPayload(file, rest)) return at;
  }
  return std::string_view::npos;
}

// Zeros that may stand for sectors that were never written.
bool HasUnwritten(std::string_view tail) {
  const auto zeros = [](std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c == 0; });
  };
  if (zeros(tail.substr(0, kRecordHeaderBytes))) return true;
  if (zeros(tail.substr(tail.size() - std::min(tail.size(), kRecordHeaderBytes)))) return true;
  size_t run = 0;
  for (const char c : tail) {
    run = c == 0 ? run + 1 : 0;
    if (run == kSectorBytes) return true;
  }
  return false;
}

// The tail, which begins with no valid record, may be what an append left whose StoC died over it.
bool MayBeTorn(std::string_view tail) {
  if (tail.size() <= kRecordHeaderBytes || HasUnwritten(tail)) return true;
  const std::string_view rest = tail.substr(kRecordHeaderBytes);
  return DecodeFixed32(tail.data() + 4) > rest.size() && !VersionEdit::Decode(rest).ok();
}

}  // namespace

std::string Manifest::EncodeRecord(const Uuid& file, const VersionEdit& edit) {
  const std::string payload = edit.Encode();
  std::string record;
  PutFixed32(&record, RecordCrc(file, payload));
  PutFixed32(&record, static_cast<uint32_t>(payload.size()));
  return record + payload;
}

StatusOr<std::vector<VersionEdit>> Manifest::Recover(const Uuid& file, const std::vector<Copy>& copies) {
  std::vector<VersionEdit> edits;
  size_t end = 0;
  std::vector<bool> damaged(copies.size());  // holds something else where another copy holds a record
  for (;;) {
    std::optional<std::string_view> payload;
    std::vector<bool> without(copies.size());
    for (size_t i = 0; i < copies.size(); ++i) {
      const std::string_view bytes = copies[i].bytes;
      const auto here = end < bytes.size() ? FrontPayload(file, bytes.substr(end)) : std::nullopt;
      without[i] = !here && end + kRecordHeaderBytes < bytes.size();
      if (here && !payload) payload = here;
    }
    if (!payload) break;
    for (size_t i = 0; i < copies.size(); ++i) {
      if (!without[i] || damaged[i]) continue;
      damaged[i] = true;
      NOVA_LOG(WARNING) << "manifest " << file.ToString() << ": the record at " << end
                        << " is damaged or torn on " << copies[i].where << ", another copy has it";
    }
    NOVA_ASSIGN_OR_RETURN(VersionEdit edit, VersionEdit::Decode(*payload));
    edits.push_back(std::move(edit));
    end += kRecordHeaderBytes + payload->size();
  }
  std::string places;
  bool lost = false, all_damaged = true;
  for (const Copy& copy : copies) {
    const std::string_view tail = std::string_view(copy.bytes).substr(std::min(end, copy.bytes.size()));
    const size_t next = FindRecord(file, tail);
    if (next != std::string_view::npos) lost = true;
    if (tail.empty() || (next == std::string_view::npos && MayBeTorn(tail))) {
      all_damaged = false;
      continue;
    }
    places +=
        StrCat(places.empty() ? "" : "; ", copy.where, ": ", tail.size(), " bytes",
               next == std::string_view::npos ? "" : StrCat(", a valid record ", next, " bytes further on"));
  }
  if (!places.empty() && (lost || all_damaged)) {
    return absl::DataLossError(StrCat("manifest ", file.ToString(), " is damaged at offset ", end,
                                      ": acknowledged edits are lost there (", places, ")"));
  }
  if (edits.empty())
    return absl::DataLossError(StrCat("manifest ", file.ToString(), " has no valid snapshot"));
  return edits;
}

Status Manifest::Start(const VersionEdit& snapshot) {
  NOVA_ASSIGN_OR_RETURN(file_, NewFile(snapshot));
  return OkStatus();
}

StatusOr<Manifest::File> Manifest::NewFile(const VersionEdit& snapshot) {
  const Uuid file = Uuid::Generate();
  const std::string record = EncodeRecord(file, snapshot);
  NOVA_ASSIGN_OR_RETURN(ManifestGroup group, storage_->Create(record, file));
  return File{std::move(group), record.size(), record.size()};
}

Status Manifest::Append(const VersionEdit& edit, const std::function<VersionEdit()>& snapshot) {
  NOVA_RETURN_IF_ERROR(SettleDoubt());
  const bool grown = file_.offset >= file_.first_record_bytes + kRollBytes && storage_->MayInstall();
  if (!grown && !roll_next_) {
    const std::string record = EncodeRecord(file_.group.file, edit);
    const Status s = storage_->Append(file_.group, file_.offset, record);
    if (s.ok()) {
      file_.offset += record.size();
      if (renewal_) renewal_->edits += EncodeRecord(renewal_->file, edit);
      return OkStatus();
    }
    if (absl::IsFailedPrecondition(s)) return s;
    if (const uint64_t met = rolls_.Due()) {
      NOVA_LOG(WARNING) << "manifest " << file_.group.file.ToString()
                        << " rolls (failed appends so far: " << met << "): " << s;
    }
  }
  // A file that cannot be made leaves the old one as it is: an edit half written there is not acknowledged,
  // and harmless.
  NOVA_ASSIGN_OR_RETURN(File next, NewFile(snapshot()));
  return Switch(std::move(next));
}

// `next` holds every edit that was acknowledged. It is the file from now on, or the old one goes on, or it is
// in doubt.
Status Manifest::Switch(File next) {
  const Status s = storage_->Install(next.group);
  if (absl::IsCancelled(s)) {
    storage_->Delete(next.group);
    return absl::UnavailableError(s.message());
  }
  if (!s.ok()) {
    in_doubt_ = std::move(next.group);
    return s;
  }
  NOVA_FP_VOID("ltc.renewal_installed");
  roll_next_ = false;
  renewal_.reset();  // of a roll: what was kept for another file is in this one
  storage_->Delete(std::exchange(file_, std::move(next)).group);
  return OkStatus();
}

StatusOr<Manifest::Renewal> Manifest::BeginRenewal(const VersionEdit& snapshot) {
  if (in_doubt_) return absl::UnavailableError("a manifest is in doubt");
  const Uuid file = Uuid::Generate();
  Renewal renewal{file, EncodeRecord(file, snapshot)};
  renewal_ = Kept{file, renewal.first_record.size(), ""};
  return renewal;
}

Status Manifest::EndRenewal(const ManifestGroup& group) {
  const std::optional<Kept> kept = std::exchange(renewal_, std::nullopt);
  if (!kept || kept->file != group.file || in_doubt_) {
    storage_->Delete(group);
    return absl::AbortedError("the manifest was rolled meanwhile");
  }
  File next{group, kept->first_record_bytes, kept->first_record_bytes};
  if (!kept->edits.empty()) {
    if (const Status s = storage_->Append(group, next.offset, kept->edits); !s.ok()) {
      storage_->Delete(group);
      return s;
    }
    next.offset += kept->edits.size();
  }
  NOVA_FP_VOID("ltc.renewal_caught_up");
  return Switch(std::move(next));
}

// The file in doubt is installed for certain, or nothing more is written: so there is one at most, however
// long that takes. It may hold an edit whose failure was reported; a roll takes its place before another edit
// counts.
Status Manifest::SettleDoubt() {
  if (!in_doubt_) return OkStatus();
  NOVA_RETURN_IF_ERROR(storage_->Install(*in_doubt_));
  storage_->Delete(std::exchange(file_.group, *std::exchange(in_doubt_, std::nullopt)));
  roll_next_ = true;
  return OkStatus();
}

}  // namespace nova
