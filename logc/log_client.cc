#include "logc/log_client.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "logc/log_record.h"

namespace nova {
namespace {

// Encoded records wait here until delivered. Shared by the batches that were posted from it (F4).
struct Staging {
  explicit Staging(Buffer b) : buffer(std::move(b)) {}
  Buffer buffer;
  size_t used = 0;
};

struct PendingRecord {
  std::shared_ptr<Staging> staging;
  size_t offset = 0;  // in the staging buffer
  size_t bytes = 0;
  bool sync = false;
  absl::AnyInvocable<void(Outcome)> done;
};

// in a row, after which a member that answers pings is replaced
constexpr int kFailuresOfTheLiving = 2;
// pings that found no connection, until the process counts as gone
constexpr int kMostUnsent = 2;
constexpr Nanos kRepostPause = 50 * kMillisecond;  // while it may not be replaced yet

// A member holds one or two copies of a log, as its group's media say; copy c = 2 * member + medium.
enum Medium : size_t { kMemory = 0, kFile = 1 };
constexpr size_t kMediums = 2;

// Records that went out together: one WRITE, one AppendLog per member.
struct Batch {
  std::vector<PendingRecord> records;
  std::shared_ptr<Staging> staging;  // their bytes: [offset, offset + bytes)
  size_t offset = 0;
  size_t bytes = 0;
  size_t segment = 0;         // where they go: of the log's segments
  uint64_t at = 0;            // and where in it
  uint64_t file_at = 0;       // where they go in the log's file
  bool sync = false;          // there: some record asks for it
  uint64_t acknowledged = 0;  // of the log, when this was posted: an lsn
  uint32_t crc = 0;           // of the bytes, where they go to a file
  Nanos posted_ns = 0;
  size_t waiting = 0;        // copies that do not have it yet
  std::vector<bool> lacks;   // by copy: it was not delivered yet
  std::vector<bool> failed;  // by copy: its post ended, not delivered
};

struct Segment {
  std::vector<RemoteBuffer> memory;  // by member of the group
  uint64_t size = 0;
};

struct Opening {
  Segment segment;
  Nanos asked_ns = 0;
  size_t waiting = 0;        // copies that are not open yet
  std::vector<bool> lacks;   // by copy: asked, and not open yet
  std::vector<bool> failed;  // by copy: asked, and not answered
};

// One log, of which each member has a copy or two. All of it belongs to one xchg thread.
struct Log {
  struct Member {
    bool suspected = false;                // a ping is on its way
    bool near = false;                     // on this host
    std::array<int, kMediums> failures{};  // in a row
  };
  std::vector<size_t> Copies() const {
    std::vector<size_t> copies;
    for (size_t m = 0; m < group.members.size(); ++m) {
      if (HasMemory(group.media)) copies.push_back(kMediums * m + kMemory);
      if (HasFiles(group.media)) copies.push_back(kMediums * m + kFile);
    }
    return copies;
  }
  Uuid uuid;
  RoundNumber round = 0;
  LogGroup group;
  std::vector<Member> members;  // as the group's
  size_t suspected = 0;         // of them
  uint64_t next_lsn = 1;
  LogMarks marks;  // of the record that is built next
  std::vector<Segment> segments;
  uint64_t used = 0;    // of the last segment
  bool opened = false;  // its first segment and its file are there
  uint64_t file_end = 0;
  std::shared_ptr<Opening> opening;  // null: none
  bool watched = false;              // a look at what is under way is due (L5)
  bool failed = false;               // it takes nothing more: a member was replaced, or the log is freed
  bool freed = false;
  std::deque<PendingRecord> unposted;
  std::deque<std::shared_ptr<Batch>> posted;  // acknowledged from the front (L2)
};

enum class Cause { kDead, kSlow, kRefused, kAsked };
constexpr const char* kCauseNames[] = {"dead", "slow", "refused", "asked"};

}  // namespace

class StocLogCore;

struct LogClient::Rep {
  StocClient* stocs;
  std::vector<Xchg*> xchgs;
  LogOptions options;
  std::unique_ptr<BufferPool> staging;
  std::vector<std::vector<std::weak_ptr<StocLogCore>>> dirty;  // by lane: flush at the end of the round
  Counter* records;
  Counter* writes;
  Counter* appends;
  Counter* reposts;
  Counter* suspicions;
  Counter* pings_answered;
  Counter* pings_failed;
  std::array<Counter*, std::size(kCauseNames)> group_changes;  // by cause
  // Who waits for a ping of a StoC's incarnation, by lane: [i] belongs to xchg i.
  using Asked = std::map<std::pair<StocId, Incarnation>, std::vector<absl::AnyInvocable<void(bool alive)>>>;
  std::vector<Asked> asked;

