#include "ltc/engine/level0_writer.h"

#include <string>
#include <utility>

#include "common/sstable/compaction_job.h"
#include "common/sstable/table_builder.h"

namespace nova {

StatusOr<VersionEdit> WriteLevel0(const RangeContext& context, TableAccess* tables, const Level0Run& run,
                                  OverwriteProbe* younger, const FlushProgress& progress) {
  constexpr uint64_t kProgressBytes = 256 << 10;
  const Creator creator{context.spec.id, context.spec.epoch, run.job};
  const DropRules& rules = *run.rules;
  const uint64_t table_bytes = context.options.compaction.table_size_bytes;
  Iterator* const sorted = run.sorted;
  VersionFilter filter(rules.snapshots, rules.floor, /*bottom=*/false, rules.now_ms, rules.tombstones);
  VersionEdit edit;
  std::unique_ptr<TableBuilder> builder;
  std::string last_key;
  const auto finish = [&]() -> Status {
    VersionEdit::Add add{0, run.order, {}, nullptr};
    TableBuilder::Output output = builder->Finish();
    if (rules.tombstones != nullptr) SetTombstonesApplied(rules.tombstones_applied, &output.info);
    NOVA_ASSIGN_OR_RETURN(add.table, tables->StoreTable(std::move(output), creator, &add.reader));
    edit.adds.push_back(std::move(add));
    builder = nullptr;
    return OkStatus();
  };
  const auto give_up = [&](const Status& s) {  // what is written is in no edit
    for (const VersionEdit::Add& add : edit.adds) context.services->garbage(add.table);
    return s;
  };
  uint64_t entries = 0, bytes = 0, kept_bytes = 0;  // not told of yet
  for (sorted->SeekToFirst(); sorted->Valid(); sorted->Next()) {
    const std::string_view internal_key = sorted->key(), value = sorted->value();
    ++entries;
    bytes += internal_key.size() + value.size();
    if (bytes >= kProgressBytes && progress) {
      progress(std::exchange(entries, 0), std::exchange(kept_bytes, 0));
      bytes = 0;
    }
    ParsedInternalKey key;
    if (!ParseInternalKey(internal_key, &key))
      return give_up(absl::InternalError("memtable holds a malformed key"));
    if (!filter.Keep(key, value) || younger->Replaces(key)) continue;
    kept_bytes += internal_key.size() + value.size();
    // Versions of one key stay in one table, so that tables of a run never overlap.
    if (builder != nullptr && builder->data_size() >= table_bytes && key.stored_key != last_key) {
      if (const Status s = finish(); !s.ok()) return give_up(s);
    }
    if (builder == nullptr) {
      const Uuid uuid = Uuid::Generate();
      builder = std::make_unique<TableBuilder>(tables->OptionsAt(0), uuid,
                                               context.services->store->StartTable(uuid));
      builder->Reserve(table_bytes);
    }
    builder->Add(internal_key, value);
    last_key.assign(key.stored_key);
  }
  Status s = sorted->state() == Iterator::State::kError ? sorted->status() : OkStatus();
  if (s.ok() && builder != nullptr) s = finish();
  if (!s.ok()) return give_up(s);
  if (entries > 0 && progress) progress(entries, kept_bytes);
  return edit;
}

}  // namespace nova
