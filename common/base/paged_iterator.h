// PagedIterator: a position among sorted entries that come in pages. The first page after a Seek is small,
// and pages grow as long as the caller goes on in one direction: whoever looks at ten entries pays for about
// as many, and memory is bounded by one page, whatever the length of the scan.
//
// A step back within a page costs nothing; one out of it asks for a page the other way.
//
// Thread safety: none; one thread at a time.
// Ownership: the source outlives it. A key and a value are valid until the next move.
// Errors: where the source fails the iterator is not Valid, and failed(); the source knows why. The next Seek
//   tries again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/entry_page.h"

namespace nova {

struct PageRequest {
  std::string from;      // entries at or above it
  std::string to;        // below it; empty: to the end
  bool reverse = false;  // from the highest entry down
  bool goes_on = false;  // it begins where the page before it ended, in the same direction
  uint32_t limit = 0;    // entries, at least 1; the source may end the page earlier, and say so by `more`
  uint64_t bytes = 0;    // the page is to end there, if not before

  static constexpr uint32_t kMaxLimit = 1 << 14;
  static constexpr uint64_t kMaxBytes = 1 << 20;
  // Of the page behind one that ended with `last_key`: twice as large.
  PageRequest Behind(std::string_view last_key) const {
    PageRequest next = *this;
    (reverse ? next.to : next.from).assign(last_key);
    if (!reverse) next.from.push_back('\0');
    next.goes_on = true;
    next.limit = std::max(limit, std::min(2 * limit, kMaxLimit));
    next.bytes = std::max(bytes, std::min(2 * bytes, kMaxBytes));
    return next;
  }
  bool operator==(const PageRequest&) const = default;
};
class PageSource {
 public:
  virtual ~PageSource() = default;
  virtual bool Read(const PageRequest& request, EntryPage* page) = 0;  // false: it failed
};

class PagedIterator {
 public:
  // Of the page after a Seek, entries and bytes; doubled from page to page. A Seek costs more than that.
  static constexpr uint32_t kFirstPage = 12;
  static constexpr uint64_t kFirstBytes = 16 << 10;

  // Over the keys in [lower, upper); an empty `upper` is the end. The keys in pages begin with `prefix_bytes`
  // that are not shown; keys in requests do not have them. `first_page`, `first_bytes`: of the page after a
  // Seek.
  PagedIterator(PageSource* source, std::string lower, std::string upper, size_t prefix_bytes = 0,
                uint32_t first_page = kFirstPage, uint64_t first_bytes = kFirstBytes)
      : source_(source),
        lower_(std::move(lower)),
        upper_(std::move(upper)),
        prefix_bytes_(prefix_bytes),
        first_page_(first_page),
        first_bytes_(first_bytes) {}

  void SeekToFirst() { Load(lower_, upper_, /*reverse=*/false); }
  void SeekToLast() { Load(lower_, upper_, /*reverse=*/true); }
  void Seek(std::string_view key);         // to the first entry at or above `key`
  void SeekForPrev(std::string_view key);  // to the last entry at or below `key`
  void Next();                             // REQUIRES: Valid
  void Prev();                             // REQUIRES: Valid
  bool Valid() const { return at_ < entries_.size(); }
  bool failed() const { return failed_; }
  std::string_view key() const { return entries_[at_].first; }     // REQUIRES: Valid
  std::string_view value() const { return entries_[at_].second; }  // REQUIRES: Valid

 private:
  // Reads the page of [from, to) after a Seek, and stands at its first entry.
  void Load(std::string from, std::string to, bool reverse);
  void ReadPage(PageRequest request);
  // One step along the page's direction, or against it.
  void StepAlong();
  void StepAgainst();

  PageSource* const source_;
  const std::string lower_, upper_;
  const size_t prefix_bytes_;
  const uint32_t first_page_;
  const uint64_t first_bytes_;
  PageRequest request_;  // of the page
  EntryPage page_;
  std::vector<std::pair<std::string_view, std::string_view>> entries_;  // of the page
  size_t at_ = 0;  // in entries_; their number: not valid
  bool failed_ = false;
};

}  // namespace nova
