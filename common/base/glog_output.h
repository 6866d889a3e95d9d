// InstallGlog: sends NOVA_LOG through glog; for programs. glog's flags (--log_dir, --minloglevel,
// --logtostderr ...) apply; without a --log_dir it writes to stderr. Each line is written to its file at
// once, so that a killed process leaves its last lines there, unless --logbuflevel or --logbufsecs has
// another value than glog's default.
//
// Thread safety: from main, before other threads start; again is fine.
// Errors: none.
#pragma once

namespace nova {

// `program`: argv[0]; names the log files.
void InstallGlog(const char* program);

}  // namespace nova
