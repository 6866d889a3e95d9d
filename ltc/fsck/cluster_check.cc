#include "ltc/fsck/cluster_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "coordinator/stoc_record.h"
#include "coordinator/znodes.h"
#include "ltc/fsck/range_check.h"

namespace nova {
namespace {

constexpr Nanos kLookAgain = 15 * kSecond;  // the longest pause between two looks

class ClusterCheck {
 public:
  ClusterCheck(ConfigStore* store, StocReader* stocs, const CheckOptions& options)
      : store_(store), stocs_(stocs), options_(options) {}

  StatusOr<CheckReport> Run() && {
    NOVA_RETURN_IF_ERROR(ReadCluster());
    NOVA_RETURN_IF_ERROR(FirstLooks());
    LookAtDirectories();
    NOVA_RETURN_IF_ERROR(LookAgain());
    CountWhatWasInQuestion();
    Finish();
    return std::move(report_);
  }

 private:
  // A finding that is to be found again.
  struct Pending {
    Finding finding;
    Nanos since_ns = 0;
  };

  Status ReadCluster() {
    const auto cluster = store_->Get(kClusterPath);
    if (absl::IsNotFound(cluster.status())) return absl::NotFoundError("there is no cluster");
    NOVA_RETURN_IF_ERROR(cluster.status());
    NOVA_RETURN_IF_ERROR(ClusterRecord::Decode(cluster->data).status());
    NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> ranges, NamesAt(kRangesPath));
    for (const std::string& name : ranges) {
      uint64_t id = 0;
      if (absl::SimpleAtoi(name, &id)) ranges_.insert(RangeId(id));
    }
    if (options_.range && !ranges_.contains(*options_.range))
      return absl::NotFoundError(StrCat("there is no range ", options_.range->value()));
    return ReadStocRecords();
  }

  // None where the folder is not there.
  StatusOr<std::vector<std::string>> NamesAt(const char* path) {
    auto names = store_->Children(path);
    return absl::IsNotFound(names.status()) ? std::vector<std::string>() : names;
  }

  Status ReadStocRecords() {
    NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesAt(kStocsPath));
    for (const std::string& name : names) {
      uint32_t id = 0;
      if (!absl::SimpleAtoi(name, &id)) continue;
      const auto node = store_->Get(StocPath(StocId(id)));
      if (absl::IsNotFound(node.status())) continue;
      NOVA_RETURN_IF_ERROR(node.status());
      const auto record = StocRecord::Decode(StocId(id), node->data, node->version);
      if (record.ok()) {
        report_.names[record->id] = record->name;
      } else {
        Counts({FindingKind::kRecord, {}, StocId(id), {}, 0, std::string(record.status().message())});
      }
    }
    return OkStatus();
  }

