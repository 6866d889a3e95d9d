#include "logc/log_lane.h"

#include <algorithm>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kStagingChunkBytes = 64 << 10;
constexpr Nanos kFirstSlowPause = 500 * kMillisecond, kLongestSlowPause = 30 * kSecond;  // see StayIn

}  // namespace

LogLane::LogLane(const GroupLog::Services* services, BufferPool* staging, RangeGroups* groups,
                 FullDisks* full_disks, Host* host, Xchg* xchg, RangeId range, Epoch epoch,
                 const LogGroup& first)
    : services_(services),
      staging_pool_(staging),
      groups_(groups),
      full_disks_(full_disks),
      host_(host),
      xchg_(xchg),
      range_(range),
      epoch_(epoch),
      group_(first) {}

void LogLane::FlushSoon() {
  if (flush_due_) return;
  flush_due_ = true;
  host_->FlushSoon(index());
}

Outcome LogLane::Append(const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) {
  if (full_disks_->Last()) return Outcome::kNoSpace;
  const size_t bytes = LogRecordBytes(record);
  if (in_flight_bytes_ + bytes > services_->options.lane_in_flight_bytes) return Outcome::kBusy;
  const auto it = current_.find(record.round);
  if (it != current_.end() && it->second->refuses()) return Outcome::kBusy;
  const std::shared_ptr<GroupLog> log = it != current_.end() ? it->second : NewLog(record.round);
  PendingRecord pending;
  if (!Stage(bytes, /*beyond=*/false, &pending)) return Outcome::kBusy;
  pending.sync = record.sync;
  pending.done = std::move(done);
  log->Append(record, std::move(pending));
  in_flight_bytes_ += bytes;
  FlushSoon();
  return Outcome::kOk;
}

void LogLane::Flush() {
  flush_due_ = false;
  for (const auto& [round, log] : current_) log->PostUnposted();
  // The next round finds its first segment open. Not before the log of this one is: after a group change
  // records wait for that, and members would open twice as much meanwhile.
  if (spare_ != nullptr || services_->shortage->Lasts()) return;
  if (!current_.empty() && current_.rbegin()->second->opened()) spare_ = OpenLog();
}

bool LogLane::Stage(size_t bytes, bool beyond, PendingRecord* pending) {
  if (staging_ == nullptr || staging_->used + bytes > staging_->buffer.capacity()) {
    const size_t chunk = std::max(bytes, kStagingChunkBytes);
    Buffer buffer = beyond ? staging_pool_->AllocateBeyond(chunk) : staging_pool_->Allocate(chunk);
    if (!buffer) return false;
    staging_ = std::make_shared<Staging>(std::move(buffer));
  }
  *pending = {staging_, staging_->used, bytes, false, false, {}};
  staging_->used += bytes;
  return true;
}

std::shared_ptr<GroupLog> LogLane::OpenLog() {
  return GroupLog::Open(services_, xchg_, range_, epoch_, group_, host_->Hold(index()));
}

std::shared_ptr<GroupLog> LogLane::NewLog(RoundNumber round) {
  std::shared_ptr<GroupLog> log = std::move(spare_);
  if (log == nullptr) log = OpenLog();
  log->set_round(round);
  current_[round] = log;
  groups_->AddLog(log->group().id, log->uuid(), round);
  return log;
}

// --- group change (L4)

void LogLane::MemberFailed(const LogGroup& group, StocId member, ChangeCause cause) {
  switch (groups_->Begin(group.id)) {
    case RangeGroups::Change::kReplaced:  // only this log has to move
      return MoveTo(groups_->Current());
    case RangeGroups::Change::kUnderWay:
      return;
    case RangeGroups::Change::kBegun:
      return host_->ReplaceGroup(group, member, cause);
  }
}

void LogLane::MoveTo(const LogGroup& group) {
  if (fenced()) return;
  if (group_.id < group.id) group_ = group;
  slow_pause_ns_ = slow_again_ns_ = 0;
  if (spare_ != nullptr && spare_->group().id != group_.id) FreeSpare();
  groups_->LaneMoved(index(), group_.id);
  std::vector<RoundNumber> rounds;
  for (const auto& [round, log] : current_) {
    if (log->group().id != group_.id) rounds.push_back(round);
  }
  ReplaceLogs(rounds);
  NOVA_FP_VOID("logc.lane_moved");
}

