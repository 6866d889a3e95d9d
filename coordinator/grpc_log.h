// SilenceGrpcLog: gRPC writes no log lines of its own: what matters of them comes back as a Status.
//
// Thread safety: any thread, any number of times.
// Errors: none.
#pragma once

namespace nova {

void SilenceGrpcLog();

}  // namespace nova
