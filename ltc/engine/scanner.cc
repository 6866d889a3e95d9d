#include "ltc/engine/scanner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/coding.h"

namespace nova {
namespace {

constexpr int kStepsBetweenLooks = 64;  // at the clock

// Room for a page whose entries are like the first one, unless that is large.
void Reserve(const ScanOp& op, size_t entry_bytes, ScanPage* page) {
  constexpr uint64_t kMost = 2 << 20;
  page->entries.reserve(std::min({op.limit * entry_bytes, op.page_bytes + entry_bytes, kMost}));
}

void Append(const ScanOp& op, const RangeIterator& it, ScanPage* page) {
  constexpr size_t kLeastReferred = 256;  // bytes of a value; less is copied sooner than it is kept
  const std::shared_ptr<const void>* const keeper =
      op.may_refer && it.value().size() >= kLeastReferred ? it.value_keeper() : nullptr;
  if (page->count == 0)
    Reserve(op, LengthPrefixedSize(it.key()) + (keeper == nullptr ? LengthPrefixedSize(it.value()) : 0),
            page);
  PutLengthPrefixed(&page->entries, it.key());
  if (keeper == nullptr) return PutLengthPrefixed(&page->entries, it.value());
  if (page->referred.values.empty()) page->referred.values.reserve(std::min<uint64_t>(op.limit, 1024));
  page->referred.values.resize(page->count);
  page->referred.Add(it.value(), *keeper);
}

}  // namespace

Scanner::Scanner(const RangeContext* context, Level0Toll* toll, ReadPoints* points, RoundSet* rounds,
                 TableAccess* tables)
    : context_(context),
      toll_(toll),
      points_(points),
      rounds_(rounds),
      tables_(tables),
      counts_(context->services->executors.size()),
      lanes_(context->services->executors.size()) {
  for (Lane& lane : lanes_) lane.spare = std::make_unique<ScanCursor>();
}

struct Scanner::ScanState {
  std::shared_ptr<const void> range;  // kept
  Executor* on = nullptr;
  Nanos began_ns = 0, found_ns = 0;  // the page; when it was known where its first entry is
  int waiters = 1;                   // scans of the executor that waited for blocks meanwhile, with this one
  ScanOp op;
  ScanDone done;
  ScanPage page;
  std::unique_ptr<RangeIterator> entries;
  bool at_end = false;  // `entries` has passed the last key
};

void Scanner::Scan(Executor* on, ScanOp op, ScanDone done) {
  if (!context_->state.serves_reads()) return done(Outcome::kNotOwner, {});
  counts_.Of(on).Add(kScans, 1);
  auto scan = std::make_shared<ScanState>();
  scan->range = context_->KeepAlive();
  scan->on = on;
  scan->op = std::move(op);
  scan->began_ns = Now();
  scan->op.deadline_ns = WaitsUntil(scan->op.deadline_ns, scan->began_ns);
  scan->op.page_bytes = std::min(scan->op.page_bytes, context_->options.scan_page_bytes);
  scan->done = std::move(done);
  const std::string &lower = context_->spec.lower, &upper = context_->spec.upper;
  if (!upper.empty() && (scan->op.to.empty() || scan->op.to > upper)) scan->op.to = upper;
  if (scan->op.from < lower) scan->op.from = lower;
  if (scan->op.snapshot != nullptr) {
    const HiddenKeys& hidden = scan->op.snapshot->hidden_keys();
    if (scan->op.reverse) {
      scan->op.to = hidden.SkipBackward(std::move(scan->op.to));
    } else {
      scan->op.from = hidden.SkipForward(std::move(scan->op.from));
    }
    if (scan->op.cursor != nullptr && (scan->entries = scan->op.cursor->Take()) != nullptr) {
      scan->entries->Next();
    } else {
      scan->entries = Seek(scan->on, scan->op, {rounds_->ViewOf(on), scan->op.snapshot->sequence()});
    }
    // as in Reader::GetAt
    if (!points_->snapshots().IsLive(*scan->op.snapshot, Now()))
      return scan->done(Outcome::kSnapshotEnded, {});
    return Start(scan);
  }
  if (std::optional<ReadPoint> point = rounds_->StablePoint(on)) {
    scan->entries = Seek(on, scan->op, *std::move(point));
    return Start(scan);
  }
  rounds_->WithReadPoint(on, [this, scan](ReadPoint point) {
    scan->entries = Seek(scan->on, scan->op, std::move(point));
    Start(scan);
  });
}

void Scanner::Start(const std::shared_ptr<ScanState>& scan) {
  if (context_->state.Is(ServingState::kLost)) return scan->done(Outcome::kNotOwner, {});
  Continue(scan);
}

std::unique_ptr<RangeIterator> Scanner::Seek(Executor* on, const ScanOp& op, ReadPoint at) {
  std::unique_ptr<RangeIterator> it = op.reverse ? nullptr : lanes_[on->index()].spare->Take();
  if (it == nullptr || !it->Renew(&at, op.from, op.to)) {
    it = std::make_unique<RangeIterator>(context_, points_, tables_, std::move(at), op.from, op.to,
                                         op.reverse ? Direction::kBackward : Direction::kForward);
  }
  it->SeekToFirst(op.limit);
  return it;
}

void Scanner::Continue(const std::shared_ptr<ScanState>& scan) {
  while (Step(scan)) {
  }
}

bool Scanner::Step(const std::shared_ptr<ScanState>& scan) {
  const Nanos now = Now(), until = now + context_->options.scan_budget_ns;
  RangeIterator* const it = scan->entries.get();
  ScanPage* const page = &scan->page;
  if (page->count == 0) scan->found_ns = now;
  for (int steps = kStepsBetweenLooks;;) {
    switch (it->Settle(&steps)) {
      case RangeIterator::State::kValid:
        Append(scan->op, *it, page);
        if (++page->count >= scan->op.limit) return EndPage(scan.get(), /*more=*/false);
        if (page->entries.size() + page->referred.bytes >= scan->op.page_bytes)
          return EndPage(scan.get(), /*more=*/true);
        it->Next();
        break;
      case RangeIterator::State::kPaused:
        if (Now() >= scan->op.deadline_ns) return EndEarly(scan.get());
        if (Now() > until) {
          scan->on->Submit([this, scan] { Continue(scan); });
          return false;
        }
        steps = kStepsBetweenLooks;
        break;
      case RangeIterator::State::kEnd:
        scan->at_end = true;
        return EndPage(scan.get(), /*more=*/false);
      case RangeIterator::State::kNeedBlocks:
        return Now() >= scan->op.deadline_ns ? EndEarly(scan.get()) : Fetch(scan);
      case RangeIterator::State::kError: {
        const Outcome why = context_->OutcomeOfRead(it->status());
        std::string text(it->status().message());
        return why == Outcome::kUnavailable ? EndEarly(scan.get(), std::move(text))
                                            : Fail(scan.get(), why, std::move(text));
      }
    }
  }
}

bool Scanner::Fetch(const std::shared_ptr<ScanState>& scan) {
  int* const waiting = &lanes_[scan->on->index()].waiting;
  scan->waiters = std::max(scan->waiters, ++*waiting);
  const bool is_here = scan->entries->Fetch(scan->on, scan->op.deadline_ns, [this, waiting, scan] {
    --*waiting;
    Continue(scan);
  });
  if (is_here) --*waiting;
  return is_here;
}

bool Scanner::EndPage(ScanState* scan, bool more) {
  scan->page.more = more;
  const RangeIterator::Opened opened = scan->entries->TakeOpened();
  auto& counts = counts_.Of(scan->on);
  counts.Add(kMemtables, static_cast<uint64_t>(opened.memtables));
  counts.Add(kTables, static_cast<uint64_t>(opened.tables));
  toll_->OnScan(scan->on, opened.level0_runs);
  if (opened.level0_reads > 0) {
    const Nanos took = (scan->found_ns - scan->began_ns) / scan->waiters;
    toll_->OnReads(scan->on, opened.level0_reads, opened.tables, took);
  }
  if (scan->op.cursor != nullptr && !scan->at_end) {
    scan->op.cursor->Park(rounds_, std::move(scan->entries));
  } else {
    Spare(scan);
  }
  scan->done(Outcome::kOk, std::move(scan->page));
  return false;
}

bool Scanner::EndEarly(ScanState* scan, std::string why) {
  const ScanOp& op = scan->op;
  std::optional<std::string> passed = scan->entries->Passed();
  if (scan->page.count == 0) {
    if (passed && op.reverse) *passed = std::max(*passed, op.from);
    if (passed && !op.reverse && !op.to.empty()) *passed = std::min(*passed, op.to);
    const bool any = passed && (op.reverse ? op.to.empty() || *passed < op.to : *passed > op.from);
    if (!any || op.snapshot == nullptr) return Fail(scan, Outcome::kUnavailable, std::move(why));
    op.reverse ? op.snapshot->hidden_keys().Add(*std::move(passed), op.to)
               : op.snapshot->hidden_keys().Add(op.from, *std::move(passed));
  }
  scan->op.cursor = nullptr;  // it does not stand at an entry
  return EndPage(scan, /*more=*/true);
}

void Scanner::Spare(ScanState* scan) {
  if (scan->op.reverse) return;
  scan->entries->Rest();
  lanes_[scan->on->index()].spare->Park(rounds_, std::move(scan->entries));
}

bool Scanner::Fail(ScanState* scan, Outcome outcome, std::string why) {
  ScanPage page;
  page.why = std::move(why);
  scan->done(outcome, std::move(page));
  return false;
}

}  // namespace nova
