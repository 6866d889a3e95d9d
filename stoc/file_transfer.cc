#include "stoc/file_transfer.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/mutex.h"
#include "common/base/wait_group.h"

namespace nova {
namespace {

constexpr size_t kPieceBytes = 1 << 20;  // of transfer memory
constexpr size_t kReadChunkBytes = 4 * kPieceBytes;

}  // namespace

// Registered memory, in pieces. What took some may be the last to hold it: what an Xchg has not run when it
// stopped goes with the Xchg.
struct FileTransfer::Memory {
  Memory(Fabric* fabric, size_t bytes) : max_bytes(bytes), pool(fabric, Access::kLocal, bytes, kPieceBytes) {}
  const size_t max_bytes;
  BufferPool pool;
  Mutex mu;
  CondVar room;
  size_t taken ABSL_GUARDED_BY(mu) = 0;
};

struct FileTransfer::Pieces {
  explicit Pieces(std::shared_ptr<Memory> m) : memory(std::move(m)) {}
  ~Pieces() {
    const size_t bytes = buffers.size() * kPieceBytes;
    buffers.clear();
    MutexLock lock(&memory->mu);
    memory->taken -= bytes;
    memory->room.SignalAll();
  }
  const std::shared_ptr<Memory> memory;
  std::vector<Buffer> buffers;
  std::vector<LocalBuffer> locals;  // of the bytes to move
};

FileTransfer::FileTransfer(Fabric* fabric, size_t bytes, StocCalls* calls)
    : calls_(calls), memory_(std::make_shared<Memory>(fabric, bytes)) {}

StatusOr<std::shared_ptr<FileTransfer::Pieces>> FileTransfer::Take(size_t bytes, Nanos deadline_ns) {
  Memory& memory = *memory_;
  const size_t count = (bytes + kPieceBytes - 1) / kPieceBytes;
  const size_t rounded = count * kPieceBytes;
  if (rounded > memory.max_bytes)
    return absl::InvalidArgumentError(StrCat(bytes, " bytes are more than the transfer memory"));
  {
    MutexLock lock(&memory.mu);
    while (memory.taken + rounded > memory.max_bytes) {
      if (!memory.room.WaitUntil(&memory.mu, deadline_ns) && memory.taken + rounded > memory.max_bytes) {
        return absl::DeadlineExceededError("waiting for transfer memory");
      }
    }
    memory.taken += rounded;
  }
  auto pieces = std::make_shared<Pieces>(memory_);
  pieces->buffers.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Buffer& buffer = pieces->buffers[i];
    buffer = memory.pool.Allocate(kPieceBytes);
    if (!buffer) return absl::UnavailableError("no transfer memory could be registered");
    const size_t n = std::min(kPieceBytes, bytes - i * kPieceBytes);
    pieces->locals.push_back({buffer.data(), static_cast<uint32_t>(n), buffer.lkey()});
  }
  return pieces;
}

// --- to StoCs

struct FileTransfer::File {
  StocFileId file;
  Creator creator;
  std::string_view data;  // small: sent inline
  uint64_t size = 0;
  uint32_t crc = 0;
  std::shared_ptr<Pieces> pieces;  // else from here
};

// One copy that a WriteAll makes.
struct FileTransfer::Copy {
  KnownStocs::Writing writing;
  Outcome outcome = Outcome::kUnavailable;
};

// One file to one StoC: OpenFile -> WRITEs and PersistFile in one doorbell; a small file inline. Lives as
// long as something of it is under way, on one xchg thread. After kBusy it starts anew. A StoC whose disk
// hangs does not answer: where there are others for all copies of the file it is waited for until its disk is
// known to hang, not until the deadline, and the writer chooses among them; whether the file gets there is
// unknown then.
class FileTransfer::CopyWriter : public std::enable_shared_from_this<CopyWriter> {
 public:
  CopyWriter(StocCalls* calls, StocId stoc, size_t copies, std::shared_ptr<const File> file,
             Nanos deadline_ns, Copy* copy, WaitGroup::Part part)
      : calls_(calls),
        xchg_(calls->NextXchg()),
        stoc_(stoc),
        copies_(copies),
        file_(std::move(file)),
        deadline_ns_(deadline_ns),
        copy_(copy),
        part_(std::move(part)) {}

