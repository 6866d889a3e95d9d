#include "logc/group_log.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"

namespace nova {
namespace {

// in a row, after which a member that answers pings is replaced
constexpr int kFailuresOfTheLiving = 2;
constexpr Nanos kLongestAskAgain = kSecond;
constexpr Nanos kLongestFreePause = 30 * kSecond;  // between two requests to free a log
constexpr Nanos kRepostPause = 50 * kMillisecond;  // while it may not be replaced yet

}  // namespace

GroupLog::Services::Services(StocClient* stoc_client, MemberProbe* member_probe,
                             MemoryShortage* memory_shortage, const LogOptions& log_options, Metrics* metrics)
    : stocs(stoc_client),
      probe(member_probe),
      shortage(memory_shortage),
      options(log_options),
      writes(metrics->counter("nova_logc_writes_total")),
      appends(metrics->counter("nova_logc_appends_total")),
      reposts(metrics->counter("nova_logc_reposts_total")),
      suspicions(metrics->counter("nova_logc_suspicions_total")) {}

GroupLog::GroupLog(const Services* services, Xchg* xchg, RangeId range, Epoch epoch, const LogGroup& group,
                   const std::shared_ptr<Owner>& owner)
    : services_(services),
      xchg_(xchg),
      range_(range),
      epoch_(epoch),
      group_(group),
      owner_(owner.get()),
      owner_life_(owner),
      uuid_(Uuid::Generate()),
      members_(group.members.size()) {
  for (const NodeInfo& n : services_->stocs->live()) {
    for (size_t m = 0; m < members_.size(); ++m) {
      if (n.stoc_id == group_.members[m].stoc)
        members_[m].near = !n.host.empty() && n.host == services_->options.host;
    }
  }
}

std::shared_ptr<GroupLog> GroupLog::Open(const Services* services, Xchg* xchg, RangeId range, Epoch epoch,
                                         const LogGroup& group, const std::shared_ptr<Owner>& owner) {
  std::shared_ptr<GroupLog> log(new GroupLog(services, xchg, range, epoch, group, owner));
  log->OpenSegment(services->options.segment_bytes);
  return log;
}

std::vector<GroupLog::Copy> GroupLog::Copies() const {
  std::vector<Copy> copies;
  for (size_t m = 0; m < group_.members.size(); ++m) {
    if (HasMemory(group_.media)) copies.emplace_back(m, kMemory);
    if (HasFiles(group_.media)) copies.emplace_back(m, kFile);
  }
  return copies;
}

GroupLog::Delivery GroupLog::StartDelivery(const std::vector<Copy>& copies) const {
  Delivery d;
  d.since_ns = Now();
  d.waiting = copies.size();
  d.lacks.resize(kMediums * group_.members.size());
  d.failed.resize(kMediums * group_.members.size());
  for (const Copy c : copies) d.lacks[c.index()] = true;
  return d;
}

// --- opening

void GroupLog::OpenSegment(uint64_t size) {
  std::vector<Copy> copies = Copies();
  // an overflow segment
  if (opened_) std::erase_if(copies, [](Copy c) { return c.medium() == kFile; });
  opening_ = std::make_unique<Opening>();
  opening_->segment.size = size;
  opening_->segment.memory.resize(group_.members.size());
  opening_->delivery = StartDelivery(copies);
  for (const Copy c : copies) OpenAt(c);
  Watch();
}

void GroupLog::OpenAt(Copy c) {
  opening_->delivery.failed[c.index()] = false;
  const LogMember& member = group_.members[c.member()];
  const LogOptions& options = services_->options;
  if (c.medium() == kFile) {
    services_->stocs->OpenLogFile(xchg_, member, range_, epoch_, uuid_, Now() + options.file_deadline_ns,
                                  [self = Hold(), c](Outcome o) { self->Opened(c, o, {}); });
    return;
  }
  services_->stocs->OpenSegment(
      xchg_, member, range_, epoch_, uuid_, static_cast<uint32_t>(segments_.size()), opening_->segment.size,
      Now() + options.open_deadline_ns,
      [self = Hold(), c](Outcome o, RemoteBuffer memory) { self->Opened(c, o, memory); });
}

void GroupLog::Opened(Copy c, Outcome o, const RemoteBuffer& memory) {
  if (o == Outcome::kNotOwner) return owner_->Fence();
  // it was made after that
  if (freed_ && o == Outcome::kOk && c.medium() == kFile) return FreeAt(c.member());
  if (closed_) return;
  Delivery& delivery = opening_->delivery;
  const bool no_answer =
      o == Outcome::kUnavailable || o == Outcome::kUnknown || o == Outcome::kDeadlineExceeded;
  // A disk that is busy or full may be free soon, and where all members share one no other would do.
  if (no_answer || (c.medium() == kFile && (o == Outcome::kBusy || o == Outcome::kNoSpace))) {
    delivery.failed[c.index()] = true;
    if (o == Outcome::kNoSpace && has_pending()) owner_->WaitsForSpace();
    return Suspect(c);
  }
  if (o != Outcome::kOk) {
    if (o == Outcome::kBusy) services_->shortage->Told();
    if (owner_->MayReplaceRefusing(group_.id)) return MemberFailed(c.member(), ChangeCause::kRefused);
    // kInvalidArgument: it is more than all of a member's memory for logs.
    const bool has_no_memory = o == Outcome::kBusy || o == Outcome::kInvalidArgument;
    if (has_no_memory && Now() - delivery.since_ns >= services_->options.no_memory_pause_ns) RefuseUnsent();
    const Nanos pause = opening_->ask_again;
    opening_->ask_again = std::min(2 * pause, kLongestAskAgain);
    return xchg_->RunAt(Now() + pause, [self = Hold(), c] {
      if (!self->IsOver() && self->opening_ != nullptr) self->OpenAt(c);
    });
  }
  members_[c.member()].failures[c.medium()] = 0;
  if (c.medium() == kMemory) opening_->segment.memory[c.member()] = memory;
  delivery.lacks[c.index()] = false;
  if (--delivery.waiting > 0) return;
  if (HasMemory(group_.media)) segments_.push_back(std::move(opening_->segment));
  opening_ = nullptr;
  opened_ = true;
  refuses_ = false;
  used_ = 0;
  owner_->FlushSoon();
}

// What was sent comes first: the lsns of the rest are free again.
void GroupLog::RefuseUnsent() {
  refuses_ = true;
  const auto first = std::find_if(unposted_.begin(), unposted_.end(), [](const auto& r) { return !r.sent; });
  std::vector<PendingRecord> unsent;
  std::move(first, unposted_.end(), std::back_inserter(unsent));
  unposted_.erase(first, unposted_.end());
  next_lsn_ -= unsent.size();
  for (PendingRecord& r : unsent) {
    owner_->RecordRefused(r.bytes);
    if (r.done) std::exchange(r.done, {})(Outcome::kBusy);
  }
}

bool GroupLog::HasRoom(size_t bytes) const {
  if (!HasMemory(group_.media)) return opened_;
  return !segments_.empty() && used_ + bytes <= segments_.back().size;
}

// --- records

void GroupLog::Append(const LogRecord& record, PendingRecord pending) {
  EncodeLogRecord(uuid_, next_lsn_++, marks_, record, pending.data());
  unposted_.push_back(std::move(pending));
}

void GroupLog::Adopt(PendingRecord pending) {
  RebindLogRecord(uuid_, next_lsn_++, marks_, pending.data());
  unposted_.push_back(std::move(pending));
}

std::vector<PendingRecord> GroupLog::TakePending() {
  std::vector<PendingRecord> pending;
  for (const auto& batch : std::exchange(posted_, {})) {
    for (PendingRecord& r : batch->records) pending.push_back(std::move(r));
  }
  for (PendingRecord& r : std::exchange(unposted_, {})) pending.push_back(std::move(r));
  return pending;
}

void GroupLog::PostUnposted() {
  while (!unposted_.empty() && !closed_ && suspected_ == 0) {
    const size_t first_bytes = unposted_.front().bytes;
    if (!HasRoom(first_bytes)) {
      if (opening_ == nullptr) OpenSegment(std::max<uint64_t>(services_->options.segment_bytes, first_bytes));
      return;
    }
    const std::shared_ptr<Batch> batch = NextBatch();
    const std::vector<Copy> copies = Copies();
    batch->delivery = StartDelivery(copies);
    posted_.push_back(batch);
    for (const Copy c : copies) Post(batch, c);
    Watch();
    NOVA_FP_VOID("logc.posted");
  }
}

std::shared_ptr<GroupLog::Batch> GroupLog::NextBatch() {
  auto batch = std::make_shared<Batch>();
  batch->staging = unposted_.front().staging;
  batch->offset = unposted_.front().offset;
  batch->segment = segments_.empty() ? 0 : segments_.size() - 1;
  batch->at = used_;
  batch->file_at = file_end_;
  batch->acknowledged = marks_.acknowledged;
  while (!unposted_.empty()) {
    PendingRecord& r = unposted_.front();
    if (r.staging != batch->staging || r.offset != batch->offset + batch->bytes || !HasRoom(r.bytes)) break;
    if (batch->bytes > 0 && batch->bytes + r.bytes > kMaxAppendBytes) break;
    batch->sync |= r.sync;
    batch->bytes += r.bytes;
    used_ += r.bytes;
    file_end_ += r.bytes;
    r.sent = true;
    batch->records.push_back(std::move(r));
    unposted_.pop_front();
  }
  if (HasFiles(group_.media)) batch->crc = Crc32c(batch->view());
  return batch;
}

// The batch keeps its staging memory alive until every copy has reported (exposed memory, F4).
void GroupLog::Post(const std::shared_ptr<Batch>& batch, Copy c) {
  batch->delivery.failed[c.index()] = false;
  auto done = [self = Hold(), batch, c](Outcome o) { self->Delivered(batch, c, o); };
  const LogMember& member = group_.members[c.member()];
  if (c.medium() == kFile) {
    services_->appends->Add();
    const AppendLogRequest append{range_,      epoch_,     uuid_,        batch->file_at,
                                  batch->sync, batch->crc, batch->view()};
    return services_->stocs->AppendLog(xchg_, member.stoc, append,
                                       Now() + services_->options.file_deadline_ns, std::move(done));
  }
  Peer* const peer = services_->stocs->peer(xchg_, member.stoc, member.incarnation);
  if (peer == nullptr) return xchg_->Submit([done = std::move(done)] { done(Outcome::kUnavailable); });
  services_->writes->Add();
  xchg_->EndPause(peer);  // a member that is gone is to be suspected now, not after the pause
  const Buffer& from = batch->staging->buffer;
  const LocalBuffer local{from.data() + batch->offset, static_cast<uint32_t>(batch->bytes), from.lkey()};
  const RemoteBuffer remote = segments_[batch->segment].memory[c.member()].Slice(batch->at, batch->bytes);
  xchg_->Write(peer, {&local, 1}, remote.address, remote.rkey, Now() + WriteDeadline(members_[c.member()]),
               std::move(done));
}

void GroupLog::Delivered(const std::shared_ptr<Batch>& batch, Copy c, Outcome o) {
  if (o == Outcome::kNotOwner) return owner_->Fence();
  if (o != Outcome::kOk) {
    batch->delivery.failed[c.index()] = true;  // `waiting` stays above 0
    if (o == Outcome::kNoSpace) owner_->WaitsForSpace();
    return Suspect(c);
  }
  members_[c.member()].failures[c.medium()] = 0;
  batch->delivery.lacks[c.index()] = false;
  --batch->delivery.waiting;
  const size_t may_lack = services_->options.off.l3_all_members ? Copies().size() - 1 : 0;
  // one writer (L2): in lsn order
  while (!closed_ && !posted_.empty() && posted_.front()->delivery.waiting <= may_lack) {
    const std::shared_ptr<Batch> front = std::move(posted_.front());
    posted_.pop_front();
    NOVA_FP_VOID("logc.delivered");
    AdvanceMarks(*front);
    for (PendingRecord& r : front->records) {
      owner_->RecordEnded(r.bytes);
      r.staging = nullptr;
      if (r.done) std::exchange(r.done, {})(Outcome::kOk);
    }
  }
}

// The batch's sync covers itself, in every file, and what was there when it was posted: what was under way
// then may have been posted once more, and written behind that sync.
void GroupLog::AdvanceMarks(const Batch& batch) {
  const uint64_t before = marks_.acknowledged;
  marks_.acknowledged += batch.records.size();
  if (!batch.sync) return;
  const bool gap = marks_.synced < before && batch.acknowledged < before;
  marks_.synced = gap ? std::max(marks_.synced, batch.acknowledged) : marks_.acknowledged;
}

// --- deadline (L5)

Nanos GroupLog::WriteDeadline(const Member& member) const {
  return member.near ? services_->options.near_write_deadline_ns : services_->options.write_deadline_ns;
}

Nanos GroupLog::ShortestWriteDeadline() const {
  Nanos shortest = services_->options.write_deadline_ns;
  for (const Member& m : members_) shortest = std::min(shortest, WriteDeadline(m));
  return shortest;
}

void GroupLog::Suspect(Copy c) {
  Member& member = members_[c.member()];
  if (IsOver() || member.suspected) return;
  member.suspected = true;
  ++suspected_;
  ++member.failures[c.medium()];
  services_->suspicions->Add();
  services_->probe->Ask(xchg_->options().index, group_.members[c.member()], member.near,
                        [self = Hold(), c](bool alive) { self->MemberAnswered(c, alive); });
}

void GroupLog::MemberAnswered(Copy c, bool alive) {
  if (IsOver()) return;
  const size_t m = c.member();
  if (!alive) return MemberFailed(m, ChangeCause::kDead);
  if (members_[m].failures[c.medium()] < kFailuresOfTheLiving) return Trust(m);
  if (owner_->MayReplaceLiving(group_.id)) return MemberFailed(m, ChangeCause::kSlow);
  xchg_->RunAt(Now() + kRepostPause, [self = Hold(), m] { self->Trust(m); });
}

void GroupLog::Trust(size_t member) {
  if (IsOver()) return;
  members_[member].suspected = false;
  --suspected_;
  for (const Copy c : {Copy(member, kMemory), Copy(member, kFile)}) {
    if (opening_ != nullptr && opening_->delivery.failed[c.index()]) OpenAt(c);
    for (const auto& batch : posted_) {
      if (!batch->delivery.failed[c.index()]) continue;
      services_->reposts->Add();
      Post(batch, c);
    }
  }
  owner_->FlushSoon();
}

// A disk may take its time, a process may not: one that stopped after it took the WRITE would else hold every
// put for the deadline of a file.
void GroupLog::Watch() {
  if (watched_) return;
  watched_ = true;
  LookAt(Now() + ShortestWriteDeadline());
}

// Holds the log only: an owner that is gone has nothing to look at.
void GroupLog::LookAt(Nanos when) {
  xchg_->RunAt(when, [log = shared_from_this()] {
    if (const std::shared_ptr<Owner> owner = log->owner_life_.lock()) log->Look();
  });
}

void GroupLog::Look() {
  watched_ = false;
  if (IsOver() || (posted_.empty() && opening_ == nullptr)) return;
  watched_ = true;
  const Nanos now = Now();
  const Nanos shortest = ShortestWriteDeadline();
  Nanos oldest = now;
  std::set<size_t> late;  // members
  const auto see = [&](const Delivery& delivery) {
    oldest = std::min(oldest, delivery.since_ns);
    for (size_t i = 0; i < delivery.lacks.size(); ++i) {
      const size_t m = Copy(i).member();
      const bool is_late = now >= delivery.since_ns + WriteDeadline(members_[m]);
      if (delivery.lacks[i] && !members_[m].suspected && is_late) late.insert(m);
    }
  };
  if (opening_ != nullptr) see(opening_->delivery);
  for (const auto& batch : posted_) see(batch->delivery);
  for (const size_t m : late) {
    services_->probe->Ask(xchg_->options().index, group_.members[m], members_[m].near,
                          [self = Hold(), m](bool alive) {
                            if (!alive) self->MemberFailed(m, ChangeCause::kDead);
                          });
  }
  LookAt(now < oldest + shortest ? oldest + shortest : now + shortest);
}

void GroupLog::MemberFailed(size_t member, ChangeCause cause) {
  if (IsOver()) return;
  closed_ = true;
  lost_by_ = cause;
  owner_->MemberFailed(group_, group_.members[member].stoc, cause);
}

// --- the end

void GroupLog::FreeAt(size_t member, Nanos pause) {
  services_->stocs->FreeLogs(xchg_, group_.members[member].stoc, range_, epoch_, {uuid_},
                             [self = Hold(), member, pause](Outcome o) {
                               const bool has_heard = o == Outcome::kOk || o == Outcome::kNotOwner;
                               if (has_heard || self.owner == nullptr || self.owner->fenced()) return;
                               self->xchg_->RunAt(Now() + pause, [self, member, pause] {
                                 if (!self.owner->fenced())
                                   self->FreeAt(member, std::min(2 * pause, kLongestFreePause));
                               });
                             });
}

void GroupLog::Free() {
  closed_ = true;
  freed_ = true;
  for (size_t m = 0; m < group_.members.size(); ++m) FreeAt(m);
}

}  // namespace nova
