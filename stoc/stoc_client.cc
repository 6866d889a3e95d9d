#include "stoc/stoc_client.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/random.h"

namespace nova {
namespace {

constexpr size_t kPieceBytes = 1 << 20;  // of transfer memory
constexpr size_t kReadChunkBytes = 4 * kPieceBytes;
constexpr uint32_t kReadRequestBytes = 8 << 20;
constexpr Nanos kFirstPause = 2 * kMillisecond;  // after kBusy; doubles
constexpr Nanos kLongestPause = 100 * kMillisecond;
constexpr Nanos kDeleteLaterDeadline = 10 * kSecond;

using ReplyDone = absl::AnyInvocable<void(Outcome, std::string_view body)>;

Nanos PauseAfter(int tries) {
  const Nanos most = std::min(kLongestPause, kFirstPause << std::min(tries, 10));
  Random random;
  return most / 2 + static_cast<Nanos>(random.Uniform(static_cast<uint64_t>(most)));
}

// Waits for several things that happen on xchg threads; a part that is destroyed undone (its Xchg has
// stopped) counts too.
class Gathering {
 public:
  class Part {
   public:
    explicit Part(std::shared_ptr<Gathering> all) : all_(std::move(all)) {
      MutexLock lock(&all_->mu_);
      ++all_->missing_;
    }
    Part(Part&&) = default;
    Part& operator=(Part&&) = delete;
    ~Part() {
      if (all_ != nullptr) End();
    }
    void End() {
      const std::shared_ptr<Gathering> all = std::move(all_);
      all_ = nullptr;
      MutexLock lock(&all->mu_);
      if (--all->missing_ == 0) all->complete_.SignalAll();
    }

   private:
    std::shared_ptr<Gathering> all_;
  };

  void Wait() {
    MutexLock lock(&mu_);
    while (missing_ > 0) complete_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar complete_;
  int missing_ ABSL_GUARDED_BY(mu_) = 0;
};

// Registered memory, in pieces. A Transfer may be the last to hold it: what an Xchg has not run when it
// stopped goes with the Xchg.
struct TransferMemory {
  TransferMemory(Fabric* fabric, size_t bytes)
      : max_bytes(bytes), pool(fabric, Access::kLocal, bytes, kPieceBytes) {}
  const size_t max_bytes;
  BufferPool pool;
  Mutex mu;
  CondVar room;
  size_t taken ABSL_GUARDED_BY(mu) = 0;
};

struct Transfer {
  explicit Transfer(std::shared_ptr<TransferMemory> m) : memory(std::move(m)) {}
  ~Transfer() {
    const size_t bytes = pieces.size() * kPieceBytes;
    pieces.clear();
    MutexLock lock(&memory->mu);
    memory->taken -= bytes;
    memory->room.SignalAll();
  }
  const std::shared_ptr<TransferMemory> memory;
  std::vector<Buffer> pieces;
  std::vector<LocalBuffer> locals;  // of the bytes to move
};

// Room for `bytes`, as soon as there is.
StatusOr<std::shared_ptr<Transfer>> NewTransfer(const std::shared_ptr<TransferMemory>& memory, size_t bytes,
                                                Nanos deadline_ns) {
  const size_t count = (bytes + kPieceBytes - 1) / kPieceBytes;
  const size_t rounded = count * kPieceBytes;
  if (rounded > memory->max_bytes)
    return absl::InvalidArgumentError(StrCat(bytes, " bytes are more than the transfer memory"));
  {
    MutexLock lock(&memory->mu);
    while (memory->taken + rounded > memory->max_bytes) {
      if (!memory->room.WaitUntil(&memory->mu, deadline_ns) && memory->taken + rounded > memory->max_bytes) {
        return absl::DeadlineExceededError("waiting for transfer memory");
      }
    }
    memory->taken += rounded;
  }
  auto transfer = std::make_shared<Transfer>(memory);
  transfer->pieces.resize(count);
  for (size_t i = 0; i < count; ++i) {
    transfer->pieces[i] = memory->pool.Allocate(kPieceBytes);
    if (!transfer->pieces[i]) return absl::UnavailableError("no transfer memory could be registered");
    const size_t n = std::min(kPieceBytes, bytes - i * kPieceBytes);
    transfer->locals.push_back(
        {transfer->pieces[i].data(), static_cast<uint32_t>(n), transfer->pieces[i].lkey()});
  }
  return transfer;
}

}  // namespace

struct StocClient::Rep {
  Rep(Fabric* fabric, std::vector<Xchg*> x, const StocClientOptions& o)
      : xchgs(std::move(x)),
        memory(std::make_shared<TransferMemory>(fabric, o.transfer_bytes)),
        lanes(xchgs.size()) {}

