#include "stoc/stoc_server.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/rdma/handle_body.h"
#include "common/rdma/handshake.h"

namespace nova {
namespace {

constexpr Nanos kOverduePeriod = kSecond;

// On the control thread.
void DeleteLogFiles(FileStore* files, RangeId range, Epoch epoch_below) {
  const Status s = files->logs()->DeleteLogs(range, epoch_below);
  // collected later (collection, N4)
  if (!s.ok()) NOVA_LOG(WARNING) << "deleting logs of range " << range.value() << ": " << s;
}

}  // namespace

StocServer::StocServer(const StocServerOptions& options, const StocParts& parts, std::vector<Xchg*> xchgs)
    : options_(options),
      parts_(parts),
      lanes_(xchgs.size()),
      malformed_(parts.metrics->counter("nova_stoc_malformed_requests_total")),
      fenced_(parts.metrics->counter("nova_stoc_fenced_requests_total")),
      busy_(parts.metrics->counter("nova_stoc_busy_requests_total")),
      control_work_(parts.metrics->counter("nova_stoc_control_work_total")),
      corrupt_(parts.metrics->counter("nova_stoc_corrupt_writes_total")),
      disk_ns_(parts.metrics->histogram("nova_stoc_disk_operation_ns")),
      log_writer_(options.log, parts.files->logs(), parts.fences, parts.metrics),
      copy_bandwidth_(options.copy_bytes_per_second),
      copy_reads_(&copy_bandwidth_),
      copier_(options.copier, parts.others, parts.files, parts.fences, &copy_bandwidth_, parts.metrics),
      compactor_(
          options.compactor, options.stoc, parts.others, parts.files, parts.fences,
          [this] { return depth_.load(std::memory_order_relaxed) > 0 || log_writer_.HasWork(); },
          parts.metrics),
      storage_queue_(options.storage_threads, options.storage_queue),
      control_queue_(options.control_queue) {
  for (size_t i = 0; i < xchgs.size(); ++i) {
    lanes_[i].xchg = xchgs[i];
    Register(i);
  }
  control_ = std::make_unique<Thread>("stoc.control.0", [this] {
    while (auto work = control_queue_.Pop()) (*work)();
  });
  for (int i = 0; i < options.storage_threads; ++i) {
    storage_.push_back(std::make_unique<Thread>(StrCat("stoc.storage.", i), [this, i] {
      while (StorageQueue::Work work = storage_queue_.Pop(i)) work();
    }));
  }
  RecycleSoon();
}

StocServer::~StocServer() { Stop(); }

void StocServer::Stop() {
  log_writer_.Stop();
  copier_.Stop();
  compactor_.Stop();
  copy_reads_.Stop();
  storage_queue_.Close();
  for (auto& thread : storage_) thread->Join();
  control_queue_.Close();
  control_->Join();
}

// --- receiving

template <typename Request>
void StocServer::Handle(size_t lane, StocRequest type, const char* name,
                        void (StocServer::*handler)(const Caller&, const Request&)) {
  Counter* const received = parts_.metrics->counter(StrCat("nova_stoc_requests_total{type=\"", name, "\"}"));
  HandleBody<Request>(lanes_[lane].xchg, type, malformed_,
                      [this, lane, received, handler](const IncomingCall& call, const Request& request) {
                        received->Add();
                        const Caller caller{lane, call.connection, call.request_id, call.deadline_ns};
                        if (SessionOf(caller) == nullptr && !BeginSession(caller, *call.peer)) return;
                        (this->*handler)(caller, request);
                      });
}

void StocServer::Register(size_t lane) {
  Xchg* const xchg = lanes_[lane].xchg;
  Handle(lane, StocRequest::kOpenSegment, "open_segment", &StocServer::OpenSegment);
  Handle(lane, StocRequest::kOpenLogFile, "open_log_file", &StocServer::OpenLogFile);
  Handle(lane, StocRequest::kAppendLog, "append_log", &StocServer::AppendLog);
  Handle(lane, StocRequest::kFreeLogs, "free_logs", &StocServer::FreeLogs);
  Handle(lane, StocRequest::kFence, "fence", &StocServer::Fence);
  Handle(lane, StocRequest::kFreeFenced, "free_fenced", &StocServer::FreeFenced);
  Handle(lane, StocRequest::kOpenFile, "open_file", &StocServer::OpenFile);
  Handle(lane, StocRequest::kPersistFile, "persist_file", &StocServer::PersistFile);
  Handle(lane, StocRequest::kWriteSmallFile, "write_small_file", &StocServer::WriteSmallFile);
  Handle(lane, StocRequest::kAppendFile, "append_file", &StocServer::AppendFile);
  Handle(lane, StocRequest::kReadFile, "read_file", &StocServer::ReadFile);
  Handle(lane, StocRequest::kAddReferences, "add_references", &StocServer::AddReferences);
  Handle(lane, StocRequest::kDropReferences, "drop_references", &StocServer::DropReferences);
  Handle(lane, StocRequest::kListFiles, "list_files", &StocServer::ListFiles);
  Handle(lane, StocRequest::kCopyFile, "copy_file", &StocServer::CopyFile);
  Handle(lane, StocRequest::kReadForCopy, "read_for_copy", &StocServer::ReadForCopy);
  Handle(lane, StocRequest::kListUnreadable, "list_unreadable", &StocServer::ListUnreadable);
  Handle(lane, StocRequest::kDropUnreadable, "drop_unreadable", &StocServer::DropUnreadable);
  Handle(lane, StocRequest::kCompact, "compact", &StocServer::Compact);
  Handle(lane, StocRequest::kCancelJob, "cancel_job", &StocServer::CancelJob);
  Handle(lane, StocRequest::kPing, "ping", &StocServer::Ping);
  xchg->HandleDisconnect([this, lane](ConnectionId connection) { SessionGone(lane, connection); });
  xchg->AddTimer(kOverduePeriod, [this, lane] { CloseOverdue(lane); });
  xchg->SetQueueDepthSource([this] { return queue_depth(); });
}

// --- sessions (handshake F3, exposed memory F4)

Status StocServer::AcceptPeer(const Hello& peer) {
  if (peer.incarnation == 0) return OkStatus();
  const std::string name(NameOf(peer));
  {
    MutexLock lock(&mu_);
    uint64_t& latest = latest_[name];
    if (peer.incarnation < latest)
      return absl::FailedPreconditionError("a later process of this name has connected");
    if (peer.incarnation == latest) return OkStatus();
    latest = peer.incarnation;
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].xchg->Submit(
        [this, i, name, incarnation = peer.incarnation] { CloseOlder(i, name, incarnation); });
  }
  return OkStatus();
}

