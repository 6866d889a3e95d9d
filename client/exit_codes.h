// ExitCode: how `nova` ends, for scripts. README.md and `nova --help` list them: do not renumber.
//
// Thread safety: plain values.   Errors: none.
#pragma once

namespace nova {

enum ExitCode {  // of commands; doctor and fsck have their own: README.md
  kExitOk = 0,
  kExitFailed = 1,           // a write that failed was certainly not applied; or output is lost
  kExitUsage = 2,            // wrong words, or a key or value that no cluster takes
  kExitUnknown = 3,          // a write was sent and not answered: it may be applied
  kExitNotFound = 4,         // no such key or checkpoint
  kExitConditionFailed = 5,  // cas found another value; there is such a checkpoint
};

}  // namespace nova
