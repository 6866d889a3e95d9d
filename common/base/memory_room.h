// RoomInMemory: how much memory the process could still use, page cache included, before the machine or its
// cgroup pushes something out.
//
// Thread safety: all.
// Errors: none: a value that cannot be read limits nothing.
#pragma once

#include <cstdint>

namespace nova {

// Bytes: the least of the kernel's available memory and, for each memory cgroup of the process (v1 or v2),
// its limit less its use; file pages do not count as used, for they give way. UINT64_MAX: nothing is known.
uint64_t RoomInMemory();

}  // namespace nova
