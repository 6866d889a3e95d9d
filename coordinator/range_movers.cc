#include "coordinator/range_movers.h"

#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/log.h"

namespace nova {
namespace {

constexpr size_t kMoveQueue = 4096;
constexpr int kSettleTries = 100;

}  // namespace

RangeMovers::RangeMovers(Election* election, ClusterMirror* mirror, ZnodeSession* session, Metrics* metrics)
    : election_(election),
      mirror_(mirror),
      session_(session),
      moves_(metrics->counter("nova_coordinator_range_moves_total")),
      failed_moves_(metrics->counter("nova_coordinator_range_moves_refused_total")),
      queue_(kMoveQueue) {}

void RangeMovers::Start(uint32_t threads) {
  for (uint32_t i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<Thread>(StrCat("coord.mover.", i), [this] {
      while (std::optional<Move> move = queue_.Pop()) CarryOut(*move);
    }));
  }
}

void RangeMovers::Stop() {
  queue_.Close();
  for (const auto& thread : threads_) thread->Join();
  threads_.clear();
}

bool RangeMovers::Add(CoordEpoch term, RangeMove move) { return queue_.TryPush(Move{term, std::move(move)}); }

StatusOr<RangeRecord> RangeMovers::WriteMove(const Term& term, const RangeMove& move) {
  const std::string path = RangePath(move.before.id);
  const std::string data = move.after.Encode();
  const std::vector<ConfigOp> ops = {ConfigOp::Check(kCoordPath, term.coord_version),
                                     ConfigOp::Set(path, data, move.before.version)};
  RangeRecord written = move.after;
  written.version = move.before.version + 1;
  for (int i = 0; i < kSettleTries; ++i) {
    const Status s = term.store->Multi(ops);
    if (s.ok()) return written;
    if (!absl::IsUnknown(s)) return s;
    const Status synced = term.store->Sync();
    const StatusOr<Znode> node = term.store->Get(path);
    if (!synced.ok() || !node.ok()) {
      if (term.store->session_state() == SessionState::kExpired) break;
      continue;
    }
    if (node->version == written.version && node->data == data) return written;
    if (node->version != move.before.version)
      return absl::AbortedError(StrCat(path, " was changed by somebody else"));
  }
  return absl::UnavailableError(StrCat(path, ": the outcome of a change is not known"));
}

void RangeMovers::CarryOut(const Move& m) {
  Term term;
  if (session_->stopping() || !election_->CarriesOut(m.term, &term)) return;
  NOVA_FP_VOID("coordinator.move_decided");
  StatusOr<RangeRecord> written = WriteMove(term, m.move);
  NOVA_FP_VOID("coordinator.move_written");
  const RangeId id = m.move.before.id;
  AssignDoneEvent done{id, std::nullopt};
  if (written.ok()) {
    moves_->Add();
    NOVA_LOG(INFO) << "range " << id.value() << ": epoch " << written->epoch.value() << " goes to "
                   << written->owner << " (" << written->owner_incarnation.value() << ")";
    done.record = *std::move(written);
  } else {
    failed_moves_->Add();
    session_->MarkDirty(RangePath(id));
    session_->MarkDirty(kCoordPath);
  }
  mirror_->MoveDone(m.term, done);
}

}  // namespace nova