// False: a later incarnation of the peer is known, and this connection slipped through before it was (F3).
bool StocServer::BeginSession(const Caller& caller, const Hello& peer) {
  const std::string name(NameOf(peer));
  {
    MutexLock lock(&mu_);
    const auto latest = latest_.find(name);
    if (peer.incarnation != 0 && latest != latest_.end() && peer.incarnation < latest->second) {
      lanes_[caller.lane].xchg->Close(caller.connection);
      return false;
    }
  }
  Session& session = lanes_[caller.lane].sessions[caller.connection];
  session.name = name;
  session.incarnation = peer.incarnation;
  return true;
}

void StocServer::CloseOlder(size_t lane, const std::string& name, uint64_t incarnation) {
  std::vector<ConnectionId> older;
  for (const auto& [connection, session] : lanes_[lane].sessions) {
    if (session.name == name && session.incarnation < incarnation) older.push_back(connection);
  }
  for (const ConnectionId connection : older) lanes_[lane].xchg->Close(connection);
}

// A client that has had a buffer for so long has forgotten it, but its WRITE may still be under way.
void StocServer::CloseOverdue(size_t lane) {
  const Nanos oldest = Now() - options_.file_buffer_deadline_ns;
  std::vector<ConnectionId> overdue;
  for (const auto& [connection, session] : lanes_[lane].sessions) {
    const auto& buffers = session.buffers;
    if (!buffers.empty() && buffers.begin()->second.opened_ns < oldest) overdue.push_back(connection);
  }
  for (const ConnectionId connection : overdue) {
    NOVA_LOG(WARNING) << "file buffers of " << lanes_[lane].sessions[connection].name
                      << " are overdue: its connection is closed";
    lanes_[lane].xchg->Close(connection);
  }
}

