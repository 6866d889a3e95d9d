#include "coordinator/election.h"

#include <algorithm>

#include "coordinator/leader_channel.h"

namespace nova {
namespace {

constexpr int kSettleTries = 100;

// The store behind an address may be made anew, or be another one, whenever a session ends.
Status CheckCluster(ConfigStore* store, const Uuid& mine) {
  const StatusOr<Znode> node = store->Get(kClusterPath);
  const StatusOr<ClusterRecord> record = node.ok() ? ClusterRecord::Decode(node->data) : node.status();
  if (!record.ok()) return Annotate(record.status(), kClusterPath);
  if (record->uuid == mine) return OkStatus();
  return absl::FailedPreconditionError(StrCat("the store is of cluster ", record->uuid.ToString(),
                                              ", and this coordinator of ", mine.ToString()));
}

}  // namespace

StatusOr<Term> Election::Campaign(const std::shared_ptr<ConfigStore>& store) {
  const Status cluster = CheckCluster(store.get(), options_.cluster);
  const StatusOr<Znode> node = cluster.ok() ? store->Get(kCoordPath) : cluster;
  const StatusOr<CoordRecord> before = node.ok() ? CoordRecord::Decode(node->data) : node.status();
  const Status s = cluster.ok() ? Annotate(before.status(), kCoordPath) : cluster;
  {
    MutexLock lock(&mu_);
    const bool tells = absl::IsNotFound(s) || absl::IsDataLoss(s) || absl::IsFailedPrecondition(s);
    no_record_ = tells ? s : OkStatus();
  }
  NOVA_RETURN_IF_ERROR(s);
  return CampaignAfter(store, *before, node->version);
}

StatusOr<Term> Election::CampaignAfter(const std::shared_ptr<ConfigStore>& store, const CoordRecord& before,
                                       int64_t version) {
  CoordRecord mine;
  mine.coord_epoch = CoordEpoch(before.coord_epoch.value() + 1);
  mine.leader = options_.name;
  mine.address = options_.address;
  mine.max_lease_ns = std::max(before.max_lease_ns, options_.lease_ns);
  mine.nonce = Uuid::Generate();
  const Status s = store->Multi({ConfigOp::Create(kCoordLeaderPath, options_.name, true),
                                 ConfigOp::Set(kCoordPath, mine.Encode(), version)});
  if (s.ok()) return Term{store, mine.coord_epoch, version + 1, mine.max_lease_ns, mine.nonce};
  if (absl::IsUnknown(s)) return SettleElection(store, mine, version);
  if (!absl::IsAlreadyExists(s)) return s;
  NOVA_ASSIGN_OR_RETURN(const Znode leader, store->Get(kCoordLeaderPath));
  if (leader.mine) {  // left from a term of ours that ended in doubt
    NOVA_RETURN_IF_ERROR(
        store->Multi({ConfigOp::Check(kCoordPath, version), ConfigOp::Delete(kCoordLeaderPath)}));
    return absl::AbortedError("campaign again");
  }
  MutexLock lock(&mu_);
  leader_name_ = before.leader;
  leader_address_ = before.address == options_.address ? "" : before.address;
  return s;
}

StatusOr<Term> Election::SettleElection(const std::shared_ptr<ConfigStore>& store, const CoordRecord& mine,
                                        int64_t version_before) {
  for (int i = 0; i < kSettleTries; ++i) {
    const Status synced = store->Sync();
    const StatusOr<Znode> node = store->Get(kCoordPath);
    if (synced.ok() && node.ok()) {
      NOVA_ASSIGN_OR_RETURN(const CoordRecord now, CoordRecord::Decode(node->data));
      if (node->version == version_before + 1 && now.nonce == mine.nonce) {
        return Term{store, mine.coord_epoch, node->version, mine.max_lease_ns, mine.nonce};
      }
      return absl::AbortedError("campaign again");
    }
    if (store->session_state() == SessionState::kExpired) break;
  }
  return absl::UnavailableError("the outcome of the election is not known");
}

// While /coord is as we left it nobody else has led, so the node is ours.
void Election::Vacate(ConfigStore* store) {
  if (store->session_state() != SessionState::kConnected) return;
  store->Multi({ConfigOp::Check(kCoordPath, LatestTerm().coord_version), ConfigOp::Delete(kCoordLeaderPath)})
      .IgnoreError();
}

void Election::DropStore() {
  MutexLock lock(&mu_);
  term_.store.reset();
}

void Election::Begin(const Term& term) {
  MutexLock lock(&mu_);
  term_ = term;
  leader_name_ = options_.name;
  leader_address_.clear();
}

void Election::Lead() {
  MutexLock lock(&mu_);
  leading_ = true;
}

void Election::StepDown() {
  MutexLock lock(&mu_);
  leading_ = false;
}

Status Election::ProveAuthority() {
  const Term term = LatestTerm();
  const StatusOr<Znode> node = term.store->Get(kCoordPath);
  if (!node.ok()) return OkStatus();
  if (node->version != term.coord_version) {
    const StatusOr<CoordRecord> record = CoordRecord::Decode(node->data);
    if (!record.ok() || record->nonce != term.nonce) return absl::AbortedError("another coordinator leads");
    MutexLock lock(&mu_);
    term_.coord_version = node->version;  // LowerLongestLease, its answer lost
    term_.max_lease_ns = record->max_lease_ns;
  }
  return OkStatus();
}

void Election::LowerLongestLease(Nanos ended_ns) {
  const Term term = LatestTerm();
  if (term.max_lease_ns <= options_.lease_ns || Now() < ended_ns) return;
  CoordRecord record;
  record.coord_epoch = term.coord_epoch;
  record.leader = options_.name;
  record.address = options_.address;
  record.max_lease_ns = options_.lease_ns;
  record.nonce = term.nonce;
  if (!term.store->Set(kCoordPath, record.Encode(), term.coord_version).ok()) return;
  MutexLock lock(&mu_);
  if (term_.coord_epoch != term.coord_epoch) return;
  term_.coord_version = term.coord_version + 1;
  term_.max_lease_ns = record.max_lease_ns;
}

Nanos Election::AuthorityUntilLocked() const {
  if (term_.store == nullptr) return 0;
  const Nanos timeout = term_.store->session_timeout_ns();
  return term_.store->last_answered_send_ns() + timeout -
         static_cast<Nanos>(static_cast<double>(timeout) * options_.clock_rate_error);
}

Status Election::CheckLeadingLocked() const {
  if (!leading_) return NotLeadingError(leader_address_);
  if (Now() >= AuthorityUntilLocked()) return NotLeadingError("");
  return OkStatus();
}

Nanos Election::AuthorityUntil() const {
  MutexLock lock(&mu_);
  return AuthorityUntilLocked();
}

StatusOr<Nanos> Election::AuthorityIn(CoordEpoch term) const {
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
  if (term_.coord_epoch != term) return NotLeadingError("");
  return AuthorityUntilLocked();
}

Status Election::CheckLeading() const {
  MutexLock lock(&mu_);
  return CheckLeadingLocked();
}

StatusOr<Term> Election::CurrentTerm() const {
  MutexLock lock(&mu_);
  NOVA_RETURN_IF_ERROR(CheckLeadingLocked());
  return term_;
}

bool Election::CarriesOut(CoordEpoch term, Term* out) const {
  MutexLock lock(&mu_);
  if (!leading_ || term_.coord_epoch != term) return false;
  *out = term_;
  return true;
}

Term Election::LatestTerm() const {
  MutexLock lock(&mu_);
  return term_;
}

std::string Election::WhyNone() const {
  MutexLock lock(&mu_);
  return no_record_.ok() ? "" : StrCat("no leader is known: ", no_record_.message());
}

std::string Election::LeaderText() const {
  MutexLock lock(&mu_);
  return leader_address_.empty() ? "no leader is known"
                                 : StrCat(leader_name_, " at ", leader_address_, " does");
}

}  // namespace nova
