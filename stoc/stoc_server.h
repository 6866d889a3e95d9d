// StocServer: the requests of stoc/protocol.h, served: handlers on the xchg threads decode, check the epoch
// and either answer at once (what needs only memory at hand) or hand over:
//   storage threads  all that waits for the disk (storage_queue.h); a full queue answers kBusy
//   log thread       appends to logs in files (log_writer.h)
//   control thread   what registers or revokes memory: sealing, new segments, recycling
//   copy threads     copies of other StoCs' files (file_copier.h)
//   compaction threads  jobs of LTCs (compactor.h)
//
// What other StoCs read of us to copy it waits for its share of the bandwidth of copies without a thread, and
// takes one storage thread at most (copy_reads.h).
//
// Revocation (F1): a request of a fenced epoch is refused when it arrives and again when its work begins; a
//     FENCE is answered when no work of a lower epoch is inside any more (fence_table.h) and its segments are
//     sealed.
// Handshake (F3): when a later incarnation of a peer says hello, the connections of the earlier ones are
//     destroyed.
// Exposed memory (F4): a file buffer belongs to the connection that opened it until it was persisted, or the
//     connection is gone. One that is never persisted is taken back, after a deadline, by destroying the
//     connection.
// A malformed body ends its connection.
//
// Thread safety: handlers on their xchg thread; AcceptPeer, queue_depth, FenceOnBehalf and Stop from any.
// Ownership:     all parts outlive it; it outlives the xchgs' threads (not the Xchg objects).
// Errors:        outcomes in replies.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/queue.h"
#include "common/base/rules_off.h"
#include "common/base/thread.h"
#include "common/rdma/xchg.h"
#include "stoc/compactor.h"
#include "stoc/copy_bandwidth.h"
#include "stoc/copy_reads.h"
#include "stoc/exposed_memory.h"
#include "stoc/fence_table.h"
#include "stoc/file_copier.h"
#include "stoc/file_store.h"
#include "stoc/log_writer.h"
#include "stoc/segment_pool.h"
#include "stoc/storage_queue.h"

namespace nova {

struct StocServerOptions {
  Incarnation incarnation;
  StocId stoc = {};  // whose files these are
  Uuid store = {};   // of the directory its files are in
  LogWriterOptions log;
  FileCopierOptions copier;
  StocCompactorOptions compactor;
  uint64_t copy_bytes_per_second = 100'000'000;  // of copies of files, in both directions together; above 0
  int storage_threads = 4;
  size_t storage_queue = 1024;                   // pieces of work that wait; more are refused as kBusy
  size_t control_queue = 1024;                   // the same, of the control thread
  Nanos file_buffer_deadline_ns = 60 * kSecond;  // from OpenFile to PersistFile (F4)
  RulesOff off = {};                             // tests only
};

// What the server works on; made by StocNode.
struct StocParts {
  FenceTable* fences = nullptr;
  SegmentPool* segments = nullptr;
  ExposedMemory* log_memory = nullptr;     // of segments
  ExposedMemory* buffer_memory = nullptr;  // of file buffers
  FileStore* files = nullptr;
  Metrics* metrics = nullptr;
  StocClient* others = nullptr;  // the other StoCs, over our own xchgs
};

class StocServer {
 public:
  // Before the xchgs start: registers its handlers, timers and queue depth; starts its own threads.
  StocServer(const StocServerOptions& options, const StocParts& parts, std::vector<Xchg*> xchgs);
  ~StocServer();

  // F3, for Fabric::Listen: on the port's thread.
  Status AcceptPeer(const Hello& peer);
  // What FENCE does, because the range's record says so: raises the epoch and seals, or (`free`: free, R6)
  // frees what is below.
  void FenceOnBehalf(RangeId range, Epoch epoch, bool free);
  bool HoldsBelow(RangeId range, Epoch epoch) const;  // something that FenceOnBehalf would free
  // Refuses new work, finishes what is queued; the xchgs still run and send the replies.
  void Stop();

  // Disk operations queued and running; replies carry it, for placement.
  uint32_t queue_depth() const { return depth_.load(std::memory_order_relaxed); }

