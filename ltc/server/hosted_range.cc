#include "ltc/server/hosted_range.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kGroupRetry = 50 * kMillisecond;  // while a log group cannot be replaced
constexpr Nanos kReadOfCopy = 5 * kSecond;        // of a manifest, before it counts as unread
// a member that failed, and still has a lease then, may be taken again
constexpr Nanos kForgiveAfter = 5 * kSecond;

// How many of the members are on living StoCs of which `what` is true.
size_t CountOn(const std::vector<StocId>& members, const std::vector<NodeInfo>& live, bool NodeInfo::*what) {
  return static_cast<size_t>(std::count_if(live.begin(), live.end(), [&](const NodeInfo& n) {
    return n.*what && std::find(members.begin(), members.end(), n.stoc_id) != members.end();
  }));
}

std::vector<StocId> StocsOf(const LogGroup& group) {
  std::vector<StocId> stocs;
  for (const LogMember& m : group.members) stocs.push_back(m.stoc);
  return stocs;
}

}  // namespace

// --- opening

HostedRange::HostedRange(const HostServices* services, const HostedRangeOptions& options,
                         const RangeAssignment& assignment, const LtcSettings& settings)
    : id_(assignment.record.id),
      epoch_(assignment.record.epoch),
      services_(services),
      options_(options),
      old_lease_ends_ns_(assignment.old_lease_ends_ns),
      backend_(std::make_shared<StocBackend>(services, options, assignment, settings)),
      groups_(services, &options_, backend_.get(), id_) {}

HostedRange::~HostedRange() = default;

RangeOptions HostedRange::OptionsWith(const LtcSettings& settings) const {
  RangeOptions options = options_.range;
  options.compaction.dranges = settings.dranges.value_or(options.compaction.dranges);
  options.active_memtables = settings.active_memtables.value_or(options.active_memtables);
  return options;
}

void HostedRange::Configure(const LtcSettings& settings) {
  backend_->Configure(settings, [&] {
    const RangeOptions options = OptionsWith(settings);
    range_->Configure(options.compaction.dranges, options.active_memtables);
    NOVA_LOG(INFO) << "range " << id_.value() << ": set for all LTCs: " << settings.ToString();
  });
}

RangeRecord HostedRange::record() const { return backend_->keeper.Get(); }

// An acknowledged edit is on every member (manifest, M1), so any fenced one would do; but where the record of
// one copy is damaged, another copy has it: so all that answer are read. The silent are waited for only where
// what the others have is not enough.
StatusOr<std::vector<VersionEdit>> HostedRange::ReadManifest(const RangeRecord& record,
                                                             const RangeFences& fences, Nanos deadline_ns) {
  const std::vector<StocId>& group = record.manifest.members;
  if (group.empty()) return std::vector<VersionEdit>{};  // never opened before
  const auto any_of = [&group](const auto& stocs) {
    return std::any_of(group.begin(), group.end(), [&stocs](StocId stoc) { return stocs.contains(stoc); });
  };
  std::vector<Manifest::Copy> copies;
  std::map<StocId, std::string> unread;  // and why
  for (const StocId stoc : group) unread[stoc] = "does not answer";
  std::set<StocId> asked;
  auto members =
      fences.WaitForMost([&](const RangeFences::Members& m) { return any_of(m.fenced); }, deadline_ns);
  const Nanos until = std::min(deadline_ns, Now() + RangeFences::kWaitForCopies);
  Status failed;
  for (;;) {
    NOVA_RETURN_IF_ERROR(members.lost);
    for (const StocId stoc : group) {
      if (!members.fenced.contains(stoc) || !asked.insert(stoc).second) continue;
      auto bytes = services_->stocs->ReadFileBlocking(stoc, {record.manifest.file, 0}, 0, UINT64_MAX,
                                                      std::min(deadline_ns, Now() + kReadOfCopy));
      if (bytes.ok()) {
        copies.push_back({NameOf(stoc), *std::move(bytes)});
        unread.erase(stoc);
      } else {
        unread[stoc] = std::string(bytes.status().message());
      }
    }
    if (!copies.empty()) {
      auto edits = Manifest::Recover(record.manifest.file, copies);
      if (edits.ok()) return edits;
      failed = edits.status();
    }
    const size_t known = members.fenced.size();
    members = fences.WaitUntil(
        [&](const RangeFences::Members& m) {
          const bool more = any_of(m.silent) || (!copies.empty() && any_of(m.failed));
          return m.fenced.size() > known || !m.lost.ok() || !more;
        },
        until);
    if (members.fenced.size() == known && members.lost.ok()) break;
  }
  const std::string why = absl::StrJoin(unread, "; ", [this](std::string* out, const auto& u) {
    absl::StrAppend(out, NameOf(u.first), ": ", u.second);
  });
  const std::string which = StrCat("range ", id_.value());
  if (copies.empty()) {
    return absl::UnavailableError(
        StrCat(which, ": no copy of manifest ", record.manifest.file.ToString(), ": ", why));
  }
  return Annotate(failed, why.empty() ? which : StrCat(which, " (not read: ", why, ")"));
}

