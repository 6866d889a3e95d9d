// ClusterCheck: reads a cluster, living or stopped, and says whether it is whole: what `nova fsck` does,
// and the oracle of `nova status`.
//
// For each range: the copies of its manifest, each readable, and none behind what was acknowledged (manifest,
// M1); each part of each table of the version and its checkpoints, on each StoC where it is named: there, of
// the right size, each block and the metadata with the right checksum (damaged copy, S3), and counted by the
// StoC as the range's (shared table, M4); the members of its log groups (group change, L4), and the logs in
// their files, without a gap up to what is synced everywhere (write-all, L3); and files on any StoC that
// nothing names (collection, N4). Copies of logs in memory are counted by the incarnation of their StoC, for
// nobody has the right to read them.
//
// It writes nothing, takes no lock, fences nothing and raises no epoch.
//
// A cluster that lives changes while it is looked at. So a finding counts only if a later look, which
// begins by reading the record and the manifest anew, finds the same again, `settle` after the first. Why
// two are enough:
// - A table's uuid is never used twice. If both looks read a version that names the copy, it was named all
//   the time between them, and so when it was found missing. What was compacted away, or moved (rebuild, S5),
//   the second version does not name there any more. (A copy that was moved away and back between two looks
//   is the one exception, and is there at the second.)
// - A copy of a manifest or log is measured by what another copy had when that was read *before* it; what all
//   had then each still has. A log that was freed meanwhile is found out by the version of the next look: it
//   says that the log's memtables are done (done memtables, M3) before the log goes.
// - A file that nothing names may be a job's under way, a reader's, or of an edit in doubt. Only of a range
//   that one owner serves all the time, and only after `orphan_grace`, it is one too many: the owner looks
//   for them every three minutes.
// A finding that a cluster mends by itself between two looks is none.
//
// Memory: a version's list of tables and one listing of files a StoC, of one range at a time; a table's
//   index, a piece of its data; a manifest's copies, or one log's. Never a table.
//
// Thread safety: one thread, which waits.
// Ownership:     the store and the StocReader outlive it.
// Errors:        Unavailable, DeadlineExceeded: the configuration store does not answer; NotFound: there
//                is no cluster, or no such range. What is wrong with the cluster itself is a finding.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/config/config_store.h"
#include "ltc/fsck/check_report.h"
#include "ltc/fsck/stoc_reader.h"

namespace nova {

struct CheckOptions {
  bool quick = false;  // no bytes of tables and logs: whether files are there, and their sizes
  std::optional<RangeId> range = std::nullopt;  // none: all
  Nanos settle_ns = 3 * kSecond;                // 0: the first look counts
  Nanos orphan_grace_ns = 600 * kSecond;        // likewise
  size_t max_findings = 10'000;
  // Told what is being done, a line at a time.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

StatusOr<CheckReport> CheckCluster(ConfigStore* store, StocReader* stocs, const CheckOptions& options);

}  // namespace nova
