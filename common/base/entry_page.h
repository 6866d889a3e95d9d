// EntryPage: a part of a scan's result.   Thread safety: as a value's.
// Ownership: of its bytes; values that it refers to are kept by what it holds.   Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nova {

// Values of a page that lie where they were found. [i] is of entry i; null data: it has none, its value is
// behind its key. Fewer than there are entries: the others have none.
struct ReferredValues {
  void Add(std::string_view value, const std::shared_ptr<const void>& keeper) {
    values.emplace_back(value.data(), value.size());
    bytes += value.size();
    if (std::find(keepers.begin(), keepers.end(), keeper) == keepers.end()) keepers.push_back(keeper);
  }

  std::vector<std::string_view> values;
  std::vector<std::shared_ptr<const void>> keepers;  // of them
  uint64_t bytes = 0;                                // of all of them
};
struct EntryPage {
  // `count` x (varint32 key size, key, and unless it is referred to, varint32 value size, value), in the
  // request's order.
  std::string bytes;
  uint32_t count = 0;
  ReferredValues referred = {};
  bool more = false;  // it ended before the limit, and there may be more behind it
};
}  // namespace nova
