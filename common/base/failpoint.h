// Failpoints: named steps between which a crash, an error or a pause matters; off until armed.
//
// They are in every build, release too, so that the code that is tested is the code that runs. While off, one
// costs a relaxed load of one shared flag. They stand at writes, syncs and renames; a get of the embedded
// engine has none. Every name is in the table below, so that a test can go through all of them; a NOVA_FP of
// another name does not compile. A process takes its orders from $NOVA_FAILPOINTS when it starts
// (ArmFailPointsFromEnv):
//
//   NOVA_FAILPOINTS="log.group_written=crash;table.written=error@3;manifest.append_written=delay:200"
//
// crash: SIGKILL to itself. error: DataLoss, as of a disk, if the step can fail. delay: milliseconds. @n: at
// the n-th hit only.
//
// In the code:
//
//   NOVA_FP("log.created");                          // a step that can fail: returns the error
//   Status s = NOVA_FP_STATUS("flush.written");      // the same, where the error is looked at
//   NOVA_FP_VOID("flush.committed");                 // a step that cannot
//
// Thread safety: all.
// Errors: of arming: InvalidArgument names the order that is wrong.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace nova {

// A row of the table.
struct FailPointInfo {
  std::string_view name;        // "component.step"
  bool may_fail = false;        // the step returns a Status
  std::string_view where = {};  // the steps done, and those still to come, when it is hit
};

inline constexpr auto kFailPoints = std::to_array<FailPointInfo>({
    // The local log (logc/local_log.cc).
    {"log.created", true, "a log file was made, and has no header yet"},
    {"log.recycled", true, "an old log file has its new name, and its old header"},
    {"log.written", true, "a record was written, not synced, not acknowledged"},
    {"log.group_written", true, "a group of records was written, not synced"},
    {"log.group_synced", true, "it is synced, not acknowledged"},
    {"log.round_deleted", false, "the log files of a flushed round are about to be let go"},
    {"log.epoch_deleted", true, "at open, one log file of an older epoch is deleted, others are not"},
    // Tables and manifest on the local disk (ltc/embedded/local_storage.cc).
    {"table.written", true, "a table was written, not synced"},
    {"table.synced", true, "it is synced, its name is not"},
    {"table.stored", true, "its name is synced, no edit names it"},
    {"table.deleted", false, "a dropped table was deleted"},
    {"manifest.created", true, "a new manifest was written and synced, its name is not"},
    {"manifest.append_written", true, "an edit was appended, not synced"},
    {"manifest.append_synced", true, "it is synced, not acknowledged"},
    {"manifest.current_written", true, "CURRENT.new names a new manifest"},
    {"manifest.current_renamed", true, "it is CURRENT, the directory is not synced"},
    {"manifest.installed", true, "a new manifest is installed, old ones are there"},
    // The engine (ltc/engine).
    {"write.pinned", false, "a write has seen that the round it pinned takes writes, it has no number yet"},
    {"memtable.sorted", false, "the keys of a memtable have a new order, they do not count as ordered yet"},
    {"rounds.merged", false, "what is left of sealed rounds is in a new one, which nobody sees yet"},
    {"flush.written", true, "the tables of a round are stored, its edit is not written"},
    {"flush.committed", false, "the edit of a flush is published, its log files are there"},
    {"compaction.written", true, "the outputs of a compaction are stored, its edit is not written"},
    {"compaction.committed", false, "its edit is published"},
    {"rebuild.copied", true, "copies of a table are made on other StoCs, no edit names them"},
    {"rebuild.committed", false, "the edit that names them is published"},
    {"edit.appended", false, "an edit is in the manifest, not published"},
    // Files of a StoC (stoc/file_store.h and its parts, stoc/log_journal.cc, stoc/file_copier.cc,
    // stoc/stoc_server.cc).
    {"stoc.file_written", true, "a new file was written under its temporary name, not synced"},
    {"stoc.file_synced", true, "it is synced, not renamed"},
    {"stoc.file_renamed", true, "it has its name, the directory is not synced"},
    {"stoc.file_read", true, "a part of a file is about to be read"},
    {"stoc.disk_read", true, "the disk is about to read: as if it did what is asked for here"},
    {"stoc.disk_write", true, "the disk is about to write"},
    {"stoc.disk_sync", true, "the disk is about to sync a file"},
    {"stoc.append_written", true, "an append to a manifest was written, not synced"},
    {"stoc.append_synced", true, "it is synced, not answered"},
    {"stoc.log_created", true, "the file of a log is durable, its opening is not answered"},
    {"stoc.log_written", true, "a group of appends to a log was written, not synced"},
    {"stoc.log_synced", true, "it is durable, not answered"},
    {"stoc.journal_begun", true, "a half of the journal has a new header, not synced"},
    {"stoc.journal_written", true, "appends to several logs are in the journal, not synced"},
    {"stoc.journal_synced", true, "they are durable"},
    {"stoc.journal_cleaned", true, "the logs of a full half of the journal are synced, it is not let go"},
    {"stoc.journal_replayed", true, "at start, logs have got back what the journal holds, and are synced"},
    {"stoc.logs_sealed", false, "a fence closed the logs of a range, and is not answered"},
    {"stoc.log_deleted", false, "one log file is deleted, of those that are let go"},
    {"stoc.drop_begun", false, "files are to be dropped for a range, its epoch was not looked at yet"},
    {"stoc.copy_read", true, "a piece of a file is about to be read, for a copy of it on another StoC"},
    {"stoc.copy_fetched", true, "another StoC's file was fetched and found good, nothing of it is written"},
    {"stoc.job_read", true, "a compaction job of an LTC is about to read a piece of an input"},
    {"stoc.job_written", true, "an output of a job is stored, no answer names it"},
    {"stoc.copy_written", true, "the copy is durable, its making is not answered"},
    // References of shared files of a StoC (stoc/shared_references.cc), and the LTC's import of tables of
    // another range (ltc/engine/import.cc).
    {"refs.list_written", true, "a new list of a file's references was written and synced, not renamed"},
    {"refs.list_renamed", true, "it has its name, the directory is not synced"},
    {"refs.file_deleted", true,
     "a file that nobody references any more is deleted, the directory is not synced, its list is there"},
    {"import.referenced", true, "a new range references the tables of another one, no edit names them"},
    // The log on StoCs, in the LTC (logc/log_client.h and its parts, logc/log_recovery.cc).
    {"logc.posted", false, "records were posted to every copy of a log"},
    {"logc.delivered", false, "every copy has them, their writers are not told"},
    {"logc.group_changed", false, "a new group is in the range's record, none of its logs is there yet"},
    {"logc.group_replaced", false, "the old group counts as replaced, no thread that writes to it was told"},
    {"logc.lane_moved", false, "the logs of one thread have successors in the new group"},
    {"logc.round_deleted", false, "the logs of a flushed round are about to be freed"},
    {"logc.fenced", true, "a recovery has fenced the members, and read nothing yet"},
    {"logc.recovered", true, "it has read the logs, and nothing of them is in tables yet"},
    // Between a check and its act, in the LTC (ltc_server.cc, hosted_range.cc, manifest.cc, version_set.cc).
    {"ltc.lease_checked", false, "a get's lease was checked a second time, its answer is not posted"},
    {"ltc.renewal_cut", false, "a snapshot for a new manifest was cut, no StoC has it"},
    {"ltc.renewal_written", false, "every new member has it, edits go on in the old file"},
    {"ltc.renewal_caught_up", false,
     "edits have stopped, the new file has all, the record names the old one"},
    {"ltc.renewal_installed", false, "the record names the new file, the old one is there"},
    {"ltc.record_released", false, "a range's record says released, its former owner has not let go of it"},
    // Compaction jobs that run on StoCs, in the LTC (ltc/server/job_offloader.cc).
    {"offload.sent", true, "a job was sent to a StoC, its answer is not there"},
    {"offload.done", true, "the answer is there, nothing was made of it"},
    {"offload.lost", false, "no end of the job is known, the StoC was not asked to cancel it"},
    // The other steps of a move (ltc/server/hosted_range.cc, coordinator/range_movers.cc).
    {"ltc.release_begun", false, "a range that is to move takes no more writes, nothing is flushed yet"},
    {"ltc.release_flushed", false, "all of it is in tables, its record still names this owner"},
    {"ltc.range_recovered", false, "a new owner has read everything, the record does not say open yet"},
    {"ltc.range_opened", false, "the record says open, the new owner serves nothing yet"},
    {"coordinator.move_decided", false, "a range is to have another owner, its record is not written"},
    {"coordinator.move_written", false, "its record names the new owner, which was not told"},
});

