// RecordWalk: goes through the records of a manifest or a log by their lengths and checksums alone, and tells
// damage from a torn end (scrub, S6). For files of an earlier start of the StoC, of which nobody has kept a
// checksum.
//
// Both kinds of files are records that begin with u32 crc | u32 length (docs/formats.md, log record and
// manifest record); the crc is of the file's uuid and of all behind the crc. The length is that of the whole
// record in a log, and of what follows it in a manifest.
//
// A record that does not check is damage if one that does stands behind it, where its length says. Else it is
// taken for the torn end of what was written last: damage to the last record, and to a length, looks the same
// here, and is found by whoever reads the file together with its other copies (manifest, M1; log record, L1).
//
// Thread safety: none.   Ownership: none taken; no bytes are kept but those of a record's beginning.
// Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "stoc/file_header.h"
#include "stoc/written_prefix.h"

namespace nova {

class RecordWalk {
 public:
  // Of a file of kind kAppended or kLog with that owner.
  RecordWalk(FileHeader::Kind kind, const Uuid& owner);

  // The file's next bytes; pieces may be cut anywhere.
  void Take(std::string_view bytes);
  // The records that check, from the file's beginning up to the first that does not.
  const WrittenPrefix& whole() const { return whole_; }
  bool damaged() const { return damaged_; }

 private:
  // The length of the record that begins with these bytes; 0: none begins so.
  uint64_t LengthAt(std::string_view bytes) const;
  // A record begins with `begin_`. False: none begins so.
  bool Begin();
  // The record's last byte was taken.
  void End();

  const FileHeader::Kind kind_;
  const uint32_t salt_;    // checksum of the owner
  std::string begin_;      // crc and length of the record under way, as far as they were taken
  uint64_t left_ = 0;      // bytes of that record that are still to come
  uint32_t crc_ = 0;       // of what is here of that record
  WrittenPrefix reached_;  // whole(), and what is here of that record
  WrittenPrefix whole_;    // see whole()
  bool all_whole_ = true;  // no record has failed yet
  bool damaged_ = false;   // see damaged()
  bool ended_ = false;     // no record can begin where the next would
};

}  // namespace nova
