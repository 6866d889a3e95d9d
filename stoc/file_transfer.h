// FileTransfer: moves the bytes of files to StoCs, and of their memory from them, by WRITEs and READs of
// registered memory, which is bounded.
//
// Thread safety: from any thread that may wait.
// Ownership:     the StocCalls outlive it; data must stay valid until the call returns. Transfer memory is
//                held by what is under way, also when the Xchg has stopped (exposed memory, F4).
// Errors:        InvalidArgument: more than all transfer memory; DeadlineExceeded: waiting for it; else as
//                StocClient.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stoc/stoc_calls.h"

namespace nova {

class FileTransfer {
 public:
  FileTransfer(Fabric* fabric, size_t bytes, StocCalls* calls);

  // Several files, all copies at once; OK when all are everywhere.
  Status WriteAll(const std::vector<FileWrite>& files, const Creator& creator, Nanos deadline_ns);
  // One-sided (read, R3), of the start of the StoC that gave out the memory.
  StatusOr<std::string> ReadRemote(StocId stoc, Incarnation incarnation, const RemoteBuffer& memory,
                                   Nanos deadline_ns);

 private:
  struct Memory;
  struct Pieces;
  struct File;
  struct Copy;
  class CopyWriter;

  // Room for `bytes`, as soon as there is.
  StatusOr<std::shared_ptr<Pieces>> Take(size_t bytes, Nanos deadline_ns);
  // A file that is ready to be sent, with its checksum: as it is, or copied into transfer memory.
  StatusOr<std::shared_ptr<const File>> Prepare(const FileWrite& write, const Creator& creator,
                                                Nanos deadline_ns);
  // Appends the chunk of remote memory at `address` to `bytes`.
  Status ReadChunk(StocId stoc, Incarnation incarnation, const RemoteBuffer& chunk, Nanos deadline_ns,
                   std::string* bytes);

  StocCalls* const calls_;
  const std::shared_ptr<Memory> memory_;
};

}  // namespace nova