  // L5: is that process there? One ping for all of the lane who ask at the time. Over another connection than
  // the one that failed: that of the next xchg thread; where there is only one thread, a new one, for a
  // WRITE's deadline has destroyed the old (F4).
  void Ask(size_t lane, const LogMember& member, bool near, absl::AnyInvocable<void(bool alive)> answer) {
    auto& waiting = asked[lane][{member.stoc, member.incarnation}];
    waiting.push_back(std::move(answer));
    if (waiting.size() > 1) return;
    Xchg* const other = xchgs[(lane + 1) % xchgs.size()];
    const Nanos within = near ? options.near_ping_deadline_ns : options.ping_deadline_ns;
    other->Submit([=, this] { Ping(lane, other, member, Now() + within, 0); });
  }

  // On `other`. A connection that breaks under the ping says nothing of the process: another request's
  // deadline may have destroyed it, sent the ping (kUnknown) or not (kUnavailable). A new one then tells; a
  // process that is gone refuses that, too.
  void Ping(size_t lane, Xchg* other, const LogMember& member, Nanos deadline_ns, int unsent) {
    stocs->Ping(other, member.stoc, deadline_ns, [=, this](Outcome o, Incarnation found) {
      const bool broke = o == Outcome::kUnknown || (o == Outcome::kUnavailable && unsent + 1 < kMostUnsent);
      if (broke && Now() < deadline_ns)
        return Ping(lane, other, member, deadline_ns, unsent + (o == Outcome::kUnavailable));
      const bool alive = o == Outcome::kOk && found == member.incarnation;
      (alive ? pings_answered : pings_failed)->Add();
      xchgs[lane]->Submit([this, lane, member, alive] {
        auto waited = asked[lane].extract({member.stoc, member.incarnation});
        for (auto& a : waited.mapped()) a(alive);
      });
    });
  }
};

// What asynchronous completions refer to; outlives its StocLog while any is pending.
class StocLogCore : public std::enable_shared_from_this<StocLogCore> {
 public:
  StocLogCore(LogClient::Rep* client, RangeId range, Epoch epoch, LogGroup group, ChangeGroup change_group)
      : client_(client),
        range_(range),
        epoch_(epoch),
        change_group_(std::move(change_group)),
        lanes_(client->xchgs.size()) {
    for (Lane& lane : lanes_) lane.group = group;
    MutexLock lock(&mu_);
    lane_groups_.assign(lanes_.size(), group.id);
    group_ = std::move(group);
  }

  bool Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) {
    const size_t index = on->index();
    Lane& lane = lanes_[index];
    if (fenced_.load(std::memory_order_acquire)) {
      done(Outcome::kNotOwner);
      return true;
    }
    const size_t bytes = LogRecordBytes(record);
    if (lane.in_flight_bytes + bytes > client_->options.lane_in_flight_bytes) return false;
    auto it = lane.current.find(record.round);
    const std::shared_ptr<Log> log = it != lane.current.end() ? it->second : NewLog(index, record.round);
    PendingRecord pending;
    if (!Stage(index, bytes, &pending)) return false;
    EncodeLogRecord(log->uuid, log->next_lsn++, log->marks, record,
                    pending.staging->buffer.data() + pending.offset);
    pending.sync = record.sync;
    pending.done = std::move(done);
    log->unposted.push_back(std::move(pending));
    lane.in_flight_bytes += bytes;
    client_->records->Add();
    MarkDirty(index);
    return true;
  }

  // The round hook of lane `index`.
  void Flush(size_t index) {
    Lane& lane = lanes_[index];
    lane.dirty = false;
    for (auto& [round, log] : lane.current) PostUnposted(index, log);
  }

  void DeleteRound(RoundNumber round) {
    NOVA_FP_VOID("logc.round_deleted");
    for (size_t i = 0; i < lanes_.size(); ++i) {
      client_->xchgs[i]->Submit([self = shared_from_this(), i, round] { self->DeleteRoundOnLane(i, round); });
    }
  }

  std::vector<GroupId> UnusedGroups() const {
    MutexLock lock(&mu_);
    std::vector<GroupId> unused;
    for (const LogGroup& old : old_groups_) {
      const auto it = logs_of_group_.find(old.id);
      const RulesOff& off = client_->options.off;
      // A lane that has not moved yet may still open a log of the old group, and acknowledge into it.
      const bool all_moved = off.l4_all_lanes || std::all_of(lane_groups_.begin(), lane_groups_.end(),
                                                             [&](GroupId g) { return g > old.id; });
      const bool empty = off.l4_flush_first || it == logs_of_group_.end() || it->second.empty();
      if (all_moved && empty) unused.push_back(old.id);
    }
    return unused;
  }