void StocServer::SessionGone(size_t lane, ConnectionId connection) {
  lanes_[lane].sessions.erase(connection);
  const SessionId session{static_cast<uint32_t>(lane), connection};
  parts_.log_memory->SessionGone(session);
  parts_.buffer_memory->SessionGone(session);
  RecycleSoon();
}

StocServer::Session* StocServer::SessionOf(const Caller& caller) {
  auto& sessions = lanes_[caller.lane].sessions;
  const auto it = sessions.find(caller.connection);
  return it == sessions.end() ? nullptr : &it->second;
}

// --- answering, handing over

void StocServer::Reply(const Caller& caller, Outcome outcome, std::string_view body, std::string_view rest) {
  if (outcome == Outcome::kNotOwner) fenced_->Add();
  if (outcome == Outcome::kBusy) busy_->Add();
  if (outcome == Outcome::kCorruption) corrupt_->Add();
  const std::string_view parts[] = {body, rest};
  lanes_[caller.lane].xchg->Reply(caller.connection, caller.request_id, outcome, parts);
}

template <typename Message>
void StocServer::ReplyWith(const Caller& caller, const Message& message) {
  Reply(caller, Outcome::kOk, Body(message));
}

void StocServer::ReplyLater(const Caller& caller, Outcome outcome, std::string body) {
  lanes_[caller.lane].xchg->Submit(
      [this, caller, outcome, body = std::move(body)] { Reply(caller, outcome, body); });
}

bool StocServer::OnStorage(const Caller& caller, StorageWork work, StorageQueue::Lane lane) {
  depth_.fetch_add(1, std::memory_order_relaxed);
  const bool queued = storage_queue_.TryPush(lane, [this, caller, work = std::move(work)]() mutable {
    Answer answer{Outcome::kDeadlineExceeded};
    const Nanos begin = Now();
    if (begin < caller.deadline_ns) {
      answer = work();
      disk_ns_->Add(static_cast<uint64_t>(Now() - begin));
    }
    depth_.fetch_sub(1, std::memory_order_relaxed);  // before the answer, which tells the depth
    lanes_[caller.lane].xchg->Submit(
        [this, caller, answer = std::move(answer)]() mutable { Finish(caller, std::move(answer)); });
  });
  if (!queued) depth_.fetch_sub(1, std::memory_order_relaxed);
  return queued;
}

void StocServer::Finish(const Caller& caller, Answer answer) {
  // In order: its WRITE came before the request. But only as long as there is a session to keep it for.
  if (answer.memory && SessionOf(caller) != nullptr) answer.memory.ReturnInOrder(caller.session());
  Reply(caller, answer.outcome, answer.body, answer.rest);
}

bool StocServer::OnControl(Work work) {
  control_work_->Add();
  return control_queue_.TryPush(std::move(work));
}

void StocServer::RecycleSoon() {
  if (recycling_.exchange(true)) return;
  const bool queued = OnControl([this] {
    recycling_.store(false);
    parts_.log_memory->Recycle();
    parts_.buffer_memory->Recycle();
  });
  if (!queued) recycling_.store(false);
}

// --- segments

