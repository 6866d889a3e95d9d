#include "tests/cluster_sim/history.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace nova {

uint64_t History::Begin(const std::string& key, bool remove) {
  Key& k = keys_[key];
  const uint64_t version = k.versions.size();
  k.versions.push_back({.remove = remove, .place = {version, 0}});
  return version;
}

void History::End(const std::string& key, uint64_t version, Effect effect) {
  Key& k = keys_.at(key);
  switch (effect) {
    case Effect::kApplied:
      k.settled = std::max(k.settled, k.versions[version].place);
      ++acknowledged_;
      break;
    case Effect::kNotApplied:
      k.versions[version].refused = true;
      ++refused_;
      break;
    case Effect::kUnknown:
      k.versions[version].unknown = true;
      ++unknown_;
      break;
  }
}

std::string History::ValueOf(std::string_view key, uint64_t version, size_t bytes) {
  std::string value = StrCat(std::string(key), "=", version, ";");
  const size_t wanted = bytes / 2 + (version * 7919) % (bytes / 2 + 1);
  if (value.size() < wanted) value.append(wanted - value.size(), static_cast<char>('a' + version % 26));
  return value;
}

History::Place History::Settled(const std::string& key) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? Place() : it->second.settled;
}

// True if that unknown write may have taken effect only after the version at `after`, where it is put.
bool History::Key::TakeLate(Version* version, const Place& after) {
  if (!version->unknown || version->placed) return false;
  version->placed = true;
  version->place = {after.version, ++late};
  return true;
}

// How each version ended from there on.
std::string History::Key::Since(uint64_t version) const {
  std::string text;
  for (uint64_t v = version; v < versions.size(); ++v) {
    const Version& w = versions[v];
    absl::StrAppend(&text, v == version ? "" : ", ", v, w.remove ? " delete" : " put",
                    w.refused   ? " refused"
                    : w.unknown ? " unknown"
                                : "",
                    w.place.late > 0 ? " late" : "");
  }
  return text;
}

std::string History::Check(const std::string& key, const Place& settled_before,
                           const std::optional<std::string>& value) {
  Key& k = keys_[key];
  if (!value) {
    Version* found = nullptr;  // the earliest that it may be; which, only later reads tell
    for (Version& v : k.versions) {
      if (v.remove && !v.refused && v.place >= settled_before && (found == nullptr || v.place < found->place))
        found = &v;
    }
    for (auto v = k.versions.begin(); found == nullptr && v != k.versions.end(); ++v) {
      if (v->remove && k.TakeLate(&*v, settled_before)) found = &*v;
    }
    if (found == nullptr) {
      return StrCat(key, ": nothing found, version ", settled_before.version, " was settled (",
                    k.Since(settled_before.version), ")");
    }
    k.settled = std::max(k.settled, found->place);
    return "";
  }
  uint64_t version = 0;
  const size_t end = value->find(';');
  if (!value->starts_with(key + "=") || end == std::string::npos ||
      !absl::SimpleAtoi(value->substr(key.size() + 1, end - key.size() - 1), &version)) {
    return StrCat(key, ": bytes nobody wrote");
  }
  const std::string pad = value->substr(end + 1);
  if (std::any_of(pad.begin(), pad.end(),
                  [&](char c) { return c != static_cast<char>('a' + version % 26); })) {
    return StrCat(key, ": bytes nobody wrote");
  }
  if (version >= k.versions.size() || k.versions[version].remove)
    return StrCat(key, ": version ", version, " was never put");
  Version& found = k.versions[version];
  if (found.refused) return StrCat(key, ": version ", version, " was refused, and is there");
  if (found.place < settled_before && !k.TakeLate(&found, settled_before)) {
    return StrCat(key, ": version ", version, " read, ", settled_before.version, " was settled before (",
                  k.Since(version), ")");
  }
  // Of a read during which a later version was settled nobody knows whether it found this one before that or,
  // come late, after it.
  if (found.place >= k.settled) found.placed = true;
  k.settled = std::max(k.settled, found.place);
  return "";
}

std::vector<std::string> History::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, k] : keys_) keys.push_back(key);
  return keys;
}

// --- several writers

SharedRegister::Operation SharedRegister::BeginWrite(const std::string& value, Nanos now) {
  by_value_[value] = writes_.size();
  writes_.push_back({.value = value, .begin = now});
  return writes_.size() - 1;
}

void SharedRegister::EndWrite(Operation operation, Effect effect, Nanos now) {
  if (effect == Effect::kApplied) writes_[operation].end = now;
  if (effect == Effect::kNotApplied) writes_[operation].refused = true;
}

void SharedRegister::Read(const std::optional<std::string>& value, Nanos begin, Nanos end) {
  size_t which = 0;
  if (value) {
    const auto it = by_value_.find(*value);
    if (it == by_value_.end()) {
      unwritten_ = *value;
      return;
    }
    which = it->second;
  }
  Write& w = writes_[which];
  w.read = true;
  w.first_read_end = std::min(w.first_read_end, end);
  w.last_read_begin = std::max(w.last_read_begin, begin);
}

std::string SharedRegister::CheckAll() const {
  if (!unwritten_.empty()) return StrCat("bytes nobody wrote: ", unwritten_.substr(0, 40));
  struct Zone {
    Nanos from, to;  // the first end, the last begin
    const Write* write;
  };
  std::vector<Zone> forward, backward;
  for (const Write& w : writes_) {
    if (w.refused && w.read) return StrCat(w.value, " was refused, and is there");
    if (w.refused || (!w.read && w.end == kNever)) continue;
    if (w.read && w.first_read_end < w.begin) return StrCat(w.value, " was read before it was written");
    const Zone zone{std::min(w.end, w.first_read_end), std::max(w.begin, w.last_read_begin), &w};
    (zone.from < zone.to ? forward : backward).push_back(zone);
  }
  std::sort(forward.begin(), forward.end(), [](const Zone& a, const Zone& b) { return a.from < b.from; });
  const auto text = [](const Write& w) { return w.value.empty() ? std::string("no value") : w.value; };
  for (size_t i = 1; i < forward.size(); ++i) {
    if (forward[i].from < forward[i - 1].to) {
      return StrCat(text(*forward[i - 1].write), " and ", text(*forward[i].write),
                    " each came before the other");
    }
  }
  for (const Zone& b : backward) {
    for (const Zone& f : forward) {
      if (f.from < b.to && b.from < f.to)
        return StrCat(text(*b.write), " came amid the reads of ", text(*f.write));
    }
  }
  return "";
}

}  // namespace nova
