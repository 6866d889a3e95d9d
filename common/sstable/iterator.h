// Iterator: a sorted sequence of (internal key, value), over blocks that may have to be fetched.
//
// An iterator never waits. When a move needs a block that is not in memory the iterator stops: state() is
// kNeedBlocks, and AppendNeeded() lists the blocks. The caller fetches them (a scan asynchronously, a
// compaction waiting), hands each over with BlockRequest::iterator->Supply(), then calls Resume() on the top
// iterator, which completes the move or needs more.
//
//   it->Seek(key);
//   for (;; it->Next()) {
//     while (it->state() == kNeedBlocks) { AppendNeeded; fetch; Supply each; it->Resume(); }
//     if (!it->Valid()) break;
//     use it->key(), it->value();
//   }
//
// An iterator over several tables need not open the next one before it is wanted. It says kAhead then: its
// next entry is not read yet, and lies at or behind key(). A merge has it read, by Resume, when all other
// entries before that key are passed, so it never says kAhead itself.
//
// Backwards, "first" and "next" mean the other way: SeekToFirst goes to the last entry, Seek to the last one
// before the key. Of a key the oldest version comes first then.
//
// Thread safety: none; one thread at a time.
// Ownership: keys and values are valid until the next move.
// Errors: state kError, and status().
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "common/base/shared_bytes.h"
#include "common/base/status.h"
#include "common/sstable/format.h"

namespace nova {

// A checked block in memory, without its trailer, shared by cache and readers.
using BlockRef = SharedBytes;

enum class Direction : bool { kForward, kBackward };  // of an iterator, for life

class TableIterator;
class TableReader;
// A block that an iterator waits for.
struct BlockRequest {
  // Null: none waits for it. It is wanted in memory (BlockLookup) like those behind it, and may be missing.
  TableIterator* iterator = nullptr;
  const TableReader* table = nullptr;
  BlockHandle handle;
  // Those that follow it, which the iterator will look for in memory soon (BlockLookup), and which are cheap
  // to read with it.
  std::vector<BlockHandle> behind = {};
};

class Iterator {
 public:
  enum class State { kValid, kAhead, kEnd, kNeedBlocks, kError };
  virtual ~Iterator() = default;

  virtual void SeekToFirst() = 0;
  // Moves to the first entry >= internal_key; backwards to the last one < it.
  virtual void Seek(std::string_view internal_key) = 0;
  // Asks the processor's cache for what a Seek of this key, the next move, will touch first. For whoever
  // seeks several iterators: their misses come at the same time then, and not one after another.
  virtual void PrepareSeek(std::string_view /*internal_key*/) {}
  virtual void Next() = 0;  // REQUIRES: kValid
  // Completes the move. REQUIRES: kAhead; or kNeedBlocks, and each needed block was supplied.
  virtual void Resume() = 0;
  virtual State state() const = 0;
  virtual void AppendNeeded(std::vector<BlockRequest>* out) = 0;  // REQUIRES: kNeedBlocks
  virtual std::string_view key() const = 0;                       // REQUIRES: kValid, kAhead
  virtual std::string_view value() const = 0;                     // REQUIRES: kValid
  // What keeps the bytes of value() where they are for as long as it is held; null: nothing does, they are
  // valid until the next move. REQUIRES: kValid.
  virtual const std::shared_ptr<const void>* value_keeper() const { return nullptr; }
  virtual Status status() const = 0;  // the error of kError

  bool Valid() const { return state() == State::kValid; }
};

}  // namespace nova
