// NewConcatenatingIterator: iterators whose keys follow one another, as one. So a sorted run of tables is one
// child of a merge.
//
// Thread safety: as Iterator.
// Ownership: owns the children.
// Errors: those of the child at the current position.
#pragma once

#include <memory>
#include <vector>

#include "common/sstable/iterator.h"

namespace nova {

// REQUIRES: every key of a child is before every key of the next one.
std::unique_ptr<Iterator> NewConcatenatingIterator(std::vector<std::unique_ptr<Iterator>> children);

}  // namespace nova
