// DbPages: the pages of a scan of an embedded database, all of one moment: a snapshot's. A scan of one page
// needs none. Db::Scan and DbIterator read them.
//
// Thread safety: none; one thread at a time.
// Ownership: the range and the lanes outlive it.
// Errors: status(), of the page that was read last.
#pragma once

#include <memory>

#include "common/base/paged_iterator.h"
#include "ltc/embedded/caller_lane.h"
#include "ltc/embedded/db_iterator.h"
#include "ltc/engine/range.h"

namespace nova {

StatusOr<std::shared_ptr<const Snapshot>> TakeSnapshotOf(Range* range, CallerLanes* lanes);

class DbPages final : public PageSource {
 public:
  static constexpr size_t kPrefixBytes = 1;  // of the keyspace, in front of the keys of pages

  // kOnePage: the caller means to read one page, and rarely goes on. kIterator may rest for hours between two
  // pages, and keeps no files; pages of the others refer to values in mapped tables, whose files stay for as
  // long as the page does.
  enum class For { kOnePage, kManyPages, kIterator };

  // No snapshot: the first page is of its own moment, and if others are to follow it is read once more, at a
  // snapshot that is taken then.
  DbPages(Range* range, CallerLanes* lanes, std::shared_ptr<const Snapshot> snapshot, For what)
      : range_(range), lanes_(lanes), snapshot_(std::move(snapshot)), what_(what) {}
  bool Read(const PageRequest& request, EntryPage* page) override;
  const Status& status() const { return status_; }

 private:
  bool ReadAt(const PageRequest& request, EntryPage* page);  // at the snapshot, if there is one
  Range* const range_;
  CallerLanes* const lanes_;
  std::shared_ptr<const Snapshot> snapshot_;
  const For what_;
  ScanCursor cursor_;
  Status status_;
};

// The state of a DbIterator.
struct DbIterator::Rep {
  Rep(Range* range, CallerLanes* lanes, std::shared_ptr<const Snapshot> snapshot, const DbIteratorOptions& o)
      : pages(range, lanes, std::move(snapshot), DbPages::For::kIterator),
        entries(&pages, o.lower, o.upper, DbPages::kPrefixBytes) {}

  DbPages pages;
  PagedIterator entries;
};

}  // namespace nova
