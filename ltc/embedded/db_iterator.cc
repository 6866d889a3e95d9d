#include "ltc/embedded/db_iterator.h"

#include "ltc/embedded/db_pages.h"

namespace nova {

DbIterator::DbIterator(std::unique_ptr<Rep> rep) : KeyIterator(&rep->entries), rep_(std::move(rep)) {}
DbIterator::~DbIterator() = default;

Status DbIterator::status() const { return rep_->entries.failed() ? rep_->pages.status() : OkStatus(); }

}  // namespace nova
