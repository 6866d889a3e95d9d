#include "coordinator/leader_channel.h"

#include <algorithm>

namespace nova {
namespace {

constexpr char kLeaderPayload[] = "nova/leader";
constexpr Nanos kAttemptNs = kSecond;
constexpr Nanos kFairAttemptNs = 100 * kMillisecond;  // one that had less says nothing about the coordinator
constexpr Nanos kMinPauseNs = 20 * kMillisecond;
constexpr Nanos kMaxPauseNs = 200 * kMillisecond;

bool TryElsewhere(const Status& s) {
  return absl::IsUnavailable(s) || absl::IsDeadlineExceeded(s) || absl::IsCancelled(s);
}

}  // namespace

Status NotLeadingError(const std::string& leader) {
  return NotLeadingError(
      leader, leader.empty() ? "no leader is known there" : StrCat("does not lead; ", leader, " does"));
}

Status NotLeadingError(const std::string& leader, const std::string& text) {
  Status s = absl::FailedPreconditionError(text);
  s.SetPayload(kLeaderPayload, absl::Cord(leader));
  return s;
}

bool IsNotLeading(const Status& s, std::string* leader) {
  const auto payload = s.GetPayload(kLeaderPayload);
  if (!payload.has_value()) return false;
  *leader = std::string(*payload);
  return true;
}

LeaderChannel::LeaderChannel(std::vector<std::string> addresses)
    : given_(addresses.size()), addresses_(std::move(addresses)) {}

void LeaderChannel::Learn(const std::string& leader) {
  MutexLock lock(&mu_);
  const auto learned = addresses_.begin() + static_cast<std::ptrdiff_t>(given_);
  if (std::find(addresses_.begin(), learned, leader) != learned) return;
  addresses_.erase(learned, addresses_.end());
  addresses_.push_back(leader);
}

std::vector<std::string> LeaderChannel::OrderOfRound() {
  MutexLock lock(&mu_);
  std::vector<std::string> order;
  if (!leader_.empty()) order.push_back(leader_);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const std::string& a = addresses_[(first_ + i) % addresses_.size()];
    if (a != leader_) order.push_back(a);
  }
  return order;
}

void LeaderChannel::NotedDown(const std::string& address) {
  MutexLock lock(&mu_);
  const auto it = std::find(addresses_.begin(), addresses_.end(), address);
  if (it != addresses_.end()) first_ = static_cast<size_t>(it - addresses_.begin()) + 1;
  if (leader_ == address) leader_.clear();
}

StatusOr<std::string> LeaderChannel::Call(const std::string& method, const std::string& request,
                                          Nanos deadline_ns) {
  Status last = absl::UnavailableError("no coordinator address");
  Nanos pause_ns = kMinPauseNs;
  while (true) {
    std::vector<std::string> order = OrderOfRound();
    // Leaders that followers name are tried next; a chain of stale names is cut after twice the coordinators.
    const size_t max_attempts = 2 * order.size() + 1;
    for (size_t i = 0; i < order.size() && i < max_attempts && Now() < deadline_ns; ++i) {
      const std::string address = order[i];
      const bool fair = deadline_ns - Now() >= kFairAttemptNs;
      StatusOr<std::string> answer =
          Attempt(address, method, request, std::min(deadline_ns, Now() + kAttemptNs));
      std::string leader;
      if (answer.ok() || (!TryElsewhere(answer.status()) && !IsNotLeading(answer.status(), &leader))) {
        MutexLock lock(&mu_);
        leader_ = address;
        return answer;
      }
      last = Annotate(
          TryElsewhere(answer.status()) ? answer.status() : absl::UnavailableError(answer.status().message()),
          StrCat("coordinator ", address));
      if (fair && TryElsewhere(answer.status())) NotedDown(address);
      if (leader.empty()) continue;
      const auto later = order.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const bool tried = std::find(order.begin(), later, leader) != later;
      if (!tried) order.insert(later, leader);
    }
    Nanos pause = 0;
    {
      MutexLock lock(&mu_);
      pause = pause_ns / 2 + static_cast<Nanos>(random_.Uniform(static_cast<uint64_t>(pause_ns)));
    }
    if (Now() + pause >= deadline_ns) return last;
    SleepFor(pause);
    pause_ns = std::min(pause_ns * 2, kMaxPauseNs);
  }
}

}  // namespace nova
