#include "ltc/fsck/range_check.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "coordinator/znodes.h"
#include "ltc/engine/manifest.h"
#include "ltc/fsck/log_check.h"
#include "ltc/fsck/table_copy_check.h"

namespace nova {
namespace {

class RangeLooker {
 public:
  RangeLooker(StocReader* stocs, RangeRecord record, const std::set<Incarnation>& registered,
              const LookScope& scope)
      : stocs_(stocs),
        record_(std::move(record)),
        served_(record_.state == RangeState::kOpen && !record_.released &&
                registered.contains(record_.owner_incarnation)),
        scope_(scope) {}

  RangeLook Run() && {
    look_.counts.ranges = 1;
    const bool whole = ReadManifest();
    ListFiles();  // each StoC was asked something from here on
    LookAtGroups();
    if (whole) {
      look_.has_version = true;
      LookAtTables();
      if (!scope_.quick) LookAtLogs();
      LookForOrphans();
    }
    TellOfSilent();
    return std::move(look_);
  }

 private:
  // What one StoC has of the range.
  using Listing = std::map<StocFileId, FileSummary>;

  Finding::Key Find(FindingKind kind, StocId stoc, const StocFileId& file, std::string text,
                    uint64_t number = 0) {
    look_.findings.push_back({kind, record_.id, stoc, file, number, std::move(text)});
    return look_.findings.back().key();
  }
  // The StoC does not answer: a copy on it is not good.
  Finding::Key Silent(StocId stoc) {
    ++silent_[stoc];
    return {FindingKind::kStocSilent, record_.id, stoc, {}, 0};
  }
  void Count(CopyKind kind, size_t named, std::vector<Finding::Key> bad, const StocFileId& file = {}) {
    const auto copies = static_cast<uint32_t>(named);
    if (!bad.empty()) return look_.in_question.push_back({kind, copies, std::move(bad), file});
    (kind == CopyKind::kLogGroup   ? look_.counts.log_groups
     : kind == CopyKind::kManifest ? look_.counts.manifests
                                   : look_.counts.table_parts)
        .Add(copies, copies);
  }

  // --- log groups

  void LookAtGroups() {
    for (const LogGroup& group : record_.log_groups) {
      std::vector<Finding::Key> bad;
      for (const LogMember& m : group.members) {
        const CheckedStoc* const stoc = stocs_->Find(m.stoc);
        if (stoc != nullptr && stoc->Holds(group, m)) continue;
        bad.push_back(Find(FindingKind::kLogMember, m.stoc, {},
                           StrCat("log group ", group.id.value(), " lists it, and it ",
                                  stoc == nullptr ? "is not there" : "was started anew since"),
                           group.id.value()));
      }
      Count(CopyKind::kLogGroup, group.members.size(), std::move(bad));
    }
  }

  // --- the manifest (M1)

  StocFileId ManifestFile() const { return {record_.manifest.file, 0}; }

  // The edits of one copy; none: it is not whole.
  std::optional<std::vector<VersionEdit>> EditsOf(const Manifest::Copy& copy) const {
    auto edits = Manifest::Recover(record_.manifest.file, {copy});
    return edits.ok() ? std::optional(*std::move(edits)) : std::nullopt;
  }
  StatusOr<Manifest::Copy> ReadCopy(StocId stoc) {
    NOVA_ASSIGN_OR_RETURN(std::string bytes, stocs_->ReadAll(stoc, ManifestFile()));
    return Manifest::Copy{StrCat("stoc ", stoc.value()), std::move(bytes)};
  }

  // False: there is no version to go on with.
  bool ReadManifest() {
    const std::vector<StocId>& members = record_.manifest.members;
    if (members.empty()) return true;  // never opened
    std::vector<Finding::Key> bad;
    std::vector<Manifest::Copy> copies;
    std::map<StocId, size_t> edits;  // in each copy that is whole
    for (const StocId stoc : members) {
      auto copy = ReadCopy(stoc);
      if (!copy.ok()) {
        bad.push_back(NoCopy(stoc, copy.status()));
        continue;
      }
      copies.push_back(*std::move(copy));
      if (const auto of_this = EditsOf(copies.back())) {
        edits[stoc] = of_this->size();
      } else {
        bad.push_back(Find(FindingKind::kManifestCopy, stoc, ManifestFile(), "it is damaged"));
      }
    }
    const Status made = MakeVersion(copies);
    for (const auto& [stoc, count] : edits) {
      if (auto behind = LooksBehind(stoc, count)) bad.push_back(*behind);
    }
    if (!made.ok()) {
      Find(FindingKind::kManifest, {}, ManifestFile(), std::string(made.message()));
      while (bad.size() < members.size()) bad.push_back(look_.findings.back().key());
    }
    Count(CopyKind::kManifest, members.size(), std::move(bad));
    return made.ok();
  }

