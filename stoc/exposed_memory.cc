#include "stoc/exposed_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace nova {
namespace {

Access GivenAccess(const ExposedMemoryOptions& options) {
  return options.off.f1_fence ? Access::kRemoteReadWrite : Access::kRemoteWrite;
}

}  // namespace

// A region with rkey 0 has no registration: it was revoked.
struct ExposedMemory::Rep {
  explicit Rep(Fabric* f) : fabric(f) {}

  Fabric* const fabric;
  mutable Mutex mu;
  // by size; registered, known to nobody
  std::map<uint64_t, std::vector<MemoryRegion>> spares ABSL_GUARDED_BY(mu);
  std::map<SessionId, std::vector<MemoryRegion>> warm ABSL_GUARDED_BY(mu);
  std::vector<MemoryRegion> quarantine ABSL_GUARDED_BY(mu);
  uint64_t mapped ABSL_GUARDED_BY(mu) = 0;
  uint64_t taken ABSL_GUARDED_BY(mu) = 0;
  uint64_t registrations ABSL_GUARDED_BY(mu) = 0;

  void Revoke(MemoryRegion* region) const {
    if (region->rkey != 0) fabric->Revoke(*region);
    region->rkey = region->lkey = 0;
  }
  Status Register(MemoryRegion* region, Access access) ABSL_LOCKS_EXCLUDED(mu) {
    NOVA_ASSIGN_OR_RETURN(*region, fabric->Register(region->address, region->size, access));
    MutexLock lock(&mu);
    ++registrations;
    return OkStatus();
  }
  void Unmap(MemoryRegion region) ABSL_LOCKS_EXCLUDED(mu) {
    Revoke(&region);
    munmap(region.address, region.size);
    MutexLock lock(&mu);
    mapped -= region.size;
  }
  // What may be given up for `bytes` more, until they fit under `max_bytes`.
  std::vector<MemoryRegion> PickVictims(uint64_t bytes, uint64_t max_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    std::vector<MemoryRegion> victims;
    uint64_t rest = mapped;
    const auto take_from = [&](std::vector<MemoryRegion>* from) {
      while (!from->empty() && rest + bytes > max_bytes) {
        rest -= from->back().size;
        victims.push_back(from->back());
        from->pop_back();
      }
    };
    take_from(&quarantine);
    for (auto it = spares.rbegin(); it != spares.rend(); ++it) take_from(&it->second);
    for (auto& [session, regions] : warm) take_from(&regions);
    return victims;
  }
};

// --- Piece

ExposedMemory::Piece& ExposedMemory::Piece::operator=(Piece&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  region_ = other.region_;
  sealed_ = other.sealed_;
  return *this;
}

void ExposedMemory::Piece::Reset() {
  if (ExposedMemory* pool = std::exchange(pool_, nullptr)) pool->Quarantine(region_, sealed_);
}

void ExposedMemory::Piece::ReturnInOrder(const SessionId& by) {
  if (ExposedMemory* pool = std::exchange(pool_, nullptr)) pool->KeepWarm(region_, by);
}

// --- the pool

ExposedMemory::ExposedMemory(Fabric* fabric, const ExposedMemoryOptions& options)
    : options_(options), rep_(std::make_unique<Rep>(fabric)) {
  NOVA_CHECK(std::has_single_bit(options.min_piece_bytes));
}

ExposedMemory::~ExposedMemory() {
  std::vector<MemoryRegion> all;
  {
    MutexLock lock(&rep_->mu);
    NOVA_CHECK(rep_->taken == 0) << "pieces outlive their pool";
    all = std::exchange(rep_->quarantine, {});
    for (auto& [size, regions] : rep_->spares) all.insert(all.end(), regions.begin(), regions.end());
    for (auto& [session, regions] : rep_->warm) all.insert(all.end(), regions.begin(), regions.end());
  }
  for (const MemoryRegion& region : all) rep_->Unmap(region);
}

ExposedMemory::Piece ExposedMemory::TryTake(uint64_t bytes, const SessionId& session) {
  if (bytes > options_.max_bytes) return {};
  const uint64_t size = std::bit_ceil(std::max(bytes, options_.min_piece_bytes));
  MutexLock lock(&rep_->mu);
  std::vector<MemoryRegion>* from = nullptr;
  std::vector<MemoryRegion>::iterator it;
  if (const auto mine = rep_->warm.find(session); mine != rep_->warm.end()) {
    it = std::find_if(mine->second.begin(), mine->second.end(),
                      [size](const MemoryRegion& r) { return r.size == size; });
    if (it != mine->second.end()) from = &mine->second;
  }
  if (from == nullptr) {
    from = &rep_->spares[size];
    if (from->empty()) return {};
    it = from->end() - 1;
  }
  const MemoryRegion region = *it;
  from->erase(it);
  rep_->taken += region.size;
  return Piece(this, region);
}