  std::vector<ExposedRound> ExposedRounds() const {
    std::map<RoundNumber, size_t> live_members;
    {
      MutexLock lock(&mu_);
      if (old_groups_.empty()) return {};
      const std::vector<NodeInfo> live = client_->stocs->live();
      for (const LogGroup& old : old_groups_) {
        const auto it = logs_of_group_.find(old.id);
        if (it == logs_of_group_.end()) continue;
        const auto left = static_cast<size_t>(
            std::count_if(old.members.begin(), old.members.end(), [&](const LogMember& m) {
              return std::any_of(live.begin(), live.end(), [&](const NodeInfo& n) {
                return n.stoc_id == m.stoc && old.Holds(m, n.incarnation, n.store);
              });
            }));
        for (const auto& [uuid, round] : it->second) {
          const auto [at, first] = live_members.emplace(round, left);
          if (!first) at->second = std::min(at->second, left);
        }
      }
    }
    std::vector<ExposedRound> rounds;
    for (const auto& [round, left] : live_members) rounds.push_back({round, left});
    std::stable_sort(rounds.begin(), rounds.end(), [](const ExposedRound& a, const ExposedRound& b) {
      return a.live_members < b.live_members;
    });
    return rounds;
  }

  void RequestGroupChange() {
    LogGroup current;
    {
      MutexLock lock(&mu_);
      if (changing_ || fenced_.load()) return;
      changing_ = true;
      current = group_;
    }
    Change(current, StocId(), Cause::kAsked);
  }

  size_t bytes_in_flight() const {
    size_t bytes = 0;
    for (const Lane& lane : lanes_) bytes += lane.in_flight_bytes.load(std::memory_order_relaxed);
    return bytes;
  }