  Finding::Key NoCopy(StocId stoc, const Status& why) {
    if (absl::IsNotFound(why))
      return Find(FindingKind::kManifestCopy, stoc, ManifestFile(), "it is not there");
    if (absl::IsDataLoss(why))
      return Find(FindingKind::kManifestCopy, stoc, ManifestFile(), std::string(why.message()));
    return Silent(stoc);
  }

  Status MakeVersion(const std::vector<Manifest::Copy>& copies) {
    if (copies.empty()) return absl::DataLossError("no copy of the manifest can be read");
    NOVA_ASSIGN_OR_RETURN(edits_, Manifest::Recover(record_.manifest.file, copies));
    auto version = std::make_shared<const Version>();
    for (const VersionEdit& edit : edits_) {
      NOVA_ASSIGN_OR_RETURN(version, version->Apply(edit, [](const TableInfo&) {}));
    }
    version_ = std::move(version);
    return OkStatus();
  }

  // An edit is sent when all members have the one before (M1), so that of two copies that are read at one
  // moment the shorter one lacks the newest edit at most. That one is acknowledged to nobody, and may stay in
  // doubt for as long as a disk hangs, also where its range is served: it is no finding. A copy that was read
  // before the longest one is read again.
  std::optional<Finding::Key> LooksBehind(StocId stoc, size_t count) {
    if (count + 1 >= edits_.size()) return std::nullopt;
    if (const auto again = ReadCopy(stoc); again.ok()) {
      const auto now = EditsOf(*again);
      if (now && now->size() + 1 >= edits_.size()) return std::nullopt;
    }
    return Find(FindingKind::kManifestCopy, stoc, ManifestFile(),
                StrCat("it ends after ", count, " of ", edits_.size(), " edits"));
  }

  // --- lists of files

  void ListFiles() {
    for (const CheckedStoc* stoc : stocs_->all()) {
      auto files = stocs_->List(stoc->id(), record_.id);
      if (!files.ok()) continue;
      Listing& listing = listings_[stoc->id()];
      for (FileSummary& f : *files) listing.emplace(f.file, f);
    }
    if (!version_) return;
    for (const StocId stoc : record_.manifest.members) {
      const auto listing = listings_.find(stoc);
      if (listing == listings_.end() || listing->second.contains(ManifestFile())) continue;
      if (stocs_->Read(stoc, ManifestFile(), 0, 1).ok())
        Find(FindingKind::kReference, stoc, ManifestFile(), "the StoC does not count it among the range's");
    }
  }

  // --- tables

  void LookAtTables() {
    if (!version_) return;
    version_->ForEachTableOnce([this](const TableInfo& table) {
      ++look_.counts.tables;
      TableCopyCheck check(stocs_, table);
      ForEachPart(table, [&](uint32_t part) {
        const std::vector<StocId>& stocs = *CopiesOf(table, part);
        std::vector<Finding::Key> bad;
        for (const StocId stoc : stocs) {
          named_[{table.uuid, part}].insert(stoc);
          if (const auto wrong = LookAtPart(table, part, stoc, &check)) bad.push_back(*wrong);
        }
        Count(CopyKind::kTablePart, stocs.size(), std::move(bad), {table.uuid, part});
      });
      look_.counts.blocks += check.blocks();
    });
  }

  std::optional<Finding::Key> LookAtPart(const TableInfo& table, uint32_t part, StocId stoc,
                                         TableCopyCheck* check) {
    const StocFileId file{table.uuid, part};
    const auto listing = listings_.find(stoc);
    const bool to_read =
        !scope_.quick && (scope_.again == nullptr ||
                          scope_.again->contains({FindingKind::kTableDamaged, record_.id, stoc, file, 0}) ||
                          (scope_.unread != nullptr && scope_.unread->contains({stoc, file})));
    if (listing == listings_.end() || stocs_->Find(stoc) == nullptr) return Silent(stoc, file, to_read);
    const auto there = listing->second.find(file);
    if (there == listing->second.end()) {
      const Status s = stocs_->Read(stoc, file, 0, 1).status();
      if (!s.ok()) return WrongPart(stoc, file, s, to_read);
      return Find(FindingKind::kReference, stoc, file, "the StoC does not count it among the range's");
    }
    if (there->second.size != PartBytes(table, part)) {
      return WrongPart(stoc, file,
                       absl::DataLossError(StrCat("it has ", there->second.size, " bytes instead of ",
                                                  PartBytes(table, part))),
                       to_read);
    }
    if (!to_read) return std::nullopt;
    const Status s = check->Check(part, stoc);
    return s.ok() ? std::nullopt : std::optional(WrongPart(stoc, file, s, to_read));
  }

