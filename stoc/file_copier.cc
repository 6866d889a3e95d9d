#include "stoc/file_copier.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

constexpr Nanos kPauseOfBusy = 20 * kMillisecond;
constexpr Nanos kTimeToAnswer = 500 * kMillisecond;  // at most; of a copy's time, a tenth

// A copy is given up so early that its answer arrives before the caller's deadline: what comes later is not
// known to be the source's fault.
Nanos GiveUpTime(Nanos deadline_ns, Nanos longest_ns) {
  const Nanos now = Now();
  const Nanos end = std::min(deadline_ns, now + longest_ns);
  return end - std::min(kTimeToAnswer, (end - now) / 10);
}

}  // namespace

// What a source answered. Written once, under State::mu.
struct FileCopier::Piece {
  bool ended = false;
  Outcome outcome = Outcome::kUnavailable;
  uint64_t data_size = 0;
  uint32_t data_crc = 0;
  std::string bytes;
};

struct FileCopier::Request {
  uint64_t offset = 0;  // of the piece in the file
  uint32_t size = 0;
  Nanos deadline_ns = kNever;    // of its answer
  std::shared_ptr<Piece> piece;  // the answer
};

// What copy threads, Stop and the answers of sources share; an answer may come when the copier is gone.
struct FileCopier::State {
  Mutex mu;
  CondVar changed;
  std::deque<Waiting> waiting ABSL_GUARDED_BY(mu);
  bool stopping ABSL_GUARDED_BY(mu) = false;
};

FileCopier::FileCopier(const FileCopierOptions& options, StocClient* sources, FileStore* files,
                       FenceTable* fences, CopyBandwidth* bandwidth, Metrics* metrics)
    : options_(options),
      sources_(sources),
      files_(files),
      fences_(fences),
      bandwidth_(bandwidth),
      copies_(metrics->counter("nova_stoc_copies_total")),
      copied_bytes_(metrics->counter("nova_stoc_copied_bytes_total")),
      failures_(metrics->counter("nova_stoc_copy_failures_total")),
      state_(std::make_shared<State>()) {
  for (int i = 0; i < options_.threads; ++i)
    threads_.push_back(std::make_unique<Thread>(StrCat("stoc.copy.", i), [this] { Work(); }));
}

FileCopier::~FileCopier() { Stop(); }

void FileCopier::Stop() {
  {
    MutexLock lock(&state_->mu);
    state_->stopping = true;
    state_->changed.SignalAll();
  }
  for (auto& thread : threads_) thread->Join();
  std::deque<Waiting> left;
  {
    MutexLock lock(&state_->mu);
    left.swap(state_->waiting);
  }
  for (Waiting& w : left) w.done(Outcome::kUnavailable, CopyFault::kTarget);
}

bool FileCopier::Copy(const CopyFileRequest& request, Nanos deadline_ns, Done done) {
  MutexLock lock(&state_->mu);
  if (state_->stopping || state_->waiting.size() >= options_.queue) return false;
  state_->waiting.push_back({request, deadline_ns, std::move(done)});
  state_->changed.SignalAll();
  return true;
}

void FileCopier::Work() {
  for (;;) {
    Waiting next;
    {
      MutexLock lock(&state_->mu);
      while (state_->waiting.empty() && !state_->stopping) state_->changed.Wait(&state_->mu);
      if (state_->stopping) return;
      next = std::move(state_->waiting.front());
      state_->waiting.pop_front();
    }
    Result result{Outcome::kDeadlineExceeded};
    if (Now() < next.deadline_ns)
      result = Make(next.request, GiveUpTime(next.deadline_ns, options_.longest_copy_ns));
    (result.ok() ? copies_ : failures_)->Add();
    if (!result.ok()) {
      NOVA_LOG(INFO) << "no copy of " << next.request.file.ToString() << " from stoc "
                     << next.request.source.value() << ": " << OutcomeName(result.outcome)
                     << ", fault of the " << (result.fault == CopyFault::kSource ? "source" : "target");
    }
    next.done(result.outcome, result.fault);
  }
}

// --- one copy

FileCopier::Result FileCopier::Make(const CopyFileRequest& request, Nanos give_up_ns) {
  const auto here = files_->FindWhole(request.file);
  if (!here.ok() && !absl::IsNotFound(here.status())) return {ToOutcome(here.status())};
  if (here.ok() && here->size != request.size) return {Outcome::kInvalidArgument};
  Bytes bytes;
  if (here.ok() && ReadHere(request, *here, give_up_ns, &bytes)) return {Write(request, bytes)};
  if (const Status room = files_->CheckRoom(request.size); !room.ok()) return {ToOutcome(room)};
  if (const Result fetched = Fetch(request, give_up_ns, &bytes); !fetched.ok()) return fetched;
  copied_bytes_->Add(bytes.data.size());
  if (const Status s = NOVA_FP_STATUS("stoc.copy_fetched"); !s.ok()) return {ToOutcome(s)};
  return {Write(request, bytes)};
}

bool FileCopier::ReadHere(const CopyFileRequest& request, const FileStore::WholeFile& here, Nanos give_up_ns,
                          Bytes* bytes) {
  uint32_t crc = 0;
  while (bytes->data.size() < here.size) {
    const auto n = static_cast<uint32_t>(std::min<uint64_t>(kCopyPieceBytes, here.size - bytes->data.size()));
    const bool may = WaitUntil(bandwidth_->Take(n), give_up_ns);
    const auto piece = may ? files_->ReadFile(request.file, bytes->data.size(), n)
                           : StatusOr<std::string>(absl::DeadlineExceededError("given up"));
    if (!piece.ok() || piece->size() != n) break;
    crc = ExtendCrc32c(crc, piece->data(), piece->size());
    bytes->data += *piece;
  }
  bytes->crc = here.crc;
  if (bytes->data.size() == here.size && crc == here.crc) return true;
  bytes->data.clear();
  return false;
}