std::string HostedRange::NameOf(StocId stoc) const {
  const auto node = services_->stocs->Find(stoc);
  return StrCat("stoc ", stoc.value(), node ? StrCat(" (", node->name, ")") : "");
}

Status HostedRange::Open() {
  const Nanos started = Now();
  const Nanos deadline = started + 60 * kSecond;
  const RangeRecord record = backend_->keeper.Get();
  const std::shared_ptr<RangeFences> fences = RangeFences::Start(services_->stocs, record);  // fence (R2)
  NOVA_ASSIGN_OR_RETURN(const auto edits, ReadManifest(record, *fences, deadline));
  NOVA_ASSIGN_OR_RETURN(
      // Read (R3)
      auto recovered,
      RecoverLogs(services_->stocs, record, *fences, DoneMemTables(edits), deadline, options_.off));
  const auto abandoned = [this]() -> Status {
    return abandoned_.load() ? absl::FailedPreconditionError("excluded while opening") : OkStatus();
  };
  NOVA_RETURN_IF_ERROR(abandoned());
  const size_t records = recovered.size();
  backend_->Avoid(fences->WaitUntil([](const auto&) { return true; }, 0).silent);
  NOVA_ASSIGN_OR_RETURN(
      range_, Range::Recover({id_, epoch_, record.lower, record.upper}, OptionsWith(backend_->settings()),
                             &backend_->range_services, backend_.get(), edits, std::move(recovered),
                             backend_));  // shown stays (R4)
  NOVA_FP_VOID("ltc.range_recovered");
  NOVA_RETURN_IF_ERROR(abandoned());
  LogGroup group;
  if (options_.log_mode != LogMode::kNone) {
    NOVA_ASSIGN_OR_RETURN(
        group, groups_.PickAnsweringGroup({}, LogMember{}, GroupId(record.last_group.value() + 1)));
  }
  if (!options_.off.r5_wait) SleepUntil(old_lease_ends_ns_);  // wait (R5)
  NOVA_RETURN_IF_ERROR(abandoned());
  backend_->Avoid({});
  NOVA_RETURN_IF_ERROR(backend_->keeper.Update([&](RangeRecord* r) {
    r->state = RangeState::kOpen;
    r->released = false;
    r->manifest = range_->versions().manifest_group();
    r->log_groups.clear();
    if (!group.members.empty()) {
      r->log_groups.push_back(group);
      r->last_group = group.id;
    }
    return OkStatus();
  }));
  NOVA_FP_VOID("ltc.range_opened");
  std::unique_ptr<RangeLog> log;
  if (options_.log_mode == LogMode::kNone) {
    log = NewNullLog();
  } else {
    auto replicated = services_->logs->Open(
        id_, epoch_, group, [weak = weak_from_this()](const LogGroup& current, StocId failed, auto answer) {
          const auto self = weak.lock();
          if (self == nullptr) return answer(absl::FailedPreconditionError("the range was closed"));
          self->services_->run_change(
              [self, current, failed, answer] { self->ChangeLogGroup(current, failed, Now(), answer); });
        });
    log_ = replicated.get();
    log = std::move(replicated);
  }
  range_->Activate(std::move(log));
  opened_.store(true);
  if (abandoned_.load()) range_->Abandon();
  NOVA_LOG(INFO) << "range " << id_.value() << " open at epoch " << epoch_.value() << ": " << edits.size()
                 << " edits, " << records << " log records, " << range_->stats().tables << " tables, "
                 << (Now() - started) / kMillisecond << " ms";
  // Free (R6): nothing reads the old epoch's logs and manifest any more.
  std::set<StocId> members(record.manifest.members.begin(), record.manifest.members.end());
  for (const LogGroup& g : record.log_groups) {
    for (const LogMember& m : g.members) members.insert(m.stoc);
  }
  services_->run_control([self = shared_from_this(), members, old = record.manifest] {
    for (const StocId stoc : members) {
      self->services_->stocs
          ->FreeFenced(stoc, self->id_, self->epoch_, Now() + self->options_.request_deadline_ns)
          .IgnoreError();
    }
    if (!old.members.empty()) self->backend_->Delete(old);
  });
  return OkStatus();
}

