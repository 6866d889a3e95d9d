// TableIterator: the entries of one table in order.
//
// Thread safety: one thread.
// Ownership: holds the table's reader.
// Errors: DataLoss: a block fails its checksum or does not parse.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/sstable/iterator.h"
#include "common/sstable/table_reader.h"

namespace nova {

// Looks for a block in memory; null: it is not there. A scan passes the block cache, a compaction its
// read-ahead buffer.
using BlockLookup = std::function<BlockRef(const TableReader& table, const BlockHandle& handle)>;

// Iterates one table within its use-bounds. kNeedBlocks if the table is not mapped and `lookup` has no block
// for the next position.
class TableIterator : public Iterator {
 public:
  // kOnce: a mapped block is checked at its first use. kEach: at every use, for entries that are written
  // again with a new checksum must not be damaged ones.
  enum class Check { kOnce, kEach };
  TableIterator(std::shared_ptr<const TableReader> table, BlockLookup lookup, Check check = Check::kOnce,
                Direction direction = Direction::kForward);
  ~TableIterator() override;
  // The iterator is as a new one of `table`, and keeps the memory that it has.
  void Open(std::shared_ptr<const TableReader> table);
  // All of the table will be read, from where it is sought to on. Of a mapped table so many bytes are asked
  // for at once, from the start, when half as many of those asked for before are left; those that were not in
  // memory are let go of when they are passed. REQUIRES: forward.
  void ReadAll(size_t ahead_bytes);
  // From where it is sought to next about so many entries will be read, as far as is known, and none at or
  // behind the stored key `end` (backwards: before it; empty: no such key), which stays until the next Open.
  // Of a mapped table that is not in memory what they take is read with the first block, but backwards. Of
  // another one AppendNeeded lists what they take, and later ever more of what follows, as far as it is not
  // in memory.
  void Expect(double entries, std::string_view end);
  void Supply(const BlockHandle& handle, BlockRef block);  // a block that AppendNeeded named
  void SeekToFirst() override;
  void Seek(std::string_view internal_key) override;
  void PrepareSeek(std::string_view internal_key) override;
  void Next() override;
  void Resume() override;
  State state() const override;
  void AppendNeeded(std::vector<BlockRequest>* out) override;
  std::string_view key() const override;
  std::string_view value() const override;
  Status status() const override;
  // The table is mapped, and blocks of it were lately found missing from memory: they are read from its disk.
  bool is_on_disk() const;
  // value() lies in the mapped file, for as long as the table's reader is there. REQUIRES: kValid.
  bool value_is_mapped() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace nova