  // --- who there is
  struct Node {
    NodeInfo info;
    std::unique_ptr<std::atomic<uint32_t>> depth = std::make_unique<std::atomic<uint32_t>>(0);
  };
  struct Target {  // what one xchg thread knows of a StoC
    Peer* peer = nullptr;
    Incarnation incarnation;
    std::atomic<uint32_t>* depth = nullptr;
  };
  struct Lane {
    uint64_t version = 0;
    std::map<StocId, Target> targets;
  };

  const std::vector<Xchg*> xchgs;
  const std::shared_ptr<TransferMemory> memory;
  std::vector<Lane> lanes;  // [i] belongs to xchg i
  std::atomic<size_t> next_xchg{0};
  std::atomic<uint64_t> version{1};  // of what is below
  mutable Mutex mu;
  std::vector<NodeInfo> live ABSL_GUARDED_BY(mu);
  std::map<StocId, Node> nodes ABSL_GUARDED_BY(mu);

  Xchg* NextXchg() { return xchgs[next_xchg.fetch_add(1, std::memory_order_relaxed) % xchgs.size()]; }

  Target* FindTarget(Xchg* xchg, StocId stoc) {
    const auto at = std::find(xchgs.begin(), xchgs.end(), xchg);
    NOVA_CHECK(at != xchgs.end()) << "an Xchg this client does not know";
    Lane& lane = lanes[static_cast<size_t>(at - xchgs.begin())];
    const uint64_t now = version.load(std::memory_order_acquire);
    if (lane.version != now) {
      lane.targets.clear();
      lane.version = now;
    }
    if (const auto it = lane.targets.find(stoc); it != lane.targets.end()) return &it->second;
    MutexLock lock(&mu);
    const auto node = nodes.find(stoc);
    if (node == nodes.end() || node->second.info.address.empty()) return nullptr;
    const NodeInfo& info = node->second.info;
    const PeerIdentity who{Role::kStoc, ToNodeName(info.name), info.incarnation.value()};
    return &(
        lane.targets[stoc] = {xchg->peer(info.address, who), info.incarnation, node->second.depth.get()});
  }

  std::string NameOf(StocId stoc) const {
    MutexLock lock(&mu);
    const auto it = nodes.find(stoc);
    return it == nodes.end() ? StrCat("stoc ", stoc.value())
                             : StrCat("stoc ", stoc.value(), " (", it->second.info.name, ")");
  }

  // --- calls

  static void Call(Xchg* xchg, const Target& target, StocRequest type,
                   std::span<const std::string_view> parts, Nanos deadline_ns, ReplyDone done) {
    xchg->Call(target.peer, static_cast<uint16_t>(type), parts, deadline_ns,
               [depth = target.depth, done = std::move(done)](const CallResult& r) mutable {
                 const bool answered = r.outcome != Outcome::kUnavailable && r.outcome != Outcome::kUnknown &&
                                       r.outcome != Outcome::kDeadlineExceeded;
                 if (answered) depth->store(r.queue_depth, std::memory_order_relaxed);
                 done(r.outcome, r.body);
               });
  }
  void Call(Xchg* xchg, StocId stoc, StocRequest type, std::span<const std::string_view> parts,
            Nanos deadline_ns, ReplyDone done) {
    if (Target* target = FindTarget(xchg, stoc))
      return Call(xchg, *target, type, parts, deadline_ns, std::move(done));
    xchg->Submit([done = std::move(done)]() mutable { done(Outcome::kUnavailable, {}); });
  }

