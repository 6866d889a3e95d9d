#include "ltc/engine/background.h"

#include <algorithm>

#include "common/base/log.h"

namespace nova {

namespace {

// after work that failed, or that another thread has in hand
constexpr Nanos kRetryPause = 100 * kMillisecond;

}  // namespace

void BackgroundWork::Turns::Add(RangeId range, bool first) {
  MutexLock lock(&mu_);
  if (stopped_) return;
  if (!queued_.insert(range).second) {
    if (!first) return;
    std::erase(queue_, range);
  }
  first ? queue_.push_front(range) : queue_.push_back(range);
  ready_.Signal();
}

void BackgroundWork::Turns::AddLater(RangeId range) {
  MutexLock lock(&mu_);
  if (std::any_of(later_.begin(), later_.end(), [range](const auto& entry) { return entry.second == range; }))
    return;
  later_.emplace_back(Now() + kRetryPause, range);
  ready_.Signal();
}

bool BackgroundWork::Turns::Take(RangeId* range, const CompactionLimit* limit) {
  MutexLock lock(&mu_);
  for (;;) {
    if (stopped_) return false;
    for (; !later_.empty() && later_.front().first <= Now(); later_.pop_front()) {
      if (queued_.insert(later_.front().second).second) queue_.push_back(later_.front().second);
    }
    if (!queue_.empty() && (limit == nullptr || working_ < limit->value())) break;
    ready_.WaitUntil(&mu_, later_.empty() ? kNever : later_.front().first);
  }
  *range = queue_.front();
  queue_.pop_front();
  queued_.erase(*range);
  ++working_;
  return true;
}

void BackgroundWork::Turns::Done() {
  MutexLock lock(&mu_);
  --working_;
  ready_.Signal();
}

void BackgroundWork::Turns::LookAgain() {
  MutexLock lock(&mu_);
  ready_.SignalAll();
}

void BackgroundWork::Turns::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  ready_.SignalAll();
}

BackgroundWork::BackgroundWork(const BackgroundOptions& options, Find find)
    : find_(std::move(find)),
      compaction_limit_(options.compaction_threads, options.most_compaction_threads, Thread::Processors()) {
  const auto start = [this](const char* role, int count, const std::function<void()>& body) {
    for (int i = 0; i < count; ++i)
      threads_.push_back(std::make_unique<Thread>(StrCat("ltc.", role, ".", i), body));
  };
  start("flush", options.flush_threads, [this] {
    RangeId id;
    while (flush_.Take(&id)) {
      if (const auto range = find_(id)) {
        if (range->FlushOne()) {
          flush_.Add(id);
        } else if (range->NeedsFlush()) {
          flush_.AddLater(id);
        }
      }
      flush_.Done();
    }
  });
  start("compaction", std::max(options.compaction_threads, options.most_compaction_threads), [this] {
    RangeId id;
    while (compaction_.Take(&id, &compaction_limit_)) {
      const Nanos begin = Now(), busy = ThreadBusy();
      if (const auto range = find_(id)) {
        if (range->CompactOne()) {
          compaction_.Add(id);
        } else if (range->NeedsCompaction()) {
          compaction_.AddLater(id);
        }
      }
      compaction_limit_.OnWork(Now() - begin, ThreadBusy() - busy);
      compaction_.Done();
    }
  });
  start("rebuild", options.rebuild_threads, [this] {
    RangeId id;
    while (rebuild_.Take(&id)) {
      const auto range = find_(id);
      if (range != nullptr && range->rebuilder().NeedsRebuild()) {
        rebuild_.Add(id);  // for the other threads: several tables at once
        range->rebuilder().RebuildOne();
      }
      rebuild_.Done();
    }
  });
  start("reader", options.reader_threads, [this] { RunQueue(&reader_queue_); });
  start("open", options.open_threads, [this] { RunQueue(&open_queue_); });
  start("release", options.release_threads, [this] { RunQueue(&release_queue_); });
  start("change", options.change_threads, [this] { RunQueue(&change_queue_); });
  start("audit", options.audit_threads, [this] { RunQueue(&audit_queue_); });
  start("control", options.control_threads, [this] { RunQueue(&control_queue_); });
}

BackgroundWork::~BackgroundWork() { Stop(); }

void BackgroundWork::Stop() {
  flush_.Stop();
  compaction_.Stop();
  rebuild_.Stop();
  for (auto* queue :
       {&reader_queue_, &open_queue_, &release_queue_, &change_queue_, &audit_queue_, &control_queue_}) {
    queue->Close();
  }
  threads_.clear();  // joins
}

void BackgroundWork::Due(RangeId range) {
  flush_.Add(range);
  compaction_.Add(range);
}

void BackgroundWork::SetDisks(size_t disks) {
  if (compaction_limit_.SetDisks(disks)) compaction_.LookAgain();
}

void BackgroundWork::FlushFirst(RangeId range) { flush_.Add(range, /*first=*/true); }

void BackgroundWork::RunQueue(BoundedQueue<std::function<void()>>* queue) {
  while (auto fn = queue->Pop()) (*fn)();
}

bool BackgroundWork::Push(BoundedQueue<std::function<void()>>* queue, std::function<void()> fn) {
  if (queue->TryPush(fn)) return true;
  if (queue->closed()) return false;  // of no use any more
  if (const uint64_t met = dropped_.Due())
    NOVA_LOG(WARNING) << "background work dropped (" << met << " so far): 65,536 wait";
  return false;
}

bool BackgroundWork::RunReader(std::function<void()> fn) { return Push(&reader_queue_, std::move(fn)); }
bool BackgroundWork::RunOpen(std::function<void()> fn) { return Push(&open_queue_, std::move(fn)); }
bool BackgroundWork::RunRelease(std::function<void()> fn) { return Push(&release_queue_, std::move(fn)); }
bool BackgroundWork::RunChange(std::function<void()> fn) { return Push(&change_queue_, std::move(fn)); }
bool BackgroundWork::RunAudit(std::function<void()> fn) { return Push(&audit_queue_, std::move(fn)); }
bool BackgroundWork::RunControl(std::function<void()> fn) { return Push(&control_queue_, std::move(fn)); }

}  // namespace nova
