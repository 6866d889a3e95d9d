#include "coordinator/znodes.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace nova {
namespace {

using Fields = std::map<std::string, std::string>;

Fields Parse(std::string_view data) {
  Fields fields;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(data.data(), data.size()), '\n')) {
    const std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!field.first.empty()) fields.insert(field);
  }
  return fields;
}

template <typename T>
bool Number(const Fields& fields, const std::string& key, T* out) {
  const auto it = fields.find(key);
  return it != fields.end() && absl::SimpleAtoi(it->second, out);
}

bool ReadUuid(const Fields& fields, const std::string& key, Uuid* out) {
  const auto it = fields.find(key);
  return it != fields.end() && Uuid::Parse(it->second, out);
}

std::string Text(const Fields& fields, const std::string& key) {
  const auto it = fields.find(key);
  return it == fields.end() ? "" : it->second;
}

}  // namespace

std::string ClusterRecord::Encode() const {
  return StrCat("format=", format, "\nuuid=", uuid.ToString(), "\n");
}

StatusOr<ClusterRecord> ClusterRecord::Decode(std::string_view data) {
  const Fields fields = Parse(data);
  ClusterRecord r;
  if (!Number(fields, "format", &r.format) || r.format == 0)
    return absl::DataLossError("/cluster: malformed");
  if (r.format > kClusterFormat) {
    return absl::FailedPreconditionError(
        StrCat("the cluster has format ", r.format, "; this version knows up to ", kClusterFormat));
  }
  if (!ReadUuid(fields, "uuid", &r.uuid)) return absl::DataLossError("/cluster: malformed");
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
  const Fields fields = Parse(data);
  uint64_t epoch = 0;
  int64_t lease_ms = 0;
  if (!Number(fields, "coord_epoch", &epoch) || !Number(fields, "max_lease_ms", &lease_ms) || lease_ms < 0 ||
      lease_ms > kNever / kMillisecond || !ReadUuid(fields, "nonce", &r.nonce)) {
    return absl::DataLossError("/coord: malformed");
  }
  r.coord_epoch = CoordEpoch(epoch);
  r.max_lease_ns = lease_ms * kMillisecond;
  r.leader = Text(fields, "leader");
  r.address = Text(fields, "address");
  return r;
}

bool IsNodeName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace nova
