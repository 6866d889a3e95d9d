#include "stoc/stoc_client.h"

#include <algorithm>
#include <set>
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
  template <typename Request>
  Status ChangeReferences(StocId stoc, StocRequest type, std::string_view what, const Request& all,
                          Nanos deadline_ns) {
    for (auto next = all.files.begin(); next != all.files.end();) {
      const auto end = next + std::min(static_cast<ptrdiff_t>(kMaxFilesOfReferences), all.files.end() - next);
      Request some{all};
      some.files.assign(next, end);
      const Outcome o = calls.CallAndWait(stoc, type, Body(some), deadline_ns).outcome;
      NOVA_RETURN_IF_ERROR(calls.StatusOf(stoc, what, o));
      next = end;
    }
    return OkStatus();
  }

  StatusOr<FenceReply> FenceAnswer(StocId stoc, Outcome outcome, std::string_view body) const;
  CopyResult ResultOfCopy(StocId target, const CopyFileRequest& request, Outcome outcome,
                          std::string_view body) const;
};

// --- the StoCs there are

StocClient::StocClient(Fabric* fabric, std::vector<Xchg*> xchgs, const StocClientOptions& options)
    : rep_(std::make_unique<Rep>(fabric, std::move(xchgs), options)) {}
StocClient::~StocClient() = default;

