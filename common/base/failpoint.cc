#include "common/base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

struct Armed {
  std::atomic<uint64_t> hits{0};
  uint64_t nth = 0;
  std::function<Status()> action;
};

// Orders are given before the threads that meet them, or while these stand still; so that a hit takes no
// lock.
std::array<Armed, kFailPoints.size()>& Points() {
  static auto* const points = new std::array<Armed, kFailPoints.size()>();
  return *points;
}

StatusOr<size_t> Find(std::string_view name) {
  const auto it = std::find_if(kFailPoints.begin(), kFailPoints.end(),
                               [&](const FailPointInfo& p) { return p.name == name; });
  if (it == kFailPoints.end()) return absl::InvalidArgumentError(StrCat("no failpoint ", std::string(name)));
  return static_cast<size_t>(it - kFailPoints.begin());
}

[[noreturn]] void Crash() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace

std::atomic<bool> g_fail_points_armed{false};

Status HitFailPoint(size_t index) {
  Armed& point = Points()[index];
  const uint64_t hit = point.hits.fetch_add(1) + 1;
  if (point.action == nullptr || (point.nth != 0 && hit != point.nth)) return OkStatus();
  return point.action();
}

Status ArmFailPoint(std::string_view name, uint64_t nth, std::function<Status()> action) {
  NOVA_ASSIGN_OR_RETURN(const size_t index, Find(name));
  Points()[index].nth = nth;
  Points()[index].action = std::move(action);
  g_fail_points_armed.store(true);
  return OkStatus();
}

Status ArmFailPoints(std::string_view orders) {
  for (const absl::string_view order :
       absl::StrSplit(absl::string_view(orders.data(), orders.size()), ';', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> named = absl::StrSplit(order, absl::MaxSplits('=', 1));
    const std::pair<std::string, std::string> counted = absl::StrSplit(named.second, absl::MaxSplits('@', 1));
    NOVA_ASSIGN_OR_RETURN(const size_t index, Find(named.first));
    const auto wrong = [&](const char* why) {
      return absl::InvalidArgumentError(StrCat("failpoint ", std::string(order), ": ", why));
    };
    uint64_t nth = 0, delay_ms = 0;
    if (!counted.second.empty() && (!absl::SimpleAtoi(counted.second, &nth) || nth == 0))
      return wrong("@ wants a number above 0");
    std::function<Status()> action;
    if (counted.first == "crash") {
      action = []() -> Status { Crash(); };
    } else if (counted.first == "error") {
      if (!kFailPoints[index].may_fail) return wrong("this step cannot fail");
      action = [name = named.first] { return absl::DataLossError(StrCat("failpoint ", name)); };
    } else if (counted.first.starts_with("delay:") && absl::SimpleAtoi(counted.first.substr(6), &delay_ms) &&
               delay_ms <= 60'000) {
      action = [delay_ms] {
        SleepFor(static_cast<Nanos>(delay_ms) * kMillisecond);
        return OkStatus();
      };
    } else {
      return wrong("wants crash, error or delay:MILLISECONDS");
    }
    NOVA_RETURN_IF_ERROR(ArmFailPoint(named.first, nth, std::move(action)));
  }
  return OkStatus();
}

Status ArmFailPointsFromEnv() {
  const char* const orders = std::getenv("NOVA_FAILPOINTS");
  if (orders == nullptr) return OkStatus();
  NOVA_LOG(WARNING) << "failpoints: " << orders;
  return ArmFailPoints(orders);
}

void DisarmFailPoints() {
  g_fail_points_armed.store(false);
  for (Armed& point : Points()) {
    point.action = nullptr;
    point.nth = 0;
    point.hits.store(0);
  }
}

uint64_t FailPointHits(std::string_view name) {
  const auto index = Find(name);
  NOVA_CHECK(index.ok()) << index.status();
  return Points()[*index].hits.load();
}

std::string FailPointsText() {
  std::string out;
  for (const FailPointInfo& p : kFailPoints) {
    out += StrCat(std::string(p.name), std::string(p.name.size() < 28 ? 28 - p.name.size() : 1, ' '),
                  p.may_fail ? "crash delay error  " : "crash delay        ", std::string(p.where), "\n");
  }
  return out;
}

}  // namespace nova
