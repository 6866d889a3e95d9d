#include "stoc/scrubber.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace nova {
namespace {

constexpr Nanos kSaveOfFinding = kSecond;         // after the last save, at the earliest
constexpr Nanos kLongestUnsaved = 600 * kSecond;  // of a position
// Parts of the period: after so long a position is saved, and what is left is counted anew.
constexpr int kSavesInPeriod = 100;

}  // namespace

Scrubber::Scrubber(const ScrubOptions& options, Disk* disk, FileStore* files,
                   std::function<StatusOr<bool>()> heal_identity, Metrics* metrics)
    : options_(options),
      pace_(options.period_ns, options.bytes_per_second),
      disk_(disk),
      files_(files),
      heal_identity_(std::move(heal_identity)),
      bytes_(metrics->counter("nova_stoc_scrub_bytes_total")),
      scrubbed_(metrics->counter("nova_stoc_scrub_files_total")),
      found_(metrics->counter("nova_stoc_scrub_found_total")),
      unjudged_(metrics->counter("nova_stoc_scrub_unjudged_total")),
      passes_(metrics->counter("nova_stoc_scrub_passes_total")),
      last_pass_s_(metrics->gauge("nova_stoc_scrub_last_pass_seconds")),
      percent_(metrics->gauge("nova_stoc_scrub_pass_percent")),
      check_(files->directory(), files->stored(), [this](uint64_t bytes) { return WaitForPiece(bytes); }) {
  Restore();
  thread_ = std::make_unique<Thread>("stoc.scrub.0", [this] { Work(); });
}

Scrubber::~Scrubber() { Stop(); }

void Scrubber::Stop() {
  stop_.Notify();
  thread_->Join();
}

void Scrubber::Restore() {
  auto state = ReadScrubState(disk_);
  if (state.ok()) {
    state_ = *std::move(state);
  } else if (!absl::IsNotFound(state.status())) {
    NOVA_LOG(WARNING) << "the scrub begins anew: " << state.status();
  }
  StoredFiles* const stored = files_->stored();
  for (const StocFileId& id : state_.damaged) {
    const StoredFiles::File file = stored->Find(id);
    if (file != nullptr) stored->SetDamaged(file, stored->LookAt(file).rewrites, true);
  }
  pass_begun_ns_ = Now() - static_cast<Nanos>(state_.elapsed_ms) * kMillisecond;
  saved_ns_ = Now();
  last_pass_s_->Set(static_cast<int64_t>(state_.last_pass_ms / 1000));
}

void Scrubber::Work() {
  for (;;) {
    if (state_.ended == 0) {
      if (!Pass()) break;
      EndPass();
    }
    if (!WaitUntil(pass_begun_ns_ + options_.period_ns)) break;
    state_.after = {};
    state_.ended = 0;
    pass_begun_ns_ = Now();
    file_cost_ = 0;
    pass_bytes_ = 0;
  }
  Save();
}

// --- a pass

bool Scrubber::Pass() {
  for (;;) {
    LookAhead(kFilesAtOnce);
    if (ahead_.first.empty()) return true;
    for (const StoredFiles::File& file : std::exchange(ahead_.first, {})) {
      if (!WaitForFile()) return false;
      Scrub(file);
      if (stop_.HasBeenNotified()) return false;  // this file was perhaps not read to its end
      state_.after = file->id();
    }
  }
}

void Scrubber::EndPass() {
  const auto healed = heal_identity_();
  if (!healed.ok()) {
    NOVA_LOG(WARNING) << "SUPERBLOCK could not be looked at: " << healed.status();
  } else if (*healed) {
    found_->Add();
    NOVA_LOG(ERROR) << "SUPERBLOCK was damaged, and is written anew";
  }
  state_.ended = 1;
  ++state_.passes;
  state_.last_pass_ms = WallMs();
  passes_->Add();
  percent_->Set(100);
  last_pass_s_->Set(static_cast<int64_t>(state_.last_pass_ms / 1000));
  Save();
}

