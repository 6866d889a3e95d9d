#include "ltc/engine/run.h"

#include <algorithm>

namespace nova {

TableHandle::~TableHandle() {
  if (dropped_.load() && garbage_) garbage_(info_);
}

std::shared_ptr<const TableReader> TableHandle::reader() const {
  MutexLock lock(&mu_);
  return reader_;
}

void TableHandle::SetSuccessor(std::shared_ptr<TableHandle> next) {
  MutexLock lock(&mu_);
  successor_ = std::move(next);
}

std::shared_ptr<TableHandle> TableHandle::successor() const {
  MutexLock lock(&mu_);
  return successor_;
}

void TableHandle::SetReader(std::shared_ptr<const TableReader> reader) {
  MutexLock lock(&mu_);
  if (reader_ != nullptr) return;
  reader_ = std::move(reader);
  if (reader_->mapped()) mapped_.store(reader_.get(), std::memory_order_release);
}

uint64_t Run::bytes() const {
  uint64_t n = 0;
  for (const TableRef& t : tables) n += UsedBytes(t->info());
  return n;
}

size_t Run::FirstNotBefore(std::string_view stored_key) const {
  auto [first, last] =
      last_keys.size() == tables.size() ? last_keys.Find(stored_key) : std::pair(size_t{0}, tables.size());
  return static_cast<size_t>(
      std::partition_point(tables.begin() + static_cast<ptrdiff_t>(first),
                           tables.begin() + static_cast<ptrdiff_t>(last),
                           [&](const TableRef& t) { return t->keys().EndsBefore(stored_key); }) -
      tables.begin());
}

TableHandle* Run::Find(std::string_view stored_key) const {
  const size_t i = FirstNotBefore(stored_key);
  return i < tables.size() && tables[i]->keys().first <= stored_key ? tables[i].get() : nullptr;
}

}  // namespace nova
