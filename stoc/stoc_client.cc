#include "stoc/stoc_client.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/wait_group.h"
#include "stoc/file_transfer.h"
#include "stoc/known_stocs.h"
#include "stoc/stoc_calls.h"

namespace nova {
namespace {

constexpr uint32_t kReadRequestBytes = 8 << 20;
constexpr Nanos kDeleteLaterDeadline = 10 * kSecond;

}  // namespace

struct StocClient::Rep {
  Rep(Fabric* fabric, std::vector<Xchg*> xchgs, const StocClientOptions& options)
      : stocs(xchgs), calls(std::move(xchgs), &stocs), transfer(fabric, options.transfer_bytes, &calls) {}

  KnownStocs stocs;
  StocCalls calls;
  FileTransfer transfer;

  // As many requests as it takes; again is no error, so each is tried until the deadline. Stops at the first
  // that fails.
  Status ChangeReferences(StocId stoc, StocRequest type, std::string_view what,
                          const FileReferencesRequest& all, Nanos deadline_ns) {
    for (auto next = all.files.begin(); next != all.files.end();) {
      const auto end = next + std::min(static_cast<ptrdiff_t>(kMaxFilesOfReferences), all.files.end() - next);
      std::string body;
      AppendBody(FileReferencesRequest{all.range, all.epoch, {next, end}}, &body);
      const Outcome o = calls.CallAndWait(stoc, type, body, deadline_ns).outcome;
      NOVA_RETURN_IF_ERROR(calls.StatusOf(stoc, what, o));
      next = end;
    }
    return OkStatus();
  }