void HostedRange::Abandon() {
  abandoned_.store(true);
  if (opened_.load()) range_->Abandon();
}

Status HostedRange::GiveBack() {
  NOVA_CHECK(abandoned_.load()) << "a range is given back while it is served";
  const std::shared_ptr<NodeSession> session = services_->session();
  if (session == nullptr) return absl::UnavailableError("no session with the cluster");
  NOVA_ASSIGN_OR_RETURN(RangeRecord record, session->ReadRange(id_));
  const bool ours = record.epoch == epoch_ && record.owner == session->self().name &&
                    record.owner_incarnation == session->self().incarnation;
  if (!ours || record.state != RangeState::kOpen) return OkStatus();
  record.state = RangeState::kSealing;
  record.owner.clear();
  record.owner_incarnation = Incarnation();
  return session->UpdateRange(record).status();
}

Status HostedRange::Release(Nanos deadline_ns) {
  if (releasing_.exchange(true)) return absl::UnavailableError("it is being released already");
  Status s;
  if (!released_.load()) s = TryRelease(deadline_ns);
  if (s.ok()) released_.store(true);
  if (s.ok() || absl::IsFailedPrecondition(s)) Abandon();
  releasing_.store(false);
  return s;
}

// FailedPrecondition: the range is lost, or may be. Any other error: it is served as before.
Status HostedRange::TryRelease(Nanos deadline_ns) {
  // The range is dark until the store has answered, so nothing begins while it does not.
  NOVA_RETURN_IF_ERROR(StoreAnswers());
  NOVA_RETURN_IF_ERROR(FlushBeforeRelease(deadline_ns));
  if (!range_->BeginRelease()) return absl::UnavailableError("the range is not open, or is being restored");
  NOVA_FP_VOID("ltc.release_begun");
  Status s = range_->FlushAll(deadline_ns);
  NOVA_FP_VOID("ltc.release_flushed");
  if (s.ok()) s = StoreAnswers();
  if (!s.ok()) {
    range_->CancelRelease();
    return s;
  }
  // From the change of the record on there may be another owner, and newer writes.
  const auto stop_reads = [this] {
    if (!options_.off.r5_reads_end) range_->StopReads();
  };
  s = backend_->keeper.UpdateOrCancel(stop_reads, [](RangeRecord* r) {
    r->state = RangeState::kSealing;
    r->released = true;
    r->owner.clear();
    r->owner_incarnation = Incarnation();
    r->log_groups.clear();  // every memtable is in the tables
  });
  NOVA_FP_VOID("ltc.record_released");
  if (absl::IsCancelled(s)) range_->CancelRelease();
  return s.ok() || absl::IsCancelled(s) ? s : absl::FailedPreconditionError(s.message());
}

Status HostedRange::FlushBeforeRelease(Nanos deadline_ns) {
  const SequenceNumber upto = range_->BeginFlush();
  while (range_->active() && Now() < deadline_ns) {
    range_->SealUpTo(upto);
    if (range_->FlushedUpTo(upto)) return OkStatus();
    if (!range_->FlushOne()) SleepFor(5 * kMillisecond);
  }
  return absl::UnavailableError("what is in memory was not flushed in time");
}

Status HostedRange::StoreAnswers() const {
  const std::shared_ptr<NodeSession> session = services_->session();
  if (session == nullptr) return absl::UnavailableError("no session with the cluster");
  const Status s = session->ReadRange(id_).status();
  return s.ok() ? s : absl::UnavailableError(s.message());
}

