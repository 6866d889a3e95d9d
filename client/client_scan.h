// ScanRun: a scan of a client under way, of any length or of one page: over ranges, and over the replies of
// each.
//
// Thread safety: none; on the lane of its operation.
// Ownership: shared by the tries of the operation.
// Errors: AddReply: false, a reply that cannot be true.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client_rep.h"
#include "common/base/coding.h"
#include "common/base/paged_iterator.h"

namespace nova {

struct ScanRun {
  struct Place {
    std::string from, to;  // stored: what is still wanted
    size_t count = 0;      // of entries that were found before
  };

  size_t limit = 0;  // entries
  bool reverse = false;
  bool one_page = false;  // it ends with the first entries, in `page`, and goes on in another run
  Place now;              // what is still wanted of the range under way, and behind it
  Place range_start;      // of the range under way, or of the page
  size_t count = 0;       // entries so far
  std::vector<std::pair<std::string, std::string>> entries;  // in the scan's order; unless one_page
  EntryPage page;                                            // of one_page; with stored keys
  std::string last_key;                                      // stored, of the last entry
  bool at_end = false;                                       // all that was asked for has been looked at

  // By which the range to ask next is found.
  const std::string& NextKey() const { return reverse ? now.to : now.from; }
  // It has all that it may have.
  bool IsFull() const { return count >= limit || (one_page && count > 0); }
  // There would be use for a reply that goes on behind so many entries.
  bool WantsMoreThan(size_t asked) const { return one_page || limit - count > asked; }

  // Adds a reply's entries; the scan goes on behind the last of them.
  bool AddReply(const ScanReply& reply, std::string_view key_prefix);
  // False: the scan ends with this range.
  bool EnterNextRange(const Target& left);
  // Forgets what was found in this range.
  void RestartRange();
};

}  // namespace nova
