// OverwriteProbe: tells a flush whether a version that it is about to write was overwritten in a younger
// round, so that every reader from now on sees the newer one instead. Then the version need not go to disk:
// of a key that is written again and again only a version now and then does (TRIAD, section 4.1).
//
// Thread safety: one thread.
// Ownership: keeps the rounds it looks into.
// Errors: none.
#pragma once

#include <vector>

#include "common/base/keys.h"
#include "ltc/engine/round.h"

namespace nova {

class OverwriteProbe {
 public:
  // Sets the rounds to look into, and what hides: a version above `upto` hides nothing; one between a version
  // and a live snapshot that sees the version does not hide it from that snapshot. `snapshots` is ascending.
  // Called again while a flush runs, as younger rounds grow.
  void Set(RoundGroup rounds, SequenceNumber upto, std::vector<SequenceNumber> snapshots) {
    rounds_ = std::move(rounds);
    upto_ = upto;
    snapshots_ = std::move(snapshots);
  }
  // True: every reader sees a newer version than `key`, so it may be left out. False may also mean that the
  // probe did not look: after keys of which hardly one was found it passes over some.
  bool Replaces(const ParsedInternalKey& key);
  uint64_t replaced() const { return replaced_; }  // versions for which Replaces was true

 private:
  // Some round has a newer version, visible to every reader that would see `key`.
  bool Holds(const ParsedInternalKey& key) const;

  RoundGroup rounds_;                      // none: nothing is replaced
  SequenceNumber upto_ = 0;                // versions above it hide nothing
  std::vector<SequenceNumber> snapshots_;  // live ones, ascending
  uint64_t replaced_ = 0;                  // see replaced()
  // Sampling: if fewer than one in eight of 256 keys was found, the next 256 to 4096 keys are passed over.
  uint32_t asked_ = 0, found_ = 0;  // keys looked for, and found, since the last decision
  uint32_t pause_ = 0, left_ = 0;   // keys to pass over after the last decision; of them still to come
};

}  // namespace nova