// --- log groups (group change, L4)

void HostedRange::ChangeLogGroup(const LogGroup& current, StocId failed, Nanos asked_ns,
                                 const std::function<void(StatusOr<LogGroup>)>& answer) {
  if (abandoned_.load()) return answer(absl::FailedPreconditionError("the range was abandoned"));
  const std::vector<NodeInfo> live = services_->stocs->live();
  const bool may_leave = backend_->LiveStocs().size() >= groups_.LeastMembers();  // without the draining ones
  const bool leaves_emptied = backend_->BetterWithoutEmptied(
      CountOn(StocsOf(current), live, &NodeInfo::emptied), static_cast<size_t>(options_.log_replicas));
  // The member that failed may come back as another incarnation, or prove to live; then it is as good as any,
  // and where every StoC is needed the only one that will do.
  const bool forgiven = Now() > asked_ns + kForgiveAfter;
  LogMember without;
  std::vector<LogMember> keep;
  for (const LogMember& m : current.members) {
    const bool alive = std::any_of(live.begin(), live.end(), [&](const NodeInfo& n) {
      return n.stoc_id == m.stoc && n.incarnation == m.incarnation && !(n.draining && may_leave) &&
             !(n.emptied && leaves_emptied);
    });
    if (m.stoc == failed && !forgiven) {
      without = m;
    } else if (alive) {
      keep.push_back(m);
    }
  }
  LogGroup next;
  auto picked =
      groups_.PickAnsweringGroup(keep, without, GroupId(backend_->keeper.Get().last_group.value() + 1));
  Status s = picked.status();
  if (s.ok()) {
    next = *std::move(picked);
    s = backend_->keeper.Update([&](RangeRecord* r) {
      // A later group than the log's is one of an earlier try whose answer was lost: nothing was ever written
      // to it.
      std::erase_if(r->log_groups, [&](const LogGroup& g) { return g.id > current.id; });
      next.id = GroupId(r->last_group.value() + 1);
      r->log_groups.push_back(next);
      r->last_group = next.id;
      return OkStatus();
    });
  }
  if (s.ok()) return answer(next);
  if (absl::IsFailedPrecondition(s)) return answer(s);
  NOVA_LOG(WARNING) << "range " << id_.value() << ": log group not replaced yet: " << s;
  // Not by waiting here: other ranges' groups have to be replaced meanwhile.
  Executor* const on = services_->range.executors[0];
  on->Submit([self = shared_from_this(), on, current, failed, asked_ns, answer] {
    on->RunAt(Now() + kGroupRetry, [self, current, failed, asked_ns, answer] {
      self->services_->run_change([self, current, failed, asked_ns, answer] {
        self->ChangeLogGroup(current, failed, asked_ns, answer);
      });
    });
  });
}

void HostedRange::Maintain() {
  if (range_ == nullptr || !range_->active() || maintaining_.exchange(true)) return;
  const std::vector<GroupId> unused = log_ == nullptr ? std::vector<GroupId>() : log_->UnusedGroups();
  const RangeRecord record = backend_->keeper.Get();
  const auto listed = [&](GroupId id) {
    return std::any_of(record.log_groups.begin(), record.log_groups.end(),
                       [&](const LogGroup& g) { return g.id == id; });
  };
  Status s;
  if (std::any_of(unused.begin(), unused.end(), listed)) {
    s = backend_->keeper.Update([&](RangeRecord* r) {
      std::erase_if(r->log_groups, [&](const LogGroup& g) {
        return std::find(unused.begin(), unused.end(), g.id) != unused.end();
      });
      return OkStatus();
    });
    if (absl::IsFailedPrecondition(s)) range_->Abandon();
  }
  if (s.ok() && !unused.empty()) log_->ForgetGroups(unused);
  if (!record.log_groups.empty()) ReturnToR(record.log_groups.back());
  ReturnToM(record.manifest);
  LeaveStocs();
  LeaveDamaged(record.manifest);
  LookAtCopies();
  maintaining_.store(false);
}

TableCopies HostedRange::table_copies() const {
  const Rebuilder::Progress rebuild = range_->rebuilder().progress();
  MutexLock lock(&copies_mu_);
  TableCopies copies = table_copies_;
  copies.rebuild_bytes = rebuild.left;
  copies.rebuilt_bytes = rebuild.done;
  return copies;
}