  // Every pending record ends with kNotOwner: the epoch is over, for whatever reason.
  void Fenced() {
    if (fenced_.exchange(true)) return;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      client_->xchgs[i]->Submit([self = shared_from_this(), i] { self->FailLane(i); });
    }
  }

 private:
  struct Lane {
    LogGroup group;                                       // of new logs
    std::map<RoundNumber, std::shared_ptr<Log>> current;  // where appends of a round go
    // logs of former groups, until the round is deleted
    std::map<RoundNumber, std::vector<std::shared_ptr<Log>>> older;
    std::shared_ptr<Log> spare;        // opened ahead for the next round
    std::shared_ptr<Staging> staging;  // the chunk being filled
    std::atomic<size_t> in_flight_bytes{0};
    bool dirty = false;
  };

  void MarkDirty(size_t index) {
    if (lanes_[index].dirty) return;
    lanes_[index].dirty = true;
    client_->dirty[index].push_back(weak_from_this());
  }

  bool Stage(size_t index, size_t bytes, PendingRecord* pending) {
    std::shared_ptr<Staging>& chunk = lanes_[index].staging;
    if (chunk == nullptr || chunk->used + bytes > chunk->buffer.capacity()) {
      Buffer buffer = client_->staging->Allocate(std::max<size_t>(bytes, 64 << 10));
      if (!buffer) return false;
      chunk = std::make_shared<Staging>(std::move(buffer));
    }
    *pending = {chunk, chunk->used, bytes, false, {}};
    chunk->used += bytes;
    return true;
  }

  std::shared_ptr<Log> NewLog(size_t index, RoundNumber round) {
    Lane& lane = lanes_[index];
    std::shared_ptr<Log> log = std::move(lane.spare);
    if (log == nullptr) log = OpenLog(index);
    log->round = round;
    lane.current[round] = log;
    {
      MutexLock lock(&mu_);
      logs_of_group_[log->group.id][log->uuid] = round;
    }
    lane.spare = OpenLog(index);  // the next round finds its first segment open
    return log;
  }

  std::shared_ptr<Log> OpenLog(size_t index) {
    auto log = std::make_shared<Log>();
    log->uuid = Uuid::Generate();
    log->group = lanes_[index].group;
    log->members.resize(log->group.members.size());
    for (const NodeInfo& n : client_->stocs->live()) {
      for (size_t m = 0; m < log->members.size(); ++m) {
        if (n.stoc_id == log->group.members[m].stoc)
          log->members[m].near = !n.host.empty() && n.host == client_->options.host;
      }
    }
    OpenSegment(index, log, client_->options.segment_bytes);
    return log;
  }

  void OpenSegment(size_t index, const std::shared_ptr<Log>& log, uint64_t size) {
    std::vector<size_t> copies = log->Copies();
    // an overflow segment
    if (log->opened) std::erase_if(copies, [](size_t c) { return c % kMediums == kFile; });
    log->opening = std::make_shared<Opening>();
    log->opening->segment.size = size;
    log->opening->segment.memory.resize(log->group.members.size());
    log->opening->waiting = copies.size();
    log->opening->asked_ns = Now();
    log->opening->lacks.resize(kMediums * log->group.members.size());
    log->opening->failed.resize(kMediums * log->group.members.size());
    for (const size_t c : copies) log->opening->lacks[c] = true;
    for (const size_t c : copies) OpenAt(index, log, c);
    Watch(index, log);
  }

  void OpenAt(size_t index, const std::shared_ptr<Log>& log, size_t c) {
    Opening& opening = *log->opening;
    opening.failed[c] = false;
    const size_t m = c / kMediums;
    if (c % kMediums == kFile) {
      client_->stocs->OpenLogFile(
          client_->xchgs[index], log->group.members[m], range_, epoch_, log->uuid,
          Now() + client_->options.file_deadline_ns,
          [self = shared_from_this(), index, log, c](Outcome o) { self->Opened(index, log, c, o, {}); });
      return;
    }
    client_->stocs->OpenSegment(client_->xchgs[index], log->group.members[m], range_, epoch_, log->uuid,
                                static_cast<uint32_t>(log->segments.size()), opening.segment.size,
                                Now() + client_->options.open_deadline_ns,
                                [self = shared_from_this(), index, log, c](Outcome o, RemoteBuffer memory) {
                                  self->Opened(index, log, c, o, memory);
                                });
  }

  void Opened(size_t index, const std::shared_ptr<Log>& log, size_t c, Outcome o,
              const RemoteBuffer& memory) {
    if (o == Outcome::kNotOwner) return Fenced();
    // it was made after that
    if (log->freed && o == Outcome::kOk && c % kMediums == kFile) return FreeAt(index, *log, c / kMediums);
    if (log->failed) return;
    Opening& opening = *log->opening;
    const bool no_answer =
        o == Outcome::kUnavailable || o == Outcome::kUnknown || o == Outcome::kDeadlineExceeded;
    // A disk that is busy or full may be free soon, and where all members share one no other would do.
    if (no_answer || (c % kMediums == kFile && (o == Outcome::kBusy || o == Outcome::kNoSpace))) {
      opening.failed[c] = true;
      return Suspect(index, log, c);
    }
    if (o != Outcome::kOk) return MemberFailed(index, log, c / kMediums, Cause::kRefused);
    log->members[c / kMediums].failures[c % kMediums] = 0;
    if (c % kMediums == kMemory) opening.segment.memory[c / kMediums] = memory;
    opening.lacks[c] = false;
    if (--opening.waiting > 0) return;
    if (HasMemory(log->group.media)) log->segments.push_back(std::move(opening.segment));
    log->opening = nullptr;
    log->opened = true;
    log->used = 0;
    MarkDirty(index);
  }

  // Now, without another segment.
  bool HasRoom(const Log& log, size_t bytes) const {
    if (!HasMemory(log.group.media)) return log.opened;
    return !log.segments.empty() && log.used + bytes <= log.segments.back().size;
  }

  // As many records as the last segment takes, each contiguous stretch of staging memory as one post per
  // copy.
  void PostUnposted(size_t index, const std::shared_ptr<Log>& log) {
    while (!log->unposted.empty() && !log->failed && log->suspected == 0) {
      const size_t first_bytes = log->unposted.front().bytes;
      if (!HasRoom(*log, first_bytes)) {
        if (log->opening == nullptr)
          OpenSegment(index, log, std::max<uint64_t>(client_->options.segment_bytes, first_bytes));
        return;
      }
      auto batch = std::make_shared<Batch>();
      batch->staging = log->unposted.front().staging;
      batch->offset = log->unposted.front().offset;
      batch->segment = log->segments.empty() ? 0 : log->segments.size() - 1;
      batch->at = log->used;
      batch->file_at = log->file_end;
      batch->acknowledged = log->marks.acknowledged;
      while (!log->unposted.empty()) {
        PendingRecord& r = log->unposted.front();
        if (r.staging != batch->staging || r.offset != batch->offset + batch->bytes ||
            !HasRoom(*log, r.bytes))
          break;
        batch->sync |= r.sync;
        batch->bytes += r.bytes;
        log->used += r.bytes;
        log->file_end += r.bytes;
        batch->records.push_back(std::move(r));
        log->unposted.pop_front();
      }
      if (HasFiles(log->group.media)) batch->crc = Crc32c(BytesOf(*batch));
      const std::vector<size_t> copies = log->Copies();
      batch->posted_ns = Now();
      batch->waiting = copies.size();
      batch->lacks.resize(kMediums * log->group.members.size());
      batch->failed.resize(kMediums * log->group.members.size());
      for (const size_t c : copies) batch->lacks[c] = true;
      log->posted.push_back(batch);
      for (const size_t c : copies) Post(index, log, batch, c);
      Watch(index, log);
      NOVA_FP_VOID("logc.posted");
    }
  }

  static std::string_view BytesOf(const Batch& batch) {
    return {reinterpret_cast<const char*>(batch.staging->buffer.data()) + batch.offset, batch.bytes};
  }

  // The batch keeps its staging memory alive until every copy has reported (F4).
  void Post(size_t index, const std::shared_ptr<Log>& log, const std::shared_ptr<Batch>& batch, size_t c) {
    Xchg* const xchg = client_->xchgs[index];
    batch->failed[c] = false;
    const size_t m = c / kMediums;
    auto done = [self = shared_from_this(), index, log, batch, c](Outcome o) {
      self->Delivered(index, log, batch, c, o);
    };
    if (c % kMediums == kFile) {
      client_->appends->Add();
      const AppendLogRequest append{range_,      epoch_,     log->uuid,      batch->file_at,
                                    batch->sync, batch->crc, BytesOf(*batch)};
      return client_->stocs->AppendLog(xchg, log->group.members[m].stoc, append,
                                       Now() + client_->options.file_deadline_ns, std::move(done));
    }
    const LogMember& member = log->group.members[m];
    Peer* const peer = client_->stocs->peer(xchg, member.stoc, member.incarnation);
    if (peer == nullptr) return xchg->Submit([done = std::move(done)] { done(Outcome::kUnavailable); });
    client_->writes->Add();
    const Buffer& from = batch->staging->buffer;
    const LocalBuffer local{from.data() + batch->offset, static_cast<uint32_t>(batch->bytes), from.lkey()};
    const RemoteBuffer remote = log->segments[batch->segment].memory[m].Slice(batch->at, batch->bytes);
    xchg->Write(peer, {&local, 1}, remote.address, remote.rkey, Now() + WriteDeadline(log->members[m]),
                std::move(done));
  }

  Nanos WriteDeadline(const Log::Member& member) const {
    return member.near ? client_->options.near_write_deadline_ns : client_->options.write_deadline_ns;
  }

  void Delivered(size_t index, const std::shared_ptr<Log>& log, const std::shared_ptr<Batch>& batch, size_t c,
                 Outcome o) {
    if (o == Outcome::kNotOwner) return Fenced();
    if (o != Outcome::kOk) {
      batch->failed[c] = true;  // `waiting` stays above 0
      return Suspect(index, log, c);
    }
    log->members[c / kMediums].failures[c % kMediums] = 0;
    batch->lacks[c] = false;
    --batch->waiting;
    const size_t may_lack = client_->options.off.l3_all_members ? log->Copies().size() - 1 : 0;
    // L2: in lsn order
    while (!log->failed && !log->posted.empty() && log->posted.front()->waiting <= may_lack) {
      const std::shared_ptr<Batch> front = std::move(log->posted.front());
      log->posted.pop_front();
      NOVA_FP_VOID("logc.delivered");
      AdvanceMarks(*front, &log->marks);
      for (PendingRecord& r : front->records) Finish(index, &r, Outcome::kOk);
    }
  }

  // `batch` is in every copy, as is all before it. Its sync covers itself, in every file, and what was there
  // when it was posted: what was under way then may have been posted once more, and written behind that sync.
  static void AdvanceMarks(const Batch& batch, LogMarks* marks) {
    const uint64_t before = marks->acknowledged;
    marks->acknowledged += batch.records.size();
    if (!batch.sync) return;
    const bool gap = marks->synced < before && batch.acknowledged < before;
    marks->synced = gap ? std::max(marks->synced, batch.acknowledged) : marks->acknowledged;
  }

  void Finish(size_t index, PendingRecord* record, Outcome o) {
    lanes_[index].in_flight_bytes -= record->bytes;
    record->staging = nullptr;
    if (record->done) std::exchange(record->done, {})(o);
  }

  // --- L5

  void Suspect(size_t index, const std::shared_ptr<Log>& log, size_t c) {
    const size_t m = c / kMediums;
    Log::Member& member = log->members[m];
    if (fenced_.load() || log->failed || member.suspected) return;
    member.suspected = true;
    ++log->suspected;
    ++member.failures[c % kMediums];
    client_->suspicions->Add();
    client_->Ask(index, log->group.members[m], member.near,
                 [self = shared_from_this(), index, log, c, m](bool alive) {
                   if (self->fenced_.load() || log->failed) return;
                   if (!alive) return self->MemberFailed(index, log, m, Cause::kDead);
                   if (log->members[m].failures[c % kMediums] < kFailuresOfTheLiving)
                     return self->Trust(index, log, m);
                   if (self->MayReplaceLiving(log->group.id))
                     return self->MemberFailed(index, log, m, Cause::kSlow);
                   self->client_->xchgs[index]->RunAt(Now() + kRepostPause,
                                                      [self, index, log, m] { self->Trust(index, log, m); });
                 });
  }

  Nanos ShortestWriteDeadline(const Log& log) const {
    Nanos shortest = client_->options.write_deadline_ns;
    for (const Log::Member& m : log.members) shortest = std::min(shortest, WriteDeadline(m));
    return shortest;
  }

  // A disk may take its time, a process may not: a member that took longer than a WRITE may, for anything, is
  // asked whether it is there. A process that stopped after it took the WRITE would else hold every put for
  // the deadline of a file.
  void Watch(size_t index, const std::shared_ptr<Log>& log) {
    if (log->watched) return;
    log->watched = true;
    LookAt(index, log, Now() + ShortestWriteDeadline(*log));
  }

  void LookAt(size_t index, const std::shared_ptr<Log>& log, Nanos when) {
    client_->xchgs[index]->RunAt(when, [weak = weak_from_this(), index, log] {
      if (const auto self = weak.lock()) self->Look(index, log);
    });
  }

  void Look(size_t index, const std::shared_ptr<Log>& log) {
    log->watched = false;
    if (fenced_.load() || log->failed || (log->posted.empty() && log->opening == nullptr)) return;
    log->watched = true;
    const Nanos now = Now();
    const Nanos shortest = ShortestWriteDeadline(*log);
    Nanos oldest = now;
    std::set<size_t> late;  // members
    const auto see = [&](Nanos since, const std::vector<bool>& lacks) {
      oldest = std::min(oldest, since);
      for (size_t c = 0; c < lacks.size(); ++c) {
        const Log::Member& member = log->members[c / kMediums];
        if (lacks[c] && !member.suspected && now >= since + WriteDeadline(member)) late.insert(c / kMediums);
      }
    };
    if (log->opening != nullptr) see(log->opening->asked_ns, log->opening->lacks);
    for (const auto& batch : log->posted) see(batch->posted_ns, batch->lacks);
    for (const size_t m : late) {
      client_->Ask(index, log->group.members[m], log->members[m].near,
                   [self = shared_from_this(), index, log, m](bool alive) {
                     if (!alive) self->MemberFailed(index, log, m, Cause::kDead);
                   });
    }
    LookAt(index, log, now < oldest + shortest ? oldest + shortest : now + shortest);
  }

  bool MayReplaceLiving(GroupId group) {
    MutexLock lock(&mu_);
    if (changing_ || group_.id != group) return true;  // it is being replaced, or was
    if (Now() < next_living_change_ns_) return false;
    next_living_change_ns_ = Now() + client_->options.change_pause_ns;
    return true;
  }

  // The member gets again what it lacks: the same bytes to the same place, so that it does not matter what of
  // the first try landed or lands yet.
  void Trust(size_t index, const std::shared_ptr<Log>& log, size_t m) {
    if (fenced_.load() || log->failed) return;
    log->members[m].suspected = false;
    --log->suspected;
    for (const size_t c : {kMediums * m + kMemory, kMediums * m + kFile}) {
      if (log->opening != nullptr && log->opening->failed[c]) OpenAt(index, log, c);
      for (const auto& batch : log->posted) {
        if (!batch->failed[c]) continue;
        client_->reposts->Add();
        Post(index, log, batch, c);
      }
    }
    MarkDirty(index);
  }

  // --- L4

  void MemberFailed(size_t index, const std::shared_ptr<Log>& log, size_t m, Cause cause) {
    if (fenced_.load() || log->failed) return;
    const StocId stoc = log->group.members[m].stoc;
    log->failed = true;
    LogGroup current;
    {
      MutexLock lock(&mu_);
      if (group_.id != log->group.id) {  // the group was replaced already: only this log has to move
        current = group_;
      } else {
        if (changing_) return;
        changing_ = true;
      }
    }
    if (!current.members.empty()) return MoveLane(index, current);
    NOVA_LOG(WARNING) << "range " << range_.value() << ": log member stoc " << stoc.value() << " is "
                      << kCauseNames[static_cast<size_t>(cause)] << ", replacing it";
    Change(log->group, stoc, cause);
  }

  void Change(const LogGroup& current, StocId failed, Cause cause) {
    client_->group_changes[static_cast<size_t>(cause)]->Add();
    change_group_(current, failed, [self = shared_from_this()](StatusOr<LogGroup> next) {
      self->GroupChanged(std::move(next));
    });
  }

  void GroupChanged(StatusOr<LogGroup> next) {
    if (!next.ok()) {
      NOVA_LOG(WARNING) << "range " << range_.value() << ": log group not replaced: " << next.status();
      return Fenced();
    }
    NOVA_FP_VOID("logc.group_changed");
    {
      MutexLock lock(&mu_);
      old_groups_.push_back(group_);
      group_ = *next;
      changing_ = false;
    }
    NOVA_FP_VOID("logc.group_replaced");
    for (size_t i = 0; i < lanes_.size(); ++i) {
      client_->xchgs[i]->Submit([self = shared_from_this(), i, group = *next] { self->MoveLane(i, group); });
    }
  }

  // Every current log that is not of `group` gets a successor there, with what was not acknowledged (L4).
  void MoveLane(size_t index, const LogGroup& group) {
    if (fenced_.load()) return;
    Lane& lane = lanes_[index];
    if (lane.group.id < group.id) lane.group = group;
    if (lane.spare != nullptr && lane.spare->group.id != lane.group.id) {
      FreeLog(index, lane.spare);
      lane.spare = nullptr;
    }
    {
      MutexLock lock(&mu_);
      lane_groups_[index] = lane.group.id;
    }
    std::vector<RoundNumber> rounds;
    for (const auto& [round, log] : lane.current) {
      if (log->group.id != lane.group.id) rounds.push_back(round);
    }
    for (const RoundNumber round : rounds) {
      const std::shared_ptr<Log> old = lane.current[round];
      old->failed = true;  // it takes nothing more
      lane.older[round].push_back(old);
      lane.current.erase(round);
      if (old->posted.empty() && old->unposted.empty()) continue;  // the next append makes the successor
      const std::shared_ptr<Log> log = NewLog(index, round);
      for (const auto& batch : old->posted) {
        for (PendingRecord& r : batch->records) Rehome(index, log, &r);
      }
      for (PendingRecord& r : old->unposted) Rehome(index, log, &r);
      old->posted.clear();
      old->unposted.clear();
      MarkDirty(index);
    }
    NOVA_FP_VOID("logc.lane_moved");
  }

  // Copies the record: its bytes may still be read by a WRITE under way to a surviving member, whose batch
  // keeps them.
  void Rehome(size_t index, const std::shared_ptr<Log>& log, PendingRecord* record) {
    PendingRecord moved;
    if (!Stage(index, record->bytes, &moved)) {
      lanes_[index].in_flight_bytes -= record->bytes;
      record->done(Outcome::kNotOwner);  // posted and not delivered everywhere: the next owner decides (R4)
      return;
    }
    std::copy_n(record->staging->buffer.data() + record->offset, record->bytes,
                moved.staging->buffer.data() + moved.offset);
    RebindLogRecord(log->uuid, log->next_lsn++, log->marks, moved.staging->buffer.data() + moved.offset);
    moved.sync = record->sync;
    moved.done = std::move(record->done);
    record->done = {};
    log->unposted.push_back(std::move(moved));
  }

  // --- the end of logs

  void FreeAt(size_t index, const Log& log, size_t m) {
    client_->stocs->FreeLogs(client_->xchgs[index], log.group.members[m].stoc, range_, epoch_, {log.uuid},
                             [](Outcome) {});
  }

  void FreeLog(size_t index, const std::shared_ptr<Log>& log) {
    log->failed = true;
    log->freed = true;
    for (size_t m = 0; m < log->group.members.size(); ++m) FreeAt(index, *log, m);
    MutexLock lock(&mu_);
    const auto it = logs_of_group_.find(log->group.id);
    if (it != logs_of_group_.end()) it->second.erase(log->uuid);
  }

  void DeleteRoundOnLane(size_t index, RoundNumber round) {
    Lane& lane = lanes_[index];
    const auto current = lane.current.find(round);
    if (current != lane.current.end()) {
      NOVA_CHECK(current->second->posted.empty() && current->second->unposted.empty())
          << "a log goes with records pending (L6)";
      FreeLog(index, current->second);
      lane.current.erase(current);
    }
    const auto older = lane.older.find(round);
    if (older == lane.older.end()) return;
    for (const auto& log : older->second) FreeLog(index, log);
    lane.older.erase(older);
  }

  void FailLane(size_t index) {
    Lane& lane = lanes_[index];
    std::vector<std::shared_ptr<Log>> logs;
    for (auto& [round, log] : lane.current) logs.push_back(log);
    for (auto& log : logs) {
      log->failed = true;
      for (auto& batch : std::exchange(log->posted, {})) {
        for (PendingRecord& r : batch->records) FailRecord(index, &r);
      }
      for (PendingRecord& r : std::exchange(log->unposted, {})) FailRecord(index, &r);
    }
    lane.current.clear();
    lane.older.clear();
    lane.spare = nullptr;
    lane.staging = nullptr;
  }

  // The staging memory stays with the batch: a WRITE may still read it.
  void FailRecord(size_t index, PendingRecord* r) {
    lanes_[index].in_flight_bytes -= r->bytes;
    if (r->done) std::exchange(r->done, {})(Outcome::kNotOwner);
  }

  LogClient::Rep* const client_;
  const RangeId range_;
  const Epoch epoch_;
  const ChangeGroup change_group_;
  std::atomic<bool> fenced_{false};
  std::vector<Lane> lanes_;  // [i] belongs to xchg i

  mutable Mutex mu_;
  LogGroup group_ ABSL_GUARDED_BY(mu_);
  bool changing_ ABSL_GUARDED_BY(mu_) = false;
  Nanos next_living_change_ns_ ABSL_GUARDED_BY(mu_) = 0;  // L5
  std::vector<LogGroup> old_groups_ ABSL_GUARDED_BY(mu_);
  std::vector<GroupId> lane_groups_ ABSL_GUARDED_BY(mu_);  // of new logs, by lane
  std::map<GroupId, std::map<Uuid, RoundNumber>> logs_of_group_ ABSL_GUARDED_BY(mu_);
};