  // The nodes that are registered now; the StoCs among them are asked.
  Status BeginLook() {
    NOVA_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesAt(kNodesPath));
    std::vector<NodeInfo> nodes;
    ltcs_.clear();
    for (const std::string& name : names) {
      const auto node = store_->Get(NodePath(name));
      if (absl::IsNotFound(node.status())) continue;
      NOVA_RETURN_IF_ERROR(node.status());
      auto info = DecodeNodeInfo(node->data);
      if (!info.ok()) continue;  // the coordinators take no notice of it either
      if (info->role == Role::kLtc) ltcs_.insert(info->incarnation);
      nodes.push_back(*std::move(info));
    }
    alive_ = alive_ || !nodes.empty();
    stocs_->Begin(nodes);
    return OkStatus();
  }

  Status FirstLooks() {
    NOVA_RETURN_IF_ERROR(BeginLook());
    const LookScope scope{.quick = options_.quick};
    size_t seen = 0;
    for (const RangeId id : ranges_) {
      if (options_.range && id != *options_.range) continue;
      NOVA_ASSIGN_OR_RETURN(RangeLook look, LookAtRange(store_, stocs_, id, ltcs_, scope));
      Add(look.counts);
      for (Finding& f : look.findings) pending_[id].push_back({std::move(f), Now()});
      for (CopiesInQuestion& q : look.in_question) in_question_.push_back(std::move(q));
      unread_[id] = std::move(look.unread);
      if (!look.has_version) no_version_.insert(id);
      options_.say(StrCat("range ", id.value(), ", ", ++seen, " of ", options_.range ? 1 : ranges_.size(),
                          ": ", look.counts.tables, " tables, ", look.findings.size(), " findings so far"));
    }
    return OkStatus();
  }

  // Of a range whose manifest the first look could not read: all of its tables.
  void AddTables(const RangeLook& look) {
    CheckReport counts = look.counts;
    counts.ranges = 0;
    counts.log_groups = counts.manifests = {};
    Add(counts);
    for (const CopiesInQuestion& q : look.in_question) {
      if (q.kind == CopyKind::kTablePart) in_question_.push_back(q);
    }
  }

  // Of a copy that was counted as one that could not be read.
  void PutInQuestion(const Finding::Key& key) {
    for (CopiesInQuestion& q : in_question_) {
      if (q.kind == CopyKind::kTablePart && q.file == std::get<StocFileId>(key)) q.bad.push_back(key);
    }
  }

  void Add(const CheckReport& counts) {
    report_.ranges += counts.ranges;
    report_.tables += counts.tables;
    report_.blocks += counts.blocks;
    report_.left_over += counts.left_over;
    report_.left_over_bytes += counts.left_over_bytes;
    for (const auto of : {&CheckReport::log_groups, &CheckReport::manifests, &CheckReport::table_parts}) {
      CopiesFound& sum = report_.*of;
      const CopiesFound& more = counts.*of;
      sum.all += more.all;
      sum.copies += more.copies;
      sum.good += more.good;
      for (const auto& [good, things] : more.by_good) sum.by_good[good] += things;
    }
  }

  // What only a directory shows. It does not change.
  void LookAtDirectories() {
    std::set<std::pair<StocId, StocFileId>> told;
    for (const auto& [range, pending] : pending_) {
      for (const Pending& p : pending) told.insert({p.finding.stoc, p.finding.file});
    }
    for (CheckedStoc* const stoc : stocs_->all()) {
      for (CheckedStoc::Strange& s : stoc->StrangeFiles(ranges_)) {
        if (told.contains({stoc->id(), s.file})) continue;
        Counts({FindingKind::kUnreadableFile, s.range, stoc->id(), s.file, 0, s.name + ": " + s.why});
      }
    }
  }

  Nanos WaitOf(const Finding& f) const {
    if (!alive_) return 0;  // nothing changes by itself
    return f.kind == FindingKind::kOrphan ? options_.orphan_grace_ns : options_.settle_ns;
  }

  // Looks until each finding was found again when its time had come, or was not.
  Status LookAgain() {
    TakeDue(Now());
    while (!pending_.empty()) {
      Nanos due = kNever;
      size_t left = 0;
      for (const auto& [range, pending] : pending_) {
        left += pending.size();
        for (const Pending& p : pending) due = std::min(due, p.since_ns + WaitOf(p.finding));
      }
      options_.say(StrCat(left, " findings are looked at again, for up to ",
                          std::max<Nanos>(0, due - Now()) / kSecond, " s"));
      SleepUntil(std::min(due, Now() + kLookAgain));
      const Nanos began = Now();
      NOVA_RETURN_IF_ERROR(BeginLook());
      NOVA_RETURN_IF_ERROR(KeepWhatIsFoundAgain());
      TakeDue(began);
    }
    return OkStatus();
  }

  Status KeepWhatIsFoundAgain() {
    for (auto at = pending_.begin(); at != pending_.end();) {
      std::set<Finding::Key> before, now;
      for (const Pending& p : at->second) before.insert(p.finding.key());
      // What could not be read before, a copy or all of the range, is looked at for the first time now.
      const bool anew = no_version_.contains(at->first);
      std::set<CopyAt>& unread = unread_[at->first];
      const LookScope scope{.quick = options_.quick, .again = anew ? nullptr : &before, .unread = &unread};
      NOVA_ASSIGN_OR_RETURN(RangeLook look, LookAtRange(store_, stocs_, at->first, ltcs_, scope));
      for (const Finding& f : look.findings) now.insert(f.key());
      std::erase_if(at->second, [&now](const Pending& p) { return !now.contains(p.finding.key()); });
      for (Finding& f : look.findings) {
        const bool is_first = anew ? look.has_version : unread.contains({f.stoc, f.file});
        if (!is_first || before.contains(f.key()) || counted_.contains(f.key())) continue;
        if (!anew) PutInQuestion(f.key());
        at->second.push_back({std::move(f), Now()});
      }
      if (anew && look.has_version) {
        no_version_.erase(at->first);
        AddTables(look);
      }
      if (!anew && !unread.empty()) report_.blocks += look.counts.blocks;
      if (!anew || look.has_version) unread = std::move(look.unread);
      at = at->second.empty() ? pending_.erase(at) : std::next(at);
    }
    return OkStatus();
  }

  // What has waited long enough at `now`, when the latest look began, counts.
  void TakeDue(Nanos now) {
    for (auto at = pending_.begin(); at != pending_.end();) {
      for (Pending& p : at->second) {
        if (now - p.since_ns < WaitOf(p.finding)) continue;
        Counts(p.finding);
        p.finding.text.clear();
        p.since_ns = kNever;  // taken
      }
      std::erase_if(at->second, [](const Pending& p) { return p.since_ns == kNever; });
      at = at->second.empty() ? pending_.erase(at) : std::next(at);
    }
  }

  void Counts(Finding f) {
    if (!counted_.insert(f.key()).second) return;
    if (report_.findings.size() < options_.max_findings) {
      report_.findings.push_back(std::move(f));
    } else {
      ++report_.findings_left_out;
    }
  }

  void CountWhatWasInQuestion() {
    for (const CopiesInQuestion& q : in_question_) {
      std::set<StocId> bad_on;  // of one copy two findings may count
      for (const Finding::Key& key : q.bad) {
        if (counted_.contains(key)) bad_on.insert(std::get<StocId>(key));
      }
      const size_t bad = q.kind == CopyKind::kManifest ? CountedOf(q) : bad_on.size();
      CopiesFound& copies = q.kind == CopyKind::kLogGroup   ? report_.log_groups
                            : q.kind == CopyKind::kManifest ? report_.manifests
                                                            : report_.table_parts;
      copies.Add(q.named, q.named - std::min(q.named, static_cast<uint32_t>(bad)));
    }
  }

  // Of a manifest no copy of which is good, each copy has the one finding of the whole.
  size_t CountedOf(const CopiesInQuestion& q) const {
    return static_cast<size_t>(std::count_if(
        q.bad.begin(), q.bad.end(), [this](const Finding::Key& key) { return counted_.contains(key); }));
  }

  void Finish() {
    report_.bytes = stocs_->bytes_read();
    for (const CheckedStoc* const stoc : stocs_->all()) report_.names.emplace(stoc->id(), stoc->name());
    std::sort(report_.findings.begin(), report_.findings.end(),
              [](const Finding& a, const Finding& b) { return a.key() < b.key(); });
  }

  ConfigStore* const store_;
  StocReader* const stocs_;
  const CheckOptions options_;
  CheckReport report_;
  std::set<RangeId> ranges_;
  std::set<Incarnation> ltcs_;  // registered, as of the latest look
  bool alive_ = false;          // some node was registered at some look
  std::map<RangeId, std::vector<Pending>> pending_;
  std::vector<CopiesInQuestion> in_question_;
  std::map<RangeId, std::set<CopyAt>> unread_;  // copies, so far
  std::set<RangeId> no_version_;                // whose tables were not looked at so far
  std::set<Finding::Key> counted_;
};

}  // namespace

StatusOr<CheckReport> CheckCluster(ConfigStore* store, StocReader* stocs, const CheckOptions& options) {
  return ClusterCheck(store, stocs, options).Run();
}

}  // namespace nova
