#include "stoc/known_stocs.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {

void KnownStocs::Update(const std::vector<NodeInfo>& live) {
  MutexLock lock(&mu_);
  for (const NodeInfo& info : live) {
    Node& node = nodes_[info.stoc_id];
    if (!IsLiveLocked(info.stoc_id)) node.signs->unreachable_start.store(0, std::memory_order_relaxed);
    if (info.incarnation >= node.info.incarnation) node.info = info;
  }
  live_ = live;
  version_.fetch_add(1, std::memory_order_release);
}

std::vector<NodeInfo> KnownStocs::live() const {
  MutexLock lock(&mu_);
  return live_;
}

std::optional<NodeInfo> KnownStocs::Find(StocId id) const {
  MutexLock lock(&mu_);
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return std::nullopt;
  return it->second.info;
}

bool KnownStocs::IsLive(StocId id) const {
  MutexLock lock(&mu_);
  return IsLiveLocked(id);
}

bool KnownStocs::IsLiveLocked(StocId id) const {
  return std::any_of(live_.begin(), live_.end(), [id](const NodeInfo& n) { return n.stoc_id == id; });
}

StocLoad KnownStocs::LoadOf(StocId id) const {
  MutexLock lock(&mu_);
  const auto it = nodes_.find(id);
  if (it == nodes_.end()) return {};
  Signs& signs = *it->second.signs;
  const Nanos now = Now();
  return {signs.bytes.load(std::memory_order_relaxed), signs.queue_depth.load(std::memory_order_relaxed),
          signs.others_queued.load(std::memory_order_relaxed),
          now - signs.told_ns.load(std::memory_order_relaxed), signs.pace.Get(now)};
}

// Of the StoC's requests as many are this client's as it has writes under way, or fewer: one that has not
// come there yet is none of them.
void KnownStocs::NoteReply(Signs* signs, Incarnation start, uint32_t depth) {
  signs->queue_depth.store(depth, std::memory_order_relaxed);
  const uint32_t own = signs->writes.load(std::memory_order_relaxed);
  signs->others_queued.store(depth - std::min(depth, own), std::memory_order_relaxed);
  signs->told_ns.store(Now(), std::memory_order_relaxed);
  uint64_t marked = signs->unreachable_start.load(std::memory_order_relaxed);
  if (marked != 0 && marked <= start.value()) signs->unreachable_start.compare_exchange_strong(marked, 0);
}

bool KnownStocs::NoteUnreachable(Signs* signs, Incarnation start) {
  uint64_t marked = signs->unreachable_start.load(std::memory_order_relaxed);
  while (marked < start.value()) {
    if (signs->unreachable_start.compare_exchange_weak(marked, start.value())) return true;
  }
  return false;
}

KnownStocs::Writing KnownStocs::BeginWriting(StocId id, uint64_t bytes) {
  MutexLock lock(&mu_);
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? Writing() : Writing(it->second.signs.get(), bytes);
}

KnownStocs::Writing::Writing(Signs* signs, uint64_t bytes) : signs_(signs), bytes_(bytes) {
  signs->writes.fetch_add(1, std::memory_order_relaxed);
  signs->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (bytes >= WritePace::kLeastBytes) signs->pace.Begin(Now());
}

void KnownStocs::Writing::Done(bool stored) {
  Signs* const signs = std::exchange(signs_, nullptr);
  if (signs == nullptr) return;
  if (bytes_ >= WritePace::kLeastBytes) signs->pace.End(stored ? bytes_ : 0, Now());
  signs->writes.fetch_sub(1, std::memory_order_relaxed);
  signs->bytes.fetch_sub(bytes_, std::memory_order_relaxed);
}

KnownStocs::Rank KnownStocs::RankOf(StocId id) const {
  MutexLock lock(&mu_);
  Rank rank;
  if (const auto it = nodes_.find(id); it != nodes_.end()) {
    const Signs& signs = *it->second.signs;
    const uint64_t marked = signs.unreachable_start.load(std::memory_order_relaxed);
    rank.unreachable = marked != 0 && marked == it->second.info.incarnation.value();
    rank.queue_depth = signs.queue_depth.load(std::memory_order_relaxed);
  }
  const auto live =
      std::find_if(live_.begin(), live_.end(), [id](const NodeInfo& n) { return n.stoc_id == id; });
  rank.away = live == live_.end();
  if (!rank.away) rank.disk = live->disk;
  return rank;
}

bool KnownStocs::IsHungBesideOthers(StocId id, size_t copies) const {
  if (RankOf(id).disk != DiskState::kHung) return false;
  MutexLock lock(&mu_);
  const auto others = std::count_if(
      live_.begin(), live_.end(), [](const NodeInfo& n) { return n.disk < DiskState::kFull && !n.IsLeft(); });
  return static_cast<size_t>(others) >= copies;
}

std::string KnownStocs::NameOf(StocId id) const {
  const std::optional<NodeInfo> info = Find(id);
  return info.has_value() ? StrCat("stoc ", id.value(), " (", info->name, ")") : StrCat("stoc ", id.value());
}

const KnownStocs::Target* KnownStocs::FindTarget(Xchg* xchg, StocId id) {
  const auto at = std::find(xchgs_.begin(), xchgs_.end(), xchg);
  NOVA_CHECK(at != xchgs_.end()) << "an Xchg this client does not know";
  Lane& lane = lanes_[static_cast<size_t>(at - xchgs_.begin())];
  const uint64_t now = version_.load(std::memory_order_acquire);
  if (lane.version != now) {
    lane.targets.clear();
    lane.version = now;
  }
  if (const auto it = lane.targets.find(id); it != lane.targets.end()) return &it->second;
  MutexLock lock(&mu_);
  const auto node = nodes_.find(id);
  if (node == nodes_.end() || node->second.info.address.empty()) return nullptr;
  const NodeInfo& info = node->second.info;
  const PeerIdentity who{Role::kStoc, ToNodeName(info.name), info.incarnation.value()};
  Target& target = lane.targets[id];
  target = {id, xchg->peer(info.address, who), info.incarnation, node->second.signs.get()};
  return &target;
}

Peer* KnownStocs::FindPeer(Xchg* xchg, StocId id, Incarnation incarnation) {
  const Target* const target = FindTarget(xchg, id);
  return target == nullptr || target->incarnation != incarnation ? nullptr : target->peer;
}

}  // namespace nova
