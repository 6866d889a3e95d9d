// CheckedStoc: a StoC as a check sees it: its lists of files, and their bytes. Nothing is ever changed.
//
//   LivingStoc   asks a StoC that runs, by the requests that owners use too: ListFiles and ReadFile. They
//                fence nothing, and name an epoch above all others, which a StoC takes no note of.
//   StoredStoc   reads the directory of one that does not run. What its journal has and the logs' files lack
//                is read as if it had been put back (log_journal.h). The list is that of the moment of Open.
//
// Thread safety: one thread.
// Ownership:     the StocClient, or the disk, outlives it.
// Errors:        Unavailable: it does not answer; NotFound: there is no such file; DataLoss: it cannot be
// read.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/disk.h"
#include "common/base/metrics.h"
#include "stoc/stoc_client.h"
#include "stoc/store_identity.h"
#include "stoc/stored_files.h"

namespace nova {

class CheckedStoc {
 public:
  virtual ~CheckedStoc() = default;
  virtual StocId id() const = 0;
  virtual std::string name() const = 0;  // for people
  // It has what was logged to the group at this member (log group change, L4; incarnation, N1).
  virtual bool Holds(const LogGroup& group, const LogMember& member) const = 0;
  // All files that the range references there, in order.
  virtual StatusOr<std::vector<FileSummary>> List(RangeId range) = 0;
  // Fewer bytes than `size` where the file ends.
  virtual StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint32_t size) = 0;
  // A file that no list shows, and why.
  struct Strange {
    std::string name;
    StocFileId file;  // as far as that is known
    RangeId range;    // likewise
    std::string why;  // for people
  };
  // Those that cannot be read, and those of other ranges than `ranges`. None of a StoC that runs: it lists by
  // range.
  virtual std::vector<Strange> StrangeFiles(const std::set<RangeId>& /*ranges*/) { return {}; }
};

// One that runs, asked by its requests.
class LivingStoc : public CheckedStoc {
 public:
  // `info`: as it is registered; the client knows it.
  LivingStoc(StocClient* client, NodeInfo info) : client_(client), info_(std::move(info)) {}

  StocId id() const override { return info_.stoc_id; }
  std::string name() const override { return info_.name; }
  bool Holds(const LogGroup& group, const LogMember& member) const override {
    return group.Holds(member, info_.incarnation, info_.store);
  }
  StatusOr<std::vector<FileSummary>> List(RangeId range) override;
  StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint32_t size) override;

 private:
  StocClient* const client_;
  const NodeInfo info_;
};

// The directory of one that does not run; nothing in it is changed.
class StoredStoc : public CheckedStoc {
 public:
  // `name`: for people, of the directory.
  static StatusOr<std::unique_ptr<StoredStoc>> Open(Disk* disk, std::string name);

  StocId id() const override { return identity_.stoc; }
  std::string name() const override { return name_; }
  const StoreIdentity& identity() const { return identity_; }
  // Its memory went with its process.
  bool Holds(const LogGroup& group, const LogMember& member) const override {
    return HasFiles(group.media) && member.store == identity_.store;
  }
  StatusOr<std::vector<FileSummary>> List(RangeId range) override;
  StatusOr<std::string> Read(const StocFileId& file, uint64_t offset, uint32_t size) override;
  std::vector<Strange> StrangeFiles(const std::set<RangeId>& ranges) override;

 private:
  StoredStoc(Disk* disk, std::string name, const StoreIdentity& identity);
  // A file, or a list of references, by its name in the directory.
  void Load(const std::string& name);
  // Takes in what the journal has, as if it had been put back.
  Status LoadJournal();

  Disk* const disk_;
  const std::string name_;
  const StoreIdentity identity_;
  Metrics metrics_;  // nobody reads them
  StoreDirectory directory_;
  StoredFiles files_;
  std::map<StocFileId, RangeId> creators_;  // of all files
  std::set<StocFileId> shared_;             // those that have a list of references
  std::vector<Strange> unreadable_;         // files and lists that cannot be read
  // What the journal has, of logs that are there: by place.
  std::map<StocFileId, std::map<uint64_t, std::string>> journaled_;
};

}  // namespace nova
