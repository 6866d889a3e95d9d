// Any bytes as metadata and as blocks. The first byte says how many of the next are metadata, the rest is a
// block. Checksums, uuid and sizes are made to fit, so that what is behind them is reached.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "common/base/log.h"
#include "common/sstable/block_crc.h"
#include "common/sstable/filter.h"
#include "common/sstable/footer.h"
#include "common/sstable/table_builder.h"
#include "common/sstable/table_iterator.h"

namespace nova {
namespace {

std::string WithFittingFooter(std::string metadata, const Uuid& uuid) {
  if (metadata.size() < sizeof(Footer)) metadata.resize(sizeof(Footer));
  char* at = metadata.data() + metadata.size() - sizeof(Footer);
  Footer footer;
  std::memcpy(&footer, at, sizeof(footer));
  footer.uuid_hi = uuid.hi;
  footer.uuid_lo = uuid.lo;
  footer.version = kTableVersion;
  footer.magic = kTableMagic;
  std::memcpy(at, &footer, sizeof(footer));
  footer.crc =
      Crc32c(std::string_view(metadata).substr(0, metadata.size() - sizeof(Footer) + offsetof(Footer, crc)));
  std::memcpy(at, &footer, sizeof(footer));
  return metadata;
}

void Walk(const std::shared_ptr<const TableReader>& reader, const BlockRef& block) {
  for (const char* key : {"", "a", "key5", "zzzzzzzzzzzz"}) {
    BlockHandle handle;
    reader->MayContain(key, FilterHash(key));
    if (reader->FindBlock(key, 7, &handle)) reader->FindNextBlock(handle, &handle);
    TableReader::Hit hit;
    if (block && reader->SearchBlock(block.data, key, 7, &hit) == TableReader::Found::kFound) {
      NOVA_CHECK(hit.value.data() >= block.data.data() &&
                 hit.value.data() + hit.value.size() <= block.data.data() + block.data.size());
    }
  }
  if (!block) return;
  TableIterator it(reader, [&](const TableReader&, const BlockHandle&) { return block; });
  int steps = 0;
  for (it.SeekToFirst(); it.Valid() && ++steps < 1000; it.Next())
    NOVA_CHECK(it.key().size() >= kInternalTrailerBytes);
  it.Seek(MakeSeekKey("key5", 7));
}

// The block, ended as a block of `reader`'s table would be.
BlockRef Check(const TableReader& reader, std::string raw, Compression compression) {
  raw.push_back(static_cast<char>(compression));
  PutFixed32(&raw, ExtendCrc32c(BlockCrcSeed(reader.info().uuid, 0), raw.data(), raw.size()));
  auto block = reader.CheckBlock({0, static_cast<uint32_t>(raw.size())}, raw);
  return block.ok() ? *block : BlockRef();
}

std::shared_ptr<const TableReader> GoodTable() {
  TableBuilder builder({.block_size_bytes = 64}, {1, 2});
  for (int i = 1; i < 9; ++i) {
    std::string key;
    AppendInternalKey(&key, StrCat("key", i), i, ValueType::kPut);
    builder.Add(key, "value");
  }
  const TableBuilder::Output output = builder.Finish();
  return *TableReader::Open(output.info, output.metadata);
}

}  // namespace
}  // namespace nova

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const nova::TableReader> good = nova::GoodTable();
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = std::min<size_t>(data[0] * size_t{4}, all.size());
  const std::string metadata = nova::WithFittingFooter(std::string(all.substr(0, cut)), {1, 2});
  const nova::BlockRef block =
      nova::Check(*good, std::string(all.substr(cut)), static_cast<nova::Compression>(size % 3));
  nova::Walk(good, block);

  nova::Footer footer;
  std::memcpy(&footer, metadata.data() + metadata.size() - sizeof(footer), sizeof(footer));
  nova::TableInfo info = good->info();
  info.data_size = footer.data_size;
  info.metadata_size = metadata.size();
  const auto reader = nova::TableReader::Open(info, metadata);
  if (reader.ok()) nova::Walk(*reader, block);
  (void)nova::TableReader::Open(good->info(), all);
  return 0;
}
