// OverwriteProbe: tells of a version that a flush is about to write whether younger rounds hold a newer one,
// which every reader from now on sees instead. Of a key that is written again and again only now and then a
// version has to go to disk (TRIAD, section 4.1).
//
// Thread safety: one thread.   Ownership: keeps the rounds it looks into.
#pragma once

#include <vector>

#include "common/base/keys.h"
#include "ltc/engine/round.h"

namespace nova {

class OverwriteProbe {
 public:
  // `upto`: numbers above it replace nothing. `snapshots`: live, ascending.
  void Set(RoundGroup rounds, SequenceNumber upto, std::vector<SequenceNumber> snapshots) {
    rounds_ = std::move(rounds);
    upto_ = upto;
    snapshots_ = std::move(snapshots);
  }
  bool Replaces(const ParsedInternalKey& key);
  uint64_t replaced() const { return replaced_; }

 private:
  bool Holds(const ParsedInternalKey& key) const;

  RoundGroup rounds_;  // none: nothing is replaced
  SequenceNumber upto_ = 0;
  std::vector<SequenceNumber> snapshots_;
  uint64_t replaced_ = 0;
  // Where hardly any key is found, most are not looked for.
  uint32_t asked_ = 0, found_ = 0;  // of a few keys in a row
  uint32_t pause_ = 0, left_ = 0;   // keys that are passed over, and how many are still to come
};

}  // namespace nova