FileCopier::Result FileCopier::Fetch(const CopyFileRequest& request, Nanos give_up_ns, Bytes* bytes) {
  const uint64_t pieces = std::max<uint64_t>(1, (request.size + kCopyPieceBytes - 1) / kCopyPieceBytes);
  std::deque<Request> asked;  // in the order of the file
  uint64_t next = 0;          // piece to ask for
  for (uint64_t arrived = 0; arrived < pieces; ++arrived) {
    for (; next < std::min(pieces, arrived + kCopyPiecesUnderWay); ++next) {
      if (AskFor(next, request, give_up_ns, &asked)) continue;
      // Our own bandwidth is what it lacked.
      return {stopping() ? Outcome::kUnavailable : Outcome::kDeadlineExceeded};
    }
    Request first = std::move(asked.front());
    asked.pop_front();
    if (const Result r = AddPiece(std::move(first), request, give_up_ns, bytes); !r.ok()) return r;
  }
  if (bytes->found_crc != bytes->crc) return {Outcome::kCorruption, CopyFault::kSource};
  return {};
}

bool FileCopier::AskFor(uint64_t index, const CopyFileRequest& request, Nanos give_up_ns,
                        std::deque<Request>* asked) {
  const uint64_t at = index * kCopyPieceBytes;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(kCopyPieceBytes, request.size - at));
  if (!WaitUntil(bandwidth_->Take(n), give_up_ns)) return false;
  asked->push_back(Ask(request, at, n, give_up_ns));
  return true;
}

FileCopier::Result FileCopier::AddPiece(Request asked, const CopyFileRequest& request, Nanos give_up_ns,
                                        Bytes* bytes) {
  std::shared_ptr<const Piece> piece = AnswerTo(asked);
  bool may = true;
  while (piece != nullptr && piece->outcome == Outcome::kBusy) {
    may = WaitUntil(Now() + kPauseOfBusy, give_up_ns);
    if (!may) break;
    asked = Ask(request, asked.offset, asked.size, give_up_ns);
    piece = AnswerTo(asked);
  }
  if (stopping()) return {Outcome::kUnavailable};
  if (!may || piece == nullptr) return {Outcome::kUnavailable, CopyFault::kSource};
  switch (piece->outcome) {
    case Outcome::kOk:
      break;
    case Outcome::kNotFound:
    case Outcome::kCorruption:
    case Outcome::kInvalidArgument:
      return {piece->outcome, CopyFault::kSource};
    default:
      return {Outcome::kUnavailable, CopyFault::kSource};
  }
  const bool as_wanted = piece->data_size == request.size && piece->bytes.size() == asked.size;
  if (!as_wanted || (asked.offset > 0 && piece->data_crc != bytes->crc))
    return {Outcome::kCorruption, CopyFault::kSource};
  if (asked.offset == 0) bytes->data.reserve(request.size);
  bytes->crc = piece->data_crc;
  bytes->data += piece->bytes;
  bytes->found_crc = ExtendCrc32c(bytes->found_crc, piece->bytes.data(), piece->bytes.size());
  return {};
}

FileCopier::Request FileCopier::Ask(const CopyFileRequest& request, uint64_t offset, uint32_t size,
                                    Nanos give_up_ns) {
  Request asked{offset, size, std::min(give_up_ns, Now() + options_.source_timeout_ns),
                std::make_shared<Piece>()};
  sources_->StartReadForCopy(
      request.source, request.incarnation, {request.file, offset, size}, asked.deadline_ns,
      [state = state_, piece = asked.piece](Outcome outcome, const ReadForCopyReply& reply) {
        MutexLock lock(&state->mu);
        piece->ended = true;
        piece->outcome = outcome;
        piece->data_size = reply.data_size;
        piece->data_crc = reply.data_crc;
        piece->bytes = reply.bytes;
        state->changed.SignalAll();
      });
  return asked;
}

std::shared_ptr<const FileCopier::Piece> FileCopier::AnswerTo(const Request& asked) {
  MutexLock lock(&state_->mu);
  while (!asked.piece->ended) {
    if (state_->stopping || !state_->changed.WaitUntil(&state_->mu, asked.deadline_ns)) break;
  }
  return asked.piece->ended && !state_->stopping ? asked.piece : nullptr;
}

Outcome FileCopier::Write(const CopyFileRequest& request, const Bytes& bytes) {
  const FenceTable::Scope scope(fences_, request.creator.range, request.creator.epoch);
  if (!scope.entered()) return Outcome::kNotOwner;
  Status status = options_.off.s5_take_over
                      ? files_->WriteFile(request.file, request.creator, bytes.data, bytes.crc)
                      : files_->WriteCopy(request.file, request.creator, bytes.data, bytes.crc);
  if (absl::IsNotFound(status)) return Outcome::kBusy;  // deleted meanwhile
  if (status.ok()) status = NOVA_FP_STATUS("stoc.copy_written");
  return ToOutcome(status);
}

bool FileCopier::WaitUntil(Nanos when_ns, Nanos give_up_ns) {
  MutexLock lock(&state_->mu);
  while (!state_->stopping && when_ns < give_up_ns) {
    if (Now() >= when_ns) return true;
    state_->changed.WaitUntil(&state_->mu, when_ns);
  }
  return false;
}

bool FileCopier::stopping() const {
  MutexLock lock(&state_->mu);
  return state_->stopping;
}

}  // namespace nova
