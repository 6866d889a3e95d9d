// Ring: a queue whose elements keep their absolute index (0, 1, 2 ...) while they are in it; grows by
// doubling, never shrinks.
//
// Thread safety: none.   Ownership: its elements.   Errors: none; indices outside [head, tail) are bugs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace nova {

template <typename T>
class Ring {
 public:
  uint64_t head() const { return head_; }
  uint64_t tail() const { return tail_; }
  uint64_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  T& operator[](uint64_t index) { return items_[index & (items_.size() - 1)]; }
  const T& operator[](uint64_t index) const { return items_[index & (items_.size() - 1)]; }
  T& front() { return (*this)[head_]; }
  const T& front() const { return (*this)[head_]; }
  T& back() { return (*this)[tail_ - 1]; }

  T& push_back(T item) {
    if (size() == items_.size()) Grow();
    T& place = (*this)[tail_++];
    place = std::move(item);
    return place;
  }
  void pop_front() { (*this)[head_++] = T(); }
  void clear() { truncate(head_); }
  void truncate(uint64_t tail) {
    while (tail_ > tail) (*this)[--tail_] = T();
  }

 private:
  void Grow() {
    std::vector<T> larger(items_.empty() ? 8 : items_.size() * 2);
    for (uint64_t i = head_; i < tail_; ++i) larger[i & (larger.size() - 1)] = std::move((*this)[i]);
    items_ = std::move(larger);
  }

  std::vector<T> items_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace nova
