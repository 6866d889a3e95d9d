// Requests to a StoC, and their replies. A body is the list of a message's fields (common/base/fields.h).
//
// type   request         body                                    reply
// 0x101  OpenSegment     range epoch incarnation log index size  memory
// 0x102  FreeLogs        range epoch n x log                     -
// 0x103  Fence           range epoch                             incarnation store n x {log index memory}
//                                                                n x {log size} [n x log]
// 0x104  OpenFile        file creator size                       buffer memory
// 0x105  PersistFile     buffer size crc                         -      (after a WRITE)
// 0x106  WriteSmallFile  file creator crc bytes                  -      (up to 64 KB, inline)
// 0x107  AppendFile      file creator offset create crc bytes    -      (manifest edits)
// 0x108  ReadFile        file offset size                        bytes  (fewer at the end)
// 0x10a  ListFiles       range epoch_below [file]                n x {file creator size age_ms} [n x file]
// 0x10b  Ping            -                                       incarnation
// 0x10c  FreeFenced      range epoch                             -      (free, R6)
// 0x10d  OpenLogFile     range epoch incarnation log             -
// 0x10e  AppendLog       range epoch log offset sync crc bytes   -
// 0x10f  AddReferences   range epoch n x file                    -      (shared table, M4)
// 0x110  DropReferences  range epoch n x file [ended_below]      -      (M4; 0x109, without range: gone)
// 0x111  CopyFile        file creator source incarnation size    fault  (beside every outcome)
// 0x112  ReadForCopy     file offset size                        data_size crc bytes  (fewer at the end)
// 0x113  ListUnreadable  -                                       n x file
// 0x114  DropUnreadable  range epoch n x file                    -      (collection, N4)
// 0x115  Compact         attempt creator n x place crc bytes     crc bytes  (of a failure: why, for people)
// 0x116  CancelJob       range epoch attempt                     -      (kBusy: it is under way still)
//
//   range epoch incarnation offset age_ms buffer   u64             log store   uuid: u64 hi | u64 lo
//   size   u64 (ReadFile, ReadForCopy, PersistFile: u32)   index crc n   u32, create sync u8 0 or 1
//   source u32, the id of a StoC                   fault           u8      data_size ended_below   u64
//   file   uuid | u32 part                         creator         range | epoch | u64 job
//   memory u64 address | u64 size | u32 rkey | u32 zero            bytes       the rest of the body
//   place  n x {n x stoc} | n x stoc               attempt         uuid        stoc   u32
//
// A segment belongs to an incarnation of the StoC (incarnation, N1): OpenSegment names the one that the log's
// group lists, and another refuses it with kUnavailable. OpenLogFile too, for a log takes appends only from
// the process that opened it, and AppendLog to another is kUnavailable. A log's file is {log, part 0}; Fence
// lists those of lower epochs, of any incarnation. FreeLogs frees the segments and the file of a log.
// AppendLog is answered when its bytes are written, and, if it says so, synced.
//
// Fence ends with the files that were there at the StoC's start and whose headers cannot be read: each may be
// a log, of any range. ListFiles goes up in the order of files, from behind the one that is named, and ends
// after kMaxListedFiles: fewer are the last. The reply ends with those of them that a scrub has found damaged
// (scrub, S6). What is in brackets is not there where it says nothing.
//
// Writing a table's fragment: OpenFile gives a piece of the file buffer; the bytes go there by WRITE;
// PersistFile follows on the same connection in the same doorbell, so it arrives after them; a storage thread
// checks the crc, writes, syncs, replies. A file belongs to the ranges that reference it: the one that
// created it, and those that AddReferences names; it is deleted when the last of them drops it
// (file_store.h). DropReferences with ended_below drops only what a collection may (collection, N4): of this
// epoch the files of jobs below that number, and of earlier epochs all. So a file that was listed, and then
// placed anew by a later job, stays.
//
// Copying a file from StoC to StoC: CopyFile asks the one that is to have it, which fetches the bytes from
// `source` by ReadForCopy, in pieces, and answers when the file is durable. `incarnation` is the one by which
// the caller knows the source. Of an answer that is not Ok, `fault` says whose it is: the source's (another
// source may do) or the target's (another target may do). An outcome that comes without it is the target's,
// or that of the connection to it. data_size and crc are of the whole file.
//
// ListUnreadable names the files, at most kMaxListedFiles, that were there at the StoC's start under names of
// StoC files, and whose headers cannot be read. By DropUnreadable a range says which of them it does not
// need; the StoC deletes those that no range needs.
//
// Compact has the StoC run a CompactionJob (common/sstable/compaction_job.h), whose bytes it carries, and
// answers with those of a CompactionResult when the outputs are durable (compactor.h). Output i goes to place
// i, round and round: the copies of each fragment, then those of the metadata. The job's range, epoch and
// number are the creator's. kInvalidArgument: this StoC runs no jobs, or none of this version; so one that
// does not know the request. CancelJob ends an attempt: once it is answered by kOk the attempt stores nothing
// any more, and what it had stored is dropped.
//
// Every request that changes something of a range carries (range, epoch); a lower epoch than the fenced one
// is refused with kNotOwner (revocation, F1). Reads are of immutable files and carry none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/fields.h"
#include "common/base/ids.h"
#include "common/rdma/fabric.h"

