// StoC record (N5) against a model of the world, from a seed: StoCs that die, hang, restart and drain,
// disks that are replaced, leaders that stand still, die and follow each other, changes that are refused
// or whose outcome is lost. The model knows for how long leaders really have listened for each StoC.
//   - none is lost before that was stoc_down_after, unless its disk was replaced or it drains;
//   - none that is silent for much longer is not lost;
//   - one that is heard is up soon, and nobody is told at the same time that it is lost and that it lives
//     (CheckInvariants).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "common/base/random.h"
#include "coordinator/cluster_state.h"

namespace nova {
namespace {

constexpr Nanos kStep = 100 * kMillisecond;
constexpr Nanos kHeartbeat = 500 * kMillisecond;
constexpr Nanos kWriteTakes = 300 * kMillisecond;  // the longest
constexpr int kStocs = 4;

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    options_.stoc_down_after_ns = 20 * kSecond;
    for (uint32_t i = 0; i < kStocs; ++i) Format(StrCat("stoc-", i));
    Elect();
  }

  // Empty, or what went wrong.
  std::string Run(Nanos duration) {
    while (now_ < duration && wrong_.empty()) {
      now_ += kStep;
      Faults();
      while (!due_.empty() && due_.begin()->first <= now_) {
        const auto deliver = due_.begin()->second;
        due_.erase(due_.begin());
        deliver();
      }
      if (now_ < leader_wakes_) {
        deaf_ += kStep;
        continue;
      }
      for (auto& [id, stoc] : stocs_) stoc.listened += kStep;
      for (auto& [name, process] : processes_) Heartbeat(&process);
      Tick();
      Check();
    }
    return wrong_;
  }
  int lost = 0;
  int back = 0;

 private:
  struct Process {
    NodeInfo node;
    bool registered = true;
    bool silent = false;  // hangs, or is cut off from the leader
    Nanos next_heartbeat = 0;
  };
  // What is true of a store, whatever its record says.
  struct Truth {
    StocRecord record;      // in the store
    Nanos listened = 0;     // in vain
    bool replaced = false;  // another one was heard under its name since it was
    int leaders = 0;        // elected since it was heard
    bool heard_by_this = false;
    Nanos heard_for = 0;  // on end, by this leader
  };

  void Format(const std::string& name) {
    StocRecord r;
    r.id = StocId(++last_stoc_);
    r.store = Uuid{1, last_stoc_};
    r.name = name;
    stocs_[r.id].record = r;
    Process p;
    p.node.name = name;
    p.node.role = Role::kStoc;
    p.node.stoc_id = r.id;
    p.node.store = r.store;
    p.node.host = StrCat("host-", name);
    processes_[name] = p;
    Restart(&processes_[name]);
  }
  void Restart(Process* p) {
    p->node.incarnation = Incarnation(++last_incarnation_);
    p->registered = true;
    p->silent = false;
  }
  void Elect() {
    state_ = ClusterState();
    Step(options_, &state_, ElectedEvent{CoordEpoch(++coord_epoch_), options_.lease_ns}, now_);
    leader_wakes_ = 0;  // whoever stands still does not win
    deaf_ = 0;
    for (auto& [id, stoc] : stocs_) {
      ++stoc.leaders;
      stoc.heard_by_this = false;
      stoc.heard_for = 0;
    }
  }

  void Faults() {
    for (auto& [name, p] : processes_) {
      if (random_.OneIn(300)) p.silent = !p.silent;
      if (random_.OneIn(800)) p.registered = false;
      if (random_.OneIn(1000)) Restart(&p);
      if (random_.OneIn(6000)) return Format(name);
      StocRecord& record = stocs_.at(p.node.stoc_id).record;
      if (random_.OneIn(4000) || (record.draining && random_.OneIn(300))) {
        record.draining = !record.draining;
        ++record.version;
      }
    }
    if (random_.OneIn(900)) {
      leader_wakes_ = now_ + static_cast<Nanos>(random_.Uniform(40)) * kSecond;
    }
    if (random_.OneIn(700)) Elect();
  }

  void Heartbeat(Process* p) {
    if (now_ < p->next_heartbeat || p->silent || !p->registered) return;
    p->next_heartbeat = now_ + kHeartbeat;
    const HeartbeatAnswer answer =
        *Step(options_, &state_, HeartbeatEvent{p->node.name, p->node.incarnation, 0, {}}, now_).answer;
    if (answer.lease_ns == 0) return;
    Truth& heard = stocs_.at(p->node.stoc_id);
    heard.listened = 0;
    heard.leaders = 0;
    heard.replaced = false;
    heard.heard_by_this = true;
    for (auto& [id, stoc] : stocs_)
      stoc.replaced |= id != p->node.stoc_id && stoc.record.name == p->node.name;
  }

