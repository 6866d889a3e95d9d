#include "ltc/engine/range.h"

#include <algorithm>
#include <set>
#include <utility>

namespace nova {

Range::Range(const RangeSpec& spec, const RangeOptions& options, const RangeServices* services,
             ManifestStorage* storage, SequenceNumber last_sequence, std::shared_ptr<const void> keep)
    : keep_(std::move(keep)),
      context_(spec, options, services),
      toll_(&context_),
      load_(options.compaction),
      written_(options),
      points_(last_sequence),
      rounds_(&context_, &points_, &log_, &written_),
      pacer_(&context_, &rounds_, &log_),
      tables_(&context_, &pacer_.disk_turns()),
      reader_(&context_, &toll_, &points_, &rounds_, &tables_),
      scanner_(&context_, &toll_, &points_, &rounds_, &tables_),
      versions_(&context_, &points_, &rounds_, &pacer_, storage),
      rebuilder_(&context_, &jobs_, &versions_),
      merger_(&context_, &points_, &rounds_, &pacer_, &written_),
      flusher_(&context_, &points_, &log_, &rounds_, &pacer_, &tables_, &jobs_, &versions_, &merger_, &load_,
               &written_),
      compactor_(&context_, &toll_, &points_, &rounds_, &pacer_, &tables_, &jobs_, &versions_),
      writes_(&context_, &points_, &log_, &rounds_, &pacer_, &reader_),
      checkpoints_(&context_, &rounds_, &jobs_, &versions_, &flusher_, &compactor_, &writes_) {
  context_.lose = [this](const Status& why) { Lose(why); };
}

Range::~Range() = default;

void Range::Activate(std::unique_ptr<RangeLog> log) {
  log_.Open(std::move(log));
  context_.state.Set(ServingState::kActive);
}

void Range::TakeSnapshot(Executor* on, Nanos expires_ns, SnapshotDone done) {
  if (!serves_reads()) return done(Outcome::kNotOwner, nullptr);
  auto snapshot = points_.snapshots().Enter([this] { return points_.sequences().last(); }, expires_ns);
  const SequenceNumber seq = snapshot->sequence();
  points_.WhenStable(
      on, seq, [self = shared_from_this(), snapshot = std::move(snapshot), done = std::move(done)]() mutable {
        if (self->context_.state.Is(ServingState::kLost)) return done(Outcome::kNotOwner, nullptr);
        done(Outcome::kOk, std::move(snapshot));
      });
}

bool Range::SealActive() {
  const bool sealed = rounds_.SealActive();
  pacer_.UpdatePressure();
  return sealed;
}

bool Range::SealUpTo(SequenceNumber seq) {
  const bool sealed = rounds_.SealUpTo(seq);
  pacer_.UpdatePressure();
  return sealed;
}

// --- letting go

void Range::StopWrites() {
  for (const auto from : {ServingState::kActive, ServingState::kRestoring}) {
    if (context_.state.Move(from, ServingState::kReadOnly)) return;
  }
}

Status Range::AwaitWrites(Nanos deadline_ns) {
  const auto is_written_to = [](const std::shared_ptr<Round>& round) { return round->pins.load() != 0; };
  for (;; SleepFor(100 * kMicrosecond)) {
    const auto view = rounds_.Current();
    if (!is_written_to(view->active) && std::none_of(view->sealed.begin(), view->sealed.end(), is_written_to))
      return OkStatus();
    if (Now() >= deadline_ns) return absl::DeadlineExceededError("writes are under way");
  }
}

bool Range::BeginRelease() { return context_.state.Move(ServingState::kActive, ServingState::kReadOnly); }

void Range::StopReads() { context_.state.Move(ServingState::kReadOnly, ServingState::kSilent); }

void Range::CancelRelease() {
  for (const auto from : {ServingState::kReadOnly, ServingState::kSilent}) {
    if (context_.state.Move(from, ServingState::kActive)) break;
  }
  context_.WorkDue();
}

void Range::Abandon() {
  if (context_.state.Set(ServingState::kLost) != ServingState::kOpening) log_.Fence();
  points_.sequences().Close();
}

void Range::Lose(const Status& why) {
  if (context_.state.Set(ServingState::kLost) == ServingState::kLost) return;
  log_.Fence();
  points_.sequences().Close();
  context_.services->host->Fenced(id(), why);
}

// --- any thread

void Range::Configure(int dranges, int active_memtables) {
  load_.SetDranges(dranges);
  context_.active_memtables.store(active_memtables);
  written_.SetSiblings(active_memtables);
}

RangeStats Range::stats() const {
  const auto view = rounds_.Current();
  RangeStats s;
  s.writes = writes_.writes();
  s.reads = reader_.reads() + scanner_.scans();
  s.get_memtables = reader_.memtables();
  s.get_tables = reader_.tables();
  s.scans = scanner_.scans();
  s.scan_memtables = scanner_.memtables();
  s.scan_tables = scanner_.tables();
  s.bytes = view->version->TotalBytes();
  s.level0_runs = view->version->Level0Runs();
  s.dranges = static_cast<int>(view->version->columns().size());
  s.drange_imbalance = load_.imbalance();
  s.reorganisations = load_.reorganisations();
  s.memtable_imbalance = written_.imbalance();
  s.memtable_reorganisations = written_.reorganisations();
  if (view->active->partition != nullptr)
    s.memtable_dranges = static_cast<int>(view->active->partition->dranges());
  s.damaged_maps = load_.damaged();
  s.level0_waits = compactor_.level0_waits();
  s.rounds = static_cast<int>(view->sealed.size()) + 1;
  s.active_memtables = static_cast<int>(view->active->siblings.size());
  s.tables = view->version->TableCount();
  s.range_tombstones = view->tombstones == nullptr ? 0 : view->tombstones->size();
  s.memtable_bytes = view->active->bytes();
  for (const auto& r : view->sealed) s.memtable_bytes += r->bytes();
  s.flushed_entries = flusher_.entries();
  s.flushed_runs = flusher_.runs();
  s.merges = merger_.merges();
  s.merged_away_entries = merger_.entries_away();
  s.merged_away_bytes = merger_.bytes_away();
  s.stalled_ns = pacer_.stalled_ns();
  s.paused_ns = pacer_.paused_ns();
  s.pressure = pacer_.pressure();
  return s;
}

}  // namespace nova
