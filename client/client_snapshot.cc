// Snapshots of all ranges: taken in parallel, renewed while somebody holds them, dropped.
#include <algorithm>

#include "client/client_rep.h"

namespace nova {
namespace {

// Of one TakeSnapshot; on its lane.
struct Taking {
  std::shared_ptr<SnapshotState> state = std::make_shared<SnapshotState>();
  size_t waiting = 0;
  Result failed;
};

}  // namespace

ClientSnapshot::~ClientSnapshot() {
  MutexLock lock(&state_->link->mu);
  if (state_->link->client != nullptr) state_->link->client->DropParts(state_);
}

bool ClientSnapshot::ended() const {
  return std::any_of(state_->parts.begin(), state_->parts.end(),
                     [](const auto& part) { return part.second->ended.load(); });
}

void ClientRep::TakeSnapshot(std::function<void(SnapshotResult)> done) {
  auto taking = std::make_shared<Taking>();
  ClientLane* const lane = lanes[next_lane.fetch_add(1, std::memory_order_relaxed) % lanes.size()].get();
  taking->state->link = link;
  taking->state->lane = lane;
  taking->waiting = 1;
  // The first range's turn: the configuration may know no ranges yet. The ranges are asked from there, all at
  // once.
  auto op = NewOp("snapshot", key_prefix);
  const auto arrived = [this, lane, taking, done = std::move(done)](Result result) {
    if (!result.ok()) taking->failed = std::move(result);
    if (--taking->waiting > 0) return;
    if (!taking->failed.ok()) {
      DropParts(taking->state);
      return done({std::move(taking->failed), nullptr});
    }
    RenewLater(lane, taking->state);
    done({Result{}, std::shared_ptr<const ClientSnapshot>(new ClientSnapshot(std::move(taking->state)))});
  };
  op->end = arrived;
  op->send = [this, taking, arrived](const Target&, const OpRef& first) {
    for (const auto& [lower, route] : first->lane->configuration->ranges) {
      if (lower >= keyspace_end || (!route.upper.empty() && route.upper <= key_prefix)) continue;
      auto part = NewOp("snapshot", std::max(lower, key_prefix));
      part->deadline_ns = first->deadline_ns;
      part->end = arrived;
      part->send = [this, taking](const Target& target, const OpRef& op) {
        op->lane->ltc->TakeSnapshot(
            target.address, {target.range, target.epoch, static_cast<uint32_t>(options.snapshot_lease_ms)},
            ReadDeadline(*op), [this, taking, target, op](Outcome o, uint64_t id) {
              if (RetriesRead(op, o)) return;
              if (o == Outcome::kOk) {
                auto taken = std::make_unique<SnapshotState::Part>();
                taken->target = target;
                taken->target.snapshot = id;
                taking->state->parts[target.lower] = std::move(taken);
              }
              Finish(op.get(), o);
            });
      };
      ++taking->waiting;
      StartOn(first->lane, std::move(part));
    }
    Finish(first.get(), Outcome::kOk);
  };
  StartOn(lane, std::move(op));
}

std::shared_ptr<const ClientSnapshot> ClientRep::Keep(ClientLane* lane, const Target& target, uint64_t id) {
  auto state = std::make_shared<SnapshotState>();
  state->link = link;
  state->lane = lane;
  auto part = std::make_unique<SnapshotState::Part>();
  part->target = target;
  part->target.snapshot = id;
  state->parts[target.lower] = std::move(part);
  RenewLater(lane, state);
  return std::shared_ptr<const ClientSnapshot>(new ClientSnapshot(std::move(state)));
}

void ClientRep::TakePageSnapshot(const OpRef& op, const Target& target) {
  op->lane->ltc->TakeSnapshot(target.address,
                              {target.range, target.epoch, static_cast<uint32_t>(options.snapshot_lease_ms)},
                              ReadDeadline(*op), [this, op, target](Outcome o, uint64_t id) {
                                if (RetriesRead(op, o)) return;
                                if (o != Outcome::kOk) return Finish(op.get(), o);
                                op->page_snapshot = Keep(op->lane, target, id);
                                Try(op);
                              });
}

// A renewal that is not answered has another two chances before the lease ends, also where an LTC made it
// shorter.
void ClientRep::RenewLater(ClientLane* lane, std::weak_ptr<SnapshotState> weak) {
  const Nanos period = std::min(options.snapshot_lease_ms, kSureSnapshotLeaseMs) * kMillisecond / 3;
  lane->xchg->RunAt(Now() + period, [this, lane, period, weak = std::move(weak)]() mutable {
    const auto state = weak.lock();
    if (state == nullptr) return;
    for (const auto& [lower, part] : state->parts) {
      if (part->ended.load()) continue;
      const Target& t = part->target;
      lane->ltc->RenewSnapshot(
          t.address, {t.range, t.epoch, t.snapshot, static_cast<uint32_t>(options.snapshot_lease_ms)},
          Now() + period, [state, p = part.get()](Outcome o) {
            if (o == Outcome::kSnapshotEnded) p->ended.store(true);
          });
    }
    RenewLater(lane, std::move(weak));
  });
}

void ClientRep::DropParts(std::shared_ptr<SnapshotState> state) {
  ClientLane* const lane = state->lane;
  under_way.fetch_add(1);  // they are sent before the client ends, but not waited for
  lane->xchg->Submit([this, lane, state = std::move(state)] {
    for (const auto& [lower, part] : state->parts) {
      if (part->ended.load()) continue;
      const Target& t = part->target;
      lane->ltc->DropSnapshot(t.address, {t.range, t.epoch, t.snapshot}, Now() + kReadTry, [](Outcome) {});
    }
    under_way.fetch_sub(1);
  });
}

}  // namespace nova
