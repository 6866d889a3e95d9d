// TableOptions: how a table is built.   Plain data.   Errors: Check: InvalidArgument, with the option's name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"

namespace nova {

enum class Compression : uint8_t { kNone = 0, kLz4 = 1, kZstd = 2 };
inline constexpr int kCompressions = 3;

struct TableOptions {
  size_t block_size_bytes = 4096;  // before compression
  int restart_interval = 16;       // keys between restart points of a block
  int filter_bits_per_key = 10;    // 0: no filter
  Compression compression = Compression::kNone;
  // InvalidArgument: an option out of range, by name.
  Status Check() const;
};

}  // namespace nova
