// StocClient: requests to StoCs, for whoever holds their addresses.
//
// Async forms run on an xchg thread and call `done` there; blocking forms are for compaction, recovery and
// control threads.
// Layout of messages: stoc/protocol.h.
//
// Parts, each of which asks those before it: KnownStocs (which there are, and where), StocCalls (a request
// and its answer), FileTransfer (bytes of files, by WRITE and READ).
//
// Thread safety: async forms OnXchg (of `xchg`); blocking forms from any thread that may wait; the directory
//                of StoCs may be replaced at any time (UpdateStocs).
// Ownership:     arguments are copied before a call returns. Memory handed out by OpenSegment belongs to the
//                StoC. The client outlives the xchgs' threads: what runs on them refers to it.
// Errors:        outcomes as xchg.h says; kNotOwner: our epoch is fenced; kNoSpace; kNotFound; kCorruption:
//                bytes arrived damaged. `done` never runs inside the call. Blocking forms wait and try again,
//                in the deadline, while a StoC says kBusy.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/rdma/xchg.h"
#include "coordinator/cluster_types.h"
#include "stoc/protocol.h"
#include "stoc/stoc_load.h"

namespace nova {

struct StocClientOptions {
  // registered memory that WRITEs are sent from and READs come to; bounds a file's size
  size_t transfer_bytes = 64 << 20;
};

class StocClient {
 public:
  // One Xchg per request thread; blocking forms use them round robin.
  StocClient(Fabric* fabric, std::vector<Xchg*> xchgs, const StocClientOptions& options = {});
  ~StocClient();

  // --- the StoCs there are: live ones (placement), and the last known address of every other
  void UpdateStocs(const std::vector<NodeInfo>& live);
  std::vector<NodeInfo> live() const;
  std::optional<NodeInfo> Find(StocId id) const;
  bool IsLive(StocId id) const;
  StocLoad LoadOf(StocId id) const;
  // The same StoCs, in the order in which their copies are to be read: live ones first, those that are
  // reached, those with better disks, then those with shorter queues.
  std::vector<StocId> InOrderOfReading(const std::vector<StocId>& stocs) const;

  // --- async, OnXchg
  void OpenSegment(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                   uint32_t index, uint64_t size, Nanos deadline_ns,
                   absl::AnyInvocable<void(Outcome, RemoteBuffer)> done);
  void FreeLogs(Xchg* xchg, StocId stoc, RangeId range, Epoch epoch, const std::vector<Uuid>& logs,
                OpDone done);
  void OpenLogFile(Xchg* xchg, const LogMember& member, RangeId range, Epoch epoch, const Uuid& log,
                   Nanos deadline_ns, OpDone done);
  // The bytes at `request.offset` of the log's file.
  void AppendLog(Xchg* xchg, StocId stoc, const AppendLogRequest& request, Nanos deadline_ns, OpDone done);
  // Part of a file. done's view is valid during the call.
  void ReadFile(Xchg* xchg, StocId stoc, const StocFileId& file, uint64_t offset, uint32_t size,
                Nanos deadline_ns, absl::AnyInvocable<void(Outcome, std::string_view)> done);
  void Ping(Xchg* xchg, StocId stoc, Nanos deadline_ns, absl::AnyInvocable<void(Outcome, Incarnation)> done);
  // For WRITEs and READs of memory that this start of the StoC has given out; no other is reached
  // (incarnation, N1). Null: not known, or not the one that is known.
  Peer* peer(Xchg* xchg, StocId stoc, Incarnation incarnation);
  // Any thread. FENCE, as below, at `start_ns`, for callers that wait for several at once: `done` runs on an
  // xchg thread, or is destroyed undone where that has stopped.
  void StartFence(StocId stoc, RangeId range, Epoch epoch, Nanos start_ns, Nanos deadline_ns,
                  absl::AnyInvocable<void(StatusOr<FenceReply>)> done);
  // Any thread. A copy of a file, made durably on `target` from the bytes that the request's source has
  // (rebuild, S5); tried again while the target is busy. A failure says whose it is. `done` as of StartFence.
  struct CopyResult {
    Status status;
    CopyFault fault = CopyFault::kTarget;
  };
  void StartCopyFile(StocId target, const CopyFileRequest& request, Nanos deadline_ns,
                     absl::AnyInvocable<void(CopyResult)> done);
  // Any thread. A piece of a whole file, for a copy of it; the StoC answers as fast as it means copies to be
  // made. kUnavailable also where it is known by an earlier incarnation than this one. The reply's bytes are
  // valid during `done`, which is as of StartFence.
  void StartReadForCopy(StocId stoc, Incarnation incarnation, const ReadForCopyRequest& request,
                        Nanos deadline_ns, absl::AnyInvocable<void(Outcome, const ReadForCopyReply&)> done);
  // Any thread. Has that start of a StoC run a job (stoc/compactor.h), once: kUnavailable where it is known
  // by another. A reply's body is valid during `done`, which is as of StartFence.
  void StartCompact(StocId worker, Incarnation incarnation, const CompactRequest& request, Nanos deadline_ns,
                    absl::AnyInvocable<void(Outcome, std::string_view body)> done);
  // Any thread. At `start_ns`, and again while the attempt is under way still. `done` as of StartFence.
  void StartCancelJob(StocId worker, const CancelJobRequest& request, Nanos start_ns, Nanos deadline_ns,
                      absl::AnyInvocable<void(Outcome)> done);
  // Any thread: best effort, nobody is told.
  void DropReferencesLater(StocId stoc, RangeId range, Epoch epoch, std::vector<StocFileId> files);

