#include "logc/log_client.h"

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "logc/group_log.h"
#include "logc/log_lane.h"
#include "logc/member_probe.h"
#include "logc/range_groups.h"

namespace nova {
namespace {

constexpr Nanos kAskMembersEvery = 500 * kMillisecond;  // of a group whose change is under way
constexpr const char* kCauseNames[] = {"dead", "slow", "refused", "asked"};  // of ChangeCause

}  // namespace

struct LogClient::Rep {
  Rep(Fabric* fabric, StocClient* stocs, std::vector<Xchg*> x, const LogOptions& options, Metrics* metrics)
      : xchgs(std::move(x)),
        staging(fabric, Access::kLocal, options.staging_bytes),
        probe(stocs, xchgs, options, metrics),
        services(stocs, &probe, &shortage, options, metrics),
        records(metrics->counter("nova_logc_records_total")),
        to_flush(xchgs.size()) {
    for (size_t i = 0; i < std::size(kCauseNames); ++i) {
      group_changes[i] =
          metrics->counter(StrCat("nova_logc_group_changes_total{cause=\"", kCauseNames[i], "\"}"));
    }
  }

  const std::vector<Xchg*> xchgs;
  BufferPool staging;  // outlives those who wait for a ping, and hold records
  MemberProbe probe;
  MemoryShortage shortage;
  const GroupLog::Services services;
  Counter* const records;
  std::array<Counter*, std::size(kCauseNames)> group_changes;  // by cause
  // At the end of the turn. [i] belongs to xchg i.
  std::vector<std::vector<std::weak_ptr<LogLane>>> to_flush;
};

// The log of a range and epoch. What is under way refers to it, so it outlives its Handle.
class LogClient::StocLog : public LogLane::Host, public std::enable_shared_from_this<StocLog> {
 public:
  StocLog(LogClient::Rep* client, RangeId range, Epoch epoch, const LogGroup& group, ChangeGroup change_group)
      : client_(client),
        range_(range),
        change_group_(std::move(change_group)),
        groups_(group, client->xchgs.size(), client->services.options),
        full_disks_(client->services.options.full_pause_ns) {
    for (Xchg* const xchg : client->xchgs) {
      lanes_.push_back(std::make_unique<LogLane>(&client->services, &client->staging, &groups_, &full_disks_,
                                                 this, xchg, range, epoch, group));
    }
  }

  Outcome Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) {
    if (fenced_.load(std::memory_order_acquire)) {
      done(Outcome::kNotOwner);
      return Outcome::kOk;
    }
    const Outcome taken = lanes_[on->index()]->Append(record, std::move(done));
    if (taken == Outcome::kOk) client_->records->Add();
    return taken;
  }

  void DeleteRound(RoundNumber round) {
    NOVA_FP_VOID("logc.round_deleted");
    OnEveryLane([round](LogLane* lane) { lane->DeleteRound(round); });
  }

  void FreeSpares() {
    OnEveryLane([](LogLane* lane) { lane->FreeSpare(); });
  }

  std::vector<GroupId> UnusedGroups() const { return groups_.Unused(); }
  void ForgetGroups(const std::vector<GroupId>& groups) { groups_.Forget(groups); }
  std::vector<Uuid> Logs() const { return groups_.Logs(); }
  std::vector<ExposedRound> ExposedRounds() const {
    if (!groups_.any_replaced()) return {};
    return groups_.Exposed(client_->services.stocs->live());
  }

  void RequestGroupChange() {
    if (fenced()) return;
    const std::optional<LogGroup> current = groups_.BeginAny();
    if (current.has_value()) Change(*current, StocId(), ChangeCause::kAsked);
  }

  size_t bytes_in_flight() const {
    size_t bytes = 0;
    for (const auto& lane : lanes_) bytes += lane->in_flight_bytes();
    return bytes;
  }

  // LogLane::Host
  bool fenced() const override { return fenced_.load(); }
  void Fence() override {
    if (fenced_.exchange(true)) return;
    OnEveryLane([](LogLane* lane) { lane->Fail(); });
  }
  void ReplaceGroup(const LogGroup& current, StocId failed, ChangeCause cause) override {
    NOVA_LOG(WARNING) << "range " << range_.value() << ": log member stoc " << failed.value() << " is "
                      << kCauseNames[static_cast<size_t>(cause)] << ", replacing it";
    Change(current, failed, cause);
  }
  void FlushSoon(size_t lane) override { client_->to_flush[lane].push_back(Hold(lane)); }
  std::shared_ptr<LogLane> Hold(size_t lane) override { return {shared_from_this(), lanes_[lane].get()}; }

