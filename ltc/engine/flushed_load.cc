#include "ltc/engine/flushed_load.h"

#include <utility>

namespace nova {
namespace {

// What earlier flushes count for beside the latest one: after two flushes a load that has moved is 15 parts
// in 16 of all.
constexpr double kDecay = 0.25;
// gamma, Tranges of a Drange; a bucket may have the load of two.
constexpr size_t kTranges = 32;

size_t ResolutionFor(int dranges) { return kTranges * static_cast<size_t>(dranges); }

ReorganisationOptions OptionsOf(const CompactionOptions& o) {
  ReorganisationOptions r;
  r.dranges = o.dranges;
  r.least_table_bytes = o.least_table_bytes;
  return r;
}

}  // namespace

FlushedLoad::FlushedLoad(const CompactionOptions& options)
    : dranges_(options.dranges), options_(OptionsOf(options)), seen_(ResolutionFor(options.dranges)) {}

void FlushedLoad::Start(DrangeMapRef recovered, uint64_t damaged) {
  damaged_.store(damaged);
  MutexLock lock(&mu_);
  SetMapLocked(std::move(recovered));
}

void FlushedLoad::SetMapLocked(DrangeMapRef map) {
  map_ = std::move(map);
  cut_.store(map_ != nullptr && map_->size() > 1);
}

void FlushedLoad::SetDranges(int dranges) {
  MutexLock lock(&mu_);
  WriteHistogram seen(ResolutionFor(dranges));
  seen.Merge(seen_, 1);
  seen_ = std::move(seen);
  options_.dranges = dranges;
  dranges_.store(dranges);
}

std::unique_ptr<WriteHistogram> FlushedLoad::NewPass() const {
  return std::make_unique<WriteHistogram>(ResolutionFor(dranges_.load()));
}

DrangeMapRef FlushedLoad::Add(const WriteHistogram& pass) {
  if (pass.load() <= 0) return nullptr;
  MutexLock lock(&mu_);
  seen_.Merge(pass, kDecay);
  flush_bytes_ = flush_bytes_ == 0 ? pass.load() : (flush_bytes_ + pass.load()) / 2;
  Reorganised r = Reorganise(map_, seen_, static_cast<uint64_t>(flush_bytes_), options_);
  imbalance_.store(r.imbalance);
  if (r.kind == Reorganised::Kind::kNone) return nullptr;
  if (r.kind == Reorganised::Kind::kMajor) reorganisations_.fetch_add(1);
  SetMapLocked(std::move(r.map));
  return map_;
}

DrangeMapRef FlushedLoad::map() const {
  MutexLock lock(&mu_);
  return map_;
}

}  // namespace nova
