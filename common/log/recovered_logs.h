// RecoveredLogs: the entries that the logs of a range held when it was opened (read, R3), for Range::Recover.
//
// Thread safety: a value.
// Ownership: keeps the bytes of the logs, into which its records are views.
// Errors: none.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/keys.h"

namespace nova {

// One entry found in a log; views of the bytes that its RecoveredLogs keeps.
struct RecoveredRecord {
  SequenceNumber sequence = 0;
  MemTableId memtable;  // that it was written to; done ones are skipped (done memtables, M3)
  ValueType type = ValueType::kPut;
  std::string_view key;    // stored key
  std::string_view value;  // as LogEntry's
};

// The entries of logs, in no order, and the logs' bytes, so that a small entry costs no memory of its own. A
// copy shares the bytes.
struct RecoveredLogs {
  std::vector<RecoveredRecord> records;
  std::vector<std::shared_ptr<const std::string>> bytes;  // of the logs; the records view them

  // Takes the records of `other`, and shares its bytes.
  void Append(const RecoveredLogs& other) {
    records.insert(records.end(), other.records.begin(), other.records.end());
    bytes.insert(bytes.end(), other.bytes.begin(), other.bytes.end());
  }
  bool empty() const { return records.empty(); }
  size_t size() const { return records.size(); }
  auto begin() const { return records.begin(); }
  auto end() const { return records.end(); }
};

}  // namespace nova
