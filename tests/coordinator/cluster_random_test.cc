// ClusterState against a model of the world, from a seed: LTCs that stop and restart, clocks that run within
// rho, heartbeats and answers that are late or lost, coordinators that die or live on as zombies. In true
// time:
//   - no two incarnations hold a lease under which they serve one range (C2, C3, R5);
//   - an epoch of a range has one owner (C1, R1).
// And the negative controls: a rule switched off is found out.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>

#include "common/base/random.h"
#include "coordinator/cluster_state.h"

namespace nova {
namespace {

constexpr Nanos kStep = 10 * kMillisecond;
constexpr Nanos kSession = 3 * kSecond;
constexpr Nanos kHeartbeat = 500 * kMillisecond;
constexpr int kLtcs = 3;
constexpr uint64_t kRanges = 4;

class World {
 public:
  World(uint64_t seed, ClusterOptions::RulesOff off) : random_(seed) {
    options_.off = off;
    for (uint64_t id = 1; id <= kRanges; ++id) {
      RangeRecord r;
      r.id = RangeId(id);
      records_[r.id] = r;
    }
    for (int i = 0; i < kLtcs; ++i) Restart(StrCat("ltc-", i));
    Elect();
  }

  // Empty, or what went wrong.
  std::string Run(Nanos duration) {
    while (now_ < duration && wrong_.empty()) {
      now_ += kStep;
      Faults();
      while (!mail_.empty() && mail_.begin()->first <= now_) {
        const auto deliver = mail_.begin()->second;
        mail_.erase(mail_.begin());
        deliver();
      }
      for (auto& [name, ltc] : ltcs_) RunLtc(&ltc);
      for (auto& c : coordinators_) RunCoordinator(&c);
      CheckServing();
    }
    return wrong_;
  }
  uint64_t opens() const { return opens_; }
  uint64_t moves() const { return moves_; }

 private:
  struct Ltc {
    std::string name;
    Incarnation incarnation;
    double rate = 1;
    Nanos stopped_until = 0;
    bool cut = false;
    Nanos lease_expiry = 0;  // on its clock
    Nanos next_heartbeat = 0;
    CoordEpoch coord_epoch;
    std::map<RangeId, Epoch> open;
    std::map<RangeId, std::pair<RangeRecord, Nanos>> opening;  // not before, on its clock
  };
  struct Coordinator {
    ClusterState state;
    bool dead = false;
    bool reaches_store = true;
    Nanos last_answered = 0;
  };

  Nanos Local(const Ltc& ltc) const { return static_cast<Nanos>(static_cast<double>(now_) * ltc.rate); }
  bool Runs(const Ltc& ltc) const { return ltc.stopped_until <= now_; }

  void Restart(const std::string& name) {
    Ltc ltc;
    ltc.name = name;
    ltc.incarnation = Incarnation(++last_incarnation_);
    const double rho = options_.clock_rate_error * 0.9;
    ltc.rate = 1 - rho + 2 * rho * random_.NextDouble();
    ltcs_[name] = ltc;  // the former process is gone, with what it served
  }

  void Elect() {
    Coordinator c;
    c.last_answered = now_;
    Step(options_, &c.state, ElectedEvent{CoordEpoch(++coord_epoch_), options_.lease_ns}, now_);
    coordinators_.push_back(std::move(c));
    if (coordinators_.size() > 2) coordinators_.pop_front();
  }
  Coordinator& leader() { return coordinators_.back(); }

  void Faults() {
    for (auto& [name, ltc] : ltcs_) {
      if (random_.OneIn(600)) ltc.stopped_until = now_ + static_cast<Nanos>(random_.Uniform(5 * kSecond));
      if (random_.OneIn(900)) ltc.cut = !ltc.cut;
      if (random_.OneIn(1200)) Restart(name);
    }
    // The leader loses its store, dead or alive; another is elected once the session has expired.
    if (leader().reaches_store && random_.OneIn(700)) {
      leader().reaches_store = false;
      leader().dead = random_.OneIn(2);
    }
    if (!leader().reaches_store && now_ >= leader().last_answered + kSession) Elect();
  }

