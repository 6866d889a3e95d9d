// FileCopier: makes copies here of files that other StoCs have (rebuild, S5): fetches one in pieces, as fast
// as the bandwidth of copies lets it, compares what came with the size that is wanted and with the checksum
// that the source has of it, and writes it durably. A few pieces of a file are under way at a time, so that
// the bandwidth is used while one travels.
//
// A file that is here already, and whole, is fetched from nobody. What is damaged is healed. In either case
// the range that asks references it from then on.
//
// Revocation (F1): whether the epoch is fenced is looked at when the file is about to be written; while it is
// written a FENCE waits, while it is fetched none does.
//
// A source that is silent ends its copy after source_timeout_ns. No copy outlasts its deadline, and Stop ends
// them at once, but for one that is being written.
//
// Thread safety: all; `done` runs on a copy thread, or in Stop, once.
// Ownership:     the client, the FileStore, the FenceTable and the bandwidth outlive it. Nobody waits for the
//                client's xchgs: what a source answers later is dropped.
// Errors:        false: too many wait, or it was stopped. Outcomes, by whose fault it is:
//   the source   kNotFound: it has no such file. kCorruption: its file is damaged, or of another size.
//                kInvalidArgument: its file is one that may change. kUnavailable: it is not known, not
//                reached, silent, or busy until the end.
//   the target   kNotOwner: fenced. kNoSpace. kCorruption: its disk failed. kInvalidArgument: another file of
//                that name is there. kBusy: the file came or went meanwhile. kDeadlineExceeded: its own
//                bandwidth gave no time for it. kUnavailable: it is stopping.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "common/base/metrics.h"
#include "common/base/outcome.h"
#include "common/base/rules_off.h"
#include "common/base/thread.h"
#include "stoc/copy_bandwidth.h"
#include "stoc/fence_table.h"
#include "stoc/file_store.h"
#include "stoc/protocol.h"
#include "stoc/stoc_client.h"

namespace nova {

struct FileCopierOptions {
  int threads = 2;                            // so that a silent source holds up half of the copies
  size_t queue = 64;                          // copies that wait; more are refused
  Nanos source_timeout_ns = 10 * kSecond;     // of one piece
  Nanos longest_copy_ns = 10 * 60 * kSecond;  // whatever its deadline is
  RulesOff off = {};                          // tests only
};

class FileCopier {
 public:
  using Done = absl::AnyInvocable<void(Outcome, CopyFault)>;

  FileCopier(const FileCopierOptions& options, StocClient* sources, FileStore* files, FenceTable* fences,
             CopyBandwidth* bandwidth, Metrics* metrics);
  ~FileCopier();  // as Stop

  // Queues a copy.
  bool Copy(const CopyFileRequest& request, Nanos deadline_ns, Done done);
  // Ends what is under way and answers what waits: kUnavailable.
  void Stop();

 private:
  struct Waiting {  // a copy that no thread has begun
    CopyFileRequest request;
    Nanos deadline_ns = kNever;
    Done done;
  };
  struct Result {  // how a copy, or a step of it, ended
    Outcome outcome = Outcome::kOk;
    CopyFault fault = CopyFault::kTarget;
    bool ok() const { return outcome == Outcome::kOk; }
  };
  struct Bytes {  // of the file, as far as they have come
    std::string data;
    uint32_t crc = 0;        // as its header has it
    uint32_t found_crc = 0;  // of `data`, as Fetch finds it
  };
  struct Piece;    // the source's answer to one question
  struct State;    // what waits, and whether to stop; shared with answers that come late
  struct Request;  // a question to the source, and the place of its answer

  void Work();  // the body of a copy thread
  // One copy, until it is durable, has failed, or has to be given up.
  Result Make(const CopyFileRequest& request, Nanos give_up_ns);
  // The file, if it is here and whole. False: it is not, as far as can be told before `give_up_ns`.
  bool ReadHere(const CopyFileRequest& request, const FileStore::WholeFile& here, Nanos give_up_ns,
                Bytes* bytes);
  // Gets the whole file from its source, piece by piece, and compares size and checksum.
  Result Fetch(const CopyFileRequest& request, Nanos give_up_ns, Bytes* bytes);
  // Asks for piece `index` of the file, once it may pass by the bandwidth. False: that is too late, or we are
  // to stop.
  bool AskFor(uint64_t index, const CopyFileRequest& request, Nanos give_up_ns, std::deque<Request>* asked);
  // Adds the piece to the bytes, which end where it begins. Waits for it, and asks again while the source is
  // busy.
  Result AddPiece(Request piece, const CopyFileRequest& request, Nanos give_up_ns, Bytes* bytes);
  // One question to the source.
  Request Ask(const CopyFileRequest& request, uint64_t offset, uint32_t size, Nanos give_up_ns);
  // The answer; null: it did not come in time, or we are to stop.
  std::shared_ptr<const Piece> AnswerTo(const Request& asked);
  // Writes it durably, unless the epoch is fenced by now (F1).
  Outcome Write(const CopyFileRequest& request, const Bytes& bytes);
  // False: we are to stop, or would wait beyond `give_up_ns`.
  bool WaitUntil(Nanos when_ns, Nanos give_up_ns);
  bool stopping() const;  // Stop was called

  const FileCopierOptions options_;
  StocClient* const sources_;
  FileStore* const files_;
  FenceTable* const fences_;
  CopyBandwidth* const bandwidth_;
  Counter* const copies_;
  Counter* const copied_bytes_;
  Counter* const failures_;
  const std::shared_ptr<State> state_;  // has a lock of its own
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nova
