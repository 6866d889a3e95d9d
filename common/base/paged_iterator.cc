#include "common/base/paged_iterator.h"

#include "common/base/coding.h"
#include "common/base/key_iterator.h"
#include "common/base/keys.h"

namespace nova {

namespace {

// The least key above `key`, and above no key that a store holds and that is not at or below `key`.
std::string Above(std::string_view key) { return std::string(key.substr(0, kMaxUserKeyBytes)) + '\0'; }

}  // namespace

void PagedIterator::Seek(std::string_view key) {
  const std::string from = key.size() > kMaxUserKeyBytes ? Above(key) : std::string(key);
  Load(std::max(from, lower_), upper_, /*reverse=*/false);
}

void PagedIterator::SeekForPrev(std::string_view key) {
  Load(lower_, LesserEnd(Above(key), upper_), /*reverse=*/true);
}

void PagedIterator::Next() { request_.reverse ? StepAgainst() : StepAlong(); }
void PagedIterator::Prev() { request_.reverse ? StepAlong() : StepAgainst(); }

void PagedIterator::StepAlong() {
  if (++at_ == entries_.size() && (page_.more || page_.count >= request_.limit))
    ReadPage(request_.Behind(entries_.back().first));
}

void PagedIterator::StepAgainst() {
  if (at_ > 0) {
    --at_;
    return;
  }
  std::string here(key());
  if (request_.reverse) {
    Load(here + '\0', upper_, /*reverse=*/false);
  } else {
    Load(lower_, std::move(here), /*reverse=*/true);
  }
}

void PagedIterator::Load(std::string from, std::string to, bool reverse) {
  ReadPage({std::move(from), std::move(to), reverse, /*goes_on=*/false, first_page_, first_bytes_});
}

void PagedIterator::ReadPage(PageRequest request) {
  entries_.clear();
  at_ = 0;
  failed_ = false;
  page_ = {};
  request_ = std::move(request);
  if (!request_.to.empty() && request_.from >= request_.to) return;
  failed_ = !source_->Read(request_, &page_);
  entries_.reserve(page_.count);
  const std::vector<std::string_view>& referred = page_.referred.values;
  std::string_view in = page_.bytes, key, value;
  while (!failed_ && GetLengthPrefixed(&in, &key)) {
    const size_t i = entries_.size();
    if (i < referred.size() && referred[i].data() != nullptr) {
      value = referred[i];
    } else if (!GetLengthPrefixed(&in, &value)) {
      return;
    }
    entries_.emplace_back(key.substr(prefix_bytes_), value);
  }
}

bool KeyIterator::Valid() const { return entries_->Valid(); }
void KeyIterator::SeekToFirst() { entries_->SeekToFirst(); }
void KeyIterator::SeekToLast() { entries_->SeekToLast(); }
void KeyIterator::Seek(std::string_view key) { entries_->Seek(key); }
void KeyIterator::SeekForPrev(std::string_view key) { entries_->SeekForPrev(key); }
void KeyIterator::Next() { entries_->Next(); }
void KeyIterator::Prev() { entries_->Prev(); }
std::string_view KeyIterator::key() const { return entries_->key(); }
std::string_view KeyIterator::value() const { return entries_->value(); }

}  // namespace nova