  // --- blocking
  StatusOr<FenceReply> Fence(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns);
  Status FreeFenced(StocId stoc, RangeId range, Epoch epoch, Nanos deadline_ns);
  // One-sided (read, R3), of the start of the StoC that gave out the memory.
  StatusOr<std::string> ReadRemote(StocId stoc, Incarnation incarnation, const RemoteBuffer& memory,
                                   Nanos deadline_ns);
  Status WriteFile(StocId stoc, const StocFileId& file, const Creator& creator, std::string_view data,
                   Nanos deadline_ns);
  // Several files, all copies at once; OK when all are everywhere.
  Status WriteAll(const std::vector<FileWrite>& files, const Creator& creator, Nanos deadline_ns);
  // Synced at every member, else an error (manifest, M1: write-all). `create` starts the file. What no
  // message holds goes in pieces, one after the other: after an error a member may have any number of them.
  Status AppendFile(const std::vector<StocId>& stocs, const StocFileId& file, const Creator& creator,
                    uint64_t offset, bool create, std::string_view data, Nanos deadline_ns);
  // Fewer bytes than `size` where the file ends; UINT64_MAX: to the end.
  StatusOr<std::string> ReadFileBlocking(StocId stoc, const StocFileId& file, uint64_t offset, uint64_t size,
                                         Nanos deadline_ns);
  // Shared table (M4): the range references the files from now on; after an error some may be referenced.
  // NotFound: one is not there.
  Status AddReferences(StocId stoc, RangeId range, Epoch epoch, const std::vector<StocFileId>& files,
                       Nanos deadline_ns);
  // It does not any more; what nobody references is deleted. `ended_below` above 0, of a collection (N4):
  // what a job from that number on has placed stays.
  Status DropReferences(StocId stoc, RangeId range, Epoch epoch, const std::vector<StocFileId>& files,
                        Nanos deadline_ns, uint64_t ended_below = 0);
  // As StartCopyFile.
  CopyResult CopyFile(StocId target, const CopyFileRequest& request, Nanos deadline_ns);
  // A page, upwards from behind `after`; fewer than kMaxListedFiles are the last.
  StatusOr<std::vector<FileSummary>> ListFiles(StocId stoc, RangeId range, Epoch epoch_below,
                                               const StocFileId& after, Nanos deadline_ns);
  // Files that the StoC's start found under names of StoC files, without headers that can be read.
  StatusOr<std::vector<StocFileId>> ListUnreadable(StocId stoc, Nanos deadline_ns);
  // The range needs none of these unreadable files (collection, N4).
  Status DropUnreadable(StocId stoc, RangeId range, Epoch epoch, const std::vector<StocFileId>& files,
                        Nanos deadline_ns);
  // All side by side; the answers in that order, none where it was none.
  std::vector<std::optional<Incarnation>> PingAll(std::span<const StocId> stocs, Nanos deadline_ns);

 private:
  struct Rep;
  // AppendFile of what one message holds.
  Status AppendPiece(const std::vector<StocId>& stocs, const StocFileId& file, const Creator& creator,
                     uint64_t offset, bool create, std::string_view data, Nanos deadline_ns);

  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
