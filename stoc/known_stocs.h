// KnownStocs: the StoCs there are, as the coordinator last said: live ones (placement), and the last known
// address of every other; and what each exchange thread knows of those it talks to.
//
// Thread safety: all; FindTarget and FindPeer OnXchg (of `xchg`).
// Locks:         its own; under it a thread's Xchg is asked for a peer, which takes none.
// Ownership:     the xchgs outlive it, and own the peers.
// Errors:        null, nullopt: not known.
#pragma once

#include <atomic>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rdma/xchg.h"
#include "coordinator/cluster_types.h"
#include "stoc/stoc_load.h"
#include "stoc/write_pace.h"

namespace nova {

class KnownStocs {
 public:
  // What the answers of a StoC say of it, calls that were not answered, and files on their way; to any
  // thread.
  struct Signs {
    // See StocLoad. The depth that the last reply told, what of it were others', and when it came.
    std::atomic<uint32_t> queue_depth{0};
    std::atomic<uint32_t> others_queued{0};
    std::atomic<Nanos> told_ns{0};
    std::atomic<uint32_t> writes{0};  // of files that are being written there
    std::atomic<uint64_t> bytes{0};   // of those files
    WritePace pace;
    // The start (incarnation, N1) to which a call lost its connection, or got none, and none was answered
    // since; 0: there is none. The coordinator knows of a death when a lease has ended; who reads from
    // another copy need not wait for that. What ends late, of a start before, says nothing of the next one.
    std::atomic<uint64_t> unreachable_start{0};
    std::atomic<bool> asked{false};  // whether it answers again: somebody does (StocCalls)
  };
  // A StoC, as one exchange thread reaches it.
  struct Target {
    StocId id;
    Peer* peer = nullptr;     // of that thread's Xchg
    Incarnation incarnation;  // that it is known by; requests reach no other
    Signs* signs = nullptr;   // the KnownStocs' own
  };

  // A file that is being written to a StoC, from when the StoC was chosen until Done or the end of its life.
  class Writing {
   public:
    Writing() = default;
    Writing(Signs* signs, uint64_t bytes);
    Writing(Writing&& other) noexcept : signs_(std::exchange(other.signs_, nullptr)), bytes_(other.bytes_) {}
    Writing& operator=(Writing&&) = delete;
    ~Writing() { Done(/*stored=*/false); }
    void Done(bool stored);

   private:
    Signs* signs_ = nullptr;  // null: done
    uint64_t bytes_ = 0;
  };

  explicit KnownStocs(std::vector<Xchg*> xchgs) : xchgs_(std::move(xchgs)), lanes_(xchgs_.size()) {}

  // The coordinator has told which StoCs are live. Those that are not among them any more stay known; one
  // that was not, or has started anew, counts as reachable.
  void Update(const std::vector<NodeInfo>& live);
  std::vector<NodeInfo> live() const;             // as Update said last
  std::optional<NodeInfo> Find(StocId id) const;  // live or not, as it was last live
  bool IsLive(StocId id) const;
  StocLoad LoadOf(StocId id) const;  // nothing, told just now: it is not known
  // From now on the bytes count as on their way there.
  Writing BeginWriting(StocId id, uint64_t bytes);
  // A reply came, of that start, that told of `depth` requests.
  static void NoteReply(Signs* signs, Incarnation start, uint32_t depth);
  // A call of that start ended without an answer. True: the first.
  static bool NoteUnreachable(Signs* signs, Incarnation start);
  // How good a copy there is to read from, the best first: of a live StoC that is reached, by its disk, with
  // a short queue. One that is not known is the worst.
  struct Rank {
    bool away = true;                 // not live
    bool unreachable = false;         // as Signs say
    DiskState disk = DiskState::kOk;  // as the coordinator says
    uint32_t queue_depth = 0;         // its requests waiting for the disk
    auto operator<=>(const Rank&) const = default;
  };
  Rank RankOf(StocId id) const;
  // The StoC's disk is known to hang, and `copies` other live StoCs could take what is not written there.
  bool IsHungBesideOthers(StocId id, size_t copies) const;
  std::string NameOf(StocId id) const;  // for people

  // Valid until the next call.
  const Target* FindTarget(Xchg* xchg, StocId id);
  // Of that start of the StoC only (incarnation, N1).
  Peer* FindPeer(Xchg* xchg, StocId id, Incarnation incarnation);

 private:
  struct Node {  // one that was ever live
    NodeInfo info;
    std::unique_ptr<Signs> signs = std::make_unique<Signs>();
  };
  struct Lane {            // the Targets of one exchange thread, found as they are asked for
    uint64_t version = 0;  // of nodes_, when they were found; another: they are looked up anew
    std::map<StocId, Target> targets;
  };

  bool IsLiveLocked(StocId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // see IsLive

  const std::vector<Xchg*> xchgs_;
  std::vector<Lane> lanes_;           // [i] belongs to xchg i
  std::atomic<uint64_t> version_{1};  // of what is below
  mutable Mutex mu_;
  std::vector<NodeInfo> live_ ABSL_GUARDED_BY(mu_);
  std::map<StocId, Node> nodes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
