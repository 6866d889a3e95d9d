#include "ltc/server/placement.h"

#include <algorithm>

namespace nova {
namespace {

void Shuffle(std::vector<StocChoice>* v, Random* random) {
  for (size_t i = v->size(); i > 1; --i) std::swap((*v)[i - 1], (*v)[random->Uniform(i)]);
}

}  // namespace

std::vector<StocId> PickStocs(const std::vector<StocChoice>& stocs, size_t count, int choices,
                              Random* random) {
  std::vector<StocChoice> sample = stocs;
  Shuffle(&sample, random);
  sample.resize(std::min(sample.size(), count * static_cast<size_t>(std::max(1, choices))));
  std::stable_sort(sample.begin(), sample.end(),
                   [](const StocChoice& a, const StocChoice& b) { return a.queue_depth < b.queue_depth; });
  std::vector<StocId> picked;
  std::vector<std::string> hosts;
  for (const bool other_hosts_only : {true, false}) {
    for (const StocChoice& s : sample) {
      if (picked.size() == count) return picked;
      if (std::find(picked.begin(), picked.end(), s.id) != picked.end()) continue;
      if (other_hosts_only && std::find(hosts.begin(), hosts.end(), s.host) != hosts.end()) continue;
      picked.push_back(s.id);
      hosts.push_back(s.host);
    }
  }
  return picked;
}

Placement PlaceTable(const std::vector<StocChoice>& stocs, uint64_t table_bytes,
                     const PlacementOptions& options, Random* random) {
  Placement placement;
  if (stocs.empty()) return placement;
  const auto by_size = static_cast<size_t>(
      std::max<uint64_t>(1, table_bytes / std::max<uint64_t>(1, options.min_fragment_bytes)));
  const size_t width =
      std::min({static_cast<size_t>(std::max(1, options.scatter_width)), by_size, stocs.size()});
  const size_t copies = std::min(static_cast<size_t>(std::max(1, options.replicas)), stocs.size());
  const std::vector<StocId> firsts = PickStocs(stocs, width, options.choices, random);
  for (const StocId first : firsts) {
    std::vector<StocId> members{first};
    if (copies > 1) {
      std::vector<StocChoice> others;
      std::string host;
      for (const StocChoice& s : stocs) {
        if (s.id == first) host = s.host;
      }
      for (const StocChoice& s : stocs) {
        if (s.id != first && s.host != host) others.push_back(s);
      }
      if (others.size() < copies - 1) {  // not enough other hosts: distinct StoCs have to do
        others.clear();
        for (const StocChoice& s : stocs) {
          if (s.id != first) others.push_back(s);
        }
      }
      for (const StocId id : PickStocs(others, copies - 1, options.choices, random)) members.push_back(id);
    }
    placement.fragments.push_back(std::move(members));
  }
  placement.metadata = PickStocs(stocs, copies, options.choices, random);
  return placement;
}

}  // namespace nova
