// InstallGlog: sends NOVA_LOG through glog; for programs, before other threads start. glog's flags (--log_dir, --minloglevel,
// --logtostderr ...) apply; without a --log_dir it writes to stderr.
//
// Thread safety: once, from main.   Errors: none.
#pragma once

namespace nova {

void InstallGlog(const char* program);

}  // namespace nova