void Scrubber::Scrub(const StoredFiles::File& file) {
  const bool known = file->damaged;
  const FileCheck::Result result = check_.Check(file);
  scrubbed_->Add();
  if (result.verdict == FileCheck::Verdict::kDamaged && !known) Found(file, result.why);
  if (result.verdict == FileCheck::Verdict::kUnknown && !absl::IsCancelled(result.why) &&
      !absl::IsAborted(result.why)) {
    unjudged_->Add();
    NOVA_LOG(INFO) << "scrub: " << file->id().ToString() << " was not judged: " << result.why;
  }
  const auto list = files_->references()->HealList(file->id());
  if (!list.ok()) {
    NOVA_LOG(WARNING) << "scrub: the references of " << file->id().ToString() << ": " << list.status();
  } else if (*list) {
    found_->Add();
    NOVA_LOG(ERROR) << "the references of " << file->id().ToString() << " were damaged, and are written anew";
  }
}

void Scrubber::Found(const StoredFiles::File& file, const Status& why) {
  found_->Add();
  unsaved_finding_ = true;
  NOVA_LOG(ERROR) << "scrub: " << file->id().ToString() << " is damaged: " << why.message();
  // What a disk cannot read is for its owner to place.
  if (!file->is(FileHeader::Kind::kWhole) || absl::IsDataLoss(why)) return;
  const Status healed = files_->HealFromCache(file);
  if (healed.ok()) {
    NOVA_LOG(INFO) << "scrub: " << file->id().ToString() << " is written anew, out of the page cache";
  } else {
    NOVA_LOG(INFO) << "scrub: " << file->id().ToString() << " is left to its owner: " << healed;
  }
}

// --- its pace

void Scrubber::LookAhead(size_t most) { ahead_ = files_->stored()->Behind(state_.after, most); }

bool Scrubber::WaitForFile() {
  for (;;) {
    const uint64_t left = ScrubPace::CostOf(ahead_.files, ahead_.bytes);
    const Nanos due = file_begun_ns_ + pace_.Between(file_cost_, left, file_begun_ns_ - pass_begun_ns_);
    if (file_cost_ == 0 || Now() >= due) break;
    if (!WaitUntil(std::min(due, Now() + options_.period_ns / kSavesInPeriod))) return false;
    if (Now() < due) LookAhead(0);
  }
  file_begun_ns_ = Now();
  file_cost_ = ScrubPace::CostOf(1, 0);
  next_piece_ns_ = std::max(next_piece_ns_, Now());
  ahead_.files -= std::min<uint64_t>(ahead_.files, 1);
  return !stop_.HasBeenNotified();
}

bool Scrubber::WaitForPiece(uint64_t bytes) {
  if (!WaitUntil(next_piece_ns_)) return false;
  next_piece_ns_ = std::max(next_piece_ns_, Now()) + pace_.TimeOf(bytes);
  file_cost_ += bytes;
  ahead_.bytes -= std::min(ahead_.bytes, bytes);
  pass_bytes_ += bytes;
  bytes_->Add(bytes);
  percent_->Set(static_cast<int64_t>(pass_bytes_ * 100 / (pass_bytes_ + ahead_.bytes)));
  return true;
}

bool Scrubber::WaitUntil(Nanos when_ns) {
  while (Now() < when_ns) {
    if (stop_.WaitUntil(std::min(when_ns, NextSaveNs()))) return false;
    if (Now() >= NextSaveNs()) Save();
  }
  return !stop_.HasBeenNotified();
}

// --- its state

Nanos Scrubber::NextSaveNs() const {
  return saved_ns_ + (unsaved_finding_
                          ? kSaveOfFinding
                          : std::clamp(options_.period_ns / kSavesInPeriod, kSecond, kLongestUnsaved));
}

void Scrubber::Save() {
  state_.elapsed_ms = static_cast<uint64_t>(std::max<Nanos>(0, Now() - pass_begun_ns_) / kMillisecond);
  state_.damaged = files_->stored()->Damaged();
  const Status s = WriteScrubState(disk_, state_);
  if (!s.ok() && !save_failed_) NOVA_LOG(WARNING) << "how far the scrub is cannot be saved: " << s;
  save_failed_ = !s.ok();
  unsaved_finding_ = !s.ok() && unsaved_finding_;
  saved_ns_ = Now();
}

}  // namespace nova
