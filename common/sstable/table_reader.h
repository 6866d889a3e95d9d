// TableReader: the metadata of one table, in memory, and the questions that it answers without reading data.
//
// A get: MayContain -> FindBlock -> (cache, or fetch and CheckBlock) -> SearchBlock. On a mapped table Search
// does it all. The `hash` of a key is its FilterHash: a get asks several tables. Nothing here waits or does
// I/O, but for page faults on mapped data.
//
// Thread safety: const methods from any thread.
// Ownership: holds index and filter; blocks are the caller's.
// Errors: DataLoss: metadata or a block fails its checksum or does not parse. No input crashes (fuzzed).
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
  // `mapped`: the table's data in memory, if the store has it so. `cold`: the data is perhaps still on the
  // disk, so a block is read as a whole when it is first touched, rather than page by page.
  static StatusOr<std::shared_ptr<const TableReader>> Open(const TableInfo& info, std::string_view metadata,
                                                           SharedBytes mapped = {}, bool cold = false);
  ~TableReader();

  const TableInfo& info() const;  // but for where the table is: see places()
  size_t memory_bytes() const;    // of index and filter
  // The same table, and where it is to be read from; it stays valid as long as the reader.
  const TableInfo& places() const;
  // Copies of the table have moved (rebuild, S5): later reads go where `info` says. Any thread.
  void SetPlaces(const TableInfo& info) const;

  // False: the table holds no version of the key, or the key lies outside the use-bounds. True is wrong for
  // about 1 % of absent keys at 10 bits a key.
  bool MayContain(std::string_view stored_key, uint64_t hash) const;
  // A block has few entries, and not one alone: a quarter to two thirds of what is read for a get is its
  // entry.
  bool entries_are_large() const;
  // Asks the processor's cache for what MayContain will look at.
  void PrefetchFilter(uint64_t hash) const;
  // The block that would hold the newest version with sequence <= seq. False: there is none, and the key is
  // absent.
  bool FindBlock(std::string_view stored_key, SequenceNumber seq, BlockHandle* handle) const;
  // Verifies the trailer of a block as it was read (crc by table uuid and offset, table identity, M4), and
  // returns the payload, decompressed.
  StatusOr<BlockRef> CheckBlock(const BlockHandle& handle, std::string raw) const;

  // The result of a search for the newest version with sequence <= seq. kNextBlock: the block ends before the
  // answer; see FindNextBlock.
  enum class Found { kAbsent, kFound, kNextBlock, kCorrupt };
  // A version that was found.
  struct Hit {
    SequenceNumber sequence = 0;
    ValueType type = ValueType::kPut;
    std::string_view value;  // views the block
  };
  // Searches a checked block.
  Found SearchBlock(std::string_view block, std::string_view stored_key, SequenceNumber seq, Hit* hit) const;
  // The block behind `handle`, after kNextBlock. False: the table ends there.
  bool FindNextBlock(const BlockHandle& handle, BlockHandle* next) const;

  // A get on a mapped table, in one call. A block is checked at its first use; later uses trust memory, as
  // those of a cache do.
  bool mapped() const;
  std::string_view mapped_data() const;  // empty: not mapped
  // All of it was read: `cold` no longer holds.
  void MarkWarm() const;
  // REQUIRES: mapped(). Never kNextBlock.
  Found Search(std::string_view stored_key, uint64_t hash, SequenceNumber seq, Hit* hit) const;

  // False: the table does not hold the key. Else the block that may have its newest version with
  // sequence <= seq is asked for: the disk, if blocks were lately missing from memory, or the processor's
  // cache. Does not wait. REQUIRES: mapped().
  bool PrefetchBlock(std::string_view stored_key, uint64_t hash, SequenceNumber seq) const;
  // Blocks of mapped tables were lately missing from memory.
  static bool AnyOnDisk();

  // At most `n` stored keys, ascending, that cut the used part of the table into parts of about equal size.
  std::vector<std::string> SplitKeys(size_t n) const;
  // Calls `fn` for every data block in order.
  void ForEachBlock(const std::function<void(const BlockHandle&)>& fn) const;
  // The same for blocks that may hold a key within the use-bounds.
  void ForEachUsedBlock(const std::function<void(const BlockHandle&)>& fn) const;

 private:
  TableReader();
  struct Rep;
  std::unique_ptr<Rep> rep_;
  friend class TableIterator;
};

}  // namespace nova
