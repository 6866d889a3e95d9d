#include "client/client_rep.h"

#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kFirstBackoff = 2 * kMillisecond;
constexpr Nanos kMaxBackoff = 100 * kMillisecond;
// Between two fetches of the configuration: the longer it stays the same, the longer. A range may have no
// owner for hours, and all clients ask; the one that it gets is found within a thirty-second of that time.
constexpr Nanos kMinRefreshPeriod = 20 * kMillisecond;
constexpr Nanos kMaxRefreshPeriod = 500 * kMillisecond;
constexpr Nanos kRefreshGrowth = 32;
// What is wrong with it now is another matter if for so long nothing was.
constexpr Nanos kNothingWrong = 250 * kMillisecond;
// An answer that is late: it is asked where the range is, again and again, and less and less often.
constexpr Nanos kLate = 500 * kMillisecond;
constexpr Nanos kFirstLook = 250 * kMillisecond;
constexpr Nanos kLastLook = 2 * kSecond;
// An owner that let go in order answers everything before; what it sends may still be on its way.
constexpr Nanos kAnswersArrive = 100 * kMillisecond;

// Of the range that holds `key`, or with `below` the keys just below it; null: none does.
template <typename Map>
const typename Map::mapped_type* FindByLower(const Map& map, const std::string& key, bool below) {
  auto it = below ? map.lower_bound(key) : map.upper_bound(key);
  return it == map.begin() ? nullptr : &std::prev(it)->second;
}

bool Covers(const std::string& upper, const std::string& key, bool below) {
  return upper.empty() || key < upper || (below && key == upper);
}

}  // namespace

// --- configuration

// Single flight, asleep until somebody found the configuration wrong.
void ClientRep::Refresh() {
  Configuration known = *Current();
  Nanos period = kMinRefreshPeriod, next = 0;
  for (;;) {
    {
      MutexLock lock(&mu);
      while (!refresh_wanted && !stopping) wanted.Wait(&mu);
      if (stopping) return;
      refresh_wanted = false;
    }
    if (Now() > next + kNothingWrong) period = kMinRefreshPeriod;
    next = Now() + period;
    const uint64_t version = known.version;
    const Status s = coordinator->Refresh(&known, Now() + kSecond);
    const bool same = s.ok() && known.version == version;
    period = same ? std::min(kMaxRefreshPeriod, period + period / kRefreshGrowth) : kMinRefreshPeriod;
    if (!s.ok()) NOVA_LOG(INFO) << "configuration not refreshed: " << s;
    auto fresh = std::make_shared<const Configuration>(known);
    {
      MutexLock lock(&mu);
      configuration = fresh;
    }
    for (auto& lane : lanes) {
      lane->xchg->Submit([this, lane = lane.get(), fresh] { Install(lane, fresh); });
    }
    SleepUntil(next);
  }
}

namespace {

// Whether an epoch of a range is over.
class Superseded {
 public:
  explicit Superseded(const Configuration& configuration) : configuration_(configuration) {}
  bool operator()(RangeId range, Epoch epoch) {
    if (epochs_.empty()) {  // most often nobody asks
      for (const auto& [lower, route] : configuration_.ranges) epochs_.emplace(route.id, route.epoch);
    }
    const auto it = epochs_.find(range);
    return it != epochs_.end() && it->second > epoch;
  }

 private:
  const Configuration& configuration_;
  std::map<RangeId, Epoch> epochs_;
};

}  // namespace

void ClientRep::Install(ClientLane* lane, std::shared_ptr<const Configuration> fresh) {
  lane->configuration = std::move(fresh);
  bool any = false;
  Superseded superseded(*lane->configuration);
  lane->ltc->LookAtRequests([&](RangeId range, Epoch epoch, Nanos) {
    any |= superseded(range, epoch);
    return false;
  });
  if (any) lane->xchg->RunAt(Now() + kAnswersArrive, [this, lane] { EndSuperseded(lane); });
}

