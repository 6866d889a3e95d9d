// Shell: the commands of the `nova` tool on keys, from arguments or typed one a line.
//
// Thread safety: none.   Ownership: the client outlives it.
// Errors: each command prints one line on stderr and returns the exit code: 0, 1 (not found, failed), 2
//         (usage).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/client.h"

namespace nova {

class Shell {
 public:
  // `write` is how all writes are done.
  explicit Shell(Client* client, const WriteOptions& write = {}) : client_(client), write_(write) {}
  int RunCommand(const std::vector<std::string>& words);
  // Reads commands until end of file or `quit`; with line editing and history on a terminal.
  int Run();

 private:
  int Put(const std::vector<std::string>& words);
  int CompareAndSwap(const std::vector<std::string>& words);
  int Batch(const std::vector<std::string>& words);
  int MultiGet(const std::vector<std::string>& words);
  int Scan(const std::vector<std::string>& words);
  int Checkpoint(const std::vector<std::string>& words);
  int TakeOrDrop(const std::string& which);

  Client* const client_;
  const WriteOptions write_;
  bool interactive_ = false;
  std::shared_ptr<const ClientSnapshot> snapshot_;  // reads are at it; null: now
};

const char* CommandHelp();

}  // namespace nova