namespace nova {

// Types of requests to a StoC; 0x1xx of the types of common/rdma/message.h.
enum class StocRequest : uint16_t {
  kOpenSegment = 0x101,
  kFreeLogs = 0x102,
  kFence = 0x103,
  kOpenFile = 0x104,
  kPersistFile = 0x105,
  kWriteSmallFile = 0x106,
  kAppendFile = 0x107,
  kReadFile = 0x108,
  kListFiles = 0x10a,
  kPing = 0x10b,
  kFreeFenced = 0x10c,
  kOpenLogFile = 0x10d,
  kAppendLog = 0x10e,
  kAddReferences = 0x10f,
  kDropReferences = 0x110,
  kCopyFile = 0x111,
  kReadForCopy = 0x112,
  kListUnreadable = 0x113,
  kDropUnreadable = 0x114,
  kCompact = 0x115,
  kCancelJob = 0x116,
};
// Bounds of messages; what is beyond them is malformed, and ends the connection.
// Of one AddReferences, DropReferences or DropUnreadable: each file may cost a write to the disk.
inline constexpr size_t kMaxFilesOfReferences = 256;
inline constexpr size_t kMaxInlineFileBytes = 64 * 1024;         // of one WriteSmallFile
inline constexpr uint32_t kMaxReadBytes = 18 << 20;              // of one ReadFile
inline constexpr uint32_t kMaxAppendBytes = 18 << 20;            // of one AppendFile
inline constexpr uint64_t kMaxLogFileBytes = uint64_t{1} << 40;  // an offset above is malformed
inline constexpr size_t kMaxListedFiles = 10'000;                // in one reply of either list
inline constexpr uint32_t kMaxCopyPieceBytes = 1 << 20;          // of one ReadForCopy
inline constexpr uint64_t kMaxCopiedFileBytes = 1 << 30;         // a CopyFile above is malformed
inline constexpr size_t kMaxPlacesOfJob = 64;                    // in one Compact
inline constexpr size_t kMaxJobBytes = 8 << 20;                  // of one Compact's job

// A file, and where it goes: what StocClient sends by the requests of files.
struct FileWrite {
  StocFileId file;
  std::vector<StocId> stocs;  // each gets a copy
  std::string_view data;
};

// A segment that takes no more WRITEs: Fence has revoked its key.
struct SealedSegment {
  Uuid log;
  uint32_t index = 0;   // overflow segments of one log, in order
  RemoteBuffer memory;  // re-registered remote-READ only
  bool operator==(const SealedSegment&) const = default;
  static auto Fields(auto& m) { return std::tie(m.log, m.index, m.memory); }
};
// A log's file that takes no more appends.
struct SealedLogFile {
  static constexpr uint64_t kUnknownSize = ~uint64_t{0};
  Uuid log;
  // kUnknownSize: what the StoC's journal has of it is not put back; a later seal may tell more.
  uint64_t size = 0;
  bool operator==(const SealedLogFile&) const = default;
  static auto Fields(auto& m) { return std::tie(m.log, m.size); }
};
// What the StoC has of the range's logs of lower epochs.
struct FenceReply {
  Incarnation incarnation;  // whose memory the segments are (incarnation, N1)
  Uuid store;               // whose files these are
  std::vector<SealedSegment> segments;
  std::vector<SealedLogFile> files;
  std::vector<Uuid> unreadable = {};  // files without a readable header: each may be a log, of any range
  static auto Fields(auto& m) {
    return FieldList(m.incarnation, m.store, m.segments, m.files, Tail(m.unreadable));
  }
};

// A file of a range, as a StoC lists it.
struct FileSummary {
  StocFileId file;
  Creator creator;       // of it; of a shared file the range's reference
  uint64_t size = 0;     // bytes, without the header
  uint64_t age_ms = 0;   // since it was made, or the StoC was started
  bool damaged = false;  // no field of it: ListFilesReply names those that are
  bool operator==(const FileSummary&) const = default;
  static auto Fields(auto& m) { return std::tie(m.file, m.creator, m.size, m.age_ms); }
};

struct OpenSegmentRequest {
  RangeId range;
  Epoch epoch;
  Incarnation incarnation;
  Uuid log;
  uint32_t index = 0;
  uint64_t size = 0;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.incarnation, m.log, m.index, m.size); }
};
struct OpenSegmentReply {
  RemoteBuffer memory;
  static auto Fields(auto& m) { return std::tie(m.memory); }
};
struct FreeLogsRequest {
  RangeId range;
  Epoch epoch;
  std::vector<Uuid> logs;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.logs); }
};
struct OpenLogFileRequest {
  RangeId range;
  Epoch epoch;
  Incarnation incarnation;
  Uuid log;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.incarnation, m.log); }
};
struct AppendLogRequest {
  RangeId range;
  Epoch epoch;
  Uuid log;
  uint64_t offset = 0;     // where in the log's file: posting again is harmless
  bool sync = false;       // it is answered when they would survive a loss of power
  uint32_t crc = 0;        // of `bytes`
  std::string_view bytes;  // whole records
  static auto Fields(auto& m) {
    return FieldList(m.range, m.epoch, m.log, m.offset, m.sync, m.crc, Apart(m.bytes));
  }
  bool Valid() const { return bytes.size() <= kMaxAppendBytes && offset <= kMaxLogFileBytes; }
};
struct RangeEpochRequest {  // Fence, FreeFenced
  RangeId range;
  Epoch epoch;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch); }
};
struct OpenFileRequest {
  StocFileId file;
  Creator creator;
  uint64_t size = 0;
  static auto Fields(auto& m) { return std::tie(m.file, m.creator, m.size); }
};
struct OpenFileReply {
  uint64_t buffer = 0;  // names the memory in PersistFile; of this connection
  RemoteBuffer memory;  // takes the file's bytes by WRITE
  static auto Fields(auto& m) { return std::tie(m.buffer, m.memory); }
};
struct PersistFileRequest {
  uint64_t buffer = 0;  // as OpenFileReply's
  uint32_t size = 0;    // of the file
  uint32_t crc = 0;     // of its bytes; compared before they are written
  static auto Fields(auto& m) { return std::tie(m.buffer, m.size, m.crc); }
};
struct WriteSmallFileRequest {
  StocFileId file;
  Creator creator;
  uint32_t crc = 0;
  std::string_view bytes;
  static auto Fields(auto& m) { return FieldList(m.file, m.creator, m.crc, Apart(m.bytes)); }
  bool Valid() const { return bytes.size() <= kMaxInlineFileBytes; }
};
struct AppendFileRequest {
  StocFileId file;
  Creator creator;
  uint64_t offset = 0;  // must be the file's end
  bool create = false;  // makes the file, at offset 0
  uint32_t crc = 0;     // of `bytes`
  std::string_view bytes;
  static auto Fields(auto& m) {
    return FieldList(m.file, m.creator, m.offset, m.create, m.crc, Apart(m.bytes));
  }
  bool Valid() const { return bytes.size() <= kMaxAppendBytes; }
};
struct ReadFileRequest {
  StocFileId file;
  uint64_t offset = 0;
  uint32_t size = 0;
  static auto Fields(auto& m) { return std::tie(m.file, m.offset, m.size); }
  bool Valid() const { return size <= kMaxReadBytes; }
};
struct AddReferencesRequest {
  RangeId range;
  Epoch epoch;
  std::vector<StocFileId> files;
  static auto Fields(auto& m) { return FieldList(m.range, m.epoch, AtMost(m.files, kMaxFilesOfReferences)); }
};
struct DropReferencesRequest {
  RangeId range;
  Epoch epoch;
  std::vector<StocFileId> files;
  uint64_t ended_below = 0;  // 0: whatever made them
  static auto Fields(auto& m) {
    return FieldList(m.range, m.epoch, AtMost(m.files, kMaxFilesOfReferences), Tail(m.ended_below));
  }
};
struct ListFilesRequest {
  RangeId range;
  Epoch epoch_below;
  StocFileId after = {};  // none: from the first
  static auto Fields(auto& m) { return FieldList(m.range, m.epoch_below, Tail(m.after)); }
};
struct ListFilesReply {
  std::vector<FileSummary> files;
  std::vector<StocFileId> damaged = {};  // of them (scrub, S6)
  static auto Fields(auto& m) { return FieldList(m.files, Tail(m.damaged)); }
};
// Whose fault a copy's failure is: another source, or another target, may do.
enum class CopyFault : uint8_t { kTarget = 0, kSource = 1 };
struct CopyFileRequest {
  StocFileId file;
  Creator creator;          // references the copy from then on
  StocId source;            // has the file
  Incarnation incarnation;  // of the source, as the caller knows it
  uint64_t size = 0;        // of the file; another is damage
  static auto Fields(auto& m) { return std::tie(m.file, m.creator, m.source, m.incarnation, m.size); }
  bool Valid() const { return size <= kMaxCopiedFileBytes; }
};
struct CopyFileReply {
  CopyFault fault = CopyFault::kTarget;
  static auto Fields(auto& m) { return std::tie(m.fault); }
  bool Valid() const { return fault <= CopyFault::kSource; }
};
struct ReadForCopyRequest {
  StocFileId file;
  uint64_t offset = 0;
  uint32_t size = 0;
  static auto Fields(auto& m) { return std::tie(m.file, m.offset, m.size); }
  bool Valid() const { return size <= kMaxCopyPieceBytes; }
};
struct ReadForCopyReply {
  uint64_t data_size = 0;  // of the whole file, by its header
  uint32_t data_crc = 0;   // the same
  std::string_view bytes;  // from the offset on; fewer than asked for at the end
  static auto Fields(auto& m) { return FieldList(m.data_size, m.data_crc, Apart(m.bytes)); }
};
struct ListUnreadableRequest {
  static auto Fields(auto&) { return std::tie(); }
};
struct ListUnreadableReply {
  std::vector<StocFileId> files;
  static auto Fields(auto& m) { return std::tie(m.files); }
};
struct DropUnreadableRequest {
  RangeId range;
  Epoch epoch;
  std::vector<StocFileId> files;
  static auto Fields(auto& m) { return FieldList(m.range, m.epoch, AtMost(m.files, kMaxFilesOfReferences)); }
};
// Where an output of a job goes: the StoCs of the copies of each of its fragments, and of its metadata.
struct TablePlace {
  std::vector<std::vector<StocId>> fragments;
  std::vector<StocId> metadata;
  static auto Fields(auto& m) { return std::tie(m.fragments, m.metadata); }
};
struct CompactRequest {
  Uuid attempt;                    // no two requests have the same
  Creator creator;                 // of the outputs' files
  std::vector<TablePlace> places;  // of the outputs, in turn; at least one
  uint32_t crc = 0;                // of `bytes`
  std::string_view bytes;          // of a CompactionJob
  static auto Fields(auto& m) {
    return FieldList(m.attempt, m.creator, AtMost(m.places, kMaxPlacesOfJob), m.crc, Apart(m.bytes));
  }
  bool Valid() const { return !places.empty() && bytes.size() <= kMaxJobBytes; }
};
struct CompactReply {
  uint32_t crc = 0;        // of `bytes`
  std::string_view bytes;  // of a CompactionResult
  static auto Fields(auto& m) { return FieldList(m.crc, Apart(m.bytes)); }
};
struct CancelJobRequest {
  RangeId range;
  Epoch epoch;
  Uuid attempt;
  static auto Fields(auto& m) { return std::tie(m.range, m.epoch, m.attempt); }
};
struct PingRequest {
  static auto Fields(auto&) { return std::tie(); }
};
struct PingReply {
  Incarnation incarnation;
  static auto Fields(auto& m) { return std::tie(m.incarnation); }
};

}  // namespace nova
