#include "tests/cluster_sim/history.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace nova {

uint64_t History::Begin(const std::string& key, bool remove) {
  Key& k = keys_[key];
  k.versions.push_back({remove, false});
  return k.versions.size() - 1;
}

void History::End(const std::string& key, uint64_t version, Effect effect) {
  Key& k = keys_.at(key);
  switch (effect) {
    case Effect::kApplied:
      k.settled = std::max(k.settled, version);
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

uint64_t History::Settled(const std::string& key) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? 0 : it->second.settled;
}

std::string History::Check(const std::string& key, uint64_t settled_before, const std::optional<std::string>& value) {
  Key& k = keys_[key];
  if (!value) {
    for (uint64_t v = settled_before; v < k.versions.size(); ++v) {
      if (!k.versions[v].remove || k.versions[v].refused) continue;
      k.settled = std::max(k.settled, v);  // it may be this one; which, only later reads tell
      return "";
    }
    return StrCat(key, ": nothing found, version ", settled_before, " was settled");
  }
  uint64_t version = 0;
  const size_t end = value->find(';');
  if (!value->starts_with(key + "=") || end == std::string::npos ||
      !absl::SimpleAtoi(value->substr(key.size() + 1, end - key.size() - 1), &version)) {
    return StrCat(key, ": bytes nobody wrote");
  }
  const std::string pad = value->substr(end + 1);
  if (std::any_of(pad.begin(), pad.end(), [&](char c) { return c != static_cast<char>('a' + version % 26); })) {
    return StrCat(key, ": bytes nobody wrote");
  }
  if (version >= k.versions.size() || k.versions[version].remove) return StrCat(key, ": version ", version, " was never put");
  if (k.versions[version].refused) return StrCat(key, ": version ", version, " was refused, and is there");
  if (version < settled_before) {
    std::string since;  // how each ended from there on
    for (uint64_t v = version; v < k.versions.size(); ++v) {
      const Version& w = k.versions[v];
      absl::StrAppend(&since, v == version ? "" : ", ", v, w.remove ? " delete" : " put", w.refused ? " refused" : w.unknown ? " unknown" : "");
    }
    return StrCat(key, ": version ", version, " read, ", settled_before, " was settled before (", since, ")");
  }
  k.settled = std::max(k.settled, version);
  return "";
}

std::vector<std::string> History::Keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, k] : keys_) keys.push_back(key);
  return keys;
}

}  // namespace nova
