#include "ltc/embedded/db_pages.h"

#include "ltc/embedded/db_calls.h"

namespace nova {

StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshotOf(Range* range, CallerLanes* lanes) {
  std::shared_ptr<const Snapshot> snapshot;
  const Outcome outcome =
      RunOnLane(lanes, CallerLanes::For::kReads, [&](Executor* on, Outcome* out, bool* finished) {
        range->TakeSnapshot(on, kNever, [out, finished, &snapshot](Outcome o, std::shared_ptr<Snapshot> s) {
          snapshot = std::move(s);
          *out = o;
          *finished = true;
        });
      });
  if (outcome != Outcome::kOk) return StatusOf(outcome, "snapshot");
  return snapshot;
}

bool DbPages::Read(const PageRequest& request, EntryPage* page) {
  if (!ReadAt(request, page)) return false;
  if (page->more && snapshot_ == nullptr) {
    auto snapshot = TakeSnapshotOf(range_, lanes_);
    status_ = snapshot.status();
    if (!status_.ok()) return false;
    snapshot_ = *std::move(snapshot);
    if (!ReadAt(request, page)) return false;
  }
  // One that could not go on has come nearer to an entry (HiddenKeys).
  while (page->more && page->count == 0) {
    if (!ReadAt(request, page)) return false;
  }
  return true;
}

bool DbPages::ReadAt(const PageRequest& request, EntryPage* page) {
  if (!request.goes_on) cursor_.Take();  // it stands elsewhere
  ScanOp op;
  op.from = StoredKey(request.from).view();
  op.to = StoredEnd(request.to);
  op.limit = request.limit;
  op.snapshot = snapshot_;
  op.reverse = request.reverse;
  op.page_bytes = request.bytes;
  op.may_refer = what_ != For::kIterator;
  // The first page of a scan may be its last: its iterators are left to the next scan then.
  if (request.goes_on || what_ == For::kIterator) op.cursor = &cursor_;
  std::string why;
  const Outcome outcome =
      RunOnLane(lanes_, CallerLanes::For::kReads, [&](Executor* on, Outcome* out, bool* finished) {
        range_->Scan(on, std::move(op), [=, &why](Outcome o, ScanPage p) {
          *page = {std::move(p.entries), p.count, std::move(p.referred), p.more};
          why = std::move(p.why);
          *out = o;
          *finished = true;
        });
      });
  status_ = StatusOf(outcome, "scan", why);
  return status_.ok();
}

}  // namespace nova
