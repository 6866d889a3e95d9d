// Shell: the commands of the `nova` tool (client/commands.h), typed one a line.
//
// Thread safety: none.   Ownership: the session's client outlives it.
// Errors: each command prints one line on stderr.
#pragma once

#include "client/commands.h"

namespace nova {

// Reads commands until end of file or `quit`, or until stdout takes no more; with line editing and history on
// a terminal. The exit code: 0 of a terminal, else the last command's.
int RunShell(Session* session);

}  // namespace nova
