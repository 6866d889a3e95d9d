// KeyIterator: a position among sorted keys; what the iterators of an embedded database and of a cluster's
// client have in common. Each of them says by itself why it cannot go on.
//
// Thread safety: none; one thread at a time.
// Ownership: a key and a value are valid until the next move.
// Errors: it is not Valid; the next Seek tries again.
#pragma once

#include <string_view>

namespace nova {

class PagedIterator;

class KeyIterator {
 public:
  KeyIterator(const KeyIterator&) = delete;
  KeyIterator& operator=(const KeyIterator&) = delete;

  bool Valid() const;  // stands at an entry; false before the first Seek
  void SeekToFirst();
  void SeekToLast();
  void Seek(std::string_view key);         // to the first key at or above it
  void SeekForPrev(std::string_view key);  // to the last key at or below it
  void Next();                             // REQUIRES: Valid
  void Prev();                             // REQUIRES: Valid; cheap within a page, else as dear as a Seek
  std::string_view key() const;            // REQUIRES: Valid
  std::string_view value() const;          // REQUIRES: Valid

 protected:
  // `entries` lives as long as this is used.
  explicit KeyIterator(PagedIterator* entries) : entries_(entries) {}
  ~KeyIterator() = default;

 private:
  PagedIterator* const entries_;
};

}  // namespace nova