  struct BlockingReply {
    Outcome outcome = Outcome::kUnavailable;
    std::string body;
  };
  BlockingReply CallAndWait(StocId stoc, StocRequest type, const std::string& body, Nanos deadline_ns) {
    for (int tries = 0;; ++tries) {
      BlockingReply reply;
      auto all = std::make_shared<Gathering>();
      Xchg* const xchg = NextXchg();
      xchg->Submit([&, xchg, part = Gathering::Part(all)]() mutable {
        const std::string_view whole = body;
        Call(xchg, stoc, type, {&whole, 1}, deadline_ns,
             [&, part = std::move(part)](Outcome o, std::string_view b) mutable {
               reply = {o, std::string(b)};
               part.End();
             });
      });
      all->Wait();
      if (reply.outcome != Outcome::kBusy || !Pause(tries, deadline_ns)) return reply;
    }
  }
  static bool Pause(int tries, Nanos deadline_ns) {
    const Nanos pause = PauseAfter(tries);
    if (Now() > deadline_ns - pause) return false;
    SleepFor(pause);
    return true;
  }
  Status StatusOf(StocId stoc, std::string_view what, Outcome outcome) const {
    if (outcome == Outcome::kOk) return OkStatus();
    return ToStatus(outcome,
                    StrCat(std::string(what), " at ", NameOf(stoc), ": ", std::string(OutcomeName(outcome))));
  }
  // As many requests as it takes; again is no error, so each is tried until the deadline. Stops at the first
  // that fails.
  Status ChangeReferences(StocId stoc, StocRequest type, std::string_view what,
                          const FileReferencesRequest& all, Nanos deadline_ns) {
    for (auto next = all.files.begin(); next != all.files.end();) {
      const auto end = next + std::min(static_cast<ptrdiff_t>(kMaxFilesOfReferences), all.files.end() - next);
      std::string body;
      FileReferencesRequest{all.range, all.epoch, {next, end}}.AppendTo(&body);
      NOVA_RETURN_IF_ERROR(StatusOf(stoc, what, CallAndWait(stoc, type, body, deadline_ns).outcome));
      next = end;
    }
    return OkStatus();
  }

  struct FenceCall;
  void TryFence(std::unique_ptr<FenceCall> c);
  StatusOr<FenceReply> FenceAnswer(StocId stoc, Outcome outcome, std::string_view body) const;

  class CopyWriter;
};

// --- one file to one StoC

// OpenFile -> WRITEs and PersistFile in one doorbell; a small file inline. Lives as long as something of it
// is under way, on one xchg thread. After kBusy it starts anew.
class StocClient::Rep::CopyWriter : public std::enable_shared_from_this<CopyWriter> {
 public:
  struct File {
    StocFileId file;
    Creator creator;
    std::string_view data;  // small: sent inline
    uint64_t size = 0;
    uint32_t crc = 0;
    std::shared_ptr<Transfer> transfer;  // else from here
  };
  CopyWriter(Rep* rep, Xchg* xchg, StocId stoc, std::shared_ptr<const File> file, Nanos deadline_ns,
             Outcome* outcome, Gathering::Part part)
      : rep_(rep),
        xchg_(xchg),
        stoc_(stoc),
        file_(std::move(file)),
        deadline_ns_(deadline_ns),
        outcome_(outcome),
        part_(std::move(part)) {}

  void Start() {
    xchg_->Submit([self = shared_from_this()] { self->Begin(); });
  }

 private:
  void Begin() {
    const Target* const found = rep_->FindTarget(xchg_, stoc_);
    if (found == nullptr) return End(Outcome::kUnavailable);
    target_ = *found;
    std::string head;
    if (file_->transfer == nullptr) {
      WriteSmallFileRequest{file_->file, file_->creator, file_->crc, {}}.AppendTo(&head);
      const std::string_view parts[] = {head, file_->data};
      return Call(xchg_, target_, StocRequest::kWriteSmallFile, parts, deadline_ns_,
                  [self = shared_from_this()](Outcome o, std::string_view) { self->Answered(o); });
    }
    OpenFileRequest{file_->file, file_->creator, file_->size}.AppendTo(&head);
    const std::string_view whole = head;
    Call(xchg_, target_, StocRequest::kOpenFile, {&whole, 1}, deadline_ns_,
         [self = shared_from_this()](Outcome o, std::string_view body) { self->Opened(o, body); });
  }

