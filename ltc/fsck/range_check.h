// RangeCheck: one look at one range: its record, manifest, tables, logs, and what else of it lies on StoCs.
//
// The order is what the head of cluster_check.h builds on: the record, then the manifest's copies, then lists
// of files, then bytes of tables and logs.
//
// Thread safety: one thread.
// Ownership:     store and reader outlive it.
// Errors:        of the configuration store. All else is a finding of the look.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "common/config/config_store.h"
#include "ltc/fsck/check_report.h"
#include "ltc/fsck/stoc_reader.h"

namespace nova {

enum class CopyKind : uint8_t { kLogGroup, kManifest, kTablePart };

// A log group, a manifest or a part of a table of which a copy is in question.
struct CopiesInQuestion {
  CopyKind kind = CopyKind::kTablePart;
  uint32_t named = 0;
  std::vector<Finding::Key> bad;  // a finding a copy: the copy is bad if the finding counts
  StocFileId file = {};           // of a part of a table
};

// A file that a StoC should have.
using CopyAt = std::pair<StocId, StocFileId>;

struct RangeLook {
  CheckReport counts;  // of what is not in question; names and findings are left out
  std::vector<CopiesInQuestion> in_question;
  std::vector<Finding> findings;
  bool has_version = false;  // its tables were looked at
  // Copies whose bytes were to be read, on StoCs that did not answer: nothing is known of them.
  std::set<CopyAt> unread;
};

// What a look is to leave out.
struct LookScope {
  bool quick = false;  // all bytes of tables and logs
  // Not null: bytes of tables are read only where one of these findings is about them, or they are `unread`.
  const std::set<Finding::Key>* again = nullptr;
  const std::set<CopyAt>* unread = nullptr;  // by earlier looks
};

// `registered`: the LTCs that are; a range whose owner is none of them is not served.
StatusOr<RangeLook> LookAtRange(ConfigStore* store, StocReader* stocs, RangeId range,
                                const std::set<Incarnation>& registered, const LookScope& scope);

}  // namespace nova
