// Shell: the commands of the `nova` tool on keys, from arguments or typed one a line.
//
// Thread safety: none.   Errors: each command prints one line on stderr and returns the exit code: 0, 1 (not found, failed), 2 (usage).
#pragma once

#include <string>
#include <vector>

#include "client/client.h"

namespace nova {

int RunCommand(Client* client, const std::vector<std::string>& words);
// Reads commands until end of file or `quit`; with line editing and history on a terminal.
int RunShell(Client* client);
const char* CommandHelp();

}  // namespace nova