 private:
  void OnEveryLane(const std::function<void(LogLane*)>& fn) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      client_->xchgs[i]->Submit([lane = Hold(i), fn] { fn(lane.get()); });
    }
  }

  void Change(const LogGroup& current, StocId failed, ChangeCause cause) {
    client_->group_changes[static_cast<size_t>(cause)]->Add();
    change_group_(current, failed, [self = shared_from_this()](StatusOr<LogGroup> next) {
      self->GroupChanged(std::move(next));
    });
    AskMembersLater(current);
  }

  // While a change of the group is under way its members are asked now and then, and once all of them
  // answer, logs that have lost one go on in the group itself: a change takes as long as the store is away,
  // or until there is another StoC, and one that stood still or had no memory for a moment is no reason to
  // wait for that.
  void AskMembersLater(const LogGroup& group) {
    Xchg* const xchg = client_->xchgs.front();
    xchg->Submit([xchg, group, weak = weak_from_this()] {
      xchg->RunAt(Now() + kAskMembersEvery, [group, weak] {
        if (const auto self = weak.lock()) self->AskMembers(group);
      });
    });
  }
  // On the first xchg thread.
  void AskMembers(const LogGroup& group) {
    if (fenced() || !groups_.IsChanging(group.id)) return;
    auto silent = std::make_shared<size_t>(group.members.size());
    for (const LogMember& member : group.members) {
      const auto answered = [self = shared_from_this(), id = group.id, silent](bool alive) {
        if (alive && --*silent == 0) self->OnEveryLane([id](LogLane* lane) { lane->StayIn(id); });
      };
      client_->services.probe->Ask(/*lane=*/0, member, /*near=*/false, answered);
    }
    AskMembersLater(group);
  }

  void GroupChanged(StatusOr<LogGroup> next) {
    if (!next.ok()) {
      NOVA_LOG(WARNING) << "range " << range_.value() << ": log group not replaced: " << next.status();
      return Fence();
    }
    NOVA_FP_VOID("logc.group_changed");
    groups_.Install(*next);
    NOVA_FP_VOID("logc.group_replaced");
    OnEveryLane([group = *std::move(next)](LogLane* lane) { lane->MoveTo(group); });
  }

  LogClient::Rep* const client_;
  const RangeId range_;
  const ChangeGroup change_group_;
  std::atomic<bool> fenced_{false};
  RangeGroups groups_;
  FullDisks full_disks_;
  std::vector<std::unique_ptr<LogLane>> lanes_;  // [i] belongs to xchg i
};

// What the range holds; the epoch's log ends with it.
class LogClient::Handle : public ReplicatedLog {
 public:
  explicit Handle(std::shared_ptr<StocLog> log) : log_(std::move(log)) {}
  ~Handle() override { log_->Fence(); }
  void Fence() override { log_->Fence(); }
  Outcome Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) override {
    return log_->Append(on, record, std::move(done));
  }
  void DeleteRound(RoundNumber round) override { log_->DeleteRound(round); }
  std::vector<GroupId> UnusedGroups() const override { return log_->UnusedGroups(); }
  void ForgetGroups(const std::vector<GroupId>& groups) override { log_->ForgetGroups(groups); }
  std::vector<ExposedRound> ExposedRounds() const override { return log_->ExposedRounds(); }
  std::vector<Uuid> Logs() const override { return log_->Logs(); }
  void RequestGroupChange() override { log_->RequestGroupChange(); }
  void FreeSpares() override { log_->FreeSpares(); }
  size_t bytes_in_flight() const override { return log_->bytes_in_flight(); }
  // of files; of memory it does not, but a group with files may follow
  bool sync_matters() const override { return true; }

 private:
  const std::shared_ptr<StocLog> log_;
};

LogClient::LogClient(Fabric* fabric, StocClient* stocs, std::vector<Xchg*> xchgs, LogOptions options,
                     Metrics* metrics)
    : rep_(std::make_unique<Rep>(fabric, stocs, std::move(xchgs), options, metrics)) {
  for (size_t i = 0; i < rep_->xchgs.size(); ++i) {
    NOVA_CHECK(rep_->xchgs[i]->options().index == i) << "executors and lanes have other numbers";
    rep_->xchgs[i]->AddTurnHook([rep = rep_.get(), i] {
      for (const auto& weak : std::exchange(rep->to_flush[i], {})) {
        if (const auto lane = weak.lock()) lane->Flush();
      }
    });
  }
}

LogClient::~LogClient() = default;

bool LogClient::lacks_memory() const { return rep_->shortage.Lasts(); }

std::unique_ptr<ReplicatedLog> LogClient::Open(RangeId range, Epoch epoch, const LogGroup& group,
                                               ChangeGroup change_group) {
  return std::make_unique<Handle>(
      std::make_shared<StocLog>(rep_.get(), range, epoch, group, std::move(change_group)));
}

}  // namespace nova