void HostedRange::LookAtCopies() {
  const std::shared_ptr<const Version> version = range_->versions().current();
  StocStates stocs = backend_->StatesOfStocs();
  const bool as_before = version == looked_at_.version.lock() && stocs == looked_at_.stocs;
  if (as_before && range_->rebuilder().progress().left == 0) return;
  TableCopies counts;
  version->ForEachTableOnce([&](const TableInfo& table) {
    const uint32_t there = LivingCopies(table, stocs.live);
    counts.fewest = counts.tables == 0 ? there : std::min(counts.fewest, there);
    counts.degraded += there < static_cast<uint32_t>(options_.placement.replicas);
    ++counts.tables;
  });
  counts.stocs_version = stocs.version;
  range_->rebuilder().Look();
  looked_at_ = {version, std::move(stocs)};
  MutexLock lock(&copies_mu_);
  table_copies_ = counts;
}

void HostedRange::LeaveStocs() {
  std::vector<StocId> left = services_->stocs_told().lost;
  for (const NodeInfo& n : services_->stocs->live()) {
    if (n.IsLeft()) left.push_back(n.stoc_id);
  }
  range_->jobs().LeaveStocs(left);
  const RangeRecord record = backend_->keeper.Get();
  if (IsToLeave(record.manifest.members, options_.manifest_replicas, &manifest_leaving_))
    RenewManifest("leaves a StoC");
  if (record.log_groups.empty() || backend_->LiveStocs().size() < groups_.LeastMembers()) return;
  if (IsToLeave(StocsOf(record.log_groups.back()), options_.log_replicas, &log_leaving_))
    log_->RequestGroupChange();
}

bool HostedRange::IsToLeave(const std::vector<StocId>& members, int wanted, Growth* leaving) const {
  const std::vector<NodeInfo> live = services_->stocs->live();
  if (CountOn(members, live, &NodeInfo::draining) > 0) return true;
  const size_t emptied = CountOn(members, live, &NodeInfo::emptied);
  if (emptied == 0) {
    leaving->Whole(Now());
    return false;
  }
  return backend_->BetterWithoutEmptied(emptied, static_cast<size_t>(wanted)) && leaving->Due(Now());
}

bool HostedRange::Growth::Due(Nanos now) {
  if (now < next_ns) return false;
  next_ns = now + pause_ns;
  pause_ns = std::min(kLongestGrowthPause, 2 * pause_ns);
  return true;
}

void HostedRange::Growth::Whole(Nanos now) {
  if (now > next_ns + pause_ns) pause_ns = kFirstGrowthPause;
}

// Each attempt leaves a group in the record until a flush.
void HostedRange::ReturnToR(const LogGroup& current) {
  const Nanos now = Now();
  // Nobody writes to the log of an idle range, and so finds that a member is gone.
  if (groups_.MembersLeft(current) >= static_cast<size_t>(options_.log_replicas))
    return log_growth_.Whole(now);
  if (now < log_growth_.next_ns || !groups_.CanGrow(current) || !log_growth_.Due(now)) return;
  log_->RequestGroupChange();
}

// M1 (renewal). A member that started again still has the file, for a StoC id is one store's: so a short
// absence is waited out, as long as L4 holds a failed member to be gone.
void HostedRange::ReturnToM(const ManifestGroup& current) {
  const Nanos now = Now();
  const std::vector<NodeInfo> live = services_->stocs->live();
  const auto lives = [&live](StocId stoc) {
    return std::any_of(live.begin(), live.end(), [stoc](const NodeInfo& n) { return n.stoc_id == stoc; });
  };
  const auto wanted = static_cast<size_t>(options_.manifest_replicas);
  const auto left = static_cast<size_t>(std::count_if(current.members.begin(), current.members.end(), lives));
  if (left >= wanted) {
    manifest_short_since_ns_ = 0;
    return manifest_growth_.Whole(now);
  }
  if (manifest_short_since_ns_ == 0) manifest_short_since_ns_ = now;
  const bool better = std::min(wanted, backend_->LiveStocs().size()) > left;
  if (!better || now < manifest_short_since_ns_ + kForgiveAfter || !manifest_growth_.Due(now)) return;
  RenewManifest("returns to more members");
}

