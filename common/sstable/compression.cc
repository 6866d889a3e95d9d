#include "common/sstable/compression.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_split.h"
#include "common/base/coding.h"

namespace nova {
namespace {

constexpr int kZstdLevel = 3;
// What a payload may claim to grow to: beyond what either codec can do, below what would exhaust memory.
constexpr uint64_t kMaxGrowth = 1 << 16;
constexpr uint64_t kMaxRawBytes = uint64_t{1} << 30;

struct ZstdContexts {
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> compress{ZSTD_createCCtx(), ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> decompress{ZSTD_createDCtx(), ZSTD_freeDCtx};
};
ZstdContexts& Zstd() {
  static thread_local ZstdContexts contexts;
  return contexts;
}

size_t Bound(Compression compression, size_t raw) {
  return compression == Compression::kLz4 ? static_cast<size_t>(LZ4_compressBound(static_cast<int>(raw)))
                                          : ZSTD_compressBound(raw);
}

}  // namespace

bool CompressBlock(Compression compression, std::string_view raw, std::string* out) {
  if (compression == Compression::kNone || raw.size() > std::min<uint64_t>(kMaxRawBytes, LZ4_MAX_INPUT_SIZE))
    return false;
  const size_t before = out->size();
  PutVarint32(out, static_cast<uint32_t>(raw.size()));
  const size_t start = out->size(), bound = Bound(compression, raw.size());
  out->resize(start + bound);
  size_t made = 0;  // 0: it failed
  if (compression == Compression::kLz4) {
    made = static_cast<size_t>(LZ4_compress_default(raw.data(), out->data() + start,
                                                    static_cast<int>(raw.size()), static_cast<int>(bound)));
  } else {
    made = ZSTD_compressCCtx(Zstd().compress.get(), out->data() + start, bound, raw.data(), raw.size(),
                             kZstdLevel);
    if (ZSTD_isError(made)) made = 0;
  }
  out->resize(start + made);
  if (made > 0 && out->size() - before <= raw.size() - raw.size() / 8) return true;
  out->resize(before);
  return false;
}

bool DecompressBlock(Compression compression, std::string_view payload, std::string* raw) {
  uint32_t size;
  if (!GetVarint32(&payload, &size) || size > kMaxRawBytes || size > payload.size() * kMaxGrowth)
    return false;
  raw->resize(size);
  switch (compression) {
    case Compression::kLz4:
      return payload.size() <= LZ4_MAX_INPUT_SIZE &&
             LZ4_decompress_safe(payload.data(), raw->data(), static_cast<int>(payload.size()),
                                 static_cast<int>(size)) == static_cast<int>(size);
    case Compression::kZstd:
      return ZSTD_decompressDCtx(Zstd().decompress.get(), raw->data(), size, payload.data(),
                                 payload.size()) == size;
    case Compression::kNone:
      break;
  }
  return false;
}

StatusOr<std::vector<Compression>> ParseCompressionList(std::string_view text) {
  std::vector<Compression> list;
  for (const absl::string_view name : absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    if (name != "none" && name != "lz4" && name != "zstd")
      return absl::InvalidArgumentError(StrCat("'", name, "' is none of none, lz4, zstd"));
    list.push_back(name == "none"  ? Compression::kNone
                   : name == "lz4" ? Compression::kLz4
                                   : Compression::kZstd);
  }
  return list;
}

}  // namespace nova
