// TableReader::Rep: what a reader has of its table, for TableReader and TableIterator alone.
//
// Thread safety, ownership, errors: as TableReader.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/sstable/filter.h"
#include "common/sstable/residency.h"
#include "common/sstable/table_index.h"
#include "common/sstable/table_iterator.h"
#include "common/sstable/table_reader.h"

namespace nova {

struct TableReader::Rep {
  bool InBounds(std::string_view stored_key) const {
    return (info.use_from.empty() || stored_key >= info.use_from) &&
           (info.use_to.empty() || stored_key < info.use_to);
  }

  // The blocks that may hold a key within the use-bounds: [first, end).
  std::pair<size_t, size_t> UsedBlocks() const;
  // Why the bytes of a block as stored cannot be used; null: they can. *payload excludes the trailer, and
  // lies in `raw`, or, of a compressed block, in *buffer.
  const char* Damage(const BlockHandle& handle, std::string_view raw, std::string_view* payload,
                     std::string* buffer) const;
  // Asks the processor's cache for what is read first of a block. REQUIRES: the table is mapped.
  void PrefetchEnds(size_t i) const;
  // Asks for what is read first of a block, and of the blocks in as many bytes behind it: the processor's
  // cache, or the disk, where it may have to read them. REQUIRES: the table is mapped.
  void Prefetch(size_t i, uint64_t bytes_behind) const;
  // The block where the table is mapped; empty: it is not, or the block is damaged. Where it has to be read,
  // so many bytes behind it are read with it.
  std::string_view MappedBlock(size_t i, TableIterator::Check check, uint64_t bytes_behind = 0) const;

  TableInfo info;
  std::atomic<const TableInfo*> places{&info};
  Filter filter;
  TableIndex index;
  SharedBytes mapped;
  mutable Residency residency;                       // of a mapped table
  std::unique_ptr<std::atomic<uint64_t>[]> checked;  // of a mapped table: one bit a block
  Mutex places_mu;
  // What `places` has pointed to since the reader was opened: reads under way may still look there.
  std::vector<std::unique_ptr<const TableInfo>> moved ABSL_GUARDED_BY(places_mu);
};

}  // namespace nova
