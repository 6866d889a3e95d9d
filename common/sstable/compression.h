// Compression of data blocks, each by itself. A compressed payload is: varint32 bytes of the raw payload |
// the codec's bytes.
//
// Thread safety: all.
// Errors: damaged bytes are said to be damaged; no input crashes (fuzzed).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/sstable/format.h"

namespace nova {

// Appends the compressed payload. False: it would not save an eighth, and nothing is appended.
bool CompressBlock(Compression compression, std::string_view raw, std::string* out);
// False: damaged, or a codec that this program does not know.
bool DecompressBlock(Compression compression, std::string_view payload, std::string* raw);

// Parses "none,lz4,zstd".
StatusOr<std::vector<Compression>> ParseCompressionList(std::string_view text);

}  // namespace nova
