// RoomInMemory: how much memory the process could still use, page cache included, before the machine or its
// cgroup pushes something out.
//
// Thread safety: all.   Errors: none: what cannot be read limits nothing.
#pragma once

#include <cstdint>

namespace nova {

// Bytes: what the kernel says is available, and of each memory cgroup that the process is in (v1 or v2) its
// limit less what it uses, file pages not counted, which give way. UINT64_MAX: nothing is known.
uint64_t RoomInMemory();

}  // namespace nova