void StocServer::OpenSegment(const Caller& caller, const OpenSegmentRequest& request) {
  // Incarnation (N1): a group lists incarnations; a segment of another one would be acknowledged into and
  // never be found by recovery.
  if (request.incarnation != options_.incarnation && !options_.off.n1_incarnation)
    return Reply(caller, Outcome::kUnavailable);
  if (request.size == 0 || request.size > parts_.log_memory->options().max_bytes)
    return Reply(caller, Outcome::kInvalidArgument);
  const FenceTable::Scope scope(parts_.fences, request.range, request.epoch);
  if (!scope.entered()) return Reply(caller, Outcome::kNotOwner);
  const auto opened = parts_.segments->Open(request, caller.session());
  RecycleSoon();  // the next one finds a spare
  if (opened) {
    if (opened->outcome != Outcome::kOk) return Reply(caller, opened->outcome);
    return ReplyWith(caller, OpenSegmentReply{opened->memory});
  }
  const bool queued = OnControl([this, caller, request] {
    SegmentPool::Opened slow{Outcome::kNotOwner, {}};
    {
      const FenceTable::Scope inside(parts_.fences, request.range, request.epoch);
      if (inside.entered()) slow = parts_.segments->OpenSlow(request, caller.session());
    }
    lanes_[caller.lane].xchg->Submit([this, caller, slow] {
      --lanes_[caller.lane].slow_opens;
      if (slow.outcome != Outcome::kOk) return Reply(caller, slow.outcome);
      ReplyWith(caller, OpenSegmentReply{slow.memory});
    });
  });
  if (!queued) return Reply(caller, Outcome::kBusy);
  ++lanes_[caller.lane].slow_opens;
}

void StocServer::FreeLogs(const Caller& caller, const FreeLogsRequest& request) {
  if (lanes_[caller.lane].slow_opens > 0) {
    // Behind the opens that came before it, one of which may be of the same log.
    const bool queued = OnControl([this, caller, request] {
      lanes_[caller.lane].xchg->Submit([this, caller, request] { FreeLogsNow(caller, request); });
    });
    if (!queued) Reply(caller, Outcome::kBusy);
    return;
  }
  FreeLogsNow(caller, request);
}