// The place of `name` in the table; a compile error if it has none.
consteval size_t FailPointIndex(std::string_view name) {
  for (size_t i = 0; i < kFailPoints.size(); ++i) {
    if (kFailPoints[i].name == name) return i;
  }
  throw "no failpoint of this name in kFailPoints";
}

extern std::atomic<bool> g_fail_points_armed;  // some point is armed; read at every failpoint
Status HitFailPoint(size_t index);             // counts a hit and runs the point's action

// Has `action` run at the `nth` hit of the point, or at every hit (0); for tests. InvalidArgument: there is
// no such point.
Status ArmFailPoint(std::string_view name, uint64_t nth, std::function<Status()> action);
// Arms points by orders in the form of $NOVA_FAILPOINTS, or by $NOVA_FAILPOINTS itself.
Status ArmFailPoints(std::string_view orders);
Status ArmFailPointsFromEnv();
void DisarmFailPoints();                        // also forgets the hits
uint64_t FailPointHits(std::string_view name);  // counted while any point was armed
std::string FailPointsText();                   // the table, for people

// The Status of the step `name`; Ok unless it is armed with an error.
#define NOVA_FP_STATUS(name)                                   \
  (::nova::g_fail_points_armed.load(std::memory_order_relaxed) \
       ? ::nova::HitFailPoint(::nova::FailPointIndex(name))    \
       : ::nova::OkStatus())
// The step `name` in a function that returns a Status or a StatusOr: returns the error.
#define NOVA_FP(name) NOVA_RETURN_IF_ERROR(NOVA_FP_STATUS(name))
// The step `name` where nothing can fail: an error is ignored.
#define NOVA_FP_VOID(name) NOVA_FP_STATUS(name).IgnoreError()

}  // namespace nova
