#include "common/base/outcome.h"

namespace nova {

std::string_view OutcomeName(Outcome o) {
  switch (o) {
    case Outcome::kOk:
      return "Ok";
    case Outcome::kNotFound:
      return "NotFound";
    case Outcome::kInvalidArgument:
      return "InvalidArgument";
    case Outcome::kNotOwner:
      return "NotOwner";
    case Outcome::kBusy:
      return "Busy";
    case Outcome::kNoSpace:
      return "NoSpace";
    case Outcome::kUnavailable:
      return "Unavailable";
    case Outcome::kCorruption:
      return "Corruption";
    case Outcome::kDeadlineExceeded:
      return "DeadlineExceeded";
    case Outcome::kUnknown:
      return "Unknown";
    case Outcome::kInternal:
      return "Internal";
    case Outcome::kConditionFailed:
      return "ConditionFailed";
    case Outcome::kSnapshotEnded:
      return "SnapshotEnded";
  }
  return "Invalid";
}

Status ToStatus(Outcome o, std::string_view what) {
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (o) {
    case Outcome::kOk:
      return OkStatus();
    case Outcome::kNotFound:
      code = absl::StatusCode::kNotFound;
      break;
    case Outcome::kInvalidArgument:
      code = absl::StatusCode::kInvalidArgument;
      break;
    case Outcome::kNotOwner:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    case Outcome::kBusy:
      code = absl::StatusCode::kAborted;
      break;
    case Outcome::kNoSpace:
      code = absl::StatusCode::kResourceExhausted;
      break;
    case Outcome::kUnavailable:
      code = absl::StatusCode::kUnavailable;
      break;
    case Outcome::kCorruption:
      code = absl::StatusCode::kDataLoss;
      break;
    case Outcome::kDeadlineExceeded:
      code = absl::StatusCode::kDeadlineExceeded;
      break;
    case Outcome::kUnknown:
      code = absl::StatusCode::kUnknown;
      break;
    case Outcome::kInternal:
      code = absl::StatusCode::kInternal;
      break;
    case Outcome::kConditionFailed:
      code = absl::StatusCode::kAlreadyExists;
      break;
    case Outcome::kSnapshotEnded:
      code = absl::StatusCode::kOutOfRange;
      break;
  }
  return Status(code, absl::string_view(what.data(), what.size()));
}

Outcome ToOutcome(const Status& s) {
  switch (s.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kOk;
    case absl::StatusCode::kNotFound:
      return Outcome::kNotFound;
    case absl::StatusCode::kInvalidArgument:
      return Outcome::kInvalidArgument;
    case absl::StatusCode::kFailedPrecondition:
      return Outcome::kNotOwner;
    case absl::StatusCode::kAborted:
      return Outcome::kBusy;
    case absl::StatusCode::kResourceExhausted:
      return Outcome::kNoSpace;
    case absl::StatusCode::kUnavailable:
      return Outcome::kUnavailable;
    case absl::StatusCode::kDataLoss:
      return Outcome::kCorruption;
    case absl::StatusCode::kDeadlineExceeded:
      return Outcome::kDeadlineExceeded;
    case absl::StatusCode::kUnknown:
      return Outcome::kUnknown;
    case absl::StatusCode::kAlreadyExists:
      return Outcome::kConditionFailed;
    case absl::StatusCode::kOutOfRange:
      return Outcome::kSnapshotEnded;
    default:
      return Outcome::kInternal;
  }
}

}  // namespace nova
