// ExposedMemory: memory that peers reach by one-sided operations, in power-of-two pieces with a registration
// (a key) each.
//
// A piece is given back in one of two ways (new key F2, exposed memory F4):
//   - in order, by the session (a peer's connection to one xchg thread of ours) that had it: all that was
//     ever posted to it has arrived, so that session, and no other, may get it again under the same key:
//     "warm";
//   - otherwise to quarantine: somebody may still write to it. Recycle revokes its key, after which nothing
//     lands (revocation, F1), and registers it afresh. So does the end of a session with its warm pieces.
//
// Thread safety: all methods. TryTake, Piece and SessionGone only take a lock; Take, Recycle and Seal
//                register and revoke, which may take milliseconds: control threads.
// Ownership:     a Piece gives its memory to quarantine when destroyed; pieces go before the pool.
// Errors:        ResourceExhausted (Take), an empty Piece (TryTake): the bound is reached: the caller answers
//                Busy.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/rules_off.h"
#include "common/rdma/fabric.h"

namespace nova {

// A peer's connection, among those of all our xchg threads.
struct SessionId {
  uint32_t xchg = 0;
  ConnectionId connection;
  auto operator<=>(const SessionId&) const = default;
};

struct ExposedMemoryOptions {
  uint64_t max_bytes = uint64_t{1} << 30;        // of all pieces, given out or not
  uint64_t min_piece_bytes = uint64_t{1} << 20;  // a power of two
  // Pieces of that size that are kept registered, so that TryTake finds one.
  size_t spares = 4;
  RulesOff off = {};  // tests only
};

class ExposedMemory {
 public:
  // Memory that was given out, under a key of its own; empty: none.
  class Piece {
   public:
    Piece() = default;
    Piece(Piece&& other) noexcept { *this = std::move(other); }
    Piece& operator=(Piece&& other) noexcept;
    ~Piece() { Reset(); }
    explicit operator bool() const { return pool_ != nullptr; }
    const MemoryRegion& region() const { return region_; }
    std::byte* data() const { return region_.address; }
    void Reset();                             // to quarantine
    void ReturnInOrder(const SessionId& by);  // to `by`, warm

   private:
    friend class ExposedMemory;
    Piece(ExposedMemory* pool, const MemoryRegion& region) : pool_(pool), region_(region) {}
    ExposedMemory* pool_ = nullptr;
    MemoryRegion region_;
    bool sealed_ = false;  // what was given out for writing is revoked
  };

  ExposedMemory(Fabric* fabric, const ExposedMemoryOptions& options);
  ~ExposedMemory();

  // At least `bytes` of remote-WRITE memory: a warm piece of that session, or a spare.
  Piece TryTake(uint64_t bytes, const SessionId& session);
  // As TryTake; else maps and registers, at the cost of spares of other sizes and other sessions' warm pieces
  // if need be.
  StatusOr<Piece> Take(uint64_t bytes, const SessionId& session);
  // The connection is gone: nothing more arrives by it, and its warm pieces go to quarantine.
  void SessionGone(const SessionId& session);
  // Revokes what is in quarantine and makes spares of it. False: there was nothing to do.
  bool Recycle();
  // Revokes the piece's key, and registers it remote-READ only. An error leaves it revoked; try again.
  Status Seal(Piece* piece);

  // For metrics and tests. The last three are pieces that nobody has.
  struct Counts {
    uint64_t mapped_bytes = 0;   // of all pieces
    uint64_t taken_bytes = 0;    // of those that are given out
    uint64_t registrations = 0;  // since the start
    size_t spares = 0;           // under a key that nobody was ever told
    size_t warm = 0;             // kept for one session, under the key that it knows
    size_t quarantined = 0;      // somebody may still write to them
  };
  Counts counts() const;
  const ExposedMemoryOptions& options() const { return options_; }

 private:
  struct Rep;
  // The two ways back of a piece: see the head of this file.
  void Quarantine(const MemoryRegion& region, bool sealed);
  void KeepWarm(const MemoryRegion& region, const SessionId& by);

  const ExposedMemoryOptions options_;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