 private:
  // Where an answer goes, and until when it is of use.
  struct Caller {
    size_t lane = 0;
    ConnectionId connection;
    uint64_t request_id = 0;
    Nanos deadline_ns = kNever;
    SessionId session() const { return {static_cast<uint32_t>(lane), connection}; }
  };
  // Memory between OpenFile and PersistFile, and the file that it is for.
  struct FileBuffer {
    ExposedMemory::Piece memory;
    StocFileId file;
    Creator creator;
    uint64_t size = 0;    // of the file
    Nanos opened_ns = 0;  // the deadline of F4 counts from here
  };
  // A connection of a peer, from its first request on.
  struct Session {
    std::string name;                        // the peer's
    uint64_t incarnation = 0;                // the same
    std::map<uint64_t, FileBuffer> buffers;  // by the id the client knows
  };
  // State of one xchg thread; no other touches it.
  struct Lane {
    Xchg* xchg = nullptr;
    std::map<ConnectionId, Session> sessions;
    uint64_t next_buffer = 1;  // id of the next FileBuffer
    int slow_opens = 0;        // segments being opened by the control thread
  };
  using Work = absl::AnyInvocable<void()>;
  // The result of work on a storage thread.
  struct Answer {
    Outcome outcome = Outcome::kOk;
    std::string body = {};
    ExposedMemory::Piece memory = {};  // goes back in order
    std::string rest = {};             // of the body, behind `body`
  };
  using StorageWork = absl::AnyInvocable<Answer()>;

  // --- on the lane's xchg thread, as long as nothing else is said
  void Register(size_t lane);  // the handlers and timers of one xchg; before it starts
  // Calls `handler` for requests of that type, decoded. One that does not decode ends its connection.
  template <typename Request>
  void Handle(size_t lane, StocRequest type, const char* name,
              void (StocServer::*handler)(const Caller&, const Request&));
  Session* SessionOf(const Caller& caller);  // null: the connection is gone
  // A connection has said hello. False: a later incarnation of that peer has been here, and the connection is
  // closed (handshake, F3).
  bool BeginSession(const Caller& caller, const Hello& peer);
  void SessionGone(size_t lane, ConnectionId connection);  // its file buffers go to quarantine
  // Closes the lane's connections of earlier incarnations of a peer.
  void CloseOlder(size_t lane, const std::string& name, uint64_t incarnation);
  void CloseOverdue(size_t lane);  // closes connections that keep a file buffer past its deadline (F4)

