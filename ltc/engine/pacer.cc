#include "ltc/engine/pacer.h"

#include <algorithm>
#include <cmath>

#include "common/base/log.h"
#include "common/base/thread.h"
#include "ltc/engine/level0_depth.h"

namespace nova {
namespace {

constexpr double kInexact = 1e-6;  // sums of shares

}  // namespace

// --- writers

// The memory of a group of rounds comes back when all of it is written, and until then what room there is has
// to do: each round that is written gives writers the part of the room that it is of what is still to be
// written. They may use it up a little early: the next group is the larger, and Level0 has fewer runs. So it
// is with the rounds of the range, and with the memory that it shares with others.
Nanos Pacer::AdmitUnderPressure(Executor* on, uint64_t bytes) {
  constexpr double kMostEarly = 4, kEarlySeconds = 0.5;
  const auto round_bytes = static_cast<double>(context_->RoundBytes());
  const double early = std::min(kMostEarly, controller_.rate() * kEarlySeconds / round_bytes);
  const auto by_round = [=](double rounds, double to_write_bytes) {
    const double to_write = to_write_bytes / round_bytes;
    return rounds / std::max(1.0, to_write - std::min(to_write / 2, early));
  };
  const RangeView& view = *rounds_->ViewOf(on);
  // a round is opened whole, or not yet
  const double rounds = std::floor(context_->options.max_rounds - view.sealed_share + kInexact);
  const double active = static_cast<double>(view.active->bytes()) /
                        static_cast<double>(view.active->full_bytes(context_->options));
  const RangeServices& services = *context_->services;
  const double left = services.freeable_limit_bytes() - services.freeable_bytes();
  const double room = std::min(by_round(rounds - active, bytes_to_write()),
                               by_round(left / round_bytes, services.arenas->bytes_to_write()));
  return controller_.Admit(bytes, room, Now(), &lanes_[on->index()].credit);
}

bool Pacer::SlowDownIsInVain() const {
  return compaction_failure_.outcome() == Outcome::kNoSpace &&
         Level0Depth(*rounds_->Current()->version) >= context_->options.level0_slow_runs;
}

Outcome Pacer::WhyWorkFails() const {
  const Outcome flush = flush_failure_.outcome();
  return flush != Outcome::kOk ? flush : compaction_failure_.outcome();
}

// 0: as many runs as slow writers down; 1: at the stop limit.
double Pacer::Level0Excess(const RangeView& view) const {
  const RangeOptions& o = context_->options;
  const double band = std::max(1, o.level0_stop_runs - o.level0_slow_runs);
  return (Level0Depth(*view.version) - level0_runs_consumed_.load() - o.level0_slow_runs) / band;
}

void Pacer::UpdatePressure() {
  MutexLock lock(&mu_);  // the last to say so says what is so
  const auto view = rounds_->Current();
  WritePressure p;
  p.memtables = view->sealed_share / std::max(1, context_->options.max_rounds - 1);
  p.held = HoldsRoundsBackLocked() && std::none_of(view->sealed.begin(), view->sealed.end(),
                                                   [](const auto& round) { return round->flushing.load(); });
  p.level0 = Level0Excess(*view) * 0.5 + 0.5;
  p.memory = context_->services->freeable_bytes() / context_->services->freeable_limit_bytes() - 0.25;
  controller_.SetPressure(p, Now());
}

// --- flushes

// On its own a compaction, whose reads are large, would leave a flush a fifth of the disk's time.
void Pacer::OnFlushing(uint64_t written_bytes, uint64_t kept_bytes) {
  constexpr double kAtSlow = 0.5, kAtStop = 3;  // bytes that are moved for one that is flushed
  constexpr int64_t kMost = 16 << 20;
  controller_.OnFlushed(written_bytes, Now());
  const double over = std::clamp(Level0Excess(*rounds_->Current()), 0.0, 4.0);
  const auto grant =
      static_cast<int64_t>(static_cast<double>(kept_bytes) * kAtSlow * std::pow(kAtStop / kAtSlow, over));
  if (compaction_grant_.fetch_add(grant) + grant > kMost) compaction_grant_.store(kMost);
  LetReadsHaveTurns();
}

void Pacer::SetToWrite(RoundNumber oldest, double bytes) {
  MutexLock lock(&mu_);
  double& left = to_write_of_[oldest];
  context_->services->arenas->AddToWrite(bytes - left);
  left = bytes;
  SumUpToWrite();
}

void Pacer::EndToWrite(RoundNumber oldest) {
  MutexLock lock(&mu_);
  const auto flush = to_write_of_.find(oldest);
  if (flush == to_write_of_.end()) return;
  context_->services->arenas->AddToWrite(-flush->second);
  to_write_of_.erase(flush);
  SumUpToWrite();
}

void Pacer::SumUpToWrite() {
  double sum = 0;
  for (const auto& [oldest, bytes] : to_write_of_) sum += std::min(bytes, to_write_of_.begin()->second);
  to_write_.store(sum, std::memory_order_relaxed);
}

void Pacer::OnFlushed(const FlushResult& flush) {
  MutexLock lock(&mu_);
  history_ = After(history_, flush);
}

FlushHistory Pacer::flush_history() const {
  MutexLock lock(&mu_);
  return history_;
}

bool Pacer::MergesRounds() const {
  MutexLock lock(&mu_);
  return MergesRoundsLocked();
}

bool Pacer::MergesRoundsLocked() const {
  const RangeOptions& o = context_->options;
  if (!context_->state.Is(ServingState::kActive) || o.merge_rounds == MergeRounds::kNever) return false;
  return o.merge_rounds == MergeRounds::kAlways ||
         (history_.waits && (o.log_share > 1 || !log_->keeps_records()));
}

bool Pacer::HoldsRoundsBack() const {
  MutexLock lock(&mu_);
  return HoldsRoundsBackLocked();
}

bool Pacer::HoldsRoundsBackLocked() const {
  return MergesRoundsLocked() &&
         (context_->services->one_disk || context_->options.merge_rounds == MergeRounds::kAlways);
}

// --- compactions

bool Pacer::FlushIsBehind() const {
  // A flush that fails may fail for want of the space that a compaction frees.
  if (!context_->state.Is(ServingState::kActive) || flush_failure_.outcome() != Outcome::kOk) return false;
  const auto view = rounds_->Current();
  return view->sealed_share * 2 >= context_->options.max_rounds && view->sealed.back()->flushing.load();
}

void Pacer::WaitBehindFlush(uint64_t bytes) {
  constexpr Nanos kLongest = 500 * kMillisecond;
  const Nanos begin = Now();
  while (FlushIsBehind()) {
    if (Level0Depth(*rounds_->Current()->version) >= context_->options.level0_slow_runs) {
      if (compaction_grant_.load() > 0) {
        compaction_grant_.fetch_sub(static_cast<int64_t>(2 * bytes));  // read here, and written later
        return;
      }
      if (Now() - begin >= kLongest) return;
    }
    SleepFor(5 * kMillisecond);
  }
}

void Pacer::ConsumeLevel0(double runs) {
  if (runs == 0) return;
  level0_runs_consumed_.fetch_add(runs);
  UpdatePressure();
}

void Pacer::LetReadsHaveTurns() {
  if (!context_->services->one_disk || controller_.pressed()) return;
  if (const Nanos pause = disk_turns_.Pause(Now()); pause > 0) SleepFor(pause);
}

// --- failures

void Pacer::Failed(const char* what, const Status& s, WorkFailure* failure) {
  failure->OnFailed(s);
  if (absl::IsFailedPrecondition(s)) context_->lose(s);
  if (context_->state.Is(ServingState::kLost)) return;
  if (const uint64_t met = errors_.Due()) {
    NOVA_LOG(WARNING) << "range " << context_->spec.id.value() << ": " << what
                      << " failed, will retry (failures so far: " << met << "): " << s;
  }
}

}  // namespace nova
