// DbIterator: a position among the keys of a Db, at one moment (K4), in bounded memory however many keys it
// passes. Db::NewIterator makes it.
//
//   auto it = db->NewIterator();
//   for ((*it)->Seek("user1"); (*it)->Valid(); (*it)->Next()) use((*it)->key(), (*it)->value());
//   if (!(*it)->status().ok()) ...
//
// It reads pages of a few entries, and larger ones the farther it goes. Between two pages it keeps tables and
// memory of its moment only until a flush or a compaction replaces them, so an iterator that rests costs
// nothing but the versions that its snapshot keeps (TakeSnapshot).
//
// Thread safety: none; one thread at a time. Iterators do not disturb one another.
// Ownership: the caller's; it ends before the Db. A key and a value are valid until the next move.
// Errors: it is not Valid, and status() says why; the next Seek tries again. DataLoss, Unavailable.
//   FailedPrecondition: the Db is closed.
#pragma once

#include <memory>
#include <string>

#include "common/base/key_iterator.h"
#include "common/base/status.h"

namespace nova {

class Snapshot;

// The keys in [lower, upper); an empty `upper` is the end. `snapshot`: as in DbReadOptions.
struct DbIteratorOptions {
  std::string lower = {};
  std::string upper = {};
  std::shared_ptr<const Snapshot> snapshot = nullptr;
};

class DbIterator : public KeyIterator {
 public:
  ~DbIterator();
  Status status() const;  // ok: the end was reached, or it is Valid

 private:
  friend class Db;
  struct Rep;
  explicit DbIterator(std::unique_ptr<Rep> rep);
  const std::unique_ptr<Rep> rep_;
};

}  // namespace nova
