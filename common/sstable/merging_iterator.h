// NewMergingIterator: iterators whose keys may lie among one another, as one.
//
// Thread safety: as Iterator.
// Ownership: owns the children.
// Errors: those of any child.
#pragma once

#include <memory>
#include <vector>

#include "common/sstable/iterator.h"

namespace nova {

// Merges children of that direction into one sorted sequence. Equal internal keys (a record recovered twice)
// come out once.
std::unique_ptr<Iterator> NewMergingIterator(std::vector<std::unique_ptr<Iterator>> children,
                                             Direction direction = Direction::kForward);

}  // namespace nova
