#include "coordinator/range_movers.h"

#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kQueue = 4096;
constexpr int kSettleTries = 100;

}  // namespace

RangeMovers::RangeMovers(Election* election, ClusterMirror* mirror, ZnodeSession* session, Metrics* metrics)
    : election_(election),
      mirror_(mirror),
      session_(session),
      moves_(metrics->counter("nova_coordinator_range_moves_total")),
      failed_moves_(metrics->counter("nova_coordinator_range_moves_refused_total")),
      stoc_changes_(metrics->counter("nova_coordinator_stoc_changes_total")),
      queue_(kQueue) {}

void RangeMovers::Start(uint32_t threads) {
  for (uint32_t i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<Thread>(StrCat("coord.mover.", i), [this] {
      while (std::optional<Change> change = queue_.Pop()) CarryOut(*change);
    }));
  }
}

void RangeMovers::Stop() {
  queue_.Close();
  for (const auto& thread : threads_) thread->Join();
  threads_.clear();
}

bool RangeMovers::Add(CoordEpoch term, RangeMove move) {
  return queue_.TryPush(Change{term, std::move(move)});
}
bool RangeMovers::Add(CoordEpoch term, StocChange change) {
  return queue_.TryPush(Change{term, std::move(change)});
}

StatusOr<int64_t> RangeMovers::Replace(const Term& term, const std::string& path, const std::string& data,
                                       int64_t version) {
  const std::vector<ConfigOp> ops = {ConfigOp::Check(kCoordPath, term.coord_version),
                                     ConfigOp::Set(path, data, version)};
  for (int i = 0; i < kSettleTries; ++i) {
    const Status s = term.store->Multi(ops);
    if (s.ok()) return version + 1;
    if (!absl::IsUnknown(s)) return s;
    const Status synced = term.store->Sync();
    const StatusOr<Znode> node = term.store->Get(path);
    if (!synced.ok() || !node.ok()) {
      if (term.store->session_state() == SessionState::kExpired) break;
      continue;
    }
    if (node->version == version + 1 && node->data == data) return version + 1;
    if (node->version != version) return absl::AbortedError(StrCat(path, " was changed by somebody else"));
  }
  return absl::UnavailableError(StrCat(path, ": the outcome of a change is not known"));
}

StatusOr<RangeRecord> RangeMovers::WriteMove(const Term& term, const RangeMove& move) {
  RangeRecord written = move.after;
  NOVA_ASSIGN_OR_RETURN(written.version,
                        Replace(term, RangePath(move.before.id), move.after.Encode(), move.before.version));
  return written;
}

StatusOr<StocRecord> RangeMovers::WriteStoc(const Term& term, const StocChange& change) {
  StocRecord written = change.after;
  const std::string path = StocPath(change.before.id);
  if (change.before.version < 0) {
    NOVA_RETURN_IF_ERROR(term.store->Multi(
        {ConfigOp::Check(kCoordPath, term.coord_version), ConfigOp::Create(path, change.after.Encode())}));
    written.version = 0;
    return written;
  }
  NOVA_ASSIGN_OR_RETURN(written.version, Replace(term, path, change.after.Encode(), change.before.version));
  return written;
}

void RangeMovers::CarryOut(const Change& change) {
  Term term;
  if (session_->stopping() || !election_->CarriesOut(change.term, &term)) return;
  std::visit([&](const auto& what) { Carry(change.term, term, what); }, change.what);
}

void RangeMovers::Refused(const std::string& path) {
  session_->MarkDirty(path);
  session_->MarkDirty(kCoordPath);
}

void RangeMovers::Carry(CoordEpoch epoch, const Term& term, const RangeMove& move) {
  NOVA_FP_VOID("coordinator.move_decided");
  StatusOr<RangeRecord> written = WriteMove(term, move);
  NOVA_FP_VOID("coordinator.move_written");
  const RangeId id = move.before.id;
  AssignDoneEvent done{id, std::nullopt};
  if (written.ok()) {
    moves_->Add();
    NOVA_LOG(INFO) << "range " << id.value() << ": epoch " << written->epoch.value() << " goes to "
                   << written->owner << " (" << written->owner_incarnation.value() << ")";
    done.record = *std::move(written);
  } else {
    failed_moves_->Add();
    Refused(RangePath(id));
  }
  mirror_->MoveDone(epoch, done);
}

void RangeMovers::Carry(CoordEpoch epoch, const Term& term, const StocChange& change) {
  StatusOr<StocRecord> written = WriteStoc(term, change);
  const StocId id = change.before.id;
  StocChangeDoneEvent done{id, std::nullopt};
  if (written.ok()) {
    stoc_changes_->Add();
    if (written->presence != change.before.presence) {
      NOVA_LOG(WARNING) << "StoC " << id.value() << " (" << written->name << ") is "
                        << PresenceName(written->presence) << ", after "
                        << PresenceName(change.before.presence)
                        << "; leaders have listened for it in vain for " << written->away_ms << " ms";
    }
    if (written->disk != change.before.disk) {
      NOVA_LOG(WARNING) << "StoC " << id.value() << " (" << written->name << "): its disk is "
                        << DiskStateName(written->disk) << ", after " << DiskStateName(change.before.disk);
    }
    done.record = *std::move(written);
  } else {
    Refused(StocPath(id));
  }
  mirror_->StocChangeDone(epoch, done);
}

}  // namespace nova
