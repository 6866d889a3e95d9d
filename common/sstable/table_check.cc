#include "common/sstable/table_check.h"

#include <cstring>

#include "common/sstable/block_crc.h"
#include "common/sstable/footer.h"

namespace nova {

Status TableError(const Uuid& table, absl::string_view damage) {
  return absl::DataLossError(StrCat("table ", table.ToString(), ": ", damage));
}

const char* RawBlockDamage(const Uuid& table, const BlockHandle& handle, std::string_view raw) {
  if (raw.size() != handle.size || raw.size() < kBlockTrailerBytes) return "cut short";
  const size_t covered = raw.size() - sizeof(uint32_t);
  const uint32_t crc = ExtendCrc32c(BlockCrcSeed(table, handle.offset), raw.data(), covered);
  return crc == DecodeFixed32(raw.data() + covered) ? nullptr : "checksum mismatch";
}

Status CheckRawBlock(const Uuid& table, const BlockHandle& handle, std::string_view raw) {
  const char* const damage = RawBlockDamage(table, handle, raw);
  if (damage == nullptr) return OkStatus();
  return TableError(table, StrCat("block at ", handle.offset, " of ", handle.size, " bytes, got ", raw.size(),
                                  ": ", damage));
}

StatusOr<MetadataSections> CheckRawMetadata(const TableInfo& info, std::string_view metadata) {
  Footer footer;
  if (metadata.size() < sizeof(footer)) return TableError(info.uuid, "metadata is shorter than a footer");
  const size_t footer_start = metadata.size() - sizeof(footer);
  std::memcpy(&footer, metadata.data() + footer_start, sizeof(footer));
  if (footer.magic != kTableMagic) return TableError(info.uuid, "no footer where it should be");
  if (footer.version != kTableVersion)
    return TableError(info.uuid, StrCat("unknown version ", footer.version));
  if (footer.crc != Crc32c(metadata.substr(0, footer_start + offsetof(Footer, crc)))) {
    return TableError(info.uuid, "metadata checksum mismatch");
  }
  if (footer.uuid_hi != info.uuid.hi || footer.uuid_lo != info.uuid.lo) {
    return TableError(info.uuid,
                      StrCat("metadata is of table ", Uuid{footer.uuid_hi, footer.uuid_lo}.ToString()));
  }
  if (footer.data_size != info.data_size || metadata.size() != info.metadata_size) {
    return TableError(info.uuid, "sizes differ from the manifest's");
  }
  if (uint64_t{footer.filter_size} + footer.index_size + footer.properties_size != footer_start) {
    return TableError(info.uuid, "metadata sections do not add up");
  }
  MetadataSections sections;
  sections.filter = metadata.substr(0, footer.filter_size);
  sections.index = metadata.substr(footer.filter_size, footer.index_size);
  sections.properties =
      metadata.substr(uint64_t{footer.filter_size} + footer.index_size, footer.properties_size);
  return sections;
}

}  // namespace nova
