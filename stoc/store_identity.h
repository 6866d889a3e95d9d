// StoreIdentity: what the directory of a StoC is, from its formatting on: SUPERBLOCK, text. LOCK is held
// while a process uses the directory.
//
// Thread safety: none.   Ownership: none taken; the disk holds the lock.
// Errors:        FailedPrecondition: a later format; DataLoss: malformed; InvalidArgument: something else's
//                directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/disk.h"
#include "common/base/ids.h"
#include "common/base/status.h"

namespace nova {

inline constexpr uint32_t kStoreFormat = 1;

struct StoreIdentity {
  Uuid store;
  Uuid cluster;
  StocId stoc;  // 0: none is drawn yet
  bool operator==(const StoreIdentity&) const = default;
  std::string Encode() const;
  static StatusOr<StoreIdentity> Decode(std::string_view text);
};

// Takes the directory's lock and reads what it is; nullopt: empty, to be formatted.
StatusOr<std::optional<StoreIdentity>> LockStore(Disk* disk);
// Makes it that store, durably: first without a StoC id, then with the one that was drawn for it.
Status FormatStore(Disk* disk, const StoreIdentity& identity);
// Writes SUPERBLOCK anew where what the disk has of it, past the page cache, is not that; the lock is held.
// True: it did.
StatusOr<bool> HealIdentity(Disk* disk, const StoreIdentity& identity);

}  // namespace nova
