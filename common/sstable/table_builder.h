// TableBuilder: makes data blocks and metadata of sorted entries.
//
// Add takes entries in internal key order. A block closes at block_size_bytes before compression; a larger
// value gets a block of its own. Finish returns the metadata and fills in the TableInfo, all but fragments
// and StoCs, which the writer of the bytes knows.
//
// Thread safety: none.
// Ownership: data is in a buffer of the builder's until Finish, or goes to the sink.
// Errors: none of its own; a sink keeps its errors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/sstable/format.h"
#include "common/sstable/table_options.h"

namespace nova {

// Takes the data of a table while it is built. It keeps its errors; they are told when the table is finished.
class TableSink {
 public:
  static constexpr size_t kStepBytes = 256 << 10;  // still in the processor's cache when they are copied
  // A page cache may keep and map them in one huge page, if they lie at a multiple of as many bytes.
  static constexpr size_t kHugeStepBytes = 2 << 20;
  virtual ~TableSink() = default;
  // How much it wants at once; it may be given a multiple of that.
  virtual size_t step_bytes() const { return kStepBytes; }
  // The next bytes of the table's data.
  virtual void Append(std::string_view data) = 0;
};

class TableBuilder {
 public:
  // A sink gets the data in its steps; what is less than one stays. Without a sink all is in Output::data.
  TableBuilder(const TableOptions& options, const Uuid& uuid, std::unique_ptr<TableSink> sink = nullptr);
  ~TableBuilder();

  void Add(std::string_view internal_key, std::string_view value);  // REQUIRES: greater than the last one
  // Bytes of data so far, with the open block.
  uint64_t data_size() const;
  uint64_t entries() const;
  void SetProperty(std::string name, std::string value);  // into TableInfo::properties; for tests
  // A hint: the data is not moved while it stays below.
  void Reserve(size_t data_bytes);

  // A finished table, to be stored.
  struct Output {
    std::string data;  // data that the sink did not get
    std::shared_ptr<TableSink> sink;
    std::string metadata;
    std::vector<uint64_t> block_ends;  // logical offset behind each block: where fragments may be cut
    TableInfo info;
  };
  Output Finish();  // REQUIRES: at least one Add

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Cuts [0, data_size) into at most `count` fragments of about equal size at block boundaries (paper section
// 4.4). A pure function.
std::vector<Fragment> CutFragments(const std::vector<uint64_t>& block_ends, size_t count);

}  // namespace nova
