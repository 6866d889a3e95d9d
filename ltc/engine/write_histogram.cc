#include "ltc/engine/write_histogram.h"

#include <algorithm>
#include <utility>

namespace nova {
namespace {

// Calls fn(first key, load, single) for the parts into which the first keys of `cutting` cut the buckets of
// `cut`. Nothing is known of where the load of a bucket lies, but that its parts hold about equal loads of
// the other histogram: so each gets as much. The load of a single key stays at that key.
template <typename Fn>
void ForEachPart(const std::vector<WriteHistogram::Bucket>& cut,
                 const std::vector<WriteHistogram::Bucket>& cutting, const Fn& fn) {
  const auto before = [](const WriteHistogram::Bucket& b, const std::string& key) { return b.first <= key; };
  for (size_t i = 0; i < cut.size(); ++i) {
    auto begin = std::lower_bound(cutting.begin(), cutting.end(), cut[i].first, before), end = begin;
    while (end != cutting.end() && (i + 1 == cut.size() || end->first < cut[i + 1].first)) ++end;
    const auto parts = static_cast<double>(1 + (end - begin));
    fn(cut[i].first, cut[i].single ? cut[i].load : cut[i].load / parts, cut[i].single);
    for (; begin != end; ++begin) fn(begin->first, cut[i].single ? 0 : cut[i].load / parts, false);
  }
}

}  // namespace

void WriteHistogram::Add(std::string_view stored_key, double load) {
  load_ += load;
  if (!buckets_.empty() && buckets_.back().load + load <= equal_) {
    buckets_.back().load += load;
    buckets_.back().single = false;
    return;
  }
  buckets_.push_back({std::string(stored_key), load, true});
  if (buckets_.size() >= 2 * resolution_) Coarsen();
}

void WriteHistogram::Merge(const WriteHistogram& pass, double decay) {
  std::vector<Bucket> parts;
  ForEachPart(buckets_, pass.buckets_, [&](const std::string& first, double load, bool single) {
    parts.push_back({first, load * decay, single});
  });
  ForEachPart(pass.buckets_, buckets_, [&](const std::string& first, double load, bool single) {
    parts.push_back({first, load, single});
  });
  std::sort(parts.begin(), parts.end(), [](const Bucket& a, const Bucket& b) { return a.first < b.first; });
  buckets_.clear();
  for (Bucket& part : parts) {
    if (buckets_.empty() || buckets_.back().first != part.first) {
      buckets_.push_back(std::move(part));
      continue;
    }
    buckets_.back().load += part.load;
    buckets_.back().single &= part.single || part.load == 0;
  }
  load_ = load_ * decay + pass.load_;
  Coarsen();
}

void WriteHistogram::Coarsen() {
  equal_ = 2 * load_ / static_cast<double>(resolution_);
  size_t kept = 0;
  for (size_t i = 1; i < buckets_.size(); ++i) {
    if (buckets_[kept].load + buckets_[i].load <= equal_) {
      buckets_[kept].load += buckets_[i].load;
      buckets_[kept].single = false;
    } else if (++kept != i) {
      buckets_[kept] = std::move(buckets_[i]);
    }
  }
  buckets_.resize(std::min(buckets_.size(), kept + 1));
}

}  // namespace nova
