#include "ltc/fsck/log_check.h"

#include <algorithm>
#include <map>
#include <optional>

namespace nova {
namespace {

class LogCheck {
 public:
  LogCheck(StocReader* stocs, const RangeRecord& record, const Uuid& log, const MemTableDone& done)
      : stocs_(stocs), record_(record), log_(log), done_(done), all_(log, done) {}

  std::vector<LogCopyLacking> Run(const std::vector<StocId>& there) {
    for (const StocId stoc : there) Add(stoc);
    if (!all_.needed()) return {};
    std::optional<std::vector<LogCopyLacking>> best;
    for (const LogGroup& group : record_.log_groups) {
      if (!HasFiles(group.media) || !AnyHas(group)) continue;
      std::vector<LogCopyLacking> lacking = LackingOf(group);
      if (!best || lacking.size() < best->size()) best = std::move(lacking);
    }
    return best.value_or(std::vector<LogCopyLacking>());
  }

 private:
  // Adds the copy to all_; one that is gone, or whose StoC does not answer, is none.
  void Add(StocId stoc) {
    auto bytes = stocs_->ReadAll(stoc, {log_, 0});
    if (bytes.ok()) {
      all_.Add(LogCopies::Keeps::kSynced, {{StrCat("stoc ", stoc.value()), *std::move(bytes)}});
      const LogCopies::Held held = all_.held().back();
      prefixes_[stoc] = held.prefix;
      synced_ = std::max(synced_, held.mark);
    } else if (absl::IsDataLoss(bytes.status())) {
      unreadable_[stoc] = std::string(bytes.status().message());
    }
  }

  bool AnyHas(const LogGroup& group) const {
    return std::any_of(group.members.begin(), group.members.end(), [this](const LogMember& m) {
      return prefixes_.contains(m.stoc) || unreadable_.contains(m.stoc);
    });
  }

  // Members that hold the group, answer, and whose copy is not whole. (Others are findings of the group's.)
  std::vector<LogCopyLacking> LackingOf(const LogGroup& group) {
    std::vector<LogCopyLacking> lacking;
    for (const LogMember& m : group.members) {
      const CheckedStoc* const stoc = stocs_->Find(m.stoc);
      if (stoc == nullptr || !stoc->Holds(group, m) || m.store.IsNil()) continue;
      if (const auto bad = unreadable_.find(m.stoc); bad != unreadable_.end()) {
        lacking.push_back({m.stoc, StrCat("its file cannot be read: ", bad->second)});
      } else if (const auto prefix = prefixes_.find(m.stoc);
                 prefix == prefixes_.end() || (prefix->second < synced_ && PrefixNow(m.stoc) < synced_)) {
        if (synced_ == 0) continue;
        lacking.push_back(
            {m.stoc, prefix == prefixes_.end()
                         ? StrCat("it has no file, and ", synced_, " records are synced everywhere")
                         : StrCat("its file is whole up to record ", prefix->second, " of ", synced_,
                                  " that are synced everywhere")});
      }
    }
    return lacking;
  }

  // Read anew: when the copy was read before, it may not have been as far as what another one said later.
  uint64_t PrefixNow(StocId stoc) {
    auto bytes = stocs_->ReadAll(stoc, {log_, 0});
    if (!bytes.ok()) return 0;
    LogCopies copy(log_, done_);
    copy.Add(LogCopies::Keeps::kSynced, {{"", *std::move(bytes)}});
    return copy.held().back().prefix;
  }

  StocReader* const stocs_;
  const RangeRecord& record_;
  const Uuid log_;
  const MemTableDone& done_;
  LogCopies all_;
  std::map<StocId, uint64_t> prefixes_;  // of copies that were read: whole up to that record
  std::map<StocId, std::string> unreadable_;
  uint64_t synced_ = 0;  // up to that record, in each file: some copy says so
};

}  // namespace

std::vector<LogCopyLacking> CheckLog(StocReader* stocs, const RangeRecord& record, const Uuid& log,
                                     const std::vector<StocId>& there, const MemTableDone& done) {
  return LogCheck(stocs, record, log, done).Run(there);
}

}  // namespace nova
