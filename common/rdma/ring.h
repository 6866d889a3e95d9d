// Ring: a queue whose elements keep their absolute index (0, 1, 2 ...) while they are in it. It grows by
// doubling and never shrinks.
//
// Thread safety: none.
// Ownership: owns its elements.
// Errors: none; an index outside [head, tail) is a bug.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace nova {

template <typename T>
class Ring {
  // An element that left the queue lies there until it is overwritten.
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  uint64_t head() const { return head_; }  // index of the oldest element
  uint64_t tail() const { return tail_; }  // index of the next one to be added
  uint64_t size() const { return tail_ - head_; }
  bool empty() const { return head_ == tail_; }
  T& operator[](uint64_t index) { return items_[index & (items_.size() - 1)]; }
  const T& operator[](uint64_t index) const { return items_[index & (items_.size() - 1)]; }
  T& front() { return (*this)[head_]; }
  const T& front() const { return (*this)[head_]; }
  T& back() { return (*this)[tail_ - 1]; }

  // Adds an element; the reference is valid until the next one is added.
  T& emplace_back() {
    if (size() == items_.size()) Grow();
    return (*this)[tail_++] = T();
  }
  void push_back(T item) { emplace_back() = std::move(item); }
  void pop_front() { ++head_; }
  // Drops all elements; the next one gets the index head().
  void clear() { tail_ = head_; }
  // Drops the elements from index `tail` on.
  void truncate(uint64_t tail) { tail_ = std::min(tail_, tail); }

 private:
  void Grow() {
    std::vector<T> larger(items_.empty() ? 8 : items_.size() * 2);
    for (uint64_t i = head_; i < tail_; ++i) larger[i & (larger.size() - 1)] = std::move((*this)[i]);
    items_ = std::move(larger);
  }

  std::vector<T> items_;  // a power of two of slots; element i lies at i modulo that
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace nova