void LogLane::StayIn(GroupId group) {
  if (fenced() || group_.id != group) return;
  // Where a member answers pings and fails all the same, each time leaves logs behind.
  const bool slow_too = Now() >= slow_again_ns_;
  bool any_slow = false;
  std::vector<RoundNumber> rounds;
  for (const auto& [round, log] : current_) {
    const bool is_slow = log->lost_by() == ChangeCause::kSlow;
    if (!log->lost_by() || (is_slow && !slow_too)) continue;
    any_slow |= is_slow;
    rounds.push_back(round);
  }
  if (any_slow) {
    slow_pause_ns_ = std::clamp(2 * slow_pause_ns_, kFirstSlowPause, kLongestSlowPause);
    slow_again_ns_ = Now() + slow_pause_ns_;
  }
  if (!rounds.empty() || (spare_ != nullptr && spare_->closed())) FreeSpare();  // may have what they had
  if (rounds.empty()) return;
  NOVA_LOG(INFO) << "range " << range_.value() << ": all members of log group " << group.value()
                 << " answer: its records go on there until it is replaced";
  ReplaceLogs(rounds);
}

void LogLane::ReplaceLogs(const std::vector<RoundNumber>& rounds) {
  for (const RoundNumber round : rounds) {
    const std::shared_ptr<GroupLog> old = current_[round];
    old->Close();
    current_.erase(round);
    if (old->has_pending()) {  // else the next append makes the successor
      const std::shared_ptr<GroupLog> log = NewLog(round);
      for (PendingRecord& record : old->TakePending()) MoveRecord(std::move(record), log.get());
      FlushSoon();
    }
    if (old->opened()) {
      older_[round].push_back(old);
    } else {
      FreeLog(old.get());  // it never had room: nothing was posted to it
    }
  }
}

// Copies the record: its bytes may still be read by a WRITE under way to a surviving member, whose batch
// keeps them.
void LogLane::MoveRecord(PendingRecord record, GroupLog* to) {
  PendingRecord moved;
  // Posted and not delivered everywhere: the next owner decides (shown stays, R4).
  if (!Stage(record.bytes, /*beyond=*/true, &moved)) return FailRecord(&record);
  std::copy_n(record.data(), record.bytes, moved.data());
  moved.sync = record.sync;
  moved.sent = record.sent;
  moved.done = std::move(record.done);
  to->Adopt(std::move(moved));
}

// --- the end of logs

void LogLane::FreeLog(GroupLog* log) {
  log->Free();
  groups_->RemoveLog(log->group().id, log->uuid());
}

void LogLane::FreeSpare() {
  if (spare_ != nullptr) FreeLog(spare_.get());
  spare_ = nullptr;
}

void LogLane::DeleteRound(RoundNumber round) {
  const auto current = current_.find(round);
  if (current != current_.end()) {
    NOVA_CHECK(!current->second->has_pending()) << "a log goes with records pending (pin, L6)";
    FreeLog(current->second.get());
    current_.erase(current);
  }
  const auto older = older_.find(round);
  if (older == older_.end()) return;
  for (const auto& log : older->second) FreeLog(log.get());
  older_.erase(older);
}

void LogLane::Fail() {
  std::vector<std::shared_ptr<GroupLog>> logs;
  for (const auto& [round, log] : current_) logs.push_back(log);
  for (const auto& log : logs) {
    log->Close();
    for (PendingRecord& record : log->TakePending()) FailRecord(&record);
  }
  current_.clear();
  older_.clear();
  spare_ = nullptr;
  staging_ = nullptr;
}

// Its staging memory stays with the batch: a WRITE may still read it.
void LogLane::FailRecord(PendingRecord* record) {
  in_flight_bytes_ -= record->bytes;
  if (record->done) std::exchange(record->done, {})(Outcome::kNotOwner);
}

}  // namespace nova
