#include "ltc/engine/recovered_entries.h"

#include <algorithm>
#include <cstring>

#include "common/base/log.h"

namespace nova {

bool RecoveredEntries::Sorted::operator<(const Sorted& other) const {
  if (prefix != other.prefix) return prefix < other.prefix;
  const int order = record->key.compare(other.record->key);
  return order != 0 ? order < 0 : record->sequence > other.record->sequence;
}

RecoveredEntries::RecoveredEntries(RecoveredLogs logs, const DoneMemTables& done) : logs_(std::move(logs)) {
  size_t same = SIZE_MAX;
  sorted_.reserve(logs_.size());
  for (const RecoveredRecord& r : logs_) {
    if (done(r.memtable)) continue;
    const bool is_first = sorted_.empty();
    first_ = is_first ? r.sequence : std::min(first_, r.sequence);
    last_ = std::max(last_, r.sequence);
    same = is_first ? r.key.size() : std::min(same, CommonPrefix(r.key, sorted_.front().record->key));
    sorted_.push_back({0, &r});
  }
  for (Sorted& s : sorted_) {
    const std::string_view rest = s.record->key.substr(same, sizeof(s.prefix));
    std::memcpy(&s.prefix, rest.data(), rest.size());
    s.prefix = __builtin_bswap64(s.prefix);
  }
  std::sort(sorted_.begin(), sorted_.end());
  const auto equal = [](const Sorted& a, const Sorted& b) {
    return a.record->sequence == b.record->sequence;
  };
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(), equal), sorted_.end());
}

StatusOr<std::vector<RangeTombstoneRef>> RecoveredEntries::RangeDeletions() const {
  std::vector<RangeTombstoneRef> deletions;
  for (const Sorted& s : sorted_) {
    const RecoveredRecord& r = *s.record;
    if (r.type != ValueType::kDeleteRange) continue;
    if (r.key >= r.value)
      return absl::DataLossError(
          StrCat("log record ", r.sequence, " deletes a range that ends before it begins"));
    deletions.push_back(std::make_shared<const RangeTombstone>(
        RangeTombstone{std::string(r.key), std::string(r.value), r.sequence}));
  }
  return deletions;
}

class RecoveredEntries::EntryIterator : public Iterator {
 public:
  EntryIterator(const Sorted* begin, const Sorted* end) : begin_(begin), end_(end), at_(end) {}
  void SeekToFirst() override { GoTo(begin_); }
  void Seek(std::string_view internal_key) override {
    for (SeekToFirst(); Valid() && CompareInternalKeys(key_, internal_key) < 0;) Next();
  }
  void Next() override { GoTo(at_ + 1); }
  void Resume() override { NOVA_CHECK(false) << "recovered entries never need blocks"; }
  State state() const override { return at_ != end_ ? State::kValid : State::kEnd; }
  void AppendNeeded(std::vector<BlockRequest>*) override {}
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return at_->record->value; }
  Status status() const override { return OkStatus(); }

 private:
  void GoTo(const Sorted* at) {
    while (at != end_ && at->record->type == ValueType::kDeleteRange) ++at;
    at_ = at;
    if (at_ == end_) return;
    FetchAhead();
    const RecoveredRecord& r = *at_->record;
    key_.clear();
    AppendInternalKey(&key_, r.key, r.sequence, r.type);
  }

  // In the order of keys the next entry lies anywhere in memory: half of a recovery was waiting for it.
  void FetchAhead() const {
    constexpr ptrdiff_t kAhead = 8;
    if (end_ - at_ <= 2 * kAhead) return;
    __builtin_prefetch(at_[2 * kAhead].record);
    const RecoveredRecord& next = *at_[kAhead].record;
    __builtin_prefetch(next.key.data());
    __builtin_prefetch(next.value.data());
  }

  const Sorted* const begin_;
  const Sorted* const end_;
  const Sorted* at_;
  std::string key_;  // the internal key at this position
};

size_t RecoveredEntries::BeginOf(size_t part, size_t parts) const {
  size_t at = sorted_.size() * part / parts;
  while (at > 0 && at < sorted_.size() && sorted_[at].record->key == sorted_[at - 1].record->key) ++at;
  return at;
}

std::unique_ptr<Iterator> RecoveredEntries::NewIterator(size_t part, size_t parts) const {
  const Sorted* const first = sorted_.data();
  return std::make_unique<EntryIterator>(first + BeginOf(part, parts), first + BeginOf(part + 1, parts));
}

}  // namespace nova
