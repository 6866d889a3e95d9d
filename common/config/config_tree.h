// ConfigTree: the znodes of a store that keeps them itself (memory, file), as plain data: reads, and
// all-or-nothing changes.
//
// Thread safety: none; the store has the lock.   Ownership: a value.
// Errors: as ConfigStore; FailedPrecondition: deleting a node with children, or creating one below an
//         ephemeral node.
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

// "/a/b": absolute, no empty, "." or ".." component, no NUL, no slash at the end; "/" is the root.
Status CheckConfigPath(std::string_view path);

class ConfigTree {
 public:
  using SessionId = uint64_t;  // 0: none

  StatusOr<Znode> Get(const std::string& path, SessionId reader) const;
  StatusOr<std::vector<std::string>> Children(const std::string& path) const;
  // All or nothing. Adds to `changed` every path whose node or list of children changed.
  Status Apply(const std::vector<ConfigOp>& ops, SessionId session, std::vector<std::string>* changed);
  // Removes the ephemeral nodes of `session`.
  void EndSession(SessionId session, std::vector<std::string>* changed);

  std::string Encode() const;
  static StatusOr<ConfigTree> Decode(std::string_view data);

 private:
  struct Node {
    std::string data;
    int64_t version = 0;
    int64_t created = 0;
    SessionId owner = 0;
  };
  bool HasChildren(const std::string& path) const;
  Status ApplyOne(const ConfigOp& op, SessionId session, std::vector<std::string>* changed);

  std::map<std::string, Node> nodes_;  // without the root
  int64_t last_transaction_ = 0;
};

}  // namespace nova