  void RunCoordinator(Coordinator* c) {
    if (c->dead) return;
    if (c->reaches_store) {
      c->last_answered = now_;
      for (const auto& [name, ltc] : ltcs_) {
        NodeInfo n;
        n.name = name;
        n.role = Role::kLtc;
        n.incarnation = ltc.incarnation;
        n.address = name;
        Step(options_, &c->state, NodeSeenEvent{n}, now_);
      }
      for (const auto& [id, record] : records_) Step(options_, &c->state, RangeReadEvent{record}, now_);
    }
    const Nanos timeout =
        kSession - static_cast<Nanos>(static_cast<double>(kSession) * options_.clock_rate_error);
    Step(options_, &c->state, AuthorityEvent{c->last_answered + timeout}, now_);
    for (const RangeMove& move : Step(options_, &c->state, TickEvent{}, now_).moves) {
      // The store takes its time, in which the old owner may be heard.
      const Nanos takes = random_.OneIn(6) ? static_cast<Nanos>(random_.Uniform(kSecond / 2)) : 0;
      mail_.emplace(now_ + takes, [this, move, by = c->state.coord_epoch] {
        for (Coordinator& carries : coordinators_) {
          if (carries.state.coord_epoch == by && !carries.dead) CarryOut(&carries, move);
        }
      });
    }
  }

  void CarryOut(Coordinator* c, const RangeMove& move) {
    AssignDoneEvent done{move.before.id, std::nullopt};
    RangeRecord& record = records_.at(move.before.id);
    // C1: the store refuses a coordinator that does not lead any more.
    const bool accepted = c->reaches_store && c->state.coord_epoch == CoordEpoch(coord_epoch_) &&
                          record.version == move.before.version;
    if (accepted) {
      const int64_t version = record.version + 1;
      record = move.after;
      record.version = version;
      done.record = record;
      ++moves_;
      const auto [it, first] = owner_of_.try_emplace({record.id, record.epoch}, record.owner_incarnation);
      if (!first && it->second != record.owner_incarnation) {
        wrong_ = StrCat("range ", record.id.value(), " epoch ", record.epoch.value(), " has two owners");
      }
    }
    Step(options_, &c->state, done, now_);
  }

  void RunLtc(Ltc* ltc) {
    if (!Runs(*ltc)) return;
    for (auto it = ltc->opening.begin(); it != ltc->opening.end();) {
      RangeRecord& record = records_.at(it->first);
      const bool current = record.version == it->second.first.version;
      if (current && Local(*ltc) < it->second.second) {
        ++it;
        continue;
      }
      if (current) {
        record.state = RangeState::kOpen;
        ++record.version;
        ltc->open[record.id] = record.epoch;
        ++opens_;
      }
      it = ltc->opening.erase(it);
    }
    if (Local(*ltc) >= ltc->next_heartbeat) {
      ltc->next_heartbeat = Local(*ltc) + kHeartbeat;
      SendHeartbeat(ltc);
    }
  }

  void SendHeartbeat(Ltc* ltc) {
    if (ltc->cut) return;
    HeartbeatEvent e{ltc->name, ltc->incarnation, 0, {}};
    for (const auto& [id, epoch] : ltc->open) e.report.ranges.push_back({id, epoch, true, 0, 0, 0});
    const Nanos sent = Local(*ltc);
    // A zombie coordinator may be the one that is asked.
    const CoordEpoch asked = coordinators_[random_.Uniform(coordinators_.size())].state.coord_epoch;
    Mail([this, e, sent, asked] {
      for (Coordinator& c : coordinators_) {
        if (c.state.coord_epoch != asked || c.dead) continue;
        const HeartbeatAnswer answer = *Step(options_, &c.state, e, now_).answer;
        Mail([this, e, sent, asked, answer] { TakeAnswer(e, sent, asked, answer); });
      }
    });
  }

