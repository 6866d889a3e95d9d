#include "ltc/engine/import.h"

#include <algorithm>

#include "common/base/failpoint.h"

namespace nova {
namespace {

// True if bounds were drawn.
bool DrawBounds(const KeyInterval& keys, std::string_view lower, std::string_view upper, TableInfo* table) {
  const bool from = keys.first < lower, to = !upper.empty() && !keys.EndsBefore(upper);
  if (from) table->use_from = lower;
  if (to) table->use_to = upper;
  return from || to;
}

Status MeasureUsed(TableStore* store, TableInfo* table) {
  NOVA_ASSIGN_OR_RETURN(const std::string metadata, store->ReadMetadata(*table));
  NOVA_ASSIGN_OR_RETURN(const auto reader, TableReader::Open(*table, metadata));
  uint64_t bytes = 0;
  reader->ForEachUsedBlock([&bytes](const BlockHandle& h) { bytes += h.size; });
  SetUsedBytes(bytes, table);
  return OkStatus();
}

}  // namespace

StatusOr<VersionEdit> CutCheckpoint(const Checkpoint& from, std::string_view lower, std::string_view upper,
                                    int64_t now_ms, TableStore* store) {
  VersionEdit cut;
  cut.seq_reserved = from.sequence;
  cut.now_ms = now_ms;
  for (const Run& run : from.runs) {
    for (size_t i = run.FirstNotBefore(lower); i < run.tables.size(); ++i) {
      const KeyInterval& keys = run.tables[i]->keys();
      if (!upper.empty() && keys.first >= upper) break;
      VersionEdit::Add add{run.level, run.order, run.tables[i]->info(), nullptr};
      if (DrawBounds(keys, lower, upper, &add.table)) NOVA_RETURN_IF_ERROR(MeasureUsed(store, &add.table));
      cut.adds.push_back(std::move(add));
    }
  }
  if (from.tombstones == nullptr) return cut;
  for (const RangeTombstoneRef& t : from.tombstones->all()) {
    RangeTombstone clipped{std::max(t->begin, std::string(lower)),
                           upper.empty() ? t->end : std::min(t->end, std::string(upper)), t->sequence};
    if (clipped.begin < clipped.end)
      cut.tombstones.push_back(std::make_shared<const RangeTombstone>(std::move(clipped)));
  }
  return cut;
}

StatusOr<std::shared_ptr<Range>> ImportRange(const RangeSpec& spec, const RangeOptions& options,
                                             const RangeServices* services, ManifestStorage* storage,
                                             const VersionEdit& cut, std::shared_ptr<const void> keep) {
  std::vector<TableInfo> tables;
  for (const VersionEdit::Add& add : cut.adds) tables.push_back(add.table);
  NOVA_RETURN_IF_ERROR(services->store->AddReferences(tables, {spec.id, spec.epoch, 0}));
  NOVA_FP("import.referenced");
  return Range::Recover(spec, options, services, storage, {cut}, {}, std::move(keep));
}

}  // namespace nova
