// Concatenation: iterators whose ranges follow one another, as one. A sorted run of tables costs its merge
// one child.
//
// Thread safety: as Iterator.   Ownership: holds the children.   Errors: those of the child it stands in.
#pragma once

#include <memory>
#include <vector>

#include "common/sstable/iterator.h"

namespace nova {

// REQUIRES: every key of a child is before every key of the next one.
std::unique_ptr<Iterator> NewConcatenatingIterator(std::vector<std::unique_ptr<Iterator>> children);

}  // namespace nova