  Finding::Key WrongPart(StocId stoc, const StocFileId& file, const Status& why, bool to_read) {
    if (absl::IsNotFound(why)) return Find(FindingKind::kTableMissing, stoc, file, "it is not there");
    if (absl::IsDataLoss(why))
      return Find(FindingKind::kTableDamaged, stoc, file, std::string(why.message()));
    return Silent(stoc, file, to_read);
  }
  Finding::Key Silent(StocId stoc, const StocFileId& file, bool to_read) {
    if (to_read) look_.unread.insert({stoc, file});
    return Silent(stoc);
  }

  // --- logs in files

  // A file without a job that is neither the manifest nor a table's: a log, or what an earlier manifest left,
  // which has no record of a log.
  bool MayBeLog(const FileSummary& f) const {
    return f.creator.job == 0 && f.file.part == 0 && f.file != ManifestFile() && !named_.contains(f.file);
  }

  // Of a range that is open: while one is being opened its next owner reads its logs.
  void LookAtLogs() {
    const bool in_files = std::any_of(record_.log_groups.begin(), record_.log_groups.end(),
                                      [](const LogGroup& g) { return HasFiles(g.media); });
    if (!in_files || record_.state != RangeState::kOpen) return;
    std::map<Uuid, std::vector<StocId>> logs;
    for (const auto& [stoc, listing] : listings_) {
      for (const auto& [file, summary] : listing) {
        if (MayBeLog(summary)) logs[file.owner].push_back(stoc);
      }
    }
    const DoneMemTables done(edits_);
    for (const auto& [log, stocs] : logs) {
      for (const LogCopyLacking& l : CheckLog(stocs_, record_, log, stocs, done))
        Find(FindingKind::kLogCopy, l.stoc, {log, 0}, l.why);
    }
  }

  // --- what nothing names (collection, N4)

  void LookForOrphans() {
    for (const auto& [stoc, listing] : listings_) {
      for (const auto& [file, summary] : listing) {
        const auto named = named_.find(file);
        const bool is_named =
            file == ManifestFile() || (named != named_.end() && named->second.contains(stoc));
        // Of a later epoch: the record is not what it was. Without a job: a log in use, or the next epoch's.
        const Creator& creator = summary.creator;
        if (is_named || creator.epoch > record_.epoch || (creator.job == 0 && !IsPast(creator))) continue;
        if (served_) {
          Find(FindingKind::kOrphan, stoc, file,
               StrCat("nothing names it: ", summary.size, " bytes, of epoch ", creator.epoch.value(),
                      ", job ", creator.job),
               record_.epoch.value());
        } else {
          ++look_.counts.left_over;
          look_.counts.left_over_bytes += summary.size;
        }
      }
    }
  }

  // Made by an owner before the one that the record names. While a range is opened its logs are still needed.
  bool IsPast(const Creator& creator) const {
    return creator.epoch < record_.epoch && record_.state == RangeState::kOpen;
  }

  void TellOfSilent() {
    for (const auto& [stoc, copies] : silent_) {
      look_.findings.push_back({FindingKind::kStocSilent,
                                record_.id,
                                stoc,
                                {},
                                0,
                                StrCat("it cannot be asked, and ", copies, " copies are named there")});
    }
  }

  StocReader* const stocs_;
  const RangeRecord record_;
  const bool served_;  // its owner is there, and collects what nothing names
  const LookScope scope_;
  RangeLook look_;
  std::vector<VersionEdit> edits_;
  std::shared_ptr<const Version> version_;  // null: the range was never opened, or cannot be
  std::map<StocId, Listing> listings_;      // of StoCs that answered
  std::map<StocFileId, std::set<StocId>> named_;
  std::map<StocId, uint64_t> silent_;  // and how many copies are named there
};

}  // namespace

StatusOr<RangeLook> LookAtRange(ConfigStore* store, StocReader* stocs, RangeId range,
                                const std::set<Incarnation>& registered, const LookScope& scope) {
  auto node = store->Get(RangePath(range));
  if (absl::IsNotFound(node.status()))
    return absl::NotFoundError(StrCat("there is no range ", range.value()));
  NOVA_RETURN_IF_ERROR(node.status());
  auto record = RangeRecord::Decode(node->data, node->version);
  if (record.ok()) return RangeLooker(stocs, *std::move(record), registered, scope).Run();
  RangeLook look;
  look.counts.ranges = 1;
  look.findings.push_back({FindingKind::kRecord, range, {}, {}, 0, std::string(record.status().message())});
  return look;
}

}  // namespace nova