void HostedRange::RenewManifest(const char* why) {
  const Status s = range_->versions().RenewManifest([this] {
    return backend_->MayInstall() ? StoreAnswers() : absl::UnavailableError("no lease: nobody answers");
  });
  if (s.ok()) {
    NOVA_LOG(INFO) << "range " << id_.value() << ": its manifest " << why << ": "
                   << range_->versions().manifest_group().members.size() << " of "
                   << options_.manifest_replicas;
  } else {
    NOVA_LOG(WARNING) << "range " << id_.value() << ": its manifest " << why << ", not yet: " << s;
  }
}

std::optional<size_t> HostedRange::Exposure() const {
  if (range_ == nullptr || !range_->active() || log_ == nullptr) return std::nullopt;
  const std::vector<ExposedRound> rounds = log_->ExposedRounds();
  return rounds.empty() ? std::nullopt : std::optional(rounds.front().live_members);
}

void HostedRange::FreeSpareLogs() {
  if (range_ != nullptr && range_->active() && log_ != nullptr) log_->FreeSpares();
}

std::optional<Nanos> HostedRange::LogsHeldSince() const {
  if (range_ == nullptr || !range_->active() || log_ == nullptr || log_->bytes_in_flight() > 0)
    return std::nullopt;
  const Nanos since = range_->view()->unflushed_since();
  return since == 0 ? std::nullopt : std::optional(since);
}

void HostedRange::CollectOrphans(uint64_t grace_ms) {
  if (range_ == nullptr || !range_->active()) return;
  // What only an edit in doubt names is no orphan yet, and an idle range would keep it for ever.
  if (const Status s = range_->versions().SettleDoubt(); !s.ok())
    NOVA_LOG(INFO) << "range " << id_.value() << ": edits stay in doubt: " << s;
  const NamedFiles tables = range_->versions().ReferencedFiles();
  for (const NodeInfo& n : services_->stocs->live()) {
    if (!range_->active()) return;
    Status s = CollectOrphansOf(n.stoc_id, tables, grace_ms);
    if (s.ok()) s = DropUnreadableOf(n);
    if (!s.ok())
      NOVA_LOG(INFO) << "range " << id_.value() << ": orphans on " << n.name
                     << " are not collected now: " << s;
  }
}

// A page at a time. What had ended before the page was asked for is referenced when it is here, or never will
// be: the order of the three steps is what makes it right. Which files are referenced then is asked only
// where there are some that were not before: it takes as long as the range has files.
Status HostedRange::CollectOrphansOf(StocId stoc, const NamedFiles& tables, uint64_t grace_ms) {
  Inventory expected{tables};
  expected.manifest = range_->versions().manifest_group(&expected.manifest_bytes);
  Listed listed;
  Status dropping;  // what cannot be dropped now is no reason not to look at the rest
  for (StocFileId after;;) {
    const uint64_t ended_below = range_->jobs().FirstUnfinished();
    const Nanos deadline = Now() + options_.request_deadline_ns;
    NOVA_ASSIGN_OR_RETURN(const auto page,
                          services_->stocs->ListFiles(stoc, id_, Epoch(epoch_.value() + 1), after, deadline));
    std::vector<StocFileId> orphans;
    for (const FileSummary& f : page) {
      // On an older copy of a disk, which has the same StoC id (range record, N3): as good as gone.
      const bool behind = f.file == StocFileId{expected.manifest.file, 0} && f.size < expected.manifest_bytes;
      if (!f.damaged) {
        if (!behind) listed.whole.insert(f.file);
      } else if (f.creator.epoch == epoch_ && f.creator.job == 0) {
        listed.damaged.insert(f.file);
      }
      const bool ours = f.creator.epoch == epoch_ && !options_.off.n4_jobs;
      const bool ended = ours ? f.creator.job > 0 && f.creator.job < ended_below : f.age_ms >= grace_ms;
      if (ended && (options_.off.n4_references || !tables.NamedOn(stoc, f.file))) orphans.push_back(f.file);
    }
    if (!orphans.empty() && !options_.off.n4_references) {
      const NamedFiles referenced = range_->versions().ReferencedFiles();
      std::erase_if(orphans, [&](const StocFileId& file) { return referenced.NamedOn(stoc, file); });
    }
    if (!orphans.empty() && dropping.ok()) {
      NOVA_LOG(INFO) << "range " << id_.value() << ": drops " << orphans.size() << " orphans on "
                     << NameOf(stoc);
      dropping =
          services_->stocs->DropReferences(stoc, id_, epoch_, orphans, Now() + options_.request_deadline_ns,
                                           options_.off.n4_jobs ? 0 : ended_below);
    }
    if (page.size() < kMaxListedFiles) break;
    after = page.back().file;
  }
  if (!options_.off.n4_lacks) TellMissing(stoc, expected, listed);
  return dropping;
}

