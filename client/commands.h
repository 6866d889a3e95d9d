// The commands of the `nova` tool that a client executes: of keys, checkpoints and the cluster; typed as
// arguments or
// in the shell.
//
//   Command chosen;
//   AddCommands(&app, &chosen);
//   if (const auto code = ParseWords(&app, words)) return *code;
//   return chosen(&session);
//
// Thread safety: none.   Ownership: a Command holds what was typed.
// Errors:        a Command prints one line on stderr and returns an exit code (client/exit_codes.h). One that
//                prints much ends early where stdout takes no more; EndOutput tells of it.
#pragma once

#include <functional>
#include <memory>

#include "client/client.h"
#include "client/command_line.h"

namespace nova {

// What commands act on.
struct Session {
  Client* client = nullptr;
  bool interactive = false;
  std::shared_ptr<const ClientSnapshot> snapshot = nullptr;  // reads are at it; null: now
};

using Command = std::function<int(Session*)>;

// Adds them to `app`. The one that is typed sets *chosen when it is parsed; *chosen outlives the parse.
void AddCommands(CLI::App* app, Command* chosen);

// --sync, of a command that writes.
void AddSync(CLI::App* command, WriteOptions* write);

// The exit code of a program whose commands ended with `code`: where not all that was printed has left it,
// kExitOk becomes kExitFailed, with one line on stderr unless nobody reads stdout any more.
int EndOutput(int code);

}  // namespace nova
