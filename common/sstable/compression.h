// Compression of data blocks, one at a time. On disk a compressed payload is: varint32 bytes it had | what
// the codec made of it.
//
// Thread safety: all.   Errors: bytes that do not decompress are said to be damaged; nothing crashes on any
//                input (fuzzed).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/sstable/format.h"

namespace nova {

// Appends the compressed payload. False, and nothing is appended: it would not save an eighth.
bool CompressBlock(Compression compression, std::string_view raw, std::string* out);
// False: damaged, or a codec that this program does not know.
bool DecompressBlock(Compression compression, std::string_view payload, std::string* raw);

// "none,lz4,zstd".
StatusOr<std::vector<Compression>> ParseCompressionList(std::string_view text);

}  // namespace nova
