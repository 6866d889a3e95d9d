#include "common/sstable/filter.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace nova {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kLineBits = kLineBytes * 8;
constexpr int kBitsPerProbe = 9;
constexpr int kMaxProbes = 7;
static_assert(1 << kBitsPerProbe == kLineBits && kMaxProbes * kBitsPerProbe <= 64);

// The line comes from the high bits of the hash; this makes bits of all of them.
uint64_t Mix(uint64_t h) {
  h *= 0x9e3779b97f4a7c15;
  return h ^ (h >> 32);
}

size_t LineOf(uint64_t hash, size_t lines) {
  return static_cast<size_t>((static_cast<unsigned __int128>(hash) * lines) >> 64);
}

// The best number of probes for the whole filter is bits * ln 2; lines fill unevenly, which asks for a little
// fewer.
int ProbesFor(int bits_per_key) { return std::clamp(bits_per_key * 6 / 10, 1, kMaxProbes); }

}  // namespace

uint64_t FilterHash(std::string_view stored_key) { return XXH3_64bits(stored_key.data(), stored_key.size()); }

void FilterBuilder::AppendTo(std::string* dst) const {
  if (hashes_.empty()) return;
  const size_t lines = (hashes_.size() * bits_per_key_ + kLineBits - 1) / kLineBits;
  const int probes = ProbesFor(bits_per_key_);
  const size_t start = dst->size();
  dst->resize(start + lines * kLineBytes);
  for (const uint64_t hash : hashes_) {
    char* line = dst->data() + start + LineOf(hash, lines) * kLineBytes;
    uint64_t bits = Mix(hash);
    for (int i = 0; i < probes; ++i, bits >>= kBitsPerProbe) {
      const size_t bit = bits % kLineBits;
      line[bit / 8] = static_cast<char>(line[bit / 8] | (1 << bit % 8));
    }
  }
  dst->push_back(static_cast<char>(probes));
}

bool Filter::Parse(std::string_view bytes) {
  lines_.clear();
  probes_ = 0;
  if (bytes.empty()) return true;
  const int probes = static_cast<unsigned char>(bytes.back());
  bytes.remove_suffix(1);
  if (probes < 1 || probes > kMaxProbes || bytes.empty() || bytes.size() % kLineBytes != 0) return false;
  lines_.resize(bytes.size() / kLineBytes);
  std::memcpy(lines_.data(), bytes.data(), bytes.size());
  probes_ = probes;
  return true;
}

void Filter::Prefetch(uint64_t hash) const {
  if (!lines_.empty()) __builtin_prefetch(&lines_[LineOf(hash, lines_.size())]);
}

bool Filter::MayContain(uint64_t hash) const {
  if (lines_.empty()) return true;
  const Line& line = lines_[LineOf(hash, lines_.size())];
  uint64_t bits = Mix(hash);
  for (int i = 0; i < probes_; ++i, bits >>= kBitsPerProbe) {
    const size_t bit = bits % kLineBits;
    if ((line.words[bit / 64] >> bit % 64 & 1) == 0) return false;
  }
  return true;
}

}  // namespace nova