  void Start() {
    xchg_->Submit([self = shared_from_this()] {
      self->Begin();
      self->LookLater();
    });
  }

 private:
  // Ends the copy once the StoC's disk is known to hang and there are others.
  void LookLater() {
    constexpr Nanos kPause = kSecond;
    // Weak: what has ended holds no transfer memory for a timer.
    xchg_->RunAt(Now() + kPause, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || self->ended_) return;
      if (self->calls_->stocs()->IsHungBesideOthers(self->stoc_, self->copies_))
        return self->End(Outcome::kUnknown);
      self->LookLater();
    });
  }

  void Begin() {
    if (ended_) return;
    const KnownStocs::Target* const found = calls_->stocs()->FindTarget(xchg_, stoc_);
    if (found == nullptr) return End(Outcome::kUnavailable);
    target_ = *found;
    std::string head;
    if (file_->pieces == nullptr) {
      AppendBody(WriteSmallFileRequest{file_->file, file_->creator, file_->crc, {}}, &head);
      const std::string_view parts[] = {head, file_->data};
      return calls_->Call(xchg_, target_, StocRequest::kWriteSmallFile, parts, deadline_ns_,
                          [self = shared_from_this()](Outcome o, std::string_view) { self->Answered(o); });
    }
    AppendBody(OpenFileRequest{file_->file, file_->creator, file_->size}, &head);
    const std::string_view whole = head;
    calls_->Call(xchg_, target_, StocRequest::kOpenFile, {&whole, 1}, deadline_ns_,
                 [self = shared_from_this()](Outcome o, std::string_view body) { self->Opened(o, body); });
  }

  void Opened(Outcome outcome, std::string_view body) {
    if (ended_) return;
    if (outcome != Outcome::kOk) return Answered(outcome);
    OpenFileReply reply;
    if (!ParseBody(body, &reply) || reply.memory.size < file_->size) return End(Outcome::kInternal);
    const std::span<const LocalBuffer> locals = file_->pieces->locals;
    uint64_t at = reply.memory.address;
    for (size_t i = 0; i < locals.size(); i += kMaxPieces) {
      const auto some = locals.subspan(i, std::min(kMaxPieces, locals.size() - i));
      // The transfer memory is held until the WRITE is over, whatever became of it (exposed memory, F4).
      xchg_->Write(target_.peer, some, at, reply.memory.rkey, deadline_ns_,
                   [self = shared_from_this()](Outcome) {});
      for (const LocalBuffer& local : some) at += local.length;
    }
    std::string request;
    AppendBody(PersistFileRequest{reply.buffer, static_cast<uint32_t>(file_->size), file_->crc}, &request);
    const std::string_view whole = request;
    calls_->Call(xchg_, target_, StocRequest::kPersistFile, {&whole, 1}, deadline_ns_,
                 [self = shared_from_this()](Outcome o, std::string_view) { self->Answered(o); });
  }

  void Answered(Outcome outcome) {
    const Nanos again = Now() + StocCalls::PauseAfter(tries_);
    if (outcome != Outcome::kBusy || again >= deadline_ns_) return End(outcome);
    ++tries_;
    xchg_->RunAt(again, [self = shared_from_this()] { self->Begin(); });
  }

  // Once; what comes later is of no interest.
  void End(Outcome outcome) {
    if (std::exchange(ended_, true)) return;
    copy_->outcome = outcome;
    copy_->writing.Done(outcome == Outcome::kOk);
    part_.End();
  }

  StocCalls* const calls_;
  Xchg* const xchg_;
  const StocId stoc_;
  const size_t copies_;  // of the file
  const std::shared_ptr<const File> file_;
  const Nanos deadline_ns_;
  Copy* const copy_;
  WaitGroup::Part part_;
  KnownStocs::Target target_;
  int tries_ = 0;
  bool ended_ = false;  // the caller, whose copy_ is, may be gone
};