  void Opened(Outcome outcome, std::string_view body) {
    if (outcome != Outcome::kOk) return Answered(outcome);
    OpenFileReply reply;
    if (!OpenFileReply::Parse(body, &reply) || reply.memory.size < file_->size)
      return End(Outcome::kInternal);
    const std::span<const LocalBuffer> locals = file_->transfer->locals;
    uint64_t at = reply.memory.address;
    for (size_t i = 0; i < locals.size(); i += kMaxPieces) {
      const auto some = locals.subspan(i, std::min(kMaxPieces, locals.size() - i));
      // The transfer memory is held until the WRITE is over, whatever became of it (exposed memory, F4).
      xchg_->Write(target_.peer, some, at, reply.memory.rkey, deadline_ns_,
                   [self = shared_from_this()](Outcome) {});
      for (const LocalBuffer& local : some) at += local.length;
    }
    std::string request;
    PersistFileRequest{reply.buffer, static_cast<uint32_t>(file_->size), file_->crc}.AppendTo(&request);
    const std::string_view whole = request;
    Call(xchg_, target_, StocRequest::kPersistFile, {&whole, 1}, deadline_ns_,
         [self = shared_from_this()](Outcome o, std::string_view) { self->Answered(o); });
  }

  void Answered(Outcome outcome) {
    const Nanos again = Now() + PauseAfter(tries_);
    if (outcome != Outcome::kBusy || again >= deadline_ns_) return End(outcome);
    ++tries_;
    xchg_->RunAt(again, [self = shared_from_this()] { self->Begin(); });
  }

  void End(Outcome outcome) {
    *outcome_ = outcome;
    part_.End();
  }