  void TakeAnswer(const HeartbeatEvent& e, Nanos sent, CoordEpoch coord_epoch,
                  const HeartbeatAnswer& answer) {
    Ltc& ltc = ltcs_.at(e.name);
    if (ltc.incarnation != e.incarnation || ltc.cut) return;
    if (!Runs(ltc))
      return Mail([this, e, sent, coord_epoch, answer] { TakeAnswer(e, sent, coord_epoch, answer); });
    if (coord_epoch < ltc.coord_epoch) return;  // C1
    ltc.coord_epoch = coord_epoch;
    for (const auto& [range, epoch] : answer.excluded) {
      const auto it = ltc.open.find(range);
      if (it != ltc.open.end() && it->second <= epoch) ltc.open.erase(it);
    }
    if (answer.lease_ns > 0) {
      const Nanos held =
          answer.lease_ns -
          static_cast<Nanos>(static_cast<double>(answer.lease_ns) * options_.clock_rate_error) -
          options_.lease_margin_ns;
      ltc.lease_expiry = std::max(ltc.lease_expiry, sent + held);
    }
    for (const auto& a : answer.assigned) {
      if (ltc.open.contains(a.record.id) && ltc.open[a.record.id] == a.record.epoch) continue;
      const Nanos wait =
          a.wait_ns + static_cast<Nanos>(static_cast<double>(a.wait_ns) * options_.clock_rate_error);
      ltc.opening[a.record.id] = {a.record, Local(ltc) + wait};
    }
  }

  void Mail(std::function<void()> deliver) {
    if (random_.OneIn(20)) return;  // lost
    const Nanos delay = random_.OneIn(10) ? static_cast<Nanos>(random_.Uniform(2 * kSecond)) : kMillisecond;
    mail_.emplace(now_ + delay, std::move(deliver));
  }

  void CheckServing() {
    std::map<RangeId, std::string> serving;
    for (const auto& [name, ltc] : ltcs_) {
      if (Local(ltc) >= ltc.lease_expiry) continue;
      for (const auto& [id, epoch] : ltc.open) {
        const auto [it, first] = serving.try_emplace(id, name);
        if (!first)
          wrong_ = StrCat("range ", id.value(), " is served by ", it->second, " and ", name, " at ",
                          now_ / kMillisecond, " ms");
      }
    }
  }

  ClusterOptions options_;
  Random random_;
  Nanos now_ = kSecond;
  uint64_t last_incarnation_ = 0;
  uint64_t coord_epoch_ = 0;
  std::map<RangeId, RangeRecord> records_;
  std::map<std::pair<RangeId, Epoch>, Incarnation> owner_of_;
  std::map<std::string, Ltc> ltcs_;
  std::deque<Coordinator> coordinators_;
  std::multimap<Nanos, std::function<void()>> mail_;
  std::string wrong_;
  uint64_t opens_ = 0;
  uint64_t moves_ = 0;
};

std::string FirstWrong(ClusterOptions::RulesOff off, uint64_t seeds, uint64_t* opens = nullptr) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    World world(seed, off);
    const std::string wrong = world.Run(60 * kSecond);
    if (opens != nullptr) *opens += world.opens();
    if (!wrong.empty()) return StrCat("seed ", seed, ": ", wrong);
  }
  return "";
}

TEST(ClusterRandomTest, NoTwoLeasesServeOneRangeAndAnEpochHasOneOwner) {
  uint64_t opens = 0;
  EXPECT_EQ(FirstWrong({}, 200, &opens), "");
  EXPECT_GT(opens, 200u * 20);  // ranges did move
}

TEST(ClusterRandomTest, WithoutC2TwoLeasesServeOneRange) {
  EXPECT_NE(FirstWrong({.c2_wait = true}, 200), "");
}
// R5's wait for the lease of the owner that was replaced is a second lock: the pair is switched off.
TEST(ClusterRandomTest, WithoutC3sWaitTwoLeasesServeOneRange) {
  EXPECT_NE(FirstWrong({.c3_lease_wait = true, .r5_late_grant = true}, 200), "");
}
TEST(ClusterRandomTest, WithoutR5sLateGrantsTwoLeasesServeOneRange) {
  EXPECT_NE(FirstWrong({.r5_late_grant = true}, 200), "");
}
TEST(ClusterRandomTest, WithoutR1AnEpochHasTwoOwners) { EXPECT_NE(FirstWrong({.r1_epoch = true}, 200), ""); }

}  // namespace
}  // namespace nova
