#include "ltc/engine/key_order.h"

#include <utility>

namespace nova {

void KeyCursor::Use(const KeyOrder* order) {
  order_ = order;
  prepared_ = {};
  node_ = nullptr;
}

void KeyCursor::SeekToFirst() {
  const bool forward = direction_ == Direction::kForward;
  sorted_ = forward ? 0 : order_->sorted.size();
  listed_ = forward ? order_->list.First() : order_->list.Last();
  Settle();
}

void KeyCursor::PrepareSeek(std::string_view stored_key) {
  constexpr size_t kNearBytes = 32;  // of a node's key: most keys and links end within 64 from there
  const auto fetch = [](const KeyNode* node) {
    __builtin_prefetch(node);
    __builtin_prefetch(node->bytes() + kNearBytes);
  };
  prepared_ = {true, order_->sorted.CountBefore(stored_key), {}};
  if (prepared_.sorted < order_->sorted.size()) fetch(order_->sorted[prepared_.sorted]);
  if (order_->list.empty()) return;
  prepared_.start = order_->list.StartOf(stored_key);
  fetch(prepared_.start.from);
}

void KeyCursor::Seek(std::string_view stored_key) {
  if (direction_ == Direction::kForward) {
    if (!prepared_.done) PrepareSeek(stored_key);
    const Prepared from = std::exchange(prepared_, {});
    sorted_ = from.sorted;
    listed_ = from.start.from == nullptr ? nullptr : order_->list.FindGreaterOrEqual(stored_key, from.start);
  } else {
    sorted_ = order_->sorted.CountBefore(stored_key);
    listed_ = order_->list.FindLess(stored_key);
  }
  Settle();
}

void KeyCursor::Next() {
  const bool forward = direction_ == Direction::kForward;
  if (at_listed_) {
    listed_ = forward ? order_->list.Next(listed_) : order_->list.FindLess(listed_->key());
  } else {
    forward ? ++sorted_ : --sorted_;
  }
  Settle();
}

const KeyNode* KeyCursor::SortedNode() const {
  constexpr size_t kNodesAhead = 8;
  const SortedKeys& keys = order_->sorted;
  if (direction_ == Direction::kBackward) return sorted_ == 0 ? nullptr : keys[sorted_ - 1];
  if (sorted_ + kNodesAhead < keys.size()) __builtin_prefetch(keys[sorted_ + kNodesAhead]);
  return sorted_ == keys.size() ? nullptr : keys[sorted_];
}

void KeyCursor::Settle() {
  const KeyNode* const sorted = SortedNode();
  at_listed_ = listed_ != nullptr &&
               (sorted == nullptr || (listed_->key() < sorted->key()) == (direction_ == Direction::kForward));
  node_ = at_listed_ ? listed_ : sorted;
}

}  // namespace nova