Status HostedRange::DropUnreadableOf(const NodeInfo& stoc) {
  const Nanos deadline = Now() + options_.request_deadline_ns;
  NOVA_ASSIGN_OR_RETURN(const auto listed, services_->stocs->ListUnreadable(stoc.stoc_id, deadline));
  if (listed.empty()) return OkStatus();
  std::vector<StocFileId> needless =
      unreadable_.Settled(stoc.stoc_id, stoc.incarnation, listed, range_->jobs());
  const NamedFiles tables = range_->versions().ReferencedFiles();
  const std::set<Uuid> manifests{range_->versions().manifest_group().file,
                                 backend_->keeper.Get().manifest.file};
  const std::vector<Uuid> logs = log_ == nullptr ? std::vector<Uuid>() : log_->Logs();
  Listed bad_logs;
  for (const StocFileId& file : listed) {
    if (std::find(logs.begin(), logs.end(), file.owner) != logs.end()) bad_logs.damaged.insert(file);
  }
  TellMissing(stoc.stoc_id, {.tables = {}}, bad_logs);
  std::erase_if(needless, [&](const StocFileId& file) {
    return tables.NamedOn(stoc.stoc_id, file) || manifests.contains(file.owner) ||
           bad_logs.damaged.contains(file);
  });
  if (needless.empty()) return OkStatus();
  return services_->stocs->DropUnreadable(stoc.stoc_id, id_, epoch_, needless, deadline);
}

void HostedRange::TellMissing(StocId stoc, const Inventory& expected, const Listed& listed) {
  std::vector<StocFileId> missing;
  for (const auto& [file, stocs] : expected.tables.files()) {
    if (stocs.contains(stoc) && !listed.whole.contains(file)) missing.push_back(file);
  }
  std::set<Uuid> tables;
  if (!missing.empty()) {
    const NamedFiles still = range_->versions().ReferencedFiles();
    for (const StocFileId& file : missing) {
      if (still.NamedOn(stoc, file)) tables.insert(file.owner);
    }
  }
  if (!tables.empty()) {
    NOVA_LOG(WARNING) << "range " << id_.value() << ": " << NameOf(stoc) << " lacks parts of "
                      << tables.size() << " tables that it should have";
  }
  for (const Uuid& table : tables) services_->damaged(table);
  const std::vector<StocId>& members = expected.manifest.members;
  const StocFileId manifest{expected.manifest.file, 0};
  MutexLock lock(&copies_mu_);
  if (std::find(members.begin(), members.end(), stoc) != members.end() && !listed.whole.contains(manifest))
    damaged_.manifest = manifest.owner;
  for (const StocFileId& file : listed.damaged) {
    if (file == manifest || expected.tables.contains(file)) continue;
    if (!damaged_.logs.insert(file.owner).second) continue;
    NOVA_LOG(WARNING) << "range " << id_.value() << ": log " << file.owner.ToString() << " is damaged on "
                      << NameOf(stoc);
    damaged_.leave_log = true;
  }
}

void HostedRange::LeaveDamaged(const ManifestGroup& manifest) {
  Uuid bad;
  bool leave_log = false;
  {
    MutexLock lock(&copies_mu_);
    bad = std::exchange(damaged_.manifest, Uuid());
    leave_log = std::exchange(damaged_.leave_log, false);
  }
  if (!bad.IsNil() && bad == manifest.file) RenewManifest("leaves a copy that is damaged or gone");
  if (leave_log && log_ != nullptr) log_->RequestGroupChange();
}

}  // namespace nova