  struct FenceCall;
  void TryFence(std::unique_ptr<FenceCall> c);
  StatusOr<FenceReply> FenceAnswer(StocId stoc, Outcome outcome, std::string_view body) const;
};

// --- the StoCs there are

StocClient::StocClient(Fabric* fabric, std::vector<Xchg*> xchgs, const StocClientOptions& options)
    : rep_(std::make_unique<Rep>(fabric, std::move(xchgs), options)) {}
StocClient::~StocClient() = default;

void StocClient::UpdateStocs(const std::vector<NodeInfo>& live) { rep_->stocs.Update(live); }
std::vector<NodeInfo> StocClient::live() const { return rep_->stocs.live(); }
std::optional<NodeInfo> StocClient::Find(StocId id) const { return rep_->stocs.Find(id); }
bool StocClient::IsLive(StocId id) const { return rep_->stocs.IsLive(id); }
uint32_t StocClient::queue_depth(StocId id) const { return rep_->stocs.queue_depth(id); }
Peer* StocClient::peer(Xchg* xchg, StocId stoc, Incarnation incarnation) {
  return rep_->stocs.FindPeer(xchg, stoc, incarnation);
}

// --- async

void StocClient::OpenSegment(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                             uint32_t index, uint64_t size, Nanos deadline_ns,
                             absl::AnyInvocable<void(Outcome, RemoteBuffer)> done) {
  const KnownStocs::Target* const target = rep_->stocs.FindTarget(xchg, member.stoc);
  if (target == nullptr || target->incarnation > member.incarnation) {  // unknown, or it has restarted
    xchg->Submit([done = std::move(done)]() mutable { done(Outcome::kUnavailable, {}); });
    return;
  }
  std::string body;
  AppendBody(OpenSegmentRequest{range, epoch, member.incarnation, log, index, size}, &body);
  const std::string_view whole = body;
  StocCalls::Call(xchg, *target, StocRequest::kOpenSegment, {&whole, 1}, deadline_ns,
                  [size, done = std::move(done)](Outcome o, std::string_view reply_body) mutable {
                    OpenSegmentReply reply;
                    if (o == Outcome::kOk && (!ParseBody(reply_body, &reply) || reply.memory.size < size)) {
                      o = Outcome::kInternal;
                    }
                    done(o, reply.memory);
                  });
}

void StocClient::OpenLogFile(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                             Nanos deadline_ns, OpDone done) {
  std::string body;
  AppendBody(OpenLogFileRequest{range, epoch, member.incarnation, log}, &body);
  rep_->calls.Call(xchg, member.stoc, StocRequest::kOpenLogFile, body, deadline_ns,
                   [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::AppendLog(Xchg* xchg, StocId stoc, const AppendLogRequest& request, Nanos deadline_ns,
                           OpDone done) {
  std::string head;
  AppendBody(request, &head);
  const std::string_view parts[] = {head, request.bytes};
  rep_->calls.Call(xchg, stoc, StocRequest::kAppendLog, parts, deadline_ns,
                   [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::FreeLogs(Xchg* xchg, StocId stoc, RangeId range, Epoch epoch, const std::vector<Uuid>& logs,
                          OpDone done) {
  std::string body;
  AppendBody(FreeLogsRequest{range, epoch, logs}, &body);
  rep_->calls.Call(xchg, stoc, StocRequest::kFreeLogs, body, Now() + kDeleteLaterDeadline,
                   [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::ReadFile(Xchg* xchg, StocId stoc, const StocFileId& file, uint64_t offset, uint32_t size,
                          Nanos deadline_ns, absl::AnyInvocable<void(Outcome, std::string_view)> done) {
  std::string body;
  AppendBody(ReadFileRequest{file, offset, size}, &body);
  rep_->calls.Call(xchg, stoc, StocRequest::kReadFile, body, deadline_ns, std::move(done));
}

void StocClient::Ping(Xchg* xchg, StocId stoc, Nanos deadline_ns,
                      absl::AnyInvocable<void(Outcome, Incarnation)> done) {
  rep_->calls.Call(xchg, stoc, StocRequest::kPing, std::string_view(), deadline_ns,
                   [done = std::move(done)](Outcome o, std::string_view body) mutable {
                     PingReply reply;
                     if (o == Outcome::kOk && !ParseBody(body, &reply)) o = Outcome::kInternal;
                     done(o, reply.incarnation);
                   });
}

void StocClient::DropReferencesLater(StocId stoc, RangeId range, Epoch epoch, std::vector<StocFileId> files) {
  Xchg* const xchg = rep_->calls.NextXchg();
  xchg->Submit(
      [rep = rep_.get(), xchg, stoc, request = FileReferencesRequest{range, epoch, std::move(files)}] {
        std::string body;
        AppendBody(request, &body);
        rep->calls.Call(xchg, stoc, StocRequest::kDropReferences, body, Now() + kDeleteLaterDeadline,
                        [](Outcome, std::string_view) {});
      });
}

// --- fencing

StatusOr<FenceReply> StocClient::Rep::FenceAnswer(StocId stoc, Outcome outcome, std::string_view body) const {
  NOVA_RETURN_IF_ERROR(calls.StatusOf(stoc, "fencing", outcome));
  FenceReply reply;
  if (!ParseBody(body, &reply)) return calls.StatusOf(stoc, "fencing: malformed reply", Outcome::kInternal);
  return reply;
}

StatusOr<FenceReply> StocClient::Fence(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns) {
  std::string body;
  AppendBody(RangeEpochRequest{range, epoch}, &body);
  const auto r = rep_->calls.CallAndWait(stoc, StocRequest::kFence, body, deadline_ns);
  return rep_->FenceAnswer(stoc, r.outcome, r.body);
}

struct StocClient::Rep::FenceCall {
  Xchg* xchg;
  StocId stoc;
  std::string body;
  Nanos deadline_ns;
  absl::AnyInvocable<void(StatusOr<FenceReply>)> done;
  int tries = 0;
};

void StocClient::StartFence(StocId stoc, RangeId range, Epoch epoch, Nanos start_ns, Nanos deadline_ns,
                            absl::AnyInvocable<void(StatusOr<FenceReply>)> done) {
  Xchg* const xchg = rep_->calls.NextXchg();
  auto call = std::make_unique<Rep::FenceCall>(Rep::FenceCall{xchg, stoc, {}, deadline_ns, std::move(done)});
  AppendBody(RangeEpochRequest{range, epoch}, &call->body);
  xchg->Submit([rep = rep_.get(), start_ns, call = std::move(call)]() mutable {
    if (start_ns <= Now()) return rep->TryFence(std::move(call));
    Xchg* const on = call->xchg;
    on->RunAt(start_ns, [rep, call = std::move(call)]() mutable { rep->TryFence(std::move(call)); });
  });
}

void StocClient::Rep::TryFence(std::unique_ptr<FenceCall> c) {
  const FenceCall& request = *c;
  calls.Call(request.xchg, request.stoc, StocRequest::kFence, request.body, request.deadline_ns,
             [this, call = std::move(c)](Outcome o, std::string_view answer) mutable {
               const Nanos again = Now() + StocCalls::PauseAfter(call->tries++);
               if (o != Outcome::kBusy || again >= call->deadline_ns) {
                 return call->done(FenceAnswer(call->stoc, o, answer));
               }
               Xchg* const on = call->xchg;
               on->RunAt(again, [this, call = std::move(call)]() mutable { TryFence(std::move(call)); });
             });
}

// --- blocking: logs

Status StocClient::FreeFenced(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns) {
  std::string body;
  AppendBody(RangeEpochRequest{range, epoch}, &body);
  return rep_->calls.StatusOf(
      stoc, "freeing fenced segments",
      rep_->calls.CallAndWait(stoc, StocRequest::kFreeFenced, body, deadline_ns).outcome);
}

StatusOr<std::string> StocClient::ReadRemote(StocId stoc, Incarnation incarnation, const RemoteBuffer& memory,
                                             Nanos deadline_ns) {
  return rep_->transfer.ReadRemote(stoc, incarnation, memory, deadline_ns);
}

// --- blocking: files

Status StocClient::WriteAll(const std::vector<FileWrite>& files, const Creator& creator, Nanos deadline_ns) {
  return rep_->transfer.WriteAll(files, creator, deadline_ns);
}

Status StocClient::WriteFile(StocId stoc, const StocFileId& file, const Creator& creator,
                             std::string_view data, Nanos deadline_ns) {
  return WriteAll({{file, {stoc}, data}}, creator, deadline_ns);
}

Status StocClient::AppendFile(const std::vector<StocId>& stocs, const StocFileId& file,
                              const Creator& creator, uint64_t offset, bool create, std::string_view data,
                              Nanos deadline_ns) {
  if (data.size() > kMaxAppendBytes)
    return absl::InvalidArgumentError(StrCat("an append of ", data.size(), " bytes"));
  std::string head;
  AppendBody(AppendFileRequest{file, creator, offset, create, Crc32c(data), {}}, &head);
  std::vector<StocId> missing = stocs;
  for (int tries = 0;; ++tries) {
    std::vector<Outcome> outcomes(missing.size(), Outcome::kUnavailable);
    auto all = std::make_shared<WaitGroup>();
    for (size_t i = 0; i < missing.size(); ++i) {
      Xchg* const xchg = rep_->calls.NextXchg();
      xchg->Submit(
          [&, xchg, stoc = missing[i], outcome = &outcomes[i], part = WaitGroup::Part(all)]() mutable {
            const std::string_view parts[] = {head, data};
            rep_->calls.Call(xchg, stoc, StocRequest::kAppendFile, parts, deadline_ns,
                             [outcome, part = std::move(part)](Outcome o, std::string_view) mutable {
                               *outcome = o;
                               part.End();
                             });
          });
    }
    all->Wait();
    Status status;
    std::vector<StocId> busy;
    for (size_t i = 0; i < missing.size(); ++i) {
      if (outcomes[i] == Outcome::kBusy) busy.push_back(missing[i]);
      if (outcomes[i] == Outcome::kOk || (!status.ok() && outcomes[i] != Outcome::kNotOwner)) continue;
      status = rep_->calls.StatusOf(missing[i], StrCat("appending to ", file.ToString()), outcomes[i]);
    }
    const bool only_busy = !busy.empty() && std::count(outcomes.begin(), outcomes.end(), Outcome::kOk) +
                                                    static_cast<ptrdiff_t>(busy.size()) ==
                                                static_cast<ptrdiff_t>(missing.size());
    if (!only_busy || !StocCalls::Pause(tries, deadline_ns)) return status;
    missing = std::move(busy);
  }
}

StatusOr<std::string> StocClient::ReadFileBlocking(StocId stoc, const StocFileId& file, uint64_t offset,
                                                   uint64_t size, Nanos deadline_ns) {
  std::string bytes;
  while (bytes.size() < size) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kReadRequestBytes, size - bytes.size()));
    std::string body;
    AppendBody(ReadFileRequest{file, offset + bytes.size(), n}, &body);
    auto r = rep_->calls.CallAndWait(stoc, StocRequest::kReadFile, body, deadline_ns);
    NOVA_RETURN_IF_ERROR(rep_->calls.StatusOf(stoc, StrCat("reading ", file.ToString()), r.outcome));
    if (r.body.size() > n)
      return rep_->calls.StatusOf(stoc, StrCat("reading ", file.ToString(), ": more than asked"),
                                  Outcome::kInternal);
    const bool end = r.body.size() < n;
    if (bytes.empty()) {
      bytes = std::move(r.body);
    } else {
      bytes += r.body;
    }
    if (end) break;
  }
  return bytes;
}

Status StocClient::AddReferences(StocId stoc, RangeId range, Epoch epoch,
                                 const std::vector<StocFileId>& files, Nanos deadline_ns) {
  return rep_->ChangeReferences(stoc, StocRequest::kAddReferences, "referencing files", {range, epoch, files},
                                deadline_ns);
}

Status StocClient::DropReferences(StocId stoc, RangeId range, Epoch epoch,
                                  const std::vector<StocFileId>& files, Nanos deadline_ns) {
  return rep_->ChangeReferences(stoc, StocRequest::kDropReferences, "dropping files", {range, epoch, files},
                                deadline_ns);
}

StatusOr<std::vector<FileSummary>> StocClient::ListFiles(StocId stoc, RangeId range, Epoch epoch_below,
                                                         const StocFileId& after, Nanos deadline_ns) {
  std::string body;
  AppendBody(ListFilesRequest{range, epoch_below, after}, &body);
  const auto r = rep_->calls.CallAndWait(stoc, StocRequest::kListFiles, body, deadline_ns);
  NOVA_RETURN_IF_ERROR(rep_->calls.StatusOf(stoc, "listing files", r.outcome));
  ListFilesReply reply;
  if (!ParseBody(r.body, &reply))
    return rep_->calls.StatusOf(stoc, "listing files: malformed reply", Outcome::kInternal);
  return std::move(reply.files);
}

StatusOr<Incarnation> StocClient::Ping(StocId stoc, Nanos deadline_ns) {
  const auto r = rep_->calls.CallAndWait(stoc, StocRequest::kPing, "", deadline_ns);
  NOVA_RETURN_IF_ERROR(rep_->calls.StatusOf(stoc, "ping", r.outcome));
  PingReply reply;
  if (!ParseBody(r.body, &reply))
    return rep_->calls.StatusOf(stoc, "ping: malformed reply", Outcome::kInternal);
  return reply.incarnation;
}

}  // namespace nova
