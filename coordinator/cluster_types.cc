#include "coordinator/cluster_types.h"

#include <algorithm>
#include <array>

#include "common/base/coding.h"
#include "common/base/crc32c.h"

namespace nova {
namespace {

constexpr char kFormat = 1;
// of a range record: a log group with files is listed; a version that knows none stays away
constexpr char kFormatWithFiles = 2;

void PutUuid(std::string* out, const Uuid& uuid) {
  PutFixed64(out, uuid.hi);
  PutFixed64(out, uuid.lo);
}

std::string Sealed(std::string body) {
  PutFixed32(&body, Crc32c(body));
  return body;
}

// Takes values off the front; once one is missing, all that follow are.
class Reader {
 public:
  // Checks the checksum and the format, which is one of 1 .. `newest`.
  Status Open(std::string_view data, std::string_view what, char newest = kFormat) {
    if (data.size() < 5) return absl::DataLossError(StrCat(std::string(what), ": too short"));
    const uint32_t crc = DecodeFixed32(data.data() + data.size() - 4);
    data.remove_suffix(4);
    if (crc != Crc32c(data)) return absl::DataLossError(StrCat(std::string(what), ": wrong checksum"));
    format_ = data.front();
    if (format_ < kFormat || format_ > newest) {
      return absl::DataLossError(StrCat(std::string(what), ": format ", static_cast<int>(format_),
                                        " is not known to this version, which reads ",
                                        static_cast<int>(newest)));
    }
    in_ = data.substr(1);
    return OkStatus();
  }
  uint64_t Number() {
    uint64_t v = 0;
    ok_ = ok_ && GetVarint64(&in_, &v);
    return ok_ ? v : 0;
  }
  uint32_t Number32() {
    const uint64_t v = Number();
    ok_ = ok_ && v <= UINT32_MAX;
    return ok_ ? static_cast<uint32_t>(v) : 0;
  }
  // A count of things of at least one byte each.
  uint64_t Count() {
    const uint64_t n = Number();
    ok_ = ok_ && n <= in_.size();
    return ok_ ? n : 0;
  }
  uint8_t Byte(uint8_t max) {
    ok_ = ok_ && !in_.empty() && static_cast<uint8_t>(in_.front()) <= max;
    if (!ok_) return 0;
    const auto b = static_cast<uint8_t>(in_.front());
    in_.remove_prefix(1);
    return b;
  }
  std::string Text() {
    std::string s;
    ok_ = ok_ && GetLengthPrefixed(&in_, &s);
    return ok_ ? s : "";
  }
  Uuid ReadUuid() {
    Uuid u;
    ok_ = ok_ && GetFixed64(&in_, &u.hi) && GetFixed64(&in_, &u.lo);
    return ok_ ? u : Uuid{};
  }
  bool Done() const { return ok_ && in_.empty(); }
  char format() const { return format_; }

 private:
  std::string_view in_;
  char format_ = kFormat;
  bool ok_ = true;
};

constexpr std::array<const char*, kDiskStates> kDiskStateNames = {"ok",   "slow",      "full",
                                                                  "hung", "read_only", "failing"};

}  // namespace

const char* DiskStateName(DiskState state) { return kDiskStateNames[static_cast<size_t>(state)]; }

std::string EncodeNodeInfo(const NodeInfo& node) {
  std::string out(1, kFormat);
  PutLengthPrefixed(&out, node.name);
  out.push_back(static_cast<char>(node.role));
  PutVarint64(&out, node.incarnation.value());
  PutLengthPrefixed(&out, node.address);
  PutLengthPrefixed(&out, node.host);
  PutVarint64(&out, node.stoc_id.value());
  PutUuid(&out, node.store);
  PutLengthPrefixed(&out, node.metrics_address);
  out.push_back(node.draining ? 1 : 0);
  return Sealed(std::move(out));
}

StatusOr<NodeInfo> DecodeNodeInfo(std::string_view data) {
  Reader in;
  NOVA_RETURN_IF_ERROR(in.Open(data, "node record"));
  NodeInfo node;
  node.name = in.Text();
  node.role = static_cast<Role>(in.Byte(static_cast<uint8_t>(Role::kTool)));
  node.incarnation = Incarnation(in.Number());
  node.address = in.Text();
  node.host = in.Text();
  node.stoc_id = StocId(in.Number32());
  node.store = in.ReadUuid();
  node.metrics_address = in.Text();
  node.draining = in.Byte(1) == 1;
  if (!in.Done() || node.role < Role::kClient) return absl::DataLossError("node record: malformed");
  return node;
}

std::string RangeRecord::Encode() const {
  const bool files =
      std::any_of(log_groups.begin(), log_groups.end(), [](const LogGroup& g) { return HasFiles(g.media); });
  std::string out(1, files ? kFormatWithFiles : kFormat);
  PutVarint64(&out, id.value());
  PutLengthPrefixed(&out, lower);
  PutLengthPrefixed(&out, upper);
  PutVarint64(&out, epoch.value());
  out.push_back(static_cast<char>(state));
  PutLengthPrefixed(&out, owner);
  PutVarint64(&out, owner_incarnation.value());
  out.push_back(released ? 1 : 0);
  PutUuid(&out, manifest.file);
  PutVarint64(&out, manifest.members.size());
  for (const StocId stoc : manifest.members) PutVarint64(&out, stoc.value());
  PutVarint64(&out, log_groups.size());
  for (const LogGroup& group : log_groups) {
    PutVarint64(&out, group.id.value());
    PutVarint64(&out, group.members.size());
    for (const LogMember& m : group.members) {
      PutVarint64(&out, m.stoc.value());
      PutVarint64(&out, m.incarnation.value());
      if (files) PutUuid(&out, m.store);
    }
    if (files) out.push_back(static_cast<char>(group.media));
  }
  PutVarint64(&out, last_group.value());
  return Sealed(std::move(out));
}

StatusOr<RangeRecord> RangeRecord::Decode(std::string_view data, int64_t version) {
  Reader in;
  NOVA_RETURN_IF_ERROR(in.Open(data, "range record", kFormatWithFiles));
  const bool files = in.format() == kFormatWithFiles;
  RangeRecord r;
  r.id = RangeId(in.Number());
  r.lower = in.Text();
  r.upper = in.Text();
  r.epoch = Epoch(in.Number());
  r.state = static_cast<RangeState>(in.Byte(static_cast<uint8_t>(RangeState::kOpen)));
  r.owner = in.Text();
  r.owner_incarnation = Incarnation(in.Number());
  r.released = in.Byte(1) == 1;
  r.manifest.file = in.ReadUuid();
  for (uint64_t n = in.Count(); n > 0; --n) r.manifest.members.emplace_back(in.Number32());
  for (uint64_t n = in.Count(); n > 0; --n) {
    LogGroup group;
    group.id = GroupId(in.Number());
    for (uint64_t m = in.Count(); m > 0; --m) {
      const StocId stoc(in.Number32());
      const Incarnation incarnation(in.Number());
      group.members.push_back({stoc, incarnation, files ? in.ReadUuid() : Uuid{}});
    }
    if (files) group.media = static_cast<LogMedia>(in.Byte(static_cast<uint8_t>(LogMedia::kMemoryAndFiles)));
    r.log_groups.push_back(std::move(group));
  }
  r.last_group = GroupId(in.Number());
  if (!in.Done()) return absl::DataLossError("range record: malformed");
  r.version = version;
  return r;
}

}  // namespace nova