  // --- requests, as stoc/protocol.h has them
  // Answered at once from memory that is ready; else the control thread registers some first.
  void OpenSegment(const Caller& caller, const OpenSegmentRequest& request);
  // Frees now, or behind the opens that the control thread still has: one may be of the same log.
  void FreeLogs(const Caller& caller, const FreeLogsRequest& request);
  // FreeLogs without waiting for opens; the logs' files go on a storage thread.
  void FreeLogsNow(const Caller& caller, const FreeLogsRequest& request);
  void OpenLogFile(const Caller& caller, const OpenLogFileRequest& request);  // on a storage thread
  void AppendLog(const Caller& caller, const AppendLogRequest& request);      // handed to the log thread
  // Revocation (F1): answered when no work of a lower epoch is inside and the range's segments are sealed.
  void Fence(const Caller& caller, const RangeEpochRequest& request);
  // Free (R6): the same fence, then what is below the epoch is freed instead of sealed.
  void FreeFenced(const Caller& caller, const RangeEpochRequest& request);
  // Finds memory for a file, on the control thread where none is ready, and gives it out.
  void OpenFile(const Caller& caller, const OpenFileRequest& request);
  // Back on the lane: tells the caller where its buffer is, or lets go of it if the connection is gone.
  void GiveBuffer(const Caller& caller, const OpenFileRequest& request, ExposedMemory::Piece memory);
  // The bytes that were written into the buffer become a file; the buffer belongs to nobody from here on.
  void PersistFile(const Caller& caller, const PersistFileRequest& request);
  // A file whose bytes are in the request; on a storage thread.
  void WriteSmallFile(const Caller& caller, const WriteSmallFileRequest& request);
  // On a storage thread: at the end of a file, its bytes in the request.
  void AppendFile(const Caller& caller, const AppendFileRequest& request);
  // On a storage thread; the bytes are the body of the answer.
  void ReadFile(const Caller& caller, const ReadFileRequest& request);
  void AddReferences(const Caller& caller, const AddReferencesRequest& request);    // shared table (M4)
  void DropReferences(const Caller& caller, const DropReferencesRequest& request);  // the same
  void ListFiles(const Caller& caller, const ListFilesRequest& request);            // collection (N4)
  void CopyFile(const Caller& caller, const CopyFileRequest& request);  // handed to the copy threads
  // For another StoC's copy: a piece of a whole file, when the bandwidth of copies lets it.
  void ReadForCopy(const Caller& caller, const ReadForCopyRequest& request);
  // Its turn has come: the bytes are read on a storage thread.
  void ReadPiece(const Caller& caller, const ReadForCopyRequest& request, const FileStore::WholeFile& whole,
                 CopyReads::Turn turn);
  // Files whose headers cannot be read, for owners of ranges to tell which they need.
  void ListUnreadable(const Caller& caller, const ListUnreadableRequest& request);
  // Of those: the caller's range does not need them. A file goes once all ranges have said so.
  void DropUnreadable(const Caller& caller, const DropUnreadableRequest& request);
  void Compact(const Caller& caller, const CompactRequest& request);      // handed to the compaction threads
  void CancelJob(const Caller& caller, const CancelJobRequest& request);  // on a storage thread
  void Ping(const Caller& caller, const PingRequest& request);  // who this is, and how deep its disk queue is

  // Checks epoch, size and checksum of a buffer's bytes, and writes the file. On a storage thread.
  Outcome Persist(const FileBuffer& buffer, const PersistFileRequest& request);
  void Finish(const Caller& caller, Answer answer);  // returns the answer's memory, and replies
  // Counts refusals. `rest` follows `body`.
  void Reply(const Caller& caller, Outcome outcome, std::string_view body = {}, std::string_view rest = {});
  template <typename Message>
  void ReplyWith(const Caller& caller, const Message& message);  // kOk, with a message as its body
  // True: the epoch is fenced, and the caller has been told so.
  bool Refused(const Caller& caller, RangeId range, Epoch epoch);

  // --- any thread
  void ReplyLater(const Caller& caller, Outcome outcome, std::string body = {});  // on the caller's lane
  // False when the queue is full or closed: `work` was dropped.
  bool OnStorage(const Caller& caller, StorageWork work,
                 StorageQueue::Lane lane = StorageQueue::Lane::kOther);
  bool OnControl(Work work);  // the same, of the control thread
  // Has the control thread recycle what lies in quarantine; once however often it is asked.
  void RecycleSoon();

  const StocServerOptions options_;
  const StocParts parts_;
  std::vector<Lane> lanes_;  // [i] belongs to xchg i
  Counter* malformed_;       // requests that ended their connections
  Counter* fenced_;          // requests refused for their epoch (F1)
  Counter* busy_;            // requests refused for a full queue, or want of memory
  Counter* control_work_;    // pieces of work that were queued for the control thread
  Counter* corrupt_;         // requests whose bytes arrived damaged, or whose disk failed
  Histogram* disk_ns_;       // time of the work of a storage thread

  std::atomic<uint32_t> depth_{0};      // see queue_depth
  std::atomic<bool> recycling_{false};  // RecycleSoon was called, and is not done
  LogWriter log_writer_;
  CopyBandwidth copy_bandwidth_;
  CopyReads copy_reads_;
  FileCopier copier_;
  StocCompactor compactor_;
  StorageQueue storage_queue_;        // of the threads storage_
  BoundedQueue<Work> control_queue_;  // of control_
  std::vector<std::unique_ptr<Thread>> storage_;
  std::unique_ptr<Thread> control_;

  Mutex mu_;
  std::map<std::string, uint64_t> latest_ ABSL_GUARDED_BY(mu_);  // incarnation by peer's name (F3)
};

}  // namespace nova
