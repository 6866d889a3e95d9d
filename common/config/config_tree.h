// ConfigTree: the znodes of a store that keeps them itself (memory, file), as plain data: reads, and changes
// that are made as a whole or not at all.
//
// Thread safety: none; the store has the lock.
// Ownership: a value.
// Errors: as ConfigStore; FailedPrecondition: deleting a node that has children, or creating one below an
//   ephemeral node.
//
// Encoded form (file_store; ephemeral nodes are left out, they end with their session):
//   "NOVACFG1" | fixed32 crc32c of the rest | varint64 last transaction id | varint32 count | nodes
//   node = lp path | lp data | varint64 version | varint64 created   (lp = length-prefixed; paths ascending)
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/config/config_store.h"

namespace nova {

// "/a/b": absolute, without empty, "." or ".." components, NUL, or a slash at the end; "/" is the root. Else
// InvalidArgument.
Status CheckConfigPath(std::string_view path);

class ConfigTree {
 public:
  using SessionId = uint64_t;  // 0: none

  // `reader` decides Znode::mine.
  StatusOr<Znode> Get(const std::string& path, SessionId reader) const;
  StatusOr<std::vector<std::string>> Children(const std::string& path) const;
  // Makes all changes or none. Adds to *changed every path whose node or list of children changed.
  Status Apply(const std::vector<ConfigOp>& ops, SessionId session, std::vector<std::string>* changed);
  // Removes the ephemeral nodes of `session`.
  void EndSession(SessionId session, std::vector<std::string>* changed);

  // See the head of this file. Of Decode, DataLoss: malformed.
  std::string Encode() const;
  static StatusOr<ConfigTree> Decode(std::string_view data);

 private:
  struct Node {
    std::string data;
    int64_t version = 0;
    int64_t created = 0;
    SessionId owner = 0;  // of an ephemeral node; 0: it is not
  };
  bool HasChildren(const std::string& path) const;
  // Checks one step, and makes it.
  Status ApplyOne(const ConfigOp& op, SessionId session, std::vector<std::string>* changed);

  std::map<std::string, Node> nodes_;  // by path, without the root
  int64_t last_transaction_ = 0;       // rises with each change
};

}  // namespace nova
