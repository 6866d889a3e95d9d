// TableBuilder: sorted entries in, data blocks and metadata out.
//
// Add in internal key order; blocks close at block_size_bytes before compression (a larger value gets a block
// of its own); Finish returns the metadata blob and fills the TableInfo (all but fragments and StoCs, which
// the writer of the bytes knows).
//
// Thread safety: none.   Ownership: data is appended to a buffer the builder owns until TakeData.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/sstable/format.h"
#include "common/sstable/table_options.h"

namespace nova {

// Takes the data of a table while it is being built. Errors are kept, and told by whoever finishes the table.
class TableSink {
 public:
  virtual ~TableSink() = default;
  virtual void Append(std::string_view data) = 0;
};

class TableBuilder {
 public:
  // With a sink, data goes there in steps of kSinkBytes, still in the processor's cache; without, all of it
  // is in Output::data.
  static constexpr size_t kSinkBytes = 256 << 10;
  TableBuilder(const TableOptions& options, const Uuid& uuid, std::unique_ptr<TableSink> sink = nullptr);
  ~TableBuilder();

  void Add(std::string_view internal_key, std::string_view value);  // REQUIRES: greater than the last one
  // bytes of data so far, the open block included
  uint64_t data_size() const;
  uint64_t entries() const;
  void SetProperty(std::string name, std::string value);
  void Reserve(size_t data_bytes);  // a hint: the data will not move while it stays below

  struct Output {
    std::string data;  // what the sink did not get
    std::shared_ptr<TableSink> sink;
    std::string metadata;
    std::vector<uint64_t> block_ends;  // logical offset after each block: where fragments may be cut
    TableInfo info;
  };
  Output Finish();  // REQUIRES: at least one Add

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Cuts [0, data_size) into at most `count` fragments of about equal size at block boundaries (paper section
// 4.4). Pure.
std::vector<Fragment> CutFragments(const std::vector<uint64_t>& block_ends, size_t count);

}  // namespace nova
