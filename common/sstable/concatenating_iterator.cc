#include "common/sstable/concatenating_iterator.h"

#include <string>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

class ConcatenatingIterator : public Iterator {
 public:
  explicit ConcatenatingIterator(std::vector<std::unique_ptr<Iterator>> children)
      : children_(std::move(children)) {}

  void SeekToFirst() override {
    current_ = 0;
    seeking_ = false;
    Enter();
  }
  void Seek(std::string_view internal_key) override {
    current_ = 0;
    seeking_ = true;
    target_.assign(internal_key);
    Enter();
  }
  void Next() override {
    NOVA_DCHECK(Valid());
    seeking_ = false;
    child().Next();
    PassEnds();
  }
  void Resume() override {
    NOVA_DCHECK(state() == State::kNeedBlocks);
    child().Resume();
    PassEnds();
  }
  State state() const override { return current_ < children_.size() ? child().state() : State::kEnd; }
  void AppendNeeded(std::vector<BlockRequest>* out) override { child().AppendNeeded(out); }
  std::string_view key() const override { return child().key(); }
  std::string_view value() const override { return child().value(); }
  Status status() const override { return current_ < children_.size() ? child().status() : OkStatus(); }

 private:
  Iterator& child() const { return *children_[current_]; }

  void Position() { seeking_ ? child().Seek(target_) : child().SeekToFirst(); }
  void Enter() {
    if (current_ == children_.size()) return;
    Position();
    PassEnds();
  }
  void PassEnds() {
    while (current_ < children_.size() && child().state() == State::kEnd) {
      if (++current_ < children_.size()) Position();
    }
  }

  std::vector<std::unique_ptr<Iterator>> children_;
  size_t current_ = 0;
  bool seeking_ = false;
  std::string target_;
};

}  // namespace

std::unique_ptr<Iterator> NewConcatenatingIterator(std::vector<std::unique_ptr<Iterator>> children) {
  if (children.size() == 1) return std::move(children[0]);
  return std::make_unique<ConcatenatingIterator>(std::move(children));
}

}  // namespace nova
