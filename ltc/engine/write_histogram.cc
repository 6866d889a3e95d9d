#include "ltc/engine/write_histogram.h"

#include <algorithm>
#include <utility>

namespace nova {
namespace {

using Bucket = WriteHistogram::Bucket;

// Appends to `out` the parts into which the first keys of `cutting` cut the buckets of `cut`, with `weight`
// times their loads. The load that is known to be of the first key stays there. Nothing is known of where the
// rest lies, but that the parts hold about equal loads of the other histogram: so each gets as much.
void AppendParts(const std::vector<Bucket>& cut, const std::vector<Bucket>& cutting, double weight,
                 std::vector<Bucket>* out) {
  const auto before = [](const Bucket& b, const std::string& key) { return b.first <= key; };
  for (size_t i = 0; i < cut.size(); ++i) {
    auto begin = std::lower_bound(cutting.begin(), cutting.end(), cut[i].first, before), end = begin;
    while (end != cutting.end() && (i + 1 == cut.size() || end->first < cut[i + 1].first)) ++end;
    const double of_first = weight * cut[i].first_key;
    const double part = (weight * cut[i].load - of_first) / static_cast<double>(1 + (end - begin));
    out->push_back({cut[i].first, of_first + part, of_first});
    for (; begin != end; ++begin) out->push_back({begin->first, part, 0});
  }
}

}  // namespace

void WriteHistogram::Add(std::string_view stored_key, double load) {
  load_ += load;
  if (!buckets_.empty() && buckets_.back().load + load <= equal_) {
    buckets_.back().load += load;
    return;
  }
  buckets_.push_back({std::string(stored_key), load, load});
  if (buckets_.size() >= 2 * resolution_) Coarsen();
}

void WriteHistogram::Merge(const WriteHistogram& pass, double decay) {
  std::vector<Bucket> parts;
  AppendParts(buckets_, pass.buckets_, decay, &parts);
  AppendParts(pass.buckets_, buckets_, 1, &parts);
  std::sort(parts.begin(), parts.end(), [](const Bucket& a, const Bucket& b) { return a.first < b.first; });
  buckets_.clear();
  load_ = 0;
  for (Bucket& part : parts) {
    load_ += part.load;
    if (buckets_.empty() || buckets_.back().first != part.first) {
      buckets_.push_back(std::move(part));
      continue;
    }
    buckets_.back().load += part.load;
    buckets_.back().first_key += part.first_key;
  }
  SplitHot();
  Coarsen();
}

void WriteHistogram::SplitHot() {
  const double most = 2 * load_ / static_cast<double>(resolution_);
  std::vector<Bucket> buckets;
  for (Bucket& b : buckets_) {
    if (!buckets.empty() && buckets.back().first == b.first) {  // the one before was cut here
      buckets.back().load += b.load;
      buckets.back().first_key = b.first_key;
    } else {
      buckets.push_back(std::move(b));
    }
    Bucket& hot = buckets.back();
    if (hot.load <= most || hot.first_key == 0 || hot.single()) continue;
    Bucket rest{hot.first + '\0', hot.load - hot.first_key, 0};
    hot.load = hot.first_key;
    buckets.push_back(std::move(rest));
  }
  buckets_ = std::move(buckets);
}

void WriteHistogram::Coarsen() {
  equal_ = 2 * load_ / static_cast<double>(resolution_);
  const double nothing = kNothing * load_;
  size_t kept = 0;
  for (size_t i = 1; i < buckets_.size(); ++i) {
    Bucket &last = buckets_[kept], &next = buckets_[i];
    if (last.load + next.load <= equal_ || next.load <= nothing) {
      last.load += next.load;
    } else if (last.load <= nothing) {
      next.load += last.load;
      last = std::move(next);
    } else if (++kept != i) {
      buckets_[kept] = std::move(next);
    }
  }
  buckets_.resize(std::min(buckets_.size(), kept + 1));
}

}  // namespace nova