  void Tick() {
    Step(options_, &state_, AuthorityEvent{kNever}, now_);
    for (const auto& [name, p] : processes_) {
      if (p.registered) {
        Step(options_, &state_, NodeSeenEvent{p.node}, now_);
      } else {
        Step(options_, &state_, NodeGoneEvent{name}, now_);
      }
    }
    for (const auto& [id, stoc] : stocs_) Step(options_, &state_, StocReadEvent{stoc.record}, now_);
    const auto changes =
        Step(options_, &state_, TickEvent{std::exchange(deaf_, 0), now_ / kMillisecond}, now_).stoc_changes;
    for (const StocChange& change : changes) {
      const Nanos takes = static_cast<Nanos>(random_.Uniform(kWriteTakes));
      due_.emplace(now_ + takes, [this, change, epoch = coord_epoch_] { Write(change, epoch); });
    }
  }

  // C1: the store refuses what another leader has decided.
  void Write(const StocChange& change, uint64_t epoch) {
    Truth& stoc = stocs_.at(change.before.id);
    StocChangeDoneEvent done{change.before.id, std::nullopt};
    if (epoch == coord_epoch_ && stoc.record.version == change.before.version) {
      Judge(stoc, change);
      stoc.record = change.after;
      ++stoc.record.version;
      if (!random_.OneIn(5)) done.record = stoc.record;  // else the answer is lost
    }
    if (epoch == coord_epoch_) Step(options_, &state_, done, now_);
  }

  void Judge(const Truth& stoc, const StocChange& change) {
    const std::string who = StrCat("StoC ", change.before.id.value(), " at ", now_ / kMillisecond);
    const StocPresence before = change.before.presence, after = change.after.presence;
    if (after == StocPresence::kLost && before != after) {
      ++lost;
      // Heard while the change was on its way, a StoC is up again with the next one.
      const bool early = stoc.listened > kWriteTakes && stoc.listened < options_.stoc_down_after_ns;
      if (early && !stoc.replaced && !change.before.draining) {
        wrong_ = StrCat(who, " is lost after ", stoc.listened / kMillisecond, " ms");
      }
    }
    if (after == StocPresence::kUp && before == StocPresence::kLost) ++back;
    if (after == StocPresence::kUp && before != after && !stoc.heard_by_this) {
      wrong_ = StrCat(who, " is up, and was not heard");
    }
  }

  void Check() {
    if (const std::string s = CheckInvariants(state_); !s.empty()) wrong_ = s;
    for (auto& [id, stoc] : stocs_) {
      // Each leader may lose a quarter that was not written down; so does each change by an operator, or
      // whose answer was lost, for which nine more are allowed.
      const Nanos late = options_.stoc_down_after_ns + (stoc.leaders + 9) * options_.stoc_down_after_ns / 4;
      if (stoc.record.presence != StocPresence::kLost && stoc.listened > late) {
        wrong_ = StrCat("StoC ", id.value(), " is not lost after ", stoc.listened / kMillisecond, " ms");
      }
      stoc.heard_for =
          stoc.heard_by_this && !stoc.replaced && stoc.listened <= kHeartbeat ? stoc.heard_for + kStep : 0;
      if (stoc.heard_for > 3 * kSecond && stoc.record.presence != StocPresence::kUp) {
        wrong_ = StrCat("StoC ", id.value(), " at ", now_ / kMillisecond, " is heard, and not up");
      }
    }
  }

  ClusterOptions options_;
  Random random_;
  Nanos now_ = kSecond;
  Nanos leader_wakes_ = 0;
  Nanos deaf_ = 0;
  uint32_t last_stoc_ = 0;
  uint64_t last_incarnation_ = 0;
  uint64_t coord_epoch_ = 0;
  std::map<StocId, Truth> stocs_;
  std::map<std::string, Process> processes_;
  std::multimap<Nanos, std::function<void()>> due_;
  ClusterState state_;
  std::string wrong_;
};

TEST(StocRandomTest, N5WhoeverIsLostWasListenedForAndWhoeverIsHeardIsUp) {
  int lost = 0, back = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(seed);
    EXPECT_EQ(world.Run(1000 * kSecond), "") << "seed " << seed;
    lost += world.lost;
    back += world.back;
  }
  EXPECT_GT(lost, 50);
  EXPECT_GT(back, 10);
}

}  // namespace
}  // namespace nova
