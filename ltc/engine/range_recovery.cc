// Recovery of a Range: from the edits of its manifest and what its logs held (read, R3; shown stays, R4).
#include <algorithm>

#include "common/base/thread.h"
#include "ltc/engine/range.h"
#include "ltc/engine/recovered_entries.h"

namespace nova {

StatusOr<std::shared_ptr<Range>> Range::Recover(const RangeSpec& spec, const RangeOptions& options,
                                                const RangeServices* services, ManifestStorage* storage,
                                                const std::vector<VersionEdit>& edits, RecoveredLogs entries,
                                                std::shared_ptr<const void> keep) {
  auto version = std::make_shared<const Version>();
  SequenceNumber reserved = 0;
  int64_t now_ms = 0;
  uint64_t damaged_maps = 0;
  for (const VersionEdit& edit : edits) {
    damaged_maps += !edit.dranges.empty() && DrangeMap::Decode(edit.dranges) == nullptr;
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(edit, services->garbage));
    reserved = std::max(reserved, edit.seq_reserved);
    now_ms = std::max(now_ms, edit.now_ms);
  }
  if (options.compaction.dranges == 1 && version->dranges() != nullptr) version = version->WithoutDranges();
  const RecoveredEntries recovered(std::move(entries), DoneMemTables(edits));
  const SequenceNumber last = std::max(reserved, recovered.last());  // sequence numbers (K1)
  std::shared_ptr<Range> range(new Range(spec, options, services, storage, last, std::move(keep)));
  range->context_.self = range;
  range->points_.PublishNow(now_ms);
  range->load_.Start(version->dranges(), damaged_maps);
  if (!recovered.empty()) {
    VersionEdit deletes;
    NOVA_ASSIGN_OR_RETURN(deletes.tombstones, recovered.RangeDeletions());
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(deletes, services->garbage));
    const DropRules rules{{}, last, range->points_.NowMs(), version->tombstones(), last};
    NOVA_ASSIGN_OR_RETURN(const VersionEdit flushed, range->WriteRecovered(recovered, rules));
    NOVA_ASSIGN_OR_RETURN(version, version->Apply(flushed, services->garbage));
  }
  VersionEdit needless;
  needless.dropped_tombstones = version->NeedlessTombstones({});
  NOVA_ASSIGN_OR_RETURN(version, version->Apply(needless, services->garbage));
  NOVA_RETURN_IF_ERROR(range->versions_.Start(std::move(version), last));
  return range;
}

// As one run; where there are many, by several threads, each its part of the keys.
StatusOr<VersionEdit> Range::WriteRecovered(const RecoveredEntries& recovered, const DropRules& rules) {
  constexpr size_t kEntriesOfAThread = 50'000;
  constexpr size_t kMostThreads = 4;
  const size_t parts = std::clamp<size_t>(recovered.size() / kEntriesOfAThread, 1, kMostThreads);
  const JobBook::Job job(&jobs_);
  std::vector<StatusOr<VersionEdit>> written(parts, StatusOr<VersionEdit>(VersionEdit()));
  const DrangeMapRef map = load_.map();
  const auto write = [&](size_t part) {
    const auto sorted = recovered.NewIterator(part, parts);
    OverwriteProbe none;
    Level0Run run{job.id(), sorted.get(), recovered.first(), &rules};
    if (map != nullptr) run.cuts = map->cuts();
    written[part] = WriteLevel0(context_, &tables_, run, &none, {});
  };
  {
    std::vector<std::unique_ptr<Thread>> others;
    for (size_t part = 1; part < parts; ++part) {
      others.push_back(std::make_unique<Thread>("ltc.recovery", [&write, part] { write(part); }));
    }
    write(0);
  }
  Status s;
  VersionEdit all;
  for (const auto& edit : written) {
    if (!edit.ok()) s = edit.status();
    if (edit.ok()) all.adds.insert(all.adds.end(), edit->adds.begin(), edit->adds.end());
  }
  if (s.ok()) return all;
  for (const VersionEdit::Add& add : all.adds) context_.services->garbage(add.table);
  return s;
}

}  // namespace nova
