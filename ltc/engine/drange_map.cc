// A map: u8 format = 1 | varint64 generation | varint32 n | n * cut, length-prefixed, ascending.
#include "ltc/engine/drange_map.h"

#include <algorithm>

#include "common/base/coding.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr char kFormat = 1;

}  // namespace

DrangeMap::DrangeMap(std::vector<std::string> cuts, uint64_t generation)
    : cuts_(std::move(cuts)), generation_(generation) {
  NOVA_DCHECK(std::adjacent_find(cuts_.begin(), cuts_.end(), std::greater_equal<>()) == cuts_.end());
  pieces_.Build(cuts_.size(), [this](size_t i) -> std::string_view { return cuts_[i]; });
}

size_t DrangeMap::Of(std::string_view stored_key) const {
  const auto [first, last] = pieces_.Find(stored_key);
  return static_cast<size_t>(std::upper_bound(cuts_.begin() + static_cast<ptrdiff_t>(first),
                                              cuts_.begin() + static_cast<ptrdiff_t>(last), stored_key) -
                             cuts_.begin());
}

std::vector<std::string> DrangeMap::CutsFor(size_t first, size_t last, uint64_t bytes,
                                            uint64_t least_table_bytes) const {
  const size_t dranges = last - first + 1;
  size_t stride = 1;
  while (stride < dranges && bytes / ((dranges + stride - 1) / stride) < least_table_bytes) stride *= 2;
  std::vector<std::string> out;
  for (size_t i = first + 1; i <= last; ++i) {
    if (i % stride == 0) out.push_back(cuts_[i - 1]);
  }
  return out;
}

std::string DrangeMap::Encode() const {
  std::string out(1, kFormat);
  PutVarint64(&out, generation_);
  PutVarint32(&out, static_cast<uint32_t>(cuts_.size()));
  for (const std::string& cut : cuts_) PutLengthPrefixed(&out, cut);
  return out;
}

DrangeMapRef DrangeMap::Decode(std::string_view bytes) {
  uint64_t generation;
  uint32_t n;
  if (bytes.empty() || bytes.front() != kFormat) return nullptr;
  bytes.remove_prefix(1);
  if (!GetVarint64(&bytes, &generation) || !GetVarint32(&bytes, &n) || n >= kMostDranges) return nullptr;
  std::vector<std::string> cuts(n);
  for (std::string& cut : cuts) {
    if (!GetLengthPrefixed(&bytes, &cut)) return nullptr;
  }
  const bool ascending = std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end();
  if (!bytes.empty() || !ascending || (n > 0 && cuts[0].empty())) return nullptr;
  return std::make_shared<const DrangeMap>(std::move(cuts), generation);
}

}  // namespace nova
