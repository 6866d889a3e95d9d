#include "coordinator/grpc_log.h"

#include <grpc/support/log.h>

namespace nova {

void SilenceGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace nova
