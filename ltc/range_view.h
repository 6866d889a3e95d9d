// The parts of a Range that its source files share: rounds and views. Internal to ltc/range*.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "ltc/range.h"

namespace nova {

// K3: sibling memtables that opened together, seal together and flush together. Every number in an older round is below every
// number in a younger one.
struct Range::Round {
  RoundNumber number = 0;  // the first sequence number it can hold
  std::vector<std::unique_ptr<MemTable>> siblings;
  std::atomic<int64_t> pins{0};  // L6: writers between pin and insert
  std::atomic<bool> sealing{false};
  SequenceNumber boundary = 0;   // no number above it is in here; set when sealed
  std::atomic<bool> flushing{false};  // some thread writes its tables
  std::optional<VersionEdit> flushed;  // they are written; guarded by flush_mu_, as is the job that wrote them
  uint64_t flush_job = 0;
  std::vector<std::shared_ptr<CheckpointRequest>> checkpoints;  // to be made when it is committed; guarded by manifest_mu_

  MemTable* SiblingOf(std::string_view key) const {
    return siblings.size() == 1 ? siblings[0].get() : siblings[std::hash<std::string_view>{}(key) % siblings.size()].get();
  }
  size_t bytes() const {
    size_t n = 0;
    for (const auto& m : siblings) n += m->bytes_used();
    return n;
  }
  uint64_t entries() const {
    uint64_t n = 0;
    for (const auto& m : siblings) n += m->entries();
    return n;
  }
};

// A write between its number and its answer; recycled by its lane, so that a put allocates nothing.
struct Range::WriteContext {
  struct Prepared {
    MemTable* memtable = nullptr;
    MemTable::Entry* entry = nullptr;
  };
  std::shared_ptr<Range> range;
  Lane* lane = nullptr;
  Round* round = nullptr;  // pinned
  SequenceNumber sequence = 0;  // of its first entry
  uint64_t count = 0;
  Prepared first;
  std::vector<Prepared> rest;         // of a batch
  std::vector<LogEntry> log_entries;  // of a batch, while its record is made
  WriteDone done;
};

struct Range::View {
  uint64_t generation = 0;
  std::shared_ptr<Round> active;
  std::vector<std::shared_ptr<Round>> sealed;  // youngest first
  std::shared_ptr<const Version> version;
};

// A view and the number that belong together: everything at or below it is in the view, once it is stable.
struct Range::Moment {
  std::shared_ptr<const View> view;
  SequenceNumber sequence = 0;
};

}  // namespace nova
