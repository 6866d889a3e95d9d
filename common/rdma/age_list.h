// AgeList: a list of records in the order in which they were added, linked in place.
//
// Thread safety: none.
// Ownership: records belong to the caller, and stay where they are while linked.
// Errors: none.
#pragma once

namespace nova {

// T has members `T* prev` and `T* next`, which are the list's.
template <typename T>
class AgeList {
 public:
  bool empty() const { return oldest_ == nullptr; }
  T* oldest() const { return oldest_; }  // null: there is none
  void Add(T* record) {
    if (oldest_ == nullptr) {
      oldest_ = record->prev = record->next = record;
      return;
    }
    record->prev = oldest_->prev;
    record->next = oldest_;
    record->prev->next = record->next->prev = record;
  }
  void Remove(T* record) {  // REQUIRES: it is in the list
    if (record->next == record) {
      oldest_ = nullptr;
      return;
    }
    record->prev->next = record->next;
    record->next->prev = record->prev;
    if (oldest_ == record) oldest_ = record->next;
  }

 private:
  T* oldest_ = nullptr;  // of a ring: before it is the youngest
};

}  // namespace nova