StatusOr<ExposedMemory::Piece> ExposedMemory::Take(uint64_t bytes, const SessionId& session) {
  if (Piece piece = TryTake(bytes, session)) return piece;
  if (bytes > options_.max_bytes)
    return absl::ResourceExhaustedError(StrCat(bytes, " bytes are more than there may be"));
  const uint64_t size = std::bit_ceil(std::max(bytes, options_.min_piece_bytes));
  Recycle();
  if (Piece piece = TryTake(bytes, session)) return piece;
  std::vector<MemoryRegion> victims;
  {
    MutexLock lock(&rep_->mu);
    victims = rep_->PickVictims(size, options_.max_bytes);
  }
  for (const MemoryRegion& region : victims) rep_->Unmap(region);
  {
    MutexLock lock(&rep_->mu);
    if (rep_->mapped + size > options_.max_bytes)
      return absl::ResourceExhaustedError("all memory for peers' writes is in use");
    rep_->mapped += size;
  }
  MemoryRegion region;
  region.size = size;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Status status = memory == MAP_FAILED ? absl::ResourceExhaustedError("out of memory") : OkStatus();
  if (status.ok()) {
    region.address = static_cast<std::byte*>(memory);
    status = rep_->Register(&region, GivenAccess(options_));
    if (!status.ok()) munmap(memory, size);
  }
  MutexLock lock(&rep_->mu);
  if (!status.ok()) {
    rep_->mapped -= size;
    return status;
  }
  rep_->taken += size;
  return Piece(this, region);
}

void ExposedMemory::Quarantine(const MemoryRegion& region, bool sealed) {
  MutexLock lock(&rep_->mu);
  rep_->taken -= region.size;
  const bool as_it_is = options_.off.f2_new_key && !sealed;
  (as_it_is ? rep_->spares[region.size] : rep_->quarantine).push_back(region);
}

void ExposedMemory::KeepWarm(const MemoryRegion& region, const SessionId& by) {
  MutexLock lock(&rep_->mu);
  rep_->taken -= region.size;
  rep_->warm[by].push_back(region);
}

void ExposedMemory::SessionGone(const SessionId& session) {
  MutexLock lock(&rep_->mu);
  const auto it = rep_->warm.find(session);
  if (it == rep_->warm.end()) return;
  for (const MemoryRegion& region : it->second)
    (options_.off.f2_new_key ? rep_->spares[region.size] : rep_->quarantine).push_back(region);
  rep_->warm.erase(it);
}

bool ExposedMemory::Recycle() {
  bool did = false;
  for (;;) {
    MemoryRegion region;
    bool wanted = false;
    {
      MutexLock lock(&rep_->mu);
      if (rep_->quarantine.empty()) break;
      region = rep_->quarantine.back();
      rep_->quarantine.pop_back();
      wanted = rep_->spares[region.size].size() < options_.spares;
    }
    did = true;
    rep_->Revoke(&region);
    if (!wanted || !rep_->Register(&region, GivenAccess(options_)).ok()) {
      rep_->Unmap(region);
      continue;
    }
    MutexLock lock(&rep_->mu);
    rep_->spares[region.size].push_back(region);
  }
  // Spares of the usual size, as far as the bound allows without taking them from anybody.
  for (;;) {
    {
      MutexLock lock(&rep_->mu);
      const uint64_t size = options_.min_piece_bytes;
      if (rep_->spares[size].size() >= options_.spares || rep_->mapped + size > options_.max_bytes)
        return did;
      rep_->mapped += size;
    }
    MemoryRegion region;
    region.size = options_.min_piece_bytes;
    void* memory = mmap(nullptr, region.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    region.address = static_cast<std::byte*>(memory);
    const bool ok = memory != MAP_FAILED && rep_->Register(&region, GivenAccess(options_)).ok();
    if (!ok && memory != MAP_FAILED) munmap(memory, region.size);
    MutexLock lock(&rep_->mu);
    if (!ok) {
      rep_->mapped -= options_.min_piece_bytes;
      return did;
    }
    rep_->spares[region.size].push_back(region);
    did = true;
  }
}

Status ExposedMemory::Seal(Piece* piece) {
  if (options_.off.f1_fence) return OkStatus();
  piece->sealed_ = true;
  rep_->Revoke(&piece->region_);
  return rep_->Register(&piece->region_, Access::kRemoteRead);
}

ExposedMemory::Counts ExposedMemory::counts() const {
  MutexLock lock(&rep_->mu);
  Counts c;
  c.mapped_bytes = rep_->mapped;
  c.taken_bytes = rep_->taken;
  c.registrations = rep_->registrations;
  for (const auto& [size, regions] : rep_->spares) c.spares += regions.size();
  for (const auto& [session, regions] : rep_->warm) c.warm += regions.size();
  c.quarantined = rep_->quarantine.size();
  return c;
}

}  // namespace nova
