// GroupCommit: records that have to be synced come together, and one thread writes and syncs them for all.
//
// Whoever finds nobody leading leads: it takes what has come together meanwhile, its own record first. When
// it is done the next that waits leads.
//
// Thread safety: all; Commit waits.
// Locks: its own, not held while a group is written.
// Ownership: a record lives until its Commit returns.
// Errors: the group's outcome, of every record in it.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/mutex.h"
#include "common/log/range_log.h"

namespace nova {

// See the head of this file. One for each file that is synced by itself.
class GroupCommit {
 public:
  // `max_records`: of one group.
  explicit GroupCommit(size_t max_records) : max_records_(max_records) {}

  // Returns when the record is written and synced, or was not.
  // `write` is called by one thread at a time, with records of one round: one file holds them.
  Outcome Commit(const LogRecord& record,
                 absl::FunctionRef<Outcome(std::span<const LogRecord* const>)> write) {
    Request mine(&record);
    std::vector<const LogRecord*> group;
    {
      MutexLock lock(&mu_);
      waiting_.push_back(&mine);
      while (!mine.done && waiting_.front() != &mine) mine.turn.Wait(&mu_);
      if (mine.done) return mine.outcome;
      // It stays at the front, so that nobody else leads.
      for (const Request* r : waiting_) {
        if (r->record->round != record.round || group.size() == max_records_) break;
        group.push_back(r->record);
      }
    }
    const Outcome outcome = write(group);
    MutexLock lock(&mu_);
    for (size_t i = 0; i < group.size(); ++i) {
      Request* const r = waiting_.front();
      waiting_.pop_front();
      r->outcome = outcome;
      r->done = true;
      if (r != &mine) r->turn.Signal();
    }
    if (!waiting_.empty()) waiting_.front()->turn.Signal();
    return outcome;
  }

 private:
  // A call of Commit under way; it lies on its caller's stack.
  struct Request {
    explicit Request(const LogRecord* r) : record(r) {}
    const LogRecord* const record;
    CondVar turn;                    // signalled when it is done, or leads
    bool done = false;               // some leader has written it
    Outcome outcome = Outcome::kOk;  // of the group it was in; valid when it is done
  };

  const size_t max_records_;
  Mutex mu_;
  std::deque<Request*> waiting_ ABSL_GUARDED_BY(mu_);  // the first leads
};

}  // namespace nova