void ClientRep::EndSuperseded(ClientLane* lane) {
  Superseded superseded(*lane->configuration);
  lane->ltc->LookAtRequests([&](RangeId range, Epoch epoch, Nanos) { return superseded(range, epoch); });
}

// While operations are under way.
void ClientRep::Watch(ClientLane* lane) {
  lane->watching = under_way.load() > 0;
  if (!lane->watching) return;
  const Nanos late = Now() - kLate;
  bool any = false;
  lane->ltc->LookAtRequests([&](RangeId, Epoch, Nanos since_ns) {
    any |= since_ns < late;
    return false;
  });
  if (any) WantRefresh();
  lane->look_after_ns = any ? std::min(2 * lane->look_after_ns, kLastLook) : kFirstLook;
  lane->xchg->RunAt(Now() + lane->look_after_ns, [this, lane] { Watch(lane); });
}

std::shared_ptr<const Configuration> ClientRep::Current() {
  MutexLock lock(&mu);
  return configuration;
}

void ClientRep::WantRefresh() {
  MutexLock lock(&mu);
  refresh_wanted = true;
  wanted.Signal();
}

// --- any operation

OpRef ClientRep::NewOp(const char* name, std::string key) const {
  auto op = std::make_shared<Op>();
  op->name = name;
  op->key = std::move(key);
  return op;
}

void ClientRep::Start(OpRef op) {
  StartOn(lanes[next_lane.fetch_add(1, std::memory_order_relaxed) % lanes.size()].get(), std::move(op));
}

void ClientRep::StartOn(ClientLane* lane, OpRef op) {
  op->lane = lane;
  op->backoff_ns = kFirstBackoff;
  op->request_number = next_request.fetch_add(1, std::memory_order_relaxed);
  if (op->deadline_ns == 0) op->deadline_ns = Now() + options.timeout_ms * kMillisecond;
  under_way.fetch_add(1);
  lane->xchg->Submit([this, op = std::move(op)]() mutable {
    if (!op->lane->watching) Watch(op->lane);
    Try(std::move(op));
  });
}

// A snapshot is where it was taken, as long as no later epoch of the range is known.
bool ClientRep::FindTarget(const Op& op, Target* target, std::string* why_not, bool* snapshot_ended) {
  const ClientSnapshot* const snapshot =
      op.page_snapshot != nullptr ? op.page_snapshot.get() : op.snapshot.get();
  const RangeRoute* route = FindByLower(op.lane->configuration->ranges, op.key, op.below);
  if (route != nullptr && !Covers(route->upper, op.key, op.below)) route = nullptr;
  if (snapshot != nullptr) {
    const auto* found = FindByLower(snapshot->state_->parts, op.key, op.below);
    if (found == nullptr || !Covers((*found)->target.upper, op.key, op.below)) {
      *why_not = "it has no such range";
      *snapshot_ended = true;
      return false;
    }
    SnapshotState::Part* const part = found->get();
    *target = part->target;
    if (route != nullptr && (route->id != target->range || route->epoch > target->epoch))
      part->ended.store(true);
    *snapshot_ended = part->ended.load();
    if (*snapshot_ended) *why_not = StrCat("range ", target->range.value(), " epoch ", target->epoch.value());
    return !*snapshot_ended;
  }
  if (route == nullptr || !route->open || route->address.empty()) {
    *why_not = route == nullptr ? "no range holds the key"
                                : StrCat("range ", route->id.value(), " has no owner now");
    return false;
  }
  *target = {route->id, route->epoch, route->address, route->lower, route->upper};
  return true;
}

void ClientRep::Try(OpRef op) {
  if (Now() >= op->deadline_ns) return GiveUp(op);
  Target target;
  bool snapshot_ended = false;
  if (!FindTarget(*op, &target, &op->last_where, &snapshot_ended)) {
    if (snapshot_ended && op->page_snapshot != nullptr) {
      Restart(op.get());
      return Try(std::move(op));
    }
    if (snapshot_ended) return Finish(op.get(), Outcome::kSnapshotEnded);
    op->last = Outcome::kUnavailable;
    return RetryLater(std::move(op));
  }
  op->last_where =
      StrCat("range ", target.range.value(), " epoch ", target.epoch.value(), " at ", target.address);
  op->send(target, op);
}

