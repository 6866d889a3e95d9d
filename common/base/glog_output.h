// InstallGlog: sends NOVA_LOG through glog; for programs, before other threads start. glog's flags
// (--log_dir, --minloglevel, --logtostderr ...) apply; without a --log_dir it writes to stderr. Each line is
// written to its file at once, so that a process that is killed leaves its last ones there, unless
// --logbuflevel or --logbufsecs is another than glog's default.
//
// Thread safety: once, from main.   Errors: none.
#pragma once

namespace nova {

void InstallGlog(const char* program);

}  // namespace nova
