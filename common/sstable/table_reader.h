// TableReader: the metadata of one table, in memory, and what can be asked of it without reading data.
//
// A get: MayContain -> FindBlock -> (cache or fetch, CheckBlock) -> SearchBlock. Nothing here waits or does
// I/O.
//
// Thread safety: const methods from any thread.   Ownership: holds index and filter; blocks are the caller's.
// Errors: DataLoss when metadata or a block fails its checksum or does not parse; never a crash on any input
//         (fuzzed).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/sstable/format.h"
#include "common/sstable/iterator.h"

namespace nova {

class TableReader {
 public:
  // `mapped`: the data as bytes in memory, where the store has it so. `cold`: perhaps they are still on the
  // disk: a block is read as a whole when it is first touched, rather than page by page.
  static StatusOr<std::shared_ptr<const TableReader>> Open(const TableInfo& info, std::string_view metadata,
                                                           SharedBytes mapped = {}, bool cold = false);
  ~TableReader();

  const TableInfo& info() const;
  size_t memory_bytes() const;

  // False: the table holds no version of the key (10 bits a key: about 1 % false positives). Also false
  // outside use-bounds.
  bool MayContain(std::string_view stored_key) const;
  // The block that would hold the newest version with sequence <= seq. False: no such block, the key is
  // absent.
  bool FindBlock(std::string_view stored_key, SequenceNumber seq, BlockHandle* handle) const;
  // Verifies the trailer of a block as read (crc by table uuid and offset, table identity M4) and strips it
  // (decompressing when it says so).
  StatusOr<BlockRef> CheckBlock(const BlockHandle& handle, std::string raw) const;

  // The newest version of the key with sequence <= seq in a checked block.
  // kNextBlock: the block ends before the answer; see FindNextBlock
  enum class Found { kAbsent, kFound, kNextBlock, kCorrupt };
  struct Hit {
    SequenceNumber sequence = 0;
    ValueType type = ValueType::kPut;
    std::string_view value;  // points into the block
  };
  Found SearchBlock(std::string_view block, std::string_view stored_key, SequenceNumber seq, Hit* hit) const;
  // for kNextBlock; false: the table ends here
  bool FindNextBlock(const BlockHandle& handle, BlockHandle* next) const;

  // A get on a mapped table, whole. A block is checked at its first use; later ones trust memory, as they
  // trust a cache.
  bool mapped() const;
  std::string_view mapped_data() const;  // empty: it is not
  void MarkWarm() const;                 // all of it is in memory now: `cold` no longer
  // REQUIRES: mapped(); kAbsent, kFound or kCorrupt
  Found Search(std::string_view stored_key, SequenceNumber seq, Hit* hit) const;

  // At most `n` stored keys, ascending, that cut what is used of the table into parts of about equal size.
  std::vector<std::string> SplitKeys(size_t n) const;
  // Every data block in order: scrub, tools, tests, and a scan's read-ahead.
  void ForEachBlock(const std::function<void(const BlockHandle&)>& fn) const;
  // Those that may hold a key within the use-bounds.
  void ForEachUsedBlock(const std::function<void(const BlockHandle&)>& fn) const;

 private:
  TableReader();
  struct Rep;
  std::unique_ptr<Rep> rep_;
  friend class TableIterator;
};

// Looks a block up in memory; null when it is not there. A scan passes the block cache, a compaction its
// read-ahead buffer.
using BlockLookup = std::function<BlockRef(const TableReader& table, const BlockHandle& handle)>;

// Iterates one table within its use-bounds; kNeedBlocks when it is not mapped and `lookup` has no block for
// the next position.
class TableIterator : public Iterator {
 public:
  // kEach: a mapped block is checked at every use: bytes that are written again with a new checksum must not
  // be damaged ones.
  enum class Check { kOnce, kEach };
  TableIterator(std::shared_ptr<const TableReader> table, BlockLookup lookup, Check check = Check::kOnce,
                Direction direction = Direction::kForward);
  ~TableIterator() override;
  void Supply(const BlockHandle& handle, BlockRef block);  // one that AppendNeeded named
  void SeekToFirst() override;
  void Seek(std::string_view internal_key) override;
  void Next() override;
  void Resume() override;
  State state() const override;
  void AppendNeeded(std::vector<BlockRequest>* out) override;
  std::string_view key() const override;
  std::string_view value() const override;
  Status status() const override;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Merges children of that direction into one sorted sequence. Equal internal keys (a record recovered twice)
// come out once.
std::unique_ptr<Iterator> NewMergingIterator(std::vector<std::unique_ptr<Iterator>> children,
                                             Direction direction = Direction::kForward);

}  // namespace nova