StatusOr<std::shared_ptr<const FileTransfer::File>> FileTransfer::Prepare(const FileWrite& write,
                                                                          const Creator& creator,
                                                                          Nanos deadline_ns) {
  auto file = std::make_shared<File>();
  file->file = write.file;
  file->creator = creator;
  file->size = write.data.size();
  if (write.data.size() <= kMaxInlineFileBytes) {
    file->data = write.data;
    file->crc = Crc32c(write.data);
    return file;
  }
  auto pieces = Take(write.data.size(), deadline_ns);
  if (!pieces.ok()) return Annotate(pieces.status(), StrCat("writing ", write.file.ToString()));
  size_t at = 0;
  for (size_t i = 0; i < (*pieces)->locals.size(); ++i) {
    const uint32_t n = (*pieces)->locals[i].length;
    file->crc = Crc32cCopy((*pieces)->buffers[i].data(), write.data.data() + at, n, file->crc);
    at += n;
  }
  file->pieces = *std::move(pieces);
  return file;
}

Status FileTransfer::WriteAll(const std::vector<FileWrite>& files, const Creator& creator,
                              Nanos deadline_ns) {
  auto all = std::make_shared<WaitGroup>();
  // Of each file. All count as on their way from here on, for who places the next table at this moment.
  std::vector<std::vector<Copy>> copies(files.size());
  for (size_t f = 0; f < files.size(); ++f) {
    for (const StocId stoc : files[f].stocs)
      copies[f].push_back({calls_->stocs()->BeginWriting(stoc, files[f].data.size())});
  }
  Status status;
  size_t begun = 0;  // files; the xchg threads write to the Copies of those
  for (; begun < files.size(); ++begun) {
    const FileWrite& write = files[begun];
    const auto file = Prepare(write, creator, deadline_ns);
    if (!file.ok()) {
      status = file.status();
      break;
    }
    for (size_t i = 0; i < write.stocs.size(); ++i) {
      std::make_shared<CopyWriter>(calls_, write.stocs[i], write.stocs.size(), *file, deadline_ns,
                                   &copies[begun][i], WaitGroup::Part(all))
          ->Start();
    }
  }
  all->Wait();
  for (size_t f = 0; f < begun; ++f) {
    for (size_t i = 0; i < copies[f].size(); ++i) {
      const Outcome outcome = copies[f][i].outcome;
      if (outcome == Outcome::kOk) continue;
      // Revocation (F1): being fenced is what the caller has to know
      if (!status.ok() && outcome != Outcome::kNotOwner) continue;
      status = calls_->StatusOf(files[f].stocs[i], StrCat("writing ", files[f].file.ToString()), outcome);
    }
  }
  return status;
}

// --- from their memory

StatusOr<std::string> FileTransfer::ReadRemote(StocId stoc, Incarnation incarnation,
                                               const RemoteBuffer& memory, Nanos deadline_ns) {
  std::string bytes;
  bytes.reserve(memory.size);
  while (bytes.size() < memory.size) {
    const size_t n = std::min<uint64_t>(kReadChunkBytes, memory.size - bytes.size());
    NOVA_RETURN_IF_ERROR(ReadChunk(stoc, incarnation, memory.Slice(bytes.size(), n), deadline_ns, &bytes));
  }
  return bytes;
}

Status FileTransfer::ReadChunk(StocId stoc, Incarnation incarnation, const RemoteBuffer& chunk,
                               Nanos deadline_ns, std::string* bytes) {
  NOVA_ASSIGN_OR_RETURN(const auto pieces, Take(chunk.size, deadline_ns));
  std::vector<Outcome> outcomes(pieces->locals.size(), Outcome::kUnavailable);
  auto all = std::make_shared<WaitGroup>();
  Xchg* const xchg = calls_->NextXchg();
  xchg->Submit([=, calls = calls_, outcome = outcomes.data(), part = WaitGroup::Part(all)] {
    Peer* const target = calls->stocs()->FindPeer(xchg, stoc, incarnation);
    if (target == nullptr) return;
    uint64_t at = chunk.address;
    for (size_t i = 0; i < pieces->locals.size(); ++i) {
      // The transfer memory is held until the READ is over, whatever became of it (exposed memory, F4).
      xchg->Read(target, pieces->locals[i], at, chunk.rkey, deadline_ns,
                 [pieces, one = outcome + i, p = WaitGroup::Part(all)](Outcome o) mutable {
                   *one = o;
                   p.End();
                 });
      at += pieces->locals[i].length;
    }
  });
  all->Wait();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    NOVA_RETURN_IF_ERROR(calls_->StatusOf(stoc, "reading memory", outcomes[i]));
    bytes->append(static_cast<const char*>(pieces->locals[i].address), pieces->locals[i].length);
  }
  return OkStatus();
}

}  // namespace nova
