#include "coordinator/znodes.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "coordinator/text_fields.h"

namespace nova {

std::string ClusterRecord::Encode() const {
  return StrCat("format=", format, "\nuuid=", uuid.ToString(), "\n");
}

StatusOr<ClusterRecord> ClusterRecord::Decode(std::string_view data) {
  const TextFields fields(data);
  ClusterRecord r;
  if (!fields.Number("format", &r.format) || r.format == 0) return absl::DataLossError("/cluster: malformed");
  if (r.format > kClusterFormat) {
    return absl::FailedPreconditionError(
        StrCat("the cluster has format ", r.format, "; this version knows up to ", kClusterFormat));
  }
  if (!fields.ReadUuid("uuid", &r.uuid)) return absl::DataLossError("/cluster: malformed");
  return r;
}

std::string CoordRecord::Encode() const {
  return StrCat("coord_epoch=", coord_epoch.value(), "\nleader=", leader, "\naddress=", address,
                "\nmax_lease_ms=", (max_lease_ns + kMillisecond - 1) / kMillisecond,
                "\nnonce=", nonce.ToString(), "\n");
}

StatusOr<CoordRecord> CoordRecord::Decode(std::string_view data) {
  CoordRecord r;
  if (data.empty()) return r;  // no leader yet
  const TextFields fields(data);
  uint64_t epoch = 0;
  int64_t lease_ms = 0;
  if (!fields.Number("coord_epoch", &epoch) || !fields.Number("max_lease_ms", &lease_ms) || lease_ms < 0 ||
      lease_ms > kNever / kMillisecond || !fields.ReadUuid("nonce", &r.nonce)) {
    return absl::DataLossError("/coord: malformed");
  }
  r.coord_epoch = CoordEpoch(epoch);
  r.max_lease_ns = lease_ms * kMillisecond;
  r.leader = fields.Text("leader");
  r.address = fields.Text("address");
  return r;
}

bool IsNodeName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace nova
