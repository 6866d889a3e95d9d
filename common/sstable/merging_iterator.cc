// Merging by a tournament: leaf i is child i, each inner node remembers the loser of its match, the winner
// has the smallest key (backwards: the largest). After the winner moved, its path is replayed: one comparison
// a level.
#include "common/sstable/merging_iterator.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace nova {
namespace {

class MergingIterator : public Iterator {
 public:
  MergingIterator(std::vector<std::unique_ptr<Iterator>> children, Direction direction);

  void SeekToFirst() override;
  void Seek(std::string_view internal_key) override;
  void Next() override;
  void Resume() override;
  State state() const override { return state_; }
  void AppendNeeded(std::vector<BlockRequest>* out) override;
  std::string_view key() const override { return players_[winner_].key; }
  std::string_view value() const override { return players_[winner_].child->value(); }
  const std::shared_ptr<const void>* value_keeper() const override {
    return players_[winner_].child->value_keeper();
  }
  Status status() const override { return status_; }

 private:
  struct Player {
    std::unique_ptr<Iterator> child;
    std::string_view key;  // the child's; null data: it has none left
    bool ahead = false;    // the child is kAhead: its next entry lies at or behind `key`
  };
  struct Node {
    size_t loser = 0;
    bool tied = false;  // winner and loser of this match have equal keys
  };

  void Start();
  void FinishMove();
  bool Arrive();
  bool TakeKey(size_t i);
  size_t Play(size_t node, size_t a, size_t b);
  size_t Build(size_t node);
  void Replay();
  bool WinnerIsTied() const;

  const bool backward_;
  std::vector<Player> players_;
  std::vector<Node>
      nodes_;  // 1 is the root; the children of n are 2n and 2n+1; leaf i is at players_.size() + i
  size_t winner_ = 0;
  State state_ = State::kEnd;
  Status status_;
  bool positioning_ = false;  // every child is moving; else only the winner
  bool skipping_ = false;     // passing by the entries equal to `skipped_key_`
  std::string skipped_key_;
};

MergingIterator::MergingIterator(std::vector<std::unique_ptr<Iterator>> children, Direction direction)
    : backward_(direction == Direction::kBackward), nodes_(children.size()) {
  players_.reserve(children.size());
  for (auto& child : children) players_.push_back({std::move(child), {}});
}

void MergingIterator::SeekToFirst() {
  for (Player& p : players_) p.child->SeekToFirst();
  Start();
}

void MergingIterator::Seek(std::string_view internal_key) {
  for (Player& p : players_) p.child->PrepareSeek(internal_key);
  for (Player& p : players_) p.child->Seek(internal_key);
  Start();
}

// All children were moved: begins the tournament, once each of them has arrived.
void MergingIterator::Start() {
  positioning_ = true;
  skipping_ = false;
  state_ = State::kEnd;
  bool waiting = false;
  for (size_t i = 0; i < players_.size(); ++i) {
    if (players_[i].child->state() == State::kNeedBlocks) {
      waiting = true;
    } else if (!TakeKey(i)) {
      return;
    }
  }
  if (waiting) {
    state_ = State::kNeedBlocks;
    return;
  }
  positioning_ = false;
  if (players_.empty()) return;
  winner_ = Build(1);
  if (!Arrive()) FinishMove();
}

void MergingIterator::Next() {
  NOVA_DCHECK(Valid());
  if (WinnerIsTied()) {
    skipped_key_.assign(key());
    skipping_ = true;
  }
  players_[winner_].child->Next();
  FinishMove();
}

// The winner was moved: finds the next one.
void MergingIterator::FinishMove() {
  for (;;) {
    if (players_[winner_].child->state() == State::kNeedBlocks) {
      state_ = State::kNeedBlocks;
      return;
    }
    if (!TakeKey(winner_)) return;
    Replay();
    if (Arrive()) return;
  }
}

// The winner is the next entry, or no entry is left. False: it is neither, and was moved on.
bool MergingIterator::Arrive() {
  Player& winner = players_[winner_];
  if (winner.key.data() == nullptr) {
    state_ = State::kEnd;
    return true;
  }
  if (winner.ahead) {
    winner.child->Resume();
    return false;
  }
  if (skipping_ && winner.key == skipped_key_) {
    winner.child->Next();
    return false;
  }
  skipping_ = false;
  state_ = State::kValid;
  return true;
}

void MergingIterator::Resume() {
  NOVA_DCHECK(state_ == State::kNeedBlocks);
  if (!positioning_) {
    players_[winner_].child->Resume();
    return FinishMove();
  }
  for (Player& p : players_) {
    if (p.child->state() == State::kNeedBlocks) p.child->Resume();
  }
  Start();
}

void MergingIterator::AppendNeeded(std::vector<BlockRequest>* out) {
  NOVA_DCHECK(state_ == State::kNeedBlocks);
  for (Player& p : players_) {
    if (p.child->state() == State::kNeedBlocks) p.child->AppendNeeded(out);
  }
}

// False, with the error taken over, if the child has failed.
bool MergingIterator::TakeKey(size_t i) {
  Player& p = players_[i];
  const State state = p.child->state();
  p.ahead = state == State::kAhead;
  switch (state) {
    case State::kValid:
    case State::kAhead:
      p.key = p.child->key();
      return true;
    case State::kError:
      state_ = State::kError;
      status_ = p.child->status();
      return false;
    default:
      p.key = {};
      return true;
  }
}

size_t MergingIterator::Play(size_t node, size_t a, size_t b) {
  const std::string_view ka = players_[a].key, kb = players_[b].key;
  Node& n = nodes_[node];
  n.tied = false;
  bool a_wins;
  if (ka.data() == nullptr || kb.data() == nullptr) {
    a_wins = kb.data() == nullptr;
  } else {
    const int c = backward_ ? CompareInternalKeys(kb, ka) : CompareInternalKeys(ka, kb);
    n.tied = c == 0;
    a_wins = c < 0 || (c == 0 && a < b);
  }
  n.loser = a_wins ? b : a;
  return a_wins ? a : b;
}

// Plays the matches below and at `node`; returns who comes out of them.
size_t MergingIterator::Build(size_t node) {
  if (node >= players_.size()) return node - players_.size();
  const size_t left = Build(2 * node);
  return Play(node, left, Build(2 * node + 1));
}

void MergingIterator::Replay() {
  for (size_t node = (players_.size() + winner_) / 2; node > 0; node /= 2) {
    winner_ = Play(node, winner_, nodes_[node].loser);
  }
}

bool MergingIterator::WinnerIsTied() const {
  for (size_t node = (players_.size() + winner_) / 2; node > 0; node /= 2) {
    if (nodes_[node].tied) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<Iterator> NewMergingIterator(std::vector<std::unique_ptr<Iterator>> children,
                                             Direction direction) {
  if (children.size() == 1) return std::move(children[0]);
  return std::make_unique<MergingIterator>(std::move(children), direction);
}

}  // namespace nova
