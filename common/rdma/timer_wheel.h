// TimerWheel: the deadlines of one thread, to a millisecond. Adding and removing one costs a list splice, no
// heap operation.
//
// A node waits in the slot of its millisecond, modulo the wheel; a node that is due in a later turn is
// skipped when its slot comes by. A node fires at its time or up to about a millisecond after it, never
// before.
//
//   slot     0    1    2   ...  4095        one for each millisecond, modulo 4096
//   nodes    a    -    b c      d           c is due a turn later than b: it stays when b fires
//
// Thread safety: none.
// Ownership: nodes belong to the caller and are linked in place: they stay where they are while linked.
// Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/base/clock.h"

namespace nova {

// A deadline; the owner embeds or derives from it.
struct TimerNode {
  TimerNode* prev = nullptr;
  TimerNode* next = nullptr;
  Nanos when_ns = kNever;
  bool linked() const { return next != nullptr; }
};

class TimerWheel {
 public:
  // `now_ns`: the time of the first Advance, or earlier.
  explicit TimerWheel(Nanos now_ns) : tick_(now_ns / kMillisecond) {
    for (TimerNode& head : slots_) head.prev = head.next = &head;
  }
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  bool empty() const { return count_ == 0; }

  // Links a node, or moves it. A time that has passed fires at the next Advance; kNever is not linked.
  void Add(TimerNode* node, Nanos when_ns) {
    Remove(node);
    node->when_ns = when_ns;
    if (when_ns == kNever) return;
    const int64_t due = std::max(when_ns / kMillisecond + (when_ns % kMillisecond != 0), tick_ + 1);
    TimerNode* head = &slots_[Slot(due)];
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
    used_[Slot(due) / 64] |= uint64_t{1} << (Slot(due) % 64);
    ++count_;
  }

  // Unlinks a node; fine if it is not linked.
  void Remove(TimerNode* node) {
    if (!node->linked()) return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = nullptr;
    --count_;
  }

  // Unlinks each node that is due and calls fire(node), which may add and remove any. Returns how many fired.
  template <typename Fire>
  size_t Advance(Nanos now_ns, Fire fire) {
    const int64_t now_tick = now_ns / kMillisecond;
    if (now_tick <= tick_) return 0;
    const int64_t first = std::max(tick_ + 1, now_tick - static_cast<int64_t>(kSlots) + 1);
    tick_ = now_tick;
    if (count_ == 0) return 0;
    TimerNode due;
    due.prev = due.next = &due;
    for (int64_t t = first; t <= now_tick; ++t) {
      if ((used_[Slot(t) / 64] >> (Slot(t) % 64) & 1) != 0) CollectDue(Slot(t), now_ns, &due);
    }
    size_t fired = 0;
    while (due.next != &due) {
      TimerNode* node = due.next;
      Remove(node);
      ++fired;
      fire(node);
    }
    return fired;
  }

  // When the earliest node is due; kNever: none. Looks at the nodes of a few slots, so call it before a sleep
  // only.
  Nanos NextDue() const {
    Nanos best = kNever;
    if (count_ == 0) return best;
    for (int64_t i = 1; i <= static_cast<int64_t>(kSlots); ++i) {
      const size_t slot = Slot(tick_ + i);
      if ((used_[slot / 64] >> (slot % 64) & 1) == 0) {
        if (slot % 64 == 0 && used_[slot / 64] == 0) i += 63;
        continue;
      }
      const TimerNode* head = &slots_[slot];
      for (const TimerNode* n = head->next; n != head; n = n->next) best = std::min(best, n->when_ns);
      if (best <= (tick_ + i) * kMillisecond) break;
    }
    // A node fires when its whole millisecond has come.
    return best == kNever ? best
                          : std::max((best + kMillisecond - 1) / kMillisecond, tick_ + 1) * kMillisecond;
  }

 private:
  static constexpr size_t kSlots = 4096;  // milliseconds of one turn
  static size_t Slot(int64_t tick) { return static_cast<size_t>(tick) % kSlots; }

  // Moves the due nodes of a slot to the list `due`.
  void CollectDue(size_t slot, Nanos now_ns, TimerNode* due) {
    TimerNode* head = &slots_[slot];
    for (TimerNode* n = head->next; n != head;) {
      TimerNode* next = n->next;
      if (n->when_ns <= now_ns) {
        n->prev->next = n->next;
        n->next->prev = n->prev;
        n->prev = due->prev;
        n->next = due;
        due->prev->next = n;
        due->prev = n;
      }
      n = next;
    }
    if (head->next == head) used_[slot / 64] &= ~(uint64_t{1} << (slot % 64));
  }

  int64_t tick_;      // the last millisecond that Advance has handled
  size_t count_ = 0;  // nodes linked
  std::array<TimerNode, kSlots> slots_;
  std::array<uint64_t, kSlots / 64> used_{};  // a bit for each slot: it may hold a node
};

}  // namespace nova