  Rep* const rep_;
  Xchg* const xchg_;
  const StocId stoc_;
  const std::shared_ptr<const File> file_;
  const Nanos deadline_ns_;
  Outcome* const outcome_;
  Gathering::Part part_;
  Target target_;
  int tries_ = 0;
};

// --- the directory

StocClient::StocClient(Fabric* fabric, std::vector<Xchg*> xchgs, const StocClientOptions& options)
    : rep_(std::make_unique<Rep>(fabric, std::move(xchgs), options)) {}
StocClient::~StocClient() = default;

void StocClient::UpdateStocs(const std::vector<NodeInfo>& live) {
  MutexLock lock(&rep_->mu);
  rep_->live = live;
  for (const NodeInfo& info : live) {
    Rep::Node& node = rep_->nodes[info.stoc_id];
    if (info.incarnation >= node.info.incarnation) node.info = info;
  }
  rep_->version.fetch_add(1, std::memory_order_release);
}

std::vector<NodeInfo> StocClient::live() const {
  MutexLock lock(&rep_->mu);
  return rep_->live;
}

std::optional<NodeInfo> StocClient::Find(StocId id) const {
  MutexLock lock(&rep_->mu);
  const auto it = rep_->nodes.find(id);
  if (it == rep_->nodes.end()) return std::nullopt;
  return it->second.info;
}

bool StocClient::IsLive(StocId id) const {
  MutexLock lock(&rep_->mu);
  return std::any_of(rep_->live.begin(), rep_->live.end(),
                     [id](const NodeInfo& n) { return n.stoc_id == id; });
}

uint32_t StocClient::queue_depth(StocId id) const {
  MutexLock lock(&rep_->mu);
  const auto it = rep_->nodes.find(id);
  return it == rep_->nodes.end() ? 0 : it->second.depth->load(std::memory_order_relaxed);
}

Peer* StocClient::peer(Xchg* xchg, StocId stoc, Incarnation incarnation) {
  Rep::Target* const target = rep_->FindTarget(xchg, stoc);
  return target == nullptr || target->incarnation != incarnation ? nullptr : target->peer;
}

// --- async

void StocClient::OpenSegment(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                             uint32_t index, uint64_t size, Nanos deadline_ns,
                             absl::AnyInvocable<void(Outcome, RemoteBuffer)> done) {
  const Rep::Target* const target = rep_->FindTarget(xchg, member.stoc);
  if (target == nullptr || target->incarnation > member.incarnation) {  // unknown, or it has restarted
    xchg->Submit([done = std::move(done)]() mutable { done(Outcome::kUnavailable, {}); });
    return;
  }
  std::string body;
  OpenSegmentRequest{range, epoch, member.incarnation, log, index, size}.AppendTo(&body);
  const std::string_view whole = body;
  Rep::Call(
      xchg, *target, StocRequest::kOpenSegment, {&whole, 1}, deadline_ns,
      [size, done = std::move(done)](Outcome o, std::string_view reply_body) mutable {
        OpenSegmentReply reply;
        if (o == Outcome::kOk && (!OpenSegmentReply::Parse(reply_body, &reply) || reply.memory.size < size)) {
          o = Outcome::kInternal;
        }
        done(o, reply.memory);
      });
}

void StocClient::OpenLogFile(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                             Nanos deadline_ns, OpDone done) {
  std::string body;
  OpenLogFileRequest{range, epoch, member.incarnation, log}.AppendTo(&body);
  const std::string_view whole = body;
  rep_->Call(xchg, member.stoc, StocRequest::kOpenLogFile, {&whole, 1}, deadline_ns,
             [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::AppendLog(Xchg* xchg, StocId stoc, const AppendLogRequest& request, Nanos deadline_ns,
                           OpDone done) {
  std::string head;
  request.AppendTo(&head);
  const std::string_view parts[] = {head, request.bytes};
  rep_->Call(xchg, stoc, StocRequest::kAppendLog, parts, deadline_ns,
             [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::FreeLogs(Xchg* xchg, StocId stoc, RangeId range, Epoch epoch, const std::vector<Uuid>& logs,
                          OpDone done) {
  std::string body;
  FreeLogsRequest{range, epoch, logs}.AppendTo(&body);
  const std::string_view whole = body;
  rep_->Call(xchg, stoc, StocRequest::kFreeLogs, {&whole, 1}, Now() + kDeleteLaterDeadline,
             [done = std::move(done)](Outcome o, std::string_view) mutable { done(o); });
}

void StocClient::ReadFile(Xchg* xchg, StocId stoc, const StocFileId& file, uint64_t offset, uint32_t size,
                          Nanos deadline_ns, absl::AnyInvocable<void(Outcome, std::string_view)> done) {
  std::string body;
  ReadFileRequest{file, offset, size}.AppendTo(&body);
  const std::string_view whole = body;
  rep_->Call(xchg, stoc, StocRequest::kReadFile, {&whole, 1}, deadline_ns, std::move(done));
}

void StocClient::Ping(Xchg* xchg, StocId stoc, Nanos deadline_ns,
                      absl::AnyInvocable<void(Outcome, Incarnation)> done) {
  const std::string_view nothing;
  rep_->Call(xchg, stoc, StocRequest::kPing, {&nothing, 1}, deadline_ns,
             [done = std::move(done)](Outcome o, std::string_view body) mutable {
               PingReply reply;
               if (o == Outcome::kOk && !PingReply::Parse(body, &reply)) o = Outcome::kInternal;
               done(o, reply.incarnation);
             });
}

void StocClient::DropReferencesLater(StocId stoc, RangeId range, Epoch epoch, std::vector<StocFileId> files) {
  Xchg* const xchg = rep_->NextXchg();
  xchg->Submit(
      [rep = rep_.get(), xchg, stoc, request = FileReferencesRequest{range, epoch, std::move(files)}] {
        std::string body;
        request.AppendTo(&body);
        const std::string_view whole = body;
        rep->Call(xchg, stoc, StocRequest::kDropReferences, {&whole, 1}, Now() + kDeleteLaterDeadline,
                  [](Outcome, std::string_view) {});
      });
}

// --- fencing

StatusOr<FenceReply> StocClient::Rep::FenceAnswer(StocId stoc, Outcome outcome, std::string_view body) const {
  NOVA_RETURN_IF_ERROR(StatusOf(stoc, "fencing", outcome));
  FenceReply reply;
  if (!FenceReply::Parse(body, &reply)) return StatusOf(stoc, "fencing: malformed reply", Outcome::kInternal);
  return reply;
}

StatusOr<FenceReply> StocClient::Fence(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns) {
  std::string body;
  RangeEpochRequest{range, epoch}.AppendTo(&body);
  const auto r = rep_->CallAndWait(stoc, StocRequest::kFence, body, deadline_ns);
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
  Xchg* const xchg = rep_->NextXchg();
  auto call = std::make_unique<Rep::FenceCall>(Rep::FenceCall{xchg, stoc, {}, deadline_ns, std::move(done)});
  RangeEpochRequest{range, epoch}.AppendTo(&call->body);
  xchg->Submit([rep = rep_.get(), start_ns, call = std::move(call)]() mutable {
    if (start_ns <= Now()) return rep->TryFence(std::move(call));
    Xchg* const on = call->xchg;
    on->RunAt(start_ns, [rep, call = std::move(call)]() mutable { rep->TryFence(std::move(call)); });
  });
}

void StocClient::Rep::TryFence(std::unique_ptr<FenceCall> c) {
  const FenceCall& request = *c;
  const std::string_view body = request.body;
  Call(request.xchg, request.stoc, StocRequest::kFence, {&body, 1}, request.deadline_ns,
       [this, call = std::move(c)](Outcome o, std::string_view answer) mutable {
         const Nanos again = Now() + PauseAfter(call->tries++);
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
  RangeEpochRequest{range, epoch}.AppendTo(&body);
  return rep_->StatusOf(stoc, "freeing fenced segments",
                        rep_->CallAndWait(stoc, StocRequest::kFreeFenced, body, deadline_ns).outcome);
}

StatusOr<std::string> StocClient::ReadRemote(StocId stoc, Incarnation incarnation, const RemoteBuffer& memory,
                                             Nanos deadline_ns) {
  std::string bytes;
  bytes.reserve(memory.size);
  while (bytes.size() < memory.size) {
    const size_t n = std::min<uint64_t>(kReadChunkBytes, memory.size - bytes.size());
    NOVA_ASSIGN_OR_RETURN(const auto transfer, NewTransfer(rep_->memory, n, deadline_ns));
    std::vector<Outcome> outcomes(transfer->locals.size(), Outcome::kUnavailable);
    auto all = std::make_shared<Gathering>();
    Xchg* const xchg = rep_->NextXchg();
    xchg->Submit([this, xchg, stoc, incarnation, deadline_ns, transfer, at = memory.address + bytes.size(),
                  rkey = memory.rkey, outcomes = outcomes.data(), all,
                  part = Gathering::Part(all)]() mutable {
      Peer* const target = peer(xchg, stoc, incarnation);
      if (target == nullptr) return;
      for (size_t i = 0; i < transfer->locals.size(); ++i) {
        // The transfer memory is held until the READ is over, whatever became of it (F4).
        xchg->Read(target, transfer->locals[i], at, rkey, deadline_ns,
                   [transfer, outcome = outcomes + i, p = Gathering::Part(all)](Outcome o) mutable {
                     *outcome = o;
                     p.End();
                   });
        at += transfer->locals[i].length;
      }
    });
    all->Wait();
    for (size_t i = 0; i < outcomes.size(); ++i) {
      NOVA_RETURN_IF_ERROR(rep_->StatusOf(stoc, "reading memory", outcomes[i]));
      bytes.append(static_cast<const char*>(transfer->locals[i].address), transfer->locals[i].length);
    }
  }
  return bytes;
}

// --- blocking: files

Status StocClient::WriteAll(const std::vector<FileWrite>& files, const Creator& creator, Nanos deadline_ns) {
  auto all = std::make_shared<Gathering>();
  std::vector<std::vector<Outcome>> outcomes;
  outcomes.reserve(files.size());  // its elements' elements are written to from the xchg threads
  Status status;
  for (const FileWrite& write : files) {
    auto file = std::make_shared<Rep::CopyWriter::File>();
    file->file = write.file;
    file->creator = creator;
    file->size = write.data.size();
    if (write.data.size() <= kMaxInlineFileBytes) {
      file->data = write.data;
      file->crc = Crc32c(write.data);
    } else {
      auto transfer = NewTransfer(rep_->memory, write.data.size(), deadline_ns);
      if (!transfer.ok()) {
        status = Annotate(transfer.status(), StrCat("writing ", write.file.ToString()));
        break;
      }
      size_t at = 0;
      for (size_t i = 0; i < (*transfer)->locals.size(); ++i) {
        const uint32_t n = (*transfer)->locals[i].length;
        file->crc = Crc32cCopy((*transfer)->pieces[i].data(), write.data.data() + at, n, file->crc);
        at += n;
      }
      file->transfer = *std::move(transfer);
    }
    outcomes.emplace_back(write.stocs.size(), Outcome::kUnavailable);
    for (size_t i = 0; i < write.stocs.size(); ++i) {
      std::make_shared<Rep::CopyWriter>(rep_.get(), rep_->NextXchg(), write.stocs[i], file, deadline_ns,
                                        &outcomes.back()[i], Gathering::Part(all))
          ->Start();
    }
  }
  all->Wait();
  for (size_t f = 0; f < outcomes.size(); ++f) {
    for (size_t i = 0; i < outcomes[f].size(); ++i) {
      if (outcomes[f][i] == Outcome::kOk) continue;
      // Revocation (F1): being fenced is what the caller has to know
      if (!status.ok() && outcomes[f][i] != Outcome::kNotOwner) continue;
      status =
          rep_->StatusOf(files[f].stocs[i], StrCat("writing ", files[f].file.ToString()), outcomes[f][i]);
    }
  }
  return status;
}

Status StocClient::WriteFiles(const std::vector<StocId>& stocs, const StocFileId& file,
                              const Creator& creator, std::string_view data, Nanos deadline_ns) {
  return WriteAll({{file, stocs, data}}, creator, deadline_ns);
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
  AppendFileRequest{file, creator, offset, create, Crc32c(data), {}}.AppendTo(&head);
  std::vector<StocId> missing = stocs;
  for (int tries = 0;; ++tries) {
    std::vector<Outcome> outcomes(missing.size(), Outcome::kUnavailable);
    auto all = std::make_shared<Gathering>();
    for (size_t i = 0; i < missing.size(); ++i) {
      Xchg* const xchg = rep_->NextXchg();
      xchg->Submit(
          [&, xchg, stoc = missing[i], outcome = &outcomes[i], part = Gathering::Part(all)]() mutable {
            const std::string_view parts[] = {head, data};
            rep_->Call(xchg, stoc, StocRequest::kAppendFile, parts, deadline_ns,
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
      status = rep_->StatusOf(missing[i], StrCat("appending to ", file.ToString()), outcomes[i]);
    }
    const bool only_busy = !busy.empty() && std::count(outcomes.begin(), outcomes.end(), Outcome::kOk) +
                                                    static_cast<ptrdiff_t>(busy.size()) ==
                                                static_cast<ptrdiff_t>(missing.size());
    if (!only_busy || !Rep::Pause(tries, deadline_ns)) return status;
    missing = std::move(busy);
  }
}

StatusOr<std::string> StocClient::ReadFileBlocking(StocId stoc, const StocFileId& file, uint64_t offset,
                                                   uint64_t size, Nanos deadline_ns) {
  std::string bytes;
  while (bytes.size() < size) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kReadRequestBytes, size - bytes.size()));
    std::string body;
    ReadFileRequest{file, offset + bytes.size(), n}.AppendTo(&body);
    auto r = rep_->CallAndWait(stoc, StocRequest::kReadFile, body, deadline_ns);
    NOVA_RETURN_IF_ERROR(rep_->StatusOf(stoc, StrCat("reading ", file.ToString()), r.outcome));
    if (r.body.size() > n)
      return rep_->StatusOf(stoc, StrCat("reading ", file.ToString(), ": more than asked"),
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
  ListFilesRequest{range, epoch_below, after}.AppendTo(&body);
  const auto r = rep_->CallAndWait(stoc, StocRequest::kListFiles, body, deadline_ns);
  NOVA_RETURN_IF_ERROR(rep_->StatusOf(stoc, "listing files", r.outcome));
  ListFilesReply reply;
  if (!ListFilesReply::Parse(r.body, &reply))
    return rep_->StatusOf(stoc, "listing files: malformed reply", Outcome::kInternal);
  return std::move(reply.files);
}

StatusOr<Incarnation> StocClient::Ping(StocId stoc, Nanos deadline_ns) {
  const auto r = rep_->CallAndWait(stoc, StocRequest::kPing, "", deadline_ns);
  NOVA_RETURN_IF_ERROR(rep_->StatusOf(stoc, "ping", r.outcome));
  PingReply reply;
  if (!PingReply::Parse(r.body, &reply))
    return rep_->StatusOf(stoc, "ping: malformed reply", Outcome::kInternal);
  return reply.incarnation;
}

}  // namespace nova