void StocServer::FreeLogsNow(const Caller& caller, const FreeLogsRequest& request) {
  const FenceTable::Scope scope(parts_.fences, request.range, request.epoch);
  if (!scope.entered()) return Reply(caller, Outcome::kNotOwner);
  // Of a connection that is gone nothing may become warm: no order says that all of its writes have arrived.
  parts_.segments->FreeLogs(request, SessionOf(caller) != nullptr ? caller.session() : SessionId());
  RecycleSoon();
  std::vector<StocFileId> files;
  for (const Uuid& log : request.logs) {
    const auto file = parts_.files->Find({log, 0});
    if (file && file->creator == Creator{request.range, request.epoch}) files.push_back(file->file);
  }
  if (files.empty()) return Reply(caller, Outcome::kOk);
  const bool queued = OnStorage(caller, [this, request, files = std::move(files)] {
    // else a recovery is reading them
    const FenceTable::Scope inside(parts_.fences, request.range, request.epoch);
    return Answer{inside.entered() ? ToOutcome(parts_.files->DeleteFiles(files)) : Outcome::kNotOwner};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::OpenLogFile(const Caller& caller, const OpenLogFileRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  if (request.incarnation != options_.incarnation) return Reply(caller, Outcome::kUnavailable);
  const bool queued = OnStorage(caller, [this, request] {
    const FenceTable::Scope scope(parts_.fences, request.range, request.epoch);
    if (!scope.entered()) return Answer{Outcome::kNotOwner};
    return Answer{ToOutcome(parts_.files->logs()->CreateLog(request.log, {request.range, request.epoch}))};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::AppendLog(const Caller& caller, const AppendLogRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  if (Crc32c(request.bytes) != request.crc) return Reply(caller, Outcome::kCorruption);
  const bool queued = log_writer_.Append(request, [this, caller](Outcome o) { ReplyLater(caller, o); });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::Fence(const Caller& caller, const RangeEpochRequest& request) {
  const bool raised = parts_.fences->Raise(request.range, request.epoch, [this, caller, request] {
    const bool queued = OnControl([this, caller, request] {
      auto sealed = parts_.segments->Seal(request.range, request.epoch);
      if (!sealed.ok()) {
        NOVA_LOG(ERROR) << "sealing segments of range " << request.range.value() << ": " << sealed.status();
        return ReplyLater(caller, Outcome::kUnavailable);
      }
      const FenceReply reply{options_.incarnation, options_.store, *std::move(sealed),
                             parts_.files->logs()->SealLogs(request.range, request.epoch),
                             parts_.files->unreadable()->Logs()};
      ReplyLater(caller, Outcome::kOk, Body(reply));
    });
    if (!queued) ReplyLater(caller, Outcome::kBusy);
  });
  if (!raised) Reply(caller, Outcome::kNotOwner);
}

void StocServer::FreeFenced(const Caller& caller, const RangeEpochRequest& request) {
  const bool raised = parts_.fences->Raise(request.range, request.epoch, [this, caller, request] {
    const bool queued = OnControl([this, caller, request] {
      if (!options_.off.r6_free) parts_.segments->FreeSealed(request.range, request.epoch);
      parts_.log_memory->Recycle();
      DeleteLogFiles(parts_.files, request.range, request.epoch);
      ReplyLater(caller, Outcome::kOk);
    });
    if (!queued) ReplyLater(caller, Outcome::kBusy);
  });
  if (!raised) Reply(caller, Outcome::kNotOwner);
}

void StocServer::FenceOnBehalf(RangeId range, Epoch epoch, bool free) {
  parts_.fences->Raise(range, epoch, [this, range, epoch, free] {
    OnControl([this, range, epoch, free] {
      if (free && !options_.off.r6_free) {
        parts_.segments->FreeSealed(range, epoch);
        parts_.log_memory->Recycle();
        DeleteLogFiles(parts_.files, range, epoch);
      } else if (const auto sealed = parts_.segments->Seal(range, epoch); !sealed.ok()) {
        NOVA_LOG(ERROR) << "sealing segments of range " << range.value() << ": " << sealed.status();
      }
    });
  });
}

bool StocServer::HoldsBelow(RangeId range, Epoch epoch) const {
  return parts_.segments->HasBelow(range, epoch) || parts_.files->logs()->HasLogs(range, epoch);
}

// --- files

bool StocServer::Refused(const Caller& caller, RangeId range, Epoch epoch) {
  if (parts_.fences->Admits(range, epoch)) return false;
  Reply(caller, Outcome::kNotOwner);
  return true;
}

void StocServer::OpenFile(const Caller& caller, const OpenFileRequest& request) {
  if (Refused(caller, request.creator.range, request.creator.epoch)) return;
  if (request.size > parts_.buffer_memory->options().max_bytes)
    return Reply(caller, Outcome::kInvalidArgument);
  if (auto memory = parts_.buffer_memory->TryTake(request.size, caller.session())) {
    return GiveBuffer(caller, request, std::move(memory));
  }
  const bool queued = OnControl([this, caller, request] {
    auto memory = parts_.buffer_memory->Take(request.size, caller.session());
    if (!memory.ok()) return ReplyLater(caller, Outcome::kBusy);
    lanes_[caller.lane].xchg->Submit([this, caller, request, memory = *std::move(memory)]() mutable {
      GiveBuffer(caller, request, std::move(memory));
    });
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::GiveBuffer(const Caller& caller, const OpenFileRequest& request,
                            ExposedMemory::Piece memory) {
  Session* const session = SessionOf(caller);
  if (session == nullptr) return RecycleSoon();  // the connection is gone; so is the memory, to quarantine
  const uint64_t id = lanes_[caller.lane].next_buffer++;
  const RemoteBuffer remote{reinterpret_cast<uint64_t>(memory.data()), request.size, memory.region().rkey, 0};
  session->buffers[id] = {std::move(memory), request.file, request.creator, request.size, Now()};
  ReplyWith(caller, OpenFileReply{id, remote});
}

void StocServer::PersistFile(const Caller& caller, const PersistFileRequest& request) {
  Session* const session = SessionOf(caller);
  const auto it = session->buffers.find(request.buffer);
  // opened over another connection
  if (it == session->buffers.end()) return Reply(caller, Outcome::kNotFound);
  FileBuffer buffer = std::move(it->second);
  session->buffers.erase(it);
  const bool queued = OnStorage(caller, [this, request, buffer = std::move(buffer)]() mutable {
    const Outcome outcome = Persist(buffer, request);
    return Answer{outcome, {}, std::move(buffer.memory)};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

Outcome StocServer::Persist(const FileBuffer& buffer, const PersistFileRequest& request) {
  const FenceTable::Scope scope(parts_.fences, buffer.creator.range, buffer.creator.epoch);
  if (!scope.entered()) return Outcome::kNotOwner;
  if (request.size > buffer.size) return Outcome::kInvalidArgument;
  const std::string_view data(reinterpret_cast<const char*>(buffer.memory.data()), request.size);
  if (Crc32c(data) != request.crc) return Outcome::kCorruption;
  return ToOutcome(parts_.files->WriteFile(buffer.file, buffer.creator, data, request.crc));
}

void StocServer::WriteSmallFile(const Caller& caller, const WriteSmallFileRequest& request) {
  if (Refused(caller, request.creator.range, request.creator.epoch)) return;
  if (Crc32c(request.bytes) != request.crc) return Reply(caller, Outcome::kCorruption);
  const bool queued = OnStorage(caller, [this, request, bytes = std::string(request.bytes)] {
    const FenceTable::Scope scope(parts_.fences, request.creator.range, request.creator.epoch);
    if (!scope.entered()) return Answer{Outcome::kNotOwner};
    return Answer{ToOutcome(parts_.files->WriteFile(request.file, request.creator, bytes, request.crc))};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::AppendFile(const Caller& caller, const AppendFileRequest& request) {
  if (Refused(caller, request.creator.range, request.creator.epoch)) return;
  if (Crc32c(request.bytes) != request.crc) return Reply(caller, Outcome::kCorruption);
  const bool queued = OnStorage(caller, [this, request, bytes = std::string(request.bytes)] {
    // Manifest (M1): while this is inside a FENCE waits; before and after, it wins.
    const FenceTable::Scope scope(parts_.fences, request.creator.range, request.creator.epoch);
    if (!scope.entered()) return Answer{Outcome::kNotOwner};
    return Answer{ToOutcome(
        parts_.files->AppendFile(request.file, request.creator, request.offset, request.create, bytes))};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::ReadFile(const Caller& caller, const ReadFileRequest& request) {
  lanes_[caller.lane].xchg->ExpectReply(caller.request_id, request.size);
  const bool queued = OnStorage(
      caller,
      [this, request] {
        auto bytes = parts_.files->ReadFile(request.file, request.offset, request.size);
        return bytes.ok() ? Answer{Outcome::kOk, *std::move(bytes)} : Answer{ToOutcome(bytes.status())};
      },
      request.size <= StorageQueue::kShortReadBytes ? StorageQueue::Lane::kShortReads
                                                    : StorageQueue::Lane::kOther);
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::AddReferences(const Caller& caller, const AddReferencesRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  const bool queued = OnStorage(caller, [this, request] {
    const FenceTable::Scope scope(parts_.fences, request.range, request.epoch);
    if (!scope.entered()) return Answer{Outcome::kNotOwner};
    return Answer{
        ToOutcome(parts_.files->references()->AddReferences(request.range, request.epoch, request.files))};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::DropReferences(const Caller& caller, const DropReferencesRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  const bool queued = OnStorage(caller, [this, request] {
    NOVA_FP_VOID("stoc.drop_begun");
    const FenceTable::Scope scope(parts_.fences, request.range, request.epoch);
    if (!scope.entered()) return Answer{Outcome::kNotOwner};
    return Answer{ToOutcome(parts_.files->references()->DropReferences(request.range, request.epoch,
                                                                       request.files, request.ended_below))};
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::ListFiles(const Caller& caller, const ListFilesRequest& request) {
  const bool queued = OnStorage(caller, [this, request] {
    ListFilesReply reply{
        parts_.files->List(request.range, request.epoch_below, request.after, kMaxListedFiles)};
    for (const FileSummary& f : reply.files) {
      if (f.damaged) reply.damaged.push_back(f.file);
    }
    Answer answer;
    answer.body = Body(reply);
    return answer;
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

// --- files without a header that can be read (collection, N4)

void StocServer::ListUnreadable(const Caller& caller, const ListUnreadableRequest&) {
  ReplyWith(caller, ListUnreadableReply{parts_.files->unreadable()->List(kMaxListedFiles)});
}

void StocServer::DropUnreadable(const Caller& caller, const DropUnreadableRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  for (const StocFileId& file : request.files) parts_.files->unreadable()->Drop(request.range, file);
  Reply(caller, Outcome::kOk);
}

// --- copies of files from StoC to StoC

void StocServer::CopyFile(const Caller& caller, const CopyFileRequest& request) {
  if (Refused(caller, request.creator.range, request.creator.epoch)) return;
  const bool queued =
      copier_.Copy(request, caller.deadline_ns, [this, caller](Outcome outcome, CopyFault fault) {
        ReplyLater(caller, outcome, Body(CopyFileReply{fault}));
      });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::ReadForCopy(const Caller& caller, const ReadForCopyRequest& request) {
  const auto whole = parts_.files->FindWhole(request.file);
  if (!whole.ok()) return Reply(caller, ToOutcome(whole.status()));
  const uint64_t left = request.offset < whole->size ? whole->size - request.offset : 0;
  const uint64_t bytes = std::min<uint64_t>(request.size, left);
  lanes_[caller.lane].xchg->ExpectReply(caller.request_id, bytes);
  const bool waits = copy_reads_.Add(
      bytes, caller.deadline_ns,
      [this, caller, request, whole = *whole](CopyReads::Turn turn, Nanos start_ns) mutable {
        Xchg* const xchg = lanes_[caller.lane].xchg;
        xchg->Submit([this, caller, request, whole, xchg, start_ns, turn = std::move(turn)]() mutable {
          if (start_ns <= Now()) return ReadPiece(caller, request, whole, std::move(turn));
          xchg->RunAt(start_ns, [this, caller, request, whole, turn = std::move(turn)]() mutable {
            ReadPiece(caller, request, whole, std::move(turn));
          });
        });
      });
  if (!waits) Reply(caller, Outcome::kBusy);
}

void StocServer::ReadPiece(const Caller& caller, const ReadForCopyRequest& request,
                           const FileStore::WholeFile& whole, CopyReads::Turn turn) {
  const bool queued = OnStorage(caller, [this, request, whole, turn = std::move(turn)] {
    if (const Status s = NOVA_FP_STATUS("stoc.copy_read"); !s.ok()) return Answer{ToOutcome(s)};
    auto bytes = parts_.files->ReadFile(request.file, request.offset, request.size);
    if (!bytes.ok()) return Answer{ToOutcome(bytes.status())};
    Answer answer{Outcome::kOk, Body(ReadForCopyReply{whole.size, whole.crc, {}})};
    answer.rest = *std::move(bytes);
    return answer;
  });
  if (!queued) Reply(caller, Outcome::kBusy);
}

// --- compaction jobs of LTCs (attempt, M6)

void StocServer::Compact(const Caller& caller, const CompactRequest& request) {
  if (Refused(caller, request.creator.range, request.creator.epoch)) return;
  if (Crc32c(request.bytes) != request.crc) return Reply(caller, Outcome::kCorruption);
  const Outcome begun = compactor_.Start(
      request, caller.deadline_ns,
      [this, caller](Outcome outcome, std::string body) { ReplyLater(caller, outcome, std::move(body)); });
  if (begun != Outcome::kOk) Reply(caller, begun);
}

void StocServer::CancelJob(const Caller& caller, const CancelJobRequest& request) {
  if (Refused(caller, request.range, request.epoch)) return;
  const bool queued = OnStorage(caller, [this, request] { return Answer{compactor_.Cancel(request)}; });
  if (!queued) Reply(caller, Outcome::kBusy);
}

void StocServer::Ping(const Caller& caller, const PingRequest&) {
  ReplyWith(caller, PingReply{options_.incarnation});
}

}  // namespace nova