void StocClient::UpdateStocs(const std::vector<NodeInfo>& live) { rep_->stocs.Update(live); }
std::vector<NodeInfo> StocClient::live() const { return rep_->stocs.live(); }
std::optional<NodeInfo> StocClient::Find(StocId id) const { return rep_->stocs.Find(id); }
bool StocClient::IsLive(StocId id) const { return rep_->stocs.IsLive(id); }
StocLoad StocClient::LoadOf(StocId id) const { return rep_->stocs.LoadOf(id); }
std::vector<StocId> StocClient::InOrderOfReading(const std::vector<StocId>& stocs) const {
  std::vector<std::pair<KnownStocs::Rank, size_t>> ranks;
  for (size_t i = 0; i < stocs.size(); ++i) ranks.emplace_back(rep_->stocs.RankOf(stocs[i]), i);
  std::sort(ranks.begin(), ranks.end());
  std::vector<StocId> sorted;
  for (const auto& [rank, i] : ranks) sorted.push_back(stocs[i]);
  return sorted;
}
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
  rep_->calls.Call(xchg, *target, StocRequest::kOpenSegment, {&whole, 1}, deadline_ns,
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
      [rep = rep_.get(), xchg, stoc, request = DropReferencesRequest{range, epoch, std::move(files)}] {
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

StocClient::CopyResult StocClient::Rep::ResultOfCopy(StocId target, const CopyFileRequest& request,
                                                     Outcome outcome, std::string_view body) const {
  CopyFileReply reply;
  const bool says = ParseBody(body, &reply);  // else the connection ended, or it was not begun
  if (!says || reply.fault == CopyFault::kTarget || outcome == Outcome::kOk)
    return {calls.StatusOf(target, StrCat("copying ", request.file.ToString()), outcome), CopyFault::kTarget};
  const std::string what = StrCat("copying ", request.file.ToString(), " to ", stocs.NameOf(target));
  return {calls.StatusOf(request.source, what, outcome), CopyFault::kSource};
}

StatusOr<FenceReply> StocClient::Fence(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns) {
  std::string body;
  AppendBody(RangeEpochRequest{range, epoch}, &body);
  const auto r = rep_->calls.CallAndWait(stoc, StocRequest::kFence, body, deadline_ns);
  return rep_->FenceAnswer(stoc, r.outcome, r.body);
}

void StocClient::StartFence(StocId stoc, RangeId range, Epoch epoch, Nanos start_ns, Nanos deadline_ns,
                            absl::AnyInvocable<void(StatusOr<FenceReply>)> done) {
  rep_->calls.Start(
      stoc, StocRequest::kFence, Body(RangeEpochRequest{range, epoch}), start_ns, deadline_ns,
      [rep = rep_.get(), stoc, done = std::move(done)](Outcome o, std::string_view answer) mutable {
        done(rep->FenceAnswer(stoc, o, answer));
      });
}

// --- copies

void StocClient::StartCopyFile(StocId target, const CopyFileRequest& request, Nanos deadline_ns,
                               absl::AnyInvocable<void(CopyResult)> done) {
  rep_->calls.Start(target, StocRequest::kCopyFile, Body(request), Now(), deadline_ns,
                    [rep = rep_.get(), target, request, done = std::move(done)](
                        Outcome o, std::string_view answer) mutable {
                      done(rep->ResultOfCopy(target, request, o, answer));
                    });
}

StocClient::CopyResult StocClient::CopyFile(StocId target, const CopyFileRequest& request,
                                            Nanos deadline_ns) {
  const auto r = rep_->calls.CallAndWait(target, StocRequest::kCopyFile, Body(request), deadline_ns);
  return rep_->ResultOfCopy(target, request, r.outcome, r.body);
}

void StocClient::StartReadForCopy(StocId stoc, Incarnation incarnation, const ReadForCopyRequest& request,
                                  Nanos deadline_ns,
                                  absl::AnyInvocable<void(Outcome, const ReadForCopyReply&)> done) {
  Xchg* const xchg = rep_->calls.NextXchg();
  xchg->Submit(
      [rep = rep_.get(), xchg, stoc, incarnation, request, deadline_ns, done = std::move(done)]() mutable {
        const KnownStocs::Target* const target = rep->stocs.FindTarget(xchg, stoc);
        if (target == nullptr || target->incarnation < incarnation) return done(Outcome::kUnavailable, {});
        const std::string body = Body(request);
        const std::string_view whole = body;
        rep->calls.Call(xchg, *target, StocRequest::kReadForCopy, {&whole, 1}, deadline_ns,
                        [done = std::move(done)](Outcome o, std::string_view answer) mutable {
                          ReadForCopyReply reply;
                          if (o == Outcome::kOk && !ParseBody(answer, &reply)) o = Outcome::kInternal;
                          done(o, reply);
                        });
      });
}

// --- jobs

void StocClient::StartCompact(StocId worker, Incarnation incarnation, const CompactRequest& request,
                              Nanos deadline_ns, absl::AnyInvocable<void(Outcome, std::string_view)> done) {
  Xchg* const xchg = rep_->calls.NextXchg();
  std::string body = Body(request);
  body += request.bytes;
  xchg->Submit([rep = rep_.get(), xchg, worker, incarnation, body = std::move(body), deadline_ns,
                done = std::move(done)]() mutable {
    const KnownStocs::Target* const target = rep->stocs.FindTarget(xchg, worker);
    if (target == nullptr || target->incarnation != incarnation) return done(Outcome::kUnavailable, {});
    const std::string_view whole = body;
    rep->calls.Call(xchg, *target, StocRequest::kCompact, {&whole, 1}, deadline_ns, std::move(done));
  });
}

void StocClient::StartCancelJob(StocId worker, const CancelJobRequest& request, Nanos start_ns,
                                Nanos deadline_ns, absl::AnyInvocable<void(Outcome)> done) {
  rep_->calls.Start(worker, StocRequest::kCancelJob, Body(request), start_ns, deadline_ns,
                    [done = std::move(done)](Outcome outcome, std::string_view) mutable { done(outcome); });
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
  do {
    const std::string_view piece = data.substr(0, kMaxAppendBytes);
    NOVA_RETURN_IF_ERROR(AppendPiece(stocs, file, creator, offset, create, piece, deadline_ns));
    offset += piece.size();
    create = false;
    data.remove_prefix(piece.size());
  } while (!data.empty());
  return OkStatus();
}

Status StocClient::AppendPiece(const std::vector<StocId>& stocs, const StocFileId& file,
                               const Creator& creator, uint64_t offset, bool create, std::string_view data,
                               Nanos deadline_ns) {
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
  return rep_->ChangeReferences(stoc, StocRequest::kAddReferences, "referencing files",
                                AddReferencesRequest{range, epoch, files}, deadline_ns);
}

Status StocClient::DropReferences(StocId stoc, RangeId range, Epoch epoch,
                                  const std::vector<StocFileId>& files, Nanos deadline_ns,
                                  uint64_t ended_below) {
  return rep_->ChangeReferences(stoc, StocRequest::kDropReferences, "dropping files",
                                DropReferencesRequest{range, epoch, files, ended_below}, deadline_ns);
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
  const std::set<StocFileId> damaged(reply.damaged.begin(), reply.damaged.end());
  for (FileSummary& f : reply.files) f.damaged = damaged.contains(f.file);
  return std::move(reply.files);
}

StatusOr<std::vector<StocFileId>> StocClient::ListUnreadable(StocId stoc, Nanos deadline_ns) {
  const auto r = rep_->calls.CallAndWait(stoc, StocRequest::kListUnreadable, "", deadline_ns);
  NOVA_RETURN_IF_ERROR(rep_->calls.StatusOf(stoc, "listing unreadable files", r.outcome));
  ListUnreadableReply reply;
  if (!ParseBody(r.body, &reply))
    return rep_->calls.StatusOf(stoc, "listing unreadable files: malformed reply", Outcome::kInternal);
  return std::move(reply.files);
}

Status StocClient::DropUnreadable(StocId stoc, RangeId range, Epoch epoch,
                                  const std::vector<StocFileId>& files, Nanos deadline_ns) {
  return rep_->ChangeReferences(stoc, StocRequest::kDropUnreadable, "dropping unreadable files",
                                DropUnreadableRequest{range, epoch, files}, deadline_ns);
}

std::vector<std::optional<Incarnation>> StocClient::PingAll(std::span<const StocId> stocs,
                                                            Nanos deadline_ns) {
  std::vector<std::optional<Incarnation>> answers(stocs.size());
  auto all = std::make_shared<WaitGroup>();
  for (size_t i = 0; i < stocs.size(); ++i) {
    Xchg* const xchg = rep_->calls.NextXchg();
    xchg->Submit([=, this, stoc = stocs[i], to = &answers[i], part = WaitGroup::Part(all)]() mutable {
      Ping(xchg, stoc, deadline_ns, [to, part = std::move(part)](Outcome o, Incarnation found) mutable {
        if (o == Outcome::kOk) *to = found;
        part.End();
      });
    });
  }
  all->Wait();
  return answers;
}

}  // namespace nova
