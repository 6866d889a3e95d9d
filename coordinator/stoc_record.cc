#include "coordinator/stoc_record.h"

#include <algorithm>
#include <array>

#include "coordinator/text_fields.h"
#include "coordinator/znodes.h"

namespace nova {
namespace {

constexpr std::array<const char*, 3> kPresences = {"up", "away", "lost"};
constexpr int64_t kMostMs = kNever / kMillisecond / 4;  // sums of times in ns must not overflow
constexpr size_t kMostHostBytes = 255;

bool ReadPresence(const std::string& text, StocPresence* out) {
  const auto it = std::find(kPresences.begin(), kPresences.end(), text);
  if (it == kPresences.end()) return false;
  *out = static_cast<StocPresence>(it - kPresences.begin());
  return true;
}

// One that a record may hold.
bool ReadDisk(const std::string& text, DiskState* out) {
  for (const DiskState d : {DiskState::kSlow, DiskState::kHung, DiskState::kReadOnly, DiskState::kFailing}) {
    if (text != DiskStateName(d)) continue;
    *out = d;
    return true;
  }
  return false;
}

bool ReadForgiven(const std::string& text, StocRecord* r) {
  const size_t slash = text.find('/');
  uint64_t incarnation = 0;
  if (slash == std::string::npos || !absl::SimpleAtoi(text.substr(0, slash), &incarnation) ||
      incarnation == 0 || !absl::SimpleAtoi(text.substr(slash + 1), &r->forgiven_faults))
    return false;
  r->forgiven_incarnation = Incarnation(incarnation);
  return true;
}

bool ReadMs(const TextFields& fields, const char* key, int64_t* out) {
  return fields.Number(key, out) && *out >= 0 && *out <= kMostMs;
}

}  // namespace

const char* PresenceName(StocPresence presence) { return kPresences[static_cast<size_t>(presence)]; }

std::string StocRecord::Encode() const {
  std::string out = StrCat("store=", store.ToString(), "\nname=", name, "\nhost=", host,
                           "\ndraining=", draining ? 1 : 0, "\npresence=", PresenceName(presence), "\n");
  if (presence != StocPresence::kUp)
    absl::StrAppend(&out, "away_since_ms=", away_since_ms, "\naway_ms=", away_ms, "\n");
  if (disk != DiskState::kOk)
    absl::StrAppend(&out, "disk_state=", DiskStateName(disk), "\ndisk_state_since_ms=", disk_since_ms, "\n");
  if (forgiven_incarnation != Incarnation())
    absl::StrAppend(&out, "disk_forgiven=", forgiven_incarnation.value(), "/", forgiven_faults, "\n");
  return out + others;
}

StatusOr<StocRecord> StocRecord::Decode(StocId id, std::string_view data, int64_t version) {
  const TextFields fields(data);
  StocRecord r;
  r.id = id;
  r.version = version;
  r.name = fields.Text("name");
  r.host = fields.Text("host");
  r.early = !fields.Has("presence");
  int draining = 0;
  bool ok = fields.ReadUuid("store", &r.store) && IsNodeName(r.name) && IsHostText(r.host);
  ok = ok && (!fields.Has("draining") || (fields.Number("draining", &draining) && (draining | 1) == 1));
  ok = ok && (r.early || ReadPresence(fields.Text("presence"), &r.presence));
  if (ok && r.presence != StocPresence::kUp) {
    ok = ReadMs(fields, "away_since_ms", &r.away_since_ms) && ReadMs(fields, "away_ms", &r.away_ms);
  }
  if (ok && fields.Has("disk_state"))
    ok = ReadDisk(fields.Text("disk_state"), &r.disk) &&
         ReadMs(fields, "disk_state_since_ms", &r.disk_since_ms);
  if (ok && fields.Has("disk_forgiven")) ok = ReadForgiven(fields.Text("disk_forgiven"), &r);
  if (!ok) return absl::DataLossError(StrCat(StocPath(id), ": malformed"));
  r.draining = draining == 1;
  r.others = fields.Others({"store", "name", "host", "draining", "presence", "away_since_ms", "away_ms",
                            "disk_state", "disk_state_since_ms", "disk_forgiven"});
  return r;
}

bool IsHostText(std::string_view host) {
  return host.size() <= kMostHostBytes &&
         std::all_of(host.begin(), host.end(), [](char c) { return static_cast<unsigned char>(c) > ' '; });
}

}  // namespace nova