class StocLog : public ReplicatedLog {
 public:
  explicit StocLog(std::shared_ptr<StocLogCore> core) : core_(std::move(core)) {}
  ~StocLog() override { core_->Fenced(); }
  void Fence() override { core_->Fenced(); }
  bool Append(Executor* on, const LogRecord& record, absl::AnyInvocable<void(Outcome)> done) override {
    return core_->Append(on, record, std::move(done));
  }
  void DeleteRound(RoundNumber round) override { core_->DeleteRound(round); }
  std::vector<GroupId> UnusedGroups() const override { return core_->UnusedGroups(); }
  std::vector<ExposedRound> ExposedRounds() const override { return core_->ExposedRounds(); }
  void RequestGroupChange() override { core_->RequestGroupChange(); }
  size_t bytes_in_flight() const override { return core_->bytes_in_flight(); }
  // of files; of memory it does not, but a group with files may follow
  bool sync_matters() const override { return true; }

 private:
  const std::shared_ptr<StocLogCore> core_;
};

LogClient::LogClient(Fabric* fabric, StocClient* stocs, std::vector<Xchg*> xchgs, LogOptions options,
                     Metrics* metrics)
    : rep_(std::make_unique<Rep>()) {
  rep_->stocs = stocs;
  rep_->xchgs = std::move(xchgs);
  rep_->options = options;
  rep_->staging = std::make_unique<BufferPool>(fabric, Access::kLocal, options.staging_bytes);
  rep_->dirty.resize(rep_->xchgs.size());
  rep_->records = metrics->counter("nova_logc_records_total");
  rep_->writes = metrics->counter("nova_logc_writes_total");
  rep_->appends = metrics->counter("nova_logc_appends_total");
  rep_->asked.resize(rep_->xchgs.size());
  rep_->reposts = metrics->counter("nova_logc_reposts_total");
  rep_->suspicions = metrics->counter("nova_logc_suspicions_total");
  rep_->pings_answered = metrics->counter("nova_logc_pings_total{result=\"answered\"}");
  rep_->pings_failed = metrics->counter("nova_logc_pings_total{result=\"failed\"}");
  for (size_t i = 0; i < std::size(kCauseNames); ++i) {
    rep_->group_changes[i] =
        metrics->counter(StrCat("nova_logc_group_changes_total{cause=\"", kCauseNames[i], "\"}"));
  }
  for (size_t i = 0; i < rep_->xchgs.size(); ++i) {
    rep_->xchgs[i]->AddRoundHook([rep = rep_.get(), i] {
      for (const auto& weak : std::exchange(rep->dirty[i], {})) {
        if (const auto core = weak.lock()) core->Flush(i);
      }
    });
  }
}

LogClient::~LogClient() = default;

std::unique_ptr<ReplicatedLog> LogClient::Open(RangeId range, Epoch epoch, const LogGroup& group,
                                               ChangeGroup change_group) {
  return std::make_unique<StocLog>(
      std::make_shared<StocLogCore>(rep_.get(), range, epoch, group, std::move(change_group)));
}

}  // namespace nova
