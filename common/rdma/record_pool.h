// RecordPool: records that are used again and again, each use with an id of its own. So whoever kept an id
// finds the record of that use, or hears that it is over.
//
//   id        u31 serial | u32 index     serial: which use of the record it is, from 1 on
//
// Thread safety: none.
// Ownership: owns the records; a pointer to one is valid as long as the pool.
// Errors: none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace nova {

// Base of what is pooled.
struct PooledRecord {
  uint32_t index = 0;
  uint32_t serial = 1;
  bool in_use = false;
  uint64_t id() const { return static_cast<uint64_t>(serial) << 32 | index; }
};

// T derives from PooledRecord.
template <typename T>
class RecordPool {
 public:
  // One that was free, as its last user left it, or a new one.
  T* New() {
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(records_.size()));
      records_.push_back(std::make_unique<T>());
      records_.back()->index = free_.back();
    }
    T* const record = records_[free_.back()].get();
    free_.pop_back();
    record->in_use = true;
    return record;
  }
  // Ends this use of the record.
  void Free(T* record) {
    record->in_use = false;
    record->serial = record->serial == INT32_MAX ? 1 : record->serial + 1;
    free_.push_back(record->index);
  }
  // Null: that use of it is over, or was none.
  T* Find(uint64_t id) const {
    const auto index = static_cast<uint32_t>(id);
    if (index >= records_.size() || !records_[index]->in_use || records_[index]->id() != id) return nullptr;
    return records_[index].get();
  }
  // Calls fn(record) for each that is in use; it may free the record.
  template <typename Fn>
  void ForEach(const Fn& fn) {
    for (size_t i = 0; i < records_.size(); ++i) {
      if (records_[i]->in_use) fn(records_[i].get());
    }
  }

 private:
  std::vector<std::unique_ptr<T>> records_;  // by index
  std::vector<uint32_t> free_;               // indexes
};

}  // namespace nova
