// StocReader: all StoCs that a check can look at, and the rate at which it reads them.
//
// A StoC is asked where it runs, else its directory is read where one was given. One that did not answer is
// not asked again before the next look, so that a StoC that stands still costs one deadline and not one a
// file.
//
// Thread safety: one thread.
// Ownership:     the StocClient and what is stored outlive it.
// Errors:        as CheckedStoc; Unavailable also of a StoC that is not there.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/token_bucket.h"
#include "ltc/fsck/checked_stoc.h"

namespace nova {

class StocReader {
 public:
  static constexpr uint32_t kPieceBytes = 1 << 20;  // of one request

  // `client` may be null: nothing that runs is asked. `bytes_per_second` 0: no bound.
  StocReader(StocClient* client, std::vector<CheckedStoc*> stored, uint64_t bytes_per_second);

  // Begins a look, with the StoCs that are registered now.
  void Begin(const std::vector<NodeInfo>& registered);

  std::vector<CheckedStoc*> all() const;
  CheckedStoc* Find(StocId id) const;  // null: it is not there, or did not answer in this look
  // In pieces. Fewer bytes than `size` where the file ends.
  StatusOr<std::string> Read(StocId stoc, const StocFileId& file, uint64_t offset, uint64_t size);
  StatusOr<std::string> ReadAll(StocId stoc, const StocFileId& file) {
    return Read(stoc, file, 0, UINT64_MAX);
  }
  StatusOr<std::vector<FileSummary>> List(StocId stoc, RangeId range);
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  // Of what was asked of the StoC: it may be silent from now on.
  void Note(StocId stoc, const Status& status);
  // So many bytes were read: waits until the next ones may be.
  void Pace(uint64_t bytes);

  StocClient* const client_;
  const std::vector<CheckedStoc*> stored_;
  std::unique_ptr<TokenBucket> bucket_;  // null: no bound
  std::map<StocId, std::unique_ptr<LivingStoc>> living_;
  std::map<StocId, CheckedStoc*> stocs_;
  std::set<StocId> silent_;
  uint64_t bytes_read_ = 0;
};

}  // namespace nova