void ClientRep::RetryLater(OpRef op) {
  if (op->last != Outcome::kBusy && op->last != Outcome::kNoSpace) WantRefresh();
  retries.fetch_add(1, std::memory_order_relaxed);
  const Nanos wait = op->backoff_ns / 2 +
                     static_cast<Nanos>(op->lane->random.Uniform(static_cast<uint64_t>(op->backoff_ns)));
  op->backoff_ns = std::min(kMaxBackoff, op->backoff_ns * 2);
  const Nanos when = Now() + wait;
  if (when >= op->deadline_ns) return GiveUp(op);
  Xchg* const xchg = op->lane->xchg.get();
  xchg->RunAt(when, [this, op = std::move(op)]() mutable { Try(std::move(op)); });
}

// The deadline passed between tries: the last try was definitely not applied, so neither is the operation.
void ClientRep::GiveUp(const OpRef& op) {
  Finish(op.get(), op->last == Outcome::kUnknown ? Outcome::kUnavailable : op->last);
}

void ClientRep::Finish(Op* op, Outcome o) {
  Result result{o, {}};
  if (o != Outcome::kOk) {
    const bool plain = o == Outcome::kNotFound || o == Outcome::kConditionFailed;
    result.message = StrCat(op->name, ": ", absl::string_view(OutcomeName(o).data(), OutcomeName(o).size()),
                            plain ? "" : " (" + op->last_where + op->why + ")");
  }
  op->end(std::move(result));
  under_way.fetch_sub(1);
}

void ClientRep::EndWrite(const OpRef& op, Outcome o) {
  if (!IsRetryable(o)) return Finish(op.get(), o);
  op->last = o;  // No write twice (A1): definitely not applied
  RetryLater(op);
}

void ClientRep::Restart(Op* op) {
  op->page_snapshot = nullptr;
  op->restart();
}

bool ClientRep::RetriesRead(const OpRef& op, Outcome o, std::string_view why) {
  if (!why.empty()) op->why = ": " + std::string(why);
  if (o == Outcome::kSnapshotEnded && op->page_snapshot != nullptr) {
    Restart(op.get());
    o = Outcome::kUnavailable;
  }
  if (!IsRetryable(o) && o != Outcome::kUnknown) return false;
  op->last = o;
  RetryLater(op);
  return true;
}

// --- checks

Result ClientRep::CheckKey(std::string_view key) {
  if (key.empty()) return {Outcome::kInvalidArgument, "the key is empty"};
  if (key.size() > kMaxUserKeyBytes) {
    return {Outcome::kInvalidArgument,
            StrCat("the key has ", key.size(), " bytes, the limit is ", kMaxUserKeyBytes)};
  }
  return {};
}

Result ClientRep::CheckKeyRange(std::string_view begin, std::string_view end) {
  if (std::max(begin.size(), end.size()) > kMaxUserKeyBytes)
    return CheckKey(begin.size() > end.size() ? begin : end);
  if (end.empty() || begin < end) return {};
  return {Outcome::kInvalidArgument, "a range of keys that ends where it begins, or before"};
}

Result ClientRep::CheckValue(std::string_view value) {
  const uint32_t max = Current()->max_value_bytes;
  if (max == 0 || value.size() <= max) return {};
  return {Outcome::kInvalidArgument, StrCat("the value has ", value.size(), " bytes, the limit is ", max)};
}

Result ClientRep::CheckSnapshot(const std::shared_ptr<const ClientSnapshot>& snapshot) {
  if (snapshot == nullptr || snapshot->state_->link == link) return {};
  return {Outcome::kInvalidArgument, "the snapshot is another client's"};
}

}  // namespace nova
