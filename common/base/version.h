// VersionText: which Nova this is: "0.1.0 (commit 05f36d4e1c2a)"; without the commit where it was built from
// no checkout of git. Each program shows it with --version.
//
// Thread safety: a constant.   Errors: none.
#pragma once

namespace nova {

const char* VersionText();

}  // namespace nova
