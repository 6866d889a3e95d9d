// CheckReport: what a check of a cluster counted and found; as text for people, a line a finding, and as
// JSON.
//
// Copies are good of what is *named*, by a range's record or its version. How many copies an LTC is
// configured to keep is in no store; `nova status` measures by that.
//
// Thread safety: plain values.   Ownership: values.   Errors: none.   Units: bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/ids.h"

namespace nova {

// What may be wrong; docs/operations.md says what to do about each.
enum class FindingKind : uint8_t {
  kRecord,        // a record of the configuration store cannot be read
  kStocSilent,    // copies are named on a StoC that cannot be asked, and whose directory was not given
  kManifest,      // the copies together make no version, so that nothing else of the range was looked at
  kManifestCopy,  // one is missing, damaged, or lacks edits that were acknowledged
  kTableMissing,  // a part of a table is not where the version names it
  kTableDamaged,  // it is there, and its size, a block or the metadata is wrong, or it cannot be read
  kReference,     // it is there, and the StoC does not count it among the range's files: it may be deleted
  kLogMember,     // a member of a listed group has not what was logged there
  kLogCopy,       // a member's file of a log cannot be read, or lacks records that are synced everywhere
  kOrphan,        // a file that nothing names, and that its range's owner has left for longer than the grace
  kUnreadableFile,  // in a directory: a file without a header, or of a range that there is not
};
const char* FindingName(FindingKind kind);  // "table-missing"

// The fields that are not named by the kind are 0.
struct Finding {
  FindingKind kind = FindingKind::kRecord;
  RangeId range;
  StocId stoc;
  StocFileId file;
  uint64_t number = 0;  // of a kLogMember its group; of a kOrphan the range's epoch
  std::string text;     // what is wrong, for people

  // Two looks that find the same agree in this.
  using Key = std::tuple<FindingKind, RangeId, StocId, StocFileId, uint64_t>;
  Key key() const { return {kind, range, stoc, file, number}; }
};

// Things of one kind that have copies: log groups, manifests, or parts of tables.
struct CopiesFound {
  uint64_t all = 0;
  uint64_t copies = 0;                        // that are named
  uint64_t good = 0;                          // of them
  std::map<uint32_t, uint64_t> by_good = {};  // by a number of good copies: how many things have so many

  void Add(uint32_t named, uint32_t are_good);  // one more thing, and its copies
  uint32_t fewest() const { return by_good.empty() ? 0 : by_good.begin()->first; }  // good copies of one
};

// What a check has looked at, and what it found.
struct CheckReport {
  uint64_t ranges = 0;
  uint64_t tables = 0;  // each once in each range that names it
  CopiesFound log_groups;
  CopiesFound manifests;
  CopiesFound table_parts;
  uint64_t blocks = 0;  // of copies, whose checksums were looked at
  uint64_t bytes = 0;   // read from StoCs or directories
  // Files that nothing names and nobody has to have collected by now (collection, N4): of ranges that are not
  // served, or without a job, which the next epoch takes.
  uint64_t left_over = 0;
  uint64_t left_over_bytes = 0;
  std::vector<Finding> findings;
  uint64_t findings_left_out = 0;       // beyond CheckOptions::max_findings
  std::map<StocId, std::string> names;  // of StoCs
};

// As `nova fsck` prints it; the second form is for programs.
std::string RenderReport(const CheckReport& report);
std::string RenderReportJson(const CheckReport& report);  // on one line

}  // namespace nova
