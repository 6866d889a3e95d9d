#include "stoc/segment_pool.h"

#include <algorithm>
#include <utility>

namespace nova {

SegmentPool::SegmentPool(ExposedMemory* memory, Metrics* metrics)
    : memory_(memory),
      opened_(metrics->counter("nova_stoc_segments_opened_total")),
      refused_(metrics->counter("nova_stoc_segments_refused_total")),
      sealed_(metrics->counter("nova_stoc_segments_sealed_total")),
      open_now_(metrics->gauge("nova_stoc_segments")) {}

std::optional<SegmentPool::Opened> SegmentPool::Open(const OpenSegmentRequest& request,
                                                     const SessionId& session) {
  const Key key{request.range, request.epoch, request.log, request.index};
  {
    MutexLock lock(&mu_);
    if (const auto again = OpenAgain(key, request.size)) return again;
  }
  ExposedMemory::Piece piece = memory_->TryTake(request.size, session);
  if (!piece) return std::nullopt;
  return Insert(key, request.size, session, std::move(piece));
}

SegmentPool::Opened SegmentPool::OpenSlow(const OpenSegmentRequest& request, const SessionId& session) {
  const Key key{request.range, request.epoch, request.log, request.index};
  {
    MutexLock lock(&mu_);
    if (const auto again = OpenAgain(key, request.size)) return *again;
  }
  auto piece = memory_->Take(request.size, session);
  if (!piece.ok()) {
    refused_->Add();
    return {};
  }
  return Insert(key, request.size, session, *std::move(piece));
}

std::optional<SegmentPool::Opened> SegmentPool::OpenAgain(const Key& key, uint64_t size) const {
  const auto it = segments_.find(key);
  if (it == segments_.end()) return std::nullopt;
  const Segment& s = it->second;
  if (s.state != State::kOpen || s.size != size) return Opened{Outcome::kInvalidArgument, {}};
  return Opened{Outcome::kOk, s.remote()};
}

SegmentPool::Opened SegmentPool::Insert(const Key& key, uint64_t size, const SessionId& session,
                                        ExposedMemory::Piece piece) {
  MutexLock lock(&mu_);
  if (const auto again = OpenAgain(key, size)) return *again;
  Segment& s = segments_[key];
  s.piece = std::move(piece);
  s.size = size;
  s.session = session;
  opened_->Add();
  CountLocked();
  return {Outcome::kOk, s.remote()};
}

void SegmentPool::FreeLogs(const FreeLogsRequest& request, const SessionId& session) {
  MutexLock lock(&mu_);
  for (const Uuid& log : request.logs) {
    auto it = segments_.lower_bound(Key{request.range, request.epoch, log, 0});
    while (it != segments_.end() && it->first.range == request.range && it->first.epoch == request.epoch &&
           it->first.log == log) {
      Segment& s = it->second;
      if (s.state != State::kOpen) {
        ++it;
        continue;
      }
      if (s.session == session) s.piece.ReturnInOrder(session);
      it = segments_.erase(it);
    }
  }
  CountLocked();
}

StatusOr<std::vector<SealedSegment>> SegmentPool::Seal(RangeId range, Epoch below) {
  std::vector<SealedSegment> sealed;
  MutexLock lock(&mu_);
  // A segment that is being sealed stays where it is: only a control thread takes it out, and this is the
  // one.
  for (auto it = segments_.lower_bound(Key{range, Epoch(), Uuid(), 0});
       it != segments_.end() && it->first.range == range && it->first.epoch < below; ++it) {
    Segment& s = it->second;
    if (s.state != State::kSealed) {
      s.state = State::kSealing;
      ExposedMemory::Piece piece = std::move(s.piece);
      mu_.Unlock();
      const Status status = memory_->Seal(&piece);
      mu_.Lock();
      s.piece = std::move(piece);
      NOVA_RETURN_IF_ERROR(status);
      s.state = State::kSealed;
      sealed_->Add();
    }
    sealed.push_back({it->first.log, it->first.index, s.remote()});
  }
  return sealed;
}

void SegmentPool::FreeSealed(RangeId range, Epoch below) {
  MutexLock lock(&mu_);
  const auto begin = segments_.lower_bound(Key{range, Epoch(), Uuid(), 0});
  const auto end = segments_.lower_bound(Key{range, below, Uuid(), 0});
  segments_.erase(begin, end);
  CountLocked();
}

bool SegmentPool::HasBelow(RangeId range, Epoch below) const {
  MutexLock lock(&mu_);
  const auto it = segments_.lower_bound(Key{range, Epoch(), Uuid(), 0});
  return it != segments_.end() && it->first.range == range && it->first.epoch < below;
}

size_t SegmentPool::open_segments() const {
  MutexLock lock(&mu_);
  return segments_.size();
}

void SegmentPool::ForEach(
    const std::function<void(const Uuid& log, uint32_t index, std::string_view bytes)>& fn) const {
  MutexLock lock(&mu_);
  for (const auto& [key, s] : segments_) {
    if (s.piece) fn(key.log, key.index, {reinterpret_cast<const char*>(s.piece.data()), s.size});
  }
}

void SegmentPool::CountLocked() { open_now_->Set(static_cast<int64_t>(segments_.size())); }

}  // namespace nova
