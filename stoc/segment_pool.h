// SegmentPool: the in-memory StoC files (log segments) of this incarnation, one registration each (one
// writer, L2).
//
//   open ---- FreeLogs in order ----------> warm for the same session, under its old key
//     |  \--- FreeLogs any other way -----> quarantine -> revoked -> registered afresh (new key, F2)
//     \------ Seal (FENCE) -> revoked, remote-READ only ---- FreeSealed (free, R6) ----> quarantine
//
// In order: over the connection that opened it, which has kept its order since; what was posted before the
// FreeLogs has landed. An open that comes again has the same memory, also over another connection: the first
// one's answer went with its connection. Memory is not zeroed between logs: the salt in a record's crc tells
// a log's bytes from another's (salt, L1; H5). Epochs are the caller's to check, before each call
// (fence_table.h).
//
// Thread safety: all. What takes or seals memory waits: on the control thread (ExposedMemory::Take).
// Locks:         its own; under it ExposedMemory's, by pieces that go back. Seal lets go of it for each key
//                that it revokes: a segment in that state stays in the list.
// Ownership:     the ExposedMemory outlives it.
// Errors:        kBusy: out of log memory (docs/testing.md, row 27); kInvalidArgument: a segment that is
//                open already, of another size, or that is sealed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/outcome.h"
#include "stoc/exposed_memory.h"
#include "stoc/protocol.h"

namespace nova {

class SegmentPool {
 public:
  SegmentPool(ExposedMemory* memory, Metrics* metrics);

  // The answer to an open; `memory`, where the log's records go, is valid if the outcome is kOk.
  struct Opened {
    Outcome outcome = Outcome::kBusy;
    RemoteBuffer memory;
  };
  // Opens with memory that is at hand; nullopt: none is, call OpenSlow on a control thread.
  std::optional<Opened> Open(const OpenSegmentRequest& request, const SessionId& session);
  // Opens with memory that is registered now, if need be; waits.
  Opened OpenSlow(const OpenSegmentRequest& request, const SessionId& session);
  // Frees all segments of the logs; those that `session` opened stay warm for it.
  void FreeLogs(const FreeLogsRequest& request, const SessionId& session);
  // Revocation (F1): revokes every segment of (range, below `epoch`); all that are sealed, those of earlier
  // calls included. One at a time.
  StatusOr<std::vector<SealedSegment>> Seal(RangeId range, Epoch below);
  // Free (R6): what Seal has sealed goes to quarantine, and may be used again.
  void FreeSealed(RangeId range, Epoch below);
  bool HasBelow(RangeId range, Epoch below) const;  // segments of (range, below that epoch)
  size_t open_segments() const;                     // of all logs, sealed ones too
  // Of tests: each segment, by log and in order, with what its memory holds now.
  void ForEach(const std::function<void(const Uuid& log, uint32_t index, std::string_view bytes)>& fn) const;

 private:
  struct Key {  // names a segment
    RangeId range;
    Epoch epoch;
    Uuid log;
    uint32_t index = 0;  // of the log's segments, in order
    auto operator<=>(const Key&) const = default;
  };
  // kSealing: Seal revokes its key now, without the lock. kSealed: nothing lands in it any more.
  enum class State { kOpen, kSealing, kSealed };
  struct Segment {
    ExposedMemory::Piece piece;
    uint64_t size = 0;  // bytes that were asked for; the piece may have more
    SessionId session;  // that opened it first
    State state = State::kOpen;
    RemoteBuffer remote() const {
      return {reinterpret_cast<uint64_t>(piece.data()), size, piece.region().rkey, 0};
    }
  };

  // The answer to an open of a segment that is there; nullopt: it is not.
  std::optional<Opened> OpenAgain(const Key& key, uint64_t size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Enters a segment with that memory, unless another call was first.
  Opened Insert(const Key& key, uint64_t size, const SessionId& session, ExposedMemory::Piece piece);
  // Sets the gauge open_now_.
  void CountLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ExposedMemory* const memory_;
  Counter* const opened_;
  Counter* const refused_;
  Counter* const sealed_;
  Gauge* const open_now_;  // see open_segments
  mutable Mutex mu_;
  std::map<Key, Segment> segments_ ABSL_GUARDED_BY(mu_);
};

}  // namespace nova
