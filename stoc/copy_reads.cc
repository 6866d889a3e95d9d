#include "stoc/copy_reads.h"

namespace nova {

struct CopyReads::State {
  struct Read {
    uint64_t bytes = 0;
    Nanos deadline_ns = 0;
    Begin begin;
  };

  CopyBandwidth* bandwidth = nullptr;  // not used after `stopped`
  Mutex mu;
  std::deque<Read> waiting ABSL_GUARDED_BY(mu);
  uint64_t waiting_bytes ABSL_GUARDED_BY(mu) = 0;
  bool reading ABSL_GUARDED_BY(mu) = false;  // one has its turn
  bool stopped ABSL_GUARDED_BY(mu) = false;
};

CopyReads::CopyReads(CopyBandwidth* bandwidth) : state_(std::make_shared<State>()) {
  state_->bandwidth = bandwidth;
}
CopyReads::~CopyReads() { Stop(); }

void CopyReads::Stop() {
  std::deque<State::Read> waiting;  // destroyed without the lock
  MutexLock lock(&state_->mu);
  state_->stopped = true;
  waiting.swap(state_->waiting);
}

bool CopyReads::Add(uint64_t bytes, Nanos deadline_ns, Begin begin) {
  bool first = false;
  {
    MutexLock lock(&state_->mu);
    const bool too_long =
        !state_->waiting.empty() && state_->bandwidth->TimeOf(state_->waiting_bytes + bytes) > kLongestWait;
    if (state_->stopped || too_long || state_->waiting.size() >= kMaxWaiting) return false;
    state_->waiting.push_back({bytes, deadline_ns, std::move(begin)});
    state_->waiting_bytes += bytes;
    first = !std::exchange(state_->reading, true);
  }
  if (first) Next(state_);
  return true;
}

void CopyReads::Next(const std::shared_ptr<State>& state) {
  State::Read read;
  Nanos start_ns = 0;
  {
    MutexLock lock(&state->mu);
    state->reading = !state->stopped && !state->waiting.empty();
    if (!state->reading) return;
    read = std::move(state->waiting.front());
    state->waiting.pop_front();
    state->waiting_bytes -= read.bytes;
    start_ns = Now();
    if (start_ns < read.deadline_ns) start_ns = state->bandwidth->Take(read.bytes);
  }
  read.begin(Turn(state), start_ns);
}

}  // namespace nova
